"""The mean target of each leaf, drawn towards the means of the nodes above it.

Hierarchical shrinkage (Agarwal, Tan, Ronen, Singh and Yu, 2022): on the way from the root to a leaf the mean changes
from node to node, and each change is divided by `1 + shrinkage / weight of the node above`. A step that few rows
support then counts little. We also halve the change towards a node that is worth a single row: under unequal weights
a node may weigh far less than the one above it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hardwood._typing import Float
from hardwood.errors import reject

if TYPE_CHECKING:
    from hardwood.forest._forest import Forest


def leaf_means(
    forest: Forest,
    X: Any,
    signal: Float[np.ndarray, "rows signals"],
    weight: Float[np.ndarray, " rows"],
    shrinkage: float = 0.0,
) -> Float[np.ndarray, "leaves signals"]:
    """Return for each leaf of a single tree the shrunken mean of a signal over the rows that reach it.

    A leaf that no row reaches has the mean of the nearest node above it that some row reaches. The cost is linear in
    rows times signals, and in nodes times signals.
    """
    from hardwood.forest import _predict

    if forest.n_trees != 1:
        reject("forest", forest, "has several trees", "take one, as in forest[0]")
    if not 0 <= shrinkage < np.inf:
        reject("shrinkage", shrinkage, "must be a finite number from 0 up", "pass 25.0, or 0 for plain means")
    at = _predict.leaf_nodes(forest, X)[:, 0]
    count = forest.node_count
    weights = np.bincount(at, weight, minlength=count).astype(np.float64)
    sums = np.stack([np.bincount(at, weight * column, minlength=count) for column in signal.T], axis=1)
    levels = [np.flatnonzero(forest._node_depth == depth) for depth in range(1, forest.depth + 1)]
    parent = forest._parent
    for level in reversed(levels):
        np.add.at(weights, parent[level], weights[level])
        np.add.at(sums, parent[level], sums[level])
    if not weights[0] > 0:
        reject("sample_weight", 0.0, "no row has a weight above 0", "pass rows that count")

    means = np.zeros_like(sums)
    seen = weights > 0
    means[seen] = sums[seen] / weights[seen, None]
    shrunken = means.copy()
    for level in levels:
        above = parent[level]
        # A node that no row reaches repeats the one above it.
        means[level] = np.where(seen[level, None], means[level], means[above])
        doubt = shrinkage / np.maximum(weights[above], 1e-300)
        if shrinkage > 0:
            doubt = doubt + 1 / np.maximum(weights[level], 1e-300)
        step = (means[level] - means[above]) / (1 + doubt)[:, None]
        shrunken[level] = shrunken[above] + np.where(seen[level, None], step, 0.0)
    return shrunken[forest._leaf_index >= 0]
