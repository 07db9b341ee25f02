"""Small tables to train on, and small models."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from hardwood.nn import HardTrees
from hardwood.train import TrainingSettings, fit, fit_stream


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def two_moons(rows: int = 300, *, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Return two half circles that interlock, and which one each point lies on."""
    generator = seeded(seed)
    angle = torch.rand(rows, generator=generator) * torch.pi
    label = torch.arange(rows) % 2
    sign = 1.0 - 2.0 * label
    points = torch.stack([angle.cos() * sign + label, angle.sin() * sign + 0.4 * label], 1)
    return points + 0.1 * torch.randn(rows, 2, generator=generator), label


def restarts(n_trees: int, *, seed: int = 0, depth: int = 3, features: int = 2, **options: Any) -> HardTrees:
    """Return trees that are trained side by side."""
    return HardTrees(features, 1, n_trees, depth, combine="none", generator=seeded(seed), **options)


def alone(model: HardTrees, tree: int) -> HardTrees:
    """Return one tree of a set of restarts as a set of one."""
    single = restarts(1, depth=model.depth, features=model.n_features)
    with torch.no_grad():
        for name, parameter in single.named_parameters():
            parameter.copy_(model.get_parameter(name)[tree : tree + 1])
    return single


def weights_of(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Return a copy of a model's parameters and buffers."""
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def same_bits(one: dict[str, torch.Tensor], two: dict[str, torch.Tensor]) -> bool:
    """Tell whether two sets of parameters are equal in every bit."""
    return one.keys() == two.keys() and all(torch.equal(one[name], two[name]) for name in one)


def train_ensemble(checkpoint: str | None, **given: Any) -> dict[str, torch.Tensor]:
    """Train a small ensemble with all that has a state of its own, and return its weights."""
    model = HardTrees(2, 1, n_trees=12, depth=4, generator=seeded())
    settings = TrainingSettings(
        max_epochs=8, batch_size=64, learning_rate=0.03, averaging="ema", tree_dropout=0.1, checkpoint_seconds=0.0
    )
    rows, target = two_moons(400)
    fit(model, rows, target, loss="focal", settings=settings, validation=two_moons(100, seed=1), checkpoint=checkpoint,
        **given)  # fmt: skip
    return weights_of(model)


class Chunks:
    """A table as a source of chunks, which counts how often it is read."""

    def __init__(
        self, rows: torch.Tensor, target: torch.Tensor, size: int, weight: torch.Tensor | None = None
    ) -> None:  # fmt: skip
        self.tensors = (rows, target) if weight is None else (rows, target, weight)
        self.size, self.passes = size, 0

    def __iter__(self) -> Iterator[tuple[torch.Tensor, ...]]:
        self.passes += 1
        for start in range(0, len(self.tensors[0]), self.size):
            yield tuple(tensor[start : start + self.size] for tensor in self.tensors)


def train_streamed(checkpoint: str | None, **given: Any) -> dict[str, torch.Tensor]:
    """Train a small ensemble on a stream, and return its weights."""
    model = HardTrees(2, 1, n_trees=4, depth=3, generator=seeded())
    settings = TrainingSettings(
        max_epochs=5, batch_size=32, learning_rate=0.03, averaging="ema", tree_dropout=0.2, checkpoint_seconds=0.0,
        evaluate_every=5,
    )  # fmt: skip
    source = Chunks(*two_moons(220), 50)
    fit_stream(model, source, loss="focal", settings=settings, shuffle_rows=100, validation=two_moons(60, seed=1),
               checkpoint=checkpoint, **given)  # fmt: skip
    return weights_of(model)
