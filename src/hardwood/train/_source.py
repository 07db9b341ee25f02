"""Rows that are loaded batch by batch from wherever they are: pictures on a disk, texts to be cut into words."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple

import torch
from torch import Tensor

from hardwood._typing import Int
from hardwood.train._batches import Batches, send
from hardwood.train._checkpoint import fingerprint
from hardwood.train._data import Table, Take, pick
from hardwood.train._feed import Batch, Feed


class RowSource(ABC):
    """Rows of any kind, which a model takes as `load` returns them.

    What is loaded needs a method `to(device)`, and a length: its rows. It may have a method `pin_memory()`, as batches
    of a `torch.utils.data.DataLoader` may, that is called first when the device is a GPU.
    """

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of rows."""

    @abstractmethod
    def load(self, rows: Int[Tensor, " some"], epoch: int | None) -> Any:
        """Return some rows on the CPU; `epoch` is None, or the number of the epoch to draw augmentations for.

        It is called from another thread, and has to give the same for the same arguments.
        """

    @abstractmethod
    def fingerprint(self) -> str:
        """Return a digest by which a resumed run knows that it has the same rows."""


class LazyRows:
    """Some rows of a source that have not been loaded yet."""

    def __init__(self, source: RowSource, index: Int[Tensor, " rows"] | None = None) -> None:
        self.source = source
        self.index = torch.arange(len(source)) if index is None else index

    def __len__(self) -> int:
        return len(self.index)

    def take(self, take: Take) -> LazyRows:
        """Return some of the rows, by number or by slice; None means all."""
        if isinstance(take, Tensor):
            take = take.cpu()
        return LazyRows(self.source, pick(self.index, take))

    def load(self) -> Any:
        """Load all of these rows as they are, without augmentations."""
        return self.source.load(self.index, None)

    def fingerprint(self) -> str:
        """Return a digest of which rows these are."""
        return f"{self.source.fingerprint()} {fingerprint(self.index)}"


class _Place(NamedTuple):
    """Where the sequence of batches stands."""

    epoch: int
    at_epoch_end: bool
    tensors: dict[str, Tensor]


class SourceFeed(Feed):
    """Batches of a source in the order that `Batches` draws; a thread loads the next one while this one is used."""

    def __init__(self, table: Table, batches: Batches, device: torch.device) -> None:
        assert isinstance(table.rows, LazyRows)
        self._table, self._rows, self._batches, self._device = table, table.rows, batches, device
        self._thread: ThreadPoolExecutor | None = None
        self._next: tuple[Future[Any], Tensor, _Place] | None = None
        self._place = self._here()

    def _here(self) -> _Place:
        return _Place(self._batches.epoch, self._batches.at_epoch_end, self._batches.tensors())

    @property
    def epoch(self) -> int:
        """Whole epochs taken."""
        return self._place.epoch

    @property
    def at_epoch_end(self) -> bool:
        """Whether the batch taken last was the last of its epoch."""
        return self._place.at_epoch_end

    @property
    def steps_per_epoch(self) -> int:
        """The batches of an epoch."""
        return self._batches.steps_per_epoch

    def take(self) -> Batch:
        """Return the next batch."""
        loading, index, self._place = self._next or self._begin()
        self._next = None
        loaded = loading.result()
        self._next = self._begin()
        target, weight = pick(self._table.target, index), self._table.weight
        # The model takes what the source gives; a table has no type for it.
        rows: Any = loaded.to(self._device)
        return Batch(Table(rows, target, None if weight is None else pick(weight, index)))

    def _begin(self) -> tuple[Future[Any], Tensor, _Place]:
        """Draw a batch, and let the thread load it."""
        epoch = self._batches.epoch
        taken = self._batches.take()
        index = torch.arange(len(self._rows)) if taken is None else taken
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="hardwood-load")
        loading = self._thread.submit(self._load, self._rows.index[index], epoch)
        return loading, send(index, self._table.target.device), self._here()

    def _load(self, rows: Tensor, epoch: int) -> Any:
        loaded = self._rows.source.load(rows, epoch)
        pins = self._device.type == "cuda" and hasattr(loaded, "pin_memory")
        return loaded.pin_memory() if pins else loaded

    def tables(self) -> Iterator[Table]:
        """Return the rows, to be loaded."""
        yield self._table

    def identity(self) -> dict[str, Any]:
        """Return a digest of all rows."""
        return {"data": fingerprint(*self._table)}

    def tensors(self) -> dict[str, Tensor]:
        """Return what a checkpoint has to hold: the place before the batch that is being loaded ahead."""
        return self._place.tensors

    def load_tensors(self, tensors: dict[str, Tensor]) -> None:
        """Go on from a checkpoint."""
        self.close()
        self._batches.load_tensors(tensors)
        self._place = self._here()

    def close(self) -> None:
        """Wait for a batch that is being loaded, and drop it."""
        thread, self._thread, self._next = self._thread, None, None
        if thread is not None:
            thread.shutdown(cancel_futures=True)
