"""Counts at nodes are the counts of the rows that pass them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hardwood.draw._census import census
from hardwood.draw._words import Words
from hardwood.errors import InvalidArgumentError
from hardwood.forest import Forest
from helpers.forests import complete_forest, forests, random_rows, reference_paths, small_fields


@settings(max_examples=50)
@given(forests(), st.integers(0, 2**32 - 1))
def test_rows_classes_and_values_are_those_of_the_rows_that_pass(forest: Forest, seed: int):
    rng = np.random.default_rng(seed)
    X = random_rows(rng, forest, 30)
    y = rng.choice(forest.classes, 30) if forest.is_classifier else rng.normal(size=(30, forest.n_outputs))
    paths = [reference_paths(forest, row) for row in X.tolist()]
    for tree in range(forest.n_trees):
        known = census(forest, tree, X, y)
        assert known is not None
        for node in range(int(forest.tree_start[tree]), int(forest.tree_start[tree + 1])):
            here, passing = node - int(forest.tree_start[tree]), np.array([node in path[tree] for path in paths])
            assert known.rows[here] == passing.sum()
            assert known.share(here) == passing.mean()
            if forest.classes is not None:
                assert known.classes is not None
                assert known.classes[here].tolist() == [(y[passing] == each).sum() for each in forest.classes]
                continue
            assert known.spread is not None
            assert known.spread.histogram[here].sum() == passing.sum()
            if passing.any():
                np.testing.assert_allclose(known.spread.mean[here], y[passing].mean(axis=0), atol=1e-12)
                np.testing.assert_allclose(known.spread.deviation[here], y[passing].std(axis=0), atol=1e-7)


def test_a_histogram_counts_the_values_of_its_bins():
    rng = np.random.default_rng(0)
    forest = complete_forest(rng, 1, 2, 2)
    X, y = rng.normal(size=(500, 2)), np.round(rng.normal(size=500), 1)
    known = census(forest, 0, X, y)
    assert known is not None and known.spread is not None
    np.testing.assert_array_equal(known.spread.histogram[0], np.histogram(y, known.spread.edges)[0])


def test_huge_values_have_a_mean_and_a_spread():
    forest = Forest(**{**small_fields(), "feature_types": None})
    known = census(forest, 0, np.zeros((2, 3)), np.array([1.7e308, 1.5e308]))
    assert known is not None and known.spread is not None
    assert known.spread.mean[0, 0] == pytest.approx(1.6e308)
    assert known.spread.deviation[0, 0] == pytest.approx(0.1e308)


def test_in_words():
    forest = Forest(**small_fields())
    words = Words(forest, 0)
    known = census(forest, 0, np.zeros((3, 3)), [1.0, 2.0, 3.0])
    assert known is not None
    assert known.words(words, 0) == "3 rows: mean 2, sd 0.816497"
    assert known.words(words, 2) == "0 rows"
    alone = census(forest, 0, np.zeros((1, 3)))
    assert alone is not None and alone.words(words, 1) == "1 row"


def test_without_rows_nothing_is_known():
    forest = Forest(**small_fields())
    assert census(forest, 0, None) is None
    with pytest.raises(InvalidArgumentError, match="is given without X"):
        census(forest, 0, None, [1.0])
    empty = census(forest, 0, np.zeros((0, 3)), np.zeros(0))
    assert empty is not None and empty.share(0) == 0
