"""Relaxed oblique trees in plain torch, all trees and rows of a step at once: the form for GPUs.

A level of all trees is a handful of tensor operations, whose gradients are written out rather than recorded, so a step
is a fixed list of kernels that a CUDA graph can replay. Nothing is skipped: a GPU gains nothing by it. A step holds
rows x nodes numbers of each tree, but of no more rows at a time than `_MOST` allows.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from hardwood._typing import Float
from hardwood.ops._oblique import LeafLoss, Relaxation

# Leaves of all trees times rows that are held at a time: 256 MB for each tensor of that size.
_MOST = 2**26


def batched_gradients(
    x: Float[Tensor, "trees rows features"],
    y: Float[Tensor, "trees rows outputs"],
    row_weight: Float[Tensor, "trees rows"],
    parameters: Sequence[Tensor],
    scale: Float[Tensor, " trees"],
    relaxation: Relaxation,
    leaf_loss: LeafLoss,
) -> tuple[Float[Tensor, "trees rows"], list[Tensor]]:
    """Return each row's relaxed loss, and the gradients of their weighted sum over the rows of each tree.

    Each tree has its own rows. `parameters` are split weights, thresholds, leaf values and, for linear leaves,
    coefficients. `hardwood.ops.dense_oblique_loss` says what is computed.
    """
    leaves = parameters[2].shape[1]
    rows = max(1, _MOST // (leaves * len(x)))
    tables = _leaf_tables(parameters[2], leaf_loss)
    losses, gradients = [], [torch.zeros_like(each) for each in parameters]
    for part in (slice(start, start + rows) for start in range(0, x.shape[1], rows)):
        found = _some_rows(
            x[:, part], y[:, part], row_weight[:, part], parameters, tables, scale, relaxation, leaf_loss
        )
        losses.append(found[0])
        for mine, other in zip(gradients, found[1], strict=True):
            mine += other
    return torch.cat(losses, 1), gradients


def _leaf_tables(values: Float[Tensor, "trees leaves outputs"], leaf_loss: LeafLoss) -> tuple[Tensor, Tensor]:
    """Return what a cross-entropy needs of each leaf: `base - y @ scores` is the loss."""
    if leaf_loss == "cross_entropy":
        return torch.zeros_like(values[..., 0]), values.log_softmax(-1)
    return torch.nn.functional.softplus(values).sum(-1), values


def _some_rows(
    x: Tensor, y: Tensor, row_weight: Tensor, parameters: Sequence[Tensor], tables: tuple[Tensor, Tensor],
    scale: Tensor, relaxation: Relaxation, leaf_loss: LeafLoss,
) -> tuple[Tensor, list[Tensor]]:  # fmt: skip
    weights, thresholds, values = parameters[:3]
    coef = parameters[3] if len(parameters) > 3 else None
    margins = torch.baddbmm(thresholds[:, None, :], x, weights.transpose(1, 2), alpha=-1.0) * scale[:, None, None]

    # Down: the path weight of every node, level by level.
    lefts, path = [], torch.ones_like(margins[..., :1])
    first = 0
    while first < margins.shape[2]:
        margin = margins[..., first : first + path.shape[2]]
        if relaxation == "sigmoid":
            left, right = torch.sigmoid(margin), torch.sigmoid(-margin)
        else:
            left, right = torch.exp(margin.clamp(max=0.0)), torch.exp(-margin.clamp(min=0.0))
        lefts.append(left)
        first += path.shape[2]
        path = torch.stack([path * left, path * right], -1).flatten(-2)
    if relaxation == "softmin":
        path = path / path.sum(-1, keepdim=True)

    # Leaves: their losses, and their own gradients.
    pull = path * row_weight[..., None]
    if leaf_loss == "squared_error":
        below = torch.zeros_like(path)
        grad_values, grad_coef = torch.empty_like(values), None if coef is None else torch.empty_like(coef)
        for o in range(values.shape[2]):
            answer = values[:, None, :, o]
            if coef is not None:
                answer = torch.baddbmm(answer, x, coef[:, :, o].transpose(1, 2))
            miss = answer - y[..., o, None]
            below += miss.square()
            miss = 2.0 * pull * miss
            grad_values[..., o] = miss.sum(1)
            if grad_coef is not None:
                grad_coef[:, :, o] = torch.bmm(miss.transpose(1, 2), x)
    else:
        base, scores = tables
        below = torch.baddbmm(base[:, None, :], y, scores.transpose(1, 2), alpha=-1.0)
        part = scores.exp() if leaf_loss == "cross_entropy" else torch.sigmoid(values)
        grad_values = pull.sum(1)[..., None] * part - torch.bmm(pull.transpose(1, 2), y)
        grad_coef = None
    below = below * path
    losses = below.sum(-1)

    # Up: what each split would gain by sending more of a row left.
    mass = path
    grad_margins = torch.empty_like(margins)
    for left in reversed(lefts):
        first -= left.shape[2]
        below_left, below_right = below[..., 0::2], below[..., 1::2]
        if relaxation == "sigmoid":
            gain = below_left - left * (below_left + below_right)
        else:
            margin = margins[..., first : first + left.shape[2]]
            loss = losses[..., None]
            gain = torch.where(margin > 0, loss * mass[..., 1::2] - below_right, below_left - loss * mass[..., 0::2])
            mass = mass[..., 0::2] + mass[..., 1::2]
        grad_margins[..., first : first + left.shape[2]] = gain
        below = below_left + below_right
    grad_margins *= (row_weight * scale[:, None])[..., None]
    found = [-torch.bmm(grad_margins.transpose(1, 2), x), grad_margins.sum(1), grad_values]
    return losses, found if grad_coef is None else [*found, grad_coef]
