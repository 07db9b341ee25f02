"""Who passes the nodes of a tree: counts of given rows, their true classes, or how their true values spread."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hardwood._typing import Float, Int, Shaped
from hardwood.draw._checks import check_labels, rows_per_node
from hardwood.draw._words import Words
from hardwood.errors import reject
from hardwood.forest import LEAF, Forest

_BINS = 12


@dataclass(frozen=True)
class Spread:
    """True values at each node of a tree. The histogram is about the first output."""

    mean: Float[np.ndarray, "nodes outputs"]  # NaN where no row comes
    deviation: Float[np.ndarray, "nodes outputs"]  # standard deviation, of the rows themselves
    histogram: Int[np.ndarray, "nodes bins"]  # over one range for all nodes
    edges: Float[np.ndarray, " bins+1"]


@dataclass(frozen=True)
class Census:
    """What is known of given rows at the nodes of one tree, counted from its root."""

    rows: Int[np.ndarray, " nodes"]
    classes: Int[np.ndarray, "nodes classes"] | None = None  # rows by true class
    spread: Spread | None = None

    def share(self, node: int) -> float:
        """Return the share of all rows that pass a node; 0 where there are no rows."""
        return float(self.rows[node] / self.rows[0]) if self.rows[0] else 0.0

    def class_shares(self, node: int) -> Float[np.ndarray, " classes"] | None:
        """Return the shares of the true classes among a node's rows; None where there are no rows or no classes."""
        if self.classes is None or not self.rows[node]:
            return None
        return self.classes[node] / self.rows[node]

    def words(self, words: Words, node: int) -> str:
        """Say what is known of a node's rows.

        `words` are those of the tree.
        """
        count = int(self.rows[node])
        text = f"{count:,} {'row' if count == 1 else 'rows'}"
        shares = self.class_shares(node)
        if shares is not None:
            return f"{text}: {words.shares(shares)}"
        if self.spread is None or not count:
            return text
        parts = [
            f"{words.lead(output)}mean {words.plain(mean)}, sd {words.plain(deviation)}"
            for output, (mean, deviation) in enumerate(
                zip(self.spread.mean[node].tolist(), self.spread.deviation[node].tolist(), strict=True)
            )
        ]
        return f"{text}: {'; '.join(parts)}"


def census(forest: Forest, tree: int, X: Any, y: Any = None) -> Census | None:
    """Count the rows of `X`, with their true answers `y`, at the nodes of one tree; None without rows."""
    if X is None:
        if y is not None:
            reject("y", "an array", "is given without X", "pass the rows as X, or leave y out")
        return None
    leaf = forest.apply(X)[:, tree]
    rows = rows_per_node(forest, leaf, tree)
    if y is None:
        return Census(rows)
    truth = check_labels(forest, y, len(leaf))
    if forest.classes is not None:
        known = np.argsort(forest.classes, kind="stable")
        position = known[np.searchsorted(forest.classes[known], truth)]
        return Census(rows, classes=_table(forest, tree, leaf, position, len(forest.classes)))
    return Census(rows, spread=_spread(forest, tree, leaf, rows, truth.reshape(len(leaf), forest.n_outputs)))


def _table(
    forest: Forest, tree: int, leaf: Int[np.ndarray, " rows"], column: Int[np.ndarray, " rows"], columns: int
) -> Int[np.ndarray, "nodes columns"]:
    """Count rows by node and by a number that each row has."""
    nodes = int(forest.tree_start[tree + 1] - forest.tree_start[tree])
    at_leaves = np.bincount(leaf * columns + column, minlength=nodes * columns).reshape(nodes, columns)
    return _upwards(forest, tree, at_leaves)


def _upwards(forest: Forest, tree: int, at_leaves: Shaped[np.ndarray, "nodes any"]) -> Shaped[np.ndarray, "nodes any"]:
    """Add up from the leaves to the root."""
    start, stop = int(forest.tree_start[tree]), int(forest.tree_start[tree + 1])
    total = at_leaves.copy()
    for node in range(stop - 1, start - 1, -1):
        if forest.kind[node] != LEAF:
            total[node - start] = total[forest.left[node] - start] + total[forest.right[node] - start]
    return total


def _spread(
    forest: Forest,
    tree: int,
    leaf: Int[np.ndarray, " rows"],
    rows: Int[np.ndarray, " nodes"],
    truth: Float[np.ndarray, "rows outputs"],
) -> Spread:
    # In units of the largest value, and then of the largest distance from the mean, squares neither overflow nor lose
    # what tells rows apart. A power of two makes the first unit exact.
    size = np.ldexp(1.0, np.frexp(np.abs(truth).max(axis=0, initial=0.0))[1] - 1)
    relative = truth / size
    middle = relative.mean(axis=0) if len(truth) else np.zeros(truth.shape[1])
    away = relative - middle
    unit = np.abs(away).max(axis=0, initial=0.0)
    unit[unit == 0] = 1.0
    sums = [
        _upwards(forest, tree, np.stack([np.bincount(leaf, each, len(rows)) for each in powers.T], axis=1))
        for powers in (away / unit, (away / unit) ** 2)
    ]
    with np.errstate(invalid="ignore", divide="ignore"):
        mean, square = (each / rows[:, None] for each in sums)
    edges = np.histogram_bin_edges(relative[:, 0] if len(truth) else np.zeros(1), _BINS)
    bins = np.clip(np.searchsorted(edges, relative[:, 0], side="right") - 1, 0, _BINS - 1)
    return Spread(
        mean=(mean * unit + middle) * size,
        deviation=np.sqrt(np.maximum(square - mean**2, 0.0)) * unit * size,
        histogram=_table(forest, tree, leaf, bins, _BINS),
        edges=edges * size[0],
    )
