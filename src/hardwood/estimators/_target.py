"""`Target`: what an estimator learns, as numbers for the training loop, and the way back to the user's units."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from hardwood._typing import Float, Int, Shaped
from hardwood.errors import reject
from hardwood.estimators._answers import numbers_of
from hardwood.train import (
    AbsoluteError,
    CrossEntropy,
    CustomLoss,
    Loss,
    MultiLabel,
    Poisson,
    Quantile,
    SquaredError,
    Tweedie,
    make_loss,
)
from hardwood.train._losses import Link

# A tree of depth 10 tells no more classes apart; and memory and time grow with rows, or leaves, times classes.
_MOST_CLASSES = 1000
_OF_NUMBERS = ("squared_error", "absolute_error", "huber", "quantile", "poisson", "tweedie")


@dataclass(frozen=True, eq=False)
class Target:
    """The rows' targets in training units: class codes, shares of classes, labels, or standardised numbers.

    A raw output `z` of the trees stands for `z * scale + shift` in the units of the user's target.
    """

    values: Shaped[np.ndarray, "rows ..."]  # int64 class codes, or float64
    loss: Loss
    n_outputs: int
    classes: Shaped[np.ndarray, " classes"] | None = None  # labels of a classifier, but for several labels a row
    shift: Float[np.ndarray, " columns"] | float = 0.0
    scale: Float[np.ndarray, " columns"] | float = 1.0
    refits: bool = True  # whether the loss calls for the mean of a leaf's rows; else leaves keep what gradients found
    standardised: bool = False  # whether `values` are (y - shift) / scale

    def __len__(self) -> int:
        return len(self.values)

    @property
    def link(self) -> Link:
        """What turns the trees' outputs into predictions."""
        return self.loss.link(self.n_outputs)

    @property
    def codes(self) -> Int[np.ndarray, " rows"] | None:
        """The class codes, if the target is of classes."""
        return self.values if self.values.dtype == np.int64 and self.values.ndim == 1 else None

    @property
    def signal(self) -> Float[np.ndarray, "rows signals"]:
        """The numbers whose mean in a leaf tells what it should say: one column for each class, label or number."""
        if self.codes is not None:
            assert self.classes is not None
            return (self.codes[:, None] == np.arange(max(2, len(self.classes)))).astype(np.float64)
        columns = self.values.reshape(len(self.values), -1).astype(np.float64)
        if self.link == "sigmoid" and self.classes is not None:
            return np.concatenate([1 - columns, columns], axis=1)
        return columns

    def outputs_of(self, means: Float[np.ndarray, "leaves signals"]) -> Float[np.ndarray, "leaves outputs"]:
        """Return the raw outputs whose prediction is the mean of the signal."""
        tiny = 1e-6
        if self.link == "softmax":
            return np.log(np.clip(means, tiny, 1.0))
        if self.link == "sigmoid":
            share = np.clip(means[:, 1:] if self.classes is not None else means, tiny, 1 - tiny)
            return np.log(share) - np.log1p(-share)
        if self.link == "exp":
            return np.log(np.maximum(means, tiny))
        if not self.standardised:
            means = (means - self.shift) / self.scale
        return np.broadcast_to(means, (len(means), self.n_outputs)).copy()

    @property
    def given(self) -> Shaped[np.ndarray, "rows ..."]:
        """The targets as the user gave them; of shares the most probable class."""
        if self.codes is not None and self.classes is not None:
            return self.classes[self.codes]
        if self.classes is not None:
            return self.classes[self.signal.argmax(axis=1)]
        return self.values * self.scale + self.shift if self.standardised else self.values

    def class_sums(self, weight: Float[np.ndarray, " rows"]) -> Float[np.ndarray, " classes"] | None:
        """Return the weight of each class, if the target is of classes."""
        if self.codes is None or self.classes is None:
            return None
        return np.bincount(self.codes, weight, minlength=len(self.classes)).astype(np.float64)

    def take(self, rows: Int[np.ndarray, " some"]) -> Target:
        """Return the targets of some rows."""
        return replace(self, values=self.values[rows])

    def like(self, y: Any) -> Target:
        """Return the target of further rows, in the units of these."""
        values = numbers_of(y)
        if values.shape[1:] != self.values.shape[1:]:
            problem = f"has shape {values.shape}, and the first rows' target had {self.values.shape}"
            reject("y", "an array", problem, "pass the same kind of target in every call")
        if self.standardised:
            values = (values - self.shift) / self.scale
        return replace(self, values=values)

    def tensor(self, device: torch.device) -> torch.Tensor:
        """Return the values as the loss wants them."""
        values = self.values if self.codes is not None else self.values.astype(np.float32)
        return torch.from_numpy(np.ascontiguousarray(values)).to(device)


def of_classes(labels: Shaped[np.ndarray, "rows ..."], loss: Any, known: Any = None) -> Target:
    """Return the target of a classifier, from what `labels_of` returns.

    `known` are the classes when the rows may not show all of them.
    """
    if labels.ndim == 2:
        return _of_labels(labels, loss)
    classes = np.unique(labels) if known is None else np.unique(known)
    if len(classes) > _MOST_CLASSES:
        problem = f"is one of {len(classes):,} classes, and {_MOST_CLASSES:,} are the most"
        reject("y", labels[0], problem, "merge the rare ones, or use a regressor if these are numbers")
    codes = np.searchsorted(classes, labels)
    codes = np.minimum(codes, len(classes) - 1).astype(np.int64)
    if not (classes[codes] == labels).all():
        wrong = labels[classes[codes] != labels][0]
        reject("y", wrong, f"is not one of the classes {classes.tolist()[:10]}", "name all classes in the first call")
    chosen = _classification_loss(loss, len(classes))
    n_outputs = 1 if len(classes) <= 2 else len(classes)
    return Target(codes, chosen, n_outputs, classes, refits=_calls_for_means(chosen))


def of_shares(shares: Float[np.ndarray, "rows classes"], classes: Shaped[np.ndarray, " classes"], loss: Any) -> Target:
    """Return the target of a classifier that learns another model's probabilities."""
    chosen = _classification_loss(loss, len(classes))
    if len(classes) <= 2:
        second = shares[:, -1] if len(classes) == 2 else np.zeros(len(shares))
        return Target(second, chosen, 1, classes, refits=_calls_for_means(chosen))
    return Target(shares, chosen, len(classes), classes, refits=_calls_for_means(chosen))


def _of_labels(labels: Shaped[np.ndarray, "rows labels"], loss: Any) -> Target:
    named = {"cross_entropy": {}, "multilabel": {}, "focal": {"gamma": 2.0}, "poly": {"epsilon": 2.0}}
    if isinstance(loss, str):
        if loss not in named:
            remedy = "choose one of " + ", ".join(map(repr, named))
            reject("loss", loss, "is not known for several labels a row", remedy)
        loss = MultiLabel(**named[loss])
    n_labels = labels.shape[1]
    chosen = _of_kind(loss, n_labels, "sigmoid")
    return Target(labels.astype(np.float64), chosen, n_labels, refits=_calls_for_means(chosen))


def _classification_loss(loss: Any, n_classes: int) -> Loss:
    if isinstance(loss, CrossEntropy):
        return replace(loss, n_classes=n_classes)
    if isinstance(loss, str):
        named = ("cross_entropy", "focal", "poly")
        if loss not in named:
            remedy = f"choose one of {', '.join(map(repr, named))}, a train.CrossEntropy, or a function"
            reject("loss", loss, "is not known for classes", remedy)
        return make_loss(loss, n_classes=n_classes)
    return _of_kind(loss, 1 if n_classes <= 2 else n_classes, "sigmoid" if n_classes <= 2 else "softmax")


def _of_kind(loss: Any, n_outputs: int, link: Link) -> Loss:
    """Return a classifier's loss: of a function, or of outputs that such a link turns into probabilities."""
    if not isinstance(loss, Loss):
        return make_loss(loss, outputs=n_outputs, output_link=link)
    if isinstance(loss, CustomLoss):
        return replace(loss, outputs=n_outputs, output_link=link)
    if loss.link(n_outputs) != link:
        problem = f"is a loss of outputs with link {loss.link(n_outputs)!r}, and this y calls for {link!r}"
        reject("loss", loss, problem, "choose 'cross_entropy', 'focal' or 'poly', or pass a function")
    return loss


def _calls_for_means(loss: Loss) -> bool:
    """Tell whether the best that a leaf can say is the mean of its rows."""
    if isinstance(loss, (CrossEntropy, MultiLabel)):
        return loss.gamma == loss.epsilon == loss.label_smoothing == 0
    return isinstance(loss, (SquaredError, Poisson, Tweedie))


def of_numbers(y: Any, loss: Any, weight: Float[np.ndarray, " rows"]) -> Target:
    """Return the target of a regressor, standardised where the loss allows it."""
    values = numbers_of(y)
    if isinstance(loss, str) and loss not in _OF_NUMBERS:
        remedy = f"choose one of {', '.join(map(repr, _OF_NUMBERS))}, a loss of hardwood.train, or a function"
        reject("loss", loss, "is not known for numbers", remedy)
    chosen = make_loss(loss)
    if isinstance(chosen, (Poisson, Tweedie)):
        lowest, allowed = chosen._lowest()
        if (values < lowest).any() or (not allowed and (values <= lowest).any()) or not (values > lowest).any():
            problem = (
                "this loss needs numbers from 0 up, and one above 0" if allowed else "this loss needs numbers above 0"
            )
            reject("y", float(values.min()), problem, "use a loss for numbers of any sign, such as 'squared_error'")
        return _of_numbers(values, chosen, 0.0, 1.0)
    if isinstance(chosen, (SquaredError, AbsoluteError, Quantile)):
        shift, scale = _centre_and_spread(values, weight)
        return replace(_of_numbers((values - shift) / scale, chosen, shift, scale), standardised=True)
    if chosen.link(1) != "identity":
        return _of_numbers(values, chosen, 0.0, 1.0)
    # Huber's delta, and whatever a user's own function does, is in the target's units.
    centre, spread = _centre_and_spread(values.reshape(-1, 1), np.repeat(weight, values.size // len(values)))
    if chosen is not loss and isinstance(chosen, CustomLoss):
        # A bare function does not say where to start; 0 may be far away.
        chosen = replace(chosen, start=float(centre[0]))
    in_units = _InUnits(chosen, float(centre[0]), float(spread[0]))
    return _of_numbers(values, in_units, float(centre[0]), float(spread[0]))


def _of_numbers(values: Float[np.ndarray, "rows ..."], loss: Loss, shift: Any, scale: Any) -> Target:
    n_outputs = loss.n_outputs(torch.from_numpy(values[:1]))
    return Target(values, loss, n_outputs, shift=shift, scale=scale, refits=_calls_for_means(loss))


@dataclass(frozen=True)
class _InUnits(Loss):
    """A loss that is computed in the target's own units, of a model whose outputs are near 1 in size."""

    inner: Loss
    shift: float
    scale: float

    def n_outputs(self, target: torch.Tensor) -> int:
        return self.inner.n_outputs(target)

    def link(self, n_outputs: int) -> Link:
        return self.inner.link(n_outputs)

    def prepare(self, target: torch.Tensor, n_outputs: int, dtype: torch.dtype) -> torch.Tensor:
        return self.inner.prepare(target, n_outputs, dtype)

    def initial(self, target: torch.Tensor, weight: torch.Tensor | None = None) -> torch.Tensor:
        return (self.inner.initial(target, weight) - self.shift) / self.scale

    def __call__(
        self, prediction: torch.Tensor, target: torch.Tensor, weight: torch.Tensor | None = None
    ) -> torch.Tensor:
        return self.inner(prediction * self.scale + self.shift, target, weight)


def _centre_and_spread(
    values: Float[np.ndarray, "rows ..."], weight: Float[np.ndarray, " rows"]
) -> tuple[Float[np.ndarray, " columns"], Float[np.ndarray, " columns"]]:
    """Return the weighted mean and deviation of each column; 1 for a column that is constant."""
    columns = values.reshape(len(values), -1)
    # Squares of large numbers overflow, those of small ones vanish.
    peak = np.abs(columns).max(axis=0)
    peak = np.where(peak > 0, peak, 1.0)
    share = (weight / weight.sum())[:, None]
    part = columns / peak
    mean = (share * part).sum(axis=0)
    spread = np.sqrt((share * (part - mean) ** 2).sum(axis=0))
    return mean * peak, np.where(spread > 1e-12, spread * peak, 1.0)
