"""`FrozenLatentTree`: it says what the module says, alone or in a batch, as a forest, and from a file."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from hardwood.errors import ForestFileError, InvalidArgumentError
from hardwood.nn import FrozenLatentTree, LatentModel


def make(
    split: str = "linear", predictor: str = "linear", sees_rows: bool = True, penalty: float = 5.0
) -> tuple[LatentModel, np.ndarray]:
    """A model that has seen some rows, with one branch pruned."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(150, 4, generator=generator)
    options = {"split": split, "predictor": predictor, "sees_rows": sees_rows, "penalty": penalty}
    model = LatentModel(4, 3, 4, generator=generator, hidden_size=9, **options)
    model.tree.spread(x)
    with torch.no_grad():
        model.tree.split_bias[[2, 8]] += 40.0
    for _ in range(60):
        model(x)
    return model.double().eval(), x.double().numpy()


@pytest.mark.parametrize("split", ["linear", "elu"])
@pytest.mark.parametrize("predictor", ["linear", "mlp"])
@pytest.mark.parametrize("sees_rows", [True, False])
def test_it_says_what_the_module_says(split, predictor, sees_rows):
    model, x = make(split, predictor, sees_rows)
    frozen = FrozenLatentTree.of(model)
    assert frozen.n_nodes < model.tree.n_nodes
    with torch.no_grad():
        wanted = model(torch.from_numpy(x)).numpy()
    np.testing.assert_allclose(frozen.outputs(x), wanted, rtol=1e-12, atol=1e-12)


def test_a_row_is_the_same_alone_and_in_any_batch():
    frozen = FrozenLatentTree.of(make("elu", "mlp")[0])
    x = make()[1]
    whole = frozen.outputs(x)
    for size in (1, 2, 7, 64):
        parts = [frozen.outputs(x[start : start + size]) for start in range(0, len(x), size)]
        assert np.array_equal(np.concatenate(parts), whole)
    assert frozen.outputs(x[:0]).shape == (0, 3)


@pytest.mark.parametrize("split", ["linear", "elu"])
@pytest.mark.parametrize(("predictor", "sees_rows"), [("linear", True), ("linear", False), ("mlp", False)])
def test_the_forest_routes_and_says_the_same(split, predictor, sees_rows):
    frozen = FrozenLatentTree.of(make(split, predictor, sees_rows)[0])
    forest = frozen.to_forest()
    x = np.random.default_rng(1).normal(size=(500, 4))
    ends = frozen.ends(x)
    wanted = frozen.predict_from(frozen.hard_traversals[ends], x)
    np.testing.assert_allclose(forest.outputs(x), wanted, rtol=1e-12, atol=1e-12)
    # By the splits themselves: left where s < 0, and the way ends where the next node is pruned.
    s = frozen.splits(x)
    children = {(int(frozen.parent[t]), int(frozen.sign[t])): t for t in range(1, frozen.n_nodes)}
    for row in range(0, 500, 7):
        node = 0
        while True:
            below = [t for side in (-1, 1) if (t := children.get((node, side))) is not None]
            if not below:
                break
            side = -1 if s[row, frozen.split_of[below[0]]] < 0 else 1
            if (node, side) not in children:
                break
            node = children[node, side]
        assert node == ends[row]


def test_rows_far_from_all_splits_are_routed_alike_by_both():
    """With margins of at least 1/2 the relaxed traversals are the hard ones."""
    frozen = FrozenLatentTree.of(make()[0])
    frozen = replace(frozen, split_weight=frozen.split_weight * 1e6, split_bias=frozen.split_bias * 1e6)
    x = np.random.default_rng(2).normal(size=(200, 4))
    assert np.array_equal(frozen.traversals(x), frozen.hard_traversals[frozen.ends(x)])


def test_what_cannot_be_a_forest_is_refused():
    with pytest.raises(InvalidArgumentError, match="sees_rows"):
        FrozenLatentTree.of(make(predictor="mlp")[0]).to_forest()
    with pytest.raises(InvalidArgumentError, match="split"):
        FrozenLatentTree.of(LatentModel(3, 1, 2, split=nn.Linear(3, 3)))


@pytest.mark.parametrize("split", ["linear", "elu"])
def test_a_file_brings_back_every_bit(split, tmp_path):
    frozen = FrozenLatentTree.of(make(split, "mlp")[0])
    x = make()[1]
    frozen.save(tmp_path / "tree.safetensors")
    again = FrozenLatentTree.load(tmp_path / "tree.safetensors")
    assert np.array_equal(again.outputs(x), frozen.outputs(x))
    assert again.n_parameters == frozen.n_parameters


def test_other_and_broken_files_are_refused(tmp_path):
    path = tmp_path / "tree.safetensors"
    frozen = FrozenLatentTree.of(make()[0])
    frozen.to_forest().save(path)
    with pytest.raises(ForestFileError, match="no latent tree"):
        FrozenLatentTree.load(path)
    frozen.save(path)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(ForestFileError):
        FrozenLatentTree.load(path)
    replace(frozen, split_of=frozen.split_of + 100).save(path)
    with pytest.raises(ForestFileError, match="fit"):
        FrozenLatentTree.load(path)
    with pytest.raises(FileNotFoundError):
        FrozenLatentTree.load(tmp_path / "none")


def test_a_tree_pruned_to_its_root_still_answers():
    model, x = make()
    with torch.no_grad():
        model.tree.pruning.zero_()
    frozen = FrozenLatentTree.of(model)
    assert frozen.n_nodes == 1
    np.testing.assert_allclose(frozen.to_forest().outputs(x), frozen.outputs(x), rtol=1e-12)
