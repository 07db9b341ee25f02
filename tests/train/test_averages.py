"""Averages of parameters."""

from __future__ import annotations

import torch
from torch import nn

from hardwood.train import TrainingSettings
from hardwood.train._averages import WeightAverage


def run(kind: str, values: list[float], **options) -> tuple[float, float]:
    """Return the value inside the block and after it."""
    parameter = nn.Parameter(torch.zeros(3))
    average = WeightAverage([parameter], TrainingSettings(averaging=kind, **options))
    for value in values:
        with torch.no_grad():
            parameter.fill_(value)
        average.after_step()
        average.before_evaluation()
    with average.in_place():
        inside = float(parameter.detach()[0])
    return inside, float(parameter.detach()[0])


def test_the_average_stands_in_the_model_inside_the_block_only():
    assert run("none", [1.0, 5.0]) == (5.0, 5.0)
    assert run("checkpoints", [1.0, 2.0, 6.0], averaged_checkpoints=2) == (4.0, 6.0)
    inside, after = run("ema", [1.0] * 200 + [0.0], ema_decay=0.9)
    assert after == 0.0
    assert abs(inside - 0.9) < 1e-5


def test_a_young_average_forgets_the_start():
    inside, _ = run("ema", [1.0] * 60, ema_decay=0.9999)
    assert inside > 0.99
