"""A forest made of some nodes of another."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from hardwood._typing import Int
from hardwood.errors import reject

if TYPE_CHECKING:
    from hardwood.forest._forest import Forest


def take(
    forest: Forest,
    nodes: Int[np.ndarray, " kept"],
    left: Int[np.ndarray, " kept"],
    right: Int[np.ndarray, " kept"],
    sizes: Int[np.ndarray, " trees"],
) -> Forest:
    """Return the forest of the given nodes.

    `nodes` are numbers of nodes of `forest`, tree by tree and parents first; `sizes` counts them per tree. `left` and
    `right` are the positions of their children among `nodes`, -1 at leaves. Cost: linear in the result.
    """
    leaf = forest._leaf_index[nodes]
    leaf = leaf[leaf >= 0]

    def rows(array: np.ndarray | None, index: Int[np.ndarray, " index"]) -> np.ndarray | None:
        return None if array is None else array[index]

    changes: dict[str, Any] = {}
    for start_name, names in _RANGES.items():
        start = getattr(forest, start_name)
        if start is None:
            continue
        counts = np.diff(start)[nodes]
        new_start = np.concatenate([[0], np.cumsum(counts)])
        entries = np.repeat(start[nodes] - new_start[:-1], counts) + np.arange(new_start[-1])
        changes[start_name] = new_start
        changes.update({name: getattr(forest, name)[entries] for name in names})
    return replace(
        forest,
        tree_start=np.concatenate([[0], np.cumsum(sizes)]),
        kind=forest.kind[nodes],
        left=left,
        right=right,
        feature=forest.feature[nodes],
        threshold=forest.threshold[nodes],
        missing_left=forest.missing_left[nodes],
        leaf_values=forest.leaf_values[leaf],
        leaf_weights=rows(forest.leaf_weights, leaf),
        leaf_coef=rows(forest.leaf_coef, leaf),
        **changes,
    )


# Arrays with a range of entries per node: the array of boundaries, and the arrays that it divides.
_RANGES = {"category_start": ("category_codes",), "weight_start": ("weight_feature", "weight_value")}


def select(forest: Forest, trees: Any) -> Forest:
    """Return the forest of some of the trees, in the order given."""
    chosen = _tree_numbers(forest, trees)
    sizes = np.diff(forest.tree_start)[chosen]
    new_start = np.concatenate([[0], np.cumsum(sizes)])[:-1]
    shift = np.repeat(forest.tree_start[:-1][chosen] - new_start, sizes)
    nodes = np.arange(len(shift)) + shift
    left, right = forest.left[nodes], forest.right[nodes]
    return take(forest, nodes, np.where(left < 0, -1, left - shift), np.where(right < 0, -1, right - shift), sizes)


def _tree_numbers(forest: Forest, trees: Any) -> Int[np.ndarray, " chosen"]:
    """Return the numbers of the chosen trees, checked."""
    numbers = np.arange(forest.n_trees)
    if isinstance(trees, slice):
        chosen = numbers[trees]
    else:
        index = np.atleast_1d(np.asarray(trees))
        if index.ndim != 1 or (index.size and index.dtype.kind not in "iub"):
            reject("trees", trees, "does not choose trees", "pass tree numbers, a slice or a boolean mask")
        if index.dtype.kind == "b" and len(index) != forest.n_trees:
            reject("trees", trees, f"has {len(index)} entries for {forest.n_trees} trees", "pass one boolean per tree")
        outside = (
            index.dtype.kind != "b" and index.size and (index.min() < -len(numbers) or index.max() >= len(numbers))
        )
        if outside:
            reject("trees", trees, f"names a tree outside 0..{forest.n_trees - 1}", "count trees from 0")
        chosen = numbers[index] if index.size else numbers[:0]
    if len(chosen) == 0:
        reject("trees", trees, "chooses no tree", "choose at least one: a forest is never empty")
    return chosen
