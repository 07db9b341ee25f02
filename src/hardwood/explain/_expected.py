"""What a forest is expected to say at each node: the mean over the rows that pass it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from hardwood._typing import Float, Int
from hardwood.errors import reject
from hardwood.forest import CATEGORIES, LEAF, OBLIQUE, THRESHOLD, Forest
from hardwood.forest._combine import softmax
from hardwood.forest._predict import leaf_nodes

_TOGETHER = 1 << 20  # the most numbers of shape (rows, trees) or (rows, features, outputs) at once


class Expected(NamedTuple):
    """Means over given rows."""

    value: Float[np.ndarray, "nodes outputs"]  # of what a node's tree says for the rows that pass the node
    cells: Float[np.ndarray, "leaves features"]  # of the cells that linear leaves multiply; no rows without such leaves


def reached(
    forest: Forest, table: Float[np.ndarray, "rows features"]
) -> Iterator[tuple[slice, Int[np.ndarray, "block trees"]]]:
    """Yield blocks of rows with the leaf, as its row of `leaf_values`, that each row reaches in each tree."""
    step = max(1, _TOGETHER // max(forest.n_trees, forest.n_features * forest.n_outputs))
    for start in range(0, len(table), step):
        block = slice(start, min(start + step, len(table)))
        yield block, forest._leaf_index[leaf_nodes(forest, table[block])]


def tree_weights(forest: Forest, leaf: Int[np.ndarray, "rows trees"]) -> Float[np.ndarray, "rows trees"]:
    """Return the weight of each tree for rows that reach these leaves."""
    if forest.leaf_weights is not None:
        return softmax(forest.leaf_weights[leaf])
    return np.full(leaf.shape, 1.0 if forest.combine == "sum" else 1.0 / forest.n_trees)


def expect(
    forest: Forest, table: Float[np.ndarray, "rows features"], share: Float[np.ndarray, " rows"], name: str = "X"
) -> Expected:
    """Return what each node's tree says on average over rows with the weights `share`, of sum 1.

    Where no row of any weight passes a node, its value is the mean of those of its two sides, and a linear leaf is
    taken at the mean cells of all rows. `name` is the argument that the rows came as.
    """
    mass = np.zeros(forest.n_leaves)
    cells = linear_cells(forest, table)
    if not np.isfinite(cells).all():
        remedy = "leave those rows out"
        reject(name, "an array", "has infinite cells that linear leaves multiply, so there is no mean", remedy)
    sums = np.zeros((forest.n_leaves if forest.leaf_coef is not None else 0, forest.n_features))
    for rows, leaf in reached(forest, table):
        weight = np.repeat(share[rows], forest.n_trees)
        mass += np.bincount(leaf.ravel(), weight, forest.n_leaves)
        for tree in range(forest.n_trees if len(sums) else 0):
            np.add.at(sums, leaf[:, tree], share[rows, None] * cells[rows])
    at_leaves = forest.leaf_values
    if forest.leaf_coef is not None:
        sums = np.where(mass[:, None] > 0, sums / np.maximum(mass, np.finfo(float).tiny)[:, None], share @ cells)
        at_leaves = at_leaves + np.einsum("lf,lfo->lo", sums, forest.leaf_coef)
    return Expected(_up(forest, at_leaves, mass), sums)


def linear_cells(forest: Forest, table: Float[np.ndarray, "rows features"]) -> Float[np.ndarray, "rows features"]:
    """Return the cells as linear leaves take them: a missing one is 0, and so is one that no leaf multiplies."""
    if forest.leaf_coef is None:
        return np.broadcast_to(0.0, table.shape)
    used = (forest.leaf_coef != 0).any(axis=(0, 2))
    return np.where(used & ~np.isnan(table), table, 0.0).astype(np.float64)


def leaf_slopes(
    forest: Forest,
    expected: Expected,
    leaf: Int[np.ndarray, " rows"],
    cells: Float[np.ndarray, "rows features"],
) -> Float[np.ndarray, "rows features outputs"]:
    """Return how far each column takes what linear leaves say away from their mean; `cells` are `linear_cells`."""
    assert forest.leaf_coef is not None
    coef = forest.leaf_coef[leaf]
    away = cells - expected.cells[leaf]
    with np.errstate(invalid="ignore", over="ignore"):
        return np.where(coef != 0, coef * away[:, :, None], 0.0)


def levels(forest: Forest) -> list[Int[np.ndarray, " nodes"]]:
    """Return the splits, grouped by how many stand above them, the deepest first."""
    splits = np.flatnonzero(forest.kind != LEAF)
    depth = forest._node_depth[splits]
    order = np.argsort(depth, kind="stable")
    return np.split(splits[order], np.cumsum(np.bincount(depth))[:-1])[::-1] if len(splits) else []


def sums_upwards(forest: Forest, leaves: Float[np.ndarray, " leaves"]) -> Float[np.ndarray, " nodes"]:
    """Return for each node the sum over the leaves below it."""
    total = np.zeros(forest.node_count)
    total[forest.kind == LEAF] = leaves
    for level in levels(forest):
        total[level] = total[forest.left[level]] + total[forest.right[level]]
    return total


def _up(
    forest: Forest, at_leaves: Float[np.ndarray, "leaves outputs"], mass: Float[np.ndarray, " leaves"]
) -> Float[np.ndarray, "nodes outputs"]:
    weight = sums_upwards(forest, mass)
    value = np.zeros((forest.node_count, forest.n_outputs))
    value[forest.kind == LEAF] = at_leaves
    for level in levels(forest):
        left, right = forest.left[level], forest.right[level]
        both = weight[left] + weight[right]
        part = np.where(both > 0, weight[left] / np.where(both > 0, both, 1.0), 0.5)[:, None]
        value[level] = part * value[left] + (1.0 - part) * value[right]
    return value


class SplitColumns(NamedTuple):
    """Which columns splits are about: entry by entry a split, a column, and the column's share in the split."""

    node: Int[np.ndarray, " entries"]
    column: Int[np.ndarray, " entries"]
    share: Float[np.ndarray, " entries"]


def split_columns(
    forest: Forest, table: Float[np.ndarray, "rows features"], share: Float[np.ndarray, " rows"]
) -> SplitColumns:
    """Return the columns of all splits.

    An oblique split is shared out in proportion to each column's weight times its standard deviation, both without
    sign and unit; equally, where all these are 0.
    """
    single = np.flatnonzero((forest.kind == THRESHOLD) | (forest.kind == CATEGORIES))
    alone = SplitColumns(single, forest.feature[single].astype(np.int64), np.ones(len(single)))
    if not (forest.kind == OBLIQUE).any():
        return alone
    assert forest.weight_start is not None and forest.weight_feature is not None and forest.weight_value is not None
    count = np.diff(forest.weight_start)
    owner = np.repeat(np.arange(forest.node_count), count)
    column = forest.weight_feature.astype(np.int64)
    size = np.abs(forest.weight_value) * _spread(table, share)[column]
    whole = np.bincount(owner, size, forest.node_count)[owner]
    part = np.where(whole > 0, size / np.where(whole > 0, whole, 1.0), 1.0 / count[owner])
    return SplitColumns(*(np.concatenate(pair) for pair in zip(alone, (owner, column, part), strict=True)))


def _spread(
    table: Float[np.ndarray, "rows features"], share: Float[np.ndarray, " rows"]
) -> Float[np.ndarray, " features"]:
    """Return the standard deviation of each column's finite cells; 0 where there are none."""
    finite = np.isfinite(table)
    cells = np.where(finite, table, 0.0).astype(np.float64)
    largest = np.abs(cells).max(axis=0)
    cells /= np.where(largest > 0, largest, 1.0)  # the squares of large cells are finite then
    weight = share[:, None] * finite
    whole = np.maximum(weight.sum(axis=0), np.finfo(float).tiny)
    mean = (weight * cells).sum(axis=0) / whole
    return largest * np.sqrt((weight * np.where(finite, cells - mean, 0.0) ** 2).sum(axis=0) / whole)
