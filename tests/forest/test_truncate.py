"""A truncated forest goes the same ways as far as it goes, and says there what was said below on average."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hardwood.errors import InvalidArgumentError
from hardwood.forest import LEAF, Forest
from helpers.forests import complete_forest, forests, random_rows, reference_paths, small_fields

SEEDS = st.integers(0, 2**32 - 1)
CLOSE = {"rtol": 1e-12, "atol": 1e-12}  # a mean may be nearly 0


def leaf_number(forest: Forest) -> dict[int, int]:
    return {int(node): k for k, node in enumerate(np.flatnonzero(forest.kind == LEAF))}


@settings(max_examples=50)
@given(forests(max_splits=12, linear=False), SEEDS, st.integers(0, 5), st.booleans())
def test_paths_and_means(forest: Forest, seed: int, max_depth: int, weighed: bool) -> None:
    """Follow every row by the readable router, and average by hand."""
    rng = np.random.default_rng(seed)
    X = random_rows(rng, forest, 15)
    weight = rng.choice([0.0, 1.0, 2.5], len(X)) if weighed else None
    short = forest.truncate(max_depth, X, weight)
    assert short.depth == min(max_depth, forest.depth)
    long_leaf, short_leaf = leaf_number(forest), leaf_number(short)
    said: dict[tuple[int, int], list[tuple[float, int]]] = {}
    ends: dict[tuple[int, int], int] = {}
    for row, each in zip(X, np.ones(len(X)) if weight is None else weight, strict=True):
        paths = zip(reference_paths(forest, row), reference_paths(short, row), strict=True)
        for tree, (whole, part) in enumerate(paths):
            assert len(part) == min(len(whole), max_depth + 1)
            key = (tree, whole[len(part) - 1])
            assert ends.setdefault(key, part[-1]) == part[-1]
            said.setdefault(key, []).append((float(each), long_leaf[whole[-1]]))
    assert len(set(ends.values())) == len(ends)
    for key, found in said.items():
        if sum(each for each, _ in found) == 0:
            continue
        weights, leaves = np.array([each for each, _ in found]), [leaf for _, leaf in found]
        own = short_leaf[ends[key]]
        np.testing.assert_allclose(short.leaf_values[own], np.average(forest.leaf_values[leaves], 0, weights), **CLOSE)
        if forest.leaf_weights is not None:
            assert short.leaf_weights is not None
            np.testing.assert_allclose(
                short.leaf_weights[own], np.average(forest.leaf_weights[leaves], 0, weights), **CLOSE
            )


@settings(max_examples=20)
@given(forests(max_splits=12, linear=False), SEEDS)
def test_nothing_changes_where_nothing_is_cut(forest: Forest, seed: int) -> None:
    X = random_rows(np.random.default_rng(seed), forest, 5)
    assert forest.truncate(forest.depth, X) == forest
    assert forest.truncate(forest.depth + 3, X) == forest


def test_the_mean_output_stays() -> None:
    rng = np.random.default_rng(0)
    forest = complete_forest(rng, 7, 6, 4, 3)
    X = rng.normal(size=(200, 4))
    for max_depth in range(7):
        short = forest.truncate(max_depth, X)
        np.testing.assert_allclose(short.outputs(X).mean(axis=0), forest.outputs(X).mean(axis=0), **CLOSE)
        assert short.truncate(0, X).node_count == 7


def test_where_no_row_comes_leaves_count_alike() -> None:
    forest = complete_forest(np.random.default_rng(0), 1, 2, 1)
    forest = replace(forest, threshold=[0.0, -1.0, 1.0, 0, 0, 0, 0], leaf_values=[[1.0], [2.0], [3.0], [10.0]])
    short = forest.truncate(1, np.array([[-3.0], [-2.0], [-0.5]]))
    np.testing.assert_allclose(short.leaf_values[:, 0], [4 / 3, 6.5])
    short = forest.truncate(1, np.array([[-3.0], [5.0]]), [1.0, 0.0])
    np.testing.assert_allclose(short.leaf_values[:, 0], [1.0, 6.5])
    short = forest.truncate(0, np.array([[-3.0], [5.0]]), [1e308, 1e308])
    np.testing.assert_allclose(short.leaf_values[:, 0], [5.5])


def test_what_cannot_be_truncated() -> None:
    forest = Forest(**small_fields())
    X = np.zeros((2, 3))
    for wrong in (-1, True):
        with pytest.raises(InvalidArgumentError, match="max_depth"):
            forest.truncate(wrong, X)
    with pytest.raises(InvalidArgumentError, match="no rows"):
        forest.truncate(1, X[:0])
    with pytest.raises(InvalidArgumentError, match="linear leaves"):
        replace(forest, leaf_coef=np.ones((5, 3, 1))).truncate(1, X)
    for weight, message in (
        ([1.0], r"must have shape \(2,\)"),
        ([1.0, -1.0], r"sample_weight\[1\]=-1.0"),
        ([np.inf, 1.0], r"sample_weight\[0\]=inf"),
        (["a", "b"], "does not hold numbers"),
    ):
        with pytest.raises(InvalidArgumentError, match=message):
            forest.truncate(1, X, weight)
