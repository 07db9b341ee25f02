"""What a row's path through a tree gives to the backward pass: distances, leaves beyond its turns, scores of leaves."""

from __future__ import annotations

import triton.language as tl

from hardwood.ops._cuda_forward import goes_right, look, node_threshold
from hardwood.ops._cuda_tiles import jit


@jit
def slope(z, SPLIT: tl.constexpr):
    """Return the derivative of the split function; 0 at infinity."""
    size = tl.abs(z)
    if SPLIT == "sigmoid":
        decay = tl.exp(-size)
        result = decay / ((1 + decay) * (1 + decay))
    elif SPLIT == "softsign":
        result = 0.5 / ((1 + size) * (1 + size))
    else:
        # The smaller probability's root is (tau - size) / 2; this form of it does not cancel as size approaches 2.
        near = tl.minimum(size, 2.0)
        low = (2 - near) * (2 + near) / (2 * (tl.sqrt(8 - near * near) + near))
        high = tl.sqrt(1 - low * low)
        result = high * low / (high + low)
    return result


@jit
def leaf_score(leaf_values, leaf, grads, grad, rows, n_rows, n_outputs, OUTPUTS: tl.constexpr):
    """Return the rows' upstream gradient times the outputs of a leaf (one for all rows, or one each)."""
    if OUTPUTS > 0:
        score = grads[0] * tl.load(leaf_values + leaf * OUTPUTS)
        for c in tl.static_range(1, OUTPUTS):
            score += grads[c] * tl.load(leaf_values + leaf * OUTPUTS + c)
    else:
        score = tl.zeros(rows.shape, tl.float32)
        for c in range(n_outputs):
            score += tl.load(grad + tl.cast(c, tl.int64) * n_rows + rows) * tl.load(leaf_values + leaf * n_outputs + c)
    return score


@jit
def output_score(output, grads, grad, rows, n_rows, n_outputs, OUTPUTS: tl.constexpr):
    """Return the rows' upstream gradient times their outputs."""
    score = tl.zeros(rows.shape, tl.float32)
    at = rows.to(tl.int64) * n_outputs
    if OUTPUTS > 0:
        for c in tl.static_range(OUTPUTS):
            score += grads[c] * tl.load(output + at + c)
    else:
        for c in range(n_outputs):
            score += tl.load(grad + tl.cast(c, tl.int64) * n_rows + rows) * tl.load(output + at + c)
    return score


@jit
def turns(
    x_rows, packed, leaf, row_stride, DEPTH: tl.constexpr, FIRST: tl.constexpr, LEVELS: tl.constexpr,
    HAS_MISSING: tl.constexpr, FAR: tl.constexpr,
):  # fmt: skip
    """Return, for each level of a subtree, the distance to the threshold and the leaf beyond the turn not taken there.

    The walks to those leaves go down together, one level at a time, so that their loads overlap.
    """
    distances = ()
    others = ()
    for level in tl.static_range(FIRST, DEPTH):
        moved = ()
        for i in tl.static_range(level - FIRST if level - FIRST < LEVELS else LEVELS):
            word, cell = look(x_rows, packed, others[i], row_stride, HAS_MISSING, FAR)
            moved = moved + (2 * others[i] + 1 + goes_right(word, cell, HAS_MISSING).to(tl.int32),)
        if level - FIRST < LEVELS:
            node = (1 << level) - 1 + (leaf >> (DEPTH - level))
            word, cell = look(x_rows, packed, node, row_stride, HAS_MISSING, FAR)
            distances = distances + (cell - node_threshold(word),)
            moved = moved + (2 * node + 2 - ((leaf >> (DEPTH - 1 - level)) & 1),)
        others = moved
    leaves = ()
    for i in tl.static_range(LEVELS):
        leaves = leaves + (others[i] - ((1 << DEPTH) - 1),)
    return distances, leaves


@jit
def list_rows(leaf_index, order, start, stop, place, SHIFT: tl.constexpr, BLOCK: tl.constexpr):
    """List the rows from `start` to `stop` whose leaf lies below `place`; return the list and its length.

    The lists of all places of a tree share one array of its rows.
    """
    lower = tl.zeros((BLOCK,), tl.int32)
    for first in range(start, stop, BLOCK):
        rows = first + tl.arange(0, BLOCK)
        found = tl.load(leaf_index + rows, mask=rows < stop, other=0x7FFFFFFF) >> SHIFT
        lower += (found < place).to(tl.int32)
    mine = order + start + tl.sum(lower, 0)
    count = 0
    for first in range(start, stop, BLOCK):
        rows = first + tl.arange(0, BLOCK)
        found = tl.load(leaf_index + rows, mask=rows < stop, other=0x7FFFFFFF) >> SHIFT
        hit = (found == place).to(tl.int32)
        tl.store(mine + count + tl.cumsum(hit, 0) - 1, rows, mask=hit > 0)
        count += tl.sum(hit, 0)
    tl.debug_barrier()
    return mine, count
