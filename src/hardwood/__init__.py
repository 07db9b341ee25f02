"""Hard decision trees learned by gradient descent."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

# Public name -> the module that holds it. Nothing is imported before it is used: `import hardwood` loads no torch.
_HOMES = {
    "Forest": "hardwood.forest",
    "load": "hardwood.forest",
    "from_sklearn": "hardwood.forest",
}
_ROOMS = ("data", "draw", "errors", "forest", "nn", "ops", "train")

if TYPE_CHECKING:
    from hardwood import data, draw, errors, forest, nn, ops, train
    from hardwood.forest import Forest, from_sklearn, load

__all__ = ["Forest", "__version__", "data", "draw", "errors", "forest", "from_sklearn", "load", "nn", "ops", "train"]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = getattr(importlib.import_module(_HOMES[name]), name)
    elif name in _ROOMS:
        value = importlib.import_module(f"hardwood.{name}")
    else:
        raise AttributeError(f"module 'hardwood' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
