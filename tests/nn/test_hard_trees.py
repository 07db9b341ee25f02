"""The layer: what it returns, how it learns, and that it keeps company with the rest of PyTorch."""

import inspect

import pytest
import torch
from torch import nn

from hardwood.errors import InvalidArgumentError
from hardwood.nn import HardTrees
from hardwood.ops import hard_trees
from helpers.processes import run_python


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_the_output_is_that_of_the_operator():
    layer = HardTrees(6, 3, n_trees=5, depth=4, features_per_tree=4, split="softsign", generator=seeded())
    x = torch.randn(20, 6, generator=seeded())
    expected = hard_trees(
        x,
        layer.split_logits,
        layer.thresholds,
        layer.leaf_values,
        leaf_weights=layer.leaf_weights,
        missing_logits=layer.missing_logits,
        feature_subset=layer.feature_subset,
        split="softsign",
    )
    assert torch.equal(layer(x), expected.output)
    assert torch.equal(layer.leaf_index(x), expected.leaf_index)


def test_tree_outputs_mix_to_the_output():
    layer = HardTrees(4, 2, n_trees=7, depth=3, generator=seeded())
    x = torch.randn(9, 4, generator=seeded())
    each = layer.tree_outputs(x)
    mixed = (each.weights.softmax(1)[:, :, None] * each.output).sum(1)
    torch.testing.assert_close(mixed, layer(x))


def test_one_tree_needs_no_weights_and_none_keeps_trees_apart():
    assert HardTrees(3, 1).leaf_weights is None
    assert HardTrees(3, 1, n_trees=2).leaf_weights is not None
    assert HardTrees(3, 2, n_trees=4, combine="none")(torch.randn(5, 3)).shape == (5, 4, 2)


def test_it_learns_a_tree_that_no_greedy_step_would_start():
    """Exclusive or: neither feature alone says anything. Restarts are trees side by side; one of them gets it right."""
    x = torch.rand(400, 2, generator=seeded()) * 2 - 1
    y = ((x[:, 0] > 0) ^ (x[:, 1] > 0)).float()
    layer = HardTrees(2, 1, 32, depth=2, combine="none", init="normal", split="softsign", generator=seeded(1))
    optimizer = torch.optim.Adam(
        [{"params": [layer.split_logits], "lr": 0.05}, {"params": [layer.thresholds, layer.leaf_values], "lr": 0.02}]
    )
    for _ in range(500):
        optimizer.zero_grad()
        nn.functional.mse_loss(layer(x)[:, :, 0], y[:, None].expand(-1, 32)).mul(32).backward()
        optimizer.step()
    accuracy = ((layer(x)[:, :, 0] > 0.5) == (y[:, None] > 0.5)).float().mean(0)
    assert accuracy.max() > 0.98


def test_gradients_reach_an_encoder_below():
    encoder, layer = nn.Linear(5, 4), HardTrees(4, 2, n_trees=3, depth=3)
    nn.Sequential(encoder, layer)(torch.randn(30, 5)).square().sum().backward()
    assert encoder.weight.grad.abs().sum() > 0


def test_tree_mask_leaves_trees_out():
    layer = HardTrees(4, 1, n_trees=3, depth=2, combine="mean", generator=seeded())
    x = torch.randn(6, 4, generator=seeded())
    mask = torch.tensor([[True, False, True]])
    kept = layer.tree_outputs(x).output[:, [0, 2]].mean(1)
    torch.testing.assert_close(layer(x, tree_mask=mask), kept)


def test_gumbel_explores_while_training_and_is_fixed_afterwards():
    layer = HardTrees(20, 1, n_trees=2, depth=4, selection="gumbel", generator=seeded())
    x = torch.randn(50, 20, generator=seeded())
    assert not torch.equal(layer(x), layer(x))
    layer.eval()
    assert torch.equal(layer(x), layer(x))


def test_annealed_selection_approaches_the_hard_tree_as_it_cools():
    layer = HardTrees(5, 1, n_trees=2, depth=3, selection="annealed", init="normal", generator=seeded())
    x = torch.randn(200, 5, generator=seeded())
    layer.eval()
    hard = layer.leaf_index(x)
    layer.train()
    differ = []
    for layer.temperature in (1.0, 1e-5):
        differ.append((layer.leaf_index(x) != hard).float().mean().item())
    assert differ[0] > 0.2 and differ[1] == 0


def test_missing_values_learn_their_way():
    """Rows with a hole are class 1: the only way to say so is to send missing values to the right leaf."""
    x = torch.zeros(100, 1)
    x[::2] = torch.nan
    y = x.isnan().float()
    layer = HardTrees(1, 1, depth=1, generator=seeded())
    with torch.no_grad():
        layer.missing_logits.fill_(0.1 if layer.thresholds.item() <= 0 else -0.1)  # the same side as the other rows
    optimizer = torch.optim.Adam(layer.parameters(), lr=0.05)
    for _ in range(200):
        optimizer.zero_grad()
        nn.functional.mse_loss(layer(x), y).backward()
        optimizer.step()
    assert nn.functional.mse_loss(layer(x), y) < 0.01


@pytest.mark.parametrize("init", ["glorot", "normal"])
def test_first_parameters_come_from_the_generator_alone(init, random_state_stays):
    first, again = (HardTrees(6, 2, 3, 4, init=init, features_per_tree=3, generator=seeded(5)) for _ in range(2))
    for name, value in first.state_dict().items():
        assert torch.equal(value, again.state_dict()[name])
    spread = first.split_logits.std().item()
    expected = {"glorot": (6 / (15 + 3)) ** 0.5 / 3**0.5, "normal": 0.05}[init]
    assert abs(spread / expected - 1) < 0.3


def test_state_dict_brings_the_same_trees():
    layer = HardTrees(6, 2, n_trees=3, features_per_tree=3, generator=seeded(1))
    other = HardTrees(6, 2, n_trees=3, features_per_tree=3, generator=seeded(2))
    other.load_state_dict(layer.state_dict())
    x = torch.randn(10, 6)
    assert torch.equal(layer(x), other(x))


def test_autocast_rounds_the_input_and_nothing_else():
    encoder, layer = nn.Linear(4, 4), HardTrees(4, 1, n_trees=3, depth=3)
    x = torch.randn(8, 4)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        hidden = encoder(x)
        output = layer(hidden)
    assert hidden.dtype == torch.bfloat16 and output.dtype == torch.float32
    torch.testing.assert_close(output, layer(hidden.float()))
    output.sum().backward()
    assert encoder.weight.grad is not None


def test_compile_has_no_graph_break():
    run_python(
        """
        import torch
        from hardwood.nn import HardTrees

        model = torch.nn.Sequential(torch.nn.Linear(4, 6), HardTrees(6, 2, n_trees=4, depth=3))
        x = torch.randn(10, 4)
        compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
        torch.testing.assert_close(compiled(x), model(x))
        compiled(x).sum().backward()
        """
    )


def test_distributed_training_sums_what_each_process_saw():
    run_python(
        """
        import os, tempfile, torch
        import torch.multiprocessing as mp
        from hardwood.nn import HardTrees

        def layer():
            return HardTrees(4, 1, n_trees=3, depth=3, generator=torch.Generator().manual_seed(0))

        def work(rank, rendezvous, x):
            torch.distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
            model = torch.nn.parallel.DistributedDataParallel(layer())
            model(x[rank::2]).sum().backward()
            alone = layer()
            alone(x).sum().backward()
            for got, want in zip(model.module.parameters(), alone.parameters()):
                torch.testing.assert_close(got.grad, want.grad / 2, rtol=1e-4, atol=1e-6)
            torch.distributed.destroy_process_group()

        x = torch.randn(20, 4)
        with tempfile.TemporaryDirectory() as folder:
            mp.start_processes(work, args=(os.path.join(folder, "meet"), x), nprocs=2, start_method="fork")
        """
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"depth": 0}, r"depth=0.*1 to 16"),
        ({"depth": 40}, r"depth=40.*1 to 16"),
        ({"depth": 16, "n_trees": 10**7}, r"depth=16.*GiB.*smaller depth"),
        ({"n_features": 0}, r"n_features=0.*at least 1"),
        ({"n_trees": -1}, r"n_trees=-1.*at least 1"),
        ({"features_per_tree": 9}, r"features_per_tree=9.*1 to 4"),
        ({"temperature": 0.0}, r"temperature=0\.0.*above 0"),
        ({"combine": "vote"}, r"combine='vote'.*'softmax'"),
        ({"init": "zeros"}, r"init='zeros'.*glorot"),
    ],
)
def test_bad_settings_name_the_argument_and_the_remedy(arguments, message):
    # Without the annotation checks of the test run, which would get in first.
    build = inspect.unwrap(HardTrees.__init__)
    with pytest.raises(InvalidArgumentError, match=message):
        build(HardTrees.__new__(HardTrees), **{"n_features": 4, "n_outputs": 1, **arguments})


def test_wrong_rows_are_refused():
    layer = HardTrees(4, 1)
    with pytest.raises(InvalidArgumentError, match=r"x\.shape\[1\]=3.*4 columns"):
        layer(torch.zeros(2, 3))
    with torch.no_grad():
        layer.thresholds[0, 3] = torch.nan
    with pytest.raises(InvalidArgumentError, match=r"thresholds.*not finite"):
        layer(torch.zeros(2, 4))


def test_repr_says_what_it_is():
    assert repr(HardTrees(4, 2, n_trees=3, split="softsign")) == (
        "HardTrees(n_features=4, n_outputs=2, n_trees=3, depth=5, "
        "combine='softmax', selection='entmax', split='softsign')"
    )
