"""What the columns of a table hold: their type, their categories, and the numbers that their cells stand for.

A column is a narwhals series where the user passed a data frame, and a one-dimensional NumPy array where they passed
an array. Data frames are read by the functions that a `Forest` reads them with, so that both see the same numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hardwood._typing import Float, Shaped
from hardwood.errors import reject
from hardwood.forest._forest import FeatureType
from hardwood.forest._inputs import column_numbers

Word = str | int | float | bool
_NULLS = ("NAType", "NaTType")  # pandas' own nulls, told by name: pandas may not be installed


def feature_type(column: Any, label: str) -> FeatureType:
    """Return the type of a column; one of text, or one that has no value and no type, is of categories."""
    if isinstance(column, np.ndarray):
        return _array_type(column, label)
    import narwhals as nw

    kind = column.dtype
    if kind == nw.Boolean:
        return "bool"
    if kind.is_integer():
        return "int"
    if kind.is_numeric() or kind == nw.Duration:
        return "float"
    if kind in (nw.Date, nw.Datetime):
        return "datetime"
    if kind in (nw.String, nw.Categorical, nw.Enum) or column.null_count() == len(column):
        return "category"
    if kind != nw.Object:
        reject(label, column.to_list()[:3], f"is a column of {kind}", "convert it to numbers, text, booleans or dates")
    return _object_type(column.drop_nulls().to_list(), label)


def _array_type(column: Shaped[np.ndarray, " rows"], label: str) -> FeatureType:
    kinds: dict[str, FeatureType] = {
        "b": "bool", "i": "int", "u": "int", "f": "float", "m": "float", "M": "datetime", "U": "category",
        "T": "category",
    }  # fmt: skip
    if column.dtype.kind == "O":
        return _object_type([cell for cell in column.tolist() if not is_missing(cell)], label)
    if column.dtype.kind not in kinds:
        problem = f"is a column of {column.dtype}"
        reject(label, column[:3].tolist(), problem, "convert it to numbers, text, booleans or dates")
    return kinds[column.dtype.kind]


def _object_type(cells: list[Any], label: str) -> FeatureType:
    """Return the type of a column of Python objects by its cells that are not missing."""
    if all(isinstance(cell, str) for cell in cells):
        return "category"
    if all(isinstance(cell, (bool, np.bool_)) for cell in cells):
        return "bool"
    if all(isinstance(cell, (int, np.integer, bool, np.bool_)) for cell in cells):
        return "int"
    if any(isinstance(cell, str) for cell in cells):
        mixed = [next(cell for cell in cells if isinstance(cell, str) == text) for text in (True, False)]
        remedy = "name it in categorical_features, or convert it to numbers (a missing cell is None)"
        reject(label, mixed, "mixes text with other values", remedy)
    return "float"


def is_missing(cell: Any) -> bool:
    """Return whether a cell is None, NaN, or one of pandas' nulls."""
    return cell is None or (isinstance(cell, (float, np.floating)) and cell != cell) or type(cell).__name__ in _NULLS


def vocabulary(column: Any, label: str) -> tuple[Word, ...]:
    """Return the distinct values of a column but for missing ones: numbers in rising order, then texts.

    The order depends on the values alone, so the codes of categories do not depend on the order of rows.
    """
    cells = _cell_list(column, label)
    try:
        distinct = set(cells)
    except TypeError:
        reject(label, cells[:3], "cannot be a column of categories", "convert it to text")
    words = [_word(cell, label) for cell in distinct if not is_missing(cell)]
    return tuple(sorted(words, key=lambda word: (isinstance(word, str), word)))


def _word(cell: Any, label: str) -> Word:
    plain = cell.item() if isinstance(cell, np.generic) else cell
    if isinstance(plain, str):
        return str(plain)
    if not isinstance(plain, (bool, int, float)):
        reject(label, cell, "is a category that is no text, number or boolean", "convert the column to text")
    return plain


def _cell_list(column: Any, label: str) -> list[Any]:
    if not isinstance(column, np.ndarray):
        return list(column.to_list())
    if column.dtype.kind not in "biufUTO":
        reject(label, f"a column of {column.dtype}", "cannot be a column of categories", "convert it to text")
    return list(column.tolist())


def numbers(column: Any, words: Sequence[Word] | None, label: str) -> Float[np.ndarray, " rows"]:
    """Return a column in raw coding: with a vocabulary its codes, without it the numbers that it stands for.

    A missing cell, and a value that the vocabulary does not have, is NaN.
    """
    if words is not None and isinstance(column, np.ndarray):
        return _codes(column, words, label)
    if isinstance(column, np.ndarray):
        return _array_numbers(column, label)
    if column.null_count() == len(column):
        return np.full(len(column), np.nan)
    try:
        return column_numbers(column, words)
    except TypeError:
        reject(label, column.to_list()[:3], "cannot be a column of categories", "convert it to text")


def _codes(column: Shaped[np.ndarray, " rows"], words: Sequence[Word], label: str) -> Float[np.ndarray, " rows"]:
    code = {word: float(position) for position, word in enumerate(words)}
    cells = _cell_list(column, label)
    try:
        return np.array([code.get(cell, np.nan) for cell in cells], np.float64)
    except TypeError:
        reject(label, cells[:3], "cannot be a column of categories", "convert it to text")


def _array_numbers(column: Shaped[np.ndarray, " rows"], label: str) -> Float[np.ndarray, " rows"]:
    kind = column.dtype.kind
    if kind in "biuf":
        return column.astype(np.float64)
    if kind in "mM":
        unit = "datetime64[us]" if kind == "M" else "timedelta64[us]"
        micros = column.astype(unit)
        return np.where(np.isnat(micros), np.nan, micros.astype(np.int64) / 1e6)
    problem, remedy = "holds text, and the column was numbers at fit", "pass numbers, or fit again"
    if kind in "UT":
        reject(label, column[:3].tolist(), problem, remedy)
    cells = column.tolist()
    for cell in cells:
        if isinstance(cell, str):
            reject(label, cell, problem, remedy)
    try:
        return np.array([np.nan if is_missing(cell) else float(cell) for cell in cells], np.float64)
    except (TypeError, ValueError, OverflowError):
        reject(label, cells[:3], "is a column of objects that are no numbers", "convert it to numbers")
