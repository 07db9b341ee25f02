"""`Columns`: what a table's columns are called and hold, learned on training rows, and the way to raw coding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hardwood._typing import Bool, Float, Int
from hardwood.data._cells import Word, feature_type, numbers, vocabulary
from hardwood.errors import reject
from hardwood.forest._forest import FeatureType
from hardwood.forest._inputs import _array


@dataclass(frozen=True)
class Columns:
    """The columns of a table, as training rows showed them.

    Raw coding is the coding of a `Forest`: one float64 a cell, a category as its position in the column's vocabulary,
    a boolean as 0 or 1, a date or time as seconds since 1970, a duration as seconds, and NaN for what is missing or,
    in a column of categories, for a value that training rows did not have. Infinities are numbers like others.
    """

    names: tuple[str, ...] | None  # None after an array, or a frame whose names are not all texts
    types: tuple[FeatureType, ...]
    vocabularies: tuple[tuple[Word, ...] | None, ...]  # one per column; None where it holds numbers

    @property
    def categories(self) -> dict[int, tuple[Word, ...]]:
        """The vocabulary of each column of categories by the column's number, as a `Forest` wants them."""
        return {column: words for column, words in enumerate(self.vocabularies) if words is not None}

    @property
    def labels(self) -> tuple[str, ...]:
        """The columns' names, or x0, x1, ... where they have none."""
        return self.names or tuple(f"x{column}" for column in range(len(self.types)))

    def __len__(self) -> int:
        return len(self.types)

    def to_raw(self, X: Any) -> Float[np.ndarray, "rows columns"]:
        """Return a table in raw coding.

        In a data frame columns are found by name (by position where training had no names), in an array by position.
        An array holds what training's table held: texts or numbers for categories, not their codes.
        """
        table = read(X)
        if isinstance(table, np.ndarray):
            order: Sequence[Any] = range(table.shape[1])
        else:
            order = list(table.columns) if self.names is None else _in_order(self.names, list(table.columns))
        if len(order) != len(self):
            problem = f"has {len(order)} column(s), but training had {len(self)}"
            reject("X", f"a table with {len(order)} column(s)", problem, "pass the same columns, in the same order")
        raw = np.empty((len(table), len(self)), np.float64)
        for column, (place, label) in enumerate(zip(order, self.labels, strict=True)):
            raw[:, column] = numbers(_column(table, place), self.vocabularies[column], f"X[{label!r}]")
        return raw


def learn_columns(
    X: Any, categorical_features: Any = "from_dtype", rows: Int[np.ndarray, " some"] | None = None
) -> Columns:
    """Learn what the columns of a table are, and their vocabularies, from some rows (all rows by default).

    Args:
        X: a pandas, polars or Arrow table, or an array.
        categorical_features: "from_dtype": text and category columns are categories. A list of column names or
            positions, or a boolean mask: these are, too. None: no column is, and text is refused.
        rows: the numbers of the rows to learn from.
    """
    table = read(X)
    places = range(table.shape[1]) if isinstance(table, np.ndarray) else list(table.columns)
    if len(places) == 0:
        reject("X", X, "has no columns", "pass a table with at least one column")
    if len(table) == 0:
        reject("X", X, "has no rows", "pass a table with at least one row")
    named = not isinstance(table, np.ndarray) and all(isinstance(name, str) for name in places)
    names = tuple(str(name) for name in places) if named else None
    labels = names or tuple(f"x{column}" for column in range(len(places)))
    chosen = _chosen(categorical_features, names, len(places))
    types: list[FeatureType] = []
    vocabularies: list[tuple[Word, ...] | None] = []
    for place, label, categorical in zip(places, labels, chosen, strict=True):
        column, shown = _column(table, place), f"X[{label!r}]"
        seen = column if rows is None else column[rows]
        kind: FeatureType = "category" if categorical else feature_type(seen, shown)
        words = vocabulary(seen, shown) if kind == "category" else None
        if words == () and categorical_features is None:
            kind, words = "float", None
        if words is not None and categorical_features is None:
            remedy = "convert it to numbers, or pass categorical_features='from_dtype'"
            reject(shown, _head(column), "is a column of categories, and categorical_features is None", remedy)
        types.append(kind)
        vocabularies.append(words)
    return Columns(names, tuple(types), tuple(vocabularies))


def read(X: Any) -> Any:
    """Return a data frame as a narwhals frame, anything else as a two-dimensional array; neither is copied."""
    if type(X) is not np.ndarray and hasattr(type(X), "columns"):
        return _frame(X)
    array = _array(X)
    if array.dtype.kind in "US" and not isinstance(X, np.ndarray):
        # NumPy makes texts of the numbers in a list that also has texts.
        array = np.array(X, dtype=object)
    if array.ndim != 2:
        one = "Reshape your data: one row is X.reshape(1, -1), one column is X.reshape(-1, 1)"
        remedy = one if array.ndim == 1 else "pass an array of shape (rows, columns)"
        reject("X", f"an array of shape {array.shape}", "must have two dimensions", remedy)
    return array


def _frame(X: Any) -> Any:
    import narwhals as nw
    from narwhals.exceptions import DuplicateError

    try:
        frame = nw.from_native(X, eager_only=True)
        columns = frame.columns
    except TypeError:
        reject("X", f"a {type(X).__name__}", "is no data frame in memory", "pass a pandas, polars or Arrow table")
    except DuplicateError as error:
        reject("X", f"a {type(X).__name__}", f"names a column twice ({error})", "give each column its own name")
    if len(set(columns)) != len(columns):
        reject("X", columns, "names a column twice", "give each column its own name")
    return frame


def take_rows(X: Any, rows: Int[np.ndarray, " some"]) -> Any:
    """Return some rows of a table, in the given order, as a table of the same kind."""
    table = read(X)
    if isinstance(table, np.ndarray):
        return table[rows]
    return table[rows].to_native()


def _column(table: Any, place: Any) -> Any:
    return table[:, place] if isinstance(table, np.ndarray) else table.get_column(place)


def _head(column: Any) -> list[Any]:
    return list(column[:3].tolist() if isinstance(column, np.ndarray) else column.head(3).to_list())


def _in_order(names: tuple[str, ...], given: list[Any]) -> list[str]:
    """Return training's column names after checking that a frame has exactly these."""
    have, wanted = set(given), set(names)
    missing = [name for name in names if name not in have]
    if missing:
        reject("X", given, f"lacks the column(s) {missing}", "pass all columns that training had")
    extra = [name for name in given if name not in wanted]
    if extra:
        reject("X", given, f"has the column(s) {extra} that training did not have", "leave them out")
    return list(names)


def _chosen(given: Any, names: tuple[str, ...] | None, n_columns: int) -> Bool[np.ndarray, " columns"]:
    """Return which columns the caller names as categories."""
    chosen = np.zeros(n_columns, bool)
    if given is None or (isinstance(given, str) and given == "from_dtype"):
        return chosen
    remedy = "pass 'from_dtype', None, or a list of column names, positions or booleans"
    if isinstance(given, str) or not hasattr(given, "__iter__"):
        reject("categorical_features", given, "names no columns", remedy)
    entries = list(given)
    if entries and all(isinstance(entry, (bool, np.bool_)) for entry in entries):
        if len(entries) != n_columns:
            problem = f"is a mask of {len(entries)} entries for {n_columns} columns"
            reject("categorical_features", given, problem, "pass one boolean per column")
        return np.array(entries, bool)
    for entry in entries:
        if isinstance(entry, str):
            if entry not in (names or ()):
                reject("categorical_features", entry, "is no column of X", "pass names that X has, or positions")
            chosen[(names or ()).index(entry)] = True
        elif isinstance(entry, (int, np.integer)) and not isinstance(entry, (bool, np.bool_)):
            if not 0 <= entry < n_columns:
                reject("categorical_features", entry, f"is no column of the {n_columns}", "positions count from 0")
            chosen[int(entry)] = True
        else:
            reject("categorical_features", entry, "is neither a column's name nor its position", remedy)
    return chosen
