"""Cross-entropy and its relatives: focal loss, PolyLoss, label smoothing, several labels at once."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from hardwood._typing import Float, Shaped
from hardwood.errors import reject
from hardwood.train._losses import Link, Loss, beside, check_finite
from hardwood.train._weights import weighted_mean


@dataclass(frozen=True)
class _Entropy(Loss):
    """What both losses below share: the options, and the loss of one yes-or-no question."""

    gamma: float = 0.0
    epsilon: float = 0.0
    label_smoothing: float = 0.0

    def __post_init__(self) -> None:
        if not self.gamma >= 0:
            reject("gamma", self.gamma, "must be at least 0", "try gamma=2.0")
        if not self.epsilon >= -1:
            reject("epsilon", self.epsilon, "must be at least -1", "try epsilon=2.0")
        if not 0 <= self.label_smoothing < 1:
            reject("label_smoothing", self.label_smoothing, "must be at least 0 and below 1", "try 0.1")

    def _two_classes(self, logit: Tensor, target: Tensor) -> Tensor:
        share = target.to(logit.dtype)
        if self.label_smoothing:
            share = torch.lerp(share, share.new_full((), 0.5), self.label_smoothing)
        if self.gamma == self.epsilon == 0:
            return _softplus(logit) - share * logit
        log_p, log_rest = -_softplus(-logit), -_softplus(logit)
        return share * self._term(log_p, log_rest) + (1 - share) * self._term(log_rest, log_p)

    def _term(self, log_p: Tensor, log_rest: Tensor) -> Tensor:
        """Return what a class adds if it is the right one, from the logarithms of p and 1 - p."""
        term = -log_p * (self.gamma * log_rest).exp() if self.gamma else -log_p
        return term + self.epsilon * ((self.gamma + 1) * log_rest).exp() if self.epsilon else term


@dataclass(frozen=True)
class CrossEntropy(_Entropy):
    """Cross-entropy of class codes `0, 1, ...`, or of soft targets.

    A model with one output gives the log-odds of class 1; a soft target is then that class's probability. With more
    outputs they are the classes' logits, and a soft target is `(rows, classes)`.

    >>> CrossEntropy()(torch.tensor([[0.0], [2.0]]), torch.tensor([1, 1]))
    tensor([0.6931, 0.1269])

    Args:
        gamma: focal loss: a class with probability p counts `(1 - p)**gamma` times.
        epsilon: PolyLoss (Poly-1): `epsilon * (1 - p)**(gamma + 1)` is added.
        label_smoothing: this share of each target is spread evenly over all classes.
        n_classes: how many classes there are, when a target of codes may not show all of them.
    """

    n_classes: int | None = None

    def n_outputs(self, target: Shaped[Tensor, "rows ..."]) -> int:
        """Return 1 for two classes, else the number of classes: as given, or as the target shows."""
        if target.ndim == 2:
            return target.shape[1]
        if target.is_floating_point() and self.n_classes is None:
            return 1
        classes = int(target.max()) + 1 if self.n_classes is None else self.n_classes
        return 1 if classes <= 2 else classes

    def link(self, n_outputs: int) -> Link:
        """Return "sigmoid" for one output, else "softmax"."""
        return "sigmoid" if n_outputs == 1 else "softmax"

    def prepare(
        self, target: Shaped[Tensor, "rows ..."], n_outputs: int, dtype: torch.dtype
    ) -> Shaped[Tensor, "rows ..."]:
        """Check class codes or probabilities; codes become integers, except those of two classes."""
        check_finite(target)
        if target.ndim == 2:
            if target.shape[1] != n_outputs or n_outputs == 1:
                reject("target.shape", tuple(target.shape), f"but the model has {n_outputs} outputs",
                       "pass one probability for each class, or class codes of shape (rows,)")  # fmt: skip
            _check_range("target", target, 1, "is not a probability")
            return target.to(dtype)
        if n_outputs == 1:
            _check_range("target", target, 1, "is neither one of the two classes' codes nor a probability")
            return target.to(dtype)
        _check_range("target", target, n_outputs - 1, f"is not a code of one of {n_outputs} classes")
        if target.is_floating_point() and bool((target != target.round()).any()):
            wrong = float(target[target != target.round()][0])
            reject("target", wrong, "is not a class code", "number the classes 0, 1, ..., or pass (rows, classes)")
        return target.long()

    def initial(
        self, target: Shaped[Tensor, "rows ..."], weight: Float[Tensor, " rows"] | None = None
    ) -> Float[Tensor, " outputs"]:
        """Return the log-odds, or the log-probabilities, of the classes' shares."""
        n_outputs = self.n_outputs(target)
        dtype = target.dtype if target.is_floating_point() else torch.get_default_dtype()
        wide = None if weight is None else weight.double()
        if n_outputs > 1 and target.ndim == 1:
            counted = torch.bincount(target.long(), wide, minlength=n_outputs).double()
            share = counted / counted.sum()
        else:
            share = weighted_mean(target.double().reshape(len(target), n_outputs), wide)
        # A class that is missing, or alone, would have an infinite logit.
        share = share.clamp(0.5 / (len(target) + 1), 1 - 0.5 / (len(target) + 1))
        return (torch.logit(share) if n_outputs == 1 else share.log()).to(dtype)

    def __call__(
        self,
        prediction: Float[Tensor, "rows ... outputs"],
        target: Shaped[Tensor, "rows ..."],
        weight: Float[Tensor, " rows"] | None = None,
    ) -> Float[Tensor, "..."]:
        """Return the loss of each row (and tree)."""
        classes = prediction.shape[-1]
        if classes == 1:
            return self._two_classes(prediction, beside(target, prediction)).squeeze(-1)
        if target.ndim == 1:
            if self.gamma == self.epsilon == 0:
                return self._of_codes(prediction, target)
            target = F.one_hot(target, classes)
        shares = target.to(prediction.dtype)
        if self.label_smoothing:
            shares = torch.lerp(shares, shares.new_full((), 1 / classes), self.label_smoothing)
        log_p = prediction.log_softmax(-1)
        if self.gamma == self.epsilon == 0:
            return -(beside(shares, prediction) * log_p).sum(-1)
        rest = -torch.expm1(log_p)
        log_rest = rest.clamp(min=torch.finfo(rest.dtype).eps).log()
        return (beside(shares, prediction) * self._term(log_p, log_rest)).sum(-1)

    def _of_codes(self, prediction: Tensor, target: Tensor) -> Tensor:
        codes = target
        if prediction.ndim == 3:
            codes = target[:, None].expand(-1, prediction.shape[1]).reshape(-1)
        flat = F.cross_entropy(prediction.flatten(0, -2), codes, reduction="none", label_smoothing=self.label_smoothing)
        return flat.reshape(prediction.shape[:-1])


@dataclass(frozen=True)
class MultiLabel(_Entropy):
    """The mean over labels of their binary cross-entropies, with `CrossEntropy`'s first three options.

    The target is `(rows, labels)`, each entry 0, 1 or a probability; the outputs are the labels' log-odds.
    """

    def n_outputs(self, target: Shaped[Tensor, "rows ..."]) -> int:
        """Return the number of labels."""
        return 1 if target.ndim == 1 else target.shape[1]

    def link(self, n_outputs: int) -> Link:
        """Return "sigmoid"."""
        return "sigmoid"

    def prepare(
        self, target: Shaped[Tensor, "rows ..."], n_outputs: int, dtype: torch.dtype
    ) -> Shaped[Tensor, "rows ..."]:
        """Check that there is one entry from 0 to 1 for each label."""
        if self.n_outputs(target) != n_outputs:
            reject("target.shape", tuple(target.shape), f"but the model has {n_outputs} outputs", "pass (rows, labels)")
        check_finite(target)
        _check_range("target", target, 1, "is neither 0 nor 1 nor a probability")
        return target.to(dtype)

    def initial(
        self, target: Shaped[Tensor, "rows ..."], weight: Float[Tensor, " rows"] | None = None
    ) -> Float[Tensor, " outputs"]:
        """Return the log-odds of each label's share."""
        dtype = target.dtype if target.is_floating_point() else torch.get_default_dtype()
        columns = target.double().reshape(len(target), -1)
        share = weighted_mean(columns, None if weight is None else weight.double())
        return torch.logit(share.clamp(0.5 / (len(target) + 1), 1 - 0.5 / (len(target) + 1))).to(dtype)

    def __call__(
        self,
        prediction: Float[Tensor, "rows ... outputs"],
        target: Shaped[Tensor, "rows ..."],
        weight: Float[Tensor, " rows"] | None = None,
    ) -> Float[Tensor, "..."]:
        """Return the loss of each row (and tree)."""
        return self._two_classes(prediction, beside(target, prediction)).mean(-1)


def _softplus(logit: Tensor) -> Tensor:
    """Return log(1 + exp(logit)). torch's own log-sigmoid wakes every thread even for a small batch."""
    return torch.logaddexp(logit, logit.new_zeros(()))


def _check_range(argument: str, values: Tensor, highest: float, problem: str) -> None:
    outside = (values < 0) | (values > highest)
    if bool(outside.any()):
        reject(argument, values[outside][0].item(), problem, f"use values from 0 to {highest}")
