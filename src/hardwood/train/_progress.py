"""A progress bar on a terminal; nothing in logs."""

from __future__ import annotations

import sys
from typing import Any

from hardwood.train._callbacks import Callback, TrainingState


class ProgressBar(Callback):
    """Shows the epoch, the losses and the time left, on stderr and only if that is a terminal."""

    def __init__(self) -> None:
        self._bar: Any = None
        self._task: Any = None

    def on_fit_begin(self, state: TrainingState) -> None:
        """Draw the bar."""
        if not sys.stderr.isatty():
            return
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        losses = TextColumn("{task.fields[losses]}")
        columns = (TextColumn("epoch"), MofNCompleteColumn(), BarColumn(), losses, TimeRemainingColumn())
        self._bar = Progress(*columns, console=Console(stderr=True))
        self._task = self._bar.add_task("", total=state.settings.max_epochs, completed=state.epoch, losses="")
        self._bar.start()

    def on_epoch_end(self, state: TrainingState) -> bool | None:
        """Move the bar."""
        if self._bar is not None:
            losses = f"loss {state.record.loss:.4g}"
            if state.record.validation_loss is not None:
                losses += f"  validation {state.record.validation_loss:.4g} (best {state.best_loss:.4g})"
            self._bar.update(self._task, completed=state.epoch, losses=losses)
        return None

    def on_fit_end(self, state: TrainingState) -> None:
        """Leave the last state of the bar standing."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
