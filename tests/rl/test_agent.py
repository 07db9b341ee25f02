"""Agents on disk, and what a folder that was tampered with is told."""

from __future__ import annotations

import json

import numpy as np
import pytest

import hardwood
from hardwood import rl
from hardwood.errors import ForestFileError, HardwoodError, InvalidArgumentError

TINY = {"steps": 600, "validations": 1, "rollout_steps": 16, "growth": 1, "epochs": 1, "validation_episodes": 1}


def test_an_agent_reads_back_as_it_was(cartpole: rl.Agent, tmp_path):
    cartpole.save(tmp_path / "agent")
    again = rl.load_agent(tmp_path / "agent")
    assert again.forest == cartpole.forest == hardwood.load(tmp_path / "agent" / "forest.safetensors")
    assert (again.kind, again.env, again.actions) == (cartpole.kind, cartpole.env, cartpole.actions)
    assert (again.settings, again.history) == (cartpole.settings, cartpole.history)
    rows = np.random.default_rng(0).standard_normal((100, 4))
    assert cartpole.policy is not None and again.policy is not None
    np.testing.assert_array_equal(again.policy.actor().outputs(rows), cartpole.policy.actor().outputs(rows))
    cartpole.save(tmp_path / "agent")  # in its own place


@pytest.mark.parametrize(
    ("env", "policy"), [("Pendulum-v1", "tree"), ("CartPole-v1", "mlp"), ("CartPole-v1", "soft-tree")]
)
def test_every_kind_reads_back(env: str, policy: str, tmp_path):
    agent = rl.train(env, policy=policy, **TINY)
    agent.save(tmp_path / "agent")
    again = rl.load_agent(tmp_path / "agent")
    rows = np.random.default_rng(0).standard_normal((50, len(agent.encoder.names)))
    np.testing.assert_array_equal(again.actor.greedy(rows), agent.actor.greedy(rows))
    assert (tmp_path / "agent" / "forest.safetensors").exists() == (policy == "tree")


def test_a_folder_that_was_altered_is_refused(cartpole: rl.Agent, tmp_path):
    folder = tmp_path / "agent"
    for name, change in {
        "agent.json": lambda text: text.replace(b'"push left"', b'"push lefT"'),
        "policy.safetensors": lambda content: content[:-40],
        "forest.safetensors": lambda content: content[:-40],
    }.items():
        cartpole.save(folder)
        (folder / name).write_bytes(change((folder / name).read_bytes()))
        with pytest.raises(ForestFileError, match=r"train again|cannot be"):
            rl.load_agent(folder)
    cartpole.save(folder)
    document = json.loads((folder / "agent.json").read_text())
    (folder / "agent.json").write_text(json.dumps({**document, "format_version": 9}))
    with pytest.raises(ForestFileError, match="upgrade hardwood"):
        rl.load_agent(folder)
    with pytest.raises(InvalidArgumentError, match=r"holds no agent\.json"):
        rl.load_agent(tmp_path)


def test_places_that_are_taken_are_left_alone(cartpole: rl.Agent, tmp_path):
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.txt").write_text("years of work")
    with pytest.raises(InvalidArgumentError, match=r"holds other files, such as 'thesis\.txt'"):
        cartpole.save(tmp_path / "other")
    with pytest.raises(InvalidArgumentError, match="lies in a folder that does not exist"):
        cartpole.save(tmp_path / "nowhere" / "agent")
    with pytest.raises(InvalidArgumentError, match="is a file"):
        cartpole.save(tmp_path / "other" / "thesis.txt")


def test_another_environment_must_have_the_same_spaces(cartpole: rl.Agent):
    with pytest.raises(InvalidArgumentError, match=r"env='Acrobot-v1': its observations have 6 numbers, not 4"):
        cartpole.evaluate(1, env="Acrobot-v1")
    with pytest.raises(InvalidArgumentError, match="episodes=0"):
        cartpole.evaluate(0)


def test_an_encoder_of_ones_own_is_asked_for_again(tmp_path):
    class Signs(rl.Encoder):
        names = ("position", "velocity", "angle", "spin")
        low, high, is_flag = np.zeros(4), np.ones(4), True

        def encode(self, observations):
            return (np.asarray(observations) > 0).astype(np.float64)

        def encode_one(self, observation):
            return self.encode([observation])

        def describe(self):
            return {"kind": "signs"}

    agent = rl.train("CartPole-v1", encoder=Signs(), **TINY)
    assert agent.forest is not None and agent.forest.feature_names == Signs.names
    agent.save(tmp_path / "agent")
    with pytest.raises(HardwoodError, match="pass encoder="):
        rl.load_agent(tmp_path / "agent")
    assert rl.load_agent(tmp_path / "agent", encoder=Signs()).forest == agent.forest


def test_cohens_d_is_the_gap_in_pooled_deviations():
    rng = np.random.default_rng(0)
    before, after = rng.normal(3, 2, 4000), rng.normal(1, 2, 3000)
    assert rl.cohens_d(before, after) == pytest.approx(1.0, abs=0.06)
    assert rl.cohens_d(after, before) == -rl.cohens_d(before, after)
    assert rl.cohens_d(np.ones(3), np.zeros(3)) == np.inf
