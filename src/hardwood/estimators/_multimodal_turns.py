"""`Turns`: who moves in which epoch, encoders or trees; how long the warm-up is, and how trees start after it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hardwood.nn import MultimodalTrees
from hardwood.train import Callback, TrainingState

_MOST_WARM_UP = 15


def warm_up_of(parameters: Any) -> int:
    """Return the passes of the warm-up: "auto" is a quarter of all, 15 at most, and none without encoders."""
    if parameters.encoder_warmup != "auto":
        return int(parameters.encoder_warmup)
    return min(_MOST_WARM_UP, parameters.max_iter // 4) if parameters.branches_ else 0


def init_of(parameters: Any) -> str:
    """Return how trees start; "auto" takes what validation rows were in favour of (docs/multimodal.md)."""
    if parameters.init != "auto":
        return str(parameters.init)
    return "random" if parameters.fusion == "trees" else "greedy"


class Turns(Callback):
    """Sets the network's phase before each epoch; all it needs is the epoch, so it goes on after a resumption.

    Args:
        network: whose phase it sets.
        warm_up: epochs in which only encoders move, under a linear layer.
        alternate: epochs that trees, and then encoders, move by themselves; 0 moves all at once.
        plant: called at the end of the warm-up.
    """

    def __init__(
        self, network: MultimodalTrees, warm_up: int, alternate: int, plant: Callable[[], None] | None
    ) -> None:
        self._network, self._warm_up, self._alternate, self._plant = network, warm_up, alternate, plant

    def on_fit_begin(self, state: TrainingState) -> None:
        """Set the phase of the first epoch, or of the one after a resumption."""
        self._set(state.epoch)

    def on_epoch_end(self, state: TrainingState) -> bool | None:
        """Set the phase of the next epoch."""
        if state.epoch == self._warm_up and self._plant is not None:
            self._plant()
        self._set(state.epoch)
        return None

    def on_fit_end(self, state: TrainingState) -> None:
        """Leave the network as it is used."""
        self._network.phase = "all"

    def _set(self, epochs: int) -> None:
        if epochs < self._warm_up:
            self._network.phase = "warm_up"
        elif self._alternate:
            turn = (epochs - self._warm_up) // self._alternate
            self._network.phase = "trees" if turn % 2 == 0 else "encoders"
        else:
            self._network.phase = "all"
