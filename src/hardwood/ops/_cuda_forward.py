"""Triton kernels of the forward pass: pick each node's column, route rows to leaves, combine the trees.

Between the kernels every node is one 64-bit word, so that a routing step costs one load for the node and one for the
cell: bits 0-31 hold the threshold, bits 32-62 the column of `x`, and bit 63 says that missing cells go right.
"""

from __future__ import annotations

import triton.language as tl

from hardwood.ops._cuda_tiles import eighths, jit


@jit
def pack_node(column, threshold, missing_right):
    """Pack one split into a 64-bit word."""
    high = column | (missing_right.to(tl.int32) << 31)
    low = threshold.to(tl.uint32, bitcast=True).to(tl.int64)
    return (high.to(tl.int64) << 32) | low


@jit
def goes_right(word, cell, HAS_MISSING: tl.constexpr):
    """Decide a packed split for one cell: right when the cell reaches the threshold."""
    right = cell >= word.to(tl.int32).to(tl.float32, bitcast=True)
    if HAS_MISSING:
        right = right | (tl.where(cell != cell, (word >> 32).to(tl.int32), 0) < 0)
    return right


@jit
def node_threshold(word):
    """Return the threshold of a packed split."""
    return word.to(tl.int32).to(tl.float32, bitcast=True)


@jit
def node_column(word, HAS_MISSING: tl.constexpr):
    """Return the column of `x` that a packed split looks at."""
    column = (word >> 32).to(tl.int32)
    if HAS_MISSING:
        column &= 0x7FFFFFFF
    return column


@jit
def look(x_rows, packed, node, row_stride, HAS_MISSING: tl.constexpr, FAR: tl.constexpr):
    """Return the packed split of each row's node and the row's cell; FAR tables need 64-bit places."""
    word = tl.load(packed + node)
    column = node_column(word, HAS_MISSING)
    if FAR:
        column = column.to(tl.int64)
    return word, tl.load(x_rows + column * row_stride)


@jit
def transpose_rows(
    x, x_t, odd_cells, worker, workers, n_rows, n_columns, row_stride,
    NOTE_ODD: tl.constexpr, ROWS: tl.constexpr, ROW_COLS: tl.constexpr,
):  # fmt: skip
    """Write this worker's row blocks of `x` as columns, zero-padded to `row_stride` rows.

    With NOTE_ODD, also write whether it met missing (1) or infinite (2) cells.
    """
    found_nan = tl.zeros((ROWS, ROW_COLS), tl.int32)
    found_inf = tl.zeros((ROWS, ROW_COLS), tl.int32)
    for block in range(worker, tl.cdiv(row_stride, ROWS), workers):
        rows = block * ROWS + tl.arange(0, ROWS)[:, None]
        for first in range(0, n_columns, ROW_COLS):
            columns = first + tl.arange(0, ROW_COLS)[None, :]
            is_column = columns < n_columns
            cells = tl.load(x + rows.to(tl.int64) * n_columns + columns, mask=(rows < n_rows) & is_column, other=0.0)
            tl.store(x_t + columns.to(tl.int64) * row_stride + rows, cells, mask=(rows < row_stride) & is_column)
            if NOTE_ODD:
                found_nan |= (cells != cells).to(tl.int32)
                found_inf |= (tl.abs(cells) == float("inf")).to(tl.int32)
    if NOTE_ODD:
        tl.store(odd_cells + worker, tl.max(tl.max(found_nan, 1), 0) + 2 * tl.max(tl.max(found_inf, 1), 0))


@jit
def column_of_x(local, feature_subset, n_columns, inside):
    """Return the column that a tree's own column stands for, and whether `x` has it; a wrong one becomes 0."""
    column = tl.load(feature_subset + local, mask=inside, other=0)
    exists = (column >= 0) & (column < n_columns)
    return tl.where(exists, column, 0).to(tl.int32), exists


@jit
def select(
    split_logits, thresholds, missing_logits, feature_subset, selected, packed, x, x_t,
    n_nodes, n_selectors, n_local, n_rows, n_columns, row_stride,
    NODES_PER_TREE: tl.constexpr, NODES: tl.constexpr, COLUMNS: tl.constexpr, HAS_MISSING: tl.constexpr,
    HAS_SUBSET: tl.constexpr, ROWS: tl.constexpr, ROW_COLS: tl.constexpr,
):  # fmt: skip
    """Find the first largest logit of every node and pack the split; programs past `n_selectors` transpose `x`.

    A node with a NaN logit or a column that `x` does not have gets a NaN threshold: its rows go somewhere and their
    output becomes NaN.
    """
    program = tl.program_id(0)
    if program >= n_selectors:
        transpose_rows(
            x, x_t, x_t, program - n_selectors, tl.num_programs(0) - n_selectors, n_rows, n_columns, row_stride,
            False, ROWS, ROW_COLS,
        )  # fmt: skip
    else:
        nodes = program * NODES + tl.arange(0, NODES)
        inside = nodes < n_nodes
        base = nodes.to(tl.int64) * n_local
        best = tl.full((NODES,), float("-inf"), tl.float32)
        column = tl.zeros((NODES,), tl.int32)
        broken = tl.zeros((NODES,), tl.int32)
        for first in range(0, n_local, COLUMNS):
            columns = first + tl.arange(0, COLUMNS)
            logits = tl.load(
                split_logits + base[:, None] + columns[None, :],
                mask=inside[:, None] & (columns < n_local)[None, :],
                other=float("-inf"),
            )
            # A thread looks through its own eight logits first; equal ones go to the lower column, NaN to column -1.
            parts = eighths(logits)
            top = parts[0]
            place = tl.zeros(top.shape, tl.int32)
            is_nan = top != top
            for i in tl.static_range(1, 8):
                place = tl.where(parts[i] > top, i, place)
                top = tl.where(parts[i] > top, parts[i], top)
                is_nan = is_nan | (parts[i] != parts[i])
            place = tl.where(is_nan, -1, first + 8 * tl.arange(0, COLUMNS // 8)[None, :] + place)
            peak = tl.max(top, 1)
            place = tl.min(tl.where((top == peak[:, None]) | is_nan, place, 0x7FFFFFFF), 1)
            broken |= (place < 0).to(tl.int32)
            column = tl.where(peak > best, place, column)
            best = tl.maximum(best, peak)
        column = tl.minimum(tl.maximum(column, 0), n_local - 1)
        threshold = tl.load(thresholds + base + column, mask=inside, other=0.0)
        threshold = tl.where(broken > 0, float("nan"), threshold)
        missing_right = column < 0
        if HAS_MISSING:
            missing_right = tl.load(missing_logits + base + column, mask=inside, other=-1.0) >= 0
        tl.store(selected + nodes, column, mask=inside)
        if HAS_SUBSET:
            local = (nodes // NODES_PER_TREE).to(tl.int64) * n_local + column
            column, exists = column_of_x(local, feature_subset, n_columns, inside)
            threshold = tl.where(exists, threshold, float("nan"))
        tl.store(packed + nodes, pack_node(column, threshold, missing_right), mask=inside)


@jit
def route(
    x_t, packed, leaf_values, leaf_weights, leaf_index, weights, output, n_rows, n_trees, n_outputs, row_stride,
    DEPTH: tl.constexpr, SEPARATE: tl.constexpr, HAS_MISSING: tl.constexpr, HAS_WEIGHTS: tl.constexpr,
    ROWS: tl.constexpr, FAR: tl.constexpr,
):  # fmt: skip
    """Send a block of rows through one tree; with SEPARATE the leaf's values are the output.

    A row that met a broken node (NaN) gets NaN there, or, when the trees are still to be combined, a negative leaf.
    """
    tree = (tl.program_id(0) % n_trees).to(tl.int64)
    rows = tl.program_id(0) // n_trees * ROWS + tl.arange(0, ROWS)
    inside = rows < n_rows
    packed += tree * ((1 << DEPTH) - 1)
    node = tl.zeros((ROWS,), tl.int32)
    broken = node > 0
    for _ in tl.static_range(DEPTH):
        word, cell = look(x_t + rows, packed, node, row_stride, HAS_MISSING, FAR)
        threshold = node_threshold(word)
        broken = broken | (threshold != threshold)
        node = 2 * node + 1 + goes_right(word, cell, HAS_MISSING).to(tl.int32)
    leaf = node - ((1 << DEPTH) - 1)
    own = (tree << DEPTH) + leaf
    place = tree * n_rows + rows
    if HAS_WEIGHTS:
        tl.store(weights + place, tl.load(leaf_weights + own), mask=inside)
    if SEPARATE:
        tl.store(leaf_index + place, leaf, mask=inside)
        for c in range(n_outputs):
            value = tl.where(broken, float("nan"), tl.load(leaf_values + own * n_outputs + c))
            tl.store(output + (rows.to(tl.int64) * n_trees + tree) * n_outputs + c, value, mask=inside)
    else:
        tl.store(leaf_index + place, tl.where(broken, leaf - (1 << DEPTH), leaf), mask=inside)


@jit
def combine(
    leaf_index, attention, leaf_values, tree_mask, output, n_rows, n_trees, n_outputs, mask_row_stride,
    DEPTH: tl.constexpr, ONE_OUTPUT: tl.constexpr, COMBINE: tl.constexpr, HAS_MASK: tl.constexpr,
    TREES: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """Combine what all trees say to a block of rows; `attention` comes in as leaf weights.

    Rows x trees arrays are stored by tree. The softmax is accumulated in one pass over the trees; a second pass turns
    the weights into attention, and another one for each output sums what the leaves say where there are several.
    """
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    row_inside = rows < n_rows
    clamped = tl.minimum(rows, n_rows - 1).to(tl.int64)[None, :]
    peak = tl.full((TREES, ROWS), float("-inf"), tl.float32)
    total = tl.zeros((TREES, ROWS), tl.float32)
    weighted = tl.zeros((TREES, ROWS), tl.float32)
    poisoned = tl.zeros((TREES, ROWS), tl.int32)
    for first in range(0, n_trees, TREES):
        trees = first + tl.arange(0, TREES)
        tree = tl.minimum(trees, n_trees - 1).to(tl.int64)[:, None]
        place = tree * n_rows + rows[None, :]
        alive = (trees < n_trees)[:, None] & row_inside[None, :]
        leaf = tl.load(leaf_index + place, mask=alive, other=0)
        broken = leaf < 0
        leaf = tl.where(broken, leaf + (1 << DEPTH), leaf)
        tl.store(leaf_index + place, leaf, mask=broken & alive)
        if HAS_MASK:
            alive = alive & (tl.load(tree_mask + clamped * mask_row_stride + tree) != 0)
        poisoned |= tl.where(alive, broken.to(tl.int32), 0)
        if COMBINE == "softmax":
            weight = tl.load(attention + place, mask=alive, other=float("-inf"))
            higher = tl.maximum(peak, weight)
            safe = tl.where(higher == float("-inf"), 0.0, higher)
            decay = tl.exp(peak - safe)
            share = tl.exp(weight - safe)
            peak = higher
            total = total * decay + share
            weighted = weighted * decay
        else:
            share = alive.to(tl.float32)
            total += share
        if ONE_OUTPUT:
            weighted += share * tl.load(leaf_values + (tree << DEPTH) + leaf, mask=alive, other=0.0)

    top = tl.max(peak, 0)
    top = tl.where(top == float("-inf"), 0.0, top)
    if COMBINE == "softmax":
        rescale = tl.exp(peak - top[None, :])
        total = total * rescale
        weighted = weighted * rescale
    norm = tl.sum(total, 0)
    norm = tl.where(norm == 0, 0.0, 1.0 / norm)
    if COMBINE == "sum":
        norm = tl.where(row_inside, 1.0, 0.0)
    spoiled = tl.max(poisoned, 0) > 0
    if ONE_OUTPUT:
        result = tl.sum(weighted, 0) * norm
        tl.store(output + rows, tl.where(spoiled, float("nan"), result), mask=row_inside)
    # What was stored above may be read back by other threads.
    tl.debug_barrier()
    if COMBINE == "softmax":
        for first in range(0, n_trees, TREES):
            trees = first + tl.arange(0, TREES)
            tree = tl.minimum(trees, n_trees - 1).to(tl.int64)[:, None]
            inside = (trees < n_trees)[:, None] & row_inside[None, :]
            place = tree * n_rows + rows[None, :]
            weight = tl.load(attention + place, mask=inside, other=0.0)
            if HAS_MASK:
                kept = tl.load(tree_mask + clamped * mask_row_stride + tree) != 0
                weight = tl.where(kept, weight, float("-inf"))
            tl.store(attention + place, tl.exp(weight - top[None, :]) * norm[None, :], mask=inside)
        tl.debug_barrier()
    if not ONE_OUTPUT:
        for c in range(n_outputs):
            weighted = tl.zeros((TREES, ROWS), tl.float32)
            for first in range(0, n_trees, TREES):
                trees = first + tl.arange(0, TREES)
                tree = tl.minimum(trees, n_trees - 1).to(tl.int64)[:, None]
                alive = (trees < n_trees)[:, None] & row_inside[None, :]
                if HAS_MASK:
                    alive = alive & (tl.load(tree_mask + clamped * mask_row_stride + tree) != 0)
                place = tree * n_rows + rows[None, :]
                leaf = tl.load(leaf_index + place, mask=alive, other=0)
                value = tl.load(leaf_values + ((tree << DEPTH) + leaf) * n_outputs + c, mask=alive, other=0.0)
                if COMBINE == "softmax":
                    value *= tl.load(attention + place, mask=alive, other=0.0)
                weighted += value
            result = tl.sum(weighted, 0)
            if COMBINE != "softmax":
                result *= norm
            tl.store(output + rows * n_outputs + c, tl.where(spoiled, float("nan"), result), mask=row_inside)
