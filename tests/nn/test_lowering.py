"""A layer and its `Forest` are one model: same leaf for every row, ties, holes and infinities included."""

import dataclasses
import itertools

import numpy as np
import pytest
import torch
from sklearn.datasets import load_diabetes
from sklearn.ensemble import GradientBoostingRegressor, RandomForestRegressor
from sklearn.tree import DecisionTreeRegressor

from hardwood.errors import InvalidArgumentError
from hardwood.forest import OBLIQUE, THRESHOLD, Forest, from_sklearn
from hardwood.nn import HardTrees
from helpers.forests import random_forest


def rows_with_everything(layer: HardTrees, seed: int, dtype: type = np.float32) -> np.ndarray:
    """Random rows; a third of the cells are somewhere exactly at, or right beside, a threshold of the layer."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(300, layer.n_features)).astype(dtype)
    thresholds = rng.choice(layer.thresholds.detach().numpy().ravel(), x.shape).astype(dtype)
    beside = rng.choice([0.0, -np.inf, np.inf], x.shape).astype(dtype)
    thresholds = np.where(beside == 0, thresholds, np.nextafter(thresholds, beside))
    x = np.where(rng.random(x.shape) < 0.33, thresholds, x)
    for value in (np.nan, np.inf, -np.inf):
        x[rng.random(x.shape) < 0.04] = value
    return x


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("depth", "n_trees", "combine", "subset", "learn_missing"),
    list(itertools.product([1, 3, 6], [1, 9], ["softmax", "mean", "sum"], [None, 3], [True, False])),
)
def test_every_row_reaches_the_same_leaf(depth, n_trees, combine, subset, learn_missing, dtype):
    layer = HardTrees(
        5, 2, n_trees, depth, combine=combine, features_per_tree=subset, learn_missing=learn_missing,
        generator=torch.Generator().manual_seed(depth),
    )  # fmt: skip
    forest = layer.to_forest()
    x = rows_with_everything(layer, seed=depth, dtype=dtype)
    first_leaf = 2**depth - 1
    assert np.array_equal(forest.apply(x) - first_leaf, layer.leaf_index(torch.from_numpy(x)).numpy())
    np.testing.assert_allclose(forest.outputs(x), layer(torch.from_numpy(x)).detach().numpy(), rtol=1e-4, atol=1e-5)


def test_after_training_steps_too():
    layer = HardTrees(4, 1, n_trees=6, depth=4, generator=torch.Generator().manual_seed(0))
    optimizer = torch.optim.Adam(layer.parameters(), lr=0.05)
    for step in range(5):
        x = rows_with_everything(layer, seed=step)
        assert np.array_equal(layer.to_forest().apply(x) - 15, layer.leaf_index(torch.from_numpy(x)).numpy())
        optimizer.zero_grad()
        layer(torch.from_numpy(x)).square().sum().backward()
        optimizer.step()


def test_what_a_forest_says_of_itself():
    layer = HardTrees(2, 3, depth=2)
    forest = layer.to_forest(feature_names=["a", "b"], classes=["x", "y", "z"], link="softmax")
    assert forest.feature_names == ("a", "b") and forest.link == "softmax"
    assert set(forest.predict(np.zeros((4, 2)))) <= {"x", "y", "z"}


def test_trees_that_are_not_combined_are_taken_one_at_a_time():
    layer = HardTrees(3, 2, n_trees=4, depth=3, combine="none")
    x = torch.randn(50, 3)
    np.testing.assert_allclose(layer.to_forest([2]).outputs(x.numpy()), layer(x)[:, 2].detach(), rtol=1e-6)
    for trees, message in ((None, r"trees=None.*trees=\[0\]"), ([0, 1], "one at a time"), ([4], "4 trees")):
        with pytest.raises(InvalidArgumentError, match=message):
            layer.to_forest(trees)


def test_a_part_of_an_ensemble():
    layer = HardTrees(3, 1, n_trees=4, depth=3)
    x = torch.randn(50, 3)
    each = layer.tree_outputs(x)
    share = each.weights[:, [3, 1]].softmax(1)
    expected = (share[:, :, None] * each.output[:, [3, 1]]).sum(1).detach()
    np.testing.assert_allclose(layer.to_forest([3, 1]).outputs(x.numpy()), expected, rtol=1e-5, atol=1e-6)


def test_parameters_that_are_not_finite_have_no_tree():
    layer = HardTrees(3, 1)
    with torch.no_grad():
        layer.split_logits[0, 0, 0] = torch.nan
    with pytest.raises(InvalidArgumentError, match=r"split_logits.*not finite"):
        layer.to_forest()


def axis_aligned_forest(rng: np.random.Generator) -> Forest:
    forest = random_forest(rng, kinds=(THRESHOLD,), max_splits=6, linear=False)
    return dataclasses.replace(forest, threshold=np.clip(forest.threshold, -1e3, 1e3))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("seed", range(12))
def test_a_layer_starts_as_any_axis_aligned_forest(seed, dtype):
    rng = np.random.default_rng(seed)
    forest = axis_aligned_forest(rng)
    layer = HardTrees.from_forest(forest, dtype=dtype, depth=max(1, forest.depth) + seed % 2)
    x = rows_with_everything(layer, seed).astype(np.float32 if dtype == torch.float32 else np.float64)
    nodes = rng.choice(forest.threshold, x.shape)
    x = np.where(rng.random(x.shape) < 0.3, nodes, x).astype(x.dtype)
    outputs = layer(torch.from_numpy(x)).detach().numpy()
    np.testing.assert_allclose(outputs, forest.outputs(x), rtol=1e-3, atol=1e-4)
    assert np.array_equal(layer.to_forest().apply(x) - (2**layer.depth - 1), layer.leaf_index(torch.from_numpy(x)))


def test_a_warm_start_keeps_learning():
    forest = HardTrees(3, 1, depth=2, generator=torch.Generator().manual_seed(1)).to_forest()
    layer = HardTrees.from_forest(forest, strength=1.0)
    layer(torch.randn(40, 3)).square().sum().backward()
    assert (layer.split_logits.grad != 0).any(-1).all()
    assert (HardTrees.from_forest(forest, strength=3.0).split_logits.max(-1).values == 3).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"depth": 1}, r"depth=1.*3 levels"),
        ({"strength": 0.0}, r"strength=0\.0.*above 0"),
        ({"features_per_tree": 2}, r"features_per_tree=2.*splits on \d columns.*or leave it out"),
        ({"combine": "sum"}, r"combine='sum'.*'mean'"),
        ({"dtype": torch.bfloat16}, r"dtype=torch\.bfloat16.*float32"),
    ],
)
def test_warm_starts_that_cannot_be_exact_are_refused(options, message):
    forest = HardTrees(4, 1, depth=3).to_forest()
    with pytest.raises(InvalidArgumentError, match=message):
        HardTrees.from_forest(forest, **options)


def test_forests_that_the_layer_cannot_hold_are_refused():
    rng = np.random.default_rng(0)
    oblique = random_forest(rng, kinds=(OBLIQUE,), max_splits=4, n_trees=9)
    with pytest.raises(InvalidArgumentError, match="category or oblique splits"):
        HardTrees.from_forest(oblique)
    forest = HardTrees(2, 1, depth=2).to_forest()
    with pytest.raises(InvalidArgumentError, match="linear leaves"):
        HardTrees.from_forest(dataclasses.replace(forest, leaf_coef=np.ones((4, 2, 1))))
    endless = dataclasses.replace(forest, threshold=np.where(forest.kind == THRESHOLD, np.inf, 0.0))
    with pytest.raises(InvalidArgumentError, match="infinite threshold"):
        HardTrees.from_forest(endless)
    with pytest.raises(InvalidArgumentError, match="learn_missing=True"):
        HardTrees.from_forest(dataclasses.replace(forest, missing_left=np.zeros(7, bool)), learn_missing=False)


@pytest.mark.parametrize("model", ["tree", "forest", "boosting"])
def test_a_warm_start_from_scikit_learn(model):
    x, y = load_diabetes(return_X_y=True)
    fitted = {
        "tree": DecisionTreeRegressor(max_depth=4, random_state=0),
        "forest": RandomForestRegressor(10, max_depth=4, random_state=0),
        "boosting": GradientBoostingRegressor(n_estimators=10, random_state=0),
    }[model].fit(x, y)
    layer = HardTrees.from_forest(from_sklearn(fitted), dtype=torch.float64)
    outputs = layer(torch.from_numpy(x)).detach().numpy()[:, 0]
    np.testing.assert_allclose(outputs, fitted.predict(x), rtol=1e-6)
