"""What the cells of a CSV file stand for: numbers, booleans, dates and times, or text. An empty cell is missing.

The rules are the house's own, so a file means the same whatever data frame libraries are installed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from hardwood._typing import Float
from hardwood.errors import reject
from hardwood.forest._forest import FeatureType

Word = str | int | float | bool

_TRUE, _FALSE = frozenset({"true", "True", "TRUE"}), frozenset({"false", "False", "FALSE"})
# Spelled-out holes count as such among numbers, booleans and dates; in a column of text they are words like others.
_HOLES = frozenset({"", "NA", "N/A", "na", "n/a", "nan", "NaN", "null", "NULL", "None"})
_INTEGER = re.compile(r"[+-]?[0-9]{1,15}", re.ASCII)
_NUMBER = re.compile(
    r"[+-]?(?:[0-9]+\.?[0-9]*(?:[eE][+-]?[0-9]+)?|\.[0-9]+(?:[eE][+-]?[0-9]+)?|inf|Inf|infinity|Infinity)", re.ASCII
)
_DATE = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
    r"(?:[ T][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,6})?)?(?:Z|[+-][0-9]{2}:?[0-9]{2})?)?"
)
_EPOCH, _MICROSECOND = datetime(1970, 1, 1, tzinfo=UTC), timedelta(microseconds=1)


@dataclass(frozen=True, eq=False)
class Column:
    """One column: numbers in a forest's coding (NaN where missing), or the words of a column of categories."""

    kind: FeatureType
    numbers: Float[np.ndarray, " rows"] | None = None
    words: Sequence[Word | None] | None = None

    def __len__(self) -> int:
        return len(self.numbers if self.numbers is not None else self.words or ())


def typed(cells: Sequence[str]) -> Column:
    """Return cells as the first of these that fits all that are not missing: booleans, numbers, dates, text.

    >>> typed(["1", "", "3"]).numbers.tolist(), typed(["red", ""]).words
    ([1.0, nan, 3.0], ('red', None))
    """
    if not set(cells) - {""}:
        return Column("float", np.full(len(cells), np.nan))
    kind = _kind({cell.strip() for cell in set(cells)} - _HOLES)
    if kind == "category":
        return Column("category", words=tuple(cell or None for cell in cells))
    return Column(kind, numbers_of(cells, kind, ""))


def _kind(distinct: set[str]) -> FeatureType:
    if distinct <= _TRUE | _FALSE:
        return "bool" if distinct else "float"
    if all(map(_INTEGER.fullmatch, distinct)):
        return "int"
    if all(_NUMBER.fullmatch(cell) for cell in distinct):
        return "float"
    if all(_moment(cell) is not None for cell in distinct):
        return "datetime"
    return "category"


def numbers_of(cells: Sequence[str], kind: FeatureType, label: str) -> Float[np.ndarray, " rows"]:
    """Return the numbers that cells stand for; a cell that stands for none is refused with its row."""
    read = _moment if kind == "datetime" else _number
    known = {cell: read(cell) for cell in set(cells)}
    wrong = {cell for cell, number in known.items() if number is None}
    if wrong:
        row = next(row for row, cell in enumerate(cells) if cell in wrong)
        wanted = "date or time such as 2024-05-31" if kind == "datetime" else "number"
        reject(label, cells[row], f"row {row} holds no {wanted}", f"write a {wanted}, or leave it empty")
    return np.array([known[cell] for cell in cells], np.float64)


def _number(cell: str) -> float | None:
    cell = cell.strip()
    if cell in _HOLES:
        return np.nan
    if cell in _TRUE:
        return 1.0
    if cell in _FALSE:
        return 0.0
    return float(cell) if _NUMBER.fullmatch(cell) else None


def _moment(cell: str) -> float | None:
    """Return the seconds since 1970; without a time zone the time counts as that of Greenwich."""
    cell = cell.strip()
    if cell in _HOLES:
        return np.nan
    if not _DATE.fullmatch(cell):
        return None
    try:
        moment = datetime.fromisoformat(cell)
    except ValueError:
        return None
    # As the other readers do it: whole microseconds first, divided once.
    return ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - _EPOCH) // _MICROSECOND / 1e6


def plain_word(cell: Any) -> Word:
    """Return a cell of a typed column as a category: a text, a number or a boolean; others as they are written."""
    return cell if isinstance(cell, (str, int, float)) else str(cell)


def codes_of(words: Sequence[Word | None], vocabulary: Sequence[Word]) -> Float[np.ndarray, " rows"]:
    """Return the codes of words; NaN for a missing or an unknown one.

    A word of a file that has only text, and a number of one that knows numbers, are the same where one spells the
    other: a model learned from either kind reads both.
    """
    exact: dict[Word, float] = {word: float(place) for place, word in enumerate(vocabulary)}
    alike: dict[Word, float] = {}
    for word, place in exact.items():
        if not isinstance(word, str):
            alike.setdefault(str(word), place)
        elif _INTEGER.fullmatch(word):
            alike.setdefault(int(word), place)
    spelled = {word: _spelled(word, exact, alike) for word in set(words) if word is not None}
    return np.array([np.nan if word is None else spelled[word] for word in words], np.float64)


def _spelled(word: Word, exact: dict[Word, float], alike: dict[Word, float]) -> float:
    places = [exact.get(word), exact.get(str(word)), alike.get(word)]
    number = _number(word) if isinstance(word, str) else None
    if number is not None and not np.isnan(number):
        places.append(exact.get(number))
    return next((place for place in places if place is not None), np.nan)
