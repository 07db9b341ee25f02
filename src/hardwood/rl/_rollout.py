"""Rollouts: what a policy saw, did and got, and what its actions were worth beyond the critic's expectation."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hardwood._numba import exact_kernel
from hardwood._typing import Bool, Float, Shaped
from hardwood.rl._acting import NetworkActor, TreeActor
from hardwood.rl._environments import Environments


@dataclass
class Rollout:
    """Some steps of all environments. `rows` has one entry more: what came of the last step."""

    rows: Float[np.ndarray, "bounds envs columns"]
    chosen: Shaped[np.ndarray, "..."]  # (steps, envs) places of actions, or (steps, envs, numbers) in units
    log_probs: Float[np.ndarray, "steps envs"]
    rewards: Float[np.ndarray, "steps envs"]
    terminated: Bool[np.ndarray, "steps envs"]
    truncated: Bool[np.ndarray, "steps envs"]
    valid: Bool[np.ndarray, "steps envs"]  # False where an environment was being reset and ignored the action
    final: dict[tuple[int, int], Float[np.ndarray, " columns"]]  # last rows of episodes that ended by truncation


@dataclass
class Collector:
    """Steps environments with a policy, rollout after rollout, and keeps the books."""

    environments: Environments
    rng: np.random.Generator
    hold_noise: int = 1
    environment_seconds: float = 0.0
    policy_seconds: float = 0.0
    episode_returns: list[float] = field(default_factory=list)  # of episodes that ended, in their order
    _rows: Any = None
    _resetting: Any = None
    _running: Any = None
    _held: Any = None
    _held_for: Any = None

    def collect(self, actor: TreeActor | NetworkActor, steps: int) -> Rollout:
        """Take `steps` steps everywhere."""
        envs = self.environments
        n, discrete = envs.n_envs, envs.actions.is_discrete
        if self._rows is None:
            self._rows = envs.reset()
            self._resetting, self._running = np.zeros(n, bool), np.zeros(n)
            self._held_for = np.zeros(n, np.int64)
        rows = np.empty((steps + 1, n, self._rows.shape[1]))
        shape = (steps, n) if discrete else (steps, n, envs.actions.n_outputs)
        chosen: Any = np.empty(shape, np.int64 if discrete else np.float64)
        log_probs, rewards = np.empty((steps, n)), np.empty((steps, n))
        terminated, truncated, valid = (np.empty((steps, n), bool) for _ in range(3))
        final: dict[tuple[int, int], Any] = {}
        middle, half = (None, None) if discrete else (envs.actions.middle, envs.actions.half)
        clock = time.perf_counter
        rows[0] = self._rows
        for t in range(steps):
            start = clock()
            if self.hold_noise > 1 and isinstance(actor, TreeActor):
                actor.held = self._hold(actor)
            chosen[t], log_probs[t] = actor.sample(rows[t], self.rng)
            taken = chosen[t] if discrete else middle + half * chosen[t]
            acted = clock()
            step = envs.step(taken)
            self.policy_seconds += acted - start
            self.environment_seconds += clock() - acted
            rows[t + 1], rewards[t] = step.rows, step.rewards
            terminated[t], truncated[t] = step.terminated, step.truncated
            valid[t] = ~self._resetting
            self._running += np.where(self._resetting, 0.0, step.rewards)
            ended = (step.terminated | step.truncated) & valid[t]
            if ended.any():
                self.episode_returns.extend(self._running[ended].tolist())
                self._running[ended] = 0
                self._held_for[ended] = 0
                if not envs.resets_later:
                    final.update({(t, env): row for env, row in step.final.items() if not step.terminated[env]})
            if envs.resets_later:
                self._resetting = ended
        self._rows = rows[-1].copy()
        return Rollout(rows, chosen, log_probs, rewards, terminated, truncated, valid, final)

    def _hold(self, actor: TreeActor) -> Float[np.ndarray, "..."]:
        """Return each leaf's draw in each environment: a new one after some steps, and for a new episode."""
        n, leaves, outputs = self.environments.n_envs, *actor.tree.outputs.shape
        discrete = self.environments.actions.is_discrete
        if self._held is None:
            self._held = np.empty((n, leaves) if discrete else (n, leaves, outputs))
        anew = np.flatnonzero(self._held_for % self.hold_noise == 0)
        if len(anew):
            shape = (len(anew), *self._held.shape[1:])
            self._held[anew] = self.rng.random(shape) if discrete else self.rng.standard_normal(shape)
        self._held_for += 1
        return self._held


def advantages_of(
    rollout: Rollout,
    values: Float[np.ndarray, "bounds envs"],
    final_values: Float[np.ndarray, "steps envs"],
    rewards: Float[np.ndarray, "steps envs"],
    resets_later: bool,
    gamma: float,
    gae_lambda: float,
) -> Float[np.ndarray, "steps envs"]:
    """Return generalised advantage estimates. An episode cut off by a time limit goes on with its last row's value."""
    advantages = np.zeros(rewards.shape)
    _advantages(
        rewards, values, final_values, rollout.terminated, rollout.truncated, rollout.valid, resets_later, gamma,
        gae_lambda, advantages,
    )  # fmt: skip
    return advantages


@exact_kernel
def _advantages(
    rewards: Any, values: Any, final_values: Any, terminated: Any, truncated: Any, valid: Any, resets_later: Any,
    gamma: Any, gae_lambda: Any, advantages: Any,
) -> None:  # fmt: skip
    steps, n = rewards.shape
    for env in range(n):
        later = 0.0
        for t in range(steps - 1, -1, -1):
            if not valid[t, env]:
                later = 0.0
                continue
            after = values[t + 1, env]
            if terminated[t, env]:
                after, later = 0.0, 0.0
            elif truncated[t, env]:
                later = 0.0
                if not resets_later:
                    after = final_values[t, env]
            later = rewards[t, env] + gamma * after - values[t, env] + gamma * gae_lambda * later
            advantages[t, env] = later


@dataclass
class RewardScale:
    """The running deviation of discounted sums of rewards; dividing by it spares the critic large numbers."""

    gamma: float
    count: float = 0.0
    mean: float = 0.0
    square: float = 0.0  # sum of squared distances from the mean
    _sums: Any = None

    def update(self, rollout: Rollout) -> float:
        """Take in a rollout's rewards and return what to divide them by."""
        if self._sums is None:
            self._sums = np.zeros(rollout.rewards.shape[1])
        sums = np.empty(rollout.rewards.shape)
        _discounted(rollout.rewards, rollout.terminated | rollout.truncated, self.gamma, self._sums, sums)
        seen = sums[rollout.valid]
        if len(seen):
            total = self.count + len(seen)
            distance = float(seen.mean()) - self.mean
            self.square += float(seen.var()) * len(seen) + distance**2 * self.count * len(seen) / total
            self.mean += distance * len(seen) / total
            self.count = total
        deviation = (self.square / max(1.0, self.count)) ** 0.5
        return deviation if deviation > 1e-8 else 1.0


@exact_kernel
def _discounted(rewards: Any, ended: Any, gamma: Any, running: Any, sums: Any) -> None:
    for t in range(rewards.shape[0]):
        for env in range(rewards.shape[1]):
            running[env] = running[env] * gamma + rewards[t, env]
            sums[t, env] = running[env]
            if ended[t, env]:
                running[env] = 0.0
