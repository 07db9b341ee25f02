"""Trees made from networks: they imitate, and what they lose is measured."""

from __future__ import annotations

import numpy as np
import pytest

from hardwood import rl
from hardwood.errors import InvalidArgumentError

SETTINGS = {"steps": 25_000, "validations": 10, "target": 200}


@pytest.fixture(scope="module")
def network() -> rl.Agent:
    return rl.train("CartPole-v1", policy="mlp", seed=0, **SETTINGS)


@pytest.mark.parametrize("kind", ["sa-dt", "viper"])
def test_a_tree_that_imitates(network: rl.Agent, kind: str, tmp_path):
    shallow, deep = (rl.derive(network, kind, depth, rounds=2, seed=0) for depth in (1, 8))
    for agent, depth in ((shallow, 1), (deep, 8)):
        assert agent.forest is not None and agent.forest.depth <= depth
        assert agent.forest.classes is not None and agent.forest.classes.tolist() == ["push left", "push right"]
    lost, more = deep.information_loss(5, seed=1), shallow.information_loss(5, seed=1)
    assert lost.different / lost.decisions < more.different / more.decisions
    assert lost.different / lost.decisions < 0.2
    deep.save(tmp_path / "agent")
    again = rl.load_agent(tmp_path / "agent")
    assert (again.kind, again.forest) == (kind, deep.forest)
    rows = np.random.default_rng(0).standard_normal((100, 4))
    np.testing.assert_array_equal(again.actor.greedy(rows), deep.actor.greedy(rows))


def test_the_same_command_makes_them():
    tiny = {"steps": 1_000, "validations": 2, "rollout_steps": 16}
    agent = rl.train("CartPole-v1", policy="sa-dt", depth=3, **tiny)
    assert agent.kind == "sa-dt" and agent.forest is not None and agent.forest.depth <= 3
    assert agent.policy is not None and agent.policy.kind == "mlp"
    soft = rl.train("CartPole-v1", policy="d-sdt", depth=4, **tiny)
    assert soft.forest is not None and soft.forest.depth <= 4
    assert soft.information_loss(2).decisions > 0
    continuous = rl.train("Pendulum-v1", policy="sa-dt", depth=3, **tiny)
    assert continuous.forest is not None and continuous.forest.output_names == ("torque",)
    assert np.isfinite(continuous.evaluate(2)).all()


def test_what_cannot_be_made_is_refused(network: rl.Agent):
    with pytest.raises(InvalidArgumentError, match="'d-sdt' is made from 'soft-tree'"):
        rl.derive(network, "d-sdt")
    with pytest.raises(InvalidArgumentError, match="kind='cart': is not known"):
        rl.derive(network, "cart")
    with pytest.raises(InvalidArgumentError, match="VIPER is for discrete actions"):
        rl.train("Pendulum-v1", policy="viper", steps=500, validations=1)
    with pytest.raises(InvalidArgumentError, match="has no forest to compare"):
        network.information_loss(1)
