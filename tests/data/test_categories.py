"""One-hot cells and target encodings against plain loops: no leakage, weights as repetitions, no quadratic cost."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardwood.data._categories import (
    CategoryCells,
    cross_fitted_means,
    draw_folds,
    known_codes,
    one_hot_cells,
    target_matrix,
    target_means,
)
from hardwood.errors import InvalidArgumentError
from helpers.tables import HARD

Drawn = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def draw(rng: np.random.Generator, rows: int = 40, words: int = 6) -> Drawn:
    """Draw codes (-1 is missing), targets, weights and folds; whole numbers, so that sums are exact."""
    codes = rng.integers(-1, words, rows)
    targets = rng.integers(-3, 4, (rows, 2)).astype(float)
    return codes, targets, rng.integers(0, 4, rows).astype(float), rng.integers(0, 3, rows)


def plain_means(codes: np.ndarray, code: int, targets: np.ndarray, weight: np.ndarray, smoothing: float) -> np.ndarray:
    """Return the smoothed mean of one category, as it is defined."""
    rows = codes == code
    overall = weight @ targets / weight.sum() if weight.sum() > 0 else np.zeros(targets.shape[1])
    if weight[rows].sum() + smoothing == 0:
        return overall
    return (weight[rows] @ targets[rows] + smoothing * overall) / (weight[rows].sum() + smoothing)


@given(seed=st.integers(0, 2**32 - 1), smoothing=st.sampled_from([0.0, 1.0, 10.0]))
def test_encodings_are_the_smoothed_means(seed: int, smoothing: float) -> None:
    codes, targets, weight, fold = draw(np.random.default_rng(seed))
    known = target_means(codes, 6, targets, weight, smoothing)
    np.testing.assert_allclose(known, [plain_means(codes, code, targets, weight, smoothing) for code in range(6)])
    seen = cross_fitted_means(codes, 6, targets, weight, smoothing, fold, 3)
    for row, code in enumerate(codes):
        if code < 0:
            assert np.isnan(seen[row]).all()
            continue
        others = fold != fold[row]
        wanted = plain_means(codes[others], code, targets[others], weight[others], smoothing)
        np.testing.assert_allclose(seen[row], wanted)


@given(seed=st.integers(0, 2**32 - 1), n_folds=st.integers(1, 5))
def test_a_rows_own_target_is_not_in_its_encoding(seed: int, n_folds: int) -> None:
    """To the last bit, whatever the numbers: the row's target is replaced by one of another size."""
    rng = np.random.default_rng(seed)
    codes, _, weight, fold = draw(rng)
    fold %= n_folds
    targets = rng.normal(size=(40, 2))
    seen = cross_fitted_means(codes, 6, targets, weight, 1.0, fold, n_folds)
    row = int(rng.integers(40))
    targets[row] *= 1e9
    np.testing.assert_array_equal(cross_fitted_means(codes, 6, targets, weight, 1.0, fold, n_folds)[row], seen[row])


@given(seed=st.integers(0, 2**32 - 1))
def test_weight_two_is_a_row_that_occurs_twice(seed: int) -> None:
    rng = np.random.default_rng(seed)
    codes, targets, weight, fold = draw(rng)
    again = rng.permutation(np.repeat(np.arange(40), weight.astype(int)))
    ones = np.ones(len(again))
    np.testing.assert_array_equal(
        target_means(codes, 6, targets, weight, 10.0), target_means(codes[again], 6, targets[again], ones, 10.0)
    )
    by_repeat = cross_fitted_means(codes[again], 6, targets[again], ones, 10.0, fold[again], 3)
    np.testing.assert_array_equal(cross_fitted_means(codes, 6, targets, weight, 10.0, fold, 3)[again], by_repeat)


def test_a_target_that_is_noise_stays_noise() -> None:
    """The encoding of 500 categories of 4 rows: plain means follow a random target, cross-fitted ones do not."""
    rng = np.random.default_rng(0)
    codes, y = np.arange(2000) % 500, rng.normal(size=2000)
    plain = target_means(codes, 500, y[:, None], np.ones(2000), 1.0)[codes, 0]
    fold = draw_folds(np.ones(2000, bool), 5, rng)
    crossed = cross_fitted_means(codes, 500, y[:, None], np.ones(2000), 1.0, fold, 5)[:, 0]
    assert np.corrcoef(plain, y)[0, 1] > 0.4
    assert abs(np.corrcoef(crossed, y)[0, 1]) < 0.1


def test_equal_rows_still_see_their_citys_mean() -> None:
    """Why folds are not drawn per distinct row: here every row has hundreds of equals."""
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 20, 5000)
    y = (rng.random(5000) < np.linspace(0.1, 0.9, 20)[codes]).astype(float)
    fold = draw_folds(np.ones(5000, bool), 5, rng)
    crossed = cross_fitted_means(codes, 20, y[:, None], np.ones(5000), 10.0, fold, 5)[:, 0]
    assert np.corrcoef(crossed, y)[0, 1] > 0.4


@given(counted=st.lists(st.booleans(), min_size=1, max_size=40), n_folds=st.integers(2, 6), seed=st.integers(0, 9))
def test_folds_are_of_equal_size(counted: list[bool], n_folds: int, seed: int) -> None:
    rows = np.array(counted)
    fold = draw_folds(rows, n_folds, np.random.default_rng(seed))
    sizes = np.bincount(fold[rows], minlength=n_folds)
    assert sizes.max() - sizes.min() <= 1
    assert (fold[~rows] == 0).all()
    np.testing.assert_array_equal(fold, draw_folds(rows, n_folds, np.random.default_rng(seed)))


def test_codes_are_known_as_a_forest_knows_them() -> None:
    codes = np.array([0.0, -0.0, 2.0, 3.0, 0.5, -1.0, 2 - 2**-50, *HARD])
    known = known_codes(codes, 3)
    np.testing.assert_array_equal(known[:7], [0, 0, 2, -1, -1, -1, -1])
    np.testing.assert_array_equal(known[7:] >= 0, np.isin(HARD, [0.0, 1.0]))
    assert (known_codes(codes, 0) == -1).all()


@pytest.mark.parametrize(
    ("words", "values", "names"),
    [
        ((), [], ("",)),
        (("a",), [[1]], ("=a",)),
        (("a", "b"), [[-1], [1]], ("=b",)),
        (("a", "b", "c"), [[1, -1, -1], [-1, 1, -1], [-1, -1, 1]], ("=a", "=b", "=c")),
    ],
)
def test_one_hot_cells(words: tuple[str, ...], values: list[Any], names: tuple[str, ...]) -> None:
    cells = one_hot_cells(words)
    assert cells.names == names
    np.testing.assert_array_equal(cells.values, np.array(values, np.float32).reshape(len(words), len(names)))
    unknown = cells.transform(np.array([np.nan, len(words), -1.0, 0.5]))
    assert np.isnan(unknown).all()
    assert unknown.shape == (4, len(names))


def test_cells_of_codes() -> None:
    cells = CategoryCells(np.array([[1.0, 2.0], [3.0, 4.0]], np.float32), ("a", "b"))
    np.testing.assert_array_equal(cells.transform(np.array([1.0, np.nan, 0.0])), [[3, 4], [np.nan, np.nan], [1, 2]])
    assert cells.transform(np.zeros(0)).shape == (0, 2)


def test_targets() -> None:
    ones = np.ones(4)
    for y in ([1, 2, 3, 4], [[1], [2], [3], [4]], np.array([1, 2, 3, 4], object)):
        targets, names = target_matrix(y, "regression", ones)
        np.testing.assert_array_equal(targets, [[1], [2], [3], [4]])
        assert names == ("",)
    assert target_matrix(np.zeros((4, 2)), "regression", ones)[1] == ("[0]", "[1]")
    np.testing.assert_array_equal(target_matrix(["n", "y", "n", "y"], "classification", ones)[0], [[0], [1], [0], [1]])
    np.testing.assert_array_equal(target_matrix(["n"] * 4, "classification", ones)[0], np.zeros((4, 1)))
    targets, names = target_matrix(["b", "a", "c", "a"], "classification", ones)
    np.testing.assert_array_equal(targets, [[0, 1, 0], [1, 0, 0], [0, 0, 1], [1, 0, 0]])
    assert names == ("[a]", "[b]", "[c]")


def test_many_classes_have_a_column_for_the_most_frequent() -> None:
    y = np.concatenate([np.arange(100), np.arange(50, 66)])
    targets, names = target_matrix(y, "classification", np.ones(len(y)))
    assert names == tuple(f"[{label}]" for label in range(50, 66))
    np.testing.assert_array_equal(targets.sum(axis=0), np.full(16, 2.0))


@pytest.mark.parametrize(
    ("y", "task", "message"),
    [
        ([1.0], "regression", "y=.*must have 2 entries"),
        (["a", "b"], "regression", "does not hold numbers"),
        ([1.0, np.nan], "regression", r"y\[1\]=nan: is not finite"),
        ([1.0, np.inf], "regression", r"y\[1\]=inf: is not finite"),
        ([1.0, np.nan], "classification", r"y\[1\]=nan: is no label"),
        (np.array(["a", None], object), "classification", "mixes labels"),
    ],
)
def test_bad_targets_are_refused(y: Any, task: Any, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        target_matrix(y, task, np.ones(2))
