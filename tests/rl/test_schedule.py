"""What changes during training: sizes, rates, and what weight decay leaves alone."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from hardwood.rl import Actions, Scale, Settings, TreePolicy
from hardwood.rl._run import parameter_groups
from hardwood.rl._schedule import Plateau, halve_rates, rollout_growth


def test_rollouts_grow_by_stages_of_equal_length():
    growths = [rollout_growth(done, 1_000_000, 128) for done in range(0, 1_000_000, 1000)]
    assert growths[0] == 1 and growths[-1] == 128
    assert sorted(set(growths)) == [2**stage for stage in range(8)]
    np.testing.assert_array_equal(np.bincount(np.log2(growths).astype(int)), [125] * 8)
    assert {rollout_growth(done, 100, 1) for done in range(101)} == {1}


def test_rates_are_halved_where_the_reward_stalls():
    plateau = Plateau(patience=3)
    rising = [1.0, 2.0, 3.0, 4.0, 5.0]
    assert not any(map(plateau.step, rising))
    assert [plateau.step(5.0) for _ in range(7)] == [False, False, True, False, False, True, False]
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.5)
    halve_rates(optimizer)
    assert optimizer.param_groups[0]["lr"] == 0.25


def test_weight_decay_leaves_thresholds_and_critic_alone():
    policy = TreePolicy(Actions(("a",), low=(0.0,), high=(1.0,)), Scale(np.zeros(2), np.ones(2)), depth=2)
    critic = torch.nn.Linear(2, 1)
    settings = Settings(weight_decay=0.5, threshold_rate=0.125)
    groups = parameter_groups(policy, critic, settings)
    decay = {id(parameter): group["weight_decay"] for group in groups for parameter in group["params"]}
    layer = policy.layer
    assert policy.log_std is not None
    assert [decay[id(each)] for each in (layer.split_logits, layer.leaf_values, policy.log_std)] == [0.5] * 3
    assert [decay[id(each)] for each in (layer.thresholds, critic.weight)] == [0.0] * 2
    assert len(decay) == len(list(policy.parameters())) + 2
    rates = {id(parameter): group["lr"] for group in groups for parameter in group["params"]}
    assert rates[id(layer.thresholds)] == 0.125
    # Between the values of a flag there is nothing to learn.
    flags = TreePolicy(Actions(("a",), low=(0.0,), high=(1.0,)), Scale.of_flags(2), depth=2)
    assert parameter_groups(flags, critic, settings)[1]["lr"] == 0.0


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"gamma": 1.5}, "gamma=1.5: must be from 0 to 1"),
        ({"n_envs": 0}, "n_envs=0: must be a whole number"),
        ({"growth": 3}, "growth=3: must be a power of 2"),
        ({"clip": 0.0}, "clip=0.0: must be above 0"),
        ({"leaf_rate": float("nan")}, "leaf_rate=nan"),
    ],
)
def test_settings_that_cannot_work_are_refused(given: dict, message: str):
    with pytest.raises(ValueError, match=message):
        Settings(**given)
