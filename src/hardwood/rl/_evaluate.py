"""Evaluation: whole episodes of a greedy policy, and how much of it its tree has lost."""

from __future__ import annotations

import math

import numpy as np

from hardwood._typing import Float
from hardwood.rl._acting import Actor
from hardwood.rl._environments import Environments


def episode_returns(
    environments: Environments, actor: Actor, other: Actor | None = None, most_steps: int = 100_000
) -> tuple[Float[np.ndarray, " episodes"], int, int]:
    """Run one episode in each environment with the greedy actor, and add up its rewards.

    Returns the sums, and, of all decisions, how many there were and in how many `other` chose something else.
    """
    rows = environments.reset()
    running = np.ones(environments.n_envs, bool)
    total = np.zeros(environments.n_envs)
    decisions = different = 0
    for _ in range(most_steps):
        chosen = actor.greedy(rows)
        if other is not None:
            differs = chosen != other.greedy(rows)
            different += int((differs if differs.ndim == 1 else differs.any(1))[running].sum())
        decisions += int(running.sum())
        step = environments.step(chosen)
        rows = step.rows
        total += np.where(running, step.rewards, 0.0)
        running &= ~(step.terminated | step.truncated)
        if not running.any():
            break
    return total, decisions, different


def cohens_d(before: Float[np.ndarray, " trials"], after: Float[np.ndarray, " others"]) -> float:
    """Return Cohen's D: how many pooled deviations the mean of `after` lies below that of `before` (Table 6.3).

    >>> cohens_d(np.array([1.0, 3.0]), np.array([1.0, 3.0]))
    0.0
    """
    n, m = len(before), len(after)
    gap = float(np.mean(before) - np.mean(after))
    if gap == 0 or n + m <= 2:
        return 0.0
    squares = float(((before - np.mean(before)) ** 2).sum() + ((after - np.mean(after)) ** 2).sum())
    pooled = math.sqrt(squares / (n + m - 2))
    return gap / pooled if pooled > 0 else math.copysign(math.inf, gap)
