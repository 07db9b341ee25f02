"""CPU kernels of the forward pass: choose each node's split, follow each row's path, mix the trees.

A kernel works on trees (or rows) `start:stop`, so that threads share nothing they write. Arrays over rows are stored
trees-major, `(trees, rows)`: a tree's loop then runs over neighbouring memory. Indices are unsigned because numba
otherwise tests each one for being negative. Parameters that are optional are empty arrays when absent.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hardwood._numba import finite_inlined, inlined, kernel
from hardwood._typing import Float, Int, Integer
from hardwood.ops._cpu_math import exp_nonpositive
from hardwood.ops._cpu_simd import ROWS, choose_rows

# The table of leaves reached (see `fill_reach`) holds leaf numbers in a byte; deeper, following paths is faster anyway.
MANY_LEAVES = 256
_STRETCH = 64  # logits whose largest is found at once


class Trees(NamedTuple):
    """The parameters of all trees, as NumPy arrays."""

    split_logits: Float[np.ndarray, "trees nodes features"]
    thresholds: Float[np.ndarray, "trees nodes features"]
    missing_logits: Float[np.ndarray, "..."]  # or empty
    leaf_values: Float[np.ndarray, "trees leaves outputs"]
    leaf_weights: Float[np.ndarray, "..."]  # or empty
    subset: Int[np.ndarray, "..."]  # (trees, features) columns of x, or empty


class Splits(NamedTuple):
    """The hard splits that the parameters stand for."""

    selected: Int[np.ndarray, "trees nodes"]  # one of the tree's features
    packed: Integer[np.ndarray, "trees nodes"]  # 2 * column of x + (1 if a missing value goes right)
    threshold: Float[np.ndarray, "trees nodes"]


@finite_inlined
def largest(a, at, size):
    """Return the largest of `size` neighbouring numbers, none of them NaN."""
    best = a[at]
    for s in range(size):
        best = max(best, a[at + s])
    return best


@inlined
def strongest(logits, at, size):
    """Return the place of the first largest of `size` neighbouring logits, none of them NaN."""
    stretch = np.uint64(_STRETCH)
    begin = at
    highest = largest(logits, at, min(size, stretch))
    for start in range(at + stretch, at + size, stretch):
        here = largest(logits, start, min(stretch, at + size - start))
        if here > highest:
            highest = here
            begin = start
    while logits[begin] != highest:
        begin += np.uint64(1)
    return begin - at


@inlined
def _all_finite(a, at, size):
    zero = a.dtype.type(0)
    total = zero
    for s in range(size):
        total += a[at + s] * zero
    return total == zero


@kernel
def select_splits(start, stop, trees, splits, bad):
    """Find every node's strongest feature, the first one on ties; set `bad[t]` where a parameter is not finite."""
    nodes, features = np.uint64(trees.split_logits.shape[1]), np.uint64(trees.split_logits.shape[2])
    size = nodes * features
    logits = trees.split_logits.reshape(-1)
    thresholds = trees.thresholds.reshape(-1)
    missing = trees.missing_logits.reshape(-1)
    values, of_tree = trees.leaf_values.reshape(-1), np.uint64(trees.leaf_values[0].size)
    weights = trees.leaf_weights.reshape(-1)
    for t in range(np.uint64(start), np.uint64(stop)):
        for n in range(nodes):
            at = t * size + n * features
            if not _all_finite(logits, at, features):
                bad[t] = 1
                continue
            best = strongest(logits, at, features)
            missing_right = missing.size > 0 and missing[at + best] >= 0
            column = np.uint64(trees.subset[t, best]) if trees.subset.size > 0 else best
            if not np.isfinite(thresholds[at + best]):
                bad[t] = 2
            splits.selected[t, n] = best
            splits.threshold[t, n] = thresholds[at + best]
            splits.packed[t, n] = np.uint64(2) * column + np.uint64(missing_right)
        if not _all_finite(values, t * of_tree, of_tree):
            bad[t] = 3
        if weights.size > 0 and not _all_finite(weights, t * (nodes + np.uint64(1)), nodes + np.uint64(1)):
            bad[t] = 4
        if missing.size > 0 and not _all_finite(missing, t * size, size):
            bad[t] = 5


@inlined
def step_down(at, packed, threshold, cells, stride):
    """Move every row from the node it is at to the child it goes to: right at or above the threshold."""
    for r in range(at.size):
        n = at[r]
        p = np.uint64(packed[n])
        value = cells[(p >> np.uint64(1)) * np.uint64(stride) + np.uint64(r)]
        right = (value >= threshold[n]) | ((value != value) & ((p & np.uint64(1)) == np.uint64(1)))
        at[r] = np.uint32(2) * n + np.uint32(1) + np.uint32(right)


@inlined
def new_reach(nodes):
    """Return an empty table for `fill_reach`: a line of `ROWS` for every node, then one for every leaf."""
    reach = np.empty((2 * nodes + 1) * ROWS, np.uint8)
    for leaf in range(nodes + 1):
        reach[(nodes + leaf) * ROWS : (nodes + leaf + 1) * ROWS] = leaf
    return reach


@inlined
def fill_reach(reach, packed, threshold, cells, stride, begin):
    """For `ROWS` rows from `begin` on, find the leaf that each would reach from every node; from the bottom up.

    That is 2^depth steps instead of depth, but each handles all the rows at once.
    """
    nodes, line = np.uint64(packed.size), np.uint64(ROWS)
    for back in range(nodes):
        node = nodes - np.uint64(1) - back
        p = np.uint64(packed[node])
        left = (np.uint64(2) * node + np.uint64(1)) * line
        cell = (p >> np.uint64(1)) * stride + begin
        missing_right = (p & np.uint64(1)) == np.uint64(1)
        choose_rows(reach, node * line, left, left + line, cells, cell, threshold[node], missing_right)


@kernel
def route(start, stop, x_columns, splits, leaf_index):
    """Write the leaf that each row reaches in each tree. `x_columns` is `x` transposed, its rows padded to `ROWS`."""
    rows = np.uint64(leaf_index.shape[1])
    stride = np.uint64(x_columns.shape[1])
    nodes = splits.packed.shape[1]
    cells = x_columns.reshape(-1)
    shallow = nodes < MANY_LEAVES
    reach = new_reach(nodes if shallow else 0)
    at = np.empty(0 if shallow else leaf_index.shape[1], np.uint32)
    for t in range(start, stop):
        packed, threshold, leaf = splits.packed[t], splits.threshold[t], leaf_index[t]
        if shallow:
            for begin in range(np.uint64(0), rows, np.uint64(ROWS)):
                fill_reach(reach, packed, threshold, cells, stride, begin)
                for r in range(min(np.uint64(ROWS), rows - begin)):
                    leaf[begin + r] = reach[r]
        else:
            at[:] = 0
            reached = 0
            while reached < nodes:
                step_down(at, packed, threshold, cells, stride)
                reached = 2 * reached + 1
            for r in range(rows):
                leaf[r] = at[r] - np.uint32(nodes)


@kernel
def gather_weights(start, stop, leaf_index, leaf_weights, weights):
    """Write the weight of each reached leaf, (trees, rows)."""
    for t in range(start, stop):
        for r in range(leaf_index.shape[1]):
            weights[t, r] = leaf_weights[t, np.uint32(leaf_index[t, r])]


@kernel
def softmax_shares(start, stop, leaf_index, leaf_weights, mask, share):
    """Write how much each tree counts for rows `start:stop`: the softmax of the weights of the reached leaves.

    `mask` is (rows, trees), (1, trees) for all rows alike, or empty; a tree outside it counts nothing.
    """
    trees, rows = share.shape[0], stop - start
    largest_of = np.full(rows, -np.inf, share.dtype)
    total = np.zeros(rows, share.dtype)
    zero = share.dtype.type(0)
    for t in range(trees):
        line, leaf = share[t], leaf_index[t]
        for r in range(rows):
            line[start + r] = leaf_weights[t, np.uint32(leaf[start + r])]
        if mask.shape[0] > 0:
            for r in range(rows):
                if not mask[start + r if mask.shape[0] > 1 else 0, t]:
                    line[start + r] = -np.inf
        for r in range(rows):
            largest_of[r] = max(largest_of[r], line[start + r])
    for r in range(rows):
        if largest_of[r] == -np.inf:  # a row without any tree
            largest_of[r] = zero
    for t in range(trees):
        line = share[t]
        for r in range(rows):
            e = exp_nonpositive(line[start + r] - largest_of[r])
            line[start + r] = e if line[start + r] > -np.inf else zero
        for r in range(rows):
            total[r] += line[start + r]
    for r in range(rows):
        total[r] = max(total[r], np.finfo(share.dtype).tiny)
    for t in range(trees):
        line = share[t]
        for r in range(rows):
            line[start + r] /= total[r]


@kernel
def gather_outputs(start, stop, leaf_index, leaf_values, output):
    """Write each tree's own output, (rows, trees, outputs)."""
    for t in range(start, stop):
        for r in range(leaf_index.shape[1]):
            leaf = np.uint32(leaf_index[t, r])
            for c in range(leaf_values.shape[2]):
                output[r, t, c] = leaf_values[t, leaf, c]


@kernel
def mix_trees(start, stop, leaf_index, leaf_values, share, output):
    """Write `output[r] = sum_t share[t, r] * leaf_values[t, leaf]` for rows `start:stop`, summed in tree order."""
    trees = leaf_index.shape[0]
    outputs = leaf_values.shape[2]
    output[start:stop] = 0
    for t in range(trees):
        if outputs == 1:
            for r in range(start, stop):
                output[r, 0] += share[t, r] * leaf_values[t, np.uint32(leaf_index[t, r]), 0]
        else:
            for r in range(start, stop):
                leaf = np.uint32(leaf_index[t, r])
                for c in range(outputs):
                    output[r, c] += share[t, r] * leaf_values[t, leaf, c]
