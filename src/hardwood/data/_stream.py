"""`TableStream`: a table that comes in chunks, and can be read as often as one likes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from hardwood.data._columns import take_rows
from hardwood.data._stream_checks import ChunkChecks, TableChunk, of_chunk
from hardwood.errors import reject


class TableStream:
    """A table in chunks of rows, with a target and perhaps weights; every iteration reads it from the beginning.

    All chunks have the same columns, and the same kind of cells in each; whatever is otherwise is refused with the
    number of its chunk. Only the chunk at hand is in memory.

    Made by `read_parquet`, `read_csv` and `stream`.
    """

    def __init__(self, make_iterator: Callable[[], Iterable[Any]], n_rows: int | None = None) -> None:
        self._make_iterator = make_iterator
        self._checks = ChunkChecks()
        self._n_rows = n_rows

    @property
    def n_rows(self) -> int | None:
        """The number of rows; None if nobody knows before the first pass has come to its end."""
        return self._n_rows

    def __iter__(self) -> Iterator[TableChunk]:
        """Read the stream from the beginning, chunk by chunk."""
        n_rows = 0
        for number, given in enumerate(self._make_iterator(), 1):
            with of_chunk(number):
                chunk = self._checks.check(given)
            n_rows += len(chunk.y)
            yield chunk
        if self._n_rows is None and n_rows > 0:
            self._n_rows = n_rows
        if n_rows != self._n_rows:
            problem = "has no rows" if self._n_rows is None else f"had {self._n_rows} rows before"
            reject("stream", f"{n_rows} rows", problem, "give the same rows, from the beginning, every time it is read")

    def __repr__(self) -> str:
        rows = "so many rows as nobody has counted" if self._n_rows is None else f"{self._n_rows} rows"
        return f"<TableStream of {rows}>"

    def without(self, rows: Any) -> TableStream:
        """Return the stream that leaves out some rows, by their numbers in this one: validation rows, say."""
        given = np.asarray(rows)
        if given.ndim != 1 or (given.dtype.kind not in "iu" and len(given)):
            reject("rows", rows, "does not hold the numbers of rows", "pass integers, such as StreamSample.rows")
        left_out = np.unique(given).astype(np.int64)
        for row in (*left_out[:1].tolist(), *left_out[-1:].tolist()):
            if row < 0 or (self._n_rows is not None and row >= self._n_rows):
                known = "rows" if self._n_rows is None else f"{self._n_rows} rows"
                reject("rows", row, f"is no row of the stream's {known}", "the first row has number 0")
        n_rows = None if self._n_rows is None else self._n_rows - len(left_out)
        return TableStream(lambda: self._passing_over(left_out), n_rows)

    def _passing_over(self, left_out: np.ndarray) -> Iterator[TableChunk]:
        start = 0
        for chunk in self:
            stop = start + len(chunk.y)
            first, last = np.searchsorted(left_out, (start, stop))
            if first == last:
                yield chunk
            elif last - first < len(chunk.y):
                kept = np.delete(np.arange(stop - start), left_out[first:last] - start)
                weight = None if chunk.weight is None else chunk.weight[kept]
                yield TableChunk(take_rows(chunk.X, kept), chunk.y[kept], weight)
            start = stop
        if len(left_out) and left_out[-1] >= start:
            reject("rows", int(left_out[-1]), f"is no row of the stream's {start} rows", "the first row has number 0")


def stream(make_iterator: Callable[[], Iterable[Any]]) -> TableStream:
    """Return the stream of the chunks that `make_iterator()` gives, anew every time it is called.

    >>> chunks = stream(lambda: ((np.full((3, 2), i), np.arange(3)) for i in range(4)))
    >>> sum(len(y) for X, y, weight in chunks), chunks.n_rows
    (12, 12)

    Args:
        make_iterator: returns the chunks from the first on, each `(X, y)` or `(X, y, weight)`: X a data frame or an
            array, y one target or one column of targets for each output, of any number of rows.
    """
    return TableStream(make_iterator)
