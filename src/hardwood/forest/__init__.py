"""The hard forest: an immutable value that predicts, explains itself, and is stored without pickle."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from hardwood.forest._forest import CATEGORIES as CATEGORIES
from hardwood.forest._forest import LEAF as LEAF
from hardwood.forest._forest import OBLIQUE as OBLIQUE
from hardwood.forest._forest import THRESHOLD as THRESHOLD
from hardwood.forest._forest import Forest as Forest

if TYPE_CHECKING:
    from hardwood.forest._foreign import forest_of as forest_of
    from hardwood.forest._lightgbm import from_lightgbm as from_lightgbm
    from hardwood.forest._persist import load as load
    from hardwood.forest._sklearn import from_sklearn as from_sklearn
    from hardwood.forest._xgboost import from_xgboost as from_xgboost

# Public name -> the module that holds it, imported on first use: a forest that only predicts needs neither.
_HOMES = {
    "load": "_persist",
    "forest_of": "_foreign",
    "from_lightgbm": "_lightgbm",
    "from_sklearn": "_sklearn",
    "from_xgboost": "_xgboost",
}

__all__ = [
    "CATEGORIES",
    "LEAF",
    "OBLIQUE",
    "THRESHOLD",
    "Forest",
    "forest_of",
    "from_lightgbm",
    "from_sklearn",
    "from_xgboost",
    "load",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'hardwood.forest' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"hardwood.forest.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
