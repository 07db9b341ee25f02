"""Training, for real: the pole is balanced in seconds, by the very tree that is exported."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from hardwood import rl
from hardwood.errors import InvalidArgumentError
from hardwood.rl._agent import make_policy
from hardwood.rl._ppo import ppo
from hardwood.rl._run import Run
from hardwood.train import CheckpointError, TrainingDivergedError

TINY = {"steps": 3_000, "validations": 3, "rollout_steps": 32, "growth": 4, "epochs": 2}


def test_a_tree_learns_to_balance_the_pole(cartpole: rl.Agent):
    assert cartpole.about["best_validation"] >= 490
    assert cartpole.about["steps"] <= 80_000
    rewards = cartpole.evaluate(20, seed=3)
    assert rewards.mean() > 400
    assert cartpole.forest is not None
    assert cartpole.forest.feature_names == ("cart position", "cart velocity", "pole angle", "pole velocity")
    assert cartpole.forest.classes is not None
    assert cartpole.forest.classes.tolist() == ["push left", "push right"]


def test_no_decision_of_the_trained_policy_differs_from_the_trees(cartpole: rl.Agent):
    lost = cartpole.information_loss(10, seed=5)
    assert lost.decisions > 3_000
    assert lost.different == 0
    np.testing.assert_array_equal(lost.trained, lost.applied)
    assert lost.cohens_d == 0


def test_acting_one_by_one_is_what_is_evaluated(cartpole: rl.Agent):
    env = gymnasium.make("CartPole-v1")
    observation, _ = env.reset(seed=0)
    total, ended = 0.0, False
    while not ended:
        observation, reward, terminated, truncated, _ = env.step(cartpole.act(observation))
        total, ended = total + float(reward), terminated or truncated
    assert total > 100


def test_the_same_seed_gives_the_same_agent(random_state_stays: None):
    first, second, other = (rl.train("CartPole-v1", seed=seed, **TINY) for seed in (3, 3, 4))
    assert first.forest == second.forest
    assert [each["validation"] for each in first.history] == [each["validation"] for each in second.history]
    assert first.forest != other.forest


@pytest.mark.parametrize("policy", ["tree", "mlp", "soft-tree"])
@pytest.mark.parametrize("algorithm", ["ppo", "a2c"])
@pytest.mark.parametrize("env", ["CartPole-v1", "Pendulum-v1"])
def test_every_policy_trains_with_every_algorithm(env: str, policy: str, algorithm: str):
    agent = rl.train(env, policy=policy, algorithm=algorithm, seed=0, **{**TINY, "steps": 1_500})
    assert agent.about["steps"] == pytest.approx(1_500, abs=32)
    assert (agent.forest is not None) == (policy == "tree")
    assert np.isfinite(agent.evaluate(2, seed=0)).all()
    assert {"environment", "policy", "update", "validation"} == set(agent.about["split"])


def test_a2c_learns():
    agent = rl.train("CartPole-v1", algorithm="a2c", seed=0, steps=60_000, validations=60, target=100)
    assert agent.about["best_validation"] >= 100


def small_run(**given) -> Run:
    settings = rl.Settings(n_envs=4, validation_episodes=1, **given)
    envs, validation = (rl.Environments("CartPole-v1", n, 0) for n in (4, 1))
    scale = rl.Scale(np.zeros(4), np.ones(4))
    generator = torch.Generator().manual_seed(0)
    policy = make_policy("tree", envs.actions, scale, settings.as_dict(), generator)
    return Run(policy, settings, envs, validation, np.random.default_rng(0), generator)


def test_parts_of_a_batch_add_up_to_the_batch():
    """Gradient accumulation changes nothing but the order of sums."""
    states = []
    for size in (7, 4096):
        run = small_run(accumulate=size, steps=400, rollout_steps=100, growth=1, epochs=1, batch_size=200)
        run.optimizer = torch.optim.SGD([*run.policy.parameters(), *run.critic.parameters()], lr=0.5)  # type: ignore[assignment]
        before = run.policy.layer.leaf_values.detach().clone()  # type: ignore[union-attr, operator]
        ppo(run)
        states.append({**run.policy.state_dict(), **run.critic.state_dict()})
    assert not torch.equal(states[0]["layer.leaf_values"], before)
    for name, value in states[0].items():
        torch.testing.assert_close(value, states[1][name], rtol=1e-4, atol=1e-6)


def test_a_policy_that_has_moved_far_is_left_for_the_next_rollout():
    steps = []
    for target in (None, 0.0, 1e9):
        run = small_run(target_kl=target, steps=400, rollout_steps=100, growth=1, epochs=5, batch_size=100)
        taken, step = [], run.optimizer.step
        run.optimizer.step = lambda taken=taken, step=step: (taken.append(1), step())[1]  # type: ignore[method-assign]
        ppo(run)
        steps.append(len(taken))
    assert steps[0] == steps[2] > steps[1] > 0
    assert steps[1] * 5 == steps[0]


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
def test_a_vector_environment_of_ones_own(mode: AutoresetMode):
    vector = SyncVectorEnv([lambda: gymnasium.make("CartPole-v1")] * 4, autoreset_mode=mode)
    with pytest.raises(InvalidArgumentError, match="validation_env=None"):
        rl.train(vector, **TINY)
    agent = rl.train(vector, validation_env="CartPole-v1", **TINY)
    assert agent.about["steps"] >= 3_000
    vector.close()
    with pytest.raises(InvalidArgumentError, match=r"validation_env='Acrobot-v1': its actions are"):
        rl.train(SyncVectorEnv([lambda: gymnasium.make("CartPole-v1")]), validation_env="Acrobot-v1", **TINY)


def test_an_interrupted_training_keeps_its_best():
    calls = []

    def interrupt(progress: rl.Progress) -> None:
        calls.append(progress)
        if progress.steps > 1_500:
            raise KeyboardInterrupt

    agent = rl.train("CartPole-v1", on_progress=interrupt, **TINY)
    assert agent.about["interrupted"]
    assert 1_500 < agent.about["steps"] < 3_000
    assert calls[0].total_steps == 3_000 and calls[0].steps_per_second > 0 and calls[0].seconds_left > 0


def test_resuming_goes_on_from_the_checkpoint(tmp_path):
    path = tmp_path / "run.safetensors"
    settings = {**TINY, "steps": 2_000, "growth": 1, "reduce_rate": False}
    first = rl.train("CartPole-v1", seed=0, checkpoint=path, **settings)
    again = rl.train("CartPole-v1", seed=0, checkpoint=path, resume=True, **settings)
    assert again.forest == first.forest  # nothing was left to do
    longer = rl.train("CartPole-v1", seed=0, checkpoint=path, resume=True, **{**settings, "steps": 4_000})
    assert longer.history[: len(first.history)] == first.history
    assert len(longer.history) > len(first.history)
    assert longer.about["steps"] >= 4_000
    assert longer.about["seconds"] > first.about["seconds"]


def test_a_checkpoint_of_another_training_is_refused(tmp_path):
    path = tmp_path / "run.safetensors"
    rl.train("CartPole-v1", seed=0, checkpoint=path, **TINY)
    with pytest.raises(CheckpointError, match=r"env='CartPole-v1', and now env='Acrobot-v1'|actions=|columns="):
        rl.train("Acrobot-v1", seed=0, checkpoint=path, resume=True, **TINY)
    with pytest.raises(CheckpointError, match="seed=0, and now seed=1"):
        rl.train("CartPole-v1", seed=1, checkpoint=path, resume=True, **TINY)

    def cart_pole_with_fewer_columns() -> gymnasium.Env:
        env = gymnasium.make("CartPole-v1")
        space = gymnasium.spaces.Box(-5, 5, (2,), np.float32)
        return gymnasium.wrappers.TransformObservation(env, lambda seen: seen[2:], space)

    cart_pole_with_fewer_columns.__name__ = "CartPole-v1"
    with pytest.raises(CheckpointError, match="columns="):
        rl.train(cart_pole_with_fewer_columns, seed=0, checkpoint=path, resume=True, **TINY)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(CheckpointError, match="truncated or altered"):
        rl.train("CartPole-v1", seed=0, checkpoint=path, resume=True, **TINY)
    with pytest.raises(InvalidArgumentError, match="resume=True: there is no checkpoint"):
        rl.train("CartPole-v1", resume=True, **TINY)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"policy": "forest"}, "policy='forest': is not known"),
        ({"algorithm": "dqn"}, "algorithm='dqn': is not known"),
        ({"leraning_rate": 1.0}, "leraning_rate=1.0: is no setting"),
        ({"checkpoint": "nowhere/run.ckpt"}, "lies in a folder that does not exist"),
    ],
)
def test_wrong_arguments_are_refused(given: dict, message: str):
    with pytest.raises(InvalidArgumentError, match=message):
        rl.train("CartPole-v1", **{**TINY, **given})


def test_a_loss_that_is_not_finite_stops_with_a_reason():
    class Broken(gymnasium.Env):
        observation_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32)
        action_space = gymnasium.spaces.Discrete(2)

        def reset(self, *, seed=None, options=None):
            return np.zeros(1, np.float32), {}

        def step(self, action):
            return np.zeros(1, np.float32), float("nan"), False, False, {}

    settings = {**TINY, "validation_episodes": 1, "scale_rewards": False}
    with pytest.raises(TrainingDivergedError, match="the loss became nan after"):
        rl.train(lambda: gymnasium.wrappers.TimeLimit(Broken(), 20), **settings)


def test_steps_that_reset_are_not_learned_from():
    """A rollout's reset steps are dropped, so what is learned from has one row for each true step."""
    run = small_run()
    experience = run.collect(100)
    ended = len(run.collector.episode_returns)
    assert ended > 3
    assert 400 - ended - 4 <= len(experience.returns) <= 400 - ended + 4
    assert len(experience.scaled) == len(experience.chosen) == len(experience.advantages) == len(experience.returns)
