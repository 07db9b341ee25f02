"""Quasi-Hyperbolic Adam against its formula, written out number by number, and against Adam."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from hardwood.errors import InvalidArgumentError
from hardwood.train import QHAdam, TrainingSettings
from hardwood.train._optimizers import make_optimizer


def gradients(steps: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(steps, 5))


def run(optimizer_type: type[torch.optim.Optimizer], steps: int, **options: object) -> np.ndarray:
    parameter = torch.nn.Parameter(torch.linspace(-1, 1, 5, dtype=torch.float64))
    optimizer = optimizer_type([parameter], lr=0.1, **options)  # type: ignore[call-arg]
    for slope in gradients(steps):
        parameter.grad = torch.from_numpy(slope.copy())
        optimizer.step()
    return parameter.detach().numpy()


@pytest.mark.parametrize("nus", [(0.7, 1.0), (0.3, 0.6), (0.0, 0.0)])
def test_a_step_is_the_formula(nus):
    found = run(QHAdam, 7, nus=nus, betas=(0.9, 0.95), weight_decay=0.2)
    for place, value in enumerate(np.linspace(-1, 1, 5)):
        m = v = 0.0
        for step, slope in enumerate(gradients(7)[:, place], start=1):
            g = slope + 0.2 * value
            m, v = 0.9 * m + 0.1 * g, 0.95 * v + 0.05 * g * g
            m_hat, v_hat = m / (1 - 0.9**step), v / (1 - 0.95**step)
            top = (1 - nus[0]) * g + nus[0] * m_hat
            value -= 0.1 * top / (math.sqrt((1 - nus[1]) * g * g + nus[1] * v_hat) + 1e-8)
        assert found[place] == pytest.approx(value, rel=1e-12)


def test_nus_of_one_are_adam():
    np.testing.assert_allclose(
        run(QHAdam, 9, nus=(1.0, 1.0), betas=(0.9, 0.999)), run(torch.optim.Adam, 9), rtol=1e-12
    )  # fmt: skip


def test_parameters_that_no_compiled_pass_takes_move_alike():
    """Beside a parameter that is not contiguous, all go through torch's own operations."""
    found = []
    for shape in ((4, 3), (3, 4)):
        start = torch.linspace(-1, 1, 12, dtype=torch.float64).reshape(4, 3)
        parameter = torch.nn.Parameter(start.clone() if shape == (4, 3) else start.t().contiguous().t())
        assert parameter.is_contiguous() == (shape == (4, 3))
        optimizer = QHAdam([parameter], lr=0.1, nus=(0.6, 0.8), weight_decay=0.1)
        for slope in np.random.default_rng(1).normal(size=(6, 4, 3)):
            parameter.grad = torch.from_numpy(slope)
            optimizer.step()
        found.append(parameter.detach().numpy())
    np.testing.assert_allclose(found[0], found[1], rtol=1e-12)


def test_the_settings_choose_it():
    model = torch.nn.Linear(2, 1)
    optimizer = make_optimizer(model, TrainingSettings(optimizer="qhadam", nus=(0.5, 0.9), learning_rate=0.2))
    assert isinstance(optimizer, QHAdam)
    assert optimizer.param_groups[0]["nus"] == (0.5, 0.9) and optimizer.param_groups[0]["lr"] == 0.2
    with pytest.raises(InvalidArgumentError, match="nus"):
        TrainingSettings(nus=(0.5, 1.1))
