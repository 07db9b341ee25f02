# mypy: allow-untyped-defs, allow-untyped-calls
"""CPU kernel of monotone leaves: `forest._leaf_order` over many complete trees."""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np

from hardwood._numba import exact_kernel
from hardwood._typing import Bool, Float, Int
from hardwood.forest._leaf_order import Tree, bound_leaves


class Complete(NamedTuple):
    """The shape that complete trees of one depth have in common."""

    left: Int[np.ndarray, " nodes"]
    right: Int[np.ndarray, " nodes"]
    parent: Int[np.ndarray, " nodes"]
    leaf: Int[np.ndarray, " nodes"]
    by_category: Bool[np.ndarray, " nodes"]


class HardSplits(NamedTuple):
    """The splits of all trees; at leaves column -1."""

    column: Int[np.ndarray, "trees nodes"]
    threshold: Float[np.ndarray, "trees nodes"]
    below: Float[np.ndarray, "trees nodes"]
    missing_left: Bool[np.ndarray, "trees nodes"]


@functools.cache
def complete(depth: int) -> Complete:
    """Return the shape of complete trees: node `n` has the children `2n + 1` and `2n + 2`."""
    inner = 2**depth - 1
    node = np.arange(2 * inner + 1)
    is_leaf = node >= inner
    return Complete(
        np.where(is_leaf, -1, 2 * node + 1),
        np.where(is_leaf, -1, 2 * node + 2),
        (node + 1) // 2 - 1,
        node - inner,
        np.zeros(len(node), bool),
    )


@exact_kernel
def leaf_bounds(start, stop, shape, splits, direction, values, weighted, upper, lower, group):
    """Write for trees `start:stop` the leaves that bound each leaf's value, and, for leaf weights, its group."""
    no_categories, nothing = np.zeros(direction.size, np.int64), np.empty(0, np.int64)
    no_words = np.empty((shape.left.size, 0), np.uint64)
    for t in range(start, stop):
        tree = Tree(
            shape.left, shape.right, shape.parent, shape.leaf, splits.column[t], splits.threshold[t], splits.below[t],
            splits.missing_left[t], shape.by_category, no_words,
        )  # fmt: skip
        groups = group[t] if weighted else nothing
        bound_leaves(tree, direction, no_categories, True, values[t], upper[t], lower[t], groups)
