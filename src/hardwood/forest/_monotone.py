"""Monotone forests: proof that outputs never fall along columns, a counterexample, and the repair of leaves.

Outputs are sums over trees, one after another, of what leaves add. A product with a number that is not negative, a
sum and a quotient by a positive number, each rounded to the nearest, never fall where their exact results do not. So
where every tree is monotone and no tree's weight changes, outputs do not fall, not by one bit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from hardwood._typing import Bool, Float, Int, Integer
from hardwood.errors import reject

if TYPE_CHECKING:
    from hardwood.forest._forest import Forest
    from hardwood.forest._leaf_order import Tree

# One of -1, 0 and 1 for every column, or by name or number for some.
Directions = Sequence[int] | Int[np.ndarray, " features"] | Mapping[Any, int]


class MonotoneViolation(NamedTuple):
    """Two rows that show why a forest is not known to be monotone: tree number `tree` treats the second one wrongly."""

    tree: int
    column: int  # the only one in which the rows differ, the first row having the smaller number
    rows: Float[np.ndarray, "2 features"]  # in raw coding
    what: Literal["leaf_values", "leaf_weights"]  # an output moves the wrong way; or the tree's weight changes


def violation(forest: Forest, constraints: Directions) -> MonotoneViolation | None:
    """Return rows that show a tree to be not monotone, or to change its weight; None if there are none."""
    from hardwood.forest._leaf_order import bound_leaves

    direction, categories = _directions(forest, constraints), _vocabulary_sizes(forest)
    weighted = forest.leaf_weights is not None
    for tree, leaves, arrays in _constrained_trees(forest, direction):
        values = forest.leaf_values[leaves]
        if weighted:
            assert forest.leaf_weights is not None
            # A weight may neither fall nor rise.
            weight = forest.leaf_weights[leaves, None]
            values = np.concatenate([values, weight, -weight], axis=1)
        before = np.empty(values.shape, np.int64)
        bound_leaves(arrays, direction, categories, False, values, before, before[:0], before[:0, 0])
        wrong = before != np.arange(len(values))[:, None]
        if wrong.any():
            leaf, output = np.argwhere(wrong)[0].tolist()
            column, rows = _rows_between(forest, arrays, int(before[leaf, output]), leaf)
            what: Literal["leaf_values", "leaf_weights"] = (
                "leaf_values" if output < forest.n_outputs else "leaf_weights"
            )
            return MonotoneViolation(tree, column, rows[:: int(direction[column])], what)
    return None


def make_monotone(forest: Forest, constraints: Directions) -> Forest:
    """Return the forest with leaf values, and leaf weights, that are monotone."""
    from hardwood.forest._leaf_order import bound_leaves

    direction, categories = _directions(forest, constraints), _vocabulary_sizes(forest)
    values = forest.leaf_values.copy()
    weights = None if forest.leaf_weights is None else forest.leaf_weights.copy()
    for _, leaves, arrays in _constrained_trees(forest, direction):
        own = forest.leaf_values[leaves]
        largest, smallest = np.empty((2, *own.shape), np.int64)
        group = np.empty(len(own), np.int64)
        bound_leaves(arrays, direction, categories, True, own, largest, smallest, group)
        values[leaves] = _middle(np.take_along_axis(own, largest, 0), np.take_along_axis(own, smallest, 0))
        if weights is not None:
            weights[leaves] = _tied(weights[leaves], group)
    return replace(forest, leaf_values=values, leaf_weights=weights)


def _middle(
    upper: Float[np.ndarray, "leaves outputs"], lower: Float[np.ndarray, "leaves outputs"]
) -> Float[np.ndarray, "leaves outputs"]:
    """Return the middle of two numbers, which does not fall where neither does; that of a number and itself is it."""
    with np.errstate(over="ignore"):
        middle = (upper + lower) / 2
    # Only sums of numbers of one sign overflow, and halves of those are exact.
    return np.where(np.isinf(middle), upper / 2 + lower / 2, middle)


def _tied(weights: Float[np.ndarray, " leaves"], group: Int[np.ndarray, " leaves"]) -> Float[np.ndarray, " leaves"]:
    """Return the mean weight of each leaf's group, taken relative to one of them: that of equal weights is exact."""
    first = weights[group]
    count = np.maximum(np.bincount(group, minlength=len(group)), 1)
    beyond = np.bincount(group, weights - first, minlength=len(group)) / count
    return first + beyond[group]


def _directions(forest: Forest, constraints: Directions) -> Int[np.ndarray, " features"]:
    """Return the direction of every column, checked."""
    direction = np.zeros(forest.n_features, np.int64)
    if isinstance(constraints, Mapping):
        listed = [(_column(forest, key), key, each) for key, each in constraints.items()]
    else:
        if len(constraints) != forest.n_features:
            problem = f"has {len(constraints)} entries for {forest.n_features} columns"
            reject("constraints", constraints, problem, "pass -1, 0 or 1 for each column, or a mapping")
        listed = [(column, column, each) for column, each in enumerate(constraints)]
    for column, key, each in listed:
        if each not in (-1, 0, 1):
            reject(f"constraints[{key!r}]", each, "is no direction", "use 1 (never falls), -1 (never rises) or 0")
        if each != 0 and column in forest.categories:
            reject(f"constraints[{key!r}]", each, "is about a column of categories, which have no order", "use 0")
        direction[column] = int(each)
    from hardwood.forest._forest import OBLIQUE

    if (forest.kind == OBLIQUE).any():
        reject("forest", forest, "has oblique splits", "only axis-aligned and category splits can be checked")
    if forest.leaf_coef is not None:
        reject("forest", forest, "has linear leaves", "only forests with constant leaves can be checked")
    if forest.n_outputs > 1 and (forest.classes is not None or forest.link == "softmax") and direction.any():
        problem = "has an output for each class, and not all can rise together"
        reject("forest", forest, problem, "use link='sigmoid' with one output, for two classes")
    return direction


def _column(forest: Forest, key: Any) -> int:
    if isinstance(key, str):
        if forest.feature_names is None or key not in forest.feature_names:
            reject("constraints", key, "is no column's name", f"the names are {forest.feature_names}")
        return forest.feature_names.index(key)
    if not 0 <= key < forest.n_features:
        reject("constraints", key, f"is no column of the {forest.n_features}", "count columns from 0")
    return int(key)


def _constrained_trees(forest: Forest, direction: Int[np.ndarray, " features"]) -> Iterator[tuple[int, slice, Tree]]:
    """Go through the trees that split in a column with a direction: their number, their leaves, their arrays."""
    splits = forest.feature >= 0
    splits[splits] = direction[forest.feature[splits]] != 0
    first_leaf = np.concatenate([[0], np.cumsum(forest._leaf_index >= 0)])[forest.tree_start]
    for tree in np.flatnonzero(np.add.reduceat(splits, forest.tree_start[:-1])).tolist():
        yield tree, slice(int(first_leaf[tree]), int(first_leaf[tree + 1])), _tree(forest, tree)


def _tree(forest: Forest, tree: int) -> Tree:
    """Return the arrays of one tree as the kernel takes them."""
    from hardwood.forest._forest import CATEGORIES
    from hardwood.forest._leaf_order import Tree

    start = int(forest.tree_start[tree])
    nodes = slice(start, int(forest.tree_start[tree + 1]))
    leaf = forest._leaf_index[nodes]

    def inside(numbers: Int[np.ndarray, " nodes"]) -> Int[np.ndarray, " nodes"]:
        return np.where(numbers < 0, -1, numbers - start).astype(np.int64)

    threshold = forest.threshold[nodes]
    with np.errstate(over="ignore", under="ignore"):
        below = np.nextafter(threshold, -np.inf)
    return Tree(
        left=inside(forest.left[nodes]),
        right=inside(forest.right[nodes]),
        parent=inside(forest._parent[nodes]),
        leaf=leaf - leaf[leaf >= 0][0],
        column=forest.feature[nodes].astype(np.int64),
        threshold=threshold,
        below=below,
        missing_left=forest.missing_left[nodes],
        by_category=forest.kind[nodes] == CATEGORIES,
        codes_left=_words(_codes_left(forest, nodes)),
    )


def _vocabulary_sizes(forest: Forest) -> Int[np.ndarray, " features"]:
    sizes = np.zeros(forest.n_features, np.int64)
    for column, words in forest.categories.items():
        sizes[column] = len(words)
    return sizes


def _words(bits: Bool[np.ndarray, "rows codes"]) -> Integer[np.ndarray, "rows words"]:
    """Pack truth values, 64 to a word."""
    padded = np.zeros((len(bits), -(-bits.shape[1] // 64) * 64), bool)
    padded[:, : bits.shape[1]] = bits
    return np.packbits(padded, axis=1, bitorder="little").view(np.uint64)


def _codes_left(forest: Forest, nodes: slice) -> Bool[np.ndarray, "nodes codes"]:
    """Tell which categories each split sends left: those it lists, or those whose code is below its threshold."""
    most = int(_vocabulary_sizes(forest).max(initial=0))
    result = np.arange(most) < forest.threshold[nodes, None]
    if forest.category_start is not None and forest.category_codes is not None:
        start = forest.category_start[nodes.start : nodes.stop + 1]
        node = np.repeat(np.arange(nodes.stop - nodes.start), np.diff(start))
        result[node, forest.category_codes[start[0] : start[-1]]] = True
    return result


def _rows_between(forest: Forest, tree: Tree, first: int, second: int) -> tuple[int, Float[np.ndarray, "2 features"]]:
    """Return the column in which one move leads from leaf `first` to leaf `second`, and a row in each."""
    paths = [_path(tree, leaf) for leaf in (first, second)]
    parting = next(a for (a, left), (b, other) in zip(*paths, strict=False) if a == b and left != other)
    column = int(tree.column[parting])
    rows = np.zeros((2, forest.n_features))
    both = paths[0] + paths[1]
    for each in range(forest.n_features):
        if each == column:
            rows[0, each], rows[1, each] = (_number_on(forest, tree, path, each) for path in paths)
        else:
            rows[:, each] = _number_on(forest, tree, both, each)
    return column, rows


def _path(tree: Tree, leaf: int) -> list[tuple[int, bool]]:
    """Return the splits above a leaf, from the root down, and whether the leaf lies on their left."""
    node = int(np.flatnonzero((tree.left < 0) & (tree.leaf == leaf))[0])
    path = []
    while tree.parent[node] >= 0:
        above = int(tree.parent[node])
        path.append((above, bool(tree.left[above] == node)))
        node = above
    return path[::-1]


def _number_on(forest: Forest, tree: Tree, path: list[tuple[int, bool]], column: int) -> float:
    """Return a value of a column, a number if there is one, with which a row takes all of a path's splits on it."""
    splits = [(node, left) for node, left in path if tree.column[node] == column]
    size = len(forest.categories.get(column, ()))
    cuts = tree.threshold[[node for node, _ in splits]]
    # What is possible is a set of categories, a missing value, and an interval that begins at a threshold or ends
    # just before one, if it begins or ends at all.
    with np.errstate(over="ignore", under="ignore"):
        beside = [*np.nextafter(cuts, -np.inf), *np.nextafter(cuts, np.inf)]
    candidates = [*range(size), 0.0, *cuts, *beside, np.nan]
    return next(
        float(each)
        for each in candidates
        if all(_goes_left(tree, node, float(each), size) == left for node, left in splits)
    )


def _goes_left(tree: Tree, node: int, cell: float, size: int) -> bool:
    """Tell where a split sends a cell of its column, which has `size` categories."""
    code = 0 <= cell < size and cell == int(cell)
    if np.isnan(cell) or (tree.by_category[node] and not code):
        return bool(tree.missing_left[node])
    if tree.by_category[node]:
        return bool(tree.codes_left[node, int(cell) // 64] >> np.uint64(int(cell) % 64) & np.uint64(1))
    return bool(cell < tree.threshold[node])
