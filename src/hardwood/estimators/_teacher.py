"""What a random forest says of the rows, and of rows made from them: a calmer target to grow a first tree on.

A greedy tree follows every accident of its rows. A forest's answers have fewer of them, each row being judged by
forests that did not see it; and where rows are few, made ones show the tree what the forest says between them
(Breiman and Shang, Born Again Trees, 1996). The tree's leaves are set by the real rows all the same.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from hardwood._typing import Float, Int
from hardwood.estimators._rows import Rows

# Each row is judged by the forest of the other folds' rows. A tree of a forest sees no more rows than these, so that
# the cost grows with rows, not faster.
_FOLDS, _TREES, _MOST_SEEN = 5, 50, 5000
# Made rows fill a table up to so many rows, or so many cells.
_ROWS, _CELLS = 8000, 1_000_000
# The share of a made row's cells that come from another row.
_SWAPPED = 0.25
# Fewer rows teach a forest nothing; and its leaves hold a number for each class.
_FEWEST, _MOST_NUMBERS = 10, 20_000_000


class Lesson(NamedTuple):
    """Rows to grow trees on: the real ones first."""

    x: Float[np.ndarray, "rows features"]
    signal: Float[np.ndarray, "rows signals"]
    weight: Float[np.ndarray, " rows"]


def can_be_taught(rows: Rows) -> bool:
    """Tell whether there are rows enough for a forest, and not too many numbers to tell of each."""
    numbers = 2 * _TREES * min(len(rows), _MOST_SEEN) * rows.target.signal.shape[1]
    return len(rows) >= _FEWEST and numbers <= _MOST_NUMBERS


def lesson(
    x: Float[np.ndarray, "rows features"], rows: Rows, widths: tuple[int, ...], seed: int, n_jobs: int
) -> Lesson:
    """Return encoded rows, and made ones, with a forest's answers in the place of the targets.

    `widths` says how many neighbouring cells stand for one column of the table.
    """
    rng = np.random.default_rng(seed)
    made = _made_rows(x, rows.weight, widths, rng)
    signal = rows.target.signal
    if rows.target.classes is not None and signal.shape[1] == 2:
        signal = signal[:, 1:]  # the first column says the same
    answers, answers_made = np.zeros_like(signal), np.zeros((len(made), signal.shape[1]))
    fold = _folds(rows, rng)
    for number in range(_FOLDS):
        inside = fold != number
        forest = _forest(rows, seed + number, int(inside.sum()), n_jobs)
        answer = signal[inside] if signal.shape[1] > 1 else signal[inside, 0]
        forest.fit(x[inside], answer, sample_weight=rows.weight[inside])
        if not inside.all():
            answers[~inside] = forest.predict(x[~inside]).reshape(-1, signal.shape[1])
        if len(made):
            answers_made += forest.predict(made).reshape(-1, signal.shape[1]) / _FOLDS
    return Lesson(
        np.concatenate([x, made]),
        np.concatenate([answers, answers_made]),
        np.concatenate([rows.weight, np.full(len(made), rows.weight.mean())]),
    )


def _made_rows(
    x: Float[np.ndarray, "rows features"],
    weight: Float[np.ndarray, " rows"],
    widths: tuple[int, ...],
    rng: np.random.Generator,
) -> Float[np.ndarray, "made features"]:
    """Return rows some of whose columns come from other rows; heavier rows are drawn more often."""
    count = max(0, min(_ROWS, _CELLS // x.shape[1]) - len(x))
    share = weight / weight.sum()
    one, other = rng.choice(len(x), (2, count), p=share)
    swapped = np.repeat(rng.random((count, len(widths))) < _SWAPPED, widths, axis=1)
    return np.where(swapped, x[other], x[one])


def _folds(rows: Rows, rng: np.random.Generator) -> Int[np.ndarray, " rows"]:
    """Return each row's fold, the classes in proportion."""
    labels = np.zeros(len(rows)) if rows.labels is None else rows.labels
    fold = np.empty(len(rows), np.int64)
    fold[np.lexsort((rng.random(len(rows)), labels))] = np.arange(len(rows)) % _FOLDS
    return fold


def _forest(rows: Rows, seed: int, n_rows: int, n_jobs: int) -> Any:
    """Return an unfitted forest. The squared error of classes' indicators is Gini's criterion."""
    from sklearn.ensemble import RandomForestRegressor

    return RandomForestRegressor(
        _TREES,
        max_features=1 / 3 if rows.target.classes is None else "sqrt",
        max_samples=min(n_rows, _MOST_SEEN),
        random_state=seed,
        n_jobs=n_jobs,
    )
