"""Where the search begins: hyperplanes drawn at random that divide the rows, or greedy trees."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from hardwood._typing import Float
from hardwood.nn import ObliqueTrees
from hardwood.nn._oblique_trees import Leaf
from hardwood.oblique._task import Task

# A random hyperplane leaves at least this share of a node's rows on either side.
_SMALLEST_SHARE = 0.3
# The smallest leaves of the greedy trees; later ones see only some of the columns.
_SMALLEST_LEAVES = (1, 5, 2, 10)
# Beside its own column with weight 1, a greedy split starts with weights of this size, which have a gradient too.
_NOISE = 0.02


def draw_starts(task: Task, depth: int, n_starts: int, n_greedy: int, leaf: Leaf, seed: list[int]) -> ObliqueTrees:
    """Return trees to start from: `n_greedy` greedy ones, then random ones; their leaves are not set."""
    rng = np.random.default_rng(seed)
    size = (task.x.shape[1], task.y.shape[1], n_starts, depth)
    generator = torch.Generator().manual_seed(int(rng.integers(2**62)))
    trees = ObliqueTrees(*size, leaf=leaf, generator=generator)
    weights, thresholds = trees.split_weights.detach().numpy(), trees.thresholds.detach().numpy()
    for number in range(n_starts):
        if number < n_greedy:
            _plant(weights[number], thresholds[number], task, depth, number, rng)
        else:
            _divide(weights[number], thresholds[number], task.x, rng)
    return trees


def _divide(weights: np.ndarray, thresholds: np.ndarray, x: np.ndarray, rng: np.random.Generator) -> None:
    """Put each hyperplane of one tree where it divides the rows that arrive."""
    parts = {0: np.arange(len(x))}
    for node in range(len(thresholds)):
        rows = parts.pop(node, None)
        if rows is None:
            continue
        with np.errstate(all="ignore"):  # as in `revive`
            along = x[rows] @ weights[node]
        thresholds[node] = np.quantile(along, rng.uniform(_SMALLEST_SHARE, 1 - _SMALLEST_SHARE))
        left = along < thresholds[node]
        if left.any() and not left.all():
            parts[2 * node + 1], parts[2 * node + 2] = rows[left], rows[~left]


def _plant(
    weights: np.ndarray, thresholds: np.ndarray, task: Task, depth: int, number: int, rng: np.random.Generator
) -> None:
    """Write a greedy tree into one tree; where it has no split, the hyperplane stays as drawn and divides no rows."""
    from sklearn.tree import DecisionTreeRegressor

    smallest = min(_SMALLEST_LEAVES[number % len(_SMALLEST_LEAVES)], max(1, len(task.x) // 20))
    model: Any = DecisionTreeRegressor(
        max_depth=depth, min_samples_leaf=smallest, random_state=int(rng.integers(2**31)),
        max_features=None if number < len(_SMALLEST_LEAVES) else 0.7,
    )  # fmt: skip
    counted = task.weight > 0
    grown = model.fit(task.x[counted], task.y[counted], sample_weight=task.weight[counted]).tree_
    at = {0: 0}
    for node in range(len(thresholds)):
        source = at.pop(node, -1)
        if source < 0 or grown.children_left[source] < 0:
            thresholds[node] = np.float32(np.abs(task.x @ weights[node]).max() + 1.0)
            continue
        noise = np.asarray(rng.normal(scale=_NOISE, size=weights.shape[1]), np.float32)
        noise[grown.feature[source]] = 0.0
        weights[node] = noise
        weights[node, grown.feature[source]] = 1.0
        # The noise moves rows by their place along it; on average by its mean.
        thresholds[node] = grown.threshold[source] + float((task.x @ noise).mean())
        at[2 * node + 1], at[2 * node + 2] = int(grown.children_left[source]), int(grown.children_right[source])


def revive(trees: ObliqueTrees, x: Float[np.ndarray, "rows features"], parts: list[np.ndarray], y: np.ndarray) -> int:
    """Draw anew the splits that send all of their rows one way, the best of some columns; return how many.

    `parts` are the rows of each tree. Such a split has next to no gradient, so training alone would leave it as it is.
    """
    weights, thresholds = trees.split_weights.detach().numpy(), trees.thresholds.detach().numpy()
    count = 0
    for k, rows in enumerate(parts):
        here = {0: rows}
        for node in range(thresholds.shape[1]):
            own = here.pop(node, None)
            if own is None or len(own) < 2:
                continue
            # Some BLAS raise floating-point flags for numbers beside those that they multiply.
            with np.errstate(all="ignore"):
                left = x[own] @ weights[k, node] < thresholds[k, node]
            if left.all() or not left.any():
                split = _best_column(x[own], y[own])
                if split is None:
                    continue
                count += 1
                weights[k, node] = 0.0
                weights[k, node, split[0]] = 1.0
                thresholds[k, node] = split[1]
                left = x[own, split[0]] < thresholds[k, node]
            here[2 * node + 1], here[2 * node + 2] = own[left], own[~left]
    return count


def _best_column(x: np.ndarray, y: np.ndarray) -> tuple[int, float] | None:
    """Return the column and threshold that lower the squared error most; None if nothing does."""
    if (y == y[0]).all():
        return None
    from sklearn.tree import DecisionTreeRegressor

    stump = DecisionTreeRegressor(max_depth=1, random_state=0).fit(x, y).tree_
    if stump.children_left[0] < 0:
        return None
    column = int(stump.feature[0])
    # scikit-learn sends x <= threshold left.
    threshold = float(np.nextafter(np.float32(stump.threshold[0]), np.float32(np.inf)))
    left = x[:, column] < np.float32(threshold)
    return None if left.all() or not left.any() else (column, threshold)
