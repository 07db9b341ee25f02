"""`StreamFeed`: batches of a source that is read anew in every epoch, mixed in a buffer of bounded size."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any

import torch
from torch import Tensor

from hardwood.errors import reject
from hardwood.train._data import Table
from hardwood.train._feed import Batch, Feed
from hardwood.train._stream_tables import StreamTables, joined


class StreamFeed(Feed):
    """An endless sequence of batches; the last batch of an epoch is short rather than dropped.

    Whenever the buffer has `shuffle_rows` rows its order is drawn anew, and the first half of that order goes into
    batches before the source is read on: so rows wait for others that come much later. A buffer that holds all rows is
    a full shuffle, the very one of `Batches`. What comes out depends on the rows and their order, not on where the
    source cuts its chunks.

    Batches are moved to the model's device; the buffer is where the chunks are.
    """

    def __init__(
        self,
        tables: StreamTables,
        batch_size: int,
        generator: torch.Generator,
        *,
        shuffle_rows: int,
        n_rows: int | None = None,
    ) -> None:
        if shuffle_rows < 0:
            reject("shuffle_rows", shuffle_rows, "must be at least 0", "pass 0 to keep the source's own order")
        if n_rows is not None and n_rows < 1:
            reject("n_rows", n_rows, "must be at least 1", "leave it out to have the rows counted")
        self._source, self._batch_size, self._generator = tables, batch_size, generator
        self._shuffle_rows, self._capacity = shuffle_rows, max(shuffle_rows, batch_size)
        self._n_rows = n_rows
        self._epoch = 0
        self._taken = 0  # rows of the epoch at hand
        self._has_weight = False  # whether any row had a weight above 0
        self._state = generator.get_state()  # at the beginning of that epoch
        self._reading: Generator[Table, None, None] | None = None
        self._ahead: Table | None = None  # rows that did not fit into the buffer; None at the source's end
        self._buffer: Table | None = None
        self._order = torch.empty(0, dtype=torch.int64)
        self._next, self._stop = 0, 0  # the part of the order that goes into batches

    @property
    def epoch(self) -> int:
        """Whole epochs taken."""
        return self._epoch

    @property
    def at_epoch_end(self) -> bool:
        """Whether the batch taken last was the last of its epoch."""
        return self._taken == 0

    @property
    def steps_per_epoch(self) -> int | None:
        """The batches of an epoch; None before the first epoch's end if nobody said how many rows there are."""
        return None if self._n_rows is None else -(-self._n_rows // self._batch_size)

    def take(self) -> Batch:
        """Return the next batch."""
        if self._reading is None:
            self._state = self._generator.get_state()
            self._reading = iter(self._source)
            self._read()
            self._fill()
        assert self._buffer is not None
        take = self._order[self._next : min(self._next + self._batch_size, self._stop)]
        table = self._buffer.take(take)
        self._next += len(take)
        self._taken += len(take)
        if self._next == self._stop:
            self._fill()
            if self._stop == 0:
                self._end_epoch()
        return Batch(table.to(self._source.device))

    def _read(self) -> None:
        """Have the next chunk ready."""
        assert self._reading is not None
        self._ahead = next(self._reading, None)
        if self._ahead is not None and not self._has_weight:
            weight = self._ahead.weight
            self._has_weight = weight is None or bool((weight > 0).any())

    def _fill(self) -> None:
        """Read until the buffer is full, and draw the order of what it holds."""
        kept = self._order[self._next :]
        pieces = [] if self._buffer is None or len(kept) == 0 else [self._buffer.take(kept)]
        n_rows = len(kept)
        while self._ahead is not None and n_rows < self._capacity:
            room = self._capacity - n_rows
            pieces.append(self._ahead.take(slice(room)))
            n_rows += len(pieces[-1].rows)
            if len(self._ahead.rows) > room:
                self._ahead = self._ahead.take(slice(room, None))
            else:
                self._read()
        self._buffer = joined(pieces) if pieces else None
        # What makes one batch is not mixed: in memory it is not either.
        as_read = self._shuffle_rows == 0 or (self._ahead is None and n_rows <= self._batch_size)
        # Drawn on the CPU, so that a seed means the same on every device.
        order = torch.arange(n_rows) if as_read else torch.randperm(n_rows, generator=self._generator)
        self._order = order if self._buffer is None else order.to(self._buffer.rows.device)
        self._next, self._stop = 0, n_rows
        if self._ahead is not None:
            part = n_rows if self._shuffle_rows == 0 else n_rows // 2
            self._stop = max(1, part // self._batch_size) * self._batch_size

    def _end_epoch(self) -> None:
        self.close()
        n_rows = self._taken
        self._epoch, self._taken = self._epoch + 1, 0
        if self._n_rows is not None and n_rows != self._n_rows:
            reject(
                "source", f"{n_rows} rows in epoch {self._epoch}",
                f"does not fit the {self._n_rows} rows that an epoch before had, or that n_rows says",
                "begin anew with the same rows at every iteration, and leave out n_rows or pass their number",
            )  # fmt: skip
        if not self._has_weight:
            reject("source", f"{n_rows} rows", "every weight is 0", "give some rows a weight above 0")
        self._n_rows = n_rows

    def tables(self) -> Iterator[Table]:
        """Return all rows once, in the source's chunks."""
        for table in self._source:
            yield table.to(self._source.device)

    def identity(self) -> dict[str, Any]:
        """Return a digest of the first chunk, and how rows are mixed."""
        return {"data": self._source.digest, "shuffle_rows": self._shuffle_rows}

    def tensors(self) -> dict[str, Tensor]:
        """Return what a checkpoint has to hold."""
        state = self._generator.get_state() if self._taken == 0 else self._state
        n_rows = -1 if self._n_rows is None else self._n_rows
        return {"generator": state, "place": torch.tensor([self._epoch, self._taken, n_rows])}

    def load_tensors(self, tensors: dict[str, Tensor]) -> None:
        """Go on from a checkpoint: read the epoch at hand again, up to the same place."""
        self.close()
        self._generator.set_state(tensors["generator"])
        epoch, taken, n_rows = (int(number) for number in tensors["place"])
        self._epoch, self._taken, self._n_rows = epoch, 0, self._n_rows if n_rows < 0 else n_rows
        try:
            while self._taken < taken:
                self.take()
                if self.at_epoch_end:
                    remedy = "pass the source that the checkpoint was written with"
                    reject("source", "its end", f"comes before the checkpoint's place, {taken} rows in", remedy)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Stop reading, and let go of the buffer."""
        reading, self._reading, self._ahead, self._buffer = self._reading, None, None, None
        self._order, self._next, self._stop = self._order[:0], 0, 0
        if reading is not None:
            reading.close()
