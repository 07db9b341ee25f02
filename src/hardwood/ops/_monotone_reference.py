"""Monotone leaves in plain torch: every leaf of a tree against every other. The reference, and the form for a GPU."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from hardwood._typing import Bool, Float, Int


class LeafBounds(NamedTuple):
    """For every leaf, the leaves whose values bound its own; and the lowest leaf that it is connected with."""

    upper: Int[Tensor, "trees leaves outputs"]  # the largest value among itself and those before it
    lower: Int[Tensor, "trees leaves outputs"]  # the smallest among itself and those after it
    group: Int[Tensor, "trees leaves"]  # (trees, 0) if not wanted


def dense_leaf_bounds(
    split_logits: Float[Tensor, "trees nodes features"],
    thresholds: Float[Tensor, "trees nodes features"],
    missing_logits: Float[Tensor, "trees nodes features"] | None,
    feature_subset: Int[Tensor, "trees features"] | None,
    leaf_values: Float[Tensor, "trees leaves outputs"],
    direction: Int[Tensor, " columns"],
    weighted: bool,
) -> LeafBounds:
    """Return which leaves bound each leaf. A leaf that has the value itself counts first, then the lowest number."""
    selected = split_logits.argmax(2, keepdim=True)
    column = selected[..., 0] if feature_subset is None else feature_subset.long().gather(1, selected[..., 0])
    threshold = thresholds.gather(2, selected)[..., 0]
    missing_right = torch.zeros_like(threshold, dtype=torch.bool)
    if missing_logits is not None:
        missing_right = missing_logits.gather(2, selected)[..., 0] >= 0
    moves = leaf_moves(column, threshold, missing_right, direction)
    before = _closure(moves)
    upper = torch.stack([_largest(v, before) for v in leaf_values.unbind(2)], 2)
    lower = torch.stack([_largest(-v, before.transpose(1, 2)) for v in leaf_values.unbind(2)], 2)
    group = upper.new_empty((len(column), 0))
    if weighted:
        connected = _closure(moves | moves.transpose(1, 2))
        group = connected.int().argmax(2)
    return LeafBounds(upper, lower, group)


def leaf_moves(
    column: Int[Tensor, "trees nodes"],
    threshold: Float[Tensor, "trees nodes"],
    missing_right: Bool[Tensor, "trees nodes"],
    direction: Int[Tensor, " columns"],
) -> Bool[Tensor, "trees leaves leaves"]:
    """Tell from which leaf one move, in one column and along its direction, can lead to which other."""
    leaves = column.shape[1] + 1
    depth = leaves.bit_length() - 1
    leaf = torch.arange(leaves, device=column.device)
    path = torch.stack([2**level - 1 + (leaf >> (depth - level)) for level in range(depth)], 1)
    right = torch.stack([(leaf >> (depth - level - 1)) % 2 == 1 for level in range(depth)], 1)

    # What each leaf can have in the column of each split above it: numbers from `low` to below `high`, a missing one.
    on_path = column[:, path]  # (trees, leaves, levels)
    low = torch.where(right, threshold[:, path], -torch.inf)
    high = torch.where(right, torch.inf, threshold[:, path])
    missing = missing_right[:, path] == right
    same = on_path[..., :, None] == on_path[..., None, :]
    low = torch.where(same, low[..., None, :], -torch.inf).amax(-1)
    high = torch.where(same, high[..., None, :], torch.inf).amin(-1)
    missing = (missing[..., None, :] | ~same).all(-1)
    numbers = low < high

    # The first level on which two paths go different ways, and the column there; for a leaf and itself any will do.
    parting = (right[:, None, :] != right[None, :, :]).int().argmax(-1)
    parted_by = on_path.gather(2, parting.expand(len(column), -1, -1))
    numbers_there = numbers.gather(2, parting.expand(len(column), -1, -1))
    moves = numbers_there & numbers_there.transpose(1, 2)
    for here in range(depth):
        own = numbers[..., here] | missing[..., here]
        aside = on_path[:, :, None, here] == parted_by
        moves &= (own[:, :, None] | aside) & (own[:, None, :] | aside.transpose(1, 2))
        for there in range(depth):
            low_of_both = torch.maximum(low[:, :, None, here], low[:, None, :, there])
            high_of_both = torch.minimum(high[:, :, None, here], high[:, None, :, there])
            in_common = (low_of_both < high_of_both) | (missing[:, :, None, here] & missing[:, None, :, there])
            other = on_path[:, :, None, here] != on_path[:, None, :, there]
            moves &= in_common | other | aside
    upwards = leaf[:, None] < leaf[None, :]
    towards = direction.long()[parted_by]
    return moves & torch.where(upwards, towards > 0, towards < 0) & (leaf[:, None] != leaf[None, :])


def _closure(moves: Bool[Tensor, "trees leaves leaves"]) -> Bool[Tensor, "trees leaves leaves"]:
    """Tell to which leaves any number of moves leads, none among them."""
    leaves = moves.shape[1]
    reached = moves | torch.eye(leaves, dtype=torch.bool, device=moves.device)
    for _ in range((leaves - 1).bit_length()):
        reached = torch.bmm(reached.float(), reached.float()) > 0
    return reached


def _largest(
    values: Float[Tensor, "trees leaves"], before: Bool[Tensor, "trees leaves leaves"]
) -> Int[Tensor, "trees leaves"]:
    """Return for each leaf the one with the largest value among those before it."""
    offered = torch.where(before, values[:, :, None], -torch.inf)
    which = offered.argmax(1)
    own = torch.arange(values.shape[1], device=values.device).expand_as(which)
    return torch.where(values.gather(1, which) == values, own, which)
