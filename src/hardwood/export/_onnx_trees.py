"""The splits of a forest as the attributes of ONNX's `TreeEnsemble` (ai.onnx.ml, version 5).

Splits and leaves are numbered apart there. A leaf adds one number to one target; a tree that is one leaf is written as
a split with the leaf on both sides.

A row goes to the "true" side when the node's test holds, and where the cell is missing, as the node says. True is left,
except for category splits whose `code_set` goes right. A missing value is in no set.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from hardwood._typing import Float, Int
from hardwood.export._categories import code_set
from hardwood.forest import CATEGORIES, LEAF, OBLIQUE, Forest

_LESS, _MEMBER = 1, 6  # BRANCH_LT and BRANCH_MEMBER
_SUM = 1


class LeafOutput(NamedTuple):
    """What each leaf says: one number, for one of the targets."""

    target: Int[np.ndarray, " leaves"]
    value: Float[np.ndarray, " leaves"]
    n_targets: int


def attributes(forest: Forest, leaves: LeafOutput, dtype: type[np.floating[Any]]) -> dict[str, Any]:
    """Return the attributes of a `TreeEnsemble` node for inputs of one type.

    Oblique split number k reads column `n_features + k`, which holds 0 for left, 1 for right, NaN for missing. Category
    splits read the columns after these: the `coded_columns`, in which a fraction is missing.
    """
    from onnx import numpy_helper

    split = np.flatnonzero(forest.kind != LEAF)
    stump = np.flatnonzero(forest.kind[forest.tree_start[:-1]] == LEAF)  # trees that are one leaf
    # Node -> its number among the splits or among the leaves.
    number = np.where(forest.kind == LEAF, np.cumsum(forest.kind == LEAF), np.cumsum(forest.kind != LEAF)) - 1
    kind, feature = forest.kind[split], forest.feature[split].astype(np.int64)
    feature[kind == OBLIQUE] = forest.n_features + np.arange((kind == OBLIQUE).sum())
    coded = coded_columns(forest)
    by_category = kind == CATEGORIES
    behind = forest.n_features + np.count_nonzero(kind == OBLIQUE)
    column = np.where(by_category, behind + np.searchsorted(coded, feature), feature)
    threshold = np.where(kind == OBLIQUE, 0.5, forest.threshold[split])
    true, false = forest.left[split].astype(np.int64), forest.right[split].astype(np.int64)
    missing_true = forest.missing_left[split].astype(np.int64)
    mode = np.full(len(split), _LESS, np.uint8)
    members: list[Float[np.ndarray, " codes"]] = []
    for place in np.flatnonzero(by_category).tolist():
        codes, go_right = code_set(forest, int(split[place]))
        missing_true[place] = 0
        if go_right:
            true[place], false[place] = false[place], true[place]
        if len(codes) == 0:
            threshold[place] = -np.inf  # nothing is in an empty set, and nothing below this
            continue
        mode[place] = _MEMBER
        members.append(np.append(codes.astype(dtype), dtype(np.nan)))  # NaN ends a node's set

    # Trees of one leaf come last among the splits: column 0 is compared, and both sides are the leaf.
    alone = forest.tree_start[stump]
    true, false = np.concatenate([true, alone]), np.concatenate([false, alone])
    roots = number[forest.tree_start[:-1]]
    roots[stump] = len(split) + np.arange(len(stump))

    def extended(values: np.ndarray) -> np.ndarray:
        return np.concatenate([values, np.zeros(len(stump), values.dtype)])

    mode = np.concatenate([mode, np.full(len(stump), _LESS, np.uint8)])
    result: dict[str, Any] = {
        "aggregate_function": _SUM,
        "post_transform": 0,
        "n_targets": leaves.n_targets,
        "tree_roots": roots.tolist(),
        "nodes_featureids": extended(column).tolist(),
        "nodes_modes": numpy_helper.from_array(mode, "modes"),
        "nodes_splits": numpy_helper.from_array(least_not_below(extended(threshold), dtype), "splits"),
        "nodes_truenodeids": number[true].tolist(),
        "nodes_trueleafs": (forest.kind[true] == LEAF).astype(np.int64).tolist(),
        "nodes_falsenodeids": number[false].tolist(),
        "nodes_falseleafs": (forest.kind[false] == LEAF).astype(np.int64).tolist(),
        "nodes_missing_value_tracks_true": extended(missing_true).tolist(),
        "leaf_targetids": leaves.target.tolist(),
        "leaf_weights": numpy_helper.from_array(leaves.value.astype(dtype), "weights"),
    }
    if members:
        result["membership_values"] = numpy_helper.from_array(np.concatenate(members), "members")
    return result


def coded_columns(forest: Forest) -> Int[np.ndarray, " columns"]:
    """Return the columns that are split by category, ascending."""
    return np.unique(forest.feature[forest.kind == CATEGORIES]).astype(np.int64)


def least_not_below(
    threshold: Float[np.ndarray, " nodes"], dtype: type[np.floating[Any]]
) -> Float[np.ndarray, " nodes"]:
    """Return t' of a type so that `x < t'` is `x < threshold` for every x of that type."""
    with np.errstate(over="ignore", under="ignore"):
        rounded = threshold.astype(dtype)
        return np.where(rounded < threshold, np.nextafter(rounded, dtype(np.inf)), rounded)
