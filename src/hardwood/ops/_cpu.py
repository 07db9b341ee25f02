"""The CPU backend of hard routing: NumPy views of the tensors, compiled kernels, threads over trees.

Work on rows x trees is never left to torch: its OpenMP threads go on spinning for a while after each operation, on the
cores that the kernels' own threads need next.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from hardwood._numba import run_chunks
from hardwood._typing import Bool, Float, Int
from hardwood.errors import reject
from hardwood.ops import _cpu_backward, _cpu_forward
from hardwood.ops._contract import SELECTIONS, SPLITS, Combine, Forward, Selection, Split
from hardwood.ops._cpu_forward import Splits, Trees
from hardwood.ops._cpu_nodes import Gradients, Table
from hardwood.ops._cpu_simd import LANES, ROWS

# Fewer cells of work (rows x trees x depth) than this are done sooner by one thread than handed to another.
_WORTH_A_THREAD = 20_000
_CACHE_LINE = 64  # bytes
_PARAMETERS = {1: "split_logits", 2: "thresholds", 3: "leaf_values", 4: "leaf_weights", 5: "missing_logits"}


def forward(
    x: Float[Tensor, "rows columns"],
    split_logits: Float[Tensor, "trees nodes features"],
    thresholds: Float[Tensor, "trees nodes features"],
    missing_logits: Float[Tensor, "trees nodes features"] | None,
    leaf_values: Float[Tensor, "trees leaves outputs"],
    leaf_weights: Float[Tensor, "trees leaves"] | None,
    feature_subset: Int[Tensor, "trees features"] | None,
    tree_mask: Bool[Tensor, "rows_or_1 trees"] | None,
    combine: Combine,
) -> Forward:
    """Route every row through every tree and combine the trees' outputs."""
    trees = _trees(split_logits, thresholds, missing_logits, leaf_values, leaf_weights, feature_subset)
    splits = _select(trees)
    n_rows, n_trees = len(x), len(split_logits)
    smallest = _smallest_chunk(n_rows, trees)
    x_columns = _columns(x)
    leaf_index = torch.empty(n_trees, n_rows, dtype=torch.int32)
    leaf = leaf_index.numpy()
    run_chunks(lambda a, b: _cpu_forward.route(a, b, x_columns, splits, leaf), n_trees, _threads(), smallest)

    attention = torch.empty(0, dtype=x.dtype)
    few_rows = max(16, _WORTH_A_THREAD // n_trees)
    if combine == "none":
        output = x.new_empty(n_rows, n_trees, leaf_values.shape[2])
        filled = output.numpy()
        run_chunks(
            lambda a, b: _cpu_forward.gather_outputs(a, b, leaf, trees.leaf_values, filled),
            n_trees, _threads(), smallest,
        )  # fmt: skip
        if leaf_weights is not None:
            weights = np.empty((n_trees, n_rows), trees.leaf_weights.dtype)
            run_chunks(
                lambda a, b: _cpu_forward.gather_weights(a, b, leaf, trees.leaf_weights, weights),
                n_trees, _threads(), smallest,
            )  # fmt: skip
            attention = torch.from_numpy(weights).t()
    else:
        mask = np.empty((0, 0), bool) if tree_mask is None else tree_mask.contiguous().numpy()
        if combine == "softmax":
            shares = np.empty((n_trees, n_rows), trees.leaf_weights.dtype)
            run_chunks(
                lambda a, b: _cpu_forward.softmax_shares(a, b, leaf, trees.leaf_weights, mask, shares),
                n_rows, _threads(), few_rows,
            )  # fmt: skip
            attention = torch.from_numpy(shares).t()
        else:
            shares = _equal_shares(mask, combine, n_trees, x)
        output = x.new_empty(n_rows, leaf_values.shape[2])
        filled = output.numpy()
        run_chunks(
            lambda a, b: _cpu_forward.mix_trees(a, b, leaf, trees.leaf_values, shares, filled),
            n_rows, _threads(), few_rows,
        )  # fmt: skip
    return Forward(output, leaf_index.t(), attention, torch.from_numpy(splits.selected))


def backward(
    grad_output: Float[Tensor, "..."],
    grad_attention: Float[Tensor, "rows trees"] | None,
    x: Float[Tensor, "rows columns"],
    split_logits: Float[Tensor, "trees nodes features"],
    thresholds: Float[Tensor, "trees nodes features"],
    missing_logits: Float[Tensor, "trees nodes features"] | None,
    leaf_values: Float[Tensor, "trees leaves outputs"],
    leaf_weights: Float[Tensor, "trees leaves"] | None,
    feature_subset: Int[Tensor, "trees features"] | None,
    tree_mask: Bool[Tensor, "rows_or_1 trees"] | None,
    fwd: Forward,
    combine: Combine,
    selection: Selection,
    split: Split,
    need_input_grad: bool,
) -> tuple[Tensor, Tensor, Tensor | None, Tensor, Tensor | None, Tensor | None]:
    """Return the straight-through gradients of all parameters, and of `x` if wanted."""
    trees = _trees(split_logits, thresholds, missing_logits, leaf_values, leaf_weights, feature_subset)
    splits = _splits(trees, fwd.selected)
    n_rows, n_trees = len(x), len(split_logits)
    smallest = _smallest_chunk(n_rows, trees)
    leaf = np.ascontiguousarray(fwd.leaf_index.t().numpy())
    weighted = leaf_weights is not None and combine in ("softmax", "none")
    dtype = trees.leaf_values.dtype
    pull = np.empty((0, 0), dtype)
    if combine == "none":
        grad = grad_output
        share = np.ones((n_trees, n_rows), dtype)
        if weighted:
            pull = np.zeros((n_trees, n_rows), dtype)
            if grad_attention is not None:
                pull[:] = grad_attention.t().numpy()
    else:
        grad = grad_output[:, None, :]
        if combine == "softmax":
            share = np.ascontiguousarray(fwd.attention.t().numpy())
            pull = np.empty((n_trees, n_rows), dtype)
        else:
            mask = np.empty((0, 0), bool) if tree_mask is None else tree_mask.contiguous().numpy()
            share = _equal_shares(mask, combine, n_trees, x)
    upstream = _cpu_backward.Upstream(grad.contiguous().numpy(), share, pull, leaf)
    if combine == "softmax":
        grad_dot_output = (grad_output * fwd.output).sum(1).numpy()
        run_chunks(
            lambda a, b: _cpu_backward.pull_of_leaf_weights(a, b, upstream, grad_dot_output, trees.leaf_values),
            n_trees, _threads(), smallest,
        )  # fmt: skip

    grad_logits, grad_thresholds = _room_for(split_logits), _room_for(thresholds)
    grad_missing = None if missing_logits is None else _room_for(missing_logits)
    grad_values = _room_for(leaf_values)
    grad_weights = None if leaf_weights is None else torch.zeros_like(leaf_weights)
    grads = Gradients(
        grad_logits.numpy(), grad_thresholds.numpy(), _array(grad_missing, x, 3),
        grad_values.numpy(), _array(grad_weights, x, 2), _array(None, x, 2),
    )  # fmt: skip
    table = _table(x)
    # Every thread adds up its own trees' pull on the input.
    input_shape = tuple(x.shape) if need_input_grad else (0, 0)
    parts: dict[int, np.ndarray] = {}

    def work(start: int, stop: int) -> None:
        parts[start] = np.zeros(input_shape, table.x.dtype)
        _cpu_backward.backward_trees(
            start, stop, upstream, table, trees, splits, grads._replace(x=parts[start]),
            SELECTIONS.index(selection), SPLITS.index(split),
        )  # fmt: skip

    run_chunks(work, n_trees, _threads(), smallest)
    grad_x = None
    if need_input_grad:
        grad_x = torch.from_numpy(sum((parts[start] for start in sorted(parts)), np.zeros(input_shape, table.x.dtype)))
    return grad_logits, grad_thresholds, grad_missing, grad_values, grad_weights, grad_x


def _threads() -> int:
    return torch.get_num_threads()


def _smallest_chunk(n_rows: int, trees: Trees) -> int:
    nodes = trees.split_logits.shape[1]
    work_of_a_tree = max(1, n_rows) * (nodes + 1).bit_length() + trees.split_logits[0].size
    return max(1, _WORTH_A_THREAD // work_of_a_tree)


def _array(tensor: Tensor | None, like: Tensor, ndim: int) -> np.ndarray:
    """Return a C-contiguous array, or an empty one of the right type for an absent tensor."""
    if tensor is None:
        return like.new_empty((0,) * ndim).numpy()
    return tensor.detach().contiguous().numpy()


def _trees(
    split_logits: Tensor,
    thresholds: Tensor,
    missing_logits: Tensor | None,
    leaf_values: Tensor,
    leaf_weights: Tensor | None,
    feature_subset: Tensor | None,
) -> Trees:
    like = split_logits
    subset = np.empty((0, 0), np.int64) if feature_subset is None else feature_subset.contiguous().numpy()
    return Trees(
        _array(split_logits, like, 3),
        _array(thresholds, like, 3),
        _array(missing_logits, like, 3),
        _array(leaf_values, like, 3),
        _array(leaf_weights, like, 2),
        subset,
    )


def _select(trees: Trees) -> Splits:
    """Find the hard splits, and refuse parameters that are not finite: routing by them would hide a broken training."""
    n_trees, nodes, features = trees.split_logits.shape
    splits = Splits(
        np.zeros((n_trees, nodes), np.int32),
        np.zeros((n_trees, nodes), np.uint32),
        np.zeros((n_trees, nodes), trees.thresholds.dtype),
    )
    bad = np.zeros(n_trees, np.int8)
    smallest = max(1, _WORTH_A_THREAD // (nodes * features))
    run_chunks(lambda a, b: _cpu_forward.select_splits(a, b, trees, splits, bad), n_trees, _threads(), smallest)
    if bad.any():
        tree = int(bad.argmax())
        reject(
            _PARAMETERS[int(bad[tree])], "nan or inf", f"tree {tree} has a parameter that is not finite",
            "lower the learning rate, clip gradients, or look for NaN in the loss of an earlier step",
        )  # fmt: skip
    return splits


def _splits(trees: Trees, selected: Tensor) -> Splits:
    """Rebuild the hard splits from the features that the forward pass selected."""
    chosen = selected.numpy()
    at = chosen[:, :, None]
    column = chosen if trees.subset.size == 0 else np.take_along_axis(trees.subset, chosen, axis=1)
    missing_right: Any = 0
    if trees.missing_logits.size > 0:
        missing_right = np.take_along_axis(trees.missing_logits, at, axis=2)[:, :, 0] >= 0
    packed = np.ascontiguousarray(2 * column + missing_right, np.uint32)
    return Splits(chosen, packed, np.take_along_axis(trees.thresholds, at, axis=2)[:, :, 0])


def _room_for(tensor: Tensor) -> Tensor:
    """Return a tensor of the same shape from NumPy, which asks the system for large pages where torch does not."""
    return torch.from_numpy(np.empty(tensor.shape, tensor.detach().numpy().dtype))


def _equal_shares(
    mask: Bool[np.ndarray, "..."], combine: str, n_trees: int, x: Tensor
) -> Float[np.ndarray, "trees rows"]:
    """Return how much each tree counts for each row in a mean or sum; trees outside `mask` count nothing."""
    share = np.ones((n_trees, len(x)), x.numpy().dtype)
    if mask.size > 0:
        share *= mask.T
    if combine == "mean":
        share /= np.maximum(share.sum(0), 1)
    return share


def _aligned_zeros(rows: int, columns: int, dtype: np.dtype) -> np.ndarray:
    """Return zeros that begin at a cache line: otherwise every vector that a kernel loads lies across two."""
    size = rows * columns
    room = np.zeros(size + _CACHE_LINE // dtype.itemsize, dtype)
    first = -room.ctypes.data % _CACHE_LINE // dtype.itemsize
    return room[first : first + size].reshape(rows, columns)


def _columns(x: Tensor) -> np.ndarray:
    """Return `x` transposed, its rows padded for the kernels."""
    columns = _aligned_zeros(x.shape[1], -(-len(x) // ROWS) * ROWS, x.numpy().dtype)
    columns[:, : len(x)] = x.numpy().T
    return columns


def _table(x: Tensor) -> Table:
    """Lay the rows out for the kernels; cells that are not finite become 0 in `x` and are listed."""
    rows = x.numpy()
    padded = _aligned_zeros(len(rows), -(-rows.shape[1] // LANES) * LANES, rows.dtype)
    padded[:, : rows.shape[1]] = rows
    odd = ~np.isfinite(padded)
    if not odd.any():
        return Table(padded, _columns(x), np.empty(0, np.int64), np.empty(0, np.int64))
    odd_start = np.zeros(len(rows) + 1, np.int64)
    np.cumsum(odd.sum(1), out=odd_start[1:])
    padded[odd] = 0
    return Table(padded, _columns(x), odd_start, np.nonzero(odd)[1])
