"""CPU kernels of the backward pass, second part: from the pull on a node's rows to the gradient of its parameters.

For node n with `pull[r] = dLoss/dz`, the gradient of the (straight-through) choice vector is
`sum_r pull[r] * (x[r] - threshold)`, which goes through the Jacobian of entmax or softmax to the split logits.

The helpers take flat arrays and offsets: making a view of an array costs as much here as a small node's arithmetic.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hardwood._numba import inlined
from hardwood._typing import Float, Int
from hardwood.ops._cpu_forward import largest
from hardwood.ops._cpu_math import exp_nonpositive
from hardwood.ops._cpu_simd import LANES, add_four_rows

ENTMAX, SOFTMAX = 0, 1
_NEWTON_STEPS = 40


class Table(NamedTuple):
    """The rows, in both orders, and a list of the cells that are not finite (0 in `x`, as they are in `x_columns`)."""

    x: Float[np.ndarray, "rows padded_columns"]  # padded with 0 to a multiple of LANES
    x_columns: Float[np.ndarray, "columns padded_rows"]  # padded to a multiple of ROWS
    odd_start: Int[np.ndarray, "..."]  # row r's cells: odd_column[odd_start[r]:odd_start[r + 1]]; empty if none at all
    odd_column: Int[np.ndarray, " cells"]


class Gradients(NamedTuple):
    """Where the gradients go; empty arrays for what is absent or not wanted."""

    split_logits: Float[np.ndarray, "trees nodes features"]
    thresholds: Float[np.ndarray, "trees nodes features"]
    missing_logits: Float[np.ndarray, "..."]
    leaf_values: Float[np.ndarray, "trees leaves outputs"]
    leaf_weights: Float[np.ndarray, "..."]
    x: Float[np.ndarray, "..."]  # (rows, columns), this call's own


@inlined
def _weighted_row_sum(order, begin, end, pull, level, x, total):
    """total = sum of pull[r] * x[r] over rows order[begin:end]; four rows share one pass over `total`."""
    width, lanes = np.uint64(total.size), np.uint64(LANES)
    zero = total.dtype.type(0)
    pulled = zero
    for s in range(width):
        total[s] = zero
    i = begin
    while i < end:
        r0 = np.uint64(order[i])
        r1, r2, r3 = r0, r0, r0
        p0 = pull[level + r0]
        p1, p2, p3 = zero, zero, zero
        if i + np.uint64(1) < end:
            r1 = np.uint64(order[i + np.uint64(1)])
            p1 = pull[level + r1]
        if i + np.uint64(2) < end:
            r2 = np.uint64(order[i + np.uint64(2)])
            p2 = pull[level + r2]
        if i + np.uint64(3) < end:
            r3 = np.uint64(order[i + np.uint64(3)])
            p3 = pull[level + r3]
        pulled += (p0 + p1) + (p2 + p3)
        r0 *= width
        r1 *= width
        r2 *= width
        r3 *= width
        for s in range(np.uint64(0), width, lanes):
            add_four_rows(total, s, x, r0 + s, r1 + s, r2 + s, r3 + s, p0, p1, p2, p3)
        i += np.uint64(4)
    return pulled


@inlined
def _entmax_flow(logits, at, width, grad, root, out):
    """Write the Jacobian of entmax-1.5 at `logits` times `grad`. See `_entmax` for the method."""
    half = grad.dtype.type(0.5)
    one = grad.dtype.type(1)
    zero = grad.dtype.type(0)
    size = grad.dtype.type(width)
    highest = largest(logits, at, width)
    mean = zero
    square = zero
    for s in range(width):
        r = max((logits[at + s] - highest) * half, -one)
        root[s] = r
        mean += r
        square += r * r
    mean /= size
    spread = square - mean * mean * size
    tau = -one / np.sqrt(size)
    if spread < one:
        tau = min(tau, mean - np.sqrt((one - spread) / size))
    for _ in range(_NEWTON_STEPS):
        first = zero
        second = zero
        for s in range(width):
            above = max(root[s] - tau, zero)
            first += above
            second += above * above
        step = (second - one) / (first + first)
        tau = max(tau + step, -one)
        if abs(step) < 1e-7:
            break
    total = zero
    flow = zero
    for s in range(width):
        q = max(root[s] - tau, zero)
        total += q
        flow += q * grad[s]
    mean = flow / total
    for s in range(width):
        out[at + s] = max(root[s] - tau, zero) * (grad[s] - mean)


@inlined
def _softmax_flow(logits, at, width, grad, p, out):
    """Write the Jacobian of softmax at `logits` times `grad`."""
    total = grad.dtype.type(0)
    flow = grad.dtype.type(0)
    highest = largest(logits, at, width)
    for s in range(width):
        e = exp_nonpositive(logits[at + s] - highest)
        p[s] = e
        total += e
        flow += e * grad[s]
    mean = flow / total
    for s in range(width):
        out[at + s] = p[s] / total * (grad[s] - mean)


@inlined
def _odd_cells(t, node, order, begin, end, pull, level, table, local, trees, total):
    """Take the threshold term back out of `total` for cells that are not finite; put a missing logit in for NaN."""
    for i in range(begin, end):
        r = order[i]
        p = pull[level + np.uint64(r)]
        for k in range(table.odd_start[r], table.odd_start[r + np.uint32(1)]):
            c = table.odd_column[k]
            s = local[c] if trees.subset.size > 0 else c
            if s >= 0:
                total[s] += p * trees.thresholds[t, node, s]
                if trees.missing_logits.size > 0 and np.isnan(table.x_columns[c, r]):
                    total[s] += p * trees.missing_logits[t, node, s]


@inlined
def _missing_pull(order, begin, end, pull, level, column, table):
    """Sum the pull of the rows whose cell in the node's column is missing."""
    missing = pull.dtype.type(0)
    for i in range(begin, end):
        r = np.uint64(order[i])
        if np.isnan(table.x_columns[column, r]):
            missing += pull[level + r]
    return missing


@inlined
def node_gradients(t, first, order, pull, x, table, local, trees, splits, grads, scratch, selection):
    """Write the gradients of all nodes of tree `t`.

    Rows order[first[l]:first[l + 1]] reached leaf l. `pull` is flat, (levels, rows), as `x`, (rows, padded features).
    """
    nodes, features = trees.split_logits.shape[1:]
    logits = trees.split_logits.reshape(-1)
    thresholds = trees.thresholds.reshape(-1)
    grad_logits = grads.split_logits.reshape(-1)
    grad_thresholds = grads.thresholds.reshape(-1)
    grad_missing = grads.missing_logits.reshape(-1)
    rows = order.size
    total, root = scratch[0], scratch[1]
    zero = pull.dtype.type(0)
    width = np.uint64(nodes + 1)
    level = np.uint64(0)
    here = np.uint64(0)
    for node in range(np.uint64(nodes)):
        at = (np.uint64(t) * np.uint64(nodes) + node) * np.uint64(features)
        begin, end = np.uint64(first[here]), np.uint64(first[here + width])
        for s in range(np.uint64(features)):
            grad_thresholds[at + s] = zero
        if grad_missing.size > 0:
            for s in range(np.uint64(features)):
                grad_missing[at + s] = zero
        if begin < end:
            pulled = _weighted_row_sum(order, begin, end, pull, level, x, total)
            for s in range(np.uint64(features)):
                total[s] -= thresholds[at + s] * pulled
            chosen = np.uint64(splits.selected[t, node])
            column = np.uint64(splits.packed[t, node] >> 1)
            if table.odd_column.size > 0:
                _odd_cells(t, node, order, begin, end, pull, level, table, local, trees, total)
                missing = _missing_pull(order, begin, end, pull, level, column, table)
                pulled -= missing
                if grad_missing.size > 0:
                    grad_missing[at + chosen] = missing
            grad_thresholds[at + chosen] = -pulled
            if grads.x.size > 0:
                for i in range(begin, end):
                    r = np.uint64(order[i])
                    if np.isfinite(table.x_columns[column, r]):
                        grads.x[r, column] += pull[level + r]
            if selection == ENTMAX:
                _entmax_flow(logits, at, np.uint64(features), total, root, grad_logits)
            else:
                _softmax_flow(logits, at, np.uint64(features), total, root, grad_logits)
        else:
            for s in range(np.uint64(features)):
                grad_logits[at + s] = zero
        here += width
        if here == np.uint64(nodes + 1):  # the next node begins a new level
            here = np.uint64(0)
            width >>= np.uint64(1)
            level += np.uint64(rows)
