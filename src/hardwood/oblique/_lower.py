"""Scaling of columns, and the way back: from a tree on scaled columns to a `Forest` in raw units."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch

from hardwood._typing import Float, Int
from hardwood.data import fit_standard
from hardwood.errors import reject
from hardwood.forest import LEAF, OBLIQUE, THRESHOLD, Forest
from hardwood.nn import ObliqueTrees
from hardwood.nn._oblique_trees import oblique_forest
from hardwood.oblique._leaves import linear_nodes

Scaling = Literal["standard", "range", "balance"]
# "standard" columns get this deviation, so that most of their rows lie within a range of about 1, as in "range".
_DEVIATION = 0.25
# Columns that vary by less than this part of their size are constant but for rounding.
_LEAST = 1e-12
# "balance" takes directions along which standardised columns vary less than this for ones that vary so much.
_LEAST_VARIANCE = 1e-4
# The variance of a direction to this power divides it: 1/2 would make all directions equal, noise as well as signal.
_POWER = 0.25


@dataclass(frozen=True)
class Scaler:
    """`(x - centre) / spread @ mixing` of the columns that vary; without mixing, each column stays alone."""

    columns: Int[np.ndarray, " used"]
    centre: Float[np.ndarray, " used"]
    spread: Float[np.ndarray, " used"]
    n_features: int
    mixing: Float[np.ndarray, "used used"] | None = None

    @classmethod
    def learn(cls, x: Float[np.ndarray, "rows features"], weight: Float[np.ndarray, " rows"], how: Scaling) -> Scaler:
        """Learn from rows: "standard" brings columns to one deviation, "range" to the numbers from 0 to 1.

        "balance" then goes half of the way to uncorrelated columns, each of which stays near the one it stands for:
        where columns say almost the same, training sees the directions in which they differ.
        """
        if how not in ("standard", "range", "balance"):
            reject("scaling", how, "is not known", "choose 'standard', 'range' or 'balance'")
        counted = x[weight > 0]
        low, high = counted.min(axis=0), counted.max(axis=0)
        size = np.maximum(np.abs(low), np.abs(high))
        if how == "range":
            # Halves, because the difference of two large numbers may be infinite.
            centre, spread = low, (high / 2 - low / 2) * 2
            spread = np.where(np.isfinite(spread), spread, np.finfo(np.float64).max)
        else:
            parts = [fit_standard(column, weight) for column in x.T]
            centre = np.array([part.mean for part in parts])
            spread = np.array([part.scale for part in parts]) / _DEVIATION
        varies = (high > low) & (spread > _LEAST * size) & (spread > 1e-150)
        used = np.flatnonzero(varies)
        scaler = cls(used, centre[used], spread[used], x.shape[1])
        if how == "balance" and len(used) > 1:
            standard = scaler._columns(x) / _DEVIATION
            correlation = (standard * (weight / weight.sum())[:, None]).T @ standard
            variances, directions = np.linalg.eigh(correlation)
            mixing = directions * np.maximum(variances, _LEAST_VARIANCE) ** -_POWER @ directions.T
            scaler = replace(scaler, mixing=mixing)
        return scaler

    def _columns(self, x: Float[np.ndarray, "rows features"]) -> Float[np.ndarray, "rows used"]:
        # Halves, because the difference of two large numbers may be infinite.
        return np.clip((x[:, self.columns] / 2 - self.centre / 2) / (self.spread / 2), -1e6, 1e6)

    def __call__(self, x: Float[np.ndarray, "rows features"]) -> Float[np.ndarray, "rows used"]:
        """Return the scaled columns in float32."""
        part = self._columns(x)
        if self.mixing is not None:
            with np.errstate(all="ignore"):  # some BLAS raise flags for numbers beside those that they multiply
                part = np.clip(part @ self.mixing, -1e6, 1e6)
        return np.ascontiguousarray(part, np.float32)

    def unmixed(self, weights: Float[np.ndarray, "nodes used"]) -> Float[np.ndarray, "nodes used"]:
        """Return split weights on unmixed columns."""
        return weights if self.mixing is None else weights @ self.mixing.T


def lower(
    trees: ObliqueTrees, scaler: Scaler, x: Float[np.ndarray, "rows features"], weight: Float[np.ndarray, " rows"]
) -> Forest:
    """Return the first of some trees as a `Forest` on raw columns, with the leaves still to be set.

    The two can differ in the last bits of a sum, so each threshold is moved to the middle between the training rows
    on its two sides: `x` is sent to the same leaves by both, and new rows to the nearer side. A split on one column
    becomes a threshold on it. A missing cell goes where most training rows went.
    """
    scaled = scaler(x)
    leaf = trees.leaves(torch.from_numpy(scaled)).numpy()[:, 0]
    own = scaler.unmixed(trees.split_weights.detach().double().numpy()[0])
    bound = trees.thresholds.detach().double().numpy()[0]
    length = np.maximum(np.linalg.norm(own, axis=1), 1e-300)
    own, bound = own / length[:, None], bound / length
    nodes = len(bound)
    weights = np.zeros((nodes, scaler.n_features))
    weights[:, scaler.columns] = own / scaler.spread
    offsets = (own * (scaler.centre / scaler.spread)).sum(axis=1)
    thresholds = bound + offsets
    missing_left = np.zeros(nodes, bool)
    # In the order of leaves, the rows of every node stand together.
    order = np.argsort(leaf, kind="stable")
    ends = np.searchsorted(leaf[order], np.arange(nodes + 2))
    for node in range(nodes):
        level = (node + 1).bit_length() - 1
        below = trees.depth - level
        place = node + 1 - 2**level
        rows = order[ends[place << below] : ends[(place + 1) << below]]
        if len(rows) == 0:
            continue
        left = (leaf[rows] >> (below - 1)) & 1 == 0
        missing_left[node] = weight[rows][left].sum() >= weight[rows][~left].sum()
        if left.any() and not left.all():
            # Summed up as a forest does it.
            along = np.zeros(len(rows))
            for column in np.flatnonzero(weights[node]):
                along += weights[node, column] * x[rows, column]
            last, first = along[left].max(), along[~left].min()
            if last < first:
                middle = last / 2 + first / 2
                thresholds[node] = middle if last < middle else first
    thresholds = np.clip(thresholds, -np.finfo(np.float64).max, np.finfo(np.float64).max)
    empty = np.zeros((nodes + 1, trees.n_outputs))
    return _with_thresholds(oblique_forest(weights, thresholds, empty, missing_left=missing_left))


def _with_thresholds(forest: Forest) -> Forest:
    """Turn splits with a single weight into splits by threshold; a weight below 0 exchanges the children."""
    assert forest.weight_start is not None and forest.weight_feature is not None and forest.weight_value is not None
    counts = np.diff(forest.weight_start)
    first = np.minimum(forest.weight_start[:-1], len(forest.weight_value) - 1)
    value = np.where(counts > 0, forest.weight_value[first], 1.0)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        threshold = forest.threshold / value
    single = (forest.kind == OBLIQUE) & (counts == 1) & (value != 0) & np.isfinite(threshold)
    turned = single & (value < 0)
    # Right of a tie is now left of it: the next number is the first that goes the other way.
    threshold = np.where(turned, np.nextafter(threshold, np.inf), threshold)
    kept = np.repeat(~single, counts)
    return replace(
        forest,
        kind=np.where(single, THRESHOLD, forest.kind),
        left=np.where(turned, forest.right, forest.left),
        right=np.where(turned, forest.left, forest.right),
        feature=np.where(single, forest.weight_feature[first], forest.feature),
        threshold=np.where(single, threshold, forest.threshold),
        missing_left=forest.missing_left ^ turned,
        weight_start=np.concatenate([[0], np.cumsum(np.where(single, 0, counts))]),
        weight_feature=forest.weight_feature[kept],
        weight_value=forest.weight_value[kept],
    )


def with_linear_leaves(
    forest: Forest, x: Float[np.ndarray, "rows features"], y: Float[np.ndarray, "rows outputs"],
    weight: Float[np.ndarray, " rows"], shrinkage: float,
) -> Forest:  # fmt: skip
    """Return a single tree with linear leaves fitted to rows, where the forest itself sends them."""
    at = forest.apply(x)[:, 0]
    parent = np.maximum(forest._parent, 0)
    values, coef = linear_nodes(at, parent, x, y, weight, shrinkage)
    leaf = forest.kind == LEAF
    return replace(forest, leaf_values=values[leaf], leaf_coef=coef[leaf])


def single_leaf(values: Float[np.ndarray, " outputs"], n_features: int, **description: Any) -> Forest:
    """Return a tree that answers the same always."""
    nowhere = np.array([-1])
    return Forest(
        tree_start=np.array([0, 1]), kind=np.array([LEAF]), left=nowhere, right=nowhere, feature=nowhere,
        threshold=np.zeros(1), missing_left=np.zeros(1, bool), leaf_values=values[None], n_features=n_features,
        **description,
    )  # fmt: skip
