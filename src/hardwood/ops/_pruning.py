"""`prune_tree` and `path_minima`: a latent tree's traversals and pruning, with closed-form gradients."""

from __future__ import annotations

import functools
import importlib.util
import math
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from hardwood._typing import Float, Int
from hardwood.errors import reject
from hardwood.ops._pruning_reference import path_minima_reference, pruning_reference, traversals_reference
from hardwood.ops._tree_plan import TreePlan, plan_of


class Traversal(NamedTuple):
    """The solution of Equation 3."""

    z: Float[Tensor, "rows nodes"]  # how much of each row passes each node
    a: Float[Tensor, " nodes"]  # how active each node is; 0 is pruned


def prune_tree(
    q: Float[Tensor, "rows nodes"],
    penalty: float,
    parent: Int[Tensor, " nodes"] | None = None,
    *,
    backend: Literal["auto", "reference"] = "auto",
) -> Traversal:
    """Solve the relaxed program of latent trees (Equation 3) exactly, and differentiate its solution.

    minimise  lambda/2 |a|^2 + 1/2 sum_i |z_i - q_i - 1/2|^2  where no node is more active than its parent
    (a_t <= a_parent), no row passes a node by more than it is active (z_it <= a_t), and all lie in [0, 1].

    It takes O(rows x nodes x log(rows x nodes)): rewards are sorted once. The gradient is the paper's closed form, from
    the groups of nodes that share a value and the rows that hold it up, in one pass over `q`; at kinks it is one of the
    generalised gradients. On an NVIDIA GPU nothing waits for the result, so that numbers that are not finite are not
    refused there: they stay so in z. On other devices the pruning itself is solved on the CPU.

    >>> solution = prune_tree(torch.tensor([[1.0, 0.4, -0.4], [1.0, -0.7, 0.7]]), penalty=1.0)
    >>> [round(x, 3) for x in solution.a.tolist()]
    [1.0, 0.45, 0.6]

    Args:
        q: the reward of sending each row to each node.
        penalty: lambda, above 0: larger prunes more. It weighs against a sum over rows, so twice the rows call for
            twice the penalty.
        parent: the parent of each node, which stands before it; -1 for the first, which is the root. By default a
            complete tree, breadth-first: `(node - 1) // 2`.
        backend: "reference" runs the paper's Algorithm 1 step by step, under autograd.
    """
    if q.ndim != 2 or q.shape[1] < 1 or not q.is_floating_point():
        reject("q", f"{q.dtype} of shape {tuple(q.shape)}", "is not (rows, nodes) of floats", "reshape or convert it")
    if not 0 < penalty < math.inf:
        reject("penalty", penalty, "must be a finite number above 0", "use 1.0, or 0.001 to prune next to nothing")
    if backend not in ("auto", "reference"):
        reject("backend", backend, "is not known", "choose 'auto' or 'reference'")
    plan = plan_of(parent, q.shape[1])
    if backend == "auto" and _has_kernels(q.device):
        from hardwood.ops._cuda_latent import CudaPruning

        return Traversal(*CudaPruning.apply(q, float(penalty), plan))  # type: ignore[no-untyped-call]
    # A sum is several times faster than a look at each number, and finite numbers seldom overflow it.
    if not math.isfinite(float(q.detach().sum())) and not bool(q.detach().isfinite().all()):
        wrong = float(q.detach()[~q.detach().isfinite()][0])
        reject("q", wrong, "is not a finite number", "look for splits that are infinite or NaN")
    if backend == "reference":
        a = pruning_reference(q, torch.from_numpy(plan.parent), float(penalty))
        return Traversal(traversals_reference(q, a), a)
    z, a = _Pruning.apply(q, float(penalty), plan, q.device.type == "cpu")  # type: ignore[no-untyped-call]
    return Traversal(z, a)


def path_minima(
    splits: Float[Tensor, "rows splits"],
    parent: Int[Tensor, " nodes"],
    split: Int[Tensor, " nodes"],
    sign: Float[Tensor, " nodes"],
    *,
    backend: Literal["auto", "reference"] = "auto",
) -> Float[Tensor, "rows nodes"]:
    """Return the rewards q of Equation 1: the least of the signed splits on the way to each node, and 1 at the root.

    The gradient of a minimum goes to the split that attains it (Danskin's theorem), to the upper one on a tie.

    Args:
        splits: what each split function says of each row; below 0 is left.
        parent: the parent of each node, which stands before it; -1 for the root.
        split: which column of `splits` decides about each node at its parent; unused at the root.
        sign: -1 for a left child, 1 for a right one.
        backend: "reference" is plain torch.
    """
    plan = plan_of(parent, len(parent))
    if backend == "auto" and _has_kernels(splits.device):
        from hardwood.ops._cuda_latent import CudaMinima

        rewards: Tensor = CudaMinima.apply(splits, plan, split, sign)  # type: ignore[no-untyped-call]
        return rewards
    if splits.device.type != "cpu" or backend == "reference":
        return path_minima_reference(splits, torch.from_numpy(plan.parent), split, sign.to(splits))
    return _Minima.apply(splits, plan, split, sign)  # type: ignore[no-untyped-call]


def _has_kernels(device: torch.device) -> bool:
    """Return whether there are kernels for a GPU: an NVIDIA one, with Triton."""
    return device.type == "cuda" and _has_triton()


@functools.cache
def _has_triton() -> bool:
    return importlib.util.find_spec("triton") is not None


def solve_pruning(
    q: Float[np.ndarray, "rows nodes"], parent: Int[np.ndarray, " nodes"], penalty: float
) -> tuple[Float[np.ndarray, " nodes"], Int[np.ndarray, " nodes"]]:
    """Return a in float64, and the group of each node."""
    from hardwood.ops import _pruning_kernels as kernels

    # NumPy's sort of whole lines is several times faster than a compiled loop's.
    ordered = np.sort(np.ascontiguousarray(q.T), axis=1)
    pruning, group = kernels.pruning_of(kernels.node_values(ordered, parent, penalty), parent)
    return pruning, group


class _Pruning(torch.autograd.Function):
    """Forward: Algorithm 1's solution. Backward: its closed form, from the stored groups and supports."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, penalty: float, plan: TreePlan, compiled: bool) -> tuple[Tensor, Tensor]:
        wide = q.detach() if q.dtype in (torch.float32, torch.float64) else q.detach().float()
        rewards = np.ascontiguousarray(wide.cpu().numpy())
        found, group = solve_pruning(rewards, plan.parent, penalty)
        if compiled:
            from hardwood.ops import _pruning_kernels as kernels

            filled, counts = np.empty_like(rewards), np.zeros(len(found), np.int64)
            kernels.traversals(rewards, found, filled, counts)
            z, support = torch.from_numpy(filled).to(q.dtype), counts
        else:
            limits = torch.from_numpy(found).to(q.device)
            shifted = wide.double() + 0.5
            support = (shifted > limits).sum(0).cpu().numpy()
            z = torch.minimum(shifted.clamp(min=0), limits).to(q.dtype)
        a = torch.from_numpy(found).to(q.device, q.dtype)
        # What a group's value is divided by: lambda |G| + k*.
        weights = np.bincount(group, penalty + support, minlength=len(found))
        ctx.save_for_backward(wide)
        ctx.pruning, ctx.group, ctx.weights, ctx.compiled = found, group, weights, compiled
        ctx.set_materialize_grads(False)
        return z, a

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad_z: Tensor | None, grad_a: Tensor | None) -> Any:
        (q,) = ctx.saved_tensors
        found, group = ctx.pruning, ctx.group
        pull = np.zeros(len(found)) if grad_a is None else grad_a.double().cpu().numpy()
        pull = pull.copy()
        through = torch.zeros_like(q) if grad_z is None else grad_z.to(q.dtype).contiguous()
        above = None
        if ctx.compiled:
            from hardwood.ops import _pruning_kernels as kernels

            if grad_z is not None:
                kernels.pull_on_pruning(q.contiguous().numpy(), found, through.numpy(), pull)
        else:
            above = q.double() + 0.5 > torch.from_numpy(found).to(q.device)
            pull += (through.double() * above).sum(0).cpu().numpy()
        moves = (found > 0) & (found < 1)
        by_group = np.bincount(group, pull, minlength=len(found))
        share = np.where(moves, by_group[group] / np.maximum(ctx.weights[group], np.finfo(np.float64).tiny), 0.0)
        if ctx.compiled:
            grad = np.empty_like(through.numpy())
            kernels.pull_on_rewards(q.contiguous().numpy(), found, share, through.numpy(), grad)
            return torch.from_numpy(grad), None, None, None
        own = torch.where(q.double() + 0.5 > 0, through, torch.zeros_like(through))
        grad_q = torch.where(above, torch.from_numpy(share).to(q), own)  # type: ignore[arg-type]
        return grad_q, None, None, None


class _Minima(torch.autograd.Function):
    """Minima along paths, compiled for the CPU."""

    @staticmethod
    def forward(ctx: Any, splits: Tensor, tree: TreePlan, split: Tensor, sign: Tensor) -> Tensor:
        from hardwood.ops import _pruning_kernels as kernels

        values = splits.detach() if splits.dtype in (torch.float32, torch.float64) else splits.detach().float()
        values = values.contiguous()
        plan = tree.parent, split.cpu().numpy(), sign.cpu().to(values.dtype).numpy()
        q = torch.empty(len(values), len(tree.parent), dtype=values.dtype)
        kernels.path_minima(values.numpy(), *plan, q.numpy())
        ctx.save_for_backward(q)
        ctx.plan, ctx.n_splits = plan, values.shape[1]
        return q.to(splits.dtype)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad_q: Tensor) -> Any:
        from hardwood.ops import _pruning_kernels as kernels

        (q,) = ctx.saved_tensors
        grad = torch.zeros(len(q), ctx.n_splits, dtype=q.dtype)
        kernels.pull_on_splits(
            *ctx.plan, q.numpy(), grad_q.to(q.dtype).contiguous().numpy(), grad.numpy(),
            np.empty(q.shape[1], q.numpy().dtype),
        )  # fmt: skip
        return grad.to(grad_q.dtype), None, None, None
