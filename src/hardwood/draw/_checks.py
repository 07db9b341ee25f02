"""What every drawing function asks of its arguments."""

from __future__ import annotations

from typing import Any

import numpy as np

from hardwood._typing import Int, Shaped
from hardwood.errors import reject
from hardwood.forest import LEAF, Forest


def check_tree(forest: Any, tree: int, max_depth: int | None = None) -> None:
    """Refuse what is not a forest, a tree that it does not have, and a negative depth."""
    if not isinstance(forest, Forest):
        reject("forest", forest, "is not a Forest", "pass model.to_forest() or a loaded Forest")
    if not 0 <= tree < forest.n_trees:
        reject("tree", tree, f"the forest has {forest.n_trees} trees", f"pass a number from 0 to {forest.n_trees - 1}")
    if max_depth is not None and max_depth < 0:
        reject("max_depth", max_depth, "is negative", "pass 0 for the root alone, or None for the whole tree")


def check_labels(forest: Forest, y: Any, rows: int) -> Shaped[np.ndarray, "rows ..."]:
    """Return the true answers as an array with one entry a row; a classifier's must be among its classes."""
    truth = np.asarray(y)
    if truth.ndim == 2 and truth.shape[1] == 1:
        truth = truth[:, 0]
    if len(truth) != rows or truth.ndim not in (1, 2):
        reject("y", f"an array of shape {truth.shape}", f"does not fit the {rows} rows of X", "pass one answer a row")
    if forest.classes is None:
        expected = (rows,) if forest.n_outputs == 1 else (rows, forest.n_outputs)
        if truth.shape != expected or truth.dtype.kind not in "biuf":
            problem = f"is not numeric of shape {expected}"
            reject("y", f"an array of {truth.dtype} of shape {truth.shape}", problem, "pass the true numbers")
        truth = truth.astype(np.float64)
        if not np.isfinite(truth).all():
            reject("y", "an array", "has missing or infinite entries", "leave those rows out of X and y")
        return truth
    if truth.ndim != 1 or not np.isin(truth, forest.classes).all():
        unknown = truth.ravel()[~np.isin(truth.ravel(), forest.classes)][:3].tolist()
        reject("y", unknown, "are not among the forest's classes", f"pass labels from {forest.classes.tolist()}")
    return truth


def rows_per_node(forest: Forest, leaves: Int[np.ndarray, " rows"], tree: int = 0) -> Int[np.ndarray, " nodes"]:
    """Count the rows that pass each node of one tree, given the leaf (`forest.apply`) that each row reaches."""
    start, stop = int(forest.tree_start[tree]), int(forest.tree_start[tree + 1])
    counts = np.bincount(leaves, minlength=stop - start)
    for node in range(stop - 1, start - 1, -1):
        if forest.kind[node] != LEAF:
            counts[node - start] = counts[forest.left[node] - start] + counts[forest.right[node] - start]
    return counts
