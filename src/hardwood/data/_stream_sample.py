"""`sample`: some rows of a stream, drawn uniformly, and what only a pass over all rows can tell."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, get_args

import numpy as np

from hardwood._typing import Float, Int, Shaped
from hardwood.data._categories import Task
from hardwood.data._columns import read, take_rows
from hardwood.data._stream import TableStream
from hardwood.data._stream_checks import TableChunk
from hardwood.errors import reject


@dataclass(frozen=True, eq=False)
class StreamSample:
    """Rows of a stream in the stream's order, and what was learned of all of its rows."""

    X: Any
    y: Shaped[np.ndarray, "rows ..."]
    weight: Float[np.ndarray, " rows"] | None
    rows: Int[np.ndarray, " rows"]  # their numbers in the stream, for `TableStream.without`
    total_rows: int
    classes: Shaped[np.ndarray, " classes"] | None  # all labels of the stream in rising order, for classification
    class_totals: Float[np.ndarray, " classes"] | None  # of each class: the weight of its rows, or their number


def sample(stream: TableStream, n_rows: int, seed: int = 0, *, task: Task = "regression") -> StreamSample:
    """Read a stream once, and return so many of its rows, every set of rows being as likely; all if it has no more.

    The same seed and rows give the same sample, wherever the chunks are cut. Weights play no part in the draw. Memory
    holds a few times as many rows as asked for.

    Args:
        stream: the stream.
        n_rows: the rows to draw.
        seed: of the draw.
        task: "classification" also collects the class labels of all rows.
    """
    if n_rows < 1:
        reject("n_rows", n_rows, "must be at least 1", "pass the number of rows that fit into memory")
    if seed < 0:
        reject("seed", seed, "must be at least 0", "pass seed=0")
    if task not in get_args(Task):
        reject("task", task, "is not known", "choose 'regression' or 'classification'")
    rng = np.random.default_rng(seed)
    drawn, totals = _Draw(n_rows), _ClassTotals()
    start = 0
    for chunk in stream:
        stop = start + len(chunk.y)
        drawn.add(chunk, np.arange(start, stop), rng.random(stop - start))
        if task == "classification":
            totals.add(chunk)
        start = stop
    chunk, rows = drawn.finish()
    classes, sums = totals.finish() if task == "classification" else (None, None)
    return StreamSample(*chunk, rows, start, classes, sums)


class _Draw:
    """The rows with the smallest of random keys: a sample without replacement, whatever the number of rows to come."""

    def __init__(self, n_rows: int) -> None:
        self._n_rows = n_rows
        self._chunks: list[TableChunk] = []
        self._rows: list[np.ndarray] = []
        self._keys: list[np.ndarray] = []
        self._held = 0
        self._highest = 1.0  # no row with a higher key can be among the drawn ones any more

    def add(self, chunk: TableChunk, rows: np.ndarray, keys: np.ndarray) -> None:
        """Take those rows of a chunk that may be among the drawn ones."""
        chosen = np.flatnonzero(keys <= self._highest)
        if len(chosen) == 0:
            return
        self._chunks.append(chunk if len(chosen) == len(keys) else _taken(chunk, chosen))
        self._rows.append(rows[chosen])
        self._keys.append(keys[chosen])
        self._held += len(chosen)
        if self._held > 2 * self._n_rows:
            self._shrink()

    def _shrink(self) -> None:
        keys, rows = np.concatenate(self._keys), np.concatenate(self._rows)
        # Two rows may have the same key: the earlier one goes first.
        chosen = np.sort(np.lexsort((rows, keys))[: self._n_rows])
        whole = _stacked(self._chunks)
        self._chunks = [whole if len(chosen) == len(keys) else _taken(whole, chosen)]
        self._rows, self._keys = [rows[chosen]], [keys[chosen]]
        self._held = len(chosen)
        if self._held == self._n_rows:
            self._highest = float(keys[chosen].max())

    def finish(self) -> tuple[TableChunk, np.ndarray]:
        """Return the drawn rows and their numbers."""
        self._shrink()
        return self._chunks[0], self._rows[0]


class _ClassTotals:
    """Adds up the weight of each class over chunks."""

    def __init__(self) -> None:
        self._labels: list[np.ndarray] = []
        self._sums: list[np.ndarray] = []

    def add(self, chunk: TableChunk) -> None:
        """Count the classes of a chunk."""
        if chunk.y.ndim != 1:
            problem = "has several columns, and each row has one class"
            reject("y", f"an array of shape {chunk.y.shape}", problem, "pass one target, or task='regression'")
        labels, place = np.unique(chunk.y, return_inverse=True)
        self._labels.append(labels)
        self._sums.append(np.bincount(place, chunk.weight, minlength=len(labels)).astype(np.float64))
        if len(self._labels) > 100:
            self._labels, self._sums = ([each] for each in self.finish())

    def finish(self) -> tuple[np.ndarray, np.ndarray]:
        """Return all classes in rising order, and the sum of each."""
        classes, place = np.unique(np.concatenate(self._labels), return_inverse=True)
        return classes, np.bincount(place, np.concatenate(self._sums), minlength=len(classes))


def _taken(chunk: TableChunk, rows: np.ndarray) -> TableChunk:
    weight = None if chunk.weight is None else chunk.weight[rows]
    return TableChunk(take_rows(chunk.X, rows), chunk.y[rows], weight)


def _stacked(chunks: list[TableChunk]) -> TableChunk:
    weights = [chunk.weight for chunk in chunks if chunk.weight is not None]
    y = np.concatenate([chunk.y for chunk in chunks])
    return TableChunk(stack_tables([chunk.X for chunk in chunks]), y, np.concatenate(weights) if weights else None)


def stack_tables(tables: list[Any]) -> Any:
    """Return tables of the same columns, one below the other, as one of the same kind."""
    if len(tables) == 1:
        return tables[0]
    frames = [read(table) for table in tables]
    if isinstance(frames[0], np.ndarray):
        return np.concatenate(frames)
    import narwhals as nw

    # pandas finds a common type by itself; the others do not.
    if not frames[0].implementation.is_pandas_like():
        for name in frames[0].columns:
            columns = [frame.get_column(name) for frame in frames]
            kinds = {column.dtype for column in columns}
            if len(kinds) > 1:
                wanted = _common_type([column for column in columns if column.null_count() < len(column)])
                frames = [frame.with_columns(nw.col(name).cast(wanted)) for frame in frames]
    return nw.maybe_reset_index(nw.concat(frames)).to_native()


def _common_type(columns: list[Any]) -> Any:
    import narwhals as nw

    kinds = {column.dtype for column in columns}
    if len(kinds) == 1:
        return kinds.pop()
    return nw.Float64 if all(kind.is_numeric() for kind in kinds) else nw.String
