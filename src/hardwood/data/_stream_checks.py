"""Chunks of a stream, compared with those before them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from hardwood._typing import Float, Shaped
from hardwood.data._cells import feature_type, is_missing
from hardwood.data._columns import _column, read
from hardwood.errors import InvalidArgumentError, reject

_KINDS = {
    "int": "numbers", "float": "numbers", "bool": "booleans", "datetime": "dates", "category": "text or categories",
}  # fmt: skip


class TableChunk(NamedTuple):
    """Some rows of a stream."""

    X: Any  # a data frame or an array, as it came
    y: Shaped[np.ndarray, "rows ..."]
    weight: Float[np.ndarray, " rows"] | None


@contextmanager
def of_chunk(number: int) -> Iterator[None]:
    """Say in an error which chunk it is about; the first is chunk 1."""
    try:
        yield
    except InvalidArgumentError as error:
        raise InvalidArgumentError(f"in chunk {number}: {error}") from None


class ChunkChecks:
    """Knows what chunks of a stream have looked like so far, and refuses one that is unlike them.

    Integers and floats are the same kind of cells, and a column without any value goes with every kind: whether a
    column of integers becomes one of floats, say, depends in some libraries on whether a chunk has missing cells.
    """

    def __init__(self) -> None:
        self._columns: list[Any] | None = None
        self._kinds: dict[int, str] = {}
        self._target: tuple[int, ...] | None = None  # the target's shape but for the rows
        self._target_kind: str | None = None
        self._weighted: bool | None = None

    def check(self, given: Any) -> TableChunk:
        """Return a chunk with its target and weights as arrays."""
        if not isinstance(given, tuple) or len(given) not in (2, 3):
            shown = f"a tuple of {len(given)}" if isinstance(given, tuple) else f"a {type(given).__name__}"
            reject("chunk", shown, "is not (X, y)", "or (X, y, weight)")
        table = read(given[0])
        n_rows = len(table)
        if n_rows == 0:
            reject("X", "a table without rows", "must have rows", "leave out chunks without rows")
        self._check_columns(table)
        y = self._checked_target(given[1], n_rows)
        weight = given[2] if len(given) == 3 else None
        if self._weighted is None:
            self._weighted = weight is not None
        if self._weighted != (weight is not None):
            shown = "weights" if weight is not None else "no weights"
            reject("weight", shown, "is unlike chunks before", "give weights in every chunk, or in none")
        X = table if isinstance(table, np.ndarray) else given[0]
        return TableChunk(X, y, None if weight is None else _weights(weight, n_rows))

    def _check_columns(self, table: Any) -> None:
        is_array = isinstance(table, np.ndarray)
        places = list(range(table.shape[1])) if is_array else list(table.columns)
        if self._columns is None:
            self._columns = places
        if places != self._columns:
            remedy = "give all chunks the same columns in the same order"
            reject("X", places, f"but chunks before have the columns {self._columns}", remedy)
        for place, name in enumerate(places):
            column = _column(table, name)
            label = f"X[{f'x{place}' if is_array else name!r}]"
            kind = None if _is_empty(column) else _KINDS[feature_type(column, label)]
            before = self._kinds.get(place)
            if kind is not None and before is None:
                self._kinds[place] = before = kind
            if kind is not None and kind != before:
                reject(label, kind, f"but chunks before have {before} there", "convert the column to one type")

    def _checked_target(self, given: Any, n_rows: int) -> Shaped[np.ndarray, "rows ..."]:
        y = target_array(given)
        if y.ndim not in (1, 2) or len(y) != n_rows:
            wanted = f"does not fit {n_rows} rows"
            reject("y", f"an array of shape {y.shape}", wanted, "pass (rows,) or (rows, outputs)")
        if self._target is None:
            self._target = y.shape[1:]
        if y.shape[1:] != self._target:
            problem = f"but chunks before have targets of shape {('rows', *self._target)}"
            reject("y", f"an array of shape {y.shape}", problem, "give all chunks the same target columns")
        holes = _holes(y).reshape(n_rows, -1).any(axis=1)
        if holes.any():
            row = int(np.argmax(holes))
            reject(f"y[{row}]", y[row].tolist() if y.ndim == 2 else y[row], "is missing or infinite",
                   "leave out the rows without a target")  # fmt: skip
        kinds = {_KINDS[feature_type(column, "y")] for column in y.reshape(n_rows, -1).T}
        kind = " and ".join(sorted(kinds))
        if self._target_kind is None:
            self._target_kind = kind
        if kind != self._target_kind:
            reject("y", kind, f"but chunks before have {self._target_kind}", "convert the target to one type")
        return y


def target_array(given: Any) -> Shaped[np.ndarray, "..."]:
    """Return a target as an array, from whatever holds it; a single column of a frame is one-dimensional."""
    import narwhals as nw

    if isinstance(given, np.ndarray):
        return given
    native = nw.from_native(given, pass_through=True, eager_only=True, allow_series=True)
    if isinstance(native, nw.Series):
        return np.asarray(native.to_numpy())
    if isinstance(native, nw.DataFrame):
        columns = [np.asarray(native.get_column(name).to_numpy()) for name in native.columns]
        return columns[0] if len(columns) == 1 else np.stack(columns, axis=1)
    return np.asarray(given)


def _weights(given: Any, n_rows: int) -> Float[np.ndarray, " rows"]:
    try:
        weight = target_array(given).astype(np.float64)
    except (TypeError, ValueError):
        reject("weight", given, "does not hold numbers", "pass one number per row")
    if weight.shape != (n_rows,):
        reject("weight", f"an array of shape {weight.shape}", f"must have shape ({n_rows},)", "pass one weight per row")
    bad = ~np.isfinite(weight) | (weight < 0)
    if bad.any():
        row = int(np.argmax(bad))
        reject(f"weight[{row}]", float(weight[row]), "is no weight", "pass finite numbers of at least 0")
    return weight


def _holes(y: Shaped[np.ndarray, "rows ..."]) -> Shaped[np.ndarray, "rows ..."]:
    if y.dtype.kind == "f":
        return ~np.isfinite(y)
    if y.dtype.kind in "mM":
        return np.isnat(y)
    if y.dtype.kind != "O":
        return np.zeros(y.shape, bool)
    infinite = (float("inf"), float("-inf"))
    cells = [is_missing(cell) or (isinstance(cell, float) and cell in infinite) for cell in y.reshape(-1).tolist()]
    return np.array(cells, bool).reshape(y.shape)


def _is_empty(column: Any) -> bool:
    """Return whether a column has no value, so that its type says nothing."""
    if not isinstance(column, np.ndarray):
        return bool(column.null_count() == len(column))
    return column.dtype.kind == "O" and all(is_missing(cell) for cell in column.tolist())
