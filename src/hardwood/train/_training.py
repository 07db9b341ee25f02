"""`Training`: the parts of one training, and how they move together."""

from __future__ import annotations

import math
import os
import time
import warnings
from typing import Any, NoReturn

import torch
from torch import Tensor, nn

from hardwood.train import _checkpoint, _resume
from hardwood.train._averages import WeightAverage
from hardwood.train._best import BestParameters
from hardwood.train._callbacks import TrainingState
from hardwood.train._data import Terms, evaluate
from hardwood.train._errors import TrainingDivergedError, TrainingWarning
from hardwood.train._feed import Feed
from hardwood.train._history import History, HistoryRecord
from hardwood.train._losses import Loss
from hardwood.train._result import StopReason, TrainingResult
from hardwood.train._schedules import RateSchedule
from hardwood.train._settings import TrainingSettings
from hardwood.train._step import Stepper

# Losses are looked at in groups: reading each one would stop a GPU after every step.
_STEPS_BETWEEN_LOOKS = 32


class Training:
    """The parts of one training, and what moves them: `step` and `evaluate`."""

    def __init__(
        self,
        model: nn.Module,
        loss: Loss,
        settings: TrainingSettings,
        feed: Feed,
        terms: Terms,
        dropout: torch.Generator,
        checkpoint: str | os.PathLike[str] | None,
    ) -> None:
        self.model, self.loss, self.settings, self.feed, self.terms = model, loss, settings, feed, terms
        self.dropout = dropout
        self.stepper = Stepper(model, loss, settings, dropout)
        n_losses = terms.n_trees or 1
        self.schedule = RateSchedule(self.stepper.optimizer, settings, feed.steps_per_epoch, n_losses)
        self.average = WeightAverage(self.stepper.parameters, settings)
        self.best = BestParameters(model, terms.n_trees, settings.patience, settings.tolerance)
        self.state = TrainingState(model, settings, History(), feed.steps_per_epoch, terms.n_trees)
        self._checkpoint, self._written = checkpoint, time.perf_counter()
        self._identity: dict[str, Any] | None = None
        self._began = time.perf_counter()
        self._evaluated_at = 0
        self._unseen: list[Tensor] = []  # losses of the steps since the last look
        self._sum = torch.zeros(n_losses, dtype=torch.float64)
        self._seen = 0

    def step(self) -> None:
        """Take one batch, and move the parameters."""
        stepper = self.stepper
        loss = stepper.differentiate(self.feed.take(), self.terms, self._replace_broken)
        self.schedule.set_rates(self.state.step)
        self.schedule.remember(stepper.parameters)
        stepper.optimizer.step()
        self.schedule.shorten(stepper.parameters)
        self.average.after_step()
        self.state.step += 1
        self.state.epoch = self.feed.epoch + (not self.feed.at_epoch_end)
        self.state.steps_per_epoch = self.feed.steps_per_epoch
        self._unseen.append(loss)
        if len(self._unseen) == _STEPS_BETWEEN_LOOKS:
            self._look()

    def _replace_broken(self) -> bool:
        """Put trees whose parameters are not finite back to their best, as failed; stop if that would be all."""
        self._look()
        broken = ~self.best.finite()
        self.best.failed |= broken
        if bool(self.best.failed.all()):
            self._diverge("a parameter became infinite or NaN", self.state.step)
        if not bool(broken.any()):
            return False
        kept = self.best.kept(self.stepper.parameters)
        self.average.replace(broken, kept)
        self.stepper.put_back(broken, kept)
        return True

    @property
    def evaluation_is_due(self) -> bool:
        """Whether the step just taken ends an epoch, a stretch of `evaluate_every` steps, or the time."""
        if self._is_out_of_time or self.feed.epoch >= self.settings.max_epochs:
            return True
        if self.settings.evaluate_every is None:
            return self.feed.at_epoch_end
        return self.state.step % self.settings.evaluate_every == 0

    def reason_to_stop(self) -> StopReason | None:
        """Return why training is over, or None."""
        if bool(self.best.done.all()):
            return "early_stopping"
        if self.feed.epoch >= self.settings.max_epochs:
            return "max_epochs"
        return "max_seconds" if self._is_out_of_time else None

    @property
    def _is_out_of_time(self) -> bool:
        return self.settings.max_seconds is not None and self.seconds >= self.settings.max_seconds

    @property
    def seconds(self) -> float:
        """The time that training has taken, with the time before a resumption."""
        return time.perf_counter() - self._began

    def evaluate(self) -> None:
        """Judge the parameters as they are now, and write the record."""
        self._replace_broken()
        self.average.before_evaluation()
        validation = self.judge()
        by_tree = self._sum / self._seen
        alive = by_tree[~self.best.failed]
        state = self.state
        state.seconds = self.seconds
        state.history.records.append(
            HistoryRecord(
                epoch=state.epoch,
                step=state.step,
                seconds=state.seconds,
                loss=float(alive.min()),
                validation_loss=None if validation is None else float(_or_infinite(validation).min()),
                rate_factor=self.schedule.factor,
                tree_losses=None
                if state.n_trees is None
                else tuple((by_tree if validation is None else validation).tolist()),
            )
        )
        self._sum, self._seen = torch.zeros_like(self._sum), 0
        if validation is not None:
            self.schedule.observe(_or_infinite(validation))

    def judge(self) -> Tensor | None:
        """Evaluate on the validation rows with averaged parameters, and keep those if they are the best so far."""
        validation = None
        with self.average.in_place():
            if self.terms.validation is None:
                self.best.keep_latest(self.state.epoch)
            else:
                validation = evaluate(self.model, self.loss, [self.terms.validation], self.terms.base)
                self.best.observe(_or_infinite(validation), self.state.epoch)
        self._evaluated_at = self.state.step
        if validation is not None:
            lowest = int(self.best.losses.argmin())
            self.state.best_loss = float(self.best.losses[lowest])
            self.state.best_epoch = int(self.best.epochs[lowest])
        return validation

    def _look(self) -> None:
        """Read the losses of the latest steps; stop if none is finite any more."""
        if not self._unseen:
            return
        losses = torch.stack(self._unseen).double().cpu().reshape(len(self._unseen), -1)
        self._unseen = []
        finite = losses.isfinite()
        self.best.failed |= ~finite.all(0)
        if bool(self.best.failed.all()):
            first = int((~finite).any(1).int().argmax())
            value = float(losses[first][~finite[first]][0])
            self._diverge(f"the loss became {value}", self.state.step - len(losses) + first + 1)
        self._sum += losses.sum(0)
        self._seen += len(losses)

    def _diverge(self, what: str, step: int) -> NoReturn:
        # Nobody knows the steps of an epoch only in the first one.
        epoch = 1 if self.feed.steps_per_epoch is None else (step - 1) // self.feed.steps_per_epoch + 1
        kept = int(self.best.epochs.max())
        raise TrainingDivergedError(
            f"{what} in epoch {epoch} (step {step}); the model has its parameters of epoch {kept} again; "
            "lower the learning rates, set max_gradient_norm, or scale the target"
        )

    def judge_interrupted(self) -> None:
        """After Ctrl-C, judge the parameters as they are now if nothing better is known."""
        first_epoch = self._evaluated_at == 0 and self.state.step > 0
        if (first_epoch or self.terms.validation is None) and bool(self.best.finite().all()):
            self.judge()

    def finish(self, stop_reason: StopReason | None) -> None:
        """Put the best parameters into the model, and say what went wrong."""
        self.feed.close()
        self.best.restore()
        self.state.seconds = self.seconds
        if self.terms.validation is None and self.terms.n_trees is not None:
            found = evaluate(self.model, self.loss, self.feed.tables(), self.terms.base)
            self.best.losses = torch.where(self.best.failed, math.inf, _or_infinite(found))
        judged = self.terms.validation is not None or self.terms.n_trees is not None
        if judged and not bool(self.best.losses.isfinite().any()) and stop_reason != "interrupted":
            raise TrainingDivergedError(
                "no evaluation gave a finite loss; the model has its first parameters again; "
                "lower the learning rates, scale the target, or look at the validation rows"
            )
        if stop_reason == "interrupted":
            lowest = int(self.best.losses.argmin())
            warnings.warn(
                f"training was interrupted in epoch {self.state.epoch} (step {self.state.step}); "
                f"the model keeps its parameters of epoch {int(self.best.epochs[lowest])}",
                TrainingWarning,
                stacklevel=3,
            )
        failed = self.best.failed.nonzero().flatten().tolist()
        if failed:
            warnings.warn(
                f"the loss of {len(failed)} of {len(self.best.failed)} restarts became infinite or NaN: {failed}; "
                "the others are unaffected; lower the learning rates, or set max_gradient_norm",
                TrainingWarning,
                stacklevel=3,
            )

    def write_checkpoint(self, last: bool) -> None:
        """Write a checkpoint if there is a place for one, and it is time."""
        if self._checkpoint is None:
            return
        if not last and time.perf_counter() - self._written < self.settings.checkpoint_seconds:
            return
        _resume.write(self._checkpoint, self)
        self._written = time.perf_counter()

    @property
    def identity(self) -> dict[str, Any]:
        """What says that two trainings have the same rows."""
        if self._identity is None:
            validation = self.terms.validation or ()
            judged_by = _checkpoint.fingerprint(*validation, self.terms.base)
            self._identity = {**self.feed.identity(), "validation and base": judged_by}
        return self._identity

    def go_on_from(self, seconds: float) -> None:
        """Count the time before a resumption."""
        self._began = time.perf_counter() - seconds
        self._evaluated_at = self.state.step

    def result(self, stop_reason: StopReason) -> TrainingResult:
        """Return how it went."""
        lowest = int(self.best.losses.argmin())
        by_tree = self.terms.n_trees is not None
        return TrainingResult(
            history=self.state.history,
            stop_reason=stop_reason,
            best_epoch=int(self.best.epochs[lowest]),
            best_loss=None if self.terms.validation is None else float(self.best.losses[lowest]),
            best_tree=lowest if by_tree else None,
            tree_losses=tuple(self.best.losses.tolist()) if by_tree else None,
            tree_epochs=tuple(self.best.epochs.tolist()) if by_tree else None,
            epochs=self.feed.epoch,
            steps=self.state.step,
            seconds=self.seconds,
        )


def _or_infinite(losses: Tensor) -> Tensor:
    return torch.where(losses.isnan(), math.inf, losses)
