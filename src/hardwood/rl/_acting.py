"""Acting: what a policy is between two updates, as arrays that answer in microseconds."""

from __future__ import annotations

import abc
from typing import Any, NamedTuple

import numpy as np

from hardwood._numba import exact_kernel
from hardwood._typing import Float, Int, Shaped
from hardwood.forest import Forest
from hardwood.rl._actions import Actions

_LOG_2PI = float(np.log(2 * np.pi))


class Actor(abc.ABC):
    """A policy as it is now; rows are raw observations, as an encoder made them."""

    actions: Actions

    @abc.abstractmethod
    def outputs(self, rows: Float[np.ndarray, "rows columns"]) -> Float[np.ndarray, "rows outputs"]:
        """Return the logits of discrete actions, or the means of continuous ones in units of half their range."""

    @abc.abstractmethod
    def greedy(self, rows: Float[np.ndarray, "rows columns"]) -> Shaped[np.ndarray, "..."]:
        """Return the best action for each row: its place among the codes, or numbers in the environment's units."""


class NetworkActor(Actor):
    """A policy whose outputs come from a few matrix products."""

    def __init__(self, actions: Actions, compute: Any, log_std: Float[np.ndarray, " numbers"] | None) -> None:
        self.actions, self._compute, self._log_std = actions, compute, log_std

    def outputs(self, rows: Float[np.ndarray, "rows columns"]) -> Float[np.ndarray, "rows outputs"]:
        """Return the network's outputs."""
        return self._compute(rows)

    def greedy(self, rows: Float[np.ndarray, "rows columns"]) -> Shaped[np.ndarray, "..."]:
        """Return the best action for each row."""
        return best(self.actions, self.outputs(rows))

    def sample(
        self, rows: Float[np.ndarray, "rows columns"], rng: np.random.Generator
    ) -> tuple[Shaped[np.ndarray, "..."], Float[np.ndarray, " rows"]]:
        """Draw an action for each row; return them (continuous ones in units) and their log probabilities."""
        outputs = self.outputs(rows)
        if self.actions.is_discrete:
            chosen, log_prob = np.empty(len(rows), np.int64), np.empty(len(rows))
            _draw_class(outputs.astype(np.float64), rng.random(len(rows)), chosen, log_prob)
            return chosen, log_prob
        assert self._log_std is not None
        noise = rng.standard_normal(outputs.shape)
        return outputs + np.exp(self._log_std) * noise, _gaussian(noise, self._log_std)


class HardTree(NamedTuple):
    """A complete tree on raw columns: inner nodes in breadth-first order, then the leaves."""

    feature: Int[np.ndarray, " nodes"]
    threshold: Float[np.ndarray, " nodes"]
    left: Int[np.ndarray, " nodes"]
    right: Int[np.ndarray, " nodes"]
    outputs: Float[np.ndarray, "leaves outputs"]  # logits, or means in units of half the range


class TreeActor(Actor):
    """One hard tree in raw units: the arrays of the very forest that is exported.

    While `held` noise is set, a leaf keeps its draw of exploration in an environment until it is set anew: each action
    then still has the policy's distribution, but a whole stretch of actions leans the same way at the same leaf.
    """

    def __init__(self, actions: Actions, tree: HardTree, log_std: Float[np.ndarray, " numbers"] | None) -> None:
        self.actions, self.tree, self._log_std = actions, tree, log_std
        self.held: Float[np.ndarray, "envs leaves ..."] | None = None
        self.leaf_actions = best(actions, tree.outputs)
        if actions.is_discrete:
            peak = tree.outputs.max(1, keepdims=True)
            self._log_probs = tree.outputs - peak - np.log(np.exp(tree.outputs - peak).sum(1, keepdims=True))
            self._cumulative = np.exp(self._log_probs).cumsum(1)

    def leaves(self, rows: Float[np.ndarray, "rows columns"]) -> Int[np.ndarray, " rows"]:
        """Return the leaf that each row reaches, in the order of `tree.outputs`."""
        reached = np.empty(len(rows), np.int64)
        _route(rows, self.tree.feature, self.tree.threshold, self.tree.left, self.tree.right, reached)
        return reached

    def outputs(self, rows: Float[np.ndarray, "rows columns"]) -> Float[np.ndarray, "rows outputs"]:
        """Return what the reached leaves say."""
        return self.tree.outputs[self.leaves(rows)]

    def greedy(self, rows: Float[np.ndarray, "rows columns"]) -> Shaped[np.ndarray, "..."]:
        """Return the action of the reached leaf."""
        return self.leaf_actions[self.leaves(rows)]

    def sample(
        self, rows: Float[np.ndarray, "rows columns"], rng: np.random.Generator
    ) -> tuple[Shaped[np.ndarray, "..."], Float[np.ndarray, " rows"]]:
        """Draw an action for each row, as a place or in units of half the range, with its log probability."""
        leaf = self.leaves(rows)
        if self.actions.is_discrete:
            chosen, log_prob = np.empty(len(rows), np.int64), np.empty(len(rows))
            uniform = rng.random(len(rows)) if self.held is None else self.held[np.arange(len(rows)), leaf]
            _draw_at_leaf(leaf, self._cumulative, self._log_probs, uniform, chosen, log_prob)
            return chosen, log_prob
        assert self._log_std is not None
        shape = (len(rows), len(self._log_std))
        noise = rng.standard_normal(shape) if self.held is None else self.held[np.arange(len(rows)), leaf]
        return self.tree.outputs[leaf] + np.exp(self._log_std) * noise, _gaussian(noise, self._log_std)


class ForestActor(Actor):
    """A `Forest` as a policy: what is exported, asked as its users ask it."""

    def __init__(self, actions: Actions, forest: Forest) -> None:
        self.actions, self.forest = actions, forest

    def outputs(self, rows: Float[np.ndarray, "rows columns"]) -> Float[np.ndarray, "rows outputs"]:
        """Return the forest's outputs, in units of half the range where actions are continuous."""
        outputs = self.forest.outputs(rows)
        return outputs if self.actions.is_discrete else (outputs - self.actions.middle) / self.actions.half

    def greedy(self, rows: Float[np.ndarray, "rows columns"]) -> Shaped[np.ndarray, "..."]:
        """Return the forest's prediction."""
        if self.actions.is_discrete:
            return self.forest.outputs(rows).argmax(1)
        return self.forest.outputs(rows)


def best(actions: Actions, outputs: Float[np.ndarray, "rows outputs"]) -> Shaped[np.ndarray, "..."]:
    """Return the action that outputs speak for: the first of the largest, or the mean within its range."""
    if actions.is_discrete:
        return outputs.argmax(1)
    return np.clip(actions.middle + actions.half * outputs.astype(np.float64), actions.low, actions.high)


def _gaussian(
    noise: Float[np.ndarray, "rows numbers"], log_std: Float[np.ndarray, " numbers"]
) -> Float[np.ndarray, " rows"]:
    """Return the log density of a normal distribution at its mean plus `noise` deviations."""
    return (-0.5 * noise**2 - log_std - 0.5 * _LOG_2PI).sum(1)


@exact_kernel
def _route(rows: Any, feature: Any, threshold: Any, left: Any, right: Any, reached: Any) -> None:
    n_nodes = len(feature)
    for row in range(rows.shape[0]):
        node = 0
        while node < n_nodes:
            # A missing value compares false and goes left.
            node = right[node] if rows[row, feature[node]] >= threshold[node] else left[node]
        reached[row] = node - n_nodes


@exact_kernel
def _draw_at_leaf(leaf: Any, cumulative: Any, log_probs: Any, uniform: Any, chosen: Any, log_prob: Any) -> None:
    last = cumulative.shape[1] - 1
    for row in range(len(leaf)):
        action = 0
        while action < last and uniform[row] >= cumulative[leaf[row], action]:
            action += 1
        chosen[row] = action
        log_prob[row] = log_probs[leaf[row], action]


@exact_kernel
def _draw_class(logits: Any, uniform: Any, chosen: Any, log_prob: Any) -> None:
    last = logits.shape[1] - 1
    for row in range(logits.shape[0]):
        peak = logits[row].max()
        total = np.exp(logits[row] - peak).sum()
        action, left = 0, uniform[row] * total
        while action < last:
            left -= np.exp(logits[row, action] - peak)
            if left < 0:
                break
            action += 1
        chosen[row] = action
        log_prob[row] = logits[row, action] - peak - np.log(total)
