"""Editing: forests that are another forest but for one split or one branch. Nodes count from their tree's root."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from hardwood._typing import Float, Int
from hardwood.errors import reject
from hardwood.forest import _predict, _prune, _subset, _truncate
from hardwood.forest._inputs import matrix

if TYPE_CHECKING:
    from hardwood.forest._forest import Forest


def replace_threshold(forest: Forest, node: int, threshold: float, tree: int, missing_left: bool | None) -> Forest:
    """Return the forest in which one split has another threshold."""
    from hardwood.forest._forest import CATEGORIES

    place = _split(forest, node, tree)
    if forest.kind[place] == CATEGORIES:
        reject("node", node, "splits by category and has no threshold", "call replace_categories")
    if not isinstance(threshold, (int, float, np.number)) or isinstance(threshold, bool) or np.isnan(threshold):
        reject("threshold", threshold, "is no number", "pass where to split, in the column's units")
    thresholds = forest.threshold.copy()
    thresholds[place] = threshold
    return replace(forest, threshold=thresholds, missing_left=_directions(forest, place, missing_left))


def replace_categories(
    forest: Forest, node: int, categories: Collection[Any], tree: int, missing_left: bool | None
) -> Forest:
    """Return the forest in which one split sends other categories left."""
    from hardwood.forest._forest import CATEGORIES

    place = _split(forest, node, tree)
    if forest.kind[place] != CATEGORIES:
        reject("node", node, "does not split by category", "call replace_threshold")
    vocabulary = forest.categories[int(forest.feature[place])]
    if isinstance(categories, (str, bytes)) or not isinstance(categories, Collection):
        reject("categories", categories, "is no collection of categories", f"pass some of {vocabulary}")
    unknown = [each for each in categories if each not in vocabulary]
    if unknown:
        reject("categories", unknown[0], "is none of the column's categories", f"they are {vocabulary}")
    assert forest.category_start is not None and forest.category_codes is not None
    codes = np.array([code for code, word in enumerate(vocabulary) if word in categories], np.int64)
    begin, end = forest.category_start[place : place + 2].tolist()
    start = forest.category_start.copy()
    start[place + 1 :] += len(codes) - (end - begin)
    return replace(
        forest,
        category_start=start,
        category_codes=np.concatenate([forest.category_codes[:begin], codes, forest.category_codes[end:]]),
        missing_left=_directions(forest, place, missing_left),
    )


def cut(forest: Forest, node: int, tree: int) -> Forest:
    """Return the forest without the branch that begins at a node: its parent's other branch takes all rows."""
    place = _node(forest, node, tree)
    parent = int(forest._parent[place])
    if parent < 0:
        reject(
            "node", node, "is the root, and a tree has at least one leaf", "call merge_leaves, or select other trees"
        )
    instead = np.arange(forest.node_count)
    instead[parent] = forest.right[parent] if forest.left[parent] == place else forest.left[parent]
    return _prune._rebuilt(forest, instead)


def merge_leaves(forest: Forest, node: int, tree: int, values: Any, X: Any, sample_weight: Any) -> Forest:
    """Return the forest in which all leaves below a node are one leaf in its place."""
    place = _node(forest, node, tree)
    if values is not None and X is not None:
        reject("values", values, "is given together with X", "pass the leaf's values, or rows to take their mean over")
    if values is None and forest.leaf_coef is not None:
        problem = "has linear leaves, whose mean depends on the row"
        reject("forest", repr(forest), problem, "pass the values of the new leaf, which is constant")
    below = _leaves_below(forest, place)
    rows = forest._leaf_index[below]
    share = _shares(forest, tree, below, X, sample_weight)
    # The first leaf stands for all of them.
    changed: dict[str, Any] = {"leaf_values": forest.leaf_values.copy()}
    changed["leaf_values"][rows[0]] = (
        _checked(forest, values) if values is not None else share @ forest.leaf_values[rows]
    )
    if forest.leaf_coef is not None:
        changed["leaf_coef"] = forest.leaf_coef.copy()
        changed["leaf_coef"][rows[0]] = 0.0
    if forest.leaf_weights is not None:
        changed["leaf_weights"] = forest.leaf_weights.copy()
        changed["leaf_weights"][rows[0]] = share @ forest.leaf_weights[rows]
    if len(below) == 1:
        return replace(forest, **changed)
    # The leaf moves to the node's place, so that all nodes before it keep their numbers.
    start, stop = int(forest.tree_start[tree]), int(forest.tree_start[tree + 1])
    gone = np.zeros(forest.node_count, bool)
    for each in range(place + 1, stop):
        gone[each] = forest._parent[each] == place or gone[forest._parent[each]]
    nodes = np.flatnonzero(~gone)
    position = np.cumsum(~gone) - 1
    left, right = (np.where(side[nodes] < 0, -1, position[side[nodes]]) for side in (forest.left, forest.right))
    left[position[place]] = right[position[place]] = -1
    nodes[position[place]] = below[0]
    sizes = np.diff(forest.tree_start)
    sizes[tree] -= int(gone[start:stop].sum())
    return _subset.take(replace(forest, **changed), nodes, left, right, sizes)


def _node(forest: Forest, node: Any, tree: Any) -> int:
    """Return a node's number in the forest, checked."""
    for name, value, size, of in (
        ("tree", tree, forest.n_trees, "the forest has {} trees"),
        ("node", node, None, "the tree has {} nodes"),
    ):
        if size is None:
            size = int(forest.tree_start[tree + 1] - forest.tree_start[tree])
        whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
        if not whole or not 0 <= value < size:
            reject(name, value, of.format(size), f"pass a number from 0 to {size - 1}, counted as in Forest.apply")
    return int(forest.tree_start[tree] + node)


def _split(forest: Forest, node: Any, tree: Any) -> int:
    place = _node(forest, node, tree)
    if forest.left[place] < 0:
        reject("node", node, "is a leaf", "pass the number of a split; Forest.left is -1 at leaves")
    return place


def _directions(forest: Forest, place: int, missing_left: bool | None) -> np.ndarray:
    directions = forest.missing_left.copy()
    if missing_left is not None:
        directions[place] = bool(missing_left)
    return directions


def _leaves_below(forest: Forest, place: int) -> Int[np.ndarray, " leaves"]:
    found, waiting = [], [place]
    while waiting:
        node = waiting.pop()
        if forest.left[node] < 0:
            found.append(node)
        else:
            waiting += [int(forest.right[node]), int(forest.left[node])]
    return np.array(found)


def _checked(forest: Forest, values: Any) -> Float[np.ndarray, " outputs"]:
    given = np.atleast_1d(np.asarray(values))
    if given.shape != (forest.n_outputs,) or given.dtype.kind not in "biuf" or not np.isfinite(given).all():
        reject("values", values, f"is not {forest.n_outputs} finite number(s)", "pass one number an output")
    return given.astype(np.float64)


def _shares(
    forest: Forest, tree: int, below: Int[np.ndarray, " leaves"], X: Any, sample_weight: Any
) -> Float[np.ndarray, " leaves"]:
    """Return how much each leaf counts: by the rows that reach it, or all alike."""
    equal = np.full(len(below), 1.0 / len(below))
    if X is None:
        if sample_weight is not None:
            reject("sample_weight", "an array", "is given without X", "pass the rows as X, or leave it out")
        return equal
    table = matrix(forest, X)
    weight = _truncate._checked(sample_weight, len(table))
    reached = _predict.leaf_nodes(forest, table)[:, tree]
    found = np.bincount(reached, weight, forest.node_count)[below]
    return found / found.sum() if found.sum() > 0 else equal
