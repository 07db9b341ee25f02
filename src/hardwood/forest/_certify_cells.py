"""Cells: the finitely many kinds of values of a column that a forest can tell apart, and what a region leaves of them.

Thresholds cut the numbers of a column into intervals, a vocabulary has its codes, and a missing value is a cell of its
own. Inside a cell every split decides alike, so one value stands for all of it.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from hardwood._typing import Bool, Float, Int
from hardwood.errors import reject

if TYPE_CHECKING:
    from hardwood.forest._forest import FeatureType, Forest


@dataclass(frozen=True)
class Allowed:
    """Which values a column may have: numbers from `low` to `high`, both included, and among `values` if there are any.

    Values of a column with a vocabulary are codes.
    """

    low: float = -math.inf
    high: float = math.inf
    values: frozenset[float] | None = None
    missing: bool = False

    def both(self, other: Allowed) -> Allowed:
        """Return what is allowed twice."""
        values = self.values if other.values is None else other.values
        if self.values is not None and other.values is not None:
            values = self.values & other.values
        low, high = max(self.low, other.low), min(self.high, other.high)
        return Allowed(low, high, values, self.missing and other.missing)


@dataclass(frozen=True)
class Cells:
    """The cells of one column: its numbers in rising order, or its codes; the last cell is a missing value."""

    kind: FeatureType
    cuts: Float[np.ndarray, " cuts"]  # cell i has the numbers below cuts[i], from cuts[i - 1] on
    codes: int  # how many codes there are; 0 without a vocabulary

    def __len__(self) -> int:
        return (self.codes or len(self.cuts) + 1) + 1

    def left(self, forest: Forest, node: int) -> Bool[np.ndarray, " cells"]:
        """Tell which cells a split of this column sends left."""
        from hardwood.forest._forest import CATEGORIES

        result = np.zeros(len(self), bool)
        if forest.kind[node] == CATEGORIES:
            assert forest.category_start is not None and forest.category_codes is not None
            result[forest.category_codes[forest.category_start[node] : forest.category_start[node + 1]]] = True
        elif self.codes:
            result[:-1] = np.arange(self.codes) < forest.threshold[node]
        else:
            result[: np.searchsorted(self.cuts, forest.threshold[node]) + 1] = True
        result[-1] = forest.missing_left[node]
        return result

    def values(self, allowed: Allowed) -> tuple[Bool[np.ndarray, " cells"], Float[np.ndarray, " cells"]]:
        """Return which cells have an allowed value, and one in each; NaN stands for a missing value."""
        found = np.full(len(self), np.nan)
        inside = np.zeros(len(self), bool)
        inside[-1] = allowed.missing
        for cell in range(len(self) - 1):
            value = self._value(cell, allowed)
            if value is not None:
                inside[cell], found[cell] = True, value
        return inside, found

    def _value(self, cell: int, allowed: Allowed) -> float | None:
        if self.codes:
            return float(cell) if allowed.values is None or cell in allowed.values else None
        low = -math.inf if cell == 0 else float(self.cuts[cell - 1])
        # The last number of a cell is the one before its end; no number is below -inf.
        end = math.inf if cell == len(self.cuts) else float(self.cuts[cell])
        if end == -math.inf:
            return None
        last = math.nextafter(end, -math.inf) if cell < len(self.cuts) else math.inf
        low, last = max(low, allowed.low), min(last, allowed.high)
        candidates = allowed.values
        if candidates is None and self.kind == "bool":
            candidates = frozenset((0.0, 1.0))
        if candidates is not None:
            return min((each for each in candidates if low <= each <= last), default=None)
        return _whole_between(low, last) if self.kind == "int" else _number_between(low, last)


def _whole_between(low: float, last: float) -> float | None:
    """Return a whole number from `low` to `last`: 0, or the one nearest to it."""
    if low <= 0 <= last:
        return 0.0
    nearest = (math.ceil(low) if low > 0 else math.floor(last)) if math.isfinite(low if low > 0 else last) else None
    return float(nearest) if nearest is not None and low <= nearest <= last else None


def _number_between(low: float, last: float) -> float | None:
    """Return a number from `low` to `last` that is short to write: 0, a whole number, or few decimals."""
    if low > last:
        return None
    if low <= 0 <= last:
        return 0.0
    if math.isinf(low) or math.isinf(last):
        return _whole_between(low, last) if math.isfinite(low) or math.isfinite(last) else low
    middle = low / 2 + last / 2
    for digits in range(1, 18):
        short = float(f"{middle:.{digits}g}")
        if low <= short <= last:
            return short
    return low


def cells_of(forest: Forest) -> list[Cells]:
    """Return the cells of every column."""
    from hardwood.forest._forest import THRESHOLD

    split = forest.kind == THRESHOLD
    return [
        Cells(
            kind="float" if forest.feature_types is None else forest.feature_types[column],
            cuts=np.unique(forest.threshold[split & (forest.feature == column)]),
            codes=len(forest.categories.get(column, ())),
        )
        for column in range(forest.n_features)
    ]


# ---------------------------------------------------------------- what a user says


def column_of(forest: Forest, key: Any, argument: str) -> int:
    """Return the number of a column that is given by name or number."""
    if isinstance(key, str):
        if forest.feature_names is None or key not in forest.feature_names:
            reject(argument, key, "is no column's name", f"the names are {forest.feature_names}")
        return forest.feature_names.index(key)
    if isinstance(key, (bool, np.bool_)) or not isinstance(key, (int, np.integer)) or not 0 <= key < forest.n_features:
        reject(argument, key, f"is no column of the {forest.n_features}", "pass a name, or a number counted from 0")
    return int(key)


def region(forest: Forest, within: Mapping[Any, Any] | None, missing: Any) -> list[Allowed]:
    """Return what every column may be: what `within` says, anything elsewhere; see `Forest.certify`."""
    result: list[Allowed | None] = [None] * forest.n_features
    for key, said in (within or {}).items():
        column = column_of(forest, key, "within")
        if result[column] is not None:
            reject("within", key, "is a column that is given twice", "give each column once, by name or by number")
        result[column] = said_of(forest, column, said, f"within[{key!r}]")
    if isinstance(missing, (bool, np.bool_)):
        return [Allowed(missing=bool(missing)) if each is None else each for each in result]
    if isinstance(missing, str) or not isinstance(missing, Iterable):
        reject("missing", missing, "does not say which columns may be missing", "pass True, False or a list of columns")
    listed = {column_of(forest, key, "missing") for key in missing}
    return [
        replace(each or Allowed(), missing=column in listed or (each is not None and each.missing))
        for column, each in enumerate(result)
    ]


def said_of(forest: Forest, column: int, said: Any, argument: str) -> Allowed:
    """Return what an interval, a collection of values or one value allows."""
    if isinstance(said, tuple) and len(said) == 2 and column not in forest.categories:
        low, high = (_bound(each, argument) for each in said)
        low, high = -math.inf if low is None else low, math.inf if high is None else high
        if low > high:
            reject(argument, said, "ends before it begins", "pass (smallest, largest)")
        return Allowed(low, high)
    several = isinstance(said, Collection) and not isinstance(said, (str, bytes))
    entries = list(said) if several else [said]
    missing = [each is None or (isinstance(each, (float, np.floating)) and math.isnan(each)) for each in entries]
    known = [each for each, absent in zip(entries, missing, strict=True) if not absent]
    if column in forest.categories:
        codes = {word: float(code) for code, word in enumerate(forest.categories[column])}
        unknown = [each for each in known if each not in codes]
        if unknown:
            reject(argument, unknown[0], "is none of the column's categories", f"they are {forest.categories[column]}")
        values = frozenset(codes[each] for each in known)
    else:
        values = frozenset(number for number in (_bound(each, argument) for each in known) if number is not None)
    return Allowed(values=values, missing=any(missing))


def _bound(value: Any, argument: str) -> float | None:
    """Return a number that a user gave; None stands for no bound."""
    if value is None:
        return None
    if not isinstance(value, (int, float, np.number, np.bool_)) or math.isnan(value):
        remedy = "pass (smallest, largest) with None for no bound, a set of values, or one value"
        reject(argument, value, "is no number", remedy)
    return float(value)


def allowed_cells(
    forest: Forest, cells: list[Cells], allowed: list[Allowed]
) -> tuple[list[Bool[np.ndarray, " _"]], list[Float[np.ndarray, " _"]]]:
    """Return the allowed cells of every column and a value in each; a region without rows is refused."""
    pairs = [each.values(of) for each, of in zip(cells, allowed, strict=True)]
    for column, (inside, _) in enumerate(pairs):
        if not inside.any():
            name = column if forest.feature_names is None else forest.feature_names[column]
            problem = "can have no value in this region"
            reject("within", name, problem, "allow more, or missing values (whole-number columns need a whole number)")
    return [inside for inside, _ in pairs], [values for _, values in pairs]


def columns_split(forest: Forest) -> Int[np.ndarray, " columns"]:
    """Return the columns that some split looks at."""
    return np.unique(forest.feature[forest.feature >= 0])
