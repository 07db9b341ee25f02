"""`LatentTree` as a layer: rewards, spread, what training keeps, and pruned nodes that are gone."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from hardwood.errors import InvalidArgumentError
from hardwood.nn import LatentModel, LatentTree
from hardwood.ops import prune_tree


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def trained_a_little(tree: LatentTree, x: torch.Tensor) -> LatentTree:
    """Let the tree see some batches, so that it keeps a pruning."""
    for start in range(0, len(x), 50):
        tree(x[start : start + 50])
    return tree


def with_pruned_nodes(split: str = "linear") -> tuple[LatentTree, torch.Tensor]:
    """A tree of which some nodes are far from every row."""
    x = torch.randn(200, 3, generator=seeded(1))
    tree = LatentTree(3, 4, split=split, generator=seeded())  # type: ignore[arg-type]
    tree.spread(x)
    with torch.no_grad():
        tree.split_bias[[1, 5]] += 50.0
    return trained_a_little(tree, x), x


@pytest.mark.parametrize("split", ["linear", "elu"])
def test_a_hard_row_takes_the_way_of_its_splits(split):
    tree = LatentTree(4, 3, split=split, generator=seeded())
    x = torch.randn(50, 4, generator=seeded(1))
    q, s = tree.rewards(x), tree.splits(x)
    for row in range(50):
        node = 0
        for _ in range(3):
            node = 2 * node + (1 if s[row, node] < 0 else 2)
            assert q[row, node] >= 0
        # Only nodes on the way have a reward that is not negative.
        assert int((q[row] > 0).sum()) == 4


def test_training_solves_the_batch_and_eval_keeps_what_was_learned():
    tree = LatentTree(3, 3, penalty=7.0, generator=seeded())
    x = torch.randn(40, 3, generator=seeded(1))
    z, a = tree.traverse(x)
    wanted = prune_tree(tree.rewards(x), 7.0)
    assert torch.equal(z, wanted.z) and torch.equal(a, wanted.a)
    torch.testing.assert_close(tree.pruning, wanted.a.detach())
    tree.eval()
    before = tree.pruning.clone()
    whole = tree(x)
    for row in range(40):
        torch.testing.assert_close(tree(x[row : row + 1])[0], whole[row])
    assert torch.equal(tree.pruning, before)


@pytest.mark.parametrize("split", ["linear", "elu"])
def test_hard_rows_go_one_way_with_the_gradients_of_relaxed_ones(split):
    tree, x = with_pruned_nodes(split)
    small = tree.pruned()
    for each in (tree, small):
        each.hard = True
        each.eval()
        limits, q = each.limits(), each.rewards(x)
        z = each(x)
        clear = (each.splits(x) != 0).all(1)  # the median of some rows is one of them
        assert int(clear.sum()) > 150
        assert torch.equal(z[clear], torch.where(q > 0, limits, 0.0)[clear])
        # Of two children that are both left a row passes one.
        children = (each.parent == 0).nonzero().flatten()
        assert bool((z[:, children] > 0).sum(1).le(1).all())
        each.train()
        before, weights = each.pruning.clone(), torch.randn(z.shape, generator=seeded(4))
        assert torch.equal(each(x), z) and torch.equal(each.pruning, before)
        gradients = []
        for each.hard in (True, False):
            each.zero_grad()
            (each(x) * weights).sum().backward()
            gradients.append([p.grad.clone() for p in each.parameters()])
        for one, other in zip(*gradients, strict=True):
            assert torch.equal(one, other)


def test_a_hard_row_on_a_split_goes_right():
    tree = LatentTree(2, 2, generator=seeded()).eval()
    tree.hard = True
    assert tree(torch.zeros(1, 2)).tolist() == [[1, 0, 1, 0, 0, 0, 1]]


def test_spread_fills_all_leaves_evenly():
    x = torch.randn(320, 6, generator=seeded(2))
    for split in ("linear", "elu"):
        tree = LatentTree(6, 4, split=split, generator=seeded()).spread(x)
        reached = (tree.rewards(x)[:, 15:] > 0).sum(0)
        assert reached.tolist() == [20] * 16


@pytest.mark.parametrize("split", ["linear", "elu"])
def test_a_principal_start_parts_rows_where_they_lie_apart(split):
    """Four far groups: two splits along the line that joins them, at the means, put each in a leaf of its own."""
    group = torch.arange(4).repeat_interleave(25)
    x = (
        torch.randn(100, 3, generator=seeded()) * 0.1
        + torch.tensor([1.0, 2.0, 0.5]) * torch.tensor([0.0, 1.0, 5.0, 6.0])[group][:, None]
    )
    tree = LatentTree(3, 2, split=split, generator=seeded()).spread(x, along="principal")
    leaf = (tree.rewards(x)[:, 3:] > 0).int().argmax(1)
    assert leaf.tolist() == sorted(leaf.tolist()) or leaf.tolist() == sorted(leaf.tolist(), reverse=True)
    assert [int((leaf == each).sum()) for each in range(4)] == [25] * 4
    assert torch.equal(tree.split_bias, LatentTree(3, 2, split=split).spread(x, "principal").split_bias)
    with pytest.raises(InvalidArgumentError, match="along"):
        LatentTree(3, 1, split=nn.Linear(3, 1)).spread(x, "principal")


def test_gradients_reach_splits_and_input():
    tree = LatentTree(3, 3, generator=seeded()).spread(torch.randn(90, 3, generator=seeded(3)))
    x = torch.randn(90, 3, generator=seeded(1), requires_grad=True)
    (tree(x) * torch.randn(90, 15, generator=seeded(2))).sum().backward()
    assert all(bool((p.grad != 0).any()) for p in tree.parameters())
    assert bool((x.grad != 0).any())


def test_any_module_can_split():
    inner = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 7))
    tree = LatentTree(5, 3, split=inner)
    x = torch.randn(30, 5, generator=seeded())
    tree(x).sum().backward()
    assert bool((inner[0].weight.grad != 0).any())
    tree = trained_a_little(tree, x).eval()
    with torch.no_grad():
        tree.pruning[3:] = 0
    small = tree.pruned()
    torch.testing.assert_close(small(x), tree(x)[:, [0, 1, 2]])
    with pytest.raises(InvalidArgumentError, match="split"):
        LatentTree(5, 2, split=inner)(x)


@pytest.mark.parametrize("split", ["linear", "elu"])
def test_pruned_nodes_are_gone_and_nothing_else_changes(split):
    tree, x = with_pruned_nodes(split)
    tree.eval()
    active = tree.active
    assert 0 < int(active.sum()) < tree.n_nodes
    small = tree.pruned()
    assert small.n_nodes == int(active.sum())
    assert sum(p.numel() for p in small.parameters()) < sum(p.numel() for p in tree.parameters())
    torch.testing.assert_close(small(x), tree(x)[:, active])
    assert not tree(x)[:, ~active].any()
    assert small.node_numbers.tolist() == active.nonzero().flatten().tolist()


@pytest.mark.parametrize("sees_rows", [True, False])
@pytest.mark.parametrize("predictor", ["linear", "mlp"])
def test_a_pruned_model_says_the_same(sees_rows, predictor):
    model = LatentModel(3, 2, 4, predictor=predictor, sees_rows=sees_rows, dropout=0.3, generator=seeded())
    model.tree, x = with_pruned_nodes()
    model.eval()
    small = model.pruned()
    torch.testing.assert_close(small(x), model(x), rtol=1e-5, atol=1e-6)
    assert small.linears[0].in_features < model.linears[0].in_features


def test_a_tree_can_be_pruned_to_its_root():
    tree = LatentTree(2, 3).eval()
    with torch.no_grad():
        tree.pruning.zero_()
    small = tree.pruned()
    assert small.n_nodes == 1
    assert small(torch.randn(4, 2)).tolist() == [[0.0]] * 4


def test_between_two_linear_layers_everything_learns():
    """The layer learns exclusive or, which the linear layers around it cannot say."""
    x = torch.randn(256, 2, generator=seeded(5))
    y = ((x[:, 0] > 0) ^ (x[:, 1] > 0)).float()[:, None]
    torch_state = torch.random.get_rng_state()
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(2, 4), LatentTree(4, 3, penalty=1.0, generator=seeded(6)), nn.Linear(15, 1))
    torch.random.set_rng_state(torch_state)
    first = copy.deepcopy(net[0].weight)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.02)
    for _ in range(200):
        optimizer.zero_grad()
        nn.functional.binary_cross_entropy_with_logits(net(x), y).backward()
        optimizer.step()
    net.eval()
    assert float(((net(x) > 0) == (y > 0.5)).float().mean()) > 0.9
    assert not torch.equal(first, net[0].weight)


def test_first_weights_and_dropout_come_from_the_generator_alone(random_state_stays):
    one, again = (LatentModel(3, 1, 3, predictor="mlp", dropout=0.5, generator=seeded(4)) for _ in range(2))
    x = torch.randn(20, 3, generator=seeded())
    assert torch.equal(one(x), again(x))


def test_state_dict_brings_the_same_tree():
    tree, x = with_pruned_nodes()
    other = LatentTree(3, 4, generator=seeded(9))
    other.load_state_dict(tree.state_dict())
    assert torch.equal(other.eval()(x), tree.eval()(x))


@pytest.mark.parametrize(
    ("options", "named"),
    [({"n_features": 0}, "n_features"), ({"depth": 13}, "depth"), ({"penalty": 0.0}, "penalty")],
)
def test_bad_input_is_named(options, named):
    with pytest.raises(InvalidArgumentError, match=named):
        LatentTree(**{"n_features": 2, **options})
