"""`HardTrees(monotone=...)`: no output moves the wrong way, in any bit, at any time; and it learns."""

from __future__ import annotations

import inspect
import itertools
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from hardwood.data import TableEncoder
from hardwood.errors import InvalidArgumentError
from hardwood.forest import THRESHOLD
from hardwood.nn import HardTrees
from helpers.forests import random_forest
from helpers.moves import moves
from helpers.processes import run_python


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def made(seed: int, n_features: int = 4, n_outputs: int = 2, n_trees: int = 6, **options: Any) -> HardTrees:
    """A layer whose parameters are spread as after training; thresholds from a short list, so that there are ties."""
    layer = HardTrees(n_features, n_outputs, n_trees, generator=seeded(seed), **options)
    generator = seeded(seed)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
        layer.thresholds.mul_(4).round_().div_(4)
    return layer


def rows_with_everything(layer: HardTrees, seed: int, rows: int = 300) -> np.ndarray:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, layer.n_features)).astype(np.float32)
    cuts = rng.choice(layer.thresholds.detach().numpy().ravel(), x.shape)
    beside = np.nextafter(cuts, rng.choice(np.array([-np.inf, np.inf], np.float32), x.shape))
    x = np.choose(rng.integers(0, 3, x.shape), [x, cuts, beside]).astype(np.float32)
    for value in (np.nan, np.inf, -np.inf):
        x[rng.random(x.shape) < 0.05] = value
    return x


def assert_monotone(layer: HardTrees, seed: int) -> None:
    rng = np.random.default_rng(seed)
    directions = np.array(layer.monotone)
    combined = layer.combine != "none"
    forests = [layer.to_forest()] if combined else [layer.to_forest([tree]) for tree in range(layer.n_trees)]
    assert all(forest.is_monotone(directions) for forest in forests)
    for direction, low, high in moves(rng, rows_with_everything(layer, seed), directions):
        with torch.no_grad():
            if layer.selection == "gumbel":
                state = layer._generator.get_state()
                before = layer(torch.from_numpy(low))
                layer._generator.set_state(state)  # the same noise, so the same trees
            else:
                before = layer(torch.from_numpy(low))
            after = layer(torch.from_numpy(high))
        assert (direction * (after - before) >= 0).all()
        for forest in forests:
            assert (direction * (forest.outputs(high) - forest.outputs(low)) >= 0).all()


@pytest.mark.parametrize(
    ("combine", "depth", "subset", "learn_missing"),
    list(itertools.product(["softmax", "mean", "sum", "none"], [1, 3, 5], [None, 3], [True, False])),
)
def test_no_output_moves_the_wrong_way(combine, depth, subset, learn_missing):
    options = {"combine": combine, "features_per_tree": subset, "learn_missing": learn_missing}
    assert_monotone(made(depth, depth=depth, monotone=[1, 0, -1, 1], **options), depth)


@pytest.mark.parametrize("selection", ["gumbel", "annealed", "softmax"])
def test_every_selection_keeps_it(selection):
    layer = made(2, depth=3, n_trees=3, monotone=[1, 0, -1, 0], selection=selection)
    if selection == "annealed":
        layer.eval()
    assert_monotone(layer, 0)


def test_the_forest_says_what_the_layer_says():
    layer = made(0, depth=4, monotone=[1, 1, -1, 0])
    x = rows_with_everything(layer, 1)
    forest = layer.to_forest()
    np.testing.assert_allclose(forest.outputs(x), layer(torch.from_numpy(x)).detach(), rtol=1e-4, atol=1e-5)
    free = made(0, depth=4).to_forest().make_monotone([1, 1, -1, 0])
    np.testing.assert_allclose(forest.leaf_values, free.leaf_values, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(forest.leaf_weights, free.leaf_weights, rtol=1e-5, atol=1e-6)


def test_on_raw_columns_too():
    rng = np.random.default_rng(0)
    table = [[float(a), str(b)] for a, b in zip(rng.normal(size=200), rng.choice(["x", "y", "z"], 200), strict=True)]
    encoder = TableEncoder()
    encoded = encoder.fit_transform(table)
    directions = [int(name == "x0") for name in encoder.encoded_names]
    layer = made(3, n_features=encoded.shape[1], depth=4, monotone=directions)
    assert encoder.lower(layer.to_forest()).is_monotone([1, 0])
    assert not encoder.lower(made(3, n_features=encoded.shape[1], depth=4).to_forest()).is_monotone([1, 0])


def test_without_constraints_nothing_is_done():
    free, none = made(1), made(1, monotone=[0, 0, 0, 0])
    assert none._direction is None and none._leaves(none.split_logits) == (none.leaf_values, none.leaf_weights)
    x = torch.randn(50, 4, generator=seeded())
    assert torch.equal(free(x), none(x))


def test_leaves_that_are_monotone_already_stay():
    layer = made(4, depth=4, monotone=[1, 0, -1, 0])
    values, weights = (each.detach() for each in layer._leaves(layer.split_logits))
    free = made(4, depth=4)
    with torch.no_grad():
        free.leaf_values.copy_(values)
        free.leaf_weights.copy_(weights)
    constrained = made(4, depth=4, monotone=[1, 0, -1, 0])
    constrained.load_state_dict(free.state_dict())
    x = torch.from_numpy(rows_with_everything(layer, 0))
    results = []
    for each in (free, constrained):
        each(x).square().sum().backward()
        results.append([each(x).detach(), each.leaf_values.grad, each.split_logits.grad])
    for a, b in zip(*results, strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("combine", ["softmax", "mean"])
def test_it_learns_and_stays_monotone_at_every_step(combine):
    x = torch.rand(300, 2, generator=seeded()) * 2 - 1
    y = (2 * x[:, :1]).tanh() + 0.5 * (x[:, 1:] * 4).sin() + 0.3 * torch.randn(300, 1, generator=seeded(1))
    layer = HardTrees(2, 1, 8, depth=4, combine=combine, monotone=[1, 0], init="normal", generator=seeded(2))
    optimizer = torch.optim.Adam(layer.parameters(), lr=0.05)
    losses = []
    for step in range(150):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(layer(x), y)
        loss.backward()
        losses.append(loss.item())
        optimizer.step()
        if step % 50 == 0:
            assert layer.to_forest().is_monotone([1, 0])
    assert losses[-1] < 0.35 * losses[0]
    along = layer(torch.stack([torch.linspace(-1, 1, 500), torch.zeros(500)], 1))[:, 0]
    assert (along.diff() >= 0).all()


def test_what_falls_is_learned_as_flat():
    """The best function that never falls, for a target that only falls, is its mean."""
    x = torch.linspace(-1, 1, 200)[:, None]
    layer = HardTrees(1, 1, 4, depth=3, combine="mean", monotone=[1], generator=seeded())
    optimizer = torch.optim.Adam(layer.parameters(), lr=0.05)
    for _ in range(200):
        optimizer.zero_grad()
        nn.functional.mse_loss(layer(x), 1 - x).backward()
        optimizer.step()
    torch.testing.assert_close(layer(x), torch.ones(200, 1), rtol=0, atol=0.1)


def test_a_warm_start():
    for seed in range(6):
        rng = np.random.default_rng(seed)
        forest = random_forest(rng, kinds=(THRESHOLD,), n_features=3, max_splits=6, linear=False, task="regression")
        if not np.isfinite(forest.threshold).all():
            continue
        layer = HardTrees.from_forest(forest, monotone=[1, -1, 0], dtype=torch.float64)
        assert layer.to_forest().is_monotone([1, -1, 0])
        kept = HardTrees.from_forest(forest.make_monotone([1, -1, 0]), monotone=[1, -1, 0], dtype=torch.float64)
        free = HardTrees.from_forest(forest.make_monotone([1, -1, 0]), dtype=torch.float64)
        x = torch.from_numpy(rng.normal(size=(50, 3)))
        assert torch.equal(kept(x), free(x))


def test_parameters_that_are_not_finite_are_refused():
    layer = made(0, monotone=[1, 0, 0, 0])
    with torch.no_grad():
        layer.leaf_values[0, 0, 0] = torch.nan
    with pytest.raises(InvalidArgumentError, match=r"leaf_values.*not finite"):
        layer(torch.zeros(2, 4))
    with pytest.raises(InvalidArgumentError, match=r"leaf_values.*not finite"):
        layer.to_forest()


def test_compile_has_no_graph_break():
    run_python(
        """
        import torch
        from hardwood.nn import HardTrees

        layer = HardTrees(6, 2, n_trees=4, depth=3, monotone=[1, 0, 0, -1, 0, 1])
        x = torch.randn(10, 6)
        compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
        torch.testing.assert_close(compiled(x), layer(x))
        compiled(x).sum().backward()
        """
    )


def test_the_setting_is_shown_and_is_no_state():
    layer = HardTrees(2, 1, monotone=[1, -1])
    assert repr(layer).endswith("monotone=(1, -1))")
    assert set(layer.state_dict()) == set(HardTrees(2, 1).state_dict())


@pytest.mark.parametrize(
    ("monotone", "message"),
    [([1], r"monotone=\[1\].*1 entries for 4 columns"), ([0, 0, 2, 0], r"monotone\[2\]=2.*never falls")],
)
def test_bad_directions_are_refused(monotone, message):
    build = inspect.unwrap(HardTrees.__init__)
    with pytest.raises(InvalidArgumentError, match=message):
        build(HardTrees.__new__(HardTrees), n_features=4, n_outputs=1, monotone=monotone)
