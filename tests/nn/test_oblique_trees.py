from __future__ import annotations

import numpy as np
import pytest
import torch

from hardwood.errors import InvalidArgumentError
from hardwood.forest import LEAF, Forest
from hardwood.nn import ObliqueTrees


def layer(depth: int = 4, features: int = 5, trees: int = 3, leaf: str = "constant", seed: int = 0) -> ObliqueTrees:
    generator = torch.Generator().manual_seed(seed)
    made = ObliqueTrees(features, 2, trees, depth, leaf=leaf, generator=generator)  # type: ignore[arg-type]
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
    return made


@pytest.mark.parametrize("leaf", ["constant", "linear"])
@pytest.mark.parametrize(("depth", "features"), [(1, 1), (3, 7), (6, 4)])
def test_the_forest_is_the_layer(depth: int, features: int, leaf: str):
    trees = layer(depth, features, 2, leaf)
    # Few different numbers: many rows stand exactly at thresholds.
    with torch.no_grad():
        trees.split_weights.copy_((trees.split_weights * 2).round() / 2)
        trees.thresholds.copy_((trees.thresholds * 2).round() / 2)
    x = (torch.randn(300, features, generator=torch.Generator().manual_seed(1)) * 2).round() / 2
    answers = trees(x).detach().double().numpy()
    leaves = trees.leaves(x).numpy()
    for tree in range(2):
        forest = trees.to_forest(tree)
        nodes = 2**depth - 1
        assert np.array_equal(forest.apply(x.numpy())[:, 0] - nodes, leaves[:, tree])
        np.testing.assert_allclose(forest.outputs(x.numpy()), answers[:, tree], rtol=1e-5, atol=1e-5)


def test_a_layer_from_a_forest_sends_rows_alike():
    trees = layer()
    x = torch.randn(200, 5, generator=torch.Generator().manual_seed(1))
    forest = trees.to_forest(1)
    again = ObliqueTrees.from_forest(forest, depth=6)
    assert np.array_equal(again.to_forest().prune().outputs(x.numpy()), forest.outputs(x.numpy()))


def test_a_layer_from_a_small_tree_of_thresholds():
    stump = Forest(
        tree_start=[0, 3], kind=[1, LEAF, LEAF], left=[1, -1, -1], right=[2, -1, -1], feature=[1, -1, -1],
        threshold=[2.5, 0, 0], missing_left=[False] * 3, leaf_values=[[1.0], [4.5]], n_features=2,
    )  # fmt: skip
    rows = torch.tensor([[0.0, 2.0], [0.0, 2.5], [9.0, 3.0]])
    assert ObliqueTrees.from_forest(stump, depth=3)(rows)[:, 0, 0].tolist() == [1.0, 4.5, 4.5]


def test_gradients_reach_leaves_only_through_the_hard_answer_and_splits_through_the_relaxed_loss():
    trees = layer(leaf="linear")
    x = torch.randn(20, 5, generator=torch.Generator().manual_seed(1))
    trees(x).sum().backward()
    assert trees.split_weights.grad is None and trees.leaf_values.grad is not None
    trees.relaxed_loss(x, torch.zeros(20, 2), scale=2.0).sum().backward()
    assert trees.split_weights.grad is not None and trees.split_weights.grad.abs().sum() > 0


def test_take_copies():
    trees = layer()
    some = trees.take([2, 0])
    assert torch.equal(some.thresholds[0], trees.thresholds[2])
    with torch.no_grad():
        some.thresholds.zero_()
    assert (trees.thresholds != 0).all()


def test_bad_arguments():
    with pytest.raises(InvalidArgumentError, match="depth"):
        ObliqueTrees(3, 1, 1, 17)
    with pytest.raises(InvalidArgumentError, match="n_trees"):
        ObliqueTrees(3, 1, 0, 2)
    with pytest.raises(InvalidArgumentError, match="columns"):
        layer().leaves(torch.zeros(2, 4))
    trees = layer()
    with pytest.raises(InvalidArgumentError, match="tree"):
        trees.to_forest(3)
    with torch.no_grad():
        trees.thresholds[0, 0] = torch.nan
    with pytest.raises(InvalidArgumentError, match="thresholds"):
        trees.to_forest(0)
    with pytest.raises(InvalidArgumentError, match="linear leaves"):
        ObliqueTrees.from_forest(layer(leaf="linear").to_forest(0))
