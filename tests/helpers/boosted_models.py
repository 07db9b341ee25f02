"""Rows that try the edges of boosted models' forests, and readers of their trees that are independent of the library's.

A reference walks a row down the tree that the other library prints, by the rule that the other library states. It is
checked against that library where it accepts the row, and stands in for it where it does not (infinities).
"""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np

from hardwood.forest import THRESHOLD, Forest
from helpers.sklearn_models import to_float32

Rng = np.random.Generator


def edge_rows(rng: Rng, forest: Forest, rows: int = 300, infinite: bool = True) -> np.ndarray:
    """Float64 rows on the thresholds, on float32 neighbours of them and halfway to those, NaN and infinities.

    Columns of categories get codes: those of the vocabulary, some beyond it, and NaN.
    """
    cuts = forest.threshold[forest.kind == THRESHOLD]
    cuts = cuts[np.isfinite(cuts)]
    single = to_float32(cuts)
    up, down = np.nextafter(single, np.float32(np.inf)), np.nextafter(single, np.float32(-np.inf))
    pool = np.concatenate([cuts, single, up, down, (single + up.astype(float)) / 2, (single + down.astype(float)) / 2])
    pool = np.concatenate([pool, np.nextafter(pool, np.inf), np.nextafter(pool, -np.inf), rng.normal(size=20)])
    pool = np.concatenate([pool, [0.0, -0.0, 1e-35, -1e-35, 3e38, -3e38], np.full(len(pool) // 4 + 1, np.nan)])
    if infinite:
        pool = np.concatenate([pool, [np.inf, -np.inf, 1e39, -1e39, 1e300, -1e300, 1.1e300]])
    X = rng.choice(pool, (rows, forest.n_features))
    for column, words in forest.categories.items():
        X[:, column] = rng.choice([*range(len(words)), np.nan], rows)
    return X


def xgboost_leaves(booster: Any, X: np.ndarray) -> np.ndarray:
    """Return XGBoost's number of the leaf that each row reaches in each tree, read from its JSON dump of nodes."""
    trees = [json.loads(text) for text in booster.get_dump(dump_format="json")]
    names = booster.feature_names or [f"f{column}" for column in range(X.shape[1])]
    return np.array([[_xgboost_leaf(tree, row, names) for tree in trees] for row in to_float32(X)])


def _xgboost_leaf(node: dict[str, Any], row: np.ndarray, names: list[str]) -> int:
    while "children" in node:
        cell = row[names.index(node["split"])]
        if math.isnan(cell):
            goal = node["missing"]
        elif isinstance(node["split_condition"], list):
            goal = node["yes"] if int(cell) in node["split_condition"] else node["no"]
        else:
            goal = node["yes"] if cell < np.float32(node["split_condition"]) else node["no"]
        node = next(child for child in node["children"] if child["nodeid"] == goal)
    return int(node["nodeid"])
