from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from hardwood.forest import LEAF, OBLIQUE, THRESHOLD
from hardwood.oblique import Task
from hardwood.oblique._lower import Scaler, lower, single_leaf, with_linear_leaves
from hardwood.oblique._starts import draw_starts


def rows(count: int = 300, seed: int = 0) -> np.ndarray:
    """Columns of wildly different scales, a constant one, one that is constant but for rounding, and a copy."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(count, 4)) * np.array([1.0, 1e-9, 1e12, 1.0]) + np.array([0, 3e-9, -5e12, 100.0])
    return np.column_stack([x, np.full(count, 7.0), 1e6 + 1e-9 * rng.normal(size=count), x[:, 0]])


@pytest.mark.parametrize("how", ["standard", "range"])
def test_scaled_columns_are_alike_and_constant_ones_left_out(how: Any):
    x = rows()
    scaler = Scaler.learn(x, np.ones(len(x)), how)
    assert scaler.columns.tolist() == [0, 1, 2, 3, 6]
    scaled = scaler(x)
    if how == "range":
        np.testing.assert_allclose(scaled.min(0), 0.0, atol=1e-5)
        np.testing.assert_allclose(scaled.max(0), 1.0, atol=1e-5)
    else:
        np.testing.assert_allclose(scaled.mean(0), 0.0, atol=1e-4)
        np.testing.assert_allclose(scaled.std(0), 0.25, rtol=1e-4)


def test_balanced_columns_are_half_as_correlated_and_near_their_own():
    rng = np.random.default_rng(0)
    common = rng.normal(size=(500, 1))
    x = np.column_stack([3 * common + rng.normal(size=(500, 2)), rng.normal(size=500)]) * np.array([1.0, 50.0, 1e-6])
    weight = rng.uniform(0.5, 2.0, 500)
    scaled = Scaler.learn(x, weight, "balance")(x)
    before, after = (
        np.cov(each.T, aweights=weight, ddof=0) for each in (Scaler.learn(x, weight, "standard")(x), scaled)
    )
    # Variances along the principal directions are the roots of what they were, in units of 1/16.
    np.testing.assert_allclose(np.linalg.eigvalsh(after * 16), np.sqrt(np.linalg.eigvalsh(before * 16)), rtol=1e-4)
    assert all(np.corrcoef(x[:, k], scaled[:, k])[0, 1] > 0.9 for k in range(3))


@pytest.mark.parametrize("how", ["standard", "range", "balance"])
@pytest.mark.parametrize("depth", [1, 4, 7])
def test_the_forest_in_raw_units_sends_training_rows_alike(how: Any, depth: int):
    x = rows()
    weight = np.ones(len(x))
    scaler = Scaler.learn(x, weight, how)
    task = Task.of(scaler(x), x[:, 0], weight)
    trees = draw_starts(task, depth, 1, 0, "constant", [depth])
    forest = lower(trees, scaler, x, weight)
    leaf = trees.leaves(torch.from_numpy(task.x)).numpy()[:, 0]
    # A drawn threshold may lie on the only row of a node, which the last bit then sends one way or the other.
    assert (forest.apply(x)[:, 0] - (2**depth - 1) == leaf).mean() >= (0.99 if how == "balance" else 1.0)
    # Thresholds stand between rows, not on them: a hair's breadth moves nobody.
    assert np.array_equal(forest.apply(x * (1 + 1e-13)), forest.apply(x))


def test_splits_on_one_column_become_thresholds_in_either_direction():
    x = np.random.default_rng(0).normal(size=(200, 3)) * 10 + 5
    weight = np.ones(200)
    scaler = Scaler.learn(x, weight, "standard")
    trees = draw_starts(Task.of(scaler(x), x[:, 0], weight), 2, 1, 0, "constant", [0])
    with torch.no_grad():
        trees.split_weights[0, :2] = torch.tensor([[0.0, 1.0, 0.0], [0.0, 0.0, -2.0]])
        trees.thresholds[0, :2] = 0.1
    forest = lower(trees, scaler, x, weight)
    assert forest.kind.tolist() == [THRESHOLD, THRESHOLD, OBLIQUE, LEAF, LEAF, LEAF, LEAF]
    assert forest.left[1] > forest.right[1]
    leaf = trees.leaves(torch.from_numpy(scaler(x))).numpy()[:, 0]
    assert np.array_equal(forest.apply(x)[:, 0] - 3, leaf)
    assert abs(forest.threshold[0] - (x[:, 1].mean() + 0.4 * x[:, 1].std())) < 0.5


def test_missing_cells_go_where_most_rows_went():
    x = np.random.default_rng(0).normal(size=(100, 2))
    weight = np.ones(100)
    scaler = Scaler.learn(x, weight, "standard")
    trees = draw_starts(Task.of(scaler(x), x[:, 0], weight), 1, 1, 0, "constant", [0])
    forest = lower(trees, scaler, x, weight)
    at = forest.apply(x)[:, 0]
    assert forest.apply(np.array([[np.nan, 0.0]]))[0, 0] == np.bincount(at).argmax()


def test_linear_leaves_in_raw_units():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 3)) * np.array([1.0, 1e4, 1e-4])
    y = np.where(x[:, :1] > 0, x[:, :1] + 1e-4 * x[:, 1:2], 5 - 1e4 * x[:, 2:])
    weight = np.ones(300)
    scaler = Scaler.learn(x, weight, "standard")
    trees = draw_starts(Task.of(scaler(x), y, weight), 1, 1, 0, "linear", [0])
    with torch.no_grad():
        trees.split_weights[0, 0] = torch.tensor([1.0, 0.0, 0.0])
        trees.thresholds[0, 0] = float(-scaler.centre[0] / scaler.spread[0])
    forest = with_linear_leaves(lower(trees, scaler, x, weight), x, y, weight, 1e-6)
    np.testing.assert_allclose(forest.predict(x), y[:, 0], atol=1e-3)


def test_single_leaf():
    forest = single_leaf(np.array([2.0, 3.0]), 4)
    assert forest.predict(np.zeros((2, 4))).tolist() == [[2.0, 3.0]] * 2
