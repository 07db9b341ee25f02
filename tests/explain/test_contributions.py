"""Contributions agree with loops along the paths, and add up to the outputs."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hardwood import explain
from hardwood.errors import InvalidArgumentError
from hardwood.explain import _expected
from hardwood.forest import THRESHOLD, Forest
from helpers.expected import reference_contributions
from helpers.forests import complete_forest, forests, random_forest, random_rows, small_fields


def modest_rows(rng: np.random.Generator, forest: Forest, rows: int) -> np.ndarray:
    """Make random rows, missing cells among them, whose sums have no rounding errors to speak of."""
    X = random_rows(rng, forest, rows)
    X[np.abs(X) > 100] = 5.0
    return X


@settings(max_examples=40)
@given(forests(max_splits=6), st.integers(0, 2**32 - 1), st.booleans())
def test_loops_along_the_paths_agree(forest: Forest, seed: int, apart: bool):
    rng = np.random.default_rng(seed)
    X = modest_rows(rng, forest, 8)
    background = modest_rows(rng, forest, 7) if apart else X
    found = explain.contributions(forest, X, background if apart else None)
    values, base = reference_contributions(forest, X, background)
    np.testing.assert_allclose(found.values, values, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found.base, base, rtol=1e-9, atol=1e-9)


@settings(max_examples=40)
@given(forests(), st.integers(0, 2**32 - 1), st.sampled_from([np.float32, np.float64]))
def test_contributions_add_up_to_the_outputs(forest: Forest, seed: int, dtype: type):
    """Also with infinite cells, where no linear leaf multiplies them."""
    rng = np.random.default_rng(seed)
    X, background = random_rows(rng, forest, 12, dtype), modest_rows(rng, forest, 5)
    if forest.leaf_coef is not None:
        X = modest_rows(rng, forest, 12).astype(dtype)
    values, base = explain.contributions(forest, X, background)
    np.testing.assert_allclose(base + values.sum(axis=1), forest.outputs(X), rtol=1e-9, atol=1e-9)
    if forest.leaf_coef is None:
        values, base = explain.contributions(forest, X)
        np.testing.assert_allclose(base + values.sum(axis=1), forest.outputs(X), rtol=1e-9, atol=1e-9)


@settings(max_examples=40)
@given(forests(linear=True, max_splits=4, task="regression"), st.integers(0, 2**32 - 1))
def test_infinite_cells_in_linear_leaves_are_as_infinite_as_the_outputs(forest: Forest, seed: int):
    rng = np.random.default_rng(seed)
    X, background = random_rows(rng, forest, 12), modest_rows(rng, forest, 5)
    X[np.abs(X) == 1e300] = 1.0
    values, base = explain.contributions(forest, X, background)
    with np.errstate(invalid="ignore"):
        found = base + values.sum(axis=1)
    np.testing.assert_allclose(found, forest.outputs(X), rtol=1e-9, atol=1e-9)


def test_in_a_sum_or_mean_the_base_is_one_for_all_rows_and_means_are_zero():
    rng = np.random.default_rng(0)
    for combine in ("sum", "mean"):
        forest = complete_forest(rng, 3, 3, 4, 2, combine=combine)
        X = rng.normal(size=(50, 4))
        values, base = explain.contributions(forest, X)
        np.testing.assert_allclose(base, np.broadcast_to(forest.outputs(X).mean(axis=0), base.shape), rtol=1e-12)
        np.testing.assert_allclose(values.sum(axis=1).mean(axis=0), 0, atol=1e-12)


def test_large_leaf_weights():
    rng = np.random.default_rng(0)
    forest = complete_forest(rng, 4, 2, 3, combine="softmax", leaf_weights=rng.choice([0, 1e5, 1e5 + 1], 16))
    X = rng.normal(size=(20, 3))
    values, base = explain.contributions(forest, X)
    np.testing.assert_allclose(base + values.sum(axis=1), forest.outputs(X), rtol=1e-9, atol=1e-9)


def test_blocks_of_rows_make_no_difference(monkeypatch: pytest.MonkeyPatch):
    rng = np.random.default_rng(3)
    forest = random_forest(rng, n_trees=3, n_features=3, linear=True, task="regression")
    X = modest_rows(rng, forest, 23)
    whole = explain.contributions(forest, X)
    monkeypatch.setattr(_expected, "_TOGETHER", 5)
    for a, b in zip(explain.contributions(forest, X), whole, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


def test_numpy_and_kernels_agree(monkeypatch: pytest.MonkeyPatch):
    rng = np.random.default_rng(4)
    forest = random_forest(rng, n_trees=3, n_features=3, linear=False)
    X = random_rows(rng, forest, 23)
    whole = explain.contributions(forest, X)
    monkeypatch.setenv("HARDWOOD_NUMPY", "1")
    for a, b in zip(explain.contributions(forest, X), whole, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("frames", ["pandas", "polars", "pyarrow"])
def test_frames(frames: str):
    module: Any = pytest.importorskip(frames)
    forest = Forest(**small_fields())
    columns = {"age": [30, 40, None], "colour": ["blue", None, "mauve"], "size": [0.25, None, 1.0]}
    X = np.array([[0.25, 2, 30], [np.nan, np.nan, 40], [1.0, np.nan, np.nan]])
    frame = (module.table if frames == "pyarrow" else module.DataFrame)(columns)
    np.testing.assert_array_equal(explain.contributions(forest, frame).values, explain.contributions(forest, X).values)


def test_no_rows_to_explain():
    forest = complete_forest(np.random.default_rng(0), 2, 2, 3)
    values, base = explain.contributions(forest, np.zeros((0, 3)), np.zeros((1, 3)))
    assert values.shape == (0, 3, 1)
    assert base.shape == (0, 1)


def test_bad_arguments():
    rng = np.random.default_rng(0)
    forest = random_forest(rng, n_trees=1, n_features=1, max_splits=0, linear=False, kinds=[THRESHOLD])
    with pytest.raises(InvalidArgumentError, match=re.escape("background='an array of shape (0, 1)': has no rows")):
        explain.contributions(forest, np.zeros((1, 1)), np.zeros((0, 1)))
    linear = Forest(
        tree_start=[0, 1], kind=[0], left=[-1], right=[-1], feature=[-1], threshold=[0], missing_left=[False],
        leaf_values=[[1.0]], leaf_coef=[[[2.0]]], n_features=1,
    )  # fmt: skip
    with pytest.raises(InvalidArgumentError, match="X='an array': has infinite cells that linear leaves multiply"):
        explain.contributions(linear, [[np.inf]])
