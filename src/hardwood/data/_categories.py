"""Categories as numbers: one-hot cells for few of them, cross-fitted target encodings for many.

Why training rows are encoded by folds that are drawn row by row: a row must not see its own target, and leaving out
just that one row (leave-one-out) gives its target away again, because within a category the encoding then takes two
values, one for each target. Weights count in every sum as repetitions do, so what new rows get is the same for a row
of weight 2 and for a row that occurs twice. For training rows that holds when the copies fall into one fold. It cannot
hold for any folds: copies would have to be left out together, and in a table where many rows are equal (one column of
cities, say) each would then see the other targets of its city only, that is the opposite of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from hardwood._typing import Bool, Float, Int
from hardwood.data._cells import Word
from hardwood.errors import reject

Task = Literal["regression", "classification"]
# A column per class for each column of categories: beyond this many, only the most frequent classes have theirs.
_MOST_CLASSES = 16


@dataclass(frozen=True, eq=False)
class CategoryCells:
    """The encoded cells of every category of one column. Any other code, and NaN, is encoded as NaN in all cells."""

    values: Float[np.ndarray, "words cells"]  # float32
    names: tuple[str, ...]  # one per cell, empty for a single cell

    def transform(self, codes: Float[np.ndarray, " rows"]) -> Float[np.ndarray, "rows cells"]:
        """Return the cells of each code."""
        place = known_codes(codes, len(self.values))
        unknown = np.full((1, self.values.shape[1]), np.nan, np.float32)
        # The unknown row stands last, where place -1 finds it.
        return np.concatenate([self.values, unknown])[place]


def known_codes(codes: Float[np.ndarray, " rows"], n_words: int) -> Int[np.ndarray, " rows"]:
    """Return codes as integers, with -1 for NaN and for what is no code, as a `Forest` decides it."""
    with np.errstate(invalid="ignore"):  # a signalling NaN
        known = (codes >= 0) & (codes < n_words) & (codes == np.floor(codes))
    return np.where(known, codes, -1).astype(np.int64)


def one_hot_cells(words: Sequence[Word]) -> CategoryCells:
    """Return one-hot cells: +1 in a category's own cell and -1 elsewhere, so that thresholds near 0 tell them apart.

    Two categories need one cell only, that of the second; so does a single one, to be told from a missing value.
    """
    if len(words) < 3:
        cells = np.full((len(words), 1), -1.0, np.float32)
        cells[-1:] = 1.0
        return CategoryCells(cells, (f"={words[-1]}" if len(words) else "",))
    cells = np.full((len(words), len(words)), -1.0, np.float32)
    np.fill_diagonal(cells, 1.0)
    return CategoryCells(cells, tuple(f"={word}" for word in words))


def target_matrix(
    y: Any, task: Task, weight: Float[np.ndarray, " rows"]
) -> tuple[Float[np.ndarray, "rows targets"], tuple[str, ...]]:
    """Return the numbers whose means encode a category, and what each is called.

    Regression: y, one column per output. Classification: 0 or 1 for the second of two classes; for more classes one
    such column each, because a single number per category could only set one class against all others. There are at
    most 16 of them, those of the classes with the most weight. Multi-label targets are taken like several outputs.
    """
    given = np.asarray(y)
    if given.ndim not in (1, 2) or given.shape[0] != len(weight):
        wanted = f"must have {len(weight)} entries, one per row"
        reject("y", f"an array of shape {given.shape}", wanted, "pass a target for each row of X")
    if task == "classification" and (given.ndim == 1 or given.shape[1] == 1):
        return _class_columns(given.reshape(-1), weight)
    try:
        targets = given.reshape(len(given), -1).astype(np.float64)
    except (TypeError, ValueError):
        reject("y", given[:3].tolist(), "does not hold numbers", "pass numbers, or task='classification'")
    if not np.isfinite(targets).all():
        row = int(np.argmax(~np.isfinite(targets).all(axis=1)))
        reject(f"y[{row}]", given[row].tolist(), "is not finite", "drop rows without a target")
    several = targets.shape[1] > 1
    return targets, tuple(f"[{output}]" if several else "" for output in range(targets.shape[1]))


def _class_columns(
    labels: np.ndarray, weight: Float[np.ndarray, " rows"]
) -> tuple[Float[np.ndarray, "rows targets"], tuple[str, ...]]:
    if labels.dtype.kind == "f" and np.isnan(labels).any():
        reject(f"y[{int(np.argmax(np.isnan(labels)))}]", np.nan, "is no label", "drop rows without a target")
    try:
        classes, which = np.unique(labels, return_inverse=True)
    except TypeError:
        reject("y", labels[:3].tolist(), "mixes labels that cannot be sorted", "pass labels of one type")
    if len(classes) <= 2:
        return (which == 1).astype(np.float64)[:, None], ("",)
    share = np.bincount(which, weight, minlength=len(classes))
    chosen = np.sort(np.argsort(-share, kind="stable")[:_MOST_CLASSES])
    return (which[:, None] == chosen).astype(np.float64), tuple(f"[{label}]" for label in classes[chosen].tolist())


def target_means(
    codes: Int[np.ndarray, " rows"],
    n_words: int,
    targets: Float[np.ndarray, "rows targets"],
    weight: Float[np.ndarray, " rows"],
    smoothing: float,
) -> Float[np.ndarray, "words targets"]:
    """Return the mean target of each category over all rows, drawn to the overall mean as if by `smoothing` more rows.

    A code of -1 is a missing value, which counts in the overall mean only. The cost is linear in rows and categories.
    """
    fold = np.zeros(len(codes), np.int64)
    sums, weights = _sums(codes, n_words, fold, 1, targets, weight)
    means = _means(sums[:, 0], weights[:, 0], sums.sum(axis=0)[0], weights.sum(axis=0)[0], smoothing)
    return means[:-1]


def cross_fitted_means(
    codes: Int[np.ndarray, " rows"],
    n_words: int,
    targets: Float[np.ndarray, "rows targets"],
    weight: Float[np.ndarray, " rows"],
    smoothing: float,
    fold: Int[np.ndarray, " rows"],
    n_folds: int,
) -> Float[np.ndarray, "rows targets"]:
    """Return for each row the mean target of its category over the rows of the other folds; NaN if it is missing.

    Categories that only the row's own fold has get the overall mean of the other folds. What a row gets does not
    depend on its own target, to the last bit: sums over the other folds are added up, not taken back from the whole.
    The cost is linear in rows, and in categories times folds.
    """
    sums, weights = _sums(codes, n_words, fold, n_folds, targets, weight)
    sums, weights = _others(sums), _others(weights)
    means = _means(sums, weights, sums.sum(axis=0), weights.sum(axis=0), smoothing)
    means[-1] = np.nan
    return means[codes, fold]


def _sums(
    codes: Int[np.ndarray, " rows"],
    n_words: int,
    fold: Int[np.ndarray, " rows"],
    n_folds: int,
    targets: Float[np.ndarray, "rows targets"],
    weight: Float[np.ndarray, " rows"],
) -> tuple[Float[np.ndarray, "groups folds targets"], Float[np.ndarray, "groups folds 1"]]:
    """Return the weighted sums of targets, and of weights, per category and fold; missing values stand last."""
    group = np.where(codes < 0, n_words, codes) * n_folds + fold
    size = (n_words + 1) * n_folds
    columns = [np.bincount(group, weight * column, minlength=size) for column in targets.T]
    sums = np.stack(columns, axis=-1).reshape(n_words + 1, n_folds, -1)
    return sums, np.bincount(group, weight, minlength=size).reshape(n_words + 1, n_folds, 1)


def _others(per_fold: Float[np.ndarray, "words folds cells"]) -> Float[np.ndarray, "words folds cells"]:
    """Return for each fold the sum over all other folds, without ever adding the fold's own."""
    before, after = np.zeros_like(per_fold), np.zeros_like(per_fold)
    before[:, 1:] = np.cumsum(per_fold[:, :-1], axis=1)
    after[:, :-1] = np.cumsum(per_fold[:, :0:-1], axis=1)[:, ::-1]
    return before + after


def _means(
    sums: Float[np.ndarray, "*cells targets"],
    weights: Float[np.ndarray, "*cells 1"],
    all_sums: Float[np.ndarray, "*folds targets"],
    all_weights: Float[np.ndarray, "*folds 1"],
    smoothing: float,
) -> Float[np.ndarray, "*cells targets"]:
    """Return smoothed means; where no rows are, the overall mean, and 0 where there are no rows at all."""
    overall = all_sums / np.where(all_weights > 0, all_weights, 1.0)
    total = weights + smoothing
    return np.where(total > 0, (sums + smoothing * overall) / np.where(total > 0, total, 1.0), overall)


def draw_folds(counted: Bool[np.ndarray, " rows"], n_folds: int, rng: np.random.Generator) -> Int[np.ndarray, " rows"]:
    """Draw a fold for each row, of sizes as equal as can be among the rows that count; the others get fold 0."""
    fold = np.zeros(len(counted), np.int64)
    fold[counted] = rng.permutation(np.arange(int(counted.sum())) % n_folds)
    return fold
