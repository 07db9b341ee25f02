"""Averages of a model's parameters over training, which are evaluated, kept, and in the model at the end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from hardwood._typing import Bool
from hardwood.train._settings import TrainingSettings


class WeightAverage:
    """The average that the settings ask for: of the steps ("ema") or of the last evaluations ("checkpoints")."""

    def __init__(self, parameters: list[nn.Parameter], settings: TrainingSettings) -> None:
        self._live = [parameter.data for parameter in parameters]
        self._kind = settings.averaging
        self._decay = settings.ema_decay
        self._most = settings.averaged_checkpoints if self._kind == "checkpoints" else 1
        self._snapshots: list[list[Tensor]] = [self._copy()] if self._kind == "ema" else []
        self._updates = 0

    def after_step(self) -> None:
        """Move the exponential average towards the parameters as they are now."""
        if self._kind == "ema":
            self._updates += 1
            # A young average follows fast: it must not remember the random start.
            decay = min(self._decay, self._updates / (10 + self._updates))
            torch._foreach_lerp_(self._snapshots[0], self._live, 1 - decay)

    def before_evaluation(self) -> None:
        """Take the parameters into the mean over evaluations."""
        if self._kind == "checkpoints":
            self._snapshots = [*self._snapshots, self._copy()][-self._most :]

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Put the average into the model for as long as the block runs."""
        if not self._snapshots:
            yield
            return
        own = self._copy()
        try:
            for place, *kept in zip(self._live, *self._snapshots, strict=True):
                place.copy_(torch.stack(kept).mean(0) if len(kept) > 1 else kept[0])
            yield
        finally:
            torch._foreach_copy_(self._live, own)

    def replace(self, which: Bool[Tensor, " trees"], kept: list[Tensor]) -> None:
        """Put other parameters in the place of some trees' averages."""
        for snapshot in self._snapshots:
            for place, instead in zip(snapshot, kept, strict=True):
                place[which] = instead[which]

    def tensors(self) -> dict[str, Tensor]:
        """Return what a checkpoint has to hold."""
        held = {
            f"{age}.{index}": tensor
            for age, kept in enumerate(self._snapshots)
            for index, tensor in enumerate(kept)
        }  # fmt: skip
        return {**held, "updates": torch.tensor(self._updates)}

    def load_tensors(self, tensors: dict[str, Tensor]) -> None:
        """Go on from a checkpoint."""
        self._updates = int(tensors["updates"])
        ages = (len(tensors) - 1) // len(self._live)
        self._snapshots = [
            [tensors[f"{age}.{index}"].to(place.device) for index, place in enumerate(self._live)]
            for age in range(ages)
        ]  # fmt: skip

    def _copy(self) -> list[Tensor]:
        return [tensor.clone() for tensor in self._live]
