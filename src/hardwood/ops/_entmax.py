"""Entmax-1.5 (Peters, Niculae and Martins, 2019): a softmax that gives exact zeros.

`p_i = relu(z_i / 2 - tau)^2`, with `tau` such that the p sum to one. The published package sorts to find `tau`. The sum
is a convex, decreasing function of `tau`, so Newton's method needs no sort: from the right of the root its first step
lands on the left, and from the left it climbs without overshooting. A few steps suffice, each one pass over the row.
"""

from __future__ import annotations

import torch
from torch import Tensor

from hardwood._typing import Float

# From the left, Newton's method halves the distance to the root until it is near, then squares it; with n logits the
# root is at least 1 / sqrt(n) below the largest. The last step solves the support's quadratic exactly.
_NEWTON_STEPS = 8


def entmax15(logits: Float[Tensor, "..."], dim: int = -1) -> Float[Tensor, "..."]:
    """Return the entmax-1.5 probabilities of `logits` along `dim`.

    Half precision is computed in float32. A slice with NaN gives NaN there and nowhere else; `-inf` gives zero.
    The cost is linear in the number of logits.

    >>> entmax15(torch.tensor([1.0, 1.0, -3.0]))
    tensor([0.5000, 0.5000, 0.0000])
    """
    result: Tensor = _Entmax15.apply(logits, dim)  # type: ignore[no-untyped-call]
    return result


def _solve(logits: Tensor, dim: int) -> Tensor:
    z = (logits - logits.amax(dim, keepdim=True)) / 2
    count = z.shape[dim]
    # Start right of the root: the solution if all were in the support, or the one for equal logits, whichever is less.
    finite = z.clamp(min=-1.0)
    mean = finite.mean(dim, keepdim=True)
    spread = ((finite - mean) ** 2).sum(dim, keepdim=True)
    everyone = mean - ((1 - spread).clamp(min=0) / count).sqrt()
    tau = torch.where(spread < 1, everyone, 0.0).clamp(max=-(count**-0.5))
    for _ in range(_NEWTON_STEPS + count.bit_length() // 2):
        above = (z - tau).clamp(min=0)
        step = ((above * above).sum(dim, keepdim=True) - 1) / (2 * above.sum(dim, keepdim=True))
        tau = (tau + step).clamp(min=-1.0)
    inside = z > tau
    size = inside.sum(dim, keepdim=True)
    mean = torch.where(inside, z, 0).sum(dim, keepdim=True) / size
    spread = torch.where(inside, (z - mean) ** 2, 0).sum(dim, keepdim=True)
    tau = mean - ((1 - spread).clamp(min=0) / size).sqrt()
    return (z - tau).clamp(min=0) ** 2


class _Entmax15(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(logits: Tensor, dim: int) -> Tensor:
        wide = logits.float() if logits.dtype in (torch.float16, torch.bfloat16) else logits
        return _solve(wide, dim).to(logits.dtype)

    @staticmethod
    def setup_context(ctx, inputs, output):  # type: ignore[no-untyped-def]
        ctx.dim = inputs[1]
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx, grad):  # type: ignore[no-untyped-def]
        (p,) = ctx.saved_tensors
        return entmax15_backward(p, grad, ctx.dim), None


def entmax15_backward(p: Float[Tensor, "..."], grad: Float[Tensor, "..."], dim: int) -> Float[Tensor, "..."]:
    """Return the Jacobian of entmax-1.5 at probabilities `p`, applied to `grad`: zero outside the support."""
    wide = torch.promote_types(p.dtype, torch.float32)
    root = p.to(wide).sqrt()
    flow = root * grad.to(wide)
    flow = flow - root * (flow.sum(dim, keepdim=True) / root.sum(dim, keepdim=True))
    return flow.to(p.dtype)
