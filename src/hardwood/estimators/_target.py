"""`Target`: what an estimator learns, as numbers for the training loop, and the way back to the user's units."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch

from hardwood._typing import Float, Int, Shaped
from hardwood.errors import reject
from hardwood.train import Loss, make_loss

# How the best constant of a leaf follows from the mean of its rows' targets.
Mean = Literal["probabilities", "log_odds", "identity", "log"]


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
    mean: Mean | None = "identity"  # None: leaves keep what gradients found
    standardised: bool = False  # whether `values` are (y - shift) / scale

    def __len__(self) -> int:
        return len(self.values)

    @property
    def link(self) -> str:
        """What turns the trees' outputs into predictions."""
        return self.loss.link(self.n_outputs)

    @property
    def codes(self) -> Int[np.ndarray, " rows"] | None:
        """The class codes, if the target is of classes."""
        return self.values if self.values.dtype == np.int64 and self.values.ndim == 1 else None

    @property
    def signal(self) -> Float[np.ndarray, "rows signals"]:
        """The numbers whose mean in a leaf tells what the leaf should say: one column for each class, label or number."""
        if self.codes is not None:
            assert self.classes is not None
            return (self.codes[:, None] == np.arange(max(2, len(self.classes)))).astype(np.float64)
        columns = self.values.reshape(len(self.values), -1).astype(np.float64)
        if self.mean == "log_odds" and self.classes is not None:
            return np.concatenate([1 - columns, columns], axis=1)
        return columns

    def outputs_of(self, means: Float[np.ndarray, "leaves signals"]) -> Float[np.ndarray, "leaves outputs"]:
        """Return the raw outputs whose prediction is the mean of the signal."""
        tiny = 1e-6
        if self.mean == "probabilities":
            return np.log(np.clip(means, tiny, 1.0))
        if self.mean == "log_odds":
            share = np.clip(means[:, 1:] if self.classes is not None else means, tiny, 1 - tiny)
            return np.log(share) - np.log1p(-share)
        if self.mean == "log":
            return np.log(np.maximum(means, tiny))
        if not self.standardised:
            means = (means - self.shift) / self.scale
        return np.broadcast_to(means, (len(means), self.n_outputs)).copy()

    def take(self, rows: Int[np.ndarray, " some"]) -> Target:
        """Return the targets of some rows."""
        return replace(self, values=self.values[rows])

    def like(self, y: Any) -> Target:
        """Return the target of further rows, in the units of these."""
        values = _numbers(y)
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


def of_classes(y: Any, loss: Any, known: Any = None) -> Target:
    """Return the target of a classifier: labels, or a matrix of zeros and ones for several labels a row.

    `known` are the classes when `y` may not show all of them.
    """
    from sklearn.utils import column_or_1d
    from sklearn.utils.multiclass import check_classification_targets, type_of_target

    labels = as_array(y)
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        problem = "Input y contains NaN or infinity"
        reject("y", labels[~np.isfinite(labels)][0], problem, "drop rows without a label")
    check_classification_targets(labels)
    kind = type_of_target(labels, input_name="y")
    if kind == "multilabel-indicator":
        return _of_labels(labels, loss)
    if kind == "multiclass-multioutput":
        remedy = "fit one classifier for each column (sklearn.multioutput.MultiOutputClassifier)"
        reject("y", f"an array of shape {labels.shape}", "has several columns of classes", remedy)
    labels = column_or_1d(labels, warn=True)
    classes = np.unique(labels) if known is None else np.unique(np.asarray(known))
    codes = np.searchsorted(classes, labels)
    codes = np.minimum(codes, len(classes) - 1).astype(np.int64)
    if not (classes[codes] == labels).all():
        wrong = labels[classes[codes] != labels][0]
        reject("y", wrong, f"is not one of the classes {classes.tolist()[:10]}", "name all classes in the first call")
    chosen = _classification_loss(loss, len(classes))
    n_outputs = 1 if len(classes) <= 2 else len(classes)
    mean: Mean | None = "log_odds" if n_outputs == 1 else "probabilities"
    return Target(codes, chosen, n_outputs, classes, mean=mean)


def of_shares(shares: Float[np.ndarray, "rows classes"], classes: Shaped[np.ndarray, " classes"], loss: Any) -> Target:
    """Return the target of a classifier that learns another model's probabilities."""
    chosen = _classification_loss(loss, len(classes))
    if len(classes) <= 2:
        second = shares[:, -1] if len(classes) == 2 else np.zeros(len(shares))
        return Target(second, chosen, 1, classes, mean="log_odds")
    return Target(shares, chosen, len(classes), classes, mean="probabilities")


def _of_labels(labels: Shaped[np.ndarray, "rows labels"], loss: Any) -> Target:
    from hardwood.train import MultiLabel

    named = {"auto": {}, "cross_entropy": {}, "multilabel": {}, "focal": {"gamma": 2.0}, "poly": {"epsilon": 2.0}}
    if isinstance(loss, str):
        if loss not in named:
            reject("loss", loss, "is not known for several labels a row", "choose one of " + ", ".join(map(repr, named)))
        loss = MultiLabel(**named[loss])
    return Target(labels.astype(np.float64), make_loss(loss), labels.shape[1], mean="log_odds")


def _classification_loss(loss: Any, n_classes: int) -> Loss:
    from hardwood.train import CrossEntropy

    if isinstance(loss, CrossEntropy):
        return replace(loss, n_classes=n_classes)
    if isinstance(loss, str):
        named = ("auto", "cross_entropy", "focal", "poly")
        if loss not in named:
            remedy = f"choose one of {', '.join(map(repr, named))}, a train.CrossEntropy, or a function"
            reject("loss", loss, "is not known for classes", remedy)
        return make_loss("cross_entropy" if loss == "auto" else loss, n_classes=n_classes)
    if isinstance(loss, Loss):
        return loss
    link = "sigmoid" if n_classes <= 2 else "softmax"
    return make_loss(loss, outputs=1 if n_classes <= 2 else n_classes, output_link=link)


def of_numbers(y: Any, loss: Any, weight: Float[np.ndarray, " rows"]) -> Target:
    """Return the target of a regressor, standardised where the loss allows it."""
    from hardwood.train import AbsoluteError, Huber, Poisson, Quantile, SquaredError, Tweedie

    values = _numbers(y)
    known = "squared_error" if isinstance(loss, str) and loss == "auto" else loss
    chosen: Loss | Callable[..., Any] = make_loss(known) if isinstance(known, str) else known
    mean: Mean | None = None
    if isinstance(chosen, (Poisson, Tweedie)):
        if (values < 0).any() or not (values > 0).any():
            remedy = "use a loss for numbers of any sign, such as 'squared_error'"
            reject("y", float(values.min()), "this loss needs numbers from 0 up, and one above 0", remedy)
        return _of_numbers(values, chosen, 0.0, 1.0, "log")
    if isinstance(chosen, (SquaredError, AbsoluteError, Quantile)):
        shift, scale = _centre_and_spread(values, weight)
        mean = "identity" if isinstance(chosen, SquaredError) else None
        return replace(_of_numbers((values - shift) / scale, chosen, shift, scale, mean), standardised=True)
    chosen = make_loss(chosen)
    if chosen.link(1) != "identity":
        return _of_numbers(values, chosen, 0.0, 1.0, mean)
    # Huber's delta, and whatever a user's own function does, is in the target's units.
    centre, spread = _centre_and_spread(values.reshape(-1, 1), np.repeat(weight, values.size // len(values)))
    in_units = _InUnits(chosen, float(centre[0]), float(spread[0]))
    return _of_numbers(values, in_units, float(centre[0]), float(spread[0]), mean)


def _numbers(y: Any) -> Float[np.ndarray, "rows ..."]:
    """Return a target of finite numbers; a single column as one axis."""
    given = as_array(y)
    try:
        values = given.astype(np.float64)
    except (TypeError, ValueError):
        reject("y", given[:3].tolist(), "does not hold numbers", "pass numbers, or use a classifier")
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if not np.isfinite(values).all():
        row = int(np.argmax(~np.isfinite(values.reshape(len(values), -1)).all(axis=1)))
        problem = "Input y contains NaN, infinity or a value too large"
        reject(f"y[{row}]", np.asarray(values[row]).tolist(), problem, "drop rows without a target")
    return values


def _of_numbers(
    values: Float[np.ndarray, "rows ..."], loss: Loss, shift: Any, scale: Any, mean: Mean | None
) -> Target:
    n_outputs = loss.n_outputs(torch.from_numpy(values[:1]))
    return Target(values, loss, n_outputs, shift=shift, scale=scale, mean=mean)


@dataclass(frozen=True)
class _InUnits(Loss):
    """A loss that is computed in the target's own units, of a model whose outputs are near 1 in size."""

    inner: Loss
    shift: float
    scale: float

    def n_outputs(self, target: torch.Tensor) -> int:
        return self.inner.n_outputs(target)

    def link(self, n_outputs: int) -> Any:
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


def as_array(y: Any) -> Shaped[np.ndarray, "..."]:
    """Return a target as an array; a narwhals frame or series of any library too."""
    if y is None:
        message = "requires y to be passed, but the target y is None"
        reject("y", None, message, "pass one target for each row of X")
    if not isinstance(y, np.ndarray) and not hasattr(y, "toarray"):
        y = y.to_numpy() if hasattr(y, "to_numpy") else y
    if hasattr(y, "toarray"):
        y = y.toarray()  # a sparse matrix of labels
    array = np.asarray(y)
    if array.dtype.kind == "c":
        reject("y", array[:3].tolist(), "Complex data not supported", "pass real numbers")
    return array
