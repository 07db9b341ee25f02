"""The relaxed loss of oblique trees: what it is, in torch for reading and in kernels for use.

A split sends a row `x` left where its margin `threshold - weights @ x` is above 0. Two relaxations give each leaf a
share of each row, and the loss of a row is the mean of the leaves' losses under these shares (equation 3 of the paper):

- "sigmoid": the share is the product of `sigmoid(scale * margin)`, or of 1 minus it, along the path (equation 4).
- "softmin": the violation of a leaf is the sum over its path of `relu(-margin)` where the path goes left and
  `relu(margin)` where it goes right; shares are the softmin of `scale * violation` over leaves. The leaf of violation
  zero is where the hard tree sends the row.

Skipping. A subtree whose path has a weight below `skip` (for "softmin": `exp(-scale * violation)`, which is 1 for the
hard leaf) is not entered. With k subtrees skipped for a row and leaf losses between 0 and m, the sigmoid's loss is
smaller by at most `k * skip * m`. The softmin's differs by at most `n * skip * m`, n being the leaves below those
subtrees. There are never more than `2 ** depth - 1` of either.
"""

from __future__ import annotations

from typing import Any, Literal, get_args

import torch
from torch import Tensor

from hardwood._numba import run_chunks
from hardwood._typing import Float
from hardwood.errors import reject

Relaxation = Literal["sigmoid", "softmin"]
LeafLoss = Literal["squared_error", "cross_entropy", "binary_cross_entropy"]
RELAXATIONS: tuple[Relaxation, ...] = get_args(Relaxation)
LEAF_LOSSES: tuple[LeafLoss, ...] = get_args(LeafLoss)


def relaxed_oblique_loss(
    x: Float[Tensor, "rows features"],
    y: Float[Tensor, "rows outputs"],
    split_weights: Float[Tensor, "trees nodes features"],
    thresholds: Float[Tensor, "trees nodes"],
    leaf_values: Float[Tensor, "trees leaves outputs"],
    leaf_coef: Float[Tensor, "trees leaves outputs features"] | None = None,
    *,
    scale: float = 1.0,
    relaxation: Relaxation = "sigmoid",
    leaf_loss: LeafLoss = "squared_error",
    skip: float = 0.0,
    backend: Literal["auto", "reference", "cpu"] = "auto",
) -> Float[Tensor, "rows trees"]:
    """Return each row's relaxed loss in each tree, differentiable for all parameters of the trees.

    Nodes are in heap order: the children of node i are 2 i + 1 (left) and 2 i + 2. Leaf losses are the squared error,
    summed over outputs; the cross-entropy of class shares `y` with logits `leaf_values`; or that of independent labels.

    Args:
        x: rows, finite.
        y: targets; shares of classes, or labels from 0 to 1, for the cross-entropies.
        split_weights, thresholds: of complete trees.
        leaf_values: of their leaves, from left to right.
        leaf_coef: coefficients of linear leaves.
        scale: how sharp the relaxation is.
        relaxation: "sigmoid" or "softmin".
        leaf_loss: "squared_error", "cross_entropy" or "binary_cross_entropy".
        skip: paths of a smaller weight are left out; the reference leaves none out.
        backend: "cpu" visits the paths that matter, in float32; "reference" evaluates every leaf for every row; "auto"
            takes kernels for float32 on the CPU.
    """
    depth = _check(split_weights, thresholds, leaf_values, relaxation, leaf_loss, skip)
    if leaf_coef is not None and leaf_loss != "squared_error":
        reject("leaf_coef", leaf_loss, "linear leaves have a squared error only", "leave leaf_coef out")
    if backend == "auto":
        backend = "cpu" if x.device.type == "cpu" and split_weights.dtype == torch.float32 else "reference"
    if backend == "reference":
        parameters = (split_weights, thresholds, leaf_values, leaf_coef)
        return dense_oblique_loss(x, y, *parameters, scale=scale, relaxation=relaxation, leaf_loss=leaf_loss)
    coef = leaf_values.new_zeros(len(leaf_values), 0, y.shape[1], x.shape[1]) if leaf_coef is None else leaf_coef
    options = (depth, scale, RELAXATIONS.index(relaxation), LEAF_LOSSES.index(leaf_loss), skip)
    loss: Tensor = _OnPaths.apply(x, y, split_weights, thresholds, leaf_values, coef, options)  # type: ignore[no-untyped-call]
    return loss


def _check(
    split_weights: Tensor, thresholds: Tensor, leaf_values: Tensor, relaxation: str, leaf_loss: str, skip: float
) -> int:
    if relaxation not in RELAXATIONS:
        reject("relaxation", relaxation, "is not known", "choose 'sigmoid' or 'softmin'")
    if leaf_loss not in LEAF_LOSSES:
        reject("leaf_loss", leaf_loss, "is not known", "choose one of " + ", ".join(map(repr, LEAF_LOSSES)))
    if not 0 <= skip < 1:
        reject("skip", skip, "must be at least 0 and below 1", "pass 1e-3, or 0 to skip nothing")
    nodes = thresholds.shape[1]
    depth = (nodes + 1).bit_length() - 1
    if nodes != 2**depth - 1 or depth < 1:
        reject("thresholds.shape[1]", nodes, "is no number of nodes of a complete tree", "pass 2**depth - 1 nodes")
    if leaf_values.shape[1] != nodes + 1:
        reject("leaf_values.shape[1]", leaf_values.shape[1], f"must be {nodes + 1}", "pass a leaf more than nodes")
    return depth


def leaf_shares(
    margins: Float[Tensor, "rows trees nodes"], scale: float, relaxation: Relaxation
) -> Float[Tensor, "rows trees leaves"]:
    """Return the share of each leaf in each row, every leaf computed: the relaxations as they are defined."""
    nodes = margins.shape[-1]
    weight = torch.zeros_like(margins[..., :1])  # logarithms of path weights, level by level
    first = 0
    while first < nodes:
        width = weight.shape[-1]
        margin = scale * margins[..., first : first + width]
        if relaxation == "sigmoid":
            left, right = torch.nn.functional.logsigmoid(margin), torch.nn.functional.logsigmoid(-margin)
        else:
            left, right = -torch.relu(-margin), -torch.relu(margin)
        weight = torch.stack([weight + left, weight + right], -1).flatten(-2)
        first += width
    return weight.exp() if relaxation == "sigmoid" else torch.softmax(weight, -1)


def dense_oblique_loss(
    x: Float[Tensor, "rows features"],
    y: Float[Tensor, "rows outputs"],
    split_weights: Float[Tensor, "trees nodes features"],
    thresholds: Float[Tensor, "trees nodes"],
    leaf_values: Float[Tensor, "trees leaves outputs"],
    leaf_coef: Float[Tensor, "trees leaves outputs features"] | None = None,
    *,
    scale: float,
    relaxation: Relaxation,
    leaf_loss: LeafLoss,
) -> Float[Tensor, "rows trees"]:
    """Return the same from every leaf of every tree for every row: the formulas, to read and to compare with."""
    margins = thresholds - torch.einsum("rf,tnf->rtn", x, split_weights)
    shares = leaf_shares(margins, scale, relaxation)
    answers = leaf_values.expand(len(x), *leaf_values.shape)
    if leaf_coef is not None:
        answers = answers + torch.einsum("rf,tlof->rtlo", x, leaf_coef)
    wanted = y[:, None, None, :]
    if leaf_loss == "squared_error":
        losses = (wanted - answers).square().sum(-1)
    elif leaf_loss == "cross_entropy":
        losses = -(wanted * answers.log_softmax(-1)).sum(-1)
    else:
        losses = (torch.nn.functional.softplus(answers) - wanted * answers).sum(-1)
    return (shares * losses).sum(-1)


class _OnPaths(torch.autograd.Function):
    """The kernels behind autograd: losses on the way there, and on the way back one more descent for the gradients."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, y: Tensor, weights: Tensor, thresholds: Tensor, values: Tensor, coef: Tensor, options: Any
    ) -> Tensor:
        ctx.save_for_backward(x, y, weights, thresholds, values, coef)
        ctx.options = options
        ones = torch.ones(len(x), len(weights))
        return _run(x, y, ones, weights, thresholds, values, coef, options)[0]

    @staticmethod
    def backward(ctx: Any, *given: Any) -> Any:
        x, y, weights, thresholds, values, coef = ctx.saved_tensors
        gradients = _run(x, y, given[0], weights, thresholds, values, coef, ctx.options)[1:]
        return (None, None, *gradients, None)


def _run(
    x: Tensor, y: Tensor, row_weight: Tensor, weights: Tensor, thresholds: Tensor, values: Tensor, coef: Tensor,
    options: Any,
) -> tuple[Tensor, ...]:  # fmt: skip
    from hardwood.ops._cpu_oblique import row_losses

    depth, scale, relaxation, leaf_loss, skip = options
    losses = torch.zeros(len(x), len(weights))
    gradients = [torch.zeros_like(each) for each in (weights, thresholds, values, coef)]
    given = [
        each.detach().float().contiguous().numpy() for each in (x, y, row_weight, weights, thresholds, values, coef)
    ]
    made = [each.numpy() for each in (losses, *gradients)]

    def work(start: int, stop: int) -> None:
        row_losses(start, stop, *given, scale, relaxation, leaf_loss, skip, depth, *made)

    run_chunks(work, len(weights), torch.get_num_threads())
    return losses, *gradients
