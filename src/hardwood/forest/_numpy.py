"""Prediction with NumPy alone: where numba cannot be had, and as an independent check of the compiled kernels.

All rows and trees of a block take one step down at a time: rows x trees x depth steps, each a few NumPy operations.
The results are those of the kernels, to the last bit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hardwood._typing import Bool, Float, Int
from hardwood.forest._combine import start_sums, summands

if TYPE_CHECKING:
    from hardwood.forest._forest import Forest

# The most rows times trees that go down together: the working arrays stay in the cache.
_TOGETHER = 1 << 17


def leaves(forest: Forest, X: Float[np.ndarray, "rows features"]) -> Int[np.ndarray, "rows trees"]:
    """Return the leaf, as its row of `leaf_values`, that each row reaches in each tree."""
    found = np.empty((len(X), forest.n_trees), np.int64)
    step = max(1, _TOGETHER // forest.n_trees)
    for start in range(0, len(X), step):
        found[start : start + step] = forest._leaf_index[_route(forest, X[start : start + step])]
    return found


def sums(forest: Forest, X: Float[np.ndarray, "rows features"]) -> Float[np.ndarray, "rows summands"]:
    """Return the sums over trees of what the reached leaves add, tree after tree."""
    values, coef = summands(forest)
    total = start_sums(forest, len(X), values.shape[1])
    step = max(1, _TOGETHER // forest.n_trees)
    for start in range(0, len(X), step):
        rows = X[start : start + step]
        reached = forest._leaf_index[_route(forest, rows)]
        for tree in range(forest.n_trees):
            with np.errstate(invalid="ignore", over="ignore"):
                total[start : start + step] += leaf_outputs(values, coef, reached[:, tree], rows)
    return total


def leaf_outputs(
    values: Float[np.ndarray, "leaves summands"],
    coef: Float[np.ndarray, "leaves features summands"] | None,
    leaf: Int[np.ndarray, " rows"],
    X: Float[np.ndarray, "rows features"],
) -> Float[np.ndarray, "rows summands"]:
    """Return what one leaf per row says: its constant and, for linear leaves, its terms in column order."""
    total = values[leaf]
    if coef is None:
        return total
    for column in range(X.shape[1]):
        slope = coef[leaf, column]
        cell = X[:, column, None].astype(np.float64)
        with np.errstate(invalid="ignore", over="ignore"):
            total += np.where((slope != 0) & ~np.isnan(cell), slope * cell, 0.0)
    return total


def _route(forest: Forest, X: Float[np.ndarray, "rows features"]) -> Int[np.ndarray, "rows trees"]:
    """Return the leaf node that each row reaches in each tree."""
    from hardwood.forest._forest import CATEGORIES, LEAF, OBLIQUE, THRESHOLD

    at = np.tile(forest.tree_start[:-1], len(X))
    row = np.repeat(np.arange(len(X)), forest.n_trees)
    for _ in range(forest.depth):
        kind = forest.kind[at]
        left = np.zeros(len(at), bool)
        missing = np.zeros(len(at), bool)
        for each, decide in ((THRESHOLD, _threshold), (CATEGORIES, _categories), (OBLIQUE, _oblique)):
            here = np.flatnonzero(kind == each)
            if len(here):
                left[here], missing[here] = decide(forest, X, row[here], at[here])
        left = np.where(missing, forest.missing_left[at], left)
        at = np.where(kind == LEAF, at, np.where(left, forest.left[at], forest.right[at]))
    return at.reshape(len(X), forest.n_trees)


_Decision = tuple[Bool[np.ndarray, " pairs"], Bool[np.ndarray, " pairs"]]


def _threshold(
    forest: Forest,
    X: Float[np.ndarray, "rows features"],
    row: Int[np.ndarray, " pairs"],
    node: Int[np.ndarray, " pairs"],
) -> _Decision:
    """Tell for pairs of a row and a threshold split whether the row goes left, and whether its cell is missing."""
    cell = X[row, forest.feature[node]]
    return cell < forest.threshold[node], np.isnan(cell)


def _categories(
    forest: Forest,
    X: Float[np.ndarray, "rows features"],
    row: Int[np.ndarray, " pairs"],
    node: Int[np.ndarray, " pairs"],
) -> _Decision:
    """The same for category splits: a node's codes are found by searching all nodes' codes, which rise."""
    assert forest.category_start is not None and forest.category_codes is not None
    vocabulary = np.zeros(forest.n_features)
    for column, words in forest.categories.items():
        vocabulary[column] = len(words)
    cell = X[row, forest.feature[node]].astype(np.float64)
    known = (cell >= 0) & (cell < vocabulary[forest.feature[node]]) & (cell == np.floor(cell))
    width = int(vocabulary.max()) + 1
    owner = np.repeat(np.arange(forest.node_count), np.diff(forest.category_start))
    keys = owner * width + forest.category_codes
    key = node * width + np.where(known, cell, width - 1).astype(np.int64)
    return np.isin(key, keys), ~known


def _oblique(
    forest: Forest,
    X: Float[np.ndarray, "rows features"],
    row: Int[np.ndarray, " pairs"],
    node: Int[np.ndarray, " pairs"],
) -> _Decision:
    """The same for oblique splits, adding up the k-th terms of all pairs, for one k after another."""
    assert forest.weight_start is not None and forest.weight_feature is not None and forest.weight_value is not None
    first = forest.weight_start[node]
    count = forest.weight_start[node + 1] - first
    total = np.zeros(len(node))
    missing = np.zeros(len(node), bool)
    for k in range(int(count.max())):
        has = np.flatnonzero(count > k)
        term = first[has] + k
        cell = X[row[has], forest.weight_feature[term]].astype(np.float64)
        with np.errstate(invalid="ignore", over="ignore"):
            total[has] += forest.weight_value[term] * cell
        missing[has] |= np.isnan(cell)
    return total < forest.threshold[node], missing
