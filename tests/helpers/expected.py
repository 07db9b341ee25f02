"""Expected values along paths by loops that are easy to read, to compare `hardwood.explain` with."""

from __future__ import annotations

import itertools
import math

import numpy as np

from hardwood.forest import LEAF, OBLIQUE, Forest
from helpers.forests import reference_paths, reference_tree_outputs, reference_tree_weights

Step = tuple[int, int, np.ndarray]  # a tree, a column, and how far the column takes what the tree says


class ReferenceExpected:
    """What the trees of a forest say on average over background rows with weights."""

    def __init__(self, forest: Forest, X: np.ndarray, weights: np.ndarray) -> None:
        self.forest, self.X, self.weights = forest, X, weights
        self.passing: list[list[int]] = [[] for _ in range(forest.node_count)]
        for row, cells in enumerate(X.tolist()):
            for path in reference_paths(forest, cells):
                for node in path:
                    self.passing[node] += [row] if weights[row] > 0 else []
        self.leaf_number = {int(node): k for k, node in enumerate(np.flatnonzero(forest.kind == LEAF))}
        self.shares = [self._split_shares(node) for node in range(forest.node_count)]
        self.value = self._values()

    def mean_cells(self, leaf: int) -> np.ndarray:
        """Return the mean cells of the rows at a leaf, or of all rows if there are none; missing ones count as 0."""
        rows = self.passing[leaf] or list(range(len(self.X)))
        cells = np.where(np.isnan(self.X[rows]), 0.0, self.X[rows])
        return np.asarray(np.average(cells, axis=0, weights=self.weights[rows]))

    def _values(self) -> np.ndarray:
        forest = self.forest
        said = [reference_tree_outputs(forest, row) for row in self.X.tolist()]
        tree_of = np.searchsorted(forest.tree_start, np.arange(forest.node_count), side="right") - 1
        result = np.zeros((forest.node_count, forest.n_outputs))
        for node in reversed(range(forest.node_count)):
            rows = self.passing[node]
            if rows:
                whole = sum(self.weights[row] for row in rows)
                result[node] = sum(self.weights[row] / whole * said[row][tree_of[node]] for row in rows)
            elif forest.kind[node] != LEAF:
                result[node] = (result[forest.left[node]] + result[forest.right[node]]) / 2
            else:
                leaf = self.leaf_number[node]
                result[node] = forest.leaf_values[leaf]
                if forest.leaf_coef is not None:
                    result[node] += self.mean_cells(node) @ forest.leaf_coef[leaf]
        return result

    def _split_shares(self, node: int) -> dict[int, float]:
        """Return the share of each column in a split."""
        forest = self.forest
        if forest.kind[node] != OBLIQUE:
            return {int(forest.feature[node]): 1.0}
        assert forest.weight_start is not None
        assert forest.weight_feature is not None and forest.weight_value is not None
        sizes = {}
        for k in range(int(forest.weight_start[node]), int(forest.weight_start[node + 1])):
            column = int(forest.weight_feature[k])
            finite = np.isfinite(self.X[:, column])
            cells, weights = self.X[finite, column], self.weights[finite]
            spread = 0.0
            if weights.sum() > 0:
                spread = math.sqrt(np.average((cells - np.average(cells, weights=weights)) ** 2, weights=weights))
            sizes[column] = abs(float(forest.weight_value[k])) * spread
        whole = sum(sizes.values())
        return {column: size / whole if whole > 0 else 1 / len(sizes) for column, size in sizes.items()}

    def steps(self, row: np.ndarray) -> list[Step]:
        """List what happens on a row's paths and at their ends."""
        forest = self.forest
        steps: list[Step] = []
        for tree, path in enumerate(reference_paths(forest, row.tolist())):
            for above, below in itertools.pairwise(path):
                change = self.value[below] - self.value[above]
                steps += [(tree, column, share * change) for column, share in self.shares[above].items()]
            if forest.leaf_coef is not None:
                away = np.where(np.isnan(row), 0.0, row) - self.mean_cells(path[-1])
                coef = forest.leaf_coef[self.leaf_number[path[-1]]]
                steps += [(tree, column, coef[column] * away[column]) for column in range(forest.n_features)]
        return steps


def reference_contributions(forest: Forest, X: np.ndarray, background: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return what each column contributes to each row, and the base of each row."""
    expected = ReferenceExpected(forest, background, np.ones(len(background)))
    values = np.zeros((len(X), forest.n_features, forest.n_outputs))
    base = np.zeros((len(X), forest.n_outputs)) + (0.0 if forest.base is None else forest.base)
    for k, row in enumerate(X):
        of_tree = reference_tree_weights(forest, row.tolist())
        for tree, column, step in expected.steps(row):
            values[k, column] += of_tree[tree] * step
        for tree in range(forest.n_trees):
            base[k] += of_tree[tree] * expected.value[forest.tree_start[tree]]
    return values, base


def reference_importances(forest: Forest, X: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the sizes of all steps on the rows' paths, by column; not scaled to sum to 1."""
    expected = ReferenceExpected(forest, X, weights)
    total = np.zeros(forest.n_features)
    for k, row in enumerate(X):
        of_tree = reference_tree_weights(forest, row.tolist())
        for tree, column, step in expected.steps(row):
            size = step - step.mean() if forest.link == "softmax" else step
            total[column] += weights[k] * of_tree[tree] * np.abs(size).sum()
    return total
