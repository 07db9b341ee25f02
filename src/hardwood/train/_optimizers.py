"""The optimiser: a learning rate for each kind of parameter, and gradients kept short."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from hardwood.errors import reject
from hardwood.train._settings import TrainingSettings

# The kinds of parameters of trees. The first axis of each is the tree.
TREE_PARAMETERS = ("split_logits", "thresholds", "leaf_values", "leaf_weights", "missing_logits")


def parameter_groups(model: nn.Module, settings: TrainingSettings) -> list[dict[str, Any]]:
    """Return torch's parameter groups: one for each learning rate, by a parameter's part or the end of its name."""
    parts = sorted(settings.part_rates, key=lambda part: -len(part[0]))
    found: set[str] = set()
    by_rate: dict[float, list[nn.Parameter]] = {}
    for name, parameter in model.named_parameters():
        if not parameter.requires_grad:
            continue
        kind = name.rpartition(".")[2]
        rate = getattr(settings, f"{kind}_rate") if kind in TREE_PARAMETERS else None
        for prefix, of_part in parts:
            if f"{name}.".startswith(f"{prefix}."):
                found.add(prefix)
                rate = of_part
                break
        by_rate.setdefault(settings.learning_rate if rate is None else rate, []).append(parameter)
    for prefix, _ in parts:
        if prefix not in found:
            remedy = "use the beginning of a name in model.named_parameters() that requires a gradient"
            reject("part_rates", prefix, "is the beginning of no trained parameter's name", remedy)
    if not by_rate:
        reject("model", type(model).__name__, "has no parameter to train", "set requires_grad of some parameters")
    return [{"params": parameters, "lr": rate} for rate, parameters in by_rate.items()]


def make_optimizer(model: nn.Module, settings: TrainingSettings) -> torch.optim.Optimizer:
    """Return Adam or AdamW, compiled here for the CPU, fused by torch for a GPU, else torch's plain one; or QHAdam."""
    groups = parameter_groups(model, settings)
    if settings.optimizer == "qhadam":
        from hardwood.train._qhadam import QHAdam

        return QHAdam(groups, betas=settings.betas, nus=settings.nus, weight_decay=settings.weight_decay)
    parameters = [parameter for group in groups for parameter in group["params"]]
    is_adam = settings.optimizer == "adam"
    options: dict[str, Any] = {"betas": settings.betas, "weight_decay": settings.weight_decay}
    if all(p.dtype in (torch.float32, torch.float64) and p.is_contiguous() for p in parameters):
        if all(p.device.type == "cpu" for p in parameters):
            from hardwood.train._adam import CompiledAdam, CompiledAdamW

            return (CompiledAdam if is_adam else CompiledAdamW)(groups, **options)
        options["fused"] = all(p.is_cuda for p in parameters)
    return (torch.optim.Adam if is_adam else torch.optim.AdamW)(groups, **options)


def clip_gradients(parameters: list[nn.Parameter], longest: float, by_tree: bool) -> None:
    """Scale the gradient down to the length `longest`; each tree's own gradient if trees are restarts."""
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    if not by_tree:
        norms = torch.stack(torch._foreach_norm(gradients))
        torch._foreach_mul_(gradients, _shrink(norms.square().sum().sqrt(), longest))
        return
    squares = torch.stack([gradient.flatten(1).square().sum(1) for gradient in gradients]).sum(0)
    factor = _shrink(squares.sqrt(), longest)
    for gradient in gradients:
        gradient.mul_(factor.reshape(-1, *[1] * (gradient.ndim - 1)))


def _shrink(length: Tensor, longest: float) -> Tensor:
    return (longest / length.clamp(min=torch.finfo(length.dtype).tiny)).clamp(max=1)
