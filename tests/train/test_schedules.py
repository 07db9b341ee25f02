"""Rates go where the schedule says, and the plateau rule has the right sign."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import nn

from hardwood.train import TrainingSettings
from hardwood.train._schedules import RateSchedule


def make(n_losses: int = 1, **options) -> tuple[RateSchedule, torch.optim.Optimizer]:
    optimizer = torch.optim.Adam([{"params": [nn.Parameter(torch.zeros(4, 2))], "lr": 0.2}])
    settings = TrainingSettings(max_epochs=10, learning_rate=0.2, **options)
    return RateSchedule(optimizer, settings, 5, n_losses), optimizer


def rates(steps: range, **options) -> list[float]:
    schedule, optimizer = make(**options)
    found = []
    for step in steps:
        schedule.set_rates(step)
        found.append(optimizer.param_groups[0]["lr"])
    return found


def test_constant_and_cosine_with_warm_up():
    assert set(rates(range(50))) == {0.2}
    found = rates(range(50), schedule="cosine", warmup_epochs=2)
    assert found[:10] == pytest.approx([0.02 * step for step in range(1, 11)])
    assert found[10] == pytest.approx(0.2)
    assert found[30] == pytest.approx(0.1)
    assert all(later < earlier for earlier, later in itertools.pairwise(found[10:]))
    assert 0 < found[-1] < 0.001


def test_a_plateau_lowers_the_rate_only_when_the_loss_stops_falling():
    schedule, optimizer = make(schedule="plateau", plateau_patience=3)
    found = []
    for loss in [5.0, 4.0, 3.0, 2.0, 1.0, 1.0, 1.1, 1.0, 0.9, 1.0, 1.0, 1.0]:
        schedule.observe(torch.tensor([loss], dtype=torch.float64))
        schedule.set_rates(0)
        found.append(optimizer.param_groups[0]["lr"])
    assert found == pytest.approx([0.2] * 7 + [0.1] * 4 + [0.05])


def test_a_plateau_of_one_tree_shortens_its_steps_only():
    schedule, optimizer = make(n_losses=4, schedule="plateau", plateau_patience=1)
    (parameter,) = optimizer.param_groups[0]["params"]
    schedule.observe(torch.tensor([1.0, 1, 1, 1], dtype=torch.float64))
    schedule.observe(torch.tensor([0.5, 2, 0.5, 0.5], dtype=torch.float64))
    schedule.set_rates(0)
    assert optimizer.param_groups[0]["lr"] == 0.2
    parameter.grad = torch.ones_like(parameter)
    schedule.remember([parameter])
    optimizer.step()
    schedule.shorten([parameter])
    torch.testing.assert_close(parameter[:, 0].detach(), torch.tensor([-0.2, -0.1, -0.2, -0.2]))
