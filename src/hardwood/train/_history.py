"""`History`: what training looked like, evaluation by evaluation."""

from __future__ import annotations

import contextlib
import importlib
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from typing import Any

from hardwood.errors import MissingExtraError


@dataclass(frozen=True)
class HistoryRecord:
    """One evaluation. With restarts the losses are those of the best tree at that time."""

    epoch: int  # the first is 1
    step: int  # steps done
    seconds: float  # since training began, without a break before a resumption
    loss: float  # mean over the batches since the evaluation before
    validation_loss: float | None
    rate_factor: float  # what the schedule multiplies the learning rates by
    tree_losses: tuple[float, ...] | None = None  # of restarts: every tree's validation loss, or loss without one


class History:
    """The records of one training, in order. It has a length, can be indexed, and turns into a frame or a plot."""

    def __init__(self, records: list[HistoryRecord] | None = None) -> None:
        self.records: list[HistoryRecord] = list(records or ())

    def __len__(self) -> int:
        return len(self.records)

    def __getitem__(self, index: int) -> HistoryRecord:
        return self.records[index]

    def __iter__(self) -> Iterator[HistoryRecord]:
        return iter(self.records)

    def __repr__(self) -> str:
        return f"<History of {len(self)} evaluations>"

    def to_frame(self) -> Any:
        """Return a pandas frame, or a polars one where pandas is not installed; one row for each evaluation."""
        names = [field.name for field in fields(HistoryRecord)]
        columns = {name: [getattr(record, name) for record in self.records] for name in names}
        columns["tree_losses"] = [None if losses is None else list(losses) for losses in columns["tree_losses"]]
        for library in ("pandas", "polars"):
            with contextlib.suppress(ImportError):
                return importlib.import_module(library).DataFrame(columns)
        message = "History.to_frame() needs pandas or polars; install one of them, or read History.records"
        raise MissingExtraError(message)

    def plot(self, ax: Any = None) -> Any:
        """Draw the losses over epochs on `ax`, or on new axes, and return the axes."""
        if ax is None:
            try:
                from matplotlib.figure import Figure
            except ImportError:
                raise MissingExtraError('History.plot() needs matplotlib; pip install "hardwood[plot]"') from None
            ax = Figure(layout="constrained").add_subplot()
        epochs = [record.epoch for record in self.records]
        ax.plot(epochs, [record.loss for record in self.records], label="training")
        validation = [record.validation_loss for record in self.records]
        if any(loss is not None for loss in validation):
            ax.plot(epochs, [math.nan if loss is None else loss for loss in validation], label="validation")
        ax.set_xlabel("epoch")
        ax.set_ylabel("loss")
        ax.legend()
        return ax

    def to_json(self) -> list[dict[str, Any]]:
        """Return the records as plain dictionaries, which keep every bit when written as JSON."""
        return [asdict(record) for record in self.records]

    @classmethod
    def from_json(cls, records: list[dict[str, Any]]) -> History:
        """Return the history that `to_json` described."""
        by_tree = [None if record["tree_losses"] is None else tuple(record["tree_losses"]) for record in records]
        return cls([HistoryRecord(**{**r, "tree_losses": t}) for r, t in zip(records, by_tree, strict=True)])
