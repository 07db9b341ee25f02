"""A forest in the formats of others: every one exact, or refused with a reason.

`supported()` is the table of what each format holds.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hardwood.export._c import to_c as to_c
    from hardwood.export._card import model_card as model_card
    from hardwood.export._json import from_json as from_json
    from hardwood.export._json import to_json as to_json
    from hardwood.export._onnx import to_onnx as to_onnx
    from hardwood.export._python import to_python as to_python
    from hardwood.export._shap import shap_values as shap_values
    from hardwood.export._shap import to_shap as to_shap
    from hardwood.export._sklearn import to_sklearn as to_sklearn
    from hardwood.export._sql import to_sql as to_sql
    from hardwood.export._support import check as check
    from hardwood.export._support import supported as supported
    from hardwood.export._treelite import to_treelite as to_treelite

# Public name -> the module that holds it, imported on first use.
_HOMES = {
    "check": "_support",
    "from_json": "_json",
    "model_card": "_card",
    "shap_values": "_shap",
    "supported": "_support",
    "to_c": "_c",
    "to_json": "_json",
    "to_onnx": "_onnx",
    "to_python": "_python",
    "to_shap": "_shap",
    "to_sklearn": "_sklearn",
    "to_sql": "_sql",
    "to_treelite": "_treelite",
}

__all__ = [
    "check",
    "from_json",
    "model_card",
    "shap_values",
    "supported",
    "to_c",
    "to_json",
    "to_onnx",
    "to_python",
    "to_shap",
    "to_sklearn",
    "to_sql",
    "to_treelite",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'hardwood.export' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"hardwood.export.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
