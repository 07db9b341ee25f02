"""Links and probabilities, at the edges of what floating point can hold."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardwood.forest import Forest, _combine
from helpers.forests import complete_forest, forests, random_rows, reference_outputs

SCORES = np.array([[-1e4, 0.0, 1e4], [-745.0, -3.0, 709.0], [1.0, 1.0, 1.0], [np.inf, 2.0, -np.inf]])


def test_sigmoid_neither_overflows_nor_loses_small_probabilities() -> None:
    expected = [[0.0, 0.5, 1.0], [np.exp(-745.0), 1 / (1 + np.exp(3.0)), 1.0]]
    np.testing.assert_allclose(_combine.sigmoid(SCORES[:2]), expected, rtol=1e-12)
    np.testing.assert_array_equal(_combine.sigmoid(SCORES[3:]), [[1.0, _combine.sigmoid(np.array([[2.0]]))[0, 0], 0.0]])


def test_softmax_neither_overflows_nor_warns() -> None:
    result = _combine.softmax(SCORES)
    np.testing.assert_allclose(result[0], [0, 0, 1])
    np.testing.assert_allclose(result[2], 1 / 3)
    assert np.isnan(result[3]).any()


def test_exp_overflows_to_infinity() -> None:
    np.testing.assert_array_equal(_combine.apply_link("exp", SCORES[:1]), [[0.0, 1.0, np.inf]])


@given(forests(), st.integers(0, 10**6))
def test_predictions_are_the_link_of_the_outputs(forest: Forest, seed: int) -> None:
    X = random_rows(np.random.default_rng(seed), forest, 6)
    X[~np.isfinite(X) | (np.abs(X) > 100)] = 3.0
    outputs = np.array([reference_outputs(forest, row) for row in X])
    linked = {
        "identity": lambda z: z,
        "exp": np.exp,
        "sigmoid": lambda z: 1 / (1 + np.exp(-z)),
        "softmax": lambda z: np.exp(z) / np.exp(z).sum(axis=1, keepdims=True),
    }[forest.link](outputs)
    if forest.classes is None:
        expected = linked[:, 0] if linked.shape[1] == 1 else linked
        np.testing.assert_allclose(forest.predict(X), expected, rtol=1e-9, atol=1e-12)
        return
    if forest.link == "sigmoid":
        linked = np.stack([1 - linked[:, 0], linked[:, 0]], axis=1)
    probabilities = forest.predict_proba(X)
    np.testing.assert_allclose(probabilities, linked, rtol=1e-9, atol=1e-12)
    assert probabilities.shape == (6, len(forest.classes))
    assert forest.predict(X).dtype == forest.classes.dtype


@pytest.mark.parametrize("n_outputs", [2, 9, 130, 1025])
def test_probabilities_of_a_row_do_not_depend_on_its_company(n_outputs: int) -> None:
    rng = np.random.default_rng(n_outputs)
    forest = complete_forest(rng, 3, 2, 4, n_outputs=n_outputs, link="softmax", classes=np.arange(n_outputs))
    X = rng.normal(size=(20, 4))
    together = forest.predict_proba(X)
    for row in range(20):
        np.testing.assert_array_equal(forest.predict_proba(X[row : row + 1]), together[row : row + 1])


def test_the_mean_divides_before_base_is_added() -> None:
    rng = np.random.default_rng(0)
    forest = complete_forest(rng, 4, 0, 1, combine="mean", base=[10.0])
    assert forest.predict(np.zeros((1, 1)))[0] == pytest.approx(forest.leaf_values.mean() + 10)
