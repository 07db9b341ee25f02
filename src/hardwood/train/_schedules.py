"""How learning rates change: warm-up, cosine decay, and a plateau rule that acts when the loss stops falling."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from hardwood._typing import Float
from hardwood.train._settings import TrainingSettings


def needs_steps(settings: TrainingSettings) -> bool:
    """Return whether the rates depend on how many steps an epoch has."""
    return settings.schedule == "cosine" or settings.warmup_epochs > 0


class RateSchedule:
    """Sets the optimiser's learning rates at every step.

    With restarts the plateau rule looks at each tree's own validation loss. An optimiser has one rate for all trees, so
    it takes the largest, and `shorten` takes back a part of the other trees' steps. Adam's step is proportional to its
    rate, so that is the same as a smaller rate.
    """

    def __init__(
        self, optimizer: torch.optim.Optimizer, settings: TrainingSettings, steps_per_epoch: int | None, n_losses: int
    ) -> None:
        self._groups: list[dict[str, Any]] = optimizer.param_groups
        self._rates = [float(group["lr"]) for group in self._groups]
        self._settings = settings
        # Nobody asks for these when the steps may be unknown.
        self._warmup = settings.warmup_epochs * (steps_per_epoch or 0)
        self._total = settings.max_epochs * (steps_per_epoch or 0)
        self._factors = torch.ones(n_losses, dtype=torch.float64)
        self._best = torch.full((n_losses,), math.inf, dtype=torch.float64)
        self._waited = torch.zeros(n_losses, dtype=torch.int64)
        self._before: list[Tensor] | None = None
        self._differ = False
        self._is_constant = settings.schedule == "constant" and self._warmup == 0
        self.factor = 1.0

    def set_rates(self, step: int) -> None:
        """Set the rates of the step that follows, the first one being step 0."""
        if self._is_constant:
            return
        factor = min(1.0, (step + 1) / self._warmup) if self._warmup else 1.0
        if self._settings.schedule == "cosine" and step >= self._warmup:
            progress = (step - self._warmup) / max(1.0, self._total - self._warmup)
            factor = (1 + math.cos(math.pi * min(1.0, progress))) / 2
        elif self._settings.schedule == "plateau":
            factor *= float(self._factors.max())
        self.factor = factor
        for group, rate in zip(self._groups, self._rates, strict=True):
            group["lr"] = rate * factor

    def observe(self, losses: Float[Tensor, " losses"]) -> None:
        """Lower the rate of those whose validation loss has not improved for long enough."""
        if self._settings.schedule != "plateau":
            return
        better = losses < self._best
        self._best = torch.where(better, losses, self._best)
        self._waited = torch.where(better, 0, self._waited + 1)
        due = self._waited >= self._settings.plateau_patience
        self._factors = torch.where(due, self._factors * self._settings.plateau_factor, self._factors)
        self._waited = torch.where(due, 0, self._waited)
        self._differ = bool((self._factors != self._factors[0]).any())

    def remember(self, parameters: list[nn.Parameter]) -> None:
        """Keep the parameters of before a step, if `shorten` will need them."""
        if self._differ:
            self._before = [parameter.detach().clone() for parameter in parameters]

    def shorten(self, parameters: list[nn.Parameter]) -> None:
        """Take back from each tree's step what its own, smaller rate would not have done."""
        if self._before is None:
            return
        share = self._factors / self._factors.max()
        for parameter, before in zip(parameters, self._before, strict=True):
            by_tree = share.to(parameter.device, parameter.dtype).reshape(-1, *[1] * (parameter.ndim - 1))
            # Written so that a share of 1 keeps every bit of the step.
            parameter.data.sub_((1 - by_tree) * (parameter.data - before))
        self._before = None

    def tensors(self) -> dict[str, Tensor]:
        """Return what a checkpoint has to hold."""
        return {"factors": self._factors, "best": self._best, "waited": self._waited}

    def load_tensors(self, tensors: dict[str, Tensor]) -> None:
        """Go on from a checkpoint."""
        self._factors, self._best, self._waited = tensors["factors"], tensors["best"], tensors["waited"]
        self._differ = bool((self._factors != self._factors[0]).any())
