"""Prediction agrees with a row-by-row walk, and does not depend on company, memory layout or threads."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hardwood.errors import InvalidArgumentError
from hardwood.forest import Forest, _predict
from helpers.forests import (
    complete_forest,
    forests,
    random_rows,
    reference_outputs,
    reference_paths,
    reference_route,
    reference_tree_outputs,
    reference_tree_weights,
    small_fields,
)

SEEDS = st.integers(0, 2**32 - 1)
DTYPES = st.sampled_from([np.float64, np.float32])


def _references(forest: Forest, X: np.ndarray, of: Any, *shape: int) -> np.ndarray:
    with np.errstate(all="ignore"):
        return np.array([of(forest, row) for row in X], np.float64).reshape(len(X), *shape)


@pytest.fixture(params=["numba", "numpy"])
def backend(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("HARDWOOD_NUMPY", "1" if request.param == "numpy" else "0")
    return str(request.param)


@pytest.mark.parametrize("rows", [0, 1, 2, 5, 31, 129])
def test_everything_agrees_with_a_walk(backend: str, rows: int) -> None:
    @settings(max_examples=30)
    @given(forests(), SEEDS, DTYPES)
    def check(forest: Forest, seed: int, dtype: type) -> None:
        X = random_rows(np.random.default_rng(seed), forest, rows, dtype)
        trees, width = forest.n_trees, forest.n_outputs
        route = _references(forest, X, reference_route, trees)
        np.testing.assert_array_equal(forest.apply(X) + forest.tree_start[:-1], route)
        np.testing.assert_array_equal(
            forest.tree_outputs(X), _references(forest, X, reference_tree_outputs, trees, width)
        )
        weights = _references(forest, X, reference_tree_weights, trees)
        np.testing.assert_allclose(forest.tree_weights(X), weights, rtol=1e-14)
        outputs = _references(forest, X, reference_outputs, width)
        np.testing.assert_allclose(forest.outputs(X), outputs, rtol=1e-12, atol=1e-12)
        assert forest.outputs(X).shape == (rows, width)

    check()


@given(forests(), SEEDS)
def test_the_numpy_fallback_agrees_to_the_last_bit(forest: Forest, seed: int) -> None:
    X = random_rows(np.random.default_rng(seed), forest, 40)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HARDWOOD_NUMPY", "1")
        slow = forest.outputs(X), forest.apply(X)
    np.testing.assert_array_equal(forest.outputs(X), slow[0])
    np.testing.assert_array_equal(forest.apply(X), slow[1])


@pytest.mark.parametrize("depth", range(10))
@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_complete_trees_of_every_depth(depth: int, missing: bool, dtype: type) -> None:
    rng = np.random.default_rng(depth)
    forest = complete_forest(rng, 3, depth, 7, n_outputs=1 + depth % 3)
    X = rng.normal(size=(150, 7)).astype(dtype)
    X[rng.random(X.shape) < 0.2 * missing] = np.nan
    route = _references(forest, X, reference_route, 3)
    np.testing.assert_array_equal(forest.apply(X) + forest.tree_start[:-1], route)
    leaf = forest._leaf_index[route.astype(int)]
    expected = np.zeros((150, forest.n_outputs))
    for tree in range(3):
        expected += forest.leaf_values[leaf[:, tree]]
    np.testing.assert_array_equal(forest.outputs(X), expected)


@given(forests(), SEEDS, DTYPES)
def test_a_row_alone_in_company_and_in_any_order(forest: Forest, seed: int, dtype: type) -> None:
    rng = np.random.default_rng(seed)
    X = random_rows(rng, forest, 70, dtype)
    together = forest.outputs(X)
    predicted = forest.predict(X)
    order = rng.permutation(70)
    np.testing.assert_array_equal(forest.outputs(X[order]), together[order])
    for row in range(0, 70, 7):
        np.testing.assert_array_equal(forest.outputs(X[row : row + 1]), together[row : row + 1])
        np.testing.assert_array_equal(forest.predict(X[row : row + 1]), predicted[row : row + 1])


def test_chunks_for_threads_do_not_change_a_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    forest = complete_forest(rng, 300, 5, 11)
    X = rng.normal(size=(3001, 11)).astype(np.float32)
    from hardwood.forest import _kernels

    results = []
    for threads in (1, 2, 3, 7):
        monkeypatch.setattr(_kernels, "available_threads", lambda threads=threads: threads)
        results.append((forest.outputs(X).tobytes(), forest.apply(X).tobytes()))
    assert len(set(results)) == 1


def test_two_python_threads_at_once() -> None:
    rng = np.random.default_rng(2)
    X = rng.normal(size=(5000, 9))
    expected = complete_forest(np.random.default_rng(3), 100, 6, 9).predict(X)
    with ThreadPoolExecutor(4) as pool:
        for _ in range(5):
            fresh = complete_forest(np.random.default_rng(3), 100, 6, 9)  # its plan is made under contention too
            for result in pool.map(fresh.predict, [X] * 8):
                np.testing.assert_array_equal(result, expected)


@given(forests(), SEEDS)
def test_float32_and_float64_rows_go_the_same_way(forest: Forest, seed: int) -> None:
    X = random_rows(np.random.default_rng(seed), forest, 33, np.float32)
    np.testing.assert_array_equal(forest.apply(X), forest.apply(X.astype(np.float64)))
    np.testing.assert_array_equal(forest.outputs(X), forest.outputs(X.astype(np.float64)))


@given(forests(), SEEDS)
def test_decision_path_marks_the_nodes_of_a_walk(forest: Forest, seed: int) -> None:
    X = random_rows(np.random.default_rng(seed), forest, 4)
    indicator, tree_start = forest.decision_path(X)
    assert indicator.shape == (4, forest.node_count)
    assert indicator.has_sorted_indices
    np.testing.assert_array_equal(tree_start, forest.tree_start)
    for row, marks in zip(X, indicator.toarray(), strict=True):
        np.testing.assert_array_equal(np.flatnonzero(marks), np.concatenate(reference_paths(forest, row)))
        assert set(marks) <= {0, 1}


def test_decision_path_of_no_rows() -> None:
    forest = Forest(**small_fields())
    assert forest.decision_path(np.zeros((0, 3)))[0].shape == (0, 8)


def test_the_stated_convention_by_hand() -> None:
    forest = Forest(**small_fields())
    nan = np.nan
    cells_and_leaves = [
        ([0.4, 0, 0], [1, 2]),  # 0.4 < 0.5 goes left; -0.5 * 0.4 < 1.5
        ([0.5, 1, 1.75], [4, 2]),  # a tie goes right, green is not named; 1.75 - 0.25 is a tie
        ([0.5, 1, 1.7], [4, 1]),
        ([nan, 0, 0], [1, 1]),  # missing goes left in column 0, right in the oblique split
        ([9.0, 2, 0], [3, 1]),  # blue is named
        ([9.0, 3, 0], [3, 1]),  # the vocabulary has no code 3: missing, which goes left
        ([9.0, 1.5, 0], [3, 1]),  # nor 1.5
        ([9.0, nan, 0], [3, 1]),
    ]
    X = np.array([cells for cells, _ in cells_and_leaves])
    expected = np.array([leaves for _, leaves in cells_and_leaves])
    expected[:, 1] = [1, 2, 1, 2, 1, 1, 1, 1]
    np.testing.assert_array_equal(forest.apply(X), expected)


def test_an_undefined_sum_is_not_missing() -> None:
    """Infinity minus infinity is no missing cell: it is not below the threshold, so it goes right."""
    fields = small_fields()
    fields["missing_left"] = np.array([True, False, True, False, False, True, False, False])
    forest = Forest(**fields)
    np.testing.assert_array_equal(forest.apply(np.array([[np.inf, 0, np.inf], [np.nan, 0, np.inf]]))[:, 1], [2, 1])


def test_infinite_cells_without_a_coefficient_take_no_part() -> None:
    fields = small_fields()
    coef = np.zeros((5, 3, 1))
    coef[:, 0] = 2.0
    forest = Forest(**{**fields, "leaf_coef": coef})
    np.testing.assert_array_equal(
        forest.predict(np.array([[1.0, 1, np.inf], [np.nan, 1, 7.0]])), [3 + 2 + 20 + 2, 1 + 20]
    )


def test_large_leaf_weights_do_not_overflow() -> None:
    rng = np.random.default_rng(4)
    weights = rng.choice([-5000.0, 0.0, 4000.0, 4001.0], 4 * 8)
    forest = complete_forest(rng, 4, 3, 5, n_outputs=2, combine="softmax", leaf_weights=weights, base=[1.0, 2.0])
    X = rng.normal(size=(40, 5))
    np.testing.assert_allclose(forest.outputs(X), _references(forest, X, reference_outputs, 2), rtol=1e-12)
    np.testing.assert_array_equal(forest.outputs(X[3:4]), forest.outputs(X)[3:4])


def test_predict_squeezes_one_output_only() -> None:
    rng = np.random.default_rng(5)
    X = rng.normal(size=(6, 4))
    assert complete_forest(rng, 2, 2, 4).predict(X).shape == (6,)
    assert complete_forest(rng, 2, 2, 4, n_outputs=3).predict(X).shape == (6, 3)
    assert complete_forest(rng, 2, 2, 4).predict(X[:0]).shape == (0,)


@given(forests(task="classes"), SEEDS)
def test_labels_are_the_first_of_the_most_probable(forest: Forest, seed: int) -> None:
    X = random_rows(np.random.default_rng(seed), forest, 20)
    X[~np.isfinite(X)] = np.nan
    probabilities = forest.predict_proba(X)
    assert forest.classes is not None
    for row, label in zip(probabilities.tolist(), forest.predict(X), strict=True):
        assert label == forest.classes[row.index(max(row))]


def test_predict_proba_needs_classes() -> None:
    with pytest.raises(InvalidArgumentError, match=r"has no classes.*call predict"):
        Forest(**small_fields()).predict_proba(np.zeros((1, 3)))


def test_without_numba_it_warns_once_and_predicts() -> None:
    program = """
import sys, warnings
sys.modules["numba"] = None
import numpy as np
from hardwood.forest import Forest
forest = Forest([0, 3], [1, 0, 0], [1, -1, -1], [2, -1, -1], [0, -1, -1], [0.5, 0.0, 0.0],
                np.array([False] * 3), [[1.0], [2.0]], 1)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    assert forest.predict(np.array([[0.0], [1.0]])).tolist() == [1.0, 2.0]
    assert forest.predict(np.array([[0.5]])).tolist() == [2.0]
assert len(caught) == 1 and "numba cannot be imported" in str(caught[0].message), caught
"""
    subprocess.run([sys.executable, "-c", program], check=True, env=_environment())


def test_the_room_is_light() -> None:
    """Importing the forest, making one and predicting by NumPy loads none of the heavy packages."""
    program = """
import sys
import hardwood.forest
heavy = {"numba", "scipy", "sklearn", "narwhals", "torch", "pandas"}
assert not heavy & set(sys.modules), heavy & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", program], check=True, env=_environment())


def _environment() -> dict[str, str]:
    import os
    from pathlib import Path

    import hardwood

    root = str(Path(hardwood.__file__).parents[1])
    return {**os.environ, "PYTHONPATH": root, "HARDWOOD_NUMPY": "0"}


def test_the_kernels_are_used() -> None:
    assert _predict._backend().__name__.endswith("_kernels")
