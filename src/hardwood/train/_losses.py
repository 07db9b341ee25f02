"""`Loss`: what the training loop and the estimators ask of a loss, and how one is found by its name."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from hardwood._typing import Float, Shaped
from hardwood.errors import InvalidArgumentError, reject

Link = Literal["identity", "sigmoid", "softmax", "exp"]
LossFunction = Callable[[Tensor, Tensor, Tensor], Tensor]


class Loss(ABC):
    """A loss of raw predictions, before the link.

    Calling it gives one number for each row, or for each row and tree when predictions are `(rows, trees, outputs)`.
    The weights are not in those numbers: the loop takes the weighted mean over rows. A call may instead return one
    number for the batch, or one for each tree; the loop then takes it as it is.
    """

    @abstractmethod
    def n_outputs(self, target: Shaped[Tensor, "rows ..."]) -> int:
        """Return how many outputs a model needs for this target."""

    @abstractmethod
    def link(self, n_outputs: int) -> Link:
        """Return the link that turns raw predictions into what the target means."""

    @abstractmethod
    def prepare(
        self, target: Shaped[Tensor, "rows ..."], n_outputs: int, dtype: torch.dtype
    ) -> Shaped[Tensor, "rows ..."]:
        """Check a target, and return it in the type that the loss computes with."""

    @abstractmethod
    def initial(
        self, target: Shaped[Tensor, "rows ..."], weight: Float[Tensor, " rows"] | None = None
    ) -> Float[Tensor, " outputs"]:
        """Return the constant raw prediction that a model best starts from."""

    @abstractmethod
    def __call__(
        self,
        prediction: Float[Tensor, "rows ... outputs"],
        target: Shaped[Tensor, "rows ..."],
        weight: Float[Tensor, " rows"] | None = None,
    ) -> Float[Tensor, "..."]:
        """Return the loss of each row (and tree)."""


def beside(target: Shaped[Tensor, "..."], prediction: Float[Tensor, "..."]) -> Shaped[Tensor, "..."]:
    """Return the target shaped so that it broadcasts against predictions, with or without a trees axis."""
    columns = target[:, None] if target.ndim == 1 else target
    return columns[:, None] if prediction.ndim == 3 else columns


def check_finite(target: Shaped[Tensor, "..."]) -> None:
    """Refuse a target with holes."""
    if target.is_floating_point() and not bool(target.isfinite().all()):
        wrong = float(target[~target.isfinite()][0])
        reject("target", wrong, "is not a finite number", "remove the rows whose target is missing or infinite")


@dataclass(frozen=True)
class CustomLoss(Loss):
    """A user's own loss: `function(prediction, target, weight)` gives one number for each row, or one in all.

    It is called once for each tree of a set of restarts, so it never sees a trees axis. With one output and a target
    `(rows,)`, predictions are `(rows,)` too. Numbers for each row are weighted by the loop; one number for all rows is
    taken as it is, and honours `weight` (ones when there are no weights) if the function does.

    >>> loss = CustomLoss(lambda p, t, w: torch.where(t > p, 3 * (t - p), p - t))
    >>> loss(torch.tensor([[1.0], [2.0]]), torch.tensor([2.0, 1.0]))
    tensor([3., 1.])

    Args:
        function: the loss; anything that autograd can differentiate.
        outputs: outputs of the model; by default as many as the target has columns.
        output_link: what turns raw predictions into what the target means.
        start: the constant raw prediction to start from; 0 by default.
    """

    function: LossFunction
    outputs: int | None = None
    output_link: Link = "identity"
    start: float = 0.0

    def n_outputs(self, target: Shaped[Tensor, "rows ..."]) -> int:
        """Return how many outputs a model needs for this target."""
        if self.outputs is not None:
            return self.outputs
        return 1 if target.ndim == 1 else target.shape[1]

    def link(self, n_outputs: int) -> Link:
        """Return the link that was given."""
        return self.output_link

    def prepare(
        self, target: Shaped[Tensor, "rows ..."], n_outputs: int, dtype: torch.dtype
    ) -> Shaped[Tensor, "rows ..."]:
        """Check a target; integers stay integers."""
        check_finite(target)
        return target.to(dtype) if target.is_floating_point() else target

    def initial(
        self, target: Shaped[Tensor, "rows ..."], weight: Float[Tensor, " rows"] | None = None
    ) -> Float[Tensor, " outputs"]:
        """Return the start that was given."""
        dtype = target.dtype if target.is_floating_point() else torch.get_default_dtype()
        return torch.full((self.n_outputs(target),), self.start, dtype=dtype, device=target.device)

    def __call__(
        self,
        prediction: Float[Tensor, "rows ... outputs"],
        target: Shaped[Tensor, "rows ..."],
        weight: Float[Tensor, " rows"] | None = None,
    ) -> Float[Tensor, "..."]:
        """Return the function's value, of each tree if there are several."""
        weight = prediction.new_ones(len(prediction)) if weight is None else weight
        if prediction.ndim == 3:
            return torch.stack([self._one(each, target, weight) for each in prediction.unbind(1)], -1)
        return self._one(prediction, target, weight)

    def _one(self, prediction: Tensor, target: Tensor, weight: Tensor) -> Tensor:
        if prediction.shape[1] == 1 and target.ndim == 1:
            prediction = prediction[:, 0]
        value = self.function(prediction, target, weight)
        if not isinstance(value, Tensor) or tuple(value.shape) not in ((), (len(prediction),)):
            shown = f"a tensor of shape {tuple(value.shape)}" if isinstance(value, Tensor) else type(value).__name__
            problem = f"returned {shown} for {len(prediction)} rows"
            reject("loss", getattr(self.function, "__name__", self.function), problem,
                   "return one number for each row, shape (rows,), or one for all")  # fmt: skip
        return value


def make_loss(loss: str | Loss | LossFunction, **options: Any) -> Loss:
    """Return a loss from its name and options, from a function, or as it is.

    >>> make_loss("quantile", alpha=(0.1, 0.9))
    Quantile(alpha=(0.1, 0.9))

    Names: "cross_entropy", "focal", "poly", "multilabel", "squared_error", "absolute_error", "huber", "quantile",
    "poisson", "tweedie".
    """
    from hardwood.train import _classification_losses as classification
    from hardwood.train import _regression_losses as regression

    if isinstance(loss, Loss):
        if options:
            reject("loss", loss, f"takes no {next(iter(options))!r} any more", "give the option where it is made")
        return loss
    if not isinstance(loss, str):
        if not callable(loss):
            reject("loss", loss, "is neither a name nor a function", "pass a name such as 'squared_error'")
        return CustomLoss(loss, **options)
    named: dict[str, tuple[Callable[..., Loss], dict[str, Any]]] = {
        "cross_entropy": (classification.CrossEntropy, {}),
        "focal": (classification.CrossEntropy, {"gamma": 2.0}),
        "poly": (classification.CrossEntropy, {"epsilon": 2.0}),
        "multilabel": (classification.MultiLabel, {}),
        "squared_error": (regression.SquaredError, {}),
        "absolute_error": (regression.AbsoluteError, {}),
        "huber": (regression.Huber, {}),
        "quantile": (regression.Quantile, {}),
        "poisson": (regression.Poisson, {}),
        "tweedie": (regression.Tweedie, {}),
    }
    if loss not in named:
        reject("loss", loss, "is not known", "choose one of " + ", ".join(map(repr, named)) + ", or pass a function")
    make, given = named[loss]
    try:
        return make(**{**given, **options})
    except TypeError:
        names = ", ".join(map(repr, make.__dataclass_fields__)) or "none"  # type: ignore[attr-defined]
        message = f"loss={loss!r}: does not take the options {sorted(options)}; its options are: {names}"
        raise InvalidArgumentError(message) from None
