"""What formats store of every node, splits included: how many rows pass, and what the tree says there on average."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from hardwood._typing import Float
from hardwood.explain._checks import check_rows, check_weights
from hardwood.explain._expected import expect, reached, sums_upwards
from hardwood.forest import Forest


class Nodes(NamedTuple):
    """Statistics of all nodes, those of all trees one after another."""

    rows: Float[np.ndarray, " nodes"]  # how many rows pass a node, or their weights
    values: Float[np.ndarray, "nodes outputs"]  # what the tree says on average over them


def measured(forest: Forest, X: Any, sample_weight: Any = None) -> Nodes:
    """Count the rows that pass each node; a node that none passes has the mean of its two sides as its value."""
    table = check_rows(forest, X)
    share = check_weights(sample_weight, len(table))
    weight = np.ones(len(table)) if sample_weight is None else np.asarray(sample_weight, np.float64)
    mass = np.zeros(forest.n_leaves)
    for rows, leaf in reached(forest, table):
        mass += np.bincount(leaf.ravel(), np.repeat(weight[rows], forest.n_trees), forest.n_leaves)
    return Nodes(sums_upwards(forest, mass), expect(forest, table, share).value)


def unmeasured(forest: Forest) -> Nodes:
    """Return what there is to say without rows: every leaf counts as one row, a split is the mean of its two sides."""
    values = expect(forest, np.zeros((0, forest.n_features)), np.zeros(0)).value
    return Nodes(sums_upwards(forest, np.ones(forest.n_leaves)), values)
