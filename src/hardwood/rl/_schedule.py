"""What changes while a policy is trained: the sizes of rollout and batch, and the learning rates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


def rollout_growth(steps_done: int, steps: int, growth: int) -> int:
    """Return by how much a rollout is larger now than at first (Equation 6.7).

    The equation's exponent, floor((t + 1) i / (1 + t_total)) - 1 with i = 1 + log2(m_final / m_init), runs from -1 to
    i - 2 before it reaches i - 1 with the very last step. The text has it start at m_init and expand to m_final, in i
    stages of equal length; so the 1 is not taken off here, and the last stage has m_final.

    >>> [rollout_growth(done, 800, 8) for done in (0, 199, 200, 400, 799)]
    [1, 1, 2, 4, 8]
    """
    stages = growth.bit_length()
    return 2 ** min(stages - 1, stages * steps_done // max(1, steps))


@dataclass
class Plateau:
    """Halves learning rates when the validation reward has not risen `patience` times in a row (6.3.1)."""

    patience: int
    best: float = -float("inf")
    stalled: int = 0
    halvings: int = 0

    def step(self, reward: float) -> bool:
        """Take in one validation reward; tell whether rates are to be halved now."""
        if reward > self.best:
            self.best, self.stalled = reward, 0
            return False
        self.stalled += 1
        if self.stalled < self.patience:
            return False
        self.stalled = 0
        self.halvings += 1
        return True


def halve_rates(optimizer: Any) -> None:
    """Halve the learning rate of every group."""
    for group in optimizer.param_groups:
        group["lr"] /= 2
