"""`Turns`: who moves in which epoch, encoders or trees; and a greedy start of trees on embeddings that have settled."""

from __future__ import annotations

from collections.abc import Callable

from hardwood.nn import MultimodalTrees
from hardwood.train import Callback, TrainingState


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
