"""Tables in: whatever a user passes as `X` becomes a two-dimensional array of float32 or float64 numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hardwood._typing import Float
from hardwood.errors import reject

if TYPE_CHECKING:
    from hardwood.forest._forest import Forest

_FLOATS = (np.dtype(np.float32), np.dtype(np.float64))
# These fit float32 without loss, so that comparisons are exact; wider integers go to float64.
_SMALL = tuple(np.dtype(kind) for kind in (np.bool_, np.float16, np.int8, np.uint8, np.int16, np.uint16))


def matrix(forest: Forest, X: Any) -> Float[np.ndarray, "rows features"]:
    """Return `X` as a C-contiguous, writable float32 or float64 array with the forest's columns.

    An array holds numbers, for category columns their codes. In a data frame columns are found by `feature_names`
    (by position where the forest has none); categories are looked up in the vocabulary, a null or unknown one is
    missing; a date or time counts as seconds since 1970, a duration as seconds, a boolean as 0 or 1.
    """
    if type(X) is not np.ndarray:
        X = _frame(forest, X) if hasattr(type(X), "columns") else _array(X)
    if X.ndim != 2:
        if X.ndim == 1:
            remedy = "pass one row as X.reshape(1, -1), one column as X.reshape(-1, 1)"
        else:
            remedy = "pass an array of shape (rows, features)"
        reject("X", f"an array of shape {X.shape}", "must have two dimensions", remedy)
    if X.shape[1] != forest.n_features:
        problem = f"has {X.shape[1]} column(s), but the forest was made for {forest.n_features}"
        reject("X", f"an array of shape {X.shape}", problem, "pass the columns it was made for, in their order")
    if X.dtype not in _FLOATS:
        X = _numbers(X)
    if not (X.flags.c_contiguous and X.flags.writeable):
        # The kernels are compiled for one memory layout.
        X = np.array(X, order="C")
    return X


def _array(X: Any) -> np.ndarray:
    """Return something that is no data frame as an array."""
    if hasattr(X, "toarray"):
        reject("X", X, "is a sparse matrix", "pass X.toarray()")
    if isinstance(X, np.ma.MaskedArray):
        return np.ma.filled(X.astype(np.float64), np.nan)
    try:
        return np.asarray(X)
    except ValueError:
        reject("X", X, "is not a rectangular table", "give every row the same number of cells")


def _numbers(X: np.ndarray) -> np.ndarray:
    """Convert an array to float32 where that is exact, else to float64."""
    if X.dtype.kind not in "fiubO":
        reject("X", f"an array of {X.dtype}", "does not hold real numbers", "pass numbers, or a data frame")
    try:
        return X.astype(np.float32 if X.dtype in _SMALL else np.float64)
    except (TypeError, ValueError):
        remedy = "pass numbers (codes for categories), or a data frame"
        reject("X", f"an array of {X.dtype}", "does not hold real numbers only", remedy)


def _frame(forest: Forest, X: Any) -> Float[np.ndarray, "rows features"]:
    """Convert a data frame, column by column, in the forest's order."""
    import narwhals as nw

    try:
        frame = nw.from_native(X, eager_only=True)
    except TypeError:
        remedy = "pass a pandas, polars or Arrow table, collected"
        reject("X", f"a {type(X).__name__}", "is no data frame in memory", remedy)
    names = _matched(forest, list(frame.columns))
    table = np.empty((len(frame), forest.n_features), np.float64)
    for column, name in enumerate(names):
        table[:, column] = column_numbers(frame.get_column(name), forest.categories.get(column))
    return table


def _matched(forest: Forest, columns: list[Any]) -> list[Any]:
    """Return the names of the frame's columns in the forest's order."""
    if forest.feature_names is None:
        if len(columns) != forest.n_features:
            problem = f"has {len(columns)} column(s), but the forest was made for {forest.n_features}"
            reject("X", columns, problem, "pass the columns it was made for, in their order")
        return columns
    missing = [name for name in forest.feature_names if name not in columns]
    if missing:
        reject("X", columns, f"lacks the column(s) {missing}", "pass all columns that the forest was made for")
    extra = [name for name in columns if name not in forest.feature_names]
    if extra:
        reject("X", columns, f"has the column(s) {extra} that the forest does not know", "pass X[list(feature_names)]")
    return list(forest.feature_names)


def column_numbers(column: Any, vocabulary: Sequence[Any] | None) -> Float[np.ndarray, " rows"]:
    """Convert one narwhals series to float64: with a vocabulary to codes, without to the numbers that it stands for."""
    import narwhals as nw

    if vocabulary is not None:
        code = {word: float(position) for position, word in enumerate(vocabulary)}
        return np.array([code.get(word, np.nan) for word in column.to_list()], np.float64)
    kind = column.dtype
    if kind == nw.Date:
        column, kind = column.cast(nw.Datetime("us")), nw.Datetime("us")
    scale = 1.0
    if kind == nw.Datetime:
        column, scale = column.dt.timestamp("us"), 1e6
    elif kind == nw.Duration:
        column, scale = column.dt.total_microseconds(), 1e6
    elif kind == nw.Object:
        return _objects(column)
    elif column.null_count() == len(column):
        return np.full(len(column), np.nan)  # of no type, or of text where there is none
    elif not (kind.is_numeric() or kind == nw.Boolean):
        problem = f"is a column of {kind}, and the forest splits it by number"
        reject(f"X[{column.name!r}]", column.to_list()[:3], problem, "pass numbers, dates or booleans")
    numbers = column.cast(nw.Float64).to_numpy()
    return np.asarray(numbers, np.float64) / scale


def _objects(column: Any) -> Float[np.ndarray, " rows"]:
    """Convert a column of Python objects, such as booleans with nulls among them."""
    try:
        return np.array([np.nan if cell is None else float(cell) for cell in column.to_list()], np.float64)
    except (TypeError, ValueError):
        problem = "is a column of objects that are no numbers"
        reject(f"X[{column.name!r}]", column.to_list()[:3], problem, "convert it to numbers")
