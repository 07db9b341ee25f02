"""`Run`: what a search shares with the world while it lasts: time, progress, callbacks, Ctrl-C, checkpoints."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import torch

from hardwood.nn import ObliqueTrees
from hardwood.train import Callback, History, HistoryRecord, TrainingSettings, TrainingState
from hardwood.train._checkpoint import check_path, check_same, load_checkpoint, save_checkpoint

Stopped = Literal["interrupted", "max_seconds", "callback"]
Arrays = Mapping[str, np.ndarray]

_CHECKPOINT_SECONDS = 30.0


class Run:
    """Notes the results of the stages of a search, so that one that is resumed passes over those it finds noted.

    A search calls `recall(key)` before a stage and `note(key, ...)` after it, and does the rest the same way again:
    every stage draws its random numbers from its own key, so the result is the same to the last bit. A key "a" that is
    noted replaces all that are noted under "a/". Once `stopped` says why, stages end early with what they have.
    """

    def __init__(
        self,
        *,
        callbacks: Sequence[Callback] = (),
        verbose: int = 0,
        max_seconds: float | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        resume_from: str | os.PathLike[str] | None = None,
        identity: dict[str, Any] | None = None,
    ) -> None:
        self.stopped: Stopped | None = None
        self.history = History()
        self.epochs = 0
        self._noted: dict[str, dict[str, np.ndarray]] = {}
        self._recorded: dict[str, HistoryRecord] = {}
        self._callbacks, self._begun = list(callbacks), False
        self._state: TrainingState | None = None
        self._max_seconds, self._checkpoint, self._identity = max_seconds, checkpoint, identity or {}
        self._bar = _Bar() if verbose else None
        self._began = self._written = time.perf_counter()
        if checkpoint is not None:
            check_path("checkpoint", checkpoint)
        if resume_from is not None:
            self._resume(resume_from)

    # ---------------------------------------------------------------- stages

    def recall(self, key: str) -> Arrays | None:
        """Return what was noted under a key."""
        return self._noted.get(key)

    def note(self, key: str, arrays: Arrays, last: bool = True) -> None:
        """Keep the result of a stage, or how far it has come, and write a checkpoint if it is time."""
        if self._checkpoint is None:
            return
        if not last and time.perf_counter() - self._written < _CHECKPOINT_SECONDS:
            return
        for old in [old for old in self._noted if old.startswith((key + "/", key + "~"))]:
            del self._noted[old]
        self._noted[key if last else key + "~"] = {name: np.array(value) for name, value in arrays.items()}
        if time.perf_counter() - self._written >= _CHECKPOINT_SECONDS:
            self.write()

    def begin(self, trees: ObliqueTrees) -> None:
        """Tell callbacks of the first trees that are trained."""
        if self._state is None:
            settings = TrainingSettings(max_epochs=1)
            self._state = TrainingState(trees, settings, self.history, None, trees.n_trees)
        self._state.model, self._state.n_trees = trees, trees.n_trees
        if not self._begun:
            self._begun = True
            for listener in self._callbacks:
                listener.on_fit_begin(self._state)

    def tick(self, stage: str, done: float, loss: float, epochs: int) -> None:
        """Note that a stage has come so far; stop the search if its time is over."""
        self.epochs += epochs
        if self._max_seconds is not None and self.seconds >= self._max_seconds:
            self.stopped = self.stopped or "max_seconds"
        if self._bar is not None:
            self._bar.show(stage, done, loss)

    def interrupt(self) -> None:
        """Note that the user has pressed Ctrl-C."""
        self.stopped = "interrupted"

    def record(
        self, key: str, losses: np.ndarray, scale: float, validation: float | None = None, complete: bool = True
    ) -> None:
        """Write the hard losses at the end of a stage into the history, once, and ask the callbacks.

        A stage that was cut off is in the history too, but not in checkpoints: it will end another time.
        """
        if key in self._recorded or self._state is None:
            return
        finite = losses[np.isfinite(losses)]
        loss = float(finite.min()) if len(finite) else float("nan")
        number, by_tree = len(self.history) + 1, tuple(losses.tolist())
        record = HistoryRecord(self.epochs, number, self.seconds, loss, validation, scale, by_tree)
        self.history.records.append(record)
        if complete:
            self._recorded[key] = record
        self._state.epoch, self._state.step, self._state.seconds = self.epochs, len(self.history), self.seconds
        best = self._state.best_loss
        if validation is not None and (best is None or validation < best):
            self._state.best_loss, self._state.best_epoch = validation, self.epochs
        asked = [listener.on_epoch_end(self._state) for listener in self._callbacks]
        if any(asked):
            self.stopped = self.stopped or "callback"

    def is_over(self) -> bool:
        """Tell whether the search has been told to stop."""
        return self.stopped is not None

    @property
    def seconds(self) -> float:
        """The time the search has taken, with that before a resumption."""
        return time.perf_counter() - self._began

    def close(self) -> None:
        """End the progress bar, and tell callbacks."""
        if self._bar is not None:
            self._bar.close()
        if self._begun and self._state is not None:
            for listener in self._callbacks:
                listener.on_fit_end(self._state)

    # ---------------------------------------------------------------- checkpoints

    def write(self) -> None:
        """Write a checkpoint, if there is a place for one."""
        if self._checkpoint is None:
            return
        tensors = {
            f"{key}:{name}": torch.from_numpy(np.ascontiguousarray(value))
            for key, arrays in self._noted.items()
            for name, value in arrays.items()
        }
        document = {
            "search": self._identity,
            "recorded": list(self._recorded),
            "history": History(list(self._recorded.values())).to_json(),
            "epochs": self.epochs,
            "seconds": self.seconds,
        }
        save_checkpoint(self._checkpoint, tensors, document)
        self._written = time.perf_counter()

    def _resume(self, path: str | os.PathLike[str]) -> None:
        tensors, document = load_checkpoint(path)
        check_same(path, document.get("search", {}), self._identity)
        for full, tensor in tensors.items():
            key, _, name = full.rpartition(":")
            self._noted.setdefault(key, {})[name] = tensor.numpy()
        self.history.records[:] = History.from_json(document["history"]).records
        self._recorded = dict(zip(document["recorded"], self.history.records, strict=True))
        self.epochs = document["epochs"]
        self._began -= document["seconds"]


class _Bar:
    """A progress bar of the stage at hand, on stderr and only if that is a terminal."""

    def __init__(self) -> None:
        self._bar: Any = None
        self._task: Any = None
        if not sys.stderr.isatty():
            return
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[loss]}"),
            TimeElapsedColumn(),
        )
        self._bar = Progress(*columns, console=Console(stderr=True))
        self._task = self._bar.add_task("", total=1.0, loss="")
        self._bar.start()

    def show(self, stage: str, done: float, loss: float) -> None:
        if self._bar is not None:
            self._bar.update(self._task, description=stage, completed=done, loss=f"loss {loss:.4g}")

    def close(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
