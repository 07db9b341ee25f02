"""Permutation importances agree with scikit-learn's, and leave everything as it was."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from hardwood import explain
from hardwood.errors import InvalidArgumentError
from hardwood.forest import Forest
from helpers.forests import complete_forest, random_forest, random_rows, small_fields


def classifier(rng: np.random.Generator, classes: Any = ("no", "yes", "maybe")) -> Forest:
    return complete_forest(rng, 4, 3, 3, 3, classes=np.array(classes), link="softmax")


@pytest.mark.parametrize("outputs", [1, 2])
@pytest.mark.parametrize("weighed", [False, True])
def test_the_default_of_a_regression_is_the_mean_squared_error(outputs: int, weighed: bool):
    from sklearn.metrics import mean_squared_error

    rng = np.random.default_rng(outputs)
    forest = complete_forest(rng, 4, 3, 3, outputs)
    X = rng.normal(size=(40, 3))
    y = forest.outputs(X)[:, :outputs] + rng.normal(size=(40, outputs))
    y = y[:, 0] if outputs == 1 else y
    weights = rng.uniform(0.1, 2, 40) if weighed else None
    found = explain.permutation_importances(forest, X, y, sample_weight=weights)
    same = explain.permutation_importances(forest, X, y, metric=mean_squared_error, sample_weight=weights)
    np.testing.assert_allclose(found.means, same.means, atol=1e-12)
    np.testing.assert_allclose(found.deviations, same.deviations, atol=1e-12)
    assert (found.means[np.unique(forest.feature[forest.feature >= 0])] > 0).all()


@pytest.mark.parametrize("classes", [("no", "yes", "maybe"), (2, 0, 1)])
def test_the_default_of_a_classifier_is_the_log_loss(classes: tuple[Any, ...]):
    from sklearn.metrics import log_loss

    rng = np.random.default_rng(0)
    forest = classifier(rng, classes)
    X = rng.normal(size=(60, 3))
    y = forest.predict(X)
    order = np.argsort(forest.classes)

    def metric(truth: np.ndarray, shares: np.ndarray) -> float:
        return float(log_loss(truth, shares[:, order], labels=forest.classes[order]))

    found = explain.permutation_importances(forest, X, y, n_repeats=3, random_state=7)
    same = explain.permutation_importances(forest, X, y, n_repeats=3, random_state=7, metric=metric)
    np.testing.assert_allclose(found.means, same.means, rtol=1e-9)
    np.testing.assert_allclose(found.deviations, same.deviations, rtol=1e-9)


def test_two_classes_and_certain_mistakes_stay_finite():
    forest = Forest(
        tree_start=[0, 3], kind=[1, 0, 0], left=[1, -1, -1], right=[2, -1, -1], feature=[0, -1, -1],
        threshold=[0.5, 0, 0], missing_left=[False] * 3, leaf_values=[[-1e4], [1e4]], n_features=1,
        classes=[False, True], link="sigmoid",
    )  # fmt: skip
    X = np.array([[0.0], [1.0], [0.0], [1.0]])
    found = explain.permutation_importances(forest, X, X[:, 0] == 1, n_repeats=20)
    assert np.isfinite(found.means).all()
    assert found.means[0] > 0


def test_shuffling_by_hand_agrees():
    rng = np.random.default_rng(2)
    forest = complete_forest(rng, 3, 2, 2)
    X, y = rng.normal(size=(25, 2)), rng.normal(size=25)
    found = explain.permutation_importances(forest, X, y, n_repeats=4, random_state=5)
    draws = np.random.default_rng(5)
    before = np.mean((forest.predict(X) - y) ** 2)
    for column in range(2):
        rises = []
        for _ in range(4):
            shuffled = X.copy()
            shuffled[:, column] = draws.permutation(X[:, column])
            rises.append(np.mean((forest.predict(shuffled) - y) ** 2) - before)
        assert found.means[column] == pytest.approx(np.mean(rises))
        assert found.deviations[column] == pytest.approx(np.std(rises))


@pytest.mark.usefixtures("random_state_stays")
def test_columns_that_nothing_looks_at_have_none_and_nothing_is_changed():
    rng = np.random.default_rng(1)
    for _ in range(10):
        forest = random_forest(rng, n_features=4, max_splits=2, task="regression", linear=False)
        X = random_rows(rng, forest, 15)
        kept = X.copy()
        y = rng.normal(size=(15, forest.n_outputs))
        X.setflags(write=False)
        found = explain.permutation_importances(forest, X, y[:, 0] if forest.n_outputs == 1 else y)
        used = set(forest.feature.tolist()) | set([] if forest.weight_feature is None else forest.weight_feature)
        unused = [column for column in range(4) if column not in used]
        assert not found.means[unused].any()
        assert not found.deviations[unused].any()
        np.testing.assert_array_equal(X, kept)


def test_linear_leaves_look_at_columns_too():
    forest = Forest(
        tree_start=[0, 1], kind=[0], left=[-1], right=[-1], feature=[-1], threshold=[0], missing_left=[False],
        leaf_values=[[1.0]], leaf_coef=[[[2.0], [0.0]]], n_features=2,
    )  # fmt: skip
    X = np.random.default_rng(0).normal(size=(30, 2))
    found = explain.permutation_importances(forest, X, 1 + 2 * X[:, 0])
    assert found.means[0] > 1
    assert found.means[1] == 0


def test_seeds_and_generators():
    rng = np.random.default_rng(2)
    forest = complete_forest(rng, 3, 2, 2)
    X, y = rng.normal(size=(25, 2)), rng.normal(size=25)
    by_seed = explain.permutation_importances(forest, X, y, random_state=3)
    by_generator = explain.permutation_importances(forest, X, y, random_state=np.random.default_rng(3))
    np.testing.assert_array_equal(by_seed.means, by_generator.means)
    assert (explain.permutation_importances(forest, X, y, random_state=4).means != by_seed.means).any()


def test_frames():
    pandas = pytest.importorskip("pandas")
    forest = Forest(**small_fields())
    rng = np.random.default_rng(0)
    raw = np.column_stack([rng.normal(size=20), rng.integers(0, 4, 20), range(20)])
    raw[raw[:, 1] == 3, 1] = np.nan
    colours = [None if np.isnan(code) else ("red", "green", "blue")[int(code)] for code in raw[:, 1]]
    frame = pandas.DataFrame({"age": raw[:, 2], "colour": colours, "size": raw[:, 0]})
    y = rng.normal(size=20)
    found, same = (explain.permutation_importances(forest, each, y) for each in (frame, raw))
    np.testing.assert_array_equal(found.means, same.means)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"y": np.zeros(2)}, "does not fit the 3 rows of X"),
        ({"n_repeats": 0}, "n_repeats=0: must be an integer of at least 1"),
        ({"sample_weight": [1.0]}, "must hold 3 numbers"),
        ({"metric": lambda y, p: (y - p) ** 2}, "let it return one number"),
        ({"metric": lambda y, p: float("nan")}, "let it return one number"),
        ({"X": np.zeros((0, 1)), "y": np.zeros(0)}, "has no rows"),
    ],
)
def test_bad_arguments(arguments: dict[str, Any], message: str):
    forest = complete_forest(np.random.default_rng(0), 1, 1, 1)
    with pytest.raises(InvalidArgumentError, match=re.escape(message)):
        explain.permutation_importances(**{"forest": forest, "X": np.zeros((3, 1)), "y": np.zeros(3), **arguments})


def test_unknown_labels_are_named():
    rng = np.random.default_rng(0)
    with pytest.raises(InvalidArgumentError, match="not among the forest's classes"):
        explain.permutation_importances(classifier(rng), np.zeros((2, 3)), ["no", "never"])
