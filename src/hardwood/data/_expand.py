"""`ExpandedColumns`: a table as columns of numbers that a weighted sum can use, each still in its own units.

An oblique split adds columns up, which category codes and missing cells do not allow. So a column of few categories
becomes a 0/1 column for each, one of many the mean target of each category, and a column that had missing cells in
training gets a 0/1 column beside it that says so, its holes being filled with the mean. Forests on these columns show
them by name: `colour=blue`, `city~y`, `age missing`. All other columns are those of the table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hardwood._typing import Float
from hardwood.data._categories import (
    Task,
    cross_fitted_means,
    draw_folds,
    known_codes,
    target_matrix,
    target_means,
)
from hardwood.data._columns import Columns, learn_columns, read
from hardwood.data._monotone import check_weights, fit_standard
from hardwood.errors import reject
from hardwood.forest._forest import FeatureType

_SMOOTHING, _FOLDS = 10.0, 5


@dataclass(frozen=True, eq=False)
class _Part:
    """What one raw column becomes."""

    names: tuple[str, ...]  # what is appended to the column's label
    types: tuple[FeatureType, ...]
    fill: float | None = None  # of a column of numbers that had missing cells
    cells: Float[np.ndarray, "words cells"] | None = None  # of a column of categories
    unknown: Float[np.ndarray, " cells"] | None = None  # of a category that training did not have, or none
    flagged: bool = False  # whether a last column says that the cell is missing

    def expand(self, raw: Float[np.ndarray, " rows"]) -> Float[np.ndarray, "rows cells"]:
        missing = np.isnan(raw)[:, None]
        if self.cells is None:
            values = raw[:, None] if self.fill is None else np.where(missing, self.fill, raw[:, None])
        else:
            assert self.unknown is not None
            values = np.concatenate([self.cells, self.unknown[None]])[known_codes(raw, len(self.cells))]
        return np.concatenate([values, missing], axis=1) if self.flagged else values


@dataclass(frozen=True, eq=False)
class ExpandedColumns:
    """The columns of a table, and what each becomes. `learn_expanded` makes it from training rows.

    A missing cell of a column of numbers that had none in training stays missing. A category that training did not
    have is no category: 0 in all its columns, or the overall mean target.
    """

    columns: Columns
    _parts: tuple[_Part, ...]

    def __len__(self) -> int:
        return len(self.types)

    @property
    def names(self) -> tuple[str, ...] | None:
        """The names of the expanded columns; None where the table had none and is as it was."""
        if self.columns.names is None and len(self) == len(self.columns) and not self.columns.categories:
            return None
        return self.labels

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of the expanded columns, made up of x0, x1, ... where the table had none."""
        names: dict[str, None] = {}
        for label, part in zip(self.columns.labels, self._parts, strict=True):
            for end in part.names:
                name = label + end
                while name in names:  # the number 1 and the text "1" look alike
                    name += "'"
                names[name] = None
        return tuple(names)

    @property
    def types(self) -> tuple[FeatureType, ...]:
        """The types of the expanded columns."""
        return tuple(kind for part in self._parts for kind in part.types)

    @property
    def source(self) -> tuple[int, ...]:
        """The number of the table's column that each expanded column comes from."""
        return tuple(column for column, part in enumerate(self._parts) for _ in part.types)

    def to_raw(self, X: Any) -> Float[np.ndarray, "rows expanded"]:
        """Return a table as the expanded columns, as forests on them take it."""
        return self.expand(self.columns.to_raw(X))

    def expand(self, raw: Float[np.ndarray, "rows columns"]) -> Float[np.ndarray, "rows expanded"]:
        """Return the expanded columns of rows in raw coding."""
        parts = [part.expand(raw[:, column]) for column, part in enumerate(self._parts)]
        return np.ascontiguousarray(np.concatenate(parts, axis=1))


def learn_expanded(
    X: Any,
    y: Any,
    sample_weight: Any = None,
    *,
    task: Task = "regression",
    categorical_features: Any = "from_dtype",
    one_hot_max_size: int = 10,
    seed: int = 0,
) -> tuple[ExpandedColumns, Float[np.ndarray, "rows expanded"]]:
    """Learn the columns of a table, and return them with its rows expanded.

    Where categories are encoded by target these rows differ from `to_raw` of the same table: no row's own target is in
    its encoding. Infinite cells are refused, since no weighted sum can hold them.
    """
    table = read(X)
    weight = check_weights(sample_weight, len(table))
    columns = learn_columns(table, categorical_features)
    raw = columns.to_raw(table)
    if np.isinf(raw).any():
        row, column = (int(each) for each in np.argwhere(np.isinf(raw))[0])
        remedy = "clip the column, or leave the cell empty"
        reject(f"X[{columns.labels[column]!r}][{row}]", float(raw[row, column]), "is infinite", remedy)
    targets, target_names = target_matrix(y, task, weight)
    fold = draw_folds(weight > 0, _FOLDS, np.random.default_rng(seed))
    parts: list[_Part] = []
    expanded: list[Float[np.ndarray, "rows cells"]] = []
    for column, words in enumerate(columns.vocabularies):
        cells = raw[:, column]
        flagged = bool(np.isnan(cells).any())
        flag_names: tuple[str, ...] = (" missing",) if flagged else ()
        flag_types: tuple[FeatureType, ...] = ("bool",) if flagged else ()
        made = None
        if words is None:
            kind: FeatureType = (
                "float" if flagged and columns.types[column] in ("int", "bool") else columns.types[column]
            )
            fill = fit_standard(cells, weight).mean if flagged else None
            part = _Part(("", *flag_names), (kind, *flag_types), fill, flagged=flagged)
        elif len(words) <= one_hot_max_size:
            shown = np.eye(len(words))[:, 1:] if len(words) == 2 else np.eye(len(words))
            names = tuple(f"={word}" for word in (words[1:] if len(words) == 2 else words))
            if not words:  # nothing but missing cells
                shown, names = np.zeros((0, 1)), ("=",)
            unknown = np.zeros(shown.shape[1])
            bools: tuple[FeatureType, ...] = tuple("bool" for _ in names)
            part = _Part((*names, *flag_names), (*bools, *flag_types), None, shown, unknown, flagged)
        else:
            codes = known_codes(cells, len(words))
            known = target_means(codes, len(words), targets, weight, _SMOOTHING)
            seen = cross_fitted_means(codes, len(words), targets, weight, _SMOOTHING, fold, _FOLDS)
            overall = np.average(targets, axis=0, weights=weight)
            names = tuple(f"~y{name}" for name in target_names)
            floats: tuple[FeatureType, ...] = tuple("float" for _ in names)
            part = _Part((*names, *flag_names), (*floats, *flag_types), None, known, overall, flagged)
            made = np.where((codes < 0)[:, None], overall, seen)
        parts.append(part)
        values = part.expand(cells)
        if made is not None:
            values[:, : made.shape[1]] = made
        expanded.append(values)
    return ExpandedColumns(columns, tuple(parts)), np.ascontiguousarray(np.concatenate(expanded, axis=1))
