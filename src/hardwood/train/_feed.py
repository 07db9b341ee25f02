"""`Feed`: where steps get their batches from; here from a table in memory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, NamedTuple

from torch import Tensor

from hardwood._typing import Bool
from hardwood.train._batches import Batches
from hardwood.train._checkpoint import fingerprint
from hardwood.train._data import Table, pick


class Batch(NamedTuple):
    """What one step sees."""

    table: Table
    tree_rows: Bool[Tensor, "rows trees"] | None = None


class Feed(ABC):
    """An endless sequence of batches, epoch after epoch, and the place in it, which can be stored."""

    @property
    @abstractmethod
    def epoch(self) -> int:
        """Whole epochs taken."""

    @property
    @abstractmethod
    def at_epoch_end(self) -> bool:
        """Whether the batch taken last was the last of its epoch."""

    @property
    @abstractmethod
    def steps_per_epoch(self) -> int | None:
        """The batches of an epoch, None for as long as nobody knows."""

    @abstractmethod
    def take(self) -> Batch:
        """Return the next batch."""

    @abstractmethod
    def tables(self) -> Iterator[Table]:
        """Return all rows once, in one table or in several."""

    @abstractmethod
    def identity(self) -> dict[str, Any]:
        """Return what must be the same when training goes on."""

    @abstractmethod
    def tensors(self) -> dict[str, Tensor]:
        """Return what a checkpoint has to hold."""

    @abstractmethod
    def load_tensors(self, tensors: dict[str, Tensor]) -> None:
        """Go on from a checkpoint."""

    @abstractmethod
    def close(self) -> None:
        """Let go of whatever is being read."""


class TableFeed(Feed):
    """Batches of one table, as `Batches` draws them."""

    def __init__(self, table: Table, batches: Batches, tree_rows: Tensor | None = None) -> None:
        self._table, self._batches, self._tree_rows = table, batches, tree_rows

    @property
    def epoch(self) -> int:
        """Whole epochs taken."""
        return self._batches.epoch

    @property
    def at_epoch_end(self) -> bool:
        """Whether the batch taken last was the last of its epoch."""
        return self._batches.at_epoch_end

    @property
    def steps_per_epoch(self) -> int:
        """The batches of an epoch."""
        return self._batches.steps_per_epoch

    def take(self) -> Batch:
        """Return the next batch."""
        take = self._batches.take()
        return Batch(self._table.take(take), None if self._tree_rows is None else pick(self._tree_rows, take))

    def tables(self) -> Iterator[Table]:
        """Return the table."""
        yield self._table

    def identity(self) -> dict[str, Any]:
        """Return a digest of all rows."""
        return {"data": fingerprint(*self._table, self._tree_rows)}

    def tensors(self) -> dict[str, Tensor]:
        """Return what a checkpoint has to hold."""
        return self._batches.tensors()

    def load_tensors(self, tensors: dict[str, Tensor]) -> None:
        """Go on from a checkpoint."""
        self._batches.load_tensors(tensors)

    def close(self) -> None:
        """Do nothing: nothing is being read."""
