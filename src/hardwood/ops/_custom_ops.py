"""Hard routing as a pair of PyTorch operators, so that autograd, `torch.compile` and DDP treat it as one of their own.

Inside an operator rows x trees results are stored by tree, `(trees, rows)`.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from hardwood.ops._contract import Combine, Forward, Selection, Split

_PARAMETERS = """Tensor x, Tensor split_logits, Tensor thresholds, Tensor? missing_logits, Tensor leaf_values,
    Tensor? leaf_weights, Tensor? feature_subset, Tensor? tree_mask, str combine"""
_FORWARD = f"({_PARAMETERS}, str selection, str split) -> (Tensor, Tensor, Tensor, Tensor)"
_BACKWARD = f"""(Tensor grad_output, Tensor? grad_attention, {_PARAMETERS}, Tensor output, Tensor leaf_index,
    Tensor attention, Tensor selected, str selection, str split, bool need_input_grad)
    -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)"""


def _backend(x: Tensor) -> Any:
    if x.device.type == "cuda":
        from hardwood.ops import _cuda

        return _cuda
    from hardwood.ops import _cpu

    return _cpu


def _forward(
    x: Tensor,
    split_logits: Tensor,
    thresholds: Tensor,
    missing_logits: Tensor | None,
    leaf_values: Tensor,
    leaf_weights: Tensor | None,
    feature_subset: Tensor | None,
    tree_mask: Tensor | None,
    combine: Combine,
    selection: Selection,
    split: Split,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    fwd = _backend(x).forward(
        x, split_logits, thresholds, missing_logits, leaf_values, leaf_weights, feature_subset, tree_mask, combine
    )
    by_tree = fwd.attention.t().contiguous() if fwd.attention.ndim == 2 else fwd.attention
    return fwd.output, fwd.leaf_index.t().contiguous(), by_tree, fwd.selected


def _backward(
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
    combine: Combine,
    output: Tensor,
    leaf_index: Tensor,
    attention: Tensor,
    selected: Tensor,
    selection: Selection,
    split: Split,
    need_input_grad: bool,
) -> tuple[Tensor, ...]:
    by_row = attention.t() if attention.ndim == 2 else attention
    grads = _backend(x).backward(
        grad_output.contiguous(), None if grad_attention is None else grad_attention.t(), x, split_logits, thresholds,
        missing_logits, leaf_values, leaf_weights, feature_subset, tree_mask,
        Forward(output, leaf_index.t(), by_row, selected), combine, selection, split, need_input_grad,
    )  # fmt: skip
    return tuple(x.new_empty(0) if grad is None else grad for grad in grads)


def _operator(name: str, function: Any, schema: str) -> Any:
    one_line = " ".join(schema.split())
    return torch.library.custom_op(
        f"hardwood::{name}", function, mutates_args=(), device_types=("cpu", "cuda"), schema=one_line
    )


forward_op = _operator("hard_trees", _forward, _FORWARD)
backward_op = _operator("hard_trees_backward", _backward, _BACKWARD)


@forward_op.register_fake
def _forward_shapes(
    x: Tensor,
    split_logits: Tensor,
    thresholds: Tensor,
    missing_logits: Tensor | None,
    leaf_values: Tensor,
    leaf_weights: Tensor | None,
    feature_subset: Tensor | None,
    tree_mask: Tensor | None,
    combine: Combine,
    *rest: Any,
) -> tuple[Tensor, ...]:
    rows, (trees, nodes), outputs = x.shape[0], split_logits.shape[:2], leaf_values.shape[2]
    output = x.new_empty((rows, trees, outputs) if combine == "none" else (rows, outputs))
    has_attention = combine == "softmax" or (combine == "none" and leaf_weights is not None)
    attention = x.new_empty((trees, rows) if has_attention else (0,))
    leaf_index = x.new_empty((trees, rows), dtype=torch.int32)
    return output, leaf_index, attention, x.new_empty((trees, nodes), dtype=torch.int32)


@backward_op.register_fake
def _backward_shapes(
    grad_output: Tensor,
    grad_attention: Tensor | None,
    x: Tensor,
    split_logits: Tensor,
    thresholds: Tensor,
    missing_logits: Tensor | None,
    leaf_values: Tensor,
    leaf_weights: Tensor | None,
    *rest: Any,
) -> tuple[Tensor, ...]:
    need_input_grad = rest[-1]
    wanted = (split_logits, thresholds, missing_logits, leaf_values, leaf_weights, x if need_input_grad else None)
    return tuple(x.new_empty(0) if tensor is None else torch.empty_like(tensor) for tensor in wanted)


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    *tensors, ctx.combine, ctx.selection, ctx.split = inputs
    ctx.save_for_backward(*tensors, *output)
    ctx.set_materialize_grads(False)


def _gradient(ctx: Any, grad_output: Tensor | None, _leaf: None, grad_attention: Tensor | None, _chosen: None) -> Any:
    x, logits, thresholds, missing, values, weights, subset, mask, output, leaf, attention, selected = ctx.saved_tensors
    if grad_output is None:
        grad_output = torch.zeros_like(output)
    need_x = ctx.needs_input_grad[0]
    g_logits, g_thresholds, g_missing, g_values, g_weights, g_x = backward_op(
        grad_output, grad_attention if ctx.combine == "none" else None, x, logits, thresholds, missing, values, weights,
        subset, mask, ctx.combine, output, leaf, attention, selected, ctx.selection, ctx.split, need_x,
    )  # fmt: skip
    return (
        g_x if need_x else None, g_logits, g_thresholds, None if missing is None else g_missing, g_values,
        None if weights is None else g_weights, None, None, None, None, None,
    )  # fmt: skip


forward_op.register_autograd(_gradient, setup_context=_save)
