"""Leaf values and weights that make hard trees monotone along columns, exactly.

A leaf's value becomes the middle of two: the largest among itself and all leaves that may not say more, and the
smallest among itself and all that may not say less. Along the order of leaves neither falls, so their rounded sum does
not either, nor its half. On values that keep the order already this changes nothing. A gradient flows, in halves, to
the two leaves whose values were taken.

Under "softmax" the trees' weights have to stay as they are while a row moves along constrained columns. Leaves that
are connected by such moves share their mean weight, the very same number. Every tree's share of the output is then the
same before and after a move, and the output is a sum, in the order of the trees, of rounded products that do not fall:
nor does it, in any bit.

The order is that of the hard splits as they are now; `forest._leaf_order` says what it is and what it costs.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from hardwood._numba import run_chunks
from hardwood._typing import Float, Int
from hardwood.ops._monotone_reference import dense_leaf_bounds

# Fewer pairs of leaves than this are done sooner by one thread than handed to another.
_WORTH_A_THREAD = 5_000

_BOUNDS = """(Tensor split_logits, Tensor thresholds, Tensor? missing_logits, Tensor? feature_subset,
    Tensor leaf_values, Tensor direction, bool weighted) -> (Tensor, Tensor, Tensor)"""


class MonotoneLeaves(NamedTuple):
    """What `monotone_leaves` returns."""

    values: Float[Tensor, "trees leaves outputs"]
    weights: Float[Tensor, "trees leaves"] | None


def monotone_leaves(
    split_logits: Float[Tensor, "trees nodes features"],
    thresholds: Float[Tensor, "trees nodes features"],
    leaf_values: Float[Tensor, "trees leaves outputs"],
    direction: Int[Tensor, " columns"],
    *,
    leaf_weights: Float[Tensor, "trees leaves"] | None = None,
    missing_logits: Float[Tensor, "trees nodes features"] | None = None,
    feature_subset: Int[Tensor, "trees features"] | None = None,
) -> MonotoneLeaves:
    """Return leaf values and weights with which `hard_trees` is monotone, as a function of the given ones.

    No output falls when a row's number in a column of direction 1 grows, or in one of direction -1 shrinks, and it
    changes in no other column. A missing value is not compared with numbers.

    On the CPU a tree costs up to leaves^2 steps of some nanoseconds, if all its splits are in columns with a direction,
    and next to nothing if none is. On a GPU it is trees x leaves^2 x (depth^2 + depth x leaves + outputs) operations.

    Args:
        split_logits, thresholds, leaf_values, leaf_weights, missing_logits, feature_subset: as `hard_trees` takes them.
        direction: 1, -1 or 0 for every column of `x`.
    """
    wide = torch.promote_types(split_logits.dtype, torch.float32)
    leaf_values = leaf_values.to(wide)
    upper, lower, group = _bounds_op(
        split_logits.detach().to(wide).contiguous(),
        thresholds.detach().to(wide).contiguous(),
        None if missing_logits is None else missing_logits.detach().to(wide).contiguous(),
        feature_subset,
        leaf_values.detach().contiguous(),
        direction,
        leaf_weights is not None,
    )
    values = (leaf_values.gather(1, upper) + leaf_values.gather(1, lower)) / 2
    return MonotoneLeaves(values, None if leaf_weights is None else _tie(leaf_weights.to(wide), group))


def _tie(weights: Float[Tensor, "trees leaves"], group: Int[Tensor, "trees leaves"]) -> Float[Tensor, "trees leaves"]:
    """Return the mean weight of each leaf's group, taken relative to one of them: that of equal weights is exact."""
    first = weights.gather(1, group)
    nothing = torch.zeros_like(weights)
    beyond = nothing.scatter_add(1, group, weights - first)
    count = nothing.scatter_add(1, group, torch.ones_like(weights)).clamp(min=1)
    return first + (beyond / count).gather(1, group)


def _leaf_bounds(
    split_logits: Tensor,
    thresholds: Tensor,
    missing_logits: Tensor | None,
    feature_subset: Tensor | None,
    leaf_values: Tensor,
    direction: Tensor,
    weighted: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    if split_logits.is_cuda:
        bounds = dense_leaf_bounds(
            split_logits, thresholds, missing_logits, feature_subset, leaf_values, direction, weighted
        )
        return bounds.upper, bounds.lower, bounds.group
    from hardwood.ops import _cpu, _cpu_monotone

    parameters = _cpu._trees(split_logits, thresholds, missing_logits, leaf_values, None, feature_subset)
    chosen = _cpu._select(parameters)
    n_trees, leaves, _ = leaf_values.shape

    def with_leaves(at_nodes: np.ndarray, at_leaves: Any) -> np.ndarray:
        return np.pad(at_nodes, ((0, 0), (0, leaves)), constant_values=at_leaves)

    threshold = with_leaves(chosen.threshold.astype(np.float64), 0.0)
    splits = _cpu_monotone.HardSplits(
        with_leaves((chosen.packed >> 1).astype(np.int64), -1),
        threshold,
        np.nextafter(threshold, -np.inf),
        with_leaves(chosen.packed % 2 == 0, False),
    )
    upper, lower = (np.empty(leaf_values.shape, np.int64) for _ in range(2))
    group = np.empty((n_trees, leaves) if weighted else (n_trees, 0), np.int64)
    shape = _cpu_monotone.complete(leaves.bit_length() - 1)
    towards = direction.to(torch.int64).numpy()
    run_chunks(
        lambda a, b: _cpu_monotone.leaf_bounds(
            a, b, shape, splits, towards, parameters.leaf_values, weighted, upper, lower, group
        ),
        n_trees, torch.get_num_threads(), max(1, _WORTH_A_THREAD // leaves**2),
    )  # fmt: skip
    return torch.from_numpy(upper), torch.from_numpy(lower), torch.from_numpy(group)


_bounds_op: Any = torch.library.custom_op(
    "hardwood::leaf_bounds", _leaf_bounds, mutates_args=(), device_types=("cpu", "cuda"),
    schema=" ".join(_BOUNDS.split()),
)  # fmt: skip


@_bounds_op.register_fake
def _bounds_shapes(
    split_logits: Tensor,
    thresholds: Tensor,
    missing_logits: Tensor | None,
    feature_subset: Tensor | None,
    leaf_values: Tensor,
    direction: Tensor,
    weighted: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    trees, leaves, _ = leaf_values.shape
    numbers = torch.empty_like(leaf_values, dtype=torch.int64)
    return numbers, torch.empty_like(numbers), numbers.new_empty((trees, leaves if weighted else 0))
