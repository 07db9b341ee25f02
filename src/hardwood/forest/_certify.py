"""`Certificate`: what is true of a forest for all rows of a region, proved by looking at every case that matters."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hardwood._typing import Bool, Float
from hardwood.errors import reject
from hardwood.forest import _certify_search as _search
from hardwood.forest import _certify_words as _words
from hardwood.forest._certify_cells import Allowed, Cells, allowed_cells, cells_of, column_of, region, said_of
from hardwood.forest._certify_pairs import Pairs
from hardwood.forest._certify_scores import ROUNDING, Score, lead_of, score_of

if TYPE_CHECKING:
    from hardwood.forest._forest import Forest

Label = str | int | float | bool


@dataclass(frozen=True, eq=False)
class Range:
    """The smallest and the largest prediction for rows of a region, and rows that get them."""

    low: float
    high: float
    lowest: Float[np.ndarray, " features"]  # in raw coding, as `Forest.predict` takes it
    highest: Float[np.ndarray, " features"]
    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, eq=False)
class Verdict:
    """Whether a rule holds for all rows of a region; if not, two rows that show it.

    It is true exactly where the rule holds.
    """

    holds: bool
    rows: Float[np.ndarray, "2 features"] | None  # before and after the move, in raw coding
    predictions: tuple[float, float] | None
    text: str

    def __bool__(self) -> bool:
        return self.holds

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, repr=False)
class Certificate:
    """Answers about all rows of a region. See `Forest.certify`.

    `of` is the class whose probability is meant (of two classes, the second where it is left out), or the number or
    name of an output (where there is one, it).
    """

    forest: Forest
    allowed: tuple[Allowed, ...]
    max_boxes: int

    def range(self, of: Any = None) -> Range:
        """Return the exact range of a prediction, with rows that get its ends."""
        forest, output = self.forest, self._output(of)
        score = score_of(forest, output)
        ends = []
        for rising in (False, True):
            box = self._extreme(score, rising, f"the range of {_words.target(forest, output)}")
            row = self._row(self._table, box)
            ends.append((row, float(self._predicted(row[None], output)[0])))
        (lowest, low), (highest, high) = ends
        text = f"{_words.target(forest, output)} is between {low:.6g} and {high:.6g}"
        return Range(low, high, lowest, highest, text)

    def classes(self) -> dict[Label, Float[np.ndarray, " features"]]:
        """Return the classes, or actions, that are predicted anywhere in the region, each with a row that gets it."""
        forest = self.forest
        if forest.classes is None:
            reject("forest", repr(forest), "has no classes", "ask for the range of its outputs")
        found: dict[Label, Float[np.ndarray, " features"]] = {}
        for number, label in enumerate(forest.classes.tolist()):
            score = lead_of(forest, number)

            def is_chosen(box: Bool[np.ndarray, " box"], label: Label = label) -> bool:
                return bool(forest.predict(self._row(self._table, box)[None])[0] == label)

            enough = -ROUNDING * (1.0 + float(np.abs(score.values).max()) * forest.n_trees)
            what = f"whether {label!r} is possible"
            box = self._searched(self._table, [self._whole], _goal(score, self._table), is_chosen, enough, what)
            if box is not None:
                found[label] = self._row(self._table, box)
        return found

    def never_lowers(
        self, column: Any, first: Any = None, then: Any = None, *, of: Any = None, tolerance: float = 0.0
    ) -> Verdict:
        """Tell whether a move in one column never lowers a prediction, all else being equal.

        Without `first` and `then`, the move is from any number of the column to any larger one: the forest is monotone.
        With them, it is from a value that `first` allows to one that `then` allows, said as in `within`: after
        `never_lowers("age", first=(None, 60), then=(60, None))`, "age above 60 never lowers risk". A prediction that
        falls by no more than `tolerance` counts as not lowered.
        """
        return self._never(column, first, then, of, tolerance, lowers=True)

    def never_raises(
        self, column: Any, first: Any = None, then: Any = None, *, of: Any = None, tolerance: float = 0.0
    ) -> Verdict:
        """Tell whether a move in one column never raises a prediction; see `never_lowers`."""
        return self._never(column, first, then, of, tolerance, lowers=False)

    # ---------------------------------------------------------------- the region as boxes

    @cached_property
    def _cells(self) -> list[Cells]:
        return cells_of(self.forest)

    @cached_property
    def _inside(self) -> tuple[list[Bool[np.ndarray, " _"]], list[Float[np.ndarray, " _"]]]:
        return allowed_cells(self.forest, self._cells, list(self.allowed))

    def _table_of(self, moved: int | None) -> _search.Table:
        table = _search.table_of(self.forest, self._cells, moved)
        if table is None:
            problem = "has too many leaves and thresholds to be certified"
            reject("forest", repr(self.forest), problem, "certify fewer trees, or a forest truncated or pruned")
        return table

    @cached_property
    def _table(self) -> _search.Table:
        return self._table_of(None)

    @property
    def _whole(self) -> Bool[np.ndarray, " box"]:
        return self._table.everywhere([self._inside[0][column] for column in self._table.columns])

    def _row(self, table: _search.Table, box: Bool[np.ndarray, " box"]) -> Float[np.ndarray, " features"]:
        """Return a row of a box; of a box of two rows, the first."""
        row = np.array([values[int(np.argmax(inside))] for inside, values in zip(*self._inside, strict=True)])
        seen: set[int] = set()
        for place, column in enumerate(table.columns):
            if column not in seen:
                seen.add(column)
                own = box[table.cell_start[place] : table.cell_start[place + 1]]
                row[column] = self._inside[1][column][int(np.argmax(own))]
        return row

    # ---------------------------------------------------------------- searches

    def _extreme(self, score: Score, rising: bool, what: str) -> Bool[np.ndarray, " box"]:
        table = self._table
        goal = _goal(score, table) if rising else _falling(score, table)
        found = self._searched(table, [self._whole], goal, lambda box: True, -math.inf, what)
        assert found is not None
        return found

    def _searched(
        self, table: _search.Table, boxes: Any, goal: _search.Goal, accept: Any, enough: float, what: str
    ) -> Bool[np.ndarray, " box"] | None:
        try:
            return _search.search(table, boxes, goal, accept, enough, self.max_boxes)
        except _search.TooManyBoxes:
            remedy = "raise it, narrow the region, or certify fewer trees"
            reject("max_boxes", self.max_boxes, f"is too few to settle {what}", remedy)

    def _never(self, key: Any, first: Any, then: Any, of: Any, tolerance: float, lowers: bool) -> Verdict:
        forest = self.forest
        column, output = column_of(forest, key, "column"), self._output(of)
        if not (isinstance(tolerance, (int, float)) and tolerance >= 0):
            reject("tolerance", tolerance, "is no allowance", "pass 0, or a small positive number")
        if (first is None) != (then is None):
            name = "then" if then is None else "first"
            reject(name, None, "is left out", "pass both first and then, or neither for moves between numbers")
        move = _words.move(forest, column, first, then)
        rule = f"{move} never {'lowers' if lowers else 'raises'} {_words.target(forest, output)}"
        score = score_of(forest, output)
        if first is None and column in forest.categories:
            reject(
                "column", key, "has categories, which have no order", "pass first and then, each a set of categories"
            )
        if (forest.feature != column).all() or (first is None and self._known_monotone(column, score, lowers)):
            return Verdict(True, None, None, f"holds: {rule}")

        table = self._table_of(column)
        pairs = Pairs(table, score, column)
        sides = self._steps(column) if first is None else tuple(
            self._also(column, said, name) for name, said in (("first", first), ("then", then))
        )  # fmt: skip
        # The search makes the first row's prediction exceed the second's.
        above, below = sides if lowers else sides[::-1]
        shown: list[Float[np.ndarray, "2 features"]] = []

        def is_lowered(box: Bool[np.ndarray, " box"]) -> bool:
            rows = np.repeat(self._row(table, box)[None], 2, axis=0)
            for row, place, side in zip(rows, (pairs.place, len(table.columns) - 1), (above, below), strict=True):
                own = box[table.cell_start[place] : table.cell_start[place + 1]]
                row[column] = side.values[int(np.argmax(own))]
            said = self._predicted(rows, output)
            if said[0] - said[1] > tolerance:
                shown.append(rows if lowers else rows[::-1].copy())
            return bool(shown)

        boxes = [pairs.box(self._inside[0], *each) for each in zip(above.steps, below.steps, strict=True)]
        enough = tolerance if score.plain and forest.link == "identity" else 0.0
        self._searched(table, boxes, pairs.goal, is_lowered, enough, f"whether {rule}")
        if not shown:
            return Verdict(True, None, None, f"holds: {rule}")
        before, after = self._predicted(shown[0], output).tolist()
        text = (
            f"does not hold: {rule}; {_words.pair(forest, shown[0], column)} takes it from {before:.6g} to {after:.6g}"
        )
        return Verdict(False, shown[0], (before, after), text)

    def _steps(self, column: int) -> tuple[_Side, _Side]:
        """Return the moves from the numbers of a cell to those of the next: longer ones are made of them."""
        inside, values = self._inside[0][column], self._inside[1][column]
        numbers = np.flatnonzero(inside[:-1])
        low, high = np.zeros((2, max(len(numbers) - 1, 0), len(inside)), bool)
        low[np.arange(len(low)), numbers[:-1]] = True
        high[np.arange(len(high)), numbers[1:]] = True
        return _Side(low, values), _Side(high, values)

    def _also(self, column: int, said: Any, name: str) -> _Side:
        allowed = said_of(self.forest, column, said, name).both(self.allowed[column])
        inside, values = self._cells[column].values(allowed)
        if not inside.any():
            reject(name, said, "leaves no value of the column in this region", "allow more of the column")
        return _Side(inside[None], values)

    def _known_monotone(self, column: int, score: Score, lowers: bool) -> bool:
        """Whether every tree by itself is monotone, which is quickly seen, and enough."""
        forest = self.forest
        if not score.plain or forest.n_outputs > 1:
            return False
        rises = bool(np.array_equal(score.values, forest.leaf_values)) == lowers
        return forest.is_monotone({column: 1 if rises else -1})

    # ---------------------------------------------------------------- words and numbers

    def _output(self, of: Any) -> int:
        forest = self.forest
        if forest.classes is not None:
            labels = forest.classes.tolist()
            if of is None and len(labels) != 2:
                reject("of", of, "does not say which class is meant", f"pass one of {labels}")
            if of is not None and of not in labels:
                reject("of", of, "is none of the forest's classes", f"pass one of {labels}")
            return len(labels) - 1 if of is None else labels.index(of)
        names = list(forest.output_names or ())
        if of is None and forest.n_outputs > 1:
            reject(
                "of", of, "does not say which output is meant", f"pass one of {names or list(range(forest.n_outputs))}"
            )
        if isinstance(of, str) and of in names:
            return names.index(of)
        if of is not None and (isinstance(of, (str, bool)) or not 0 <= of < forest.n_outputs):
            remedy = f"pass one of {names or list(range(forest.n_outputs))}"
            reject("of", of, "is no output of the forest", remedy)
        return int(of or 0)

    def _predicted(self, rows: Float[np.ndarray, "rows features"], output: int) -> Float[np.ndarray, " rows"]:
        if self.forest.classes is not None:
            return self.forest.predict_proba(rows)[:, output]
        return np.asarray(self.forest.predict(rows), np.float64).reshape(len(rows), -1)[:, output]

    def __repr__(self) -> str:
        return f"Certificate({self.forest!r})"


def certify(forest: Forest, within: Mapping[Any, Any] | None, missing: Any, max_boxes: int) -> Certificate:
    """Check that a forest can be certified, and that the region has rows."""
    from hardwood.forest._forest import OBLIQUE

    if (forest.kind == OBLIQUE).any():
        reject("forest", repr(forest), "has oblique splits", "only axis-aligned and category splits can be certified")
    if forest.leaf_coef is not None:
        reject("forest", repr(forest), "has linear leaves", "only forests with constant leaves can be certified")
    if isinstance(max_boxes, bool) or not isinstance(max_boxes, (int, np.integer)) or max_boxes < 1:
        reject("max_boxes", max_boxes, "is no number of boxes", "pass how many may be looked at, such as 100_000")
    made = Certificate(forest, tuple(region(forest, within, missing)), int(max_boxes))
    assert made._inside is not None  # refuses a region without rows now, not at the first question
    return made


def _goal(score: Score, table: _search.Table) -> _search.Goal:
    """Make the score of one row large."""

    def gaps(reached: _search.Reached) -> Float[np.ndarray, " tracks"]:
        return score.gaps(table.leaf[reached.entries], reached.starts)

    return _search.Goal(
        bound=lambda reached: score.upper(table.leaf[reached.entries], reached.starts), gaps=gaps, other_gaps=gaps
    )


def _falling(score: Score, table: _search.Table) -> _search.Goal:
    """Make the score of one row small."""
    return _goal(score, table)._replace(bound=lambda reached: -score.lower(table.leaf[reached.entries], reached.starts))


class _Side(NamedTuple):
    """Where a column moves from, or to: the cells, move by move, and a value in each cell."""

    steps: Bool[np.ndarray, "moves cells"]
    values: Float[np.ndarray, " cells"]
