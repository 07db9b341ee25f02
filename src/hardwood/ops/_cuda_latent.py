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


def _tile(n_nodes: int, n_rows: int, cells: int) -> tuple[int, int]:
    """Return nodes and rows of a tile of at most that many cells."""
    rows = min(cells, triton.next_power_of_2(max(1, n_rows)))
    return min(cells // rows, triton.next_power_of_2(n_nodes)), rows


@_on_its_device
def solve(
    q: Float[Tensor, "rows nodes"], plan: PlanOnDevice, penalty: float
) -> tuple[Float[Tensor, " places"], Int[Tensor, " places"]]:  # fmt: skip
    """Return a in float64 and the place at the top of each place's group, both by place."""
    n_rows, n_nodes = q.shape
    cells = q.t().index_select(0, plan.order)
    limits = torch.full((n_nodes,), torch.inf, dtype=torch.float64, device=q.device)
    tops = torch.zeros(n_nodes, dtype=torch.int64, device=q.device)
    cost = torch.full((1,), penalty, dtype=torch.float64, device=q.device)
    for number, places in enumerate(plan.levels):
        # The deepest nodes have nothing below them.
        nodes, rows = _tile(n_nodes if number else 1, n_rows, 4096 if number > 2 else 1024)
        kernels.solve_level[(len(places),)](
            cells, limits, tops, places, plan.size, n_rows, cost,
            NODES=nodes, ROWS=rows, num_warps=16 if number > 2 else 4,
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
    by_node = torch.zeros_like(grad_q)
    rows, nodes = 32, min(32, triton.next_power_of_2(n_nodes))
    if n_rows > 0:
        kernels.pull_on_nodes[(n_nodes, triton.cdiv(n_rows, rows))](
            grad_q, winner, plan.order, plan.size, by_node, n_rows, n_nodes, ROWS=rows, NODES=nodes
        )
    # A split has two children at most: their sum has no order.
    return grad_q.new_zeros(n_rows, n_splits).index_add_(1, split[1:], (by_node * sign)[:, 1:])


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
