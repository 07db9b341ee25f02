"""Truncation: what lies below a depth becomes leaves that say what rows found there on average."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from hardwood._typing import Float, Int
from hardwood.errors import reject
from hardwood.forest import _predict, _subset
from hardwood.forest._inputs import matrix

if TYPE_CHECKING:
    from hardwood.forest._forest import Forest


def truncate(forest: Forest, max_depth: int, X: Any, sample_weight: Any = None) -> Forest:
    """Return the forest whose nodes at `max_depth` are leaves with the mean of what rows of `X` found below them."""
    from hardwood.forest._forest import LEAF

    if isinstance(max_depth, bool) or max_depth < 0:
        reject("max_depth", max_depth, "must be a number of splits, at least 0", "pass 0 for trees of one leaf")
    if forest.leaf_coef is not None:
        reject("forest", forest, "has linear leaves, whose mean depends on the row", "use a forest of constant leaves")
    table = matrix(forest, X)
    if len(table) == 0:
        reject("X", f"an array of shape {table.shape}", "has no rows", "pass the rows to take the means over")
    weight = _checked(sample_weight, len(table))
    if forest.depth <= max_depth:
        return forest

    leaf = np.flatnonzero(forest.kind == LEAF)
    under = leaf.copy()
    for _ in range(forest.depth - max_depth):
        deep = forest._node_depth[under] > max_depth
        under[deep] = forest._parent[under[deep]]
    share = _shares(forest, table, weight, under)

    def means(values: np.ndarray | None) -> np.ndarray | None:
        """Return what each node says: at nodes that are cut, the mean over the leaves below."""
        if values is None:
            return None
        columns = values.reshape(len(leaf), -1).T
        sums = [np.bincount(under, share * column, minlength=forest.node_count) for column in columns]
        result = np.stack(sums, axis=1).reshape(forest.node_count, *values.shape[1:])
        # A leaf that stays does not change, to the last bit.
        result[leaf] = values
        return result

    node_values, node_weights = means(forest.leaf_values), means(forest.leaf_weights)
    keep = np.flatnonzero(forest._node_depth <= max_depth)
    # One of the leaves below stands for a node that is cut.
    stand_in = np.arange(forest.node_count)
    stand_in[under] = leaf
    place = np.cumsum(forest._node_depth <= max_depth) - 1
    ends = forest.kind[stand_in[keep]] == LEAF

    def child(side: Int[np.ndarray, " nodes"]) -> Int[np.ndarray, " kept"]:
        return np.where(ends, -1, place[side[keep]])

    sizes = np.add.reduceat((forest._node_depth <= max_depth).astype(np.int64), forest.tree_start[:-1])
    cut = _subset.take(forest, stand_in[keep], child(forest.left), child(forest.right), sizes)
    assert node_values is not None
    return replace(
        cut,
        leaf_values=node_values[keep[ends]],
        leaf_weights=None if node_weights is None else node_weights[keep[ends]],
    )


def _shares(
    forest: Forest,
    table: Float[np.ndarray, "rows features"],
    weight: Float[np.ndarray, " rows"],
    under: Int[np.ndarray, " leaves"],
) -> Float[np.ndarray, " leaves"]:
    """Return the share of each leaf in the weight that comes to the node it is under; equal ones where none comes."""
    found = np.zeros(forest.node_count)
    step = max(1, (1 << 22) // forest.n_trees)
    for start in range(0, len(table), step):
        reached = _predict.leaf_nodes(forest, table[start : start + step])
        each = np.repeat(weight[start : start + step], forest.n_trees)
        found += np.bincount(reached.ravel(), each, minlength=forest.node_count)
    own = found[forest._leaf_index >= 0]
    total = np.bincount(under, own, minlength=forest.node_count)[under]
    equal = 1.0 / np.bincount(under, minlength=forest.node_count)[under]
    return np.where(total > 0, own / np.where(total > 0, total, 1.0), equal)


def _checked(sample_weight: Any, n_rows: int) -> Float[np.ndarray, " rows"]:
    """Return weights of at most 1, which cannot overflow in sums."""
    if sample_weight is None:
        return np.ones(n_rows)
    try:
        weight = np.asarray(sample_weight, np.float64)
    except (TypeError, ValueError):
        reject("sample_weight", sample_weight, "does not hold numbers", "pass one number per row")
    if weight.shape != (n_rows,):
        problem = f"must have shape ({n_rows},)"
        reject("sample_weight", f"an array of shape {weight.shape}", problem, "pass one weight per row")
    bad = ~np.isfinite(weight) | (weight < 0)
    if bad.any():
        where = int(np.argmax(bad))
        reject(f"sample_weight[{where}]", float(weight[where]), "is no weight", "pass finite numbers of at least 0")
    return weight / (weight.max() or 1.0)
