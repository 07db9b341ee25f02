"""What a diff says can be seen in the predictions of both forests."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hardwood.errors import InvalidArgumentError
from hardwood.forest import CATEGORIES, LEAF, Forest
from helpers.forests import complete_forest, forests, random_rows, small_fields

SEEDS = st.integers(0, 2**32 - 1)


def edited(rng: np.random.Generator, forest: Forest) -> Forest:
    """Change some splits and some leaves."""
    values = np.where(rng.random(forest.leaf_values.shape) < 0.3, 0.25, forest.leaf_values)
    threshold = forest.threshold.copy()
    by_number = (forest.kind != LEAF) & (forest.kind != CATEGORIES)
    threshold[by_number & (rng.random(forest.node_count) < 0.3)] = 0.7
    result = replace(forest, threshold=threshold, leaf_values=values)
    node = int(rng.integers(forest.tree_start[1]))
    return result.merge_leaves(node, values=np.zeros(forest.n_outputs)) if rng.random() < 0.5 else result


@settings(max_examples=30)
@given(forests(), SEEDS)
def test_shares_and_examples_are_those_of_the_predictions(forest: Forest, seed: int):
    rng = np.random.default_rng(seed)
    other = edited(rng, forest)
    X = random_rows(rng, forest, 30)
    X[np.isinf(X)] = 3.0
    found = forest.diff(other, X, n_examples=4)
    numbers = [
        each.predict_proba(X) if each.is_classifier else np.asarray(each.predict(X)).reshape(30, -1)
        for each in (forest, other)
    ]
    with np.errstate(invalid="ignore", over="ignore"):
        by = np.where(numbers[0] == numbers[1], 0.0, np.abs(numbers[0] - numbers[1])).max(axis=1)
    assert (found.largest, found.n_rows) == (by.max(), 30)
    said, says = forest.predict(X), other.predict(X)
    moved = said != says if forest.is_classifier else by > 0
    assert found.changed == moved.mean()
    assert [example.by for example in found.examples] == sorted(by[by > 0], reverse=True)[:4]
    for example in found.examples:
        assert np.array_equal(example.before, said[example.row]) and np.array_equal(example.after, says[example.row])
    same_shape = forest.node_count == other.node_count
    assert (found.leaves_changed is None) == (not same_shape)
    if same_shape:
        assert found.leaves_changed == (forest.apply(X) != other.apply(X)).any(axis=1).mean()


@settings(max_examples=30)
@given(forests(), SEEDS)
def test_regions_hold_for_just_the_rows_for_which_trees_differ(forest: Forest, seed: int):
    rng = np.random.default_rng(seed)
    other = edited(rng, forest)
    X = random_rows(rng, forest, 30)
    found = forest.diff(other, X)
    leaves, others = forest.apply(X), other.apply(X)
    for tree in range(forest.n_trees):
        covered = np.zeros(30, int)
        for region in (each for each in found.regions if each.tree == tree):
            own = np.ones(30, bool)
            for condition in region.conditions:
                own &= condition.holds(X)
            assert own.sum() == region.rows > 0
            assert (leaves[own, tree] == region.leaf).all() and (others[own, tree] == region.other_leaf).all()
            assert str(region) in found.text or len(found.regions) > 10
            covered += own
        with np.errstate(invalid="ignore"):
            differ = (forest.tree_outputs(X)[:, tree] != other.tree_outputs(X)[:, tree]).any(axis=1)
        assert (covered <= 1).all()
        if forest.leaf_coef is None:
            assert (covered[differ] == 1).all()


@settings(max_examples=25)
@given(forests(), SEEDS)
def test_a_forest_does_not_differ_from_itself(forest: Forest, seed: int):
    X = random_rows(np.random.default_rng(seed), forest, 10)
    found = forest.diff(forest, X)
    assert not found
    assert (found.changed, found.leaves_changed, found.largest, found.mean) == (0, 0, 0, 0)
    assert found.examples == found.regions == ()
    assert str(found).startswith("0 of 10 rows (0.0%) get another prediction.")


def test_a_moved_threshold_is_shown_as_a_range():
    forest = Forest(
        tree_start=[0, 3], kind=[1, 0, 0], left=[1, -1, -1], right=[2, -1, -1], feature=[0, -1, -1],
        threshold=[60, 0, 0], missing_left=[False] * 3, n_features=1, feature_names=("age",),
        leaf_values=[[0.8, 0.2], [0.3, 0.7]], classes=["low", "high"], combine="mean",
    )  # fmt: skip
    found = forest.diff(forest.replace_threshold(0, 65), [[50], [61], [64], [65], [np.nan]])
    assert found.changed == found.leaves_changed == 0.4
    assert found.text == (
        "2 of 5 rows (40.0%) get another prediction.\n"
        "Probabilities differ by up to 0.5, by 0.2 on average.\n"
        "40.0% of the rows reach another leaf.\n"
        "Where trees say something else:\n"
        "    60 <= age < 65 (2 rows): high 70%, low 30% -> low 80%, high 20%\n"
        "The largest differences:\n"
        "    row 1: high -> low (by 0.5)\n"
        "    row 2: high -> low (by 0.5)"
    )
    assert repr(found) == "ForestDiff(40.0% of 5 rows change)"
    by_leaves = forest.diff(replace(forest, leaf_values=[[0.8, 0.2], [0.4, 0.6]]), [[50], [61]])
    assert by_leaves.changed == 0 and by_leaves.largest == pytest.approx(0.1)


def test_a_tolerance_and_forests_of_other_sizes():
    rng = np.random.default_rng(0)
    forest = complete_forest(rng, 3, 3, 2)
    X = rng.normal(size=(50, 2))
    nearly = replace(forest, base=[1e-6])
    assert forest.diff(nearly, X).changed == 1
    assert forest.diff(nearly, X, tolerance=1e-3).changed == 0
    fewer = forest.diff(forest[:2], X)
    assert not fewer.same_trees and fewer.regions == () and fewer.leaves_changed is None and fewer.largest > 0


@pytest.mark.parametrize(
    ("changes", "options", "message"),
    [
        ({"feature_names": ("a", "b", "c")}, {}, "has other feature_names"),
        ({"categories": {1: ("red", "blue", "green")}}, {}, "has other categories in column 1"),
        ({"leaf_values": np.zeros((5, 2))}, {}, "has another n_outputs"),
        ({"link": "sigmoid", "classes": ["no", "yes"]}, {}, "has other classes"),
        ({}, {"tolerance": -1.0}, "tolerance=-1.0: is no allowance"),
        ({}, {"n_examples": -1}, "n_examples=-1: is no number of rows"),
    ],
)
def test_bad_arguments(changes: dict[str, Any], options: dict[str, Any], message: str):
    forest = Forest(**small_fields())
    with pytest.raises(InvalidArgumentError, match=re.escape(message)):
        forest.diff(replace(forest, **changes), np.zeros((2, 3)), **options)


def test_what_is_no_forest_and_no_rows():
    forest = Forest(**small_fields())
    with pytest.raises(InvalidArgumentError, match="is not a Forest"):
        forest.diff("forest", np.zeros((2, 3)))  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="has no rows"):
        forest.diff(forest, np.zeros((0, 3)))
