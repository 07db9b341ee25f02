"""Importances agree with loops along the paths."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hardwood import explain
from hardwood.errors import InvalidArgumentError
from hardwood.explain._checks import check_rows
from hardwood.forest import Forest
from helpers.expected import reference_importances
from helpers.forests import complete_forest, forests, random_rows


def modest_rows(rng: np.random.Generator, forest: Forest, rows: int) -> np.ndarray:
    X = random_rows(rng, forest, rows)
    X[np.abs(X) > 100] = 5.0
    return X


@settings(max_examples=40)
@given(forests(max_splits=6), st.integers(0, 2**32 - 1), st.booleans())
def test_loops_along_the_paths_agree(forest: Forest, seed: int, weighed: bool):
    rng = np.random.default_rng(seed)
    X = modest_rows(rng, forest, 8)
    weights = rng.choice([0.0, 0.5, 1.0, 3.0], 8) + np.eye(8)[0] if weighed else np.ones(8)
    found = explain.importances(forest, X, weights if weighed else None)
    expected = reference_importances(forest, X, weights)
    # Where all steps are rounding errors of 0, their shares are noise.
    if expected.sum() > 1e-9:
        np.testing.assert_allclose(found, expected / expected.sum(), atol=1e-7)
    assert found.sum() == pytest.approx(1) or not found.any()


def test_weights_are_repeats():
    rng = np.random.default_rng(0)
    forest = complete_forest(rng, 5, 3, 4, combine="softmax", leaf_weights=rng.normal(size=40))
    X, repeats = rng.normal(size=(30, 4)), rng.integers(0, 4, 30)
    found = explain.importances(forest, X, 1e300 * repeats)
    np.testing.assert_allclose(found, explain.importances(forest, np.repeat(X, repeats, axis=0)), rtol=1e-9)


def test_a_column_that_nothing_splits_has_none_and_a_constant_forest_all_zeros():
    rng = np.random.default_rng(0)
    forest = complete_forest(rng, 5, 3, 4)
    wider = complete_forest(np.random.default_rng(0), 5, 3, 4)
    X = rng.normal(size=(30, 4))
    assert forest == wider
    unused = Forest(**{**{name: getattr(forest, name) for name in STRUCTURE}, "n_features": 6})
    found = explain.importances(unused, np.hstack([X, X[:, :2]]))
    np.testing.assert_allclose(found[:4], explain.importances(forest, X))
    assert not found[4:].any()
    same = Forest(
        **{**{name: getattr(forest, name) for name in STRUCTURE}, "leaf_values": np.ones((40, 1)), "n_features": 4}
    )
    assert not explain.importances(same, X).any()


STRUCTURE = ("tree_start", "kind", "left", "right", "feature", "threshold", "missing_left", "leaf_values")


def test_what_moves_all_logits_alike_does_not_count():
    forest = Forest(
        tree_start=[0, 3], kind=[1, 0, 0], left=[1, -1, -1], right=[2, -1, -1], feature=[0, -1, -1],
        threshold=[0.5, 0, 0], missing_left=[False] * 3, leaf_values=[[1.0, 2.0], [3.0, 4.0]], n_features=1,
        classes=["a", "b"], link="softmax",
    )  # fmt: skip
    assert explain.importances(forest, [[0.0], [1.0]]).tolist() == [0.0]


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0], "must hold 2 numbers"),
        (["a", "b"], "must hold 2 numbers"),
        ([1.0, -1.0], "must be finite, none negative"),
        ([0.0, 0.0], "not all zero"),
        ([1.0, np.nan], "must be finite"),
    ],
)
def test_bad_weights(weights: list[float], message: str):
    forest = complete_forest(np.random.default_rng(0), 1, 1, 1)
    with pytest.raises(InvalidArgumentError, match=message):
        explain.importances(forest, [[0.0], [1.0]], weights)


def test_bad_arguments():
    forest = complete_forest(np.random.default_rng(0), 1, 1, 1)
    with pytest.raises(InvalidArgumentError, match="has no rows to average over"):
        explain.importances(forest, np.zeros((0, 1)))
    with pytest.raises(InvalidArgumentError, match="is not a Forest"):
        check_rows(None, np.zeros((1, 1)))
