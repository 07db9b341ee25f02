"""The policy inside Stable-Baselines3 itself."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch

pytest.importorskip("stable_baselines3")


@pytest.mark.parametrize(("env", "algorithm"), [("CartPole-v1", "PPO"), ("Pendulum-v1", "A2C")])
def test_their_training_ends_in_our_tree(env: str, algorithm: str):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # theirs
        import stable_baselines3

        from hardwood.rl.stable_baselines import TreeActorCriticPolicy

        state = torch.get_rng_state()
        options = {"n_steps": 256} if algorithm == "PPO" else {}
        kind = getattr(stable_baselines3, algorithm)
        model = kind(TreeActorCriticPolicy, env, seed=0, policy_kwargs={"depth": 4}, device="cpu", **options)
        before = model.policy.to_forest()
        model.learn(1_024 if algorithm == "PPO" else 200)
        torch.set_rng_state(state)
    forest = model.policy.to_forest()
    assert forest != before
    assert forest.depth <= 4
    rows = np.stack([model.observation_space.sample() for _ in range(200)]).astype(np.float32)
    rows = np.clip(rows, -3, 3)
    with torch.no_grad():
        chosen, _ = model.predict(rows, deterministic=True)
    predicted = forest.predict(rows)
    if env == "CartPole-v1":
        np.testing.assert_array_equal(np.array(["action 0", "action 1"])[chosen], predicted)
    else:
        np.testing.assert_allclose(chosen[:, 0], predicted, rtol=1e-5, atol=1e-6)


def test_the_tree_has_its_own_rates():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from stable_baselines3 import PPO

        from hardwood.rl.stable_baselines import TreeActorCriticPolicy

        model = PPO(
            TreeActorCriticPolicy, "CartPole-v1", learning_rate=1e-3, device="cpu",
            policy_kwargs={"threshold_factor": 0.0, "split_factor": 2.0},
        )  # fmt: skip
    policy = model.policy
    layer = policy.action_net.tree.layer
    before = layer.thresholds.detach().clone(), layer.split_logits.detach().clone()
    observations = torch.randn(32, 4)
    _, log_prob, _ = policy.evaluate_actions(observations, torch.randint(0, 2, (32,)))
    log_prob.sum().backward()
    policy.optimizer.step()
    assert torch.equal(layer.thresholds, before[0])
    moved = (layer.split_logits - before[1]).abs().max().item()
    assert moved == pytest.approx(2e-3, rel=0.05)
