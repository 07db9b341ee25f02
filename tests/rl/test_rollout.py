"""Rollouts and advantages, against loops that a reader can follow."""

from __future__ import annotations

import numpy as np
import pytest

from hardwood.rl import Environments, Scale, TreePolicy
from hardwood.rl._rollout import Collector, RewardScale, Rollout, advantages_of
from helpers.environments import needs_envpool


def readable_advantages(
    rollout: Rollout, values: np.ndarray, final: np.ndarray, later: bool, gamma: float, lam: float
) -> np.ndarray:
    """Sum discounted errors forwards, to the end of the episode or of the rollout."""
    steps, n = rollout.rewards.shape
    out = np.zeros((steps, n))
    for env in range(n):
        for t in range(steps):
            if not rollout.valid[t, env]:
                continue
            weight, at = 1.0, t
            while at < steps and rollout.valid[at, env]:
                after = values[at + 1, env]
                if rollout.terminated[at, env]:
                    after = 0.0
                elif rollout.truncated[at, env] and not later:
                    after = final[at, env]
                out[t, env] += weight * (rollout.rewards[at, env] + gamma * after - values[at, env])
                if rollout.terminated[at, env] or rollout.truncated[at, env]:
                    break
                weight *= gamma * lam
                at += 1
    return out


@pytest.mark.parametrize("later", [True, False])
def test_advantages(later: bool):
    rng = np.random.default_rng(0)
    steps, n = 23, 5
    ended = rng.random((steps, n))
    terminated, truncated = ended < 0.15, (ended > 0.85)
    valid = np.ones((steps, n), bool)
    if later:
        valid[1:] = ~(terminated | truncated)[:-1]
        terminated &= valid
        truncated &= valid
    rollout = Rollout(
        np.zeros((steps + 1, n, 1)), np.zeros((steps, n), np.int64), np.zeros((steps, n)),
        rng.standard_normal((steps, n)), terminated, truncated, valid, {},
    )  # fmt: skip
    values, final = rng.standard_normal((steps + 1, n)), rng.standard_normal((steps, n))
    found = advantages_of(rollout, values, final, rollout.rewards, later, 0.97, 0.9)
    np.testing.assert_allclose(found, readable_advantages(rollout, values, final, later, 0.97, 0.9), atol=1e-12)


def test_the_reward_scale_is_the_deviation_of_discounted_sums():
    rng = np.random.default_rng(0)
    scale = RewardScale(0.9)
    sums, running = [], np.zeros(3)
    for _ in range(4):
        rewards, ended = rng.standard_normal((7, 3)) * 50 + 20, rng.random((7, 3)) < 0.2
        none = np.zeros((7, 3))
        rollout = Rollout(
            np.zeros((8, 3, 1)), none, none, rewards, ended, np.zeros((7, 3), bool), np.ones((7, 3), bool), {}
        )
        found = scale.update(rollout)
        for t in range(7):
            running = running * 0.9 + rewards[t]
            sums.append(running.copy())
            running = np.where(ended[t], 0.0, running)
        assert found == pytest.approx(np.std(sums))


@pytest.mark.parametrize("backend", ["gymnasium", pytest.param("envpool", marks=needs_envpool)])
def test_a_rollout_holds_what_the_environments_did(backend: str):
    """The steps that reset an environment are marked, and episode by episode the rewards add up."""
    envs = Environments("CartPole-v1", 3, 7, backend=backend)
    policy = TreePolicy(envs.actions, Scale(np.zeros(4), np.ones(4)), depth=3)
    collector = Collector(envs, np.random.default_rng(0))
    first, second = (collector.collect(policy.actor(), 60) for _ in range(2))
    np.testing.assert_array_equal(first.rows[-1], second.rows[0])
    ended = np.concatenate([first.terminated | first.truncated, second.terminated | second.truncated])
    valid, rewards = (
        np.concatenate([getattr(each, name) for each in (first, second)]) for name in ("valid", "rewards")
    )
    assert ended.any()
    np.testing.assert_array_equal(valid[1:], ~(ended & valid)[:-1])
    assert (rewards[valid] == 1).all()
    lengths = []
    for env in range(3):
        count = 0
        for t in range(120):
            count += int(valid[t, env])
            if ended[t, env] and valid[t, env]:
                lengths.append(count)
                count = 0
    assert sorted(lengths) == sorted(collector.episode_returns)
    # The last row of an episode is out of bounds, and the one after its reset is not.
    t, env = np.argwhere((first.terminated & first.valid)[:-2])[0]
    last, fresh = first.rows[t + 1, env], first.rows[t + 2, env]
    assert abs(last[2]) > 0.2094 or abs(last[0]) > 2.4
    assert (np.abs(fresh) <= 0.05).all()


def test_held_noise_leans_one_way_at_a_leaf():
    envs = Environments("Pendulum-v1", 2, 0, backend="gymnasium")
    policy = TreePolicy(envs.actions, Scale(np.zeros(3), np.ones(3)), depth=1)
    rollout = Collector(envs, np.random.default_rng(0), hold_noise=10).collect(policy.actor(), 20)
    actor = policy.actor()
    noise = rollout.chosen - actor.outputs(rollout.rows[:-1].reshape(40, 3)).reshape(20, 2, 1)
    for start in (0, 10):
        for env in range(2):
            assert len(np.unique(noise[start : start + 10, env].round(9))) <= 2
    assert len(np.unique(noise.round(9))) > 2


def test_discrete_actions_are_held_at_a_leaf_until_the_episode_ends():
    """Each leaf draws once for some steps; a new episode draws anew, and the shares of the draws are the policy's."""
    envs = Environments("CartPole-v1", 64, 0)
    policy = TreePolicy(envs.actions, Scale(np.zeros(4), np.array([0.05, 0.5, 0.05, 0.5])), depth=1)
    collector = Collector(envs, np.random.default_rng(0), hold_noise=6)
    rollout, actor = collector.collect(policy.actor(), 200), policy.actor()
    leaf = actor.leaves(rollout.rows[:-1].reshape(-1, 4)).reshape(200, 64)
    since = np.zeros(64, int)  # steps since each environment drew
    held: dict[tuple[int, int], int] = {}
    drawn: list[list[int]] = [[], []]
    for t in range(200):
        for env in range(64):
            key = (env, int(leaf[t, env]))
            if since[env] % 6 == 0:
                held.pop((env, 0), None), held.pop((env, 1), None)
            if key not in held:
                held[key] = int(rollout.chosen[t, env])
                drawn[key[1]].append(held[key])
            assert held[key] == rollout.chosen[t, env]
            ended = rollout.valid[t, env] and (rollout.terminated[t, env] or rollout.truncated[t, env])
            since[env] = 0 if ended else since[env] + 1
    logits = actor.tree.outputs
    share = np.exp(logits[:, 1]) / np.exp(logits).sum(1)
    for place in (0, 1):
        assert len(drawn[place]) > 500
        assert np.mean(drawn[place]) == pytest.approx(share[place], abs=0.06)
