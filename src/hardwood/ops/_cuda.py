"""Hard routing on an NVIDIA GPU: allocate the results, choose block sizes, launch the Triton kernels.

Nothing here waits for the GPU, so a step can be captured in a CUDA graph. Gradients of parameters are sums in a fixed
order. The gradient of `x` is one too under `torch.use_deterministic_algorithms`; otherwise it uses atomic additions.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeVar

import torch
from torch import Tensor

from hardwood.ops import _cuda_backward, _cuda_forward
from hardwood.ops._contract import Combine, Forward, Selection, Split

P = ParamSpec("P")
T = TypeVar("T")

# What keeps every multiprocessor of a large GPU busy. With fewer programs, rows are split into chunks.
_ENOUGH_PROGRAMS = 264
_ENOUGH_WARPS = 1024
# The sums of all chunks take at most this many numbers.
_MOST_PARTIAL_SUMS = 1 << 26
_MOST_TRANSPOSERS = 128
# Columns of the transposed table are padded with zeros to whole blocks of rows.
_ROW_BLOCK = 256


def _next_power(n: int) -> int:
    return 1 << max(0, n - 1).bit_length()


def _ceil_div(n: int, by: int) -> int:
    return -(-n // by)


def _or(tensor: Tensor | None, other: Tensor) -> Tensor:
    """Return a tensor for an argument that must be one; kernels do not read what they are not told to."""
    return other if tensor is None else tensor


def _on_its_device(function: Callable[Concatenate[Tensor, P], T]) -> Callable[Concatenate[Tensor, P], T]:
    """Launch on the first argument's device: Triton takes the current one."""

    @functools.wraps(function)
    def run(first: Tensor, /, *args: P.args, **kwargs: P.kwargs) -> T:
        if first.device.index is None or first.device.index == torch.cuda.current_device():
            return function(first, *args, **kwargs)
        with torch.cuda.device(first.device):
            return function(first, *args, **kwargs)

    return run


class _Transposed(NamedTuple):
    """Room for `x` by column, and how to fill it."""

    x_t: Tensor
    row_stride: int
    workers: int
    far: bool  # its places need 64 bits
    blocks: dict[str, int]


def _transposed(x: Tensor) -> _Transposed:
    n_rows, n_columns = x.shape
    row_stride = _ceil_div(n_rows, _ROW_BLOCK) * _ROW_BLOCK
    return _Transposed(
        x.new_empty(n_columns * row_stride),
        row_stride,
        min(_MOST_TRANSPOSERS, row_stride // 32),
        n_columns * row_stride >= 1 << 31,
        {"ROWS": 32, "ROW_COLS": min(32, _next_power(n_columns))},
    )


def _plan_combine(n_rows: int, n_trees: int) -> tuple[int, int, int]:
    """Return rows and trees of a block and the warps for it."""
    rows = min(32, _next_power(_ceil_div(n_rows, 64)))
    trees = min(_next_power(n_trees), 4096 // rows)
    rows = max(rows, min(512 // trees, _next_power(n_rows)))
    return rows, trees, max(1, min(16, trees * rows // 256))


@_on_its_device
def forward(
    x: Tensor,
    split_logits: Tensor,
    thresholds: Tensor,
    missing_logits: Tensor | None,
    leaf_values: Tensor,
    leaf_weights: Tensor | None,
    feature_subset: Tensor | None,
    tree_mask: Tensor | None,
    combine: Combine,
) -> Forward:
    """Route the rows and combine the trees. `leaf_index` and `attention` are stored by tree and returned transposed."""
    (n_rows, n_columns), (n_trees, n_nodes, n_local) = x.shape, split_logits.shape
    n_outputs = leaf_values.shape[2]
    depth = n_nodes.bit_length()
    weighted = leaf_weights is not None and combine in ("softmax", "none")
    output = x.new_empty((n_rows, n_trees, n_outputs) if combine == "none" else (n_rows, n_outputs))
    leaf_index = x.new_empty((n_trees, n_rows), dtype=torch.int32)
    attention = x.new_empty((n_trees, n_rows) if weighted else (0,))
    selected = x.new_empty((n_trees, n_nodes), dtype=torch.int32)
    packed = x.new_empty((n_trees, n_nodes), dtype=torch.int64)
    by_column = _transposed(x)

    node_columns = min(1024, max(16, _next_power(n_local)))
    block_nodes = 1024 // node_columns
    n_selectors = _ceil_div(n_trees * n_nodes, block_nodes)
    _cuda_forward.select[(n_selectors + by_column.workers,)](
        split_logits, thresholds, _or(missing_logits, x), _or(feature_subset, x), selected, packed, x, by_column.x_t,
        n_trees * n_nodes, n_selectors, n_local, n_rows, n_columns, by_column.row_stride,
        NODES_PER_TREE=n_nodes, NODES=block_nodes, COLUMNS=node_columns, HAS_MISSING=missing_logits is not None,
        HAS_SUBSET=feature_subset is not None, **by_column.blocks, num_warps=2,
    )  # fmt: skip
    if n_rows > 0:
        rows = min(_ROW_BLOCK, max(32, _next_power(n_rows)))
        _cuda_forward.route[(n_trees * _ceil_div(n_rows, rows),)](
            by_column.x_t, packed, leaf_values, _or(leaf_weights, x), leaf_index, attention, output,
            n_rows, n_trees, n_outputs, by_column.row_stride,
            DEPTH=depth, SEPARATE=combine == "none", HAS_MISSING=missing_logits is not None, HAS_WEIGHTS=weighted,
            ROWS=rows, FAR=by_column.far, num_warps=max(1, rows // 64),
        )  # fmt: skip
    if n_rows > 0 and combine != "none":
        rows, trees, warps = _plan_combine(n_rows, n_trees)
        mask = x if tree_mask is None else tree_mask.view(torch.uint8)
        _cuda_forward.combine[(_ceil_div(n_rows, rows),)](
            leaf_index, attention, leaf_values, mask, output,
            n_rows, n_trees, n_outputs, 0 if len(mask) == 1 else n_trees,
            DEPTH=depth, ONE_OUTPUT=n_outputs == 1, COMBINE=combine, HAS_MASK=tree_mask is not None,
            TREES=trees, ROWS=rows, num_warps=warps,
        )  # fmt: skip
    return Forward(output, leaf_index.t(), attention.t() if weighted else attention, selected)


class _Plan(NamedTuple):
    """How the backward pass cuts its work."""

    levels: int  # of a subtree
    columns: int  # of a block, one of them for the sum over rows
    outputs: int  # of a block, twice (left and right child), the leaf weight among them
    blocks: int  # enough for the columns and for the outputs
    chunks: int  # of rows
    chunk_rows: int


def _plan(n_rows: int, n_trees: int, depth: int, n_local: int, n_outputs: int) -> _Plan:
    columns = min(64, max(16, _next_power(n_local + 1)))
    levels = 6 if depth == 6 and columns <= 32 and n_outputs < 8 else min(5, depth)
    outputs = 8 if n_outputs < 4 else 16
    blocks = max(_ceil_div(n_local, columns - 1), _ceil_div(n_outputs + 1, outputs // 2))
    chunks = min(_ceil_div(_ENOUGH_PROGRAMS, n_trees * blocks), _ceil_div(n_rows, 512))
    chunks = max(1, min(chunks, _MOST_PARTIAL_SUMS // (n_trees * n_local << depth)))
    chunk_rows = _ceil_div(_ceil_div(n_rows, chunks), _ROW_BLOCK) * _ROW_BLOCK
    return _Plan(levels, columns, outputs, blocks, _ceil_div(n_rows, chunk_rows), chunk_rows)


@_on_its_device
def backward(
    grad_output: Tensor,
    grad_attention: Tensor | None,
    x: Tensor,
    split_logits: Tensor,
    thresholds: Tensor,
    missing_logits: Tensor | None,
    leaf_values: Tensor,
    leaf_weights: Tensor | None,
    feature_subset: Tensor | None,
    tree_mask: Tensor | None,
    fwd: Forward,
    combine: Combine,
    selection: Selection,
    split: Split,
    need_input_grad: bool,
) -> tuple[Tensor, Tensor, Tensor | None, Tensor, Tensor | None, Tensor | None]:
    """Return the gradients of logits, thresholds, missing logits, leaf values, leaf weights and, if needed, `x`."""
    (n_rows, n_columns), (n_trees, n_nodes, n_local) = x.shape, split_logits.shape
    n_outputs = leaf_values.shape[2]
    depth = n_nodes.bit_length()
    if n_rows == 0:
        parameters = (split_logits, thresholds, missing_logits, leaf_values, leaf_weights)
        zeros: Any = tuple(None if p is None else torch.zeros_like(p) for p in parameters)
        return *zeros, torch.zeros_like(x) if need_input_grad else None

    plan = _plan(n_rows, n_trees, depth, n_local, n_outputs)
    weighted = combine == "softmax" or (combine == "none" and leaf_weights is not None and grad_attention is not None)
    flags = {
        "HAS_MISSING": missing_logits is not None,
        "HAS_SUBSET": feature_subset is not None,
    }
    missing, subset = _or(missing_logits, x), _or(feature_subset, x)
    shares, share = _shares(fwd, tree_mask, combine)
    grad = (grad_output.permute(1, 2, 0) if combine == "none" else grad_output.t()).contiguous()
    grad_weights = x if grad_attention is None else grad_attention.t().contiguous()
    leaf_index = fwd.leaf_index.t().contiguous()

    grad_split_logits, grad_thresholds = torch.empty_like(split_logits), torch.empty_like(thresholds)
    grad_missing_logits = None if missing_logits is None else torch.empty_like(missing_logits)
    grad_leaf_values = x.new_empty((plan.chunks, *leaf_values.shape))
    grad_leaf_weights = None
    if leaf_weights is not None:
        grad_leaf_weights = (x.new_empty if weighted else x.new_zeros)((plan.chunks, *leaf_weights.shape))
    # A single chunk's sums are turned into gradients where they lie.
    sums = grad_split_logits if plan.chunks == 1 else x.new_empty((plan.chunks, *split_logits.shape))
    node_sums = x.new_empty((plan.chunks, n_trees, n_nodes, 2))
    input_mode, input_room = "none", x
    if need_input_grad:
        store = torch.are_deterministic_algorithms_enabled()
        input_mode = "store" if store else "add"
        input_room = x.new_empty((n_trees, depth, n_rows)) if store else torch.zeros_like(x)

    packed = x.new_empty((n_trees, n_nodes), dtype=torch.int64)
    packed_missing = x if missing_logits is None else x.new_empty((n_trees, n_nodes))
    odd_cells = x.new_empty(_MOST_TRANSPOSERS, dtype=torch.int32)
    by_column = _transposed(x)
    n_packers = _ceil_div(n_trees * n_nodes, 512)
    _cuda_backward.prepare[(n_packers + by_column.workers,)](
        thresholds, missing, subset, fwd.selected, packed, packed_missing, x, by_column.x_t, odd_cells,
        n_trees * n_nodes, n_packers, n_local, n_rows, n_columns, by_column.row_stride,
        NODES_PER_TREE=n_nodes, NODES=512, **flags, **by_column.blocks, num_warps=4,
    )  # fmt: skip
    order = torch.empty_like(leaf_index) if depth > plan.levels else leaf_index
    for end in range(depth, 0, -plan.levels):
        first = max(0, end - plan.levels)
        programs = n_trees * plan.blocks * plan.chunks << first
        rows = _ceil_div(min(n_rows, plan.chunk_rows), 1 << first)
        # Programs of one warp exchange nothing and end with the fewest sums, where there are enough of them.
        warps = min(_next_power(_ceil_div(rows, 32)), _next_power(_ceil_div(_ENOUGH_WARPS, programs)))
        # More would want more shared memory than a small GPU has.
        warps = min(warps, 8, 256 // plan.columns)
        _cuda_backward.accumulate[(n_trees * plan.blocks << first, plan.chunks)](
            x, by_column.x_t, packed, packed_missing, fwd.selected, odd_cells, order, subset, thresholds, missing,
            leaf_values, _or(leaf_weights, x), leaf_index, shares, share, grad, grad_weights, fwd.output,
            sums, node_sums, grad_leaf_values, _or(grad_leaf_weights, x), input_room,
            n_rows, n_trees, n_columns, n_outputs, by_column.row_stride, n_outputs * n_rows if combine == "none" else 0,
            by_column.workers, plan.blocks, plan.chunk_rows,
            FEATURES=n_local, DEPTH=depth, FIRST=first, LEVELS=end - first, WARPS=warps, COLUMNS=plan.columns,
            OUTPUTS=n_outputs if n_outputs < 8 else 0, OUTPUT_COLUMNS=plan.outputs, COMBINE=combine, SPLIT=split,
            **flags, HAS_WEIGHTS=weighted, HAS_SHARES=shares is not fwd.output, INPUT=input_mode, FAR=by_column.far,
            num_warps=warps, num_stages=1,
        )  # fmt: skip
    node_columns = max(16, _next_power(n_local))
    block_nodes = max(1, 256 // node_columns)
    _cuda_backward.finish[(_ceil_div(n_trees * n_nodes, block_nodes),)](
        sums, node_sums, fwd.selected, split_logits, thresholds, grad_split_logits, grad_thresholds,
        _or(grad_missing_logits, x), n_trees * n_nodes, n_local, plan.chunks,
        NODES=block_nodes, COLUMNS=node_columns, SELECTION=selection, HAS_MISSING=missing_logits is not None,
        num_warps=max(1, min(8, node_columns // 256)),
    )  # fmt: skip
    grad_x = input_room if need_input_grad else None
    if input_mode == "store":
        grad_x = torch.empty_like(x)
        columns = min(64, _next_power(n_columns))
        _cuda_backward.input_gradient[(_ceil_div(n_rows, 16), _ceil_div(n_columns, columns))](
            input_room, packed, leaf_index, grad_x, n_rows, n_trees, n_columns, DEPTH=depth, ROWS=16, COLUMNS=columns,
            num_warps=4,
        )  # fmt: skip
    return (
        grad_split_logits, grad_thresholds, grad_missing_logits, _sum_chunks(grad_leaf_values),
        None if grad_leaf_weights is None else _sum_chunks(grad_leaf_weights), grad_x,
    )  # fmt: skip


def _sum_chunks(partial: Tensor) -> Tensor:
    return partial[0] if len(partial) == 1 else partial.sum(0)


def _shares(fwd: Forward, tree_mask: Tensor | None, combine: Combine) -> tuple[Tensor, float]:
    """Return every tree's share of every row's output: by tree and row, or one number where all are equal."""
    n_rows, n_trees = fwd.leaf_index.shape
    if combine == "softmax":
        return fwd.attention.t().contiguous(), 1.0
    if tree_mask is None or combine == "none":
        return fwd.output, 1.0 / n_trees if combine == "mean" else 1.0
    kept = tree_mask.t().expand(n_trees, n_rows).to(fwd.output.dtype)
    return (kept / kept.sum(0).clamp(min=1) if combine == "mean" else kept).contiguous(), 1.0
