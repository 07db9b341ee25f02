"""The CPU backend of hard routing: NumPy views of the tensors, compiled kernels, threads over trees."""

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

    attention = x.new_empty(0)
    if leaf_weights is not None:
        attention = x.new_empty(n_trees, n_rows)
        weights = attention.numpy()
        run_chunks(
            lambda a, b: _cpu_forward.gather_weights(a, b, leaf, trees.leaf_weights, weights),
            n_trees, _threads(), smallest,
        )  # fmt: skip
    if combine == "none":
        output = x.new_empty(n_rows, n_trees, leaf_values.shape[2])
        filled = output.numpy()
        run_chunks(
            lambda a, b: _cpu_forward.gather_outputs(a, b, leaf, trees.leaf_values, filled),
            n_trees, _threads(), smallest,
        )  # fmt: skip
    else:
        share = _shares(attention, tree_mask, combine, n_trees, x)
        attention = share if combine == "softmax" else x.new_empty(0)
        output = x.new_empty(n_rows, leaf_values.shape[2])
        shares, filled = share.numpy(), output.numpy()
        run_chunks(
            lambda a, b: _cpu_forward.mix_trees(a, b, leaf, trees.leaf_values, shares, filled),
            n_rows, _threads(), max(16, _WORTH_A_THREAD // n_trees),
        )  # fmt: skip
    attention = attention.t() if attention.ndim == 2 else attention
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
    if combine == "none":
        grad = grad_output
        share = x.new_ones(n_trees, n_rows)
        pull = x.new_empty(0, 0)
        if weighted:
            pull = x.new_zeros(n_trees, n_rows) if grad_attention is None else grad_attention.t()
    else:
        grad = grad_output[:, None, :]
        weights = fwd.attention.t() if combine == "softmax" else x.new_empty(0)
        share = weights if combine == "softmax" else _shares(weights, tree_mask, combine, n_trees, x)
        pull = x.new_empty(n_trees, n_rows) if weighted else x.new_empty(0, 0)
    upstream = _cpu_backward.Upstream(
        grad.contiguous().numpy(), share.contiguous().numpy(), pull.contiguous().numpy(), leaf
    )
    if combine == "softmax":
        grad_dot_output = (grad_output * fwd.output).sum(1).numpy()
        run_chunks(
            lambda a, b: _cpu_backward.pull_of_leaf_weights(a, b, upstream, grad_dot_output, trees.leaf_values),
            n_trees, _threads(), smallest,
        )  # fmt: skip

    grad_logits = torch.empty_like(split_logits)
    grad_thresholds = torch.empty_like(thresholds)
    grad_missing = None if missing_logits is None else torch.empty_like(missing_logits)
    grad_values = torch.empty_like(leaf_values)
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


def _shares(weights: Tensor, tree_mask: Tensor | None, combine: str, n_trees: int, x: Tensor) -> Tensor:
    """Return how much each tree counts for each row, (trees, rows); trees outside `tree_mask` count nothing."""
    if combine == "softmax":
        if tree_mask is None:
            return weights.softmax(0)
        keep = tree_mask.t() & tree_mask.any(1)
        return torch.where(keep, weights.masked_fill(~keep & keep.any(0), -torch.inf).softmax(0), 0.0)
    if tree_mask is None:
        return x.new_full((n_trees, len(x)), 1 / n_trees if combine == "mean" else 1.0)
    share = tree_mask.t().to(x.dtype).expand(n_trees, len(x)).contiguous()
    return share / share.sum(0).clamp(min=1) if combine == "mean" else share


def _columns(x: Tensor) -> np.ndarray:
    """Return `x` transposed, its rows padded for the kernels."""
    columns = np.zeros((x.shape[1], -(-len(x) // ROWS) * ROWS), x.numpy().dtype)
    columns[:, : len(x)] = x.numpy().T
    return columns


def _table(x: Tensor) -> Table:
    """Lay the rows out for the kernels; cells that are not finite become 0 in `x` and are listed."""
    rows = x.numpy()
    padded = np.zeros((len(rows), -(-rows.shape[1] // LANES) * LANES), rows.dtype)
    padded[:, : rows.shape[1]] = rows
    odd = ~np.isfinite(padded)
    if not odd.any():
        return Table(padded, _columns(x), np.empty(0, np.int64), np.empty(0, np.int64))
    odd_start = np.zeros(len(rows) + 1, np.int64)
    np.cumsum(odd.sum(1), out=odd_start[1:])
    return Table(np.where(odd, rows.dtype.type(0), padded), _columns(x), odd_start, np.nonzero(odd)[1])
