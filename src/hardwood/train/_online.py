"""`OnlineTraining`: training that goes on whenever there are new rows."""

from __future__ import annotations

import math
import warnings
from typing import NoReturn

import torch
from torch import Tensor, nn

from hardwood._typing import Float, Shaped
from hardwood.errors import reject
from hardwood.train._batches import Batches, make_generators
from hardwood.train._best import BestParameters
from hardwood.train._data import Intake, Table, Terms, check_devices, check_rows, device_of
from hardwood.train._errors import TrainingDivergedError, TrainingWarning
from hardwood.train._feed import TableFeed
from hardwood.train._losses import Loss, LossFunction, make_loss
from hardwood.train._settings import TrainingSettings
from hardwood.train._step import Stepper, check_restarts
from hardwood.train._tensors import (
    load_model,
    load_optimizer,
    model_generators,
    model_tensors,
    optimizer_tensors,
    part,
    prefixed,
)
from hardwood.train._weights import ClassWeight, check_explicit


class OnlineTraining:
    """Trains a model in place, one call of `update` after the other, as if the calls were one training.

    The optimiser's averages, the place in the sequence of shuffles and that of tree dropout outlive each call, and
    `tensors` holds all of it. There is no validation, and nothing is kept as the best: the model has what the latest
    update made of it.

    >>> from hardwood.nn import HardTrees
    >>> online = OnlineTraining(HardTrees(2, 1), loss="squared_error")
    >>> online.update(torch.randn(10, 2), torch.zeros(10)).shape
    torch.Size([1])

    Args:
        model: called on a batch of rows, in train mode as its modules have it.
        loss: a name for `make_loss`, a `Loss`, or a function `(prediction, target, weight)`.
        settings: what concerns a step: `batch_size`, `replace`, the optimiser and its rates, `max_gradient_norm`,
            `tree_dropout` and `random_state`. Rates that change over epochs and averages of parameters are refused;
            what says how long to train and when to evaluate is not looked at.
        class_weight: a number for each class code; multiplies the weights.
        base: a constant that is added to predictions.
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        loss: str | Loss | LossFunction,
        settings: TrainingSettings | None = None,
        class_weight: ClassWeight | None = None,
        base: Float[Tensor, " outputs"] | None = None,
    ) -> None:
        settings = settings or TrainingSettings()
        for name, wanted in (("schedule", "constant"), ("warmup_epochs", 0), ("averaging", "none")):
            if getattr(settings, name) != wanted:
                reject(name, getattr(settings, name), "needs a training with an end", f"set it to {wanted!r}")
        check_explicit(class_weight)
        self.model, self.settings, self.loss = model, settings, make_loss(loss)
        self.class_weight, self.base = class_weight, base
        self.steps = 0  # taken so far
        self._shuffles, self._dropout = make_generators(settings.random_state)
        self._stepper = Stepper(model, self.loss, settings, self._dropout)

    def update(
        self,
        rows: Float[Tensor, "rows features"],
        target: Shaped[Tensor, "rows ..."],
        weight: Float[Tensor, " rows"] | None = None,
    ) -> Float[Tensor, " losses"]:
        """Pass over some rows once, in batches, and return the mean loss of these: of each tree if trees are restarts.

        The loss of a batch is that before its step. If a loss or a parameter becomes infinite or NaN,
        `TrainingDivergedError` is raised; if only some restarts fail, those go back to their parameters from before
        the call, with a warning, and have an infinite loss. After an error everything is as before the call.
        """
        check_devices(device_of(self.model, rows), None, rows=rows, target=target, weight=weight, base=self.base)
        check_rows("rows", rows, target)
        intake = Intake.learn(self.model, self.loss, rows, target, weight, self.class_weight, self.base)
        check_restarts(self.model, self.settings, intake.n_trees)
        table, terms = intake.table(rows, target, weight, "weight"), intake.terms(None, rows.shape[1])
        before = {name: tensor.clone() for name, tensor in self.tensors().items()}
        try:
            with torch.enable_grad():
                return self._pass_over(table, terms)
        except BaseException:
            self._load(before)
            raise

    def _pass_over(self, table: Table, terms: Terms) -> Float[Tensor, " losses"]:
        stepper = self._stepper
        before = BestParameters(self.model, terms.n_trees, None)

        def mend() -> bool:
            """Put trees whose parameters are not finite back to where they were; say whether there were any."""
            broken = ~before.finite()
            before.failed |= broken
            if bool(before.failed.all()):
                _diverge("a parameter became infinite or NaN")
            if bool(broken.any()):
                stepper.put_back(broken, before.kept(stepper.parameters))
            return bool(broken.any())

        n_rows, size, device = len(table.rows), self.settings.batch_size, table.rows.device
        feed = TableFeed(table, Batches(n_rows, size, self._shuffles, replace=self.settings.replace, device=device))
        taken: list[Tensor] = []
        while feed.epoch == 0:
            taken.append(stepper.differentiate(feed.take(), terms, mend))
            stepper.optimizer.step()
        losses = torch.stack(taken).double().cpu().reshape(len(taken), -1)
        wrong = ~losses.isfinite()
        before.failed |= wrong.any(0)
        if bool(before.failed.all()):
            _diverge(f"the loss became {float(losses[wrong][0])}")
        mend()
        failed = before.failed
        if bool(failed.any()):
            stepper.put_back(failed, before.kept(stepper.parameters))
            which = failed.nonzero().flatten().tolist()
            warnings.warn(
                f"the loss of {len(which)} of {len(failed)} restarts became infinite or NaN: {which}; they are as they "
                "were before the update; lower the learning rates, or set max_gradient_norm",
                TrainingWarning,
                stacklevel=3,
            )
        self.steps += len(taken)
        return losses.mean(0).masked_fill(failed, math.inf)

    def tensors(self) -> dict[str, Tensor]:
        """Return all that the next update depends on, the model's parameters and buffers included; nothing is copied.

        An object that holds them, and makes the model and this object anew, can be copied and pickled.
        """
        generators = {"shuffles": self._shuffles, "dropout": self._dropout}
        return {
            **prefixed("model", model_tensors(self.model)),
            **prefixed("optimizer", optimizer_tensors(self._stepper.optimizer, self._stepper.parameters)),
            **prefixed("generators", {name: each.get_state() for name, each in generators.items()}),
            **prefixed("generators.model", {n: g.get_state() for n, g in model_generators(self.model).items()}),
            "steps": torch.tensor(self.steps),
        }

    def load_tensors(self, tensors: dict[str, Tensor]) -> None:
        """Go on from what `tensors` returned for such a model with such settings; the tensors are copied."""
        wanted = {name: tuple(held.shape) for name, held in self.tensors().items() if not name.startswith("optimizer.")}
        # A parameter that has had no gradient yet has no moments.
        moments: dict[str, tuple[int, ...]] = {}
        for index, parameter in enumerate(self._stepper.parameters):
            shape = tuple(parameter.shape)
            sizes = {"step": (), "exp_avg": shape, "exp_avg_sq": shape}
            moments.update({f"optimizer.{index}.{name}": size for name, size in sizes.items()})
        for name in sorted({*tensors, *wanted}):
            given = tuple(tensors[name].shape) if name in tensors else None
            here = wanted.get(name, moments.get(name))
            if given != here:
                problem = f"has shape {given}, and in this training {here}"
                reject("tensors", name, problem, "make the model as it was, with the same settings")
        self._load(tensors)

    def _load(self, tensors: dict[str, Tensor]) -> None:
        load_model(self.model, part(tensors, "model"))
        load_optimizer(self._stepper.optimizer, self._stepper.parameters, part(tensors, "optimizer"))
        self._shuffles.set_state(tensors["generators.shuffles"])
        self._dropout.set_state(tensors["generators.dropout"])
        for name, generator in model_generators(self.model).items():
            generator.set_state(tensors[f"generators.model.{name}"])
        self.steps = int(tensors["steps"])


def _diverge(what: str) -> NoReturn:
    raise TrainingDivergedError(
        f"{what}; the model has its parameters of before the update again; "
        "lower the learning rates, set max_gradient_norm, or scale the target"
    )
