"""Hard decision trees learned by gradient descent."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

# Public name -> the module that holds it. Nothing is imported before it is used: `import hardwood` loads no torch.
_HOMES = {
    "Forest": "hardwood.forest",
    "load": "hardwood.forest",
    "forest_of": "hardwood.forest",
    "from_lightgbm": "hardwood.forest",
    "from_sklearn": "hardwood.forest",
    "from_xgboost": "hardwood.forest",
    "GetClassifier": "hardwood.estimators",
    "GetRegressor": "hardwood.estimators",
    "GradTreeClassifier": "hardwood.estimators",
    "GradTreeRegressor": "hardwood.estimators",
    "GrandeClassifier": "hardwood.estimators",
    "GrandeRegressor": "hardwood.estimators",
    "LatentTreeClassifier": "hardwood.estimators",
    "LatentTreeClustering": "hardwood.estimators",
    "LatentTreeRegressor": "hardwood.estimators",
    "MultimodalClassifier": "hardwood.estimators",
    "MultimodalRegressor": "hardwood.estimators",
}
_ROOMS = ("data", "draw", "errors", "estimators", "explain", "export", "forest", "nn", "oblique", "ops", "rl", "train")

if TYPE_CHECKING:
    from hardwood import data, draw, errors, estimators, explain, export, forest, nn, oblique, ops, rl, train
    from hardwood.estimators import (
        GetClassifier,
        GetRegressor,
        GradTreeClassifier,
        GradTreeRegressor,
        GrandeClassifier,
        GrandeRegressor,
        LatentTreeClassifier,
        LatentTreeClustering,
        LatentTreeRegressor,
        MultimodalClassifier,
        MultimodalRegressor,
    )
    from hardwood.forest import Forest, forest_of, from_lightgbm, from_sklearn, from_xgboost, load

__all__ = [
    "Forest",
    "GetClassifier",
    "GetRegressor",
    "GradTreeClassifier",
    "GradTreeRegressor",
    "GrandeClassifier",
    "GrandeRegressor",
    "LatentTreeClassifier",
    "LatentTreeClustering",
    "LatentTreeRegressor",
    "MultimodalClassifier",
    "MultimodalRegressor",
    "__version__",
    "data",
    "draw",
    "errors",
    "estimators",
    "explain",
    "export",
    "forest",
    "forest_of",
    "from_lightgbm",
    "from_sklearn",
    "from_xgboost",
    "load",
    "nn",
    "oblique",
    "ops",
    "rl",
    "train",
]


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
