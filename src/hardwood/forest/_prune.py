"""Pruning: drop what no row can reach and what makes no difference.

Three passes over the nodes of each tree. From the root down, a split that the conditions above it already decide, for
every value its column can still have, is replaced by the side that is taken; so is a split of which no given row
reaches the other side. From the leaves up, a split whose two sides are the same tree is replaced by one of them.
The cost is linear in the nodes, times the length of a category set or of an oblique split where there are some.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hardwood._typing import Bool, Int
from hardwood.errors import reject
from hardwood.forest import _predict, _subset
from hardwood.forest._inputs import matrix

if TYPE_CHECKING:
    from hardwood.forest._forest import Forest


class _Possible(NamedTuple):
    """What a column, or the sum of an oblique split, can still be at a node.

    In a column with a vocabulary the interval is about the numbers that are no code.
    """

    codes: int  # bit k: the column can have code k
    low: float  # numbers from here on ...
    high: float | None  # ... and below here (None: up to infinity, included)
    missing: bool

    @property
    def numbers(self) -> bool:
        """Whether a number is possible at all."""
        return self.high is None or self.low < self.high

    @property
    def anything(self) -> bool:
        """Whether there is any value left."""
        return bool(self.codes) or self.numbers or self.missing


def prune(forest: Forest, X: Any = None) -> Forest:
    """Return a smaller forest that predicts the same on every row, or, given rows, on those."""
    instead = np.arange(forest.node_count)
    passed = None if X is None else _passed(forest, X)
    for root in forest.tree_start[:-1]:
        _drop_unreachable(forest, int(root), passed, instead)
    _drop_indifferent(forest, instead)
    return _rebuilt(forest, instead)


def _passed(forest: Forest, X: Any) -> Bool[np.ndarray, " nodes"]:
    """Return which nodes the rows of `X` pass."""
    table = matrix(forest, X)
    if len(table) == 0:
        reject("X", f"an array of shape {table.shape}", "has no rows", "pass rows, or leave X out")
    passed = np.zeros(forest.node_count, bool)
    step = max(1, (1 << 22) // forest.n_trees)
    for start in range(0, len(table), step):
        passed[_predict.leaf_nodes(forest, table[start : start + step])] = True
    for level in range(forest.depth, 0, -1):
        reached = np.flatnonzero(passed & (forest._node_depth == level))
        passed[forest._parent[reached]] = True
    return passed


def _drop_unreachable(
    forest: Forest, root: int, passed: Bool[np.ndarray, " nodes"] | None, instead: Int[np.ndarray, " nodes"]
) -> None:
    """Point each split of which only one side can be taken to that side, in `instead`.

    `state` holds what each column can be at the current node; leaving a subtree restores what entering it narrowed.
    """
    from hardwood.forest._forest import LEAF

    state: dict[Hashable, _Possible] = {}
    tasks: list[tuple[int, Hashable, _Possible | None]] = [(root, None, None)]
    while tasks:
        node, key, possible = tasks.pop()
        if key is not None:
            assert possible is not None
            state[key] = possible
        if node < 0 or forest.kind[node] == LEAF:
            continue
        left, right = int(forest.left[node]), int(forest.right[node])
        key = _subject(forest, node)
        before = state.get(key) or _anything(forest, key)
        to_left, to_right = _sides(forest, node, before)
        goes_left = to_left.anything and (passed is None or bool(passed[left]))
        goes_right = to_right.anything and (passed is None or bool(passed[right]))
        if goes_left and goes_right:
            # Last in, first out: the left side, then the right side, then the column as it was.
            tasks += [(-1, key, before), (right, key, to_right), (left, key, to_left)]
        else:
            instead[node] = left if goes_left else right
            tasks.append((int(instead[node]), None, None))


def _subject(forest: Forest, node: int) -> Hashable:
    """Return what a split is about: a column, or the weights of an oblique split."""
    from hardwood.forest._forest import OBLIQUE

    if forest.kind[node] != OBLIQUE:
        return int(forest.feature[node])
    assert forest.weight_start is not None and forest.weight_feature is not None and forest.weight_value is not None
    entries = slice(int(forest.weight_start[node]), int(forest.weight_start[node + 1]))
    return forest.weight_feature[entries].tobytes(), forest.weight_value[entries].tobytes()


def _anything(forest: Forest, key: Hashable) -> _Possible:
    """Return what is possible at a root."""
    size = len(forest.categories.get(key, ())) if isinstance(key, int) else 0
    return _Possible((1 << size) - 1, -np.inf, None, True)


def _sides(forest: Forest, node: int, before: _Possible) -> tuple[_Possible, _Possible]:
    """Return what is possible on the left and on the right of a split."""
    from hardwood.forest._forest import CATEGORIES

    missing_left = bool(forest.missing_left[node])
    if forest.kind[node] == CATEGORIES:
        assert forest.category_start is not None and forest.category_codes is not None
        entries = slice(int(forest.category_start[node]), int(forest.category_start[node + 1]))
        named = sum(1 << code for code in forest.category_codes[entries].tolist())
        # A number that is no code goes where a missing value goes; on the other side no number is left.
        nothing = _Possible(0, np.inf, np.inf, False)
        left, right = (before, nothing) if missing_left else (nothing, before)
        return left._replace(codes=before.codes & named), right._replace(codes=before.codes & ~named)

    threshold = float(forest.threshold[node])
    codes_below = _codes_below(before.codes, threshold)
    left = _Possible(
        codes_below,
        before.low,
        threshold if before.high is None else min(before.high, threshold),
        before.missing and missing_left,
    )
    right = _Possible(
        before.codes & ~codes_below, max(before.low, threshold), before.high, before.missing and not missing_left
    )
    return left, right


def _codes_below(codes: int, threshold: float) -> int:
    """Return those of the codes that are below a threshold."""
    if threshold <= 0:
        return 0
    if threshold >= codes.bit_length():
        return codes
    return codes & ((1 << math.ceil(threshold)) - 1)


def _drop_indifferent(forest: Forest, instead: Int[np.ndarray, " nodes"]) -> None:
    """Point each split whose two sides are the same tree to one of them, in `instead`.

    Going from the last node to the first, `instead` becomes the node that finally stands for each node. Equal trees
    get equal numbers: a leaf by what it holds, a split by its condition and the numbers of its sides.
    """
    from hardwood.forest._forest import LEAF

    number_of: dict[Hashable, int] = {}
    number = np.zeros(forest.node_count, np.int64)
    for node in range(forest.node_count - 1, -1, -1):
        if instead[node] != node:
            instead[node] = instead[instead[node]]
            number[node] = number[instead[node]]
            continue
        if forest.kind[node] == LEAF:
            content: Hashable = _leaf_content(forest, int(forest._leaf_index[node]))
        else:
            left, right = int(number[forest.left[node]]), int(number[forest.right[node]])
            if left == right:
                instead[node] = instead[forest.left[node]]
                number[node] = left
                continue
            content = (_subject(forest, node), _condition(forest, node), left, right)
        number[node] = number_of.setdefault(content, len(number_of))


def _leaf_content(forest: Forest, leaf: int) -> tuple[bytes, ...]:
    """Return all that a leaf holds."""
    held = (forest.leaf_values, forest.leaf_weights, forest.leaf_coef)
    return tuple(array[leaf].tobytes() for array in held if array is not None)


def _condition(forest: Forest, node: int) -> tuple[int, float, bool, bytes]:
    """Return a split's condition, but for its subject."""
    codes = b""
    if forest.category_start is not None and forest.category_codes is not None:
        codes = forest.category_codes[forest.category_start[node] : forest.category_start[node + 1]].tobytes()
    return int(forest.kind[node]), float(forest.threshold[node]), bool(forest.missing_left[node]), codes


def _rebuilt(forest: Forest, instead: Int[np.ndarray, " nodes"]) -> Forest:
    """Return the forest in which `instead[node]` stands for each node."""
    keep = np.zeros(forest.node_count, bool)
    level = instead[forest.tree_start[:-1]]
    while len(level):
        keep[level] = True
        inner = level[forest.left[level] >= 0]
        level = np.concatenate([instead[forest.left[inner]], instead[forest.right[inner]]])
    nodes = np.flatnonzero(keep)
    place = np.cumsum(keep) - 1

    def child(side: Int[np.ndarray, " nodes"]) -> Int[np.ndarray, " kept"]:
        return np.where(side[nodes] < 0, -1, place[instead[side[nodes]]])

    sizes = np.add.reduceat(keep.astype(np.int64), forest.tree_start[:-1])
    return _subset.take(forest, nodes, child(forest.left), child(forest.right), sizes)
