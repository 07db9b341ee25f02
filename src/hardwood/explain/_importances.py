"""How much a forest's answers depend on each column, along the paths of given rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from hardwood._typing import Float
from hardwood.explain._checks import check_rows, check_weights
from hardwood.explain._expected import (
    expect,
    leaf_slopes,
    linear_cells,
    reached,
    split_columns,
    sums_upwards,
    tree_weights,
)
from hardwood.forest import LEAF, Forest


def importances(forest: Forest, X: Any, sample_weight: Any = None) -> Float[np.ndarray, " features"]:
    """Return how much the outputs change by the splits on each column along the rows' paths, as shares that sum to 1.

    Passing a split changes the expected value of its tree, the weighted mean of what the tree says over the rows of `X`
    that are still with the row. The change's size, over all outputs, counts for the split's column, weighed by the
    tree's weight for the row, and is averaged over the rows. (With a softmax link, what changes all outputs alike
    changes no prediction and does not count.) Oblique splits and linear leaves are shared out as in `contributions`.
    Where nothing changes anything all shares are 0.
    """
    table = check_rows(forest, X)
    share = check_weights(sample_weight, len(table))
    expected = expect(forest, table, share)
    cells = linear_cells(forest, table)
    total = np.zeros(forest.n_features)
    weight_at = np.zeros(forest.n_leaves)  # of the rows that reach a leaf, times the tree's weight
    for rows, leaf in reached(forest, table):
        weight = share[rows, None] * tree_weights(forest, leaf)
        weight_at += np.bincount(leaf.ravel(), weight.ravel(), forest.n_leaves)
        for tree in range(forest.n_trees if forest.leaf_coef is not None else 0):
            slopes = leaf_slopes(forest, expected, leaf[:, tree], cells[rows])
            total += weight[:, tree] @ _sizes(forest, slopes)

    passing = sums_upwards(forest, weight_at)
    splits = np.flatnonzero(forest.kind != LEAF)
    changes = np.zeros(forest.node_count)
    for side in (forest.left[splits], forest.right[splits]):
        changes[splits] += passing[side] * _sizes(forest, expected.value[side] - expected.value[splits])
    columns = split_columns(forest, table, share)
    total += np.bincount(columns.column, changes[columns.node] * columns.share, forest.n_features)
    return total / total.sum() if total.any() else total


def _sizes(forest: Forest, change: Float[np.ndarray, "... outputs"]) -> Float[np.ndarray, "..."]:
    """Return the size of changes of the outputs, added up over outputs."""
    if forest.link == "softmax":
        change = change - change.mean(axis=-1, keepdims=True)
    return np.abs(change).sum(axis=-1)
