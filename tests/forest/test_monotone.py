"""A monotone forest never falls, in any bit; one that is not shows why."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.ensemble import HistGradientBoostingRegressor

from hardwood.errors import InvalidArgumentError
from hardwood.forest import CATEGORIES, LEAF, OBLIQUE, THRESHOLD, Forest, from_sklearn
from hardwood.forest._monotone import _words
from helpers.forests import complete_forest, forests, random_forest, random_rows
from helpers.moves import moves

SEEDS = st.integers(0, 2**32 - 1)
CONSTANT_LEAVES = {"kinds": (THRESHOLD, CATEGORIES), "linear": False, "task": "regression"}


def random_directions(rng: np.random.Generator, forest: Forest) -> np.ndarray:
    directions = rng.integers(-1, 2, forest.n_features)
    directions[list(forest.categories)] = 0
    return directions


def told_rows(rng: np.random.Generator, forest: Forest, rows: int = 200) -> np.ndarray:
    """Rows with edges, of which many have valid category codes."""
    X = random_rows(rng, forest, rows)
    for column in forest.categories:
        codes = rng.random(rows) < 0.7
        X[codes, column] = rng.integers(-1, 6, int(codes.sum()))
    return X


@given(forests(**CONSTANT_LEAVES), SEEDS)
def test_outputs_of_a_forest_made_monotone_never_fall(forest: Forest, seed: int) -> None:
    rng = np.random.default_rng(seed)
    directions = random_directions(rng, forest)
    forest = replace(forest, leaf_values=rng.normal(size=forest.leaf_values.shape))
    if forest.leaf_weights is not None:
        scale = rng.choice([1.0, 400.0])  # beyond 300 every row's softmax is taken on its own
        forest = replace(forest, leaf_weights=scale * rng.normal(size=forest.n_leaves))
    monotone = forest.make_monotone(directions)
    assert monotone.is_monotone(directions)
    assert monotone.make_monotone(directions) == monotone
    for direction, low, high in moves(rng, told_rows(rng, forest), directions):
        assert (direction * (monotone.outputs(high) - monotone.outputs(low)) >= 0).all()


@given(forests(**CONSTANT_LEAVES), SEEDS)
def test_a_forest_is_monotone_or_shows_a_tree_that_is_not(forest: Forest, seed: int) -> None:
    directions = random_directions(np.random.default_rng(seed), forest)
    shown = forest.monotone_violation(directions)
    assert forest.is_monotone(directions) == (shown is None)
    if shown is None:
        assert forest.make_monotone(directions) == forest
        return
    low, high = shown.rows
    differs = ~((low == high) | (np.isnan(low) & np.isnan(high)))
    assert differs.tolist() == (np.arange(forest.n_features) == shown.column).tolist()
    assert low[shown.column] < high[shown.column]
    tree = forest[shown.tree]
    if shown.what == "leaf_values":
        outputs = tree.tree_outputs(shown.rows)[:, 0]
        assert (directions[shown.column] * (outputs[1] - outputs[0]) < 0).any()
    else:
        leaves = (np.cumsum(tree.kind == LEAF) - 1)[tree.apply(shown.rows)[:, 0]]
        assert tree.leaf_weights is not None
        assert tree.leaf_weights[leaves[0]] != tree.leaf_weights[leaves[1]]


@pytest.mark.parametrize("seed", range(20))
def test_no_violation_is_overlooked(seed: int) -> None:
    """Whatever falls among random rows is known to."""
    rng = np.random.default_rng(seed)
    forest = random_forest(rng, n_trees=1, combine="sum", max_splits=6, n_features=2, **CONSTANT_LEAVES)
    directions = random_directions(rng, forest)
    falls = any(
        (direction * (forest.outputs(high) - forest.outputs(low)) < 0).any()
        for direction, low, high in moves(rng, told_rows(rng, forest, 3000), directions)
    )
    assert falls == (not forest.is_monotone(directions))


def test_values_move_to_the_middle_of_their_bounds() -> None:
    """Four leaves side by side that say 3, 1, 2, 0."""
    rng = np.random.default_rng(0)
    forest = complete_forest(rng, 1, 2, 1)
    threshold = np.zeros(7)
    threshold[:3] = [0.0, -1.0, 1.0]
    forest = replace(forest, threshold=threshold, leaf_values=[[3.0], [1.0], [2.0], [0.0]])
    assert forest.make_monotone([1]).leaf_values.ravel().tolist() == [1.5, 1.5, 1.5, 1.5]
    assert forest.make_monotone([-1]).leaf_values.ravel().tolist() == [3.0, 1.5, 1.5, 0.0]
    huge = replace(forest, leaf_values=[[1.7e308], [1.5e308], [1.6e308], [1.7e308]])
    np.testing.assert_allclose(huge.make_monotone([1]).leaf_values.ravel() / 1e308, [1.6, 1.6, 1.65, 1.7])


def test_equal_weights_stay_what_they_are() -> None:
    forest = complete_forest(np.random.default_rng(0), 1, 4, 2, combine="softmax", leaf_weights=np.full(16, 0.1))
    assert (forest.make_monotone([1, -1]).leaf_weights == 0.1).all()


def test_scikit_learn_keeps_its_constraints() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 3))
    x[rng.random(x.shape) < 0.1] = np.nan
    y = np.nan_to_num(x[:, 0]) - np.nan_to_num(x[:, 1]) + rng.normal(size=300)
    constrained = HistGradientBoostingRegressor(max_iter=20, monotonic_cst=[1, -1, 0]).fit(x, y)
    assert from_sklearn(constrained).is_monotone([1, -1, 0])
    free = HistGradientBoostingRegressor(max_iter=20).fit(x, y)
    forest = from_sklearn(free, feature_names=["up", "down", "other"])
    assert not forest.is_monotone({"up": 1, "down": -1})
    assert forest.make_monotone({"up": 1, "down": -1}).is_monotone([1, -1, 0])
    assert forest.is_monotone({}) and forest.make_monotone([0, 0, 0]) == forest


def test_words_hold_more_than_64_codes() -> None:
    bits = np.random.default_rng(0).random((3, 130)) < 0.5
    words = _words(bits)
    assert words.shape == (3, 3)
    for row, code in np.ndindex(*bits.shape):
        assert bool(int(words[row, code // 64]) >> (code % 64) & 1) == bits[row, code]


def test_many_categories_keep_leaves_apart() -> None:
    """Category 100 takes the left path, others the right one; beyond, no row meets both."""
    names = tuple(range(130))

    def forest(second: int) -> Forest:
        return Forest(
            tree_start=[0, 7], kind=[THRESHOLD, CATEGORIES, CATEGORIES, LEAF, LEAF, LEAF, LEAF],
            left=[1, 3, 5, -1, -1, -1, -1], right=[2, 4, 6, -1, -1, -1, -1], feature=[0, 1, 1, -1, -1, -1, -1],
            threshold=np.zeros(7), missing_left=np.array([False] * 7), n_features=2, categories={1: names},
            category_start=[0, 0, 1, 2, 2, 2, 2, 2], category_codes=[100, second],
            leaf_values=[[5.0], [0.0], [6.0], [1.0]],
        )  # fmt: skip

    assert forest(100).is_monotone([1, 0])
    shown = forest(101).monotone_violation([1, 0])
    assert shown is not None and shown.rows[0, 1] == 100


@pytest.mark.parametrize(
    ("constraints", "message"),
    [
        ([1], r"constraints=\[1\].*1 entries for 3 columns"),
        ([2, 0, 0], r"constraints\[0\]=2.*no direction"),
        ([0, 1, 0], r"constraints\[1\]=1.*categories"),
        ({"length": 1}, r"constraints='length'.*'size'"),
        ({3: 1}, r"constraints=3.*no column of the 3"),
    ],
)
def test_constraints_that_make_no_sense(constraints: object, message: str) -> None:
    forest = Forest(
        tree_start=[0, 1], kind=[LEAF], left=[-1], right=[-1], feature=[-1], threshold=[0.0],
        missing_left=np.array([False]), leaf_values=[[1.0]], n_features=3, feature_names=("size", "colour", "age"),
        categories={1: ("red", "blue")},
    )  # fmt: skip
    with pytest.raises(InvalidArgumentError, match=message):
        forest.is_monotone(constraints)
    with pytest.raises(InvalidArgumentError, match=message):
        forest.make_monotone(constraints)


def test_forests_that_cannot_be_checked() -> None:
    rng = np.random.default_rng(0)
    oblique = random_forest(rng, kinds=(OBLIQUE,), n_trees=9, n_features=2, task="regression")
    with pytest.raises(InvalidArgumentError, match="oblique splits"):
        oblique.is_monotone([1, 0])
    forest = complete_forest(rng, 1, 2, 2, 2)
    with pytest.raises(InvalidArgumentError, match="linear leaves"):
        replace(forest, leaf_coef=np.ones((4, 2, 2))).make_monotone([1, 0])
    classes = replace(forest, link="softmax", classes=np.array([0, 1]))
    with pytest.raises(InvalidArgumentError, match=r"output for each class.*sigmoid"):
        classes.is_monotone([1, 0])
