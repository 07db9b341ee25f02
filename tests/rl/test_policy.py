"""One tree, one answer: layer, hard tree and pruned forest route every observation alike."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from hardwood.rl import Actions, MLPPolicy, Policy, Scale, SoftTreePolicy, TreePolicy

DISCRETE = Actions(("a", "b", "c"), (0, 1, 2))
CONTINUOUS = Actions(("force", "turn"), low=(-1.0, 0.5), high=(3.0, 0.75))


def tree_policy(actions: Actions, seed: int, n_columns: int = 4, depth: int = 5) -> TreePolicy:
    rng = np.random.default_rng(seed)
    scale = Scale(rng.standard_normal(n_columns), np.exp(rng.standard_normal(n_columns) * 3))
    policy = TreePolicy(actions, scale, depth=depth, generator=torch.Generator().manual_seed(seed))
    with torch.no_grad():
        policy.layer.leaf_values.mul_(20)
    return policy


def awkward_rows(policy: TreePolicy, rng: np.random.Generator) -> np.ndarray:
    """Observations of all sizes, and right at, just below and just above the tree's own thresholds."""
    tree, scale = policy.hard_tree(), policy.scale
    rows = rng.standard_normal((400, len(scale.mean))) * scale.deviation * 1.5 + scale.mean
    at = np.isfinite(tree.threshold)
    places, values = tree.feature[at], tree.threshold[at]
    near = np.repeat(rows[: len(values)], 3, axis=0)
    near[np.arange(len(near)), np.repeat(places, 3)] = np.stack(
        [np.nextafter(values, -np.inf), values, np.nextafter(values, np.inf)], 1
    ).ravel()
    odd = rows[:60].copy()
    odd[rng.random(odd.shape) < 0.3] = np.nan
    odd[rng.random(odd.shape) < 0.1] = np.inf
    odd[rng.random(odd.shape) < 0.1] = -np.inf
    return np.concatenate([rows, near, odd, rows.astype(np.float32)])


@pytest.mark.parametrize("actions", [DISCRETE, CONTINUOUS], ids=["discrete", "continuous"])
@pytest.mark.parametrize("seed", range(4))
def test_nothing_is_lost_on_the_way_to_the_tree(actions: Actions, seed: int):
    policy = tree_policy(actions, seed)
    rng = np.random.default_rng(seed)
    rows = awkward_rows(policy, rng)
    actor, forest = policy.actor(), policy.to_forest()
    with torch.no_grad():
        outputs = policy.outputs(torch.from_numpy(policy.scale.transform(rows))).numpy()
    leaves = policy.layer.leaf_index(torch.from_numpy(policy.scale.transform(rows))).numpy()[:, 0]
    exchanged = np.isin(policy.hard_tree().left, policy.hard_tree().right)  # no node does: leaves keep their order
    assert not exchanged.any()
    np.testing.assert_array_equal(actor.leaves(rows), leaves)
    np.testing.assert_array_equal(actor.outputs(rows), outputs)
    if actions.is_discrete:
        np.testing.assert_array_equal(forest.outputs(rows), outputs)
        np.testing.assert_array_equal(np.array(actions.names)[actor.greedy(rows)], forest.predict(rows))
    else:
        np.testing.assert_array_equal(actor.greedy(rows), forest.predict(rows))
        assert (forest.leaf_values >= actions.low).all() and (forest.leaf_values <= actions.high).all()


@pytest.mark.parametrize("depth", [1, 3, 7])
@pytest.mark.parametrize("scale", [Scale(np.zeros(9), np.ones(9)), Scale.of_flags(9)], ids=["numbers", "flags"])
def test_every_node_of_a_new_tree_splits_what_reaches_it(depth: int, scale: Scale):
    policy = TreePolicy(DISCRETE, scale, depth=depth, generator=torch.Generator().manual_seed(0))
    assert policy.to_forest(flags=scale.is_of_flags).node_count == 2 ** (depth + 1) - 1


def test_a_threshold_that_no_number_reaches_sends_all_left():
    policy = tree_policy(DISCRETE, 0, depth=3)
    with torch.no_grad():
        policy.layer.thresholds[:, 0] = torch.inf
        policy.layer.thresholds[:, 1] = -torch.inf
    # The layer itself refuses what is not finite; the largest number is as far as training can come.
    with torch.no_grad():
        policy.layer.thresholds.clamp_(-3.4e38, 3.4e38)
    rows = awkward_rows(policy, np.random.default_rng(0))
    scaled = torch.from_numpy(policy.scale.transform(rows))
    with torch.no_grad():
        np.testing.assert_array_equal(policy.to_forest().outputs(rows), policy.outputs(scaled).numpy())


@pytest.mark.parametrize("seed", range(3))
def test_flags_are_split_at_a_half(seed: int):
    policy = TreePolicy(DISCRETE, Scale.of_flags(9), depth=5, generator=torch.Generator().manual_seed(seed))
    with torch.no_grad():  # as if they had been trained
        policy.layer.thresholds.copy_(torch.randn(31, 9, generator=torch.Generator().manual_seed(seed)))
    rows = (np.random.default_rng(seed).random((500, 9)) < 0.5).astype(np.float64)
    forest = policy.to_forest(tuple("abcdefghi"), flags=True)
    np.testing.assert_array_equal(forest.outputs(rows), policy.actor().outputs(rows))
    assert set(forest.threshold[forest.left >= 0]) <= {0.5}
    assert forest.node_count < policy.to_forest(tuple("abcdefghi")).node_count


@pytest.mark.parametrize("actions", [DISCRETE, CONTINUOUS], ids=["discrete", "continuous"])
@pytest.mark.parametrize("kind", [TreePolicy, MLPPolicy, SoftTreePolicy])
def test_acting_and_learning_agree(kind: type[Policy], actions: Actions):
    """What an actor says of its draws is what the policy says of them, and draws follow what it says."""
    scale = Scale(np.array([0.5, -1.0]), np.array([2.0, 0.1]))
    policy = kind(actions, scale, generator=torch.Generator().manual_seed(0))  # type: ignore[call-arg]
    actor, rng = policy.actor(), np.random.default_rng(0)
    rows = np.random.default_rng(1).standard_normal((6, 2))
    scaled = torch.from_numpy(scale.transform(rows))
    chosen, log_prob = actor.sample(rows, rng)
    taken = torch.from_numpy(chosen if actions.is_discrete else chosen.astype(np.float32))
    expected, entropy = policy.evaluate(scaled, taken)
    np.testing.assert_allclose(log_prob, expected.detach().numpy(), rtol=2e-4, atol=2e-5)
    with torch.no_grad():
        outputs = policy.outputs(scaled)
    np.testing.assert_allclose(actor.outputs(rows), outputs.numpy(), rtol=1e-4, atol=1e-6)
    draws = np.stack([actor.sample(rows, rng)[0] for _ in range(4000)])
    if actions.is_discrete:
        shares = np.stack([(draws == action).mean(0) for action in range(3)], 1)
        np.testing.assert_allclose(shares, torch.softmax(outputs, 1).numpy(), atol=0.035)
        assert entropy.item() == pytest.approx(torch.distributions.Categorical(logits=outputs).entropy().mean().item())
    else:
        np.testing.assert_allclose(draws.mean(0), outputs.numpy(), atol=0.08)
        normal = torch.distributions.Normal(outputs, torch.ones_like(outputs))
        np.testing.assert_allclose(expected.detach(), normal.log_prob(taken).sum(1), rtol=1e-4, atol=1e-5)
        assert entropy.item() == pytest.approx(normal.entropy().sum(1).mean().item(), rel=1e-5)


def test_gradients_reach_every_kind_of_parameter():
    policy = tree_policy(CONTINUOUS, 0)
    rows = np.random.default_rng(0).standard_normal((64, 4)) * policy.scale.deviation + policy.scale.mean
    log_prob, _ = policy.evaluate(torch.from_numpy(policy.scale.transform(rows)), torch.randn(64, 2))
    log_prob.sum().backward()
    for name, parameter in policy.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().sum() > 0, name


def test_the_discretised_soft_tree_goes_where_its_strongest_feature_says():
    policy = SoftTreePolicy(DISCRETE, Scale(np.array([1.0, 2.0]), np.array([2.0, 0.5])), depth=3)
    with torch.no_grad():
        # With one feature at each node there is nothing to lose, but the softness.
        policy.tree.split_weights[0] = 0
        policy.tree.temperature = 1e-3
    rows = np.random.default_rng(0).standard_normal((300, 2)) * 2
    tree = policy.discretised()
    from hardwood.rl._policy import forest_of_tree

    forest = forest_of_tree(tree, DISCRETE, ("x", "y"))
    soft, hard = policy.actor().outputs(rows), forest.outputs(rows)
    assert (np.abs(soft - hard).max(1) < 1e-3).mean() > 0.97


def test_first_parameters_come_from_the_generator(random_state_stays: None):
    for kind in (TreePolicy, MLPPolicy, SoftTreePolicy):
        made = [
            kind(DISCRETE, Scale.of_flags(3), generator=torch.Generator().manual_seed(5)).state_dict()
            for _ in range(2)
        ]  # fmt: skip
        for name, value in made[0].items():
            assert torch.equal(value, made[1][name]), name
