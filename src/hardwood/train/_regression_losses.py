"""Losses of numbers: squared, absolute, Huber, quantiles, Poisson, Tweedie. Several targets count by their mean."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from hardwood._typing import Float, Shaped
from hardwood.errors import reject
from hardwood.train._losses import Link, Loss, beside, check_finite
from hardwood.train._weights import weighted_mean, weighted_quantile


class _Regression(Loss):
    """What losses of numbers share: one output for each column of the target."""

    def n_outputs(self, target: Shaped[Tensor, "rows ..."]) -> int:
        """Return the number of target columns."""
        return 1 if target.ndim == 1 else target.shape[1]

    def link(self, n_outputs: int) -> Link:
        """Return "identity"."""
        return "identity"

    def prepare(
        self, target: Shaped[Tensor, "rows ..."], n_outputs: int, dtype: torch.dtype
    ) -> Shaped[Tensor, "rows ..."]:
        """Check that the target has a finite number for each output."""
        if self.n_outputs(target) != n_outputs:
            reject("target.shape", tuple(target.shape), f"but the model has {n_outputs} outputs",
                   "pass one column for each output, or make a model with as many outputs")  # fmt: skip
        check_finite(target)
        return target.to(dtype)

    def initial(
        self, target: Shaped[Tensor, "rows ..."], weight: Float[Tensor, " rows"] | None = None
    ) -> Float[Tensor, " outputs"]:
        """Return the best constant."""
        dtype = target.dtype if target.is_floating_point() else torch.get_default_dtype()
        columns = target.double().reshape(len(target), -1)
        return self._constant(columns, None if weight is None else weight.double()).to(dtype)

    def __call__(
        self,
        prediction: Float[Tensor, "rows ... outputs"],
        target: Shaped[Tensor, "rows ..."],
        weight: Float[Tensor, " rows"] | None = None,
    ) -> Float[Tensor, "..."]:
        """Return the loss of each row (and tree)."""
        values = self._values(prediction, beside(target, prediction))
        return values.squeeze(-1) if values.shape[-1] == 1 else values.mean(-1)

    @abstractmethod
    def _constant(self, target: Tensor, weight: Tensor | None) -> Tensor:
        """Return the best constant for each column."""

    @abstractmethod
    def _values(self, prediction: Tensor, target: Tensor) -> Tensor:
        """Return the loss of each number."""


@dataclass(frozen=True)
class SquaredError(_Regression):
    """`(prediction - target)**2`; the mean."""

    def _constant(self, target: Tensor, weight: Tensor | None) -> Tensor:
        return weighted_mean(target, weight)

    def _values(self, prediction: Tensor, target: Tensor) -> Tensor:
        return (prediction - target).square()


@dataclass(frozen=True)
class AbsoluteError(_Regression):
    """`|prediction - target|`; the median."""

    def _constant(self, target: Tensor, weight: Tensor | None) -> Tensor:
        return weighted_quantile(target, weight, 0.5)

    def _values(self, prediction: Tensor, target: Tensor) -> Tensor:
        return (prediction - target).abs()


@dataclass(frozen=True)
class Huber(_Regression):
    """`r**2 / 2` up to a distance of `delta`, and from there on linear: a mean that outliers do not pull far."""

    delta: float = 1.0

    def __post_init__(self) -> None:
        if not self.delta > 0:
            reject("delta", self.delta, "must be above 0", "try delta=1.0")

    def _constant(self, target: Tensor, weight: Tensor | None) -> Tensor:
        # One step from the median towards the best constant, as in Friedman (2001).
        median = weighted_quantile(target, weight, 0.5)
        return median + weighted_mean((target - median).clamp(-self.delta, self.delta), weight)

    def _values(self, prediction: Tensor, target: Tensor) -> Tensor:
        return F.huber_loss(prediction, target.expand_as(prediction), reduction="none", delta=self.delta)


@dataclass(frozen=True)
class Quantile(_Regression):
    """The pinball loss of one quantile `alpha`, or of several: then the model has one output for each."""

    alpha: float | Sequence[float] = 0.5

    def __post_init__(self) -> None:
        if not self._levels or not all(0 < level < 1 for level in self._levels):
            reject("alpha", self.alpha, "must be between 0 and 1", "try alpha=0.5, or alpha=(0.1, 0.5, 0.9)")

    @property
    def _levels(self) -> tuple[float, ...]:
        return (self.alpha,) if isinstance(self.alpha, (int, float)) else tuple(self.alpha)

    def n_outputs(self, target: Shaped[Tensor, "rows ..."]) -> int:
        """Return the number of quantiles, or of target columns when there is one quantile."""
        if len(self._levels) == 1:
            return 1 if target.ndim == 1 else target.shape[1]
        if target.ndim == 2 and target.shape[1] > 1:
            reject("alpha", self.alpha, "several quantiles need a single target", "fit one model for each target")
        return len(self._levels)

    def _constant(self, target: Tensor, weight: Tensor | None) -> Tensor:
        return torch.cat([weighted_quantile(target, weight, level) for level in self._levels])

    def _values(self, prediction: Tensor, target: Tensor) -> Tensor:
        below = target - prediction
        if len(self._levels) == 1:
            return torch.maximum(self._levels[0] * below, (self._levels[0] - 1) * below)
        level = torch.tensor(self._levels, dtype=below.dtype, device=below.device)
        return torch.maximum(level * below, (level - 1) * below)


class _Counts(_Regression):
    """What losses with a logarithmic link share."""

    def link(self, n_outputs: int) -> Link:
        """Return "exp"."""
        return "exp"

    @abstractmethod
    def _lowest(self) -> tuple[float, bool]:
        """Return the lowest target, and whether it is itself allowed."""

    def prepare(
        self, target: Shaped[Tensor, "rows ..."], n_outputs: int, dtype: torch.dtype
    ) -> Shaped[Tensor, "rows ..."]:
        """Check that the target has numbers that such a distribution can give."""
        target = super().prepare(target, n_outputs, dtype)
        lowest, allowed = self._lowest()
        outside = target < lowest if allowed else target <= lowest
        if bool(outside.any()):
            problem = f"this loss needs targets {'from' if allowed else 'above'} {lowest:g} up"
            reject("target", float(target[outside][0]), problem, "choose another loss, such as 'squared_error'")
        return target

    def _constant(self, target: Tensor, weight: Tensor | None) -> Tensor:
        mean = weighted_mean(target, weight)
        # A target of zeros only would have an infinite logarithm.
        return torch.where(mean > 0, mean, 0.5 / (len(target) + 1)).log()


@dataclass(frozen=True)
class Poisson(_Counts):
    """Half the Poisson deviance, without its constant; the raw prediction is the logarithm of the mean."""

    def _lowest(self) -> tuple[float, bool]:
        return 0.0, True

    def _values(self, prediction: Tensor, target: Tensor) -> Tensor:
        return prediction.exp() - target * prediction


@dataclass(frozen=True)
class Tweedie(_Counts):
    """Half the Tweedie deviance, without its constant; the raw prediction is the logarithm of the mean.

    Args:
        power: of the mean, in the variance: 1 is Poisson, 2 is gamma; between them zeros and a continuous part mix.
    """

    power: float = 1.5

    def __post_init__(self) -> None:
        if not 1 <= self.power <= 3:
            reject("power", self.power, "must be from 1 to 3", "try power=1.5, or the loss 'squared_error' for 0")

    def _lowest(self) -> tuple[float, bool]:
        return 0.0, self.power < 2

    def _values(self, prediction: Tensor, target: Tensor) -> Tensor:
        if self.power == 1:
            return prediction.exp() - target * prediction
        first, second = 1 - self.power, 2 - self.power
        if self.power == 2:
            return prediction + target * (-prediction).exp()
        return (second * prediction).exp() / second - target * (first * prediction).exp() / first
