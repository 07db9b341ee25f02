"""`Callback`: code of the user's that training calls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from torch import nn

from hardwood.train._history import History, HistoryRecord
from hardwood.train._settings import TrainingSettings


@dataclass
class TrainingState:
    """Where training stands. A callback reads it, and may change the model's plain attributes, such as a temperature.

    While callbacks run the model has the parameters that are being trained, not the averaged or best ones.
    """

    model: nn.Module
    settings: TrainingSettings
    history: History
    steps_per_epoch: int | None  # None in the first epoch of a stream of unknown length
    n_trees: int | None  # restarts that are trained together; None when the model is one model
    epoch: int = 0  # the epoch at hand, or the one that has just ended; 0 before the first
    step: int = 0  # steps done
    seconds: float = 0.0
    best_loss: float | None = None  # the lowest validation loss so far
    best_epoch: int = 0

    @property
    def record(self) -> HistoryRecord:
        """The latest evaluation."""
        return self.history[-1]


@runtime_checkable
class Callback(Protocol):
    """Derive from this and override what you need; an object with these three methods does as well.

    A callback's own state is not part of checkpoints: after a resumption `on_fit_begin` finds `state.epoch` where it
    was, and can set itself up from there.
    """

    def on_fit_begin(self, state: TrainingState) -> None:
        """Run before the first step."""

    def on_epoch_end(self, state: TrainingState) -> bool | None:
        """Run after each evaluation: after each epoch, unless `evaluate_every` is set. True stops training."""
        return None

    def on_fit_end(self, state: TrainingState) -> None:
        """Run when training is over, the model having its final parameters; also after an error."""
