"""Counts and samples of rows agree with what is counted plainly."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hardwood.draw._explorer_rows import histograms, importance_shares, passing, sample, spreads, typical_row
from hardwood.forest import Forest
from helpers.explorer import answers, unpacked
from helpers.forests import complete_forest, forests, random_rows


@settings(max_examples=40)
@given(forests(), st.integers(0, 2**32 - 1))
def test_every_row_is_counted_once(forest: Forest, seed: int):
    rng = np.random.default_rng(seed)
    rows = random_rows(rng, forest, 50)
    truth = answers(rng, forest, 50)
    path, _ = forest.decision_path(rows)
    held = passing(forest, rows, truth)
    np.testing.assert_array_equal(unpacked(held["rows"]), np.asarray(path.sum(axis=0)).ravel())
    if forest.classes is not None:
        counts = unpacked(held["classes"]).reshape(forest.node_count, -1)
        for k, label in enumerate(forest.classes):
            np.testing.assert_array_equal(counts[:, k], np.asarray(path[truth == label].sum(axis=0)).ravel())
    else:
        first = truth.reshape(50, -1)[:, 0]
        met = np.asarray(path.sum(axis=0)).ravel()
        means = np.asarray(path.T @ first).ravel() / np.maximum(met, 1)
        np.testing.assert_allclose(unpacked(held["means"]), means, atol=1e-12)

    for column, histogram in enumerate(histograms(forest, rows, truth, np.ones(forest.n_features, bool))):
        assert histogram is not None
        counted = np.sum(histogram["counts"], dtype=int) + histogram["missing"]
        if column in forest.categories:
            assert counted + histogram["others"] == 50
            known = np.isin(rows[:, column], np.arange(len(forest.categories[column])))
            assert histogram["missing"] == np.count_nonzero(~known)
        else:
            assert counted + histogram["outside"] == 50
            assert np.all(np.diff(histogram["edges"]) > 0)
            assert len(histogram["edges"]) == len(histogram["counts"]) + 1 or not histogram["edges"]


@pytest.mark.parametrize(
    "cells",
    [
        [np.nan] * 4, [np.inf, -np.inf], [3.0] * 5, [1e308, -1e308, 0.0], [1.7976931348623157e308] * 3, [-5e-324, 0.0],
        list(range(300)), [0.0, 1.0, 2.0, 2.0], [1e16, 1e16 + 2],
    ],
)  # fmt: skip
def test_histograms_of_odd_cells(cells: list[float]):
    forest = complete_forest(np.random.default_rng(0), 1, 1, 1)
    table = np.array(cells, np.float64)[:, None]
    (histogram,) = histograms(forest, table, None, np.array([True]))
    assert histogram is not None
    finite = np.isfinite(table).sum()
    assert np.sum(histogram["counts"], dtype=int) == finite
    assert np.isfinite(histogram["edges"]).all()
    if finite:
        assert histogram["range"] == [np.min(table[np.isfinite(table)]), np.max(table[np.isfinite(table)])]


def test_a_long_tail_is_cut_off_and_said_to_be():
    forest = complete_forest(np.random.default_rng(0), 1, 1, 1)
    table = np.append(np.linspace(0, 1, 999), 1e6)[:, None]
    (histogram,) = histograms(forest, table, None, np.array([True]))
    assert histogram is not None
    assert histogram["edges"][-1] <= 1
    assert 1 <= histogram["outside"] <= 30
    assert histogram["range"] == [0.0, 1e6]


def test_the_sample_is_spread_over_the_rows_and_small():
    forest = complete_forest(np.random.default_rng(0), 1, 2, 3)
    table = np.random.default_rng(1).normal(size=(1000, 3))
    held = sample(forest, table, table[:, 0], 10)
    assert held["index"] == [0, 111, 222, 333, 444, 555, 666, 777, 888, 999]
    np.testing.assert_array_equal(unpacked(held["cells"]).reshape(10, 3), table[held["index"]])
    np.testing.assert_array_equal(unpacked(held["truth"]), table[held["index"], 0])
    assert sample(forest, table, None, 0)["index"] == []
    assert sample(forest, table[:4], None, 500)["index"] == [0, 1, 2, 3]
    wide = complete_forest(np.random.default_rng(0), 1, 2, 6000)
    assert len(sample(wide, np.zeros((500, 6000)), None, 500)["index"]) == 10


def test_the_typical_row_holds_cells_that_there_are():
    forest = complete_forest(np.random.default_rng(0), 1, 1, 4, categories={1: ("a", "b", "c")})
    table = np.array([[1.0, 2, np.nan, np.inf], [5.0, 1, np.nan, 2], [7.0, 2, np.nan, np.nan]])
    np.testing.assert_array_equal(typical_row(forest, table), [5.0, 2.0, np.nan, 2.0])


def test_spreads_and_importances():
    forest = complete_forest(np.random.default_rng(0), 3, 3, 4)
    table = np.random.default_rng(1).normal(size=(300, 4))
    np.testing.assert_allclose(spreads(table), table.std(axis=0))
    shares = importance_shares(forest, table)
    assert sum(shares) == pytest.approx(1.0)
    linear = complete_forest(np.random.default_rng(0), 1, 1, 4, leaf_coef=np.ones((2, 4, 1)))
    assert importance_shares(linear, np.full((3, 4), np.inf)) == [0.0] * 4
