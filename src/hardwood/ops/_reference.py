"""The papers' dense formula in plain torch: every leaf of every tree for every row.

This is the definition that the fast backends are tested against and timed against. It costs
rows x trees x leaves x depth in time and memory, in any floating-point type, on any device; autograd does the rest.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from hardwood._typing import Bool, Float, Int
from hardwood.ops._contract import Combine, Forward, Selection, Split
from hardwood.ops._entmax import entmax15
from hardwood.ops._split import SPLIT_FUNCTIONS

SELECTION_FUNCTIONS: dict[str, Callable[..., Tensor]] = {"entmax": entmax15, "softmax": torch.softmax}


def dense_hard_trees(
    x: Float[Tensor, "rows columns"],
    split_logits: Float[Tensor, "trees nodes features"],
    thresholds: Float[Tensor, "trees nodes features"],
    leaf_values: Float[Tensor, "trees leaves outputs"],
    leaf_weights: Float[Tensor, "trees leaves"] | None = None,
    missing_logits: Float[Tensor, "trees nodes features"] | None = None,
    feature_subset: Int[Tensor, "trees features"] | None = None,
    tree_mask: Bool[Tensor, "rows_or_1 trees"] | None = None,
    combine: Combine = "softmax",
    selection: Selection = "entmax",
    split: Split = "sigmoid",
    soft_selection: bool = False,
    all_finite: bool | None = None,
) -> Forward:
    """Evaluate all trees with straight-through gradients (GradTree Algorithm 1; thesis Equations 4.3, 4.6, 4.10).

    `all_finite=True` promises that `x` has no missing and no infinite cells, which saves work; None looks.
    """
    if all_finite is None:
        all_finite = not torch.compiler.is_compiling() and bool(x.isfinite().all())
    choice = SELECTION_FUNCTIONS[selection](split_logits, dim=-1)
    selected = split_logits.argmax(-1, keepdim=True)
    if not soft_selection:
        choice = _straight_through(torch.zeros_like(choice).scatter(-1, selected, 1.0), choice)

    right = _share_right(
        x, choice, selected, thresholds, missing_logits, feature_subset, split, soft_selection, all_finite
    )  # fmt: skip
    reached = _leaf_indicator(right)  # (rows, trees, leaves), one-hot
    tree_outputs = torch.einsum("rtl,tlc->rtc", reached, leaf_values)
    weights = None if leaf_weights is None else torch.einsum("rtl,tl->rt", reached, leaf_weights)
    attention = x.new_empty(0) if weights is None else weights
    if combine == "none":
        output = tree_outputs
    else:
        share = _shares(weights, tree_mask, combine, tree_outputs)
        output = torch.einsum("rt,rtc->rc", share, tree_outputs)
        attention = share if combine == "softmax" else x.new_empty(0)
    return Forward(output, reached.argmax(-1).int(), attention, selected[..., 0].int())


def _straight_through(hard: Tensor, soft: Tensor) -> Tensor:
    """Return the value of `hard` with the gradient of `soft`."""
    return hard + (soft - soft.detach())


def _share_right(
    x: Tensor,
    choice: Tensor,
    selected: Tensor,
    thresholds: Tensor,
    missing_logits: Tensor | None,
    feature_subset: Tensor | None,
    split: str,
    soft_selection: bool,
    all_finite: bool,
) -> Tensor:
    """Return 0 or 1 for every row, tree and node (Equation 4.6, then rounded straight-through).

    A missing cell puts its `missing_logits` in the place of `x - threshold`. An infinite cell routes, and has no pull.
    """
    column = selected[..., 0]
    if feature_subset is None:
        seen, product = x, "rs,tns->rtn"
    else:
        seen, product = x[:, feature_subset], "rts,tns->rtn"
        column = feature_subset.gather(1, column)
    if all_finite:
        z = torch.einsum(product, seen, choice) - (thresholds * choice).sum(-1)
    else:
        z = torch.einsum(product, torch.where(seen.isfinite(), seen, 0.0), choice)
        z = z - torch.einsum(product, seen.isfinite().to(x.dtype), thresholds * choice)
        if missing_logits is not None:
            z = z + torch.einsum(product, seen.isnan().to(x.dtype), missing_logits * choice)
    if soft_selection:
        goes_right = z >= 0
    else:
        at_node = x[:, column]
        goes_right = at_node >= thresholds.gather(2, selected)[..., 0]
        without_pull = at_node.isinf()
        if missing_logits is None:
            without_pull = ~at_node.isfinite()
        else:
            goes_right |= at_node.isnan() & (missing_logits.gather(2, selected)[..., 0] >= 0)
        z = torch.where(without_pull, torch.inf, z)
    soft = SPLIT_FUNCTIONS[split](torch.where(z.isinf(), 0.0, z))
    soft = torch.where(z.isinf(), 1.0, soft)  # no gradient at infinity
    return _straight_through(goes_right.to(soft.dtype), soft)


def _leaf_indicator(right: Tensor) -> Tensor:
    """Return the product of the shares along each leaf's path, rows x trees x leaves (Equations 4.3 to 4.5)."""
    leaves = right.shape[-1] + 1
    depth = leaves.bit_length() - 1
    leaf = torch.arange(leaves, device=right.device)[:, None]
    level = torch.arange(depth, device=right.device)
    node = 2**level + (leaf >> (depth - level)) - 1
    takes_right = (leaf >> (depth - level - 1)) % 2 == 1
    share = right[..., node]
    return torch.where(takes_right, share, 1 - share).prod(-1)


def _shares(weights: Tensor | None, tree_mask: Tensor | None, combine: str, tree_outputs: Tensor) -> Tensor:
    """Return how much each tree counts for each row; trees outside `tree_mask` count nothing."""
    rows, trees = tree_outputs.shape[:2]
    keep = torch.ones(1, trees, dtype=torch.bool, device=tree_outputs.device) if tree_mask is None else tree_mask
    if combine == "softmax":
        assert weights is not None
        some = keep.any(1, keepdim=True)
        return torch.where(keep & some, weights.masked_fill(~keep & some, -torch.inf).softmax(1), 0.0)
    share = keep.to(tree_outputs.dtype).expand(rows, trees)
    return share / share.sum(1, keepdim=True).clamp(min=1) if combine == "mean" else share
