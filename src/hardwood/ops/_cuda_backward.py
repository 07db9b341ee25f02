"""Triton kernels of the backward pass: the straight-through gradient along each row's own path.

Only the nodes on a row's path have a gradient. A program owns the rows that pass through one subtree of a few levels;
per row and level it finds one number, the flow: how the loss changes when the node sends more to the right. The flows,
put in the places of their nodes, times the cells of `x`, are the gradient of the node's choice of column.
"""

from __future__ import annotations

import triton.language as tl

from hardwood.ops._cuda_forward import column_of_x, node_column, pack_node, transpose_rows
from hardwood.ops._cuda_paths import leaf_score, list_rows, output_score, slope, turns
from hardwood.ops._cuda_tiles import (
    add_product,
    below_each_other,
    by_warp,
    eighths,
    jit,
    level_tile,
    top_tile,
    two_parts,
)


@jit
def prepare(
    thresholds, missing_logits, feature_subset, selected, packed, packed_missing, x, x_t, odd_cells,
    n_nodes, n_packers, n_local, n_rows, n_columns, row_stride,
    NODES_PER_TREE: tl.constexpr, NODES: tl.constexpr, HAS_MISSING: tl.constexpr, HAS_SUBSET: tl.constexpr,
    ROWS: tl.constexpr, ROW_COLS: tl.constexpr,
):  # fmt: skip
    """Pack the selected splits and missing logits; programs past `n_packers` transpose `x` and note odd cells."""
    program = tl.program_id(0)
    if program >= n_packers:
        transpose_rows(
            x, x_t, odd_cells, program - n_packers, tl.num_programs(0) - n_packers, n_rows, n_columns, row_stride,
            True, ROWS, ROW_COLS,
        )  # fmt: skip
    else:
        nodes = program * NODES + tl.arange(0, NODES)
        inside = nodes < n_nodes
        column = tl.load(selected + nodes, mask=inside, other=0)
        own = nodes.to(tl.int64) * n_local + column
        missing_right = column < 0
        if HAS_MISSING:
            missing = tl.load(missing_logits + own, mask=inside, other=-1.0)
            tl.store(packed_missing + nodes, missing, mask=inside)
            missing_right = missing >= 0
        threshold = tl.load(thresholds + own, mask=inside, other=0.0)
        if HAS_SUBSET:
            local = (nodes // NODES_PER_TREE).to(tl.int64) * n_local + column
            column, _ = column_of_x(local, feature_subset, n_columns, inside)
        tl.store(packed + nodes, pack_node(column, threshold, missing_right), mask=inside)


@jit
def accumulate(
    x, x_t, packed, packed_missing, selected, odd_cells, order, feature_subset, thresholds, missing_logits,
    leaf_values, leaf_weights, leaf_index, shares, share, grad, grad_weights, output,
    partial, node_sums, grad_leaf_values, grad_leaf_weights, grad_x,
    n_rows, n_trees, n_columns, n_outputs, row_stride, grad_tree_stride, n_workers, n_blocks, chunk_rows,
    FEATURES: tl.constexpr, DEPTH: tl.constexpr, FIRST: tl.constexpr, LEVELS: tl.constexpr, WARPS: tl.constexpr,
    COLUMNS: tl.constexpr, OUTPUTS: tl.constexpr, OUTPUT_COLUMNS: tl.constexpr, COMBINE: tl.constexpr,
    SPLIT: tl.constexpr, HAS_MISSING: tl.constexpr, HAS_SUBSET: tl.constexpr, HAS_WEIGHTS: tl.constexpr,
    HAS_SHARES: tl.constexpr, INPUT: tl.constexpr, FAR: tl.constexpr,
):  # fmt: skip
    """Sum flows times cells for one subtree, one block of columns and one chunk of rows.

    The last column of a block is all ones, for the sum over rows. Missing and infinite cells take a pass of their own
    over the rows, only when the table has some. INPUT says what becomes of the flows: "none", "add" to the cells they
    came from, or "store" for `input_gradient`.
    """
    BOTTOM: tl.constexpr = FIRST + LEVELS == DEPTH
    ROWS: tl.constexpr = WARPS * 32
    HEAP: tl.constexpr = 16 if LEVELS < 4 else 1 << LEVELS
    PARENTS: tl.constexpr = 16 if LEVELS < 6 else 1 << (LEVELS - 1)
    NODES: tl.constexpr = (1 << DEPTH) - 1

    parts = n_blocks << FIRST
    tree = (tl.program_id(0) // parts).to(tl.int64)
    place = (tl.program_id(0) % parts) // n_blocks
    block = tl.program_id(0) % n_blocks
    chunk = tl.program_id(1)
    start = chunk * chunk_rows
    stop = tl.minimum(start + chunk_rows, n_rows)

    packed += tree * NODES
    packed_missing += tree * NODES
    selected += tree * NODES
    leaf_index += tree * n_rows
    shares += tree * n_rows
    grad_weights += tree * n_rows
    grad += tree * grad_tree_stride
    leaf_values += (tree << DEPTH) * n_outputs
    leaf_weights += tree << DEPTH
    thresholds += tree * NODES * FEATURES
    missing_logits += tree * NODES * FEATURES
    partial += (chunk * n_trees + tree) * NODES * FEATURES
    node_sums += 2 * (chunk * n_trees + tree) * NODES

    if FIRST > 0:
        listed, count = list_rows(leaf_index, order + tree * n_rows, start, stop, place, DEPTH - FIRST, 256)
        start = 0
        stop = count

    lane = tl.arange(0, COLUMNS)
    local = block * (COLUMNS - 1) + lane
    is_local = (lane < COLUMNS - 1) & (local < FEATURES)
    is_cell = is_local
    column = local
    if HAS_SUBSET:
        column, exists = column_of_x(tree * FEATURES + local, feature_subset, n_columns, is_local)
        is_cell = is_local & exists
    out_side = tl.arange(0, OUTPUT_COLUMNS) // (OUTPUT_COLUMNS // 2)
    out = block * (OUTPUT_COLUMNS // 2) + tl.arange(0, OUTPUT_COLUMNS) % (OUTPUT_COLUMNS // 2)

    worker = tl.arange(0, 128)
    odd = tl.load(odd_cells + worker, mask=worker < n_workers, other=0)
    any_nan = tl.max(odd & 1, 0)
    any_inf = tl.max(odd >> 1, 0)
    for turn in range(1 + any_nan + any_inf):
        # 0: cells that are numbers, 1: missing cells, 2: infinite cells.
        kind = tl.where(turn == 0, 0, tl.where((turn == 1) & (any_nan == 1), 1, 2))
        top_total = tl.zeros((WARPS, 16, COLUMNS), tl.float32)
        fourth_total = tl.zeros((WARPS, 16, COLUMNS), tl.float32)
        fifth_total = tl.zeros((WARPS, 32, COLUMNS), tl.float32)
        leaf_total = tl.zeros((WARPS, PARENTS, OUTPUT_COLUMNS), tl.float32)
        for first in range(start, stop, ROWS):
            entries = first + tl.arange(0, ROWS)
            valid = entries < stop
            if FIRST > 0:
                rows = tl.load(listed + entries, mask=valid, other=0)
            else:
                rows = tl.minimum(entries, n_rows - 1)
            leaf = tl.load(leaf_index + rows)
            if HAS_SHARES:
                weight = tl.where(valid, tl.load(shares + rows), 0.0)
            else:
                weight = tl.where(valid, share, 0.0)
            grads = ()
            for c in tl.static_range(OUTPUTS):
                grads = grads + (tl.load(grad + c * n_rows + rows),)
            own_score = leaf_score(leaf_values, leaf, grads, grad, rows, n_rows, n_outputs, OUTPUTS)
            pull = tl.zeros((ROWS,), tl.float32)
            if HAS_WEIGHTS:
                if COMBINE == "softmax":
                    pull = own_score - output_score(output, grads, grad, rows, n_rows, n_outputs, OUTPUTS)
                else:
                    pull = tl.load(grad_weights + rows)
                own_score += pull * tl.load(leaf_weights + leaf)
            distances, others = turns(x_t + rows, packed, leaf, row_stride, DEPTH, FIRST, LEVELS, HAS_MISSING, FAR)
            flows = ()
            for level in tl.static_range(LEVELS):
                score = leaf_score(leaf_values, others[level], grads, grad, rows, n_rows, n_outputs, OUTPUTS)
                if HAS_WEIGHTS:
                    score += pull * tl.load(leaf_weights + others[level])
                went_right = (leaf >> (DEPTH - 1 - FIRST - level)) & 1
                change = tl.where(went_right == 1, own_score - score, score - own_score)
                own = (1 << (FIRST + level)) - 1 + (leaf >> (DEPTH - FIRST - level))
                distance = distances[level]
                is_missing = distance != distance
                if HAS_MISSING:
                    distance = tl.where(is_missing, tl.load(packed_missing + own, mask=is_missing), distance)
                flow = slope(distance, SPLIT) * change * weight
                if not HAS_MISSING:
                    flow = tl.where(is_missing, 0.0, flow)
                if INPUT != "none":
                    keep = valid & (block == 0) & (turn == 0)
                    pulls_cell = tl.where(is_missing, 0.0, flow)
                    if INPUT == "add":
                        cell_at = rows.to(tl.int64) * n_columns + node_column(tl.load(packed + own), HAS_MISSING)
                        tl.atomic_add(grad_x + cell_at, pulls_cell, mask=keep, sem="relaxed")
                    else:
                        tl.store(grad_x + (tree * DEPTH + FIRST + level) * n_rows + rows, pulls_cell, mask=keep)
                flows = flows + (flow,)

            if FIRST > 0:
                cell_at = x + by_warp(rows, WARPS).to(tl.int64) * n_columns + column[None, :, None]
            else:
                # `x_t` is padded: its rows need not stop at the last one, so they load as vectors.
                dealt = first + tl.arange(0, WARPS)[:, None, None] * 32 + tl.arange(0, 32)[None, None, :]
                cell_at = x_t + column[None, :, None].to(tl.int64) * row_stride + dealt
            ones = (lane == COLUMNS - 1).to(tl.float32)[None, :, None]
            cells = tl.load(cell_at, mask=is_cell[None, :, None], other=ones)
            if any_nan + any_inf > 0:
                infinite = tl.abs(cells) == float("inf")
                missing = cells != cells
                number = tl.where(infinite | missing, 0.0, cells)
                cells = tl.where(kind == 0, number, tl.where(kind == 1, missing, infinite).to(tl.float32))
            cells = two_parts(tl.permute(cells, (0, 2, 1)))
            within = (leaf >> (DEPTH - FIRST - LEVELS)) & ((1 << LEVELS) - 1)
            top_total = add_product(top_total, top_tile(flows, within, LEVELS, WARPS), cells)
            if LEVELS > 4:
                tile = level_tile(flows[4], within >> (LEVELS - 4), 16, WARPS)
                fourth_total = add_product(fourth_total, tile, cells)
            if LEVELS > 5:
                tile = level_tile(flows[5], within >> (LEVELS - 5), 32, WARPS)
                fifth_total = add_product(fifth_total, tile, cells)

            if BOTTOM:
                # By parent and side: half as many lines as leaves, with twice the columns.
                parent = by_warp(within >> 1, WARPS) == tl.arange(0, PARENTS)[None, :, None]
                parent = tl.where(parent, 1.0, 0.0)
                if OUTPUTS > 0:
                    said = tl.zeros((WARPS, OUTPUT_COLUMNS, 32), tl.float32)
                    for c in tl.static_range(OUTPUTS):
                        said = tl.where((out == c)[None, :, None], by_warp(grads[c], WARPS), said)
                else:
                    said_at = out[None, :, None].to(tl.int64) * n_rows + by_warp(rows, WARPS)
                    said = tl.load(grad + said_at, mask=(out < n_outputs)[None, :, None], other=0.0)
                said = tl.where((out == n_outputs)[None, :, None], by_warp(pull, WARPS), said) * by_warp(weight, WARPS)
                said = tl.where(by_warp(leaf & 1, WARPS) == out_side[None, :, None], said, 0.0)
                said = two_parts(tl.permute(said, (0, 2, 1)))
                leaf_total = tl.dot(parent, said[1], leaf_total, input_precision="tf32")
                leaf_total = tl.dot(parent, said[0], leaf_total, input_precision="tf32")

        if BOTTOM:
            if turn == 0:
                leaf_sums = tl.sum(leaf_total, 0)
                leaves = 2 * tl.arange(0, PARENTS)[:, None] + out_side[None, :]
                leaf_at = ((chunk * n_trees + tree) << DEPTH) + (place << LEVELS) + leaves
                is_leaf = leaves < (1 << LEVELS)
                is_output = (out < n_outputs)[None, :]
                tl.store(grad_leaf_values + leaf_at * n_outputs + out[None, :], leaf_sums, mask=is_leaf & is_output)
                if HAS_WEIGHTS:
                    tl.store(grad_leaf_weights + leaf_at, leaf_sums, mask=is_leaf & (out == n_outputs)[None, :])
        tile = tl.sum(top_total, 0)
        if LEVELS > 4:
            tile = below_each_other(tile, tl.sum(fourth_total, 0))
        if LEVELS > 5:
            tile = below_each_other(tile, tl.sum(fifth_total, 0))
        # Where the heap's nodes lie among the tree's.
        heap = tl.arange(0, HEAP)
        level = (heap >= 2).to(tl.int32)
        for up in tl.static_range(2, LEVELS):
            level += (heap >= (1 << up)).to(tl.int32)
        node = (1 << (FIRST + level)) - 1 + (place << level) + heap - (1 << level)
        is_node = (heap > 0) & (heap < (1 << LEVELS))
        at = node[:, None] * FEATURES + local[None, :]
        inside = is_node[:, None] & is_local[None, :]
        sum_at = node_sums + 2 * node[:, None] + tl.zeros_like(local)[None, :]
        chosen = tl.load(selected + node, mask=is_node, other=-1)
        is_chosen = inside & (local[None, :] == chosen[:, None])
        if turn == 0:
            tl.store(partial + at, tile, mask=inside)
            tl.store(sum_at, tile, mask=is_node[:, None] & ((lane == COLUMNS - 1) & (block == 0))[None, :])
            tl.store(sum_at + 1, tl.zeros_like(tile), mask=is_chosen)
        else:
            # In place of a missing cell stands its missing logit, and of an infinite one nothing; the threshold that
            # `finish` takes from every cell is given back.
            tl.debug_barrier()
            factor = tl.load(thresholds + at, mask=inside, other=0.0)
            if HAS_MISSING:
                factor += tl.load(missing_logits + at, mask=inside & (kind == 1), other=0.0)
            tl.store(partial + at, tl.load(partial + at, mask=inside, other=0.0) + tile * factor, mask=inside)
            tl.store(sum_at + 1, tile, mask=is_chosen & (kind == 1))


@jit
def selection_gradient(logits, gradient, SELECTION: tl.constexpr):
    """Apply the Jacobian of softmax or entmax-1.5 to each line's gradient; logits of -inf stand outside."""
    logit_parts = eighths(logits)
    gradient_parts = eighths(gradient)
    top = logit_parts[0]
    for i in tl.static_range(1, 8):
        top = tl.maximum(top, logit_parts[i])
    top = tl.max(top, 1)
    total = tl.zeros_like(logit_parts[0])
    flow = tl.zeros_like(logit_parts[0])
    if SELECTION == "softmax":
        for i in tl.static_range(8):
            root = tl.exp(logit_parts[i] - top[:, None])
            total += root
            flow += root * gradient_parts[i]
        norm = tl.sum(total, 1)
        root = tl.exp(logits - top[:, None]) / norm[:, None]
    else:
        # Newton's method on the norm of relu(z/2 - tau), which is convex in tau and all but straight: from the left it
        # climbs to norm 1 without passing it. `rsqrt` is one instruction, a division several.
        tau = tl.full(top.shape, -1.0, tl.float32)
        for _ in range(5 if logits.shape[1] <= 64 else 7):
            roots = tl.zeros_like(total)
            squares = tl.zeros_like(total)
            for i in tl.static_range(8):
                root = tl.maximum((logit_parts[i] - top[:, None]) * 0.5 - tau[:, None], 0.0)
                roots += root
                squares += root * root
            square = tl.sum(squares, 1)
            slope_size = tl.sum(roots, 1)
            norm = square * tl.rsqrt(square)
            tau += norm * (norm - 1) * tl.rsqrt(slope_size * slope_size)
        for i in tl.static_range(8):
            root = tl.maximum((logit_parts[i] - top[:, None]) * 0.5 - tau[:, None], 0.0)
            total += root
            flow += root * gradient_parts[i]
        norm = tl.sum(total, 1)
        root = tl.maximum((logits - top[:, None]) * 0.5 - tau[:, None], 0.0)
    result = root * (gradient - (tl.sum(flow, 1) / norm)[:, None])
    return result


@jit
def finish(
    partial, node_sums, selected, split_logits, thresholds, grad_split_logits, grad_thresholds, grad_missing_logits,
    n_nodes, n_local, n_chunks, NODES: tl.constexpr, COLUMNS: tl.constexpr, SELECTION: tl.constexpr,
    HAS_MISSING: tl.constexpr,
):  # fmt: skip
    """Add the chunks' sums in order and turn them into the gradients of the nodes' parameters."""
    node = tl.program_id(0) * NODES + tl.arange(0, NODES)
    is_node = node < n_nodes
    local = tl.arange(0, COLUMNS)
    inside = is_node[:, None] & (local < n_local)[None, :]
    at = node[:, None].to(tl.int64) * n_local + local[None, :]
    gradient = tl.zeros((NODES, COLUMNS), tl.float32)
    sums = tl.zeros((NODES,), tl.float32)
    missing_sums = tl.zeros((NODES,), tl.float32)
    for chunk in range(n_chunks):
        offset = chunk * tl.cast(n_nodes, tl.int64)
        gradient += tl.load(partial + offset * n_local + at, mask=inside, other=0.0)
        sums += tl.load(node_sums + 2 * (offset + node), mask=is_node, other=0.0)
        missing_sums += tl.load(node_sums + 2 * (offset + node) + 1, mask=is_node, other=0.0)
    gradient -= tl.load(thresholds + at, mask=inside, other=0.0) * sums[:, None]
    logits = tl.load(split_logits + at, mask=inside, other=float("-inf"))
    tl.store(grad_split_logits + at, selection_gradient(logits, gradient, SELECTION), mask=inside)
    own = local[None, :] == tl.load(selected + node, mask=is_node, other=0)[:, None]
    tl.store(grad_thresholds + at, tl.where(own, (missing_sums - sums)[:, None], 0.0), mask=inside)
    if HAS_MISSING:
        tl.store(grad_missing_logits + at, tl.where(own, missing_sums[:, None], 0.0), mask=inside)


@jit
def input_gradient(
    flows, packed, leaf_index, grad_x, n_rows, n_trees, n_columns,
    DEPTH: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Add the stored gradients of every tree and level to the cells they came from, always in the same order."""
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = rows < n_rows
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for tree in range(n_trees):
        leaf = tl.load(leaf_index + tl.cast(tree, tl.int64) * n_rows + rows, mask=inside, other=0)
        for level in range(DEPTH):
            node = (1 << level) - 1 + (leaf >> (DEPTH - level))
            column = node_column(tl.load(packed + tl.cast(tree, tl.int64) * ((1 << DEPTH) - 1) + node), True)
            flow = tl.load(flows + (tl.cast(tree, tl.int64) * DEPTH + level) * n_rows + rows, mask=inside, other=0.0)
            total += tl.where(column[:, None] == columns[None, :], flow[:, None], 0.0)
    at = rows[:, None].to(tl.int64) * n_columns + columns[None, :]
    tl.store(grad_x + at, total, mask=inside[:, None] & (columns < n_columns)[None, :])
