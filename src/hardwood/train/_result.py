"""`TrainingResult`: what `fit` returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from hardwood.train._history import History

StopReason = Literal["max_epochs", "early_stopping", "max_seconds", "interrupted", "callback"]


@dataclass(frozen=True)
class TrainingResult:
    """How training went. The model itself has the parameters that are described here.

    Losses are of the validation rows; without such, of the training rows for `tree_losses`, and None for `best_loss`.
    """

    history: History
    stop_reason: StopReason
    best_epoch: int  # whose parameters were kept, 0 being the start; with restarts, those of the best tree
    best_loss: float | None
    best_tree: int | None  # which of the restarts to use
    tree_losses: tuple[float, ...] | None  # of each restart; infinite for one that failed
    tree_epochs: tuple[int, ...] | None  # of each restart: the epoch that was kept
    epochs: int
    steps: int
    seconds: float
