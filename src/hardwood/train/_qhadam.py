"""Quasi-Hyperbolic Adam: Adam whose step mixes each moment's average with the latest gradient."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch


class QHAdam(torch.optim.Optimizer):
    """Quasi-Hyperbolic Adam (Ma & Yarats, 2019).

    With g the gradient, m and v Adam's averages of g and g^2, corrected for their start at 0, a step is

        - lr ((1 - nu1) g + nu1 m) / (sqrt((1 - nu2) g^2 + nu2 v) + eps).

    `nus=(1, 1)` is Adam.

    Args:
        params: parameters, or torch's groups of them.
        lr: learning rate.
        betas: decay of the two averages.
        nus: share of each average in the step.
        eps: added to the root.
        weight_decay: L2 penalty.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 0.001,
        betas: tuple[float, float] = (0.995, 0.999),
        nus: tuple[float, float] = (0.7, 1.0),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
    ) -> None:
        defaults = {"lr": lr, "betas": betas, "nus": nus, "eps": eps, "weight_decay": weight_decay, "fused": False}
        super().__init__(params, defaults)

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]
        """Take one step."""
        from hardwood.train import _adam

        each = [parameter for group in self.param_groups for parameter in group["params"]]
        if all(
            p.device.type == "cpu" and p.dtype in (torch.float32, torch.float64) and p.is_contiguous() for p in each
        ):
            _adam.step_compiled(self, _adam.move_quasi_hyperbolic, _factors)
            return
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                state = _adam.state_of(self, parameter)
                new1, beta2, new2, fresh1, kept1, fresh2, kept2, decay, rate, epsilon = _factors(
                    group, float(state["step"])
                )
                slope = parameter.grad
                if decay:
                    slope = slope.add(parameter, alpha=decay)
                first = state["exp_avg"].lerp_(slope, new1)
                second = state["exp_avg_sq"].mul_(beta2).addcmul_(slope, slope, value=new2)
                move = slope.mul(fresh1).add_(first, alpha=kept1)
                size = (slope * slope).mul_(fresh2).add_(second, alpha=kept2).sqrt_()
                parameter.addcdiv_(move, size.add_(epsilon), value=-rate)


def _factors(group: dict[str, Any], count: float) -> Sequence[float]:
    (beta1, beta2), (nu1, nu2) = group["betas"], group["nus"]
    return (
        1 - beta1, beta2, 1 - beta2, 1 - nu1, nu1 / (1 - beta1**count), 1 - nu2, nu2 / (1 - beta2**count),
        group["weight_decay"], group["lr"], group["eps"],
    )  # fmt: skip
