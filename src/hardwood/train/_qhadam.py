"""Quasi-Hyperbolic Adam: Adam whose step mixes each moment's average with the latest gradient."""

from __future__ import annotations

from collections.abc import Iterable
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
        for group in self.param_groups:
            (beta1, beta2), (nu1, nu2) = group["betas"], group["nus"]
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                state = self.state[parameter]
                if not state:
                    state["step"] = torch.zeros(())
                    state["exp_avg"], state["exp_avg_sq"] = torch.zeros_like(parameter), torch.zeros_like(parameter)
                state["step"] += 1
                count = float(state["step"])
                slope = parameter.grad
                if group["weight_decay"]:
                    slope = slope.add(parameter, alpha=group["weight_decay"])
                first = state["exp_avg"].lerp_(slope, 1 - beta1)
                second = state["exp_avg_sq"].mul_(beta2).addcmul_(slope, slope, value=1 - beta2)
                move = slope.mul(1 - nu1).add_(first, alpha=nu1 / (1 - beta1**count))
                size = (slope * slope).mul_(1 - nu2).add_(second, alpha=nu2 / (1 - beta2**count)).sqrt_()
                parameter.addcdiv_(move, size.add_(group["eps"]), value=-group["lr"])
