"""A forest as the explorer page holds it: its arrays bit for bit, its words made safe to show."""

from __future__ import annotations

import base64
import math
import zlib
from typing import Any, Literal

import numpy as np

from hardwood._typing import Shaped
from hardwood.draw._colour import class_colour
from hardwood.draw._label import visible
from hardwood.forest import Forest

Stored = Literal["f8", "i4", "u1"]

_COLOURS = 10


def packed(values: Any, stored: Stored) -> dict[str, Any]:
    """Return an array as a page holds it: little-endian, compressed, in base64.

    First come the first bytes of all numbers, then all second bytes, and so on. Neighbours are alike then, which halves
    what is left of thresholds that were learned in float32.
    """
    array = np.ascontiguousarray(values).astype(f"<{stored}").ravel()
    by_place = array.view(np.uint8).reshape(len(array), -1).T.tobytes() if len(array) else b""
    data = base64.b64encode(zlib.compress(by_place, 9)).decode("ascii")
    return {"stored": stored, "length": len(array), "data": data}


def finite(value: float) -> float | None:
    """Return a number as JSON can hold it: None where it is not finite.

    >>> finite(0.5), finite(float("nan"))
    (0.5, None)
    """
    return float(value) if math.isfinite(value) else None


def column_names(forest: Forest) -> list[str]:
    """Return the name of each column on one line, x[0], x[1] and so on where there are none."""
    if forest.feature_names is None:
        return [f"x[{column}]" for column in range(forest.n_features)]
    return [visible(name) for name in forest.feature_names]


def class_names(forest: Forest) -> list[str] | None:
    """Return the label of each class on one line."""
    return None if forest.classes is None else [visible(str(label)) for label in forest.classes.tolist()]


def describe_forest(forest: Forest) -> dict[str, Any]:
    """Return everything of a forest that routing, predicting and naming take."""
    types = forest.feature_types or ("float",) * forest.n_features
    features = []
    for column, (name, kind) in enumerate(zip(column_names(forest), types, strict=True)):
        words = forest.categories.get(column)
        entry: dict[str, Any] = {"name": name, "type": kind if words is None else "category"}
        if words is not None:
            entry["words"] = [visible(str(word)) for word in words]
        features.append(entry)
    nodes = np.arange(forest.node_count)
    arrays = {
        "tree_start": packed(forest.tree_start, "i4"),
        "kind": packed(forest.kind, "u1"),
        # How far a child stands behind its parent repeats itself, so it takes less room than where it stands.
        "left": packed(np.where(forest.left >= 0, forest.left - nodes, 0), "i4"),
        "right": packed(np.where(forest.right >= 0, forest.right - nodes, 0), "i4"),
        "feature": packed(forest.feature, "i4"),
        "threshold": packed(forest.threshold, "f8"),
        "missing_left": packed(forest.missing_left, "u1"),
        "leaf_values": packed(forest.leaf_values, "f8"),
    }
    optional: dict[str, tuple[Shaped[np.ndarray, "..."] | None, Stored]] = {
        "category_start": (forest.category_start, "i4"),
        "category_codes": (forest.category_codes, "i4"),
        "weight_start": (forest.weight_start, "i4"),
        "weight_feature": (forest.weight_feature, "i4"),
        "weight_value": (forest.weight_value, "f8"),
        "leaf_weights": (forest.leaf_weights, "f8"),
        "leaf_coef": (forest.leaf_coef, "f8"),
        "base": (forest.base, "f8"),
    }
    arrays |= {name: packed(array, stored) for name, (array, stored) in optional.items() if array is not None}
    outputs = forest.output_names
    return {
        "n_outputs": forest.n_outputs,
        "combine": forest.combine,
        "link": forest.link,
        "features": features,
        "classes": class_names(forest),
        "outputs": None if outputs is None else [visible(name) for name in outputs],
        "colours": [class_colour(index) for index in range(_COLOURS)],
        "arrays": arrays,
    }
