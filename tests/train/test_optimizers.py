"""Rates by kind of parameter, and gradients kept short."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from hardwood.errors import InvalidArgumentError
from hardwood.nn import HardTrees
from hardwood.train import TrainingSettings
from hardwood.train._optimizers import clip_gradients, make_optimizer, parameter_groups


def test_each_kind_has_its_rate():
    model = nn.Sequential(nn.Linear(4, 4), HardTrees(4, 1, n_trees=3, depth=2))
    settings = TrainingSettings(
        learning_rate=0.5, split_logits_rate=0.05, thresholds_rate=0.01, leaf_weights_rate=0.001
    )
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    rates = {names[id(p)]: group["lr"] for group in parameter_groups(model, settings) for p in group["params"]}
    assert rates == {
        "0.weight": 0.5, "0.bias": 0.5, "1.split_logits": 0.05, "1.thresholds": 0.01, "1.leaf_values": 0.5,
        "1.leaf_weights": 0.001, "1.missing_logits": 0.5,
    }  # fmt: skip


def test_frozen_parameters_are_left_alone():
    model = HardTrees(4, 1, depth=2)
    model.thresholds.requires_grad_(False)
    groups = parameter_groups(model, TrainingSettings())
    assert all(p is not model.thresholds for group in groups for p in group["params"])
    with pytest.raises(InvalidArgumentError, match="has no parameter to train"):
        parameter_groups(model.requires_grad_(False), TrainingSettings())


@pytest.mark.parametrize("name", ["adam", "adamw"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_compiled_step_is_torchs(name, dtype):
    """At sizes that one thread moves, and that are shared among several."""
    generator = torch.Generator().manual_seed(0)
    shapes = [(1,), (7, 3), (600, 500)]
    start = [torch.randn(shape, generator=generator, dtype=dtype) for shape in shapes]
    gradients = [[torch.randn(shape, generator=generator, dtype=dtype) for shape in shapes] for _ in range(4)]
    settings = TrainingSettings(optimizer=name, weight_decay=0.1, betas=(0.8, 0.95), learning_rate=0.03)
    theirs_class = torch.optim.Adam if name == "adam" else torch.optim.AdamW
    ours, theirs = (nn.ParameterList([tensor.clone() for tensor in start]) for _ in range(2))
    compiled = make_optimizer(ours, settings)
    assert isinstance(compiled, theirs_class) and type(compiled) is not theirs_class
    plain = theirs_class(theirs.parameters(), lr=0.03, betas=(0.8, 0.95), weight_decay=0.1)
    for count, now in enumerate(gradients):
        for parameters, optimizer in ((ours, compiled), (theirs, plain)):
            for parameter, gradient in zip(parameters, now, strict=True):
                parameter.grad = None if count == 1 and gradient.numel() == 1 else gradient.clone()
            optimizer.step()
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, other)
        for key, value in plain.state[other].items():
            torch.testing.assert_close(compiled.state[mine][key], value)


def test_half_precision_and_odd_layouts_take_torchs_step():
    model = nn.Linear(3, 3).to(torch.bfloat16)
    assert type(make_optimizer(model, TrainingSettings())) is torch.optim.Adam
    model = nn.ParameterList([torch.zeros(3, 4).t()])
    assert type(make_optimizer(model, TrainingSettings())) is torch.optim.Adam


def test_gradients_are_shortened_together_or_tree_by_tree():
    parameters = [nn.Parameter(torch.zeros(3, 2, 2)), nn.Parameter(torch.zeros(3, 2))]

    def fill() -> None:
        for parameter in parameters:
            parameter.grad = torch.ones_like(parameter) * torch.tensor([0.01, 1.0, 5.0]).reshape(
                -1, *[1] * (parameter.ndim - 1)
            )

    def lengths() -> torch.Tensor:
        return torch.cat([parameter.grad.flatten(1) for parameter in parameters], 1).norm(dim=1)

    fill()
    before = lengths()
    clip_gradients(parameters, 1.0, by_tree=True)
    torch.testing.assert_close(lengths(), before.clamp(max=1.0))
    fill()
    clip_gradients(parameters, 1.0, by_tree=False)
    torch.testing.assert_close(lengths().norm(), torch.tensor(1.0))
    clip_gradients(parameters, 10.0, by_tree=False)
    torch.testing.assert_close(lengths().norm(), torch.tensor(1.0))
