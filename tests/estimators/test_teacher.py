"""A forest's answers as a target: each row judged without itself, and made rows that could be real ones."""

from __future__ import annotations

import numpy as np

from hardwood.estimators import _teacher
from hardwood.estimators._rows import Rows
from hardwood.estimators._target import of_classes, of_numbers
from hardwood.estimators._teacher import can_be_taught, lesson
from helpers.fits import numbers


def rows_of(y: np.ndarray, weight: np.ndarray | None = None) -> Rows:
    weight = np.ones(len(y)) if weight is None else weight
    target = of_numbers(y, "squared_error", weight) if y.dtype == float else of_classes(y, "cross_entropy")
    return Rows(None, target, weight)


def test_real_rows_come_first_and_made_ones_are_put_together_from_them():
    x = numbers(80)
    x[:, 2] = x[:, 1] * 2  # one column of the table, in two cells
    x[::7, 3] = np.nan
    taught = lesson(x, rows_of((x[:, 0] > 0).astype(int)), (1, 2, 1), seed=0, n_jobs=1)
    np.testing.assert_array_equal(taught.x[:80], x)
    made = taught.x[80:]
    assert len(taught.x) == _teacher._ROWS == len(taught.signal) == len(taught.weight)
    assert np.isin(made[:, 0], x[:, 0]).all()
    np.testing.assert_array_equal(made[:, 2], made[:, 1] * 2)
    assert np.isnan(made[:, 3]).any()
    mixed = [not (x[:, [0, 1]] == row).all(1).any() for row in made[:200, [0, 1]]]
    assert 0.2 < np.mean(mixed) < 0.6  # two in eight columns come from elsewhere, and either may


def test_a_row_is_judged_by_forests_that_did_not_see_it():
    x = numbers(60)
    y = x[:, 0] + np.abs(x[:, 1])
    before = lesson(x, rows_of(y), (1,) * 4, seed=1, n_jobs=1).signal[:60]
    told = y.copy()
    told[10] += 3
    target = rows_of(y).target
    after = lesson(x, Rows(None, target.like(told), np.ones(60)), (1,) * 4, seed=1, n_jobs=1).signal[:60]
    assert before[10] == after[10]
    assert (before != after).any()
    assert np.corrcoef(before[:, 0], y)[0, 1] > 0.7


def test_heavier_rows_are_drawn_more_often_and_rows_of_no_weight_never():
    x = numbers(50)
    weight = np.r_[np.zeros(10), np.ones(30), np.full(10, 5.0)]
    made = lesson(x, rows_of((x[:, 0] > 0).astype(int), weight), (1,) * 4, seed=0, n_jobs=1).x[50:]
    counts = np.array([(made[:, 0] == value).sum() for value in x[:, 0]])
    assert (counts[:10] == 0).all()
    assert 4 < counts[40:].mean() / counts[10:40].mean() < 6


def test_the_cost_is_bounded():
    rng = np.random.default_rng(0)
    wide = rng.normal(size=(30, 60_000 // 2))
    assert len(_teacher._made_rows(wide, np.ones(30), (1,) * wide.shape[1], rng)) == 1_000_000 // 30_000 - 30
    assert len(_teacher._made_rows(numbers(9000), np.ones(9000), (1,) * 4, rng)) == 0
    assert can_be_taught(rows_of(np.arange(40) % 2))
    assert not can_be_taught(rows_of(np.arange(8) % 2))
    assert not can_be_taught(rows_of(np.arange(4000) % 500))


def test_shares_of_several_classes_stay_shares():
    x = numbers(70)
    y = np.digitize(x[:, 0], [-0.5, 0.5])
    taught = lesson(x, rows_of(y), (1,) * 4, seed=0, n_jobs=1)
    assert taught.signal.shape[1] == 3
    np.testing.assert_allclose(taught.signal.sum(1), 1)
    assert (taught.signal[:70].argmax(1) == y).mean() > 0.85
