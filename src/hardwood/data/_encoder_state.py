"""A `TableEncoder` as arrays and JSON, and back: what it learned, for files without pickle."""

from __future__ import annotations

from typing import Any

import numpy as np

from hardwood._typing import Shaped
from hardwood.data._categories import CategoryCells
from hardwood.data._columns import Columns
from hardwood.data._encoder import TableEncoder
from hardwood.data._monotone import Identity, Monotone, Standard
from hardwood.data._quantile import Quantile

Arrays = dict[str, Shaped[np.ndarray, "..."]]
_SETTINGS = (
    "numeric", "n_quantiles", "noise", "one_hot_max_size", "task", "smoothing", "n_folds", "seed",
)  # fmt: skip


def encoder_state(encoder: TableEncoder) -> tuple[dict[str, Any], Arrays]:
    """Return a fitted encoder as a JSON document and arrays."""
    columns, parts = encoder._fitted()
    described: list[dict[str, Any]] = []
    arrays: Arrays = {}
    for number, part in enumerate(parts):
        if isinstance(part, CategoryCells):
            described.append({"kind": "categories", "names": list(part.names)})
            arrays[f"{number}.values"] = part.values
        elif isinstance(part, Quantile):
            described.append({"kind": "quantile"})
            arrays[f"{number}.knots"], arrays[f"{number}.levels"] = part.knots, part.levels
        elif isinstance(part, Standard):
            described.append({"kind": "standard", "mean": part.mean, "scale": part.scale})
        else:
            described.append({"kind": "identity"})
    words = [None if each is None else list(each) for each in columns.vocabularies]
    document = {
        "settings": {name: getattr(encoder, name) for name in _SETTINGS},
        "names": None if columns.names is None else list(columns.names),
        "types": list(columns.types),
        "vocabularies": words,
        "parts": described,
    }
    return document, arrays


def encoder_from_state(document: dict[str, Any], arrays: Arrays) -> TableEncoder:
    """Return the encoder that `encoder_state` described; a document of another kind raises KeyError or the like."""
    encoder = TableEncoder(**document["settings"])
    parts: list[Monotone | CategoryCells] = []
    for number, part in enumerate(document["parts"]):
        kind = part["kind"]
        if kind == "categories":
            parts.append(CategoryCells(arrays[f"{number}.values"], tuple(part["names"])))
        elif kind == "quantile":
            parts.append(Quantile(arrays[f"{number}.knots"], arrays[f"{number}.levels"]))
        elif kind == "standard":
            parts.append(Standard(part["mean"], part["scale"]))
        elif kind == "identity":
            parts.append(Identity())
        else:
            raise ValueError(f"a column's map is of the unknown kind {kind!r}")
    names, vocabularies = document["names"], document["vocabularies"]
    encoder.columns = Columns(
        None if names is None else tuple(names),
        tuple(document["types"]),
        tuple(None if each is None else tuple(each) for each in vocabularies),
    )
    encoder._parts = tuple(parts)
    if not len(parts) == len(vocabularies) == len(encoder.columns):
        raise ValueError("the columns' maps, types and vocabularies are not equally many")
    return encoder
