"""Latent trees on an NVIDIA GPU: the pruning solver and minima along paths, with their gradients.

Nothing here waits for the GPU, and every sum has a fixed order.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
from torch import Tensor

from hardwood._typing import Float, Int
from hardwood.ops import _cuda_latent_kernels as kernels
from hardwood.ops._cuda import _on_its_device
from hardwood.ops._tree_plan import PlanOnDevice, TreePlan


@_on_its_device
def solve(
    q: Float[Tensor, "rows nodes"], plan: PlanOnDevice, penalty: float
) -> tuple[Float[Tensor, " places"], Int[Tensor, " places"]]:  # fmt: skip
    """Return a in float64 and the place at the top of each place's group, both by place."""
    n_rows, n_nodes = q.shape
    cells = q.t().index_select(0, plan.order)
    starts = torch.zeros(n_nodes + 1, dtype=torch.int64, device=q.device)
    torch.cumsum((cells.double() + 0.5 > 0).sum(1), 0, out=starts[1:])
    keys = torch.empty(max(1, cells.numel()), dtype=torch.float64, device=q.device)
    kernels.pack[(n_nodes,)](cells, starts, keys, n_rows, ROWS=min(1024, triton.next_power_of_2(max(1, n_rows))))
    limits = torch.full((n_nodes,), torch.inf, dtype=torch.float64, device=q.device)
    tops = torch.zeros(n_nodes, dtype=torch.int64, device=q.device)
    cost = torch.full((1,), penalty, dtype=torch.float64, device=q.device)
    for number, places in enumerate(plan.levels):
        # Near the root there are few programs, with much to do for each.
        large = len(places) < 64 and q.numel() > 1 << 14
        kernels.solve_level[(len(places),)](
            keys, starts, limits, tops, places, plan.size, cost,
            KEYS=4096 if large else 512, NODES=min(512, 2 << number), num_warps=16 if large else 2,
        )  # fmt: skip
    return limits, tops


@_on_its_device
def group_sums(
    numbers: Float[Tensor, " places"], tops: Int[Tensor, " places"], plan: PlanOnDevice
) -> Float[Tensor, " places"]:  # fmt: skip
    """Return the sum of each group at the place of its top, in float64."""
    sums = torch.empty(len(tops), dtype=torch.float64, device=tops.device)
    kernels.sum_groups[(len(tops),)](numbers.double(), tops, plan.size, sums, NODES=128, num_warps=1)
    return sums


@_on_its_device
def minima(
    splits: Float[Tensor, "rows splits"], plan: PlanOnDevice, split: Int[Tensor, " nodes"],
    sign: Float[Tensor, " nodes"],
) -> tuple[Float[Tensor, "rows nodes"], Int[Tensor, "rows nodes"]]:  # fmt: skip
    """Return q, and the node whose split each reward is."""
    (n_rows, n_splits), n_nodes = splits.shape, len(plan.parent)
    q = splits.new_empty(n_rows, n_nodes)
    winner = torch.empty(n_rows, n_nodes, dtype=torch.int32, device=splits.device)
    if q.numel() > 0:
        kernels.minima[(triton.cdiv(q.numel(), 512),)](
            splits, plan.parent, split, sign, q, winner, q.numel(), n_nodes, n_splits, len(plan.levels) - 1, CELLS=512
        )
    return q, winner


@_on_its_device
def pull_on_splits(
    grad_q: Float[Tensor, "rows nodes"], winner: Int[Tensor, "rows nodes"], plan: PlanOnDevice,
    split: Int[Tensor, " nodes"], sign: Float[Tensor, " nodes"], n_splits: int,
) -> Float[Tensor, "rows splits"]:  # fmt: skip
    """Return the gradient of the splits."""
    n_rows, n_nodes = grad_q.shape
    slopes, winner = (each.t().index_select(0, plan.order) for each in (grad_q, winner))
    by_place = torch.zeros_like(slopes)
    if n_rows > 0:
        rows = min(128, triton.next_power_of_2(n_rows))
        kernels.pull_on_places[(n_nodes, triton.cdiv(n_rows, rows))](
            slopes, winner, plan.order, plan.size, by_place, n_rows, ROWS=rows, NODES=8
        )
    # A split has two children at most: their sum has no order.
    of_split = split.index_select(0, plan.order)[1:]
    signed = by_place[1:] * sign.index_select(0, plan.order)[1:, None]
    return grad_q.new_zeros(n_splits, n_rows).index_add_(0, of_split, signed).t()


class CudaPruning(torch.autograd.Function):
    """z and a of Equation 3; the gradient is the closed form, from the stored groups and supports."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, penalty: float, tree: TreePlan) -> tuple[Tensor, Tensor]:
        plan = tree.on(q.device)
        wide = q.detach() if q.dtype in (torch.float32, torch.float64) else q.detach().float()
        limits, tops = solve(wide, plan, penalty)
        a = limits.index_select(0, plan.place)
        shifted = wide.double() + 0.5
        above = shifted > a
        support = above.sum(0).index_select(0, plan.order)
        # What a group's value is divided by: lambda |G| + k*.
        weights = group_sums(penalty + support.double(), tops, plan)
        ctx.save_for_backward(wide, above, limits, tops, weights)
        ctx.plan = plan
        ctx.set_materialize_grads(False)
        return torch.minimum(shifted.clamp(min=0), a).to(q.dtype), a.to(q.dtype)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad_z: Tensor | None, grad_a: Tensor | None) -> Any:
        q, above, limits, tops, weights = ctx.saved_tensors
        plan = ctx.plan
        through = torch.zeros_like(q) if grad_z is None else grad_z.to(q.dtype)
        pull = (through.double() * above).sum(0)
        if grad_a is not None:
            pull = pull + grad_a
        sums = group_sums(pull.index_select(0, plan.order), tops, plan)
        moves = (limits > 0) & (limits < 1)
        share = torch.where(moves, sums.index_select(0, tops) / weights.index_select(0, tops), 0.0)
        own = torch.where(q.double() + 0.5 > 0, through, 0.0)
        return torch.where(above, share.index_select(0, plan.place).to(q.dtype), own), None, None


class CudaMinima(torch.autograd.Function):
    """Rewards along paths; the gradient of a minimum goes to the split that attains it."""

    @staticmethod
    def forward(ctx: Any, splits: Tensor, tree: TreePlan, split: Tensor, sign: Tensor) -> Tensor:
        plan = tree.on(splits.device)
        wide = splits.detach() if splits.dtype in (torch.float32, torch.float64) else splits.detach().float()
        split, sign = split.to(splits.device), sign.to(splits.device, wide.dtype)
        q, winner = minima(wide.contiguous(), plan, split, sign)
        ctx.save_for_backward(winner, split, sign)
        ctx.plan, ctx.n_splits = plan, splits.shape[1]
        return q.to(splits.dtype)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad_q: Tensor) -> Any:
        winner, split, sign = ctx.saved_tensors
        wide = grad_q.to(sign.dtype).contiguous()
        return pull_on_splits(wide, winner, ctx.plan, split, sign, ctx.n_splits).to(grad_q.dtype), None, None, None
