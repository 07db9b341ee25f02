"""CPU kernels of the backward pass: the exact straight-through gradient in O(depth^2) a row and tree.

With hard decisions only the nodes on a row's own path have a gradient: the value of the leaf reached if the node sent
the row right, minus the value if it sent it left. One of the two is the row's own leaf; the other is found by following
the row's decisions below the flipped child. Sorting a tree's rows by leaf makes the rows of every node, on every level,
one consecutive range, over which `_cpu_nodes` sums the gradient of the node's parameters.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hardwood._numba import inlined, kernel
from hardwood._typing import Float, Int
from hardwood.ops._cpu_forward import MANY_LEAVES, fill_reach, new_reach, step_down
from hardwood.ops._cpu_math import split_slopes
from hardwood.ops._cpu_nodes import node_gradients
from hardwood.ops._cpu_simd import LANES, ROWS


class Upstream(NamedTuple):
    """What the loss says about each tree and row."""

    grad: Float[np.ndarray, "rows trees_or_1 outputs"]  # of the output, or of each tree's own
    share: Float[np.ndarray, "trees rows"]  # how much the tree counts
    weight_pull: Float[np.ndarray, "..."]  # (trees, rows) dLoss/d(weight of the reached leaf), or empty
    leaf_index: Int[np.ndarray, "trees rows"]


@kernel
def pull_of_leaf_weights(start, stop, upstream, grad_dot_output, leaf_values):
    """Fill `weight_pull` with the gradient through the softmax over trees."""
    for t in range(start, stop):
        for r in range(upstream.share.shape[1]):
            leaf = np.uint32(upstream.leaf_index[t, r])
            total = -grad_dot_output[r]
            for c in range(leaf_values.shape[2]):
                total += upstream.grad[r, 0, c] * leaf_values[t, leaf, c]
            upstream.weight_pull[t, r] = upstream.share[t, r] * total


@inlined
def _sort_rows_by_leaf(leaf, first, order):
    """Counting sort: the rows of leaf l become order[first[l]:first[l + 1]], ascending."""
    first[:] = 0
    for r in range(leaf.size):
        first[leaf[r] + np.uint32(2)] += 1
    for i in range(2, first.size):
        first[i] += first[i - 1]
    for r in range(leaf.size):
        slot = leaf[r] + np.uint32(1)
        order[first[slot]] = r
        first[slot] += 1


@inlined
def _scores(grad, share, pull, values, weights, leaf, score):
    """Write how the loss would change, to first order, with each row's leaf as given."""
    outputs = values.shape[1]
    if outputs == 1:
        for r in range(leaf.size):
            score[r] = share[r] * grad[r, 0] * values[leaf[r], 0]
    else:
        for r in range(leaf.size):
            total = values.dtype.type(0)
            for c in range(outputs):
                total += grad[r, c] * values[leaf[r], c]
            score[r] = share[r] * total
    if weights.size > 0:
        for r in range(leaf.size):
            score[r] += pull[r] * weights[leaf[r]]


@inlined
def _leaf_gradients(grad, share, pull, first, order, grad_values, grad_weights):
    """Sum, leaf by leaf, over the rows that reached it."""
    zero = share.dtype.type(0)
    for leaf in range(np.uint64(grad_values.shape[0])):
        begin, end = np.uint64(first[leaf]), np.uint64(first[leaf + np.uint64(1)])
        for c in range(grad_values.shape[1]):
            total = zero
            for i in range(begin, end):
                r = order[i]
                total += share[r] * grad[r, c]
            grad_values[leaf, c] = total
        if pull.size > 0:
            total = zero
            for i in range(begin, end):
                total += pull[order[i]]
            grad_weights[leaf] = total


@inlined
def _flip(packed, threshold, leaf, cells, stride, depth, reach, flipped):
    """flipped[level, r] = the leaf that row r would reach if its node on that level sent it the other way."""
    rows = np.uint64(leaf.size)
    leaves = np.uint32(packed.size + 1)
    if reach.size > 0:
        for begin in range(np.uint64(0), rows, np.uint64(ROWS)):
            fill_reach(reach, packed, threshold, cells, stride, begin)
            for level in range(depth):
                # In a heap numbered from 1 a leaf's ancestors are its number shifted right, and siblings differ by 1.
                shift = np.uint32(depth - level - 1)
                line = flipped[level]
                for r in range(min(np.uint64(ROWS), rows - begin)):
                    sibling = (((leaf[begin + r] + leaves) >> shift) ^ np.uint32(1)) - np.uint32(1)
                    line[begin + r] = reach[np.uint64(sibling) * np.uint64(ROWS) + r]
        return
    for level in range(depth):
        shift = np.uint32(depth - level - 1)
        line = flipped[level]
        for r in range(rows):
            line[r] = (((leaf[r] + leaves) >> shift) ^ np.uint32(1)) - np.uint32(1)
        for _ in range(shift):
            step_down(line, packed, threshold, cells, stride)
        for r in range(rows):
            line[r] -= np.uint32(packed.size)


@kernel
def backward_trees(start, stop, upstream, table, trees, splits, grads, selection, split):
    """Write all gradients of trees `start:stop`."""
    nodes, features = trees.split_logits.shape[1:]
    rows, width = table.x.shape[0], table.x.shape[1]
    leaves = np.uint32(nodes + 1)
    depth = 0
    while (1 << depth) < leaves:
        depth += 1
    cells = table.x_columns.reshape(-1)
    stride = np.uint64(table.x_columns.shape[1])
    dtype = table.x.dtype
    has_subset = trees.subset.size > 0
    if has_subset:
        width = (features + LANES - 1) // LANES * LANES
    first = np.empty(nodes + 3, np.int64)
    order = np.empty(rows, np.uint32)
    leaf = np.empty(rows, np.uint32)
    own_score = np.empty(rows, dtype)
    score = np.empty(rows, dtype)
    reach = new_reach(nodes if nodes < MANY_LEAVES else 0)
    if nodes >= MANY_LEAVES:
        reach = reach[:0]
    flipped = np.empty((depth, rows), np.uint32)
    z = np.empty((depth, rows), dtype)
    node_pull = np.empty((depth, rows), dtype)  # dLoss/dz of the row's node on each level
    node_pull_flat = node_pull.reshape(-1)
    slopes = np.empty(depth * rows, dtype)
    own_columns = np.zeros((rows if has_subset else 0, width), dtype)
    seen = own_columns.reshape(-1) if has_subset else table.x.reshape(-1)
    local = np.full(table.x_columns.shape[0] if has_subset else 0, -1, np.int64)
    scratch = np.empty((2, width), dtype)
    nothing = np.empty(0, dtype)

    for t in range(start, stop):
        grad = upstream.grad[:, t if upstream.grad.shape[1] > 1 else 0]
        share = upstream.share[t]
        weighted = upstream.weight_pull.size > 0
        pull = upstream.weight_pull[t] if weighted else nothing
        weights = trees.leaf_weights[t] if weighted else nothing
        grad_weights = grads.leaf_weights[t] if weighted else nothing
        values = trees.leaf_values[t]
        packed = splits.packed[t]
        threshold = splits.threshold[t]
        for r in range(rows):
            leaf[r] = np.uint32(upstream.leaf_index[t, r])
        _sort_rows_by_leaf(leaf, first, order)
        _leaf_gradients(grad, share, pull, first, order, grads.leaf_values[t], grad_weights)

        _flip(packed, threshold, leaf, cells, stride, depth, reach, flipped)
        _scores(grad, share, pull, values, weights, leaf, own_score)
        for level in range(depth):
            below = np.uint32(depth - level)
            distance, pull_here = z[level], node_pull[level]
            for r in range(rows):
                node = ((leaf[r] + leaves) >> below) - np.uint32(1)
                distance[r] = cells[np.uint64(packed[node] >> 1) * stride + np.uint64(r)] - threshold[node]
            _scores(grad, share, pull, values, weights, flipped[level], score)
            for r in range(rows):
                difference = own_score[r] - score[r]
                went_right = (leaf[r] >> (below - np.uint32(1))) & np.uint32(1)
                pull_here[r] = difference if went_right == 1 else -difference
            if table.odd_column.size > 0:
                _place_missing(t, leaf, leaves, below, trees.missing_logits, splits.selected, distance)
        split_slopes(z.reshape(-1), split, slopes)
        for i in range(slopes.size):
            node_pull_flat[i] *= slopes[i]

        if has_subset:
            for s in range(features):
                local[trees.subset[t, s]] = s
            for r in range(rows):
                for s in range(features):
                    own_columns[r, s] = table.x[r, np.uint64(trees.subset[t, s])]
        node_gradients(
            t, first, order, node_pull_flat, seen, table, local, trees, splits, grads, scratch, selection
        )  # fmt: skip
        if has_subset:
            for s in range(features):
                local[trees.subset[t, s]] = -1


@inlined
def _place_missing(t, leaf, leaves, below, missing_logits, selected, z):
    """Where the cell is missing, z is the node's missing logit; without one nothing pulls, as at infinity."""
    for r in range(leaf.size):
        if z[r] != z[r]:
            if missing_logits.size > 0:
                node = ((leaf[r] + leaves) >> below) - np.uint32(1)
                z[r] = missing_logits[t, node, selected[t, node]]
            else:
                z[r] = np.inf
