from __future__ import annotations

import numpy as np
import pytest
import torch

from hardwood.forest._leaf_means import leaf_means as of_forest
from hardwood.nn import ObliqueTrees
from hardwood.oblique import Problems, Task
from hardwood.oblique._leaves import leaf_means, linear_nodes, settle


def task(rows: int = 200, features: int = 4, outputs: int = 2, leaf_loss: str = "squared_error", seed: int = 0) -> Task:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, features))
    y = np.stack([np.abs(x[:, 0]) + x[:, k % features] for k in range(outputs)], axis=1)
    if leaf_loss != "squared_error":
        y = (y > 0.5).astype(float)
        if leaf_loss == "cross_entropy":
            y = np.eye(outputs)[rng.integers(0, outputs, rows)]
    return Task.of(x, y, rng.uniform(0.5, 2, rows), leaf_loss)  # type: ignore[arg-type]


def trees(depth: int = 3, count: int = 2, features: int = 4, outputs: int = 2, leaf: str = "constant") -> ObliqueTrees:
    return ObliqueTrees(features, outputs, count, depth, leaf=leaf, generator=torch.Generator().manual_seed(3))  # type: ignore[arg-type]


def test_constant_leaves_are_means_of_their_own_rows():
    given, layer = task(), trees()
    # The second tree learns from some rows only.
    problems = Problems(layer, np.concatenate([np.arange(200), np.arange(50)]), np.array([0, 200, 250]))
    losses = settle(problems, given)
    for tree, count in ((0, 200), (1, 50)):
        leaf = layer.leaves(torch.from_numpy(given.x[:count])).numpy()[:, tree]
        total = 0.0
        for each in np.unique(leaf):
            here = leaf == each
            mean = np.average(given.y[:count][here], axis=0, weights=given.weight[:count][here])
            np.testing.assert_allclose(layer.leaf_values[tree, each].detach().numpy(), mean, rtol=1e-5)
            total += (given.weight[:count][here] * ((given.y[:count][here] - mean) ** 2).sum(1)).sum()
        assert losses[tree] == pytest.approx(total / given.weight[:count].sum(), rel=1e-5)


@pytest.mark.parametrize("leaf_loss", ["cross_entropy", "binary_cross_entropy"])
def test_the_hard_loss_of_classes_is_that_of_the_layer_s_answers(leaf_loss: str):
    given, layer = task(leaf_loss=leaf_loss, rows=2000), trees(depth=2)
    losses = settle(Problems.on_all_rows(layer, given), given)
    answers = layer(torch.from_numpy(given.x)).detach()
    y = torch.from_numpy(given.y)[:, None]
    if leaf_loss == "cross_entropy":
        rows = -(y * answers.log_softmax(-1)).sum(-1)
    else:
        rows = torch.nn.functional.binary_cross_entropy_with_logits(
            answers, y.expand_as(answers), reduction="none"
        ).sum(-1)
    wanted = (rows * torch.from_numpy(given.weight)[:, None]).sum(0) / given.weight.sum()
    np.testing.assert_allclose(losses, wanted.numpy(), rtol=1e-3)


def test_a_leaf_without_rows_repeats_the_node_above():
    y, weight = np.array([[1.0], [3.0], [8.0]]), np.ones(3)
    means = leaf_means(np.array([0, 1, 4]), y, weight, 1, 3)
    assert means[0, :, 0].tolist() == [1.0, 3.0, 2.0, 2.0, 8.0, 8.0, 8.0, 8.0]


@pytest.mark.parametrize("shrinkage", [0.0, 3.0, 40.0])
def test_shrinkage_is_that_of_forests(shrinkage: float):
    given, layer = task(rows=60), trees(depth=4, count=1)
    at = layer.leaves(torch.from_numpy(given.x)).numpy()[:, 0]
    mine = leaf_means(at, given.y.astype(float), given.weight.astype(float), 1, 4, shrinkage)[0]
    forest = layer.to_forest(0)
    wanted = of_forest(forest, given.x.astype(float), given.y.astype(float), given.weight.astype(float), shrinkage)
    np.testing.assert_allclose(mine[np.unique(at)], wanted[np.unique(at)], rtol=1e-9, atol=1e-12)


def test_linear_leaves_are_least_squares_where_there_is_nothing_to_shrink():
    given = task(rows=400, outputs=1)
    layer = trees(depth=2, outputs=1, leaf="linear", count=1)
    loss = settle(Problems.on_all_rows(layer, given), given)[0]
    leaf = layer.leaves(torch.from_numpy(given.x)).numpy()[:, 0]
    total = 0.0
    for each in np.unique(leaf):
        here = leaf == each
        root = np.sqrt(given.weight[here].astype(float))[:, None]
        design = np.concatenate([given.x[here], np.ones((here.sum(), 1))], axis=1) * root
        solution, *_ = np.linalg.lstsq(design, given.y[here].astype(float) * root, rcond=None)
        total += ((design @ solution - given.y[here] * root) ** 2).sum()
        if here.sum() > 30:
            np.testing.assert_allclose(layer.leaf_coef[0, each, 0].detach().numpy(), solution[:-1, 0], atol=1e-2)  # type: ignore[index]
    assert loss == pytest.approx(total / given.weight.sum(), rel=1e-2)


def test_linear_leaves_bear_collinear_constant_and_huge_columns():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(50, 2))
    x = np.column_stack([x, x[:, 0], np.ones(50), 1e9 * x[:, 1] + 1e9])
    y = x[:, :1] + 2 * x[:, 1:2]
    at = np.where(x[:, 0] > 1.2, 1, 2)  # a few rows in one leaf
    values, coef = linear_nodes(at, np.array([0, 0, 0]), x, y, np.ones(50), 1e-3)
    assert np.isfinite(values).all() and np.isfinite(coef).all() and (coef[:, 3] == 0).all()
    said = values[at] + np.einsum("rf,rfo->ro", x, coef[at])
    assert 1 - ((said - y) ** 2).mean() / y.var() > 0.99


def test_a_linear_leaf_without_rows_is_the_node_above_and_strong_shrinkage_the_mean():
    rng = np.random.default_rng(0)
    x, weight = rng.normal(size=(40, 3)), np.ones(40)
    y = x[:, :1] * 3 + 1
    values, coef = linear_nodes(np.full(40, 1), np.array([0, 0, 0]), x, y, weight, 0.5)
    assert np.array_equal(coef[2], coef[0]) and np.array_equal(values[2], values[0])
    values, coef = linear_nodes(np.full(40, 1), np.array([0, 0, 0]), x, y, weight, 1e12)
    np.testing.assert_allclose(values, y.mean(), rtol=1e-6)
    np.testing.assert_allclose(coef, 0.0, atol=1e-6)
