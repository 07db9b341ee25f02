"""The packed layout of a forest that the compiled kernels read, made once per forest and on first use.

Every tree has two forms here. Its crown, the top levels as far as they are threshold splits, at most six, is padded to
a complete tree and cut into units of three levels (see `_crown`). Below the crown, and for a few rows, the kernels
follow the nodes themselves. Making the plan costs time and memory linear in the nodes, plus 64 exits per tree.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hardwood._typing import Bool, Float, Int, Integer, UInt8
from hardwood.forest._combine import summands
from hardwood.forest._crown import BLOCK, DEEPEST, UNIT

if TYPE_CHECKING:
    from hardwood.forest._forest import Forest

# What stands in `Nodes.column` where there is no threshold split.
AT_LEAF, AT_CATEGORIES, AT_OBLIQUE = -1, -2, -3


class Crowns(NamedTuple):
    """The crowns of all trees, as the kernels take them."""

    used: Int[np.ndarray, " used"]  # the columns of X that crowns compare, ascending
    column: Int[np.ndarray, " splits"]  # int32, per split of a unit: position in `used`, times BLOCK
    cut: Float[np.ndarray, " splits"]  # the threshold, in the dtype of X
    missing_right: UInt8[np.ndarray, " splits"]
    depth: Int[np.ndarray, " trees"]  # 0 (no crown) or 3 to 6
    unit: Int[np.ndarray, " trees"]  # the first unit of each tree
    first_exit: Int[np.ndarray, " trees"]  # the first of its 2**depth exits
    exit: Integer[np.ndarray, " exits"]  # uint32: the node behind each exit
    closed: Bool[np.ndarray, " trees"]  # whether every exit is a leaf
    levels_below: Int[np.ndarray, " trees"]  # levels of the tree below its crown
    exit_value: Float[np.ndarray, " exits"]  # the leaf's value, where a leaf is one constant; else empty


class Nodes(NamedTuple):
    """The nodes one by one, as the kernels take them."""

    column: Int[np.ndarray, " nodes"]  # int32, or one of AT_LEAF, AT_CATEGORIES, AT_OBLIQUE
    cut: Float[np.ndarray, " nodes"]
    child: Int[np.ndarray, "nodes 2"]  # int32: left, right; -1 at leaves
    hop: Integer[np.ndarray, " sides"]  # uint32: left and right of a threshold split; any other node itself, twice
    leaf: Integer[np.ndarray, " nodes"]  # uint32: the leaf's row of `values`
    missing_right: UInt8[np.ndarray, " nodes"]
    feature: Int[np.ndarray, " nodes"]  # int32, for category splits
    vocabulary: Int[np.ndarray, " features"]  # the number of categories of each column
    category_start: Int[np.ndarray, " category_starts"]
    category_codes: Int[np.ndarray, " codes"]
    weight_start: Int[np.ndarray, " weight_starts"]
    weight_feature: Int[np.ndarray, " weights"]
    weight_value: Float[np.ndarray, " weights"]


@dataclass(frozen=True, eq=False)
class Plan:
    """What the kernels read: ways down the trees, and what to add up at the leaves."""

    crowns32: Crowns
    crowns64: Crowns
    nodes: Nodes
    root: Integer[np.ndarray, " trees"]  # uint32
    values: Float[np.ndarray, "leaves summands"]
    coef: Float[np.ndarray, "linear_leaves features summands"]  # no rows without linear leaves


def pack(forest: Forest) -> Plan:
    """Make the plan of a forest."""
    values, coef = summands(forest)
    if coef is None:
        coef = np.zeros((0, forest.n_features, values.shape[1]))
    crowns = _crowns(forest, values if len(coef) == 0 else None)
    rounded = crowns._replace(cut=round_up(crowns.cut))
    plan = Plan(rounded, crowns, _nodes(forest), forest.tree_start[:-1].astype(np.uint32), values, coef)
    # Kernels are compiled anew for every mixture of read-only and writable arrays: let there be one.
    for array in (*rounded, *crowns, *plan.nodes, plan.root, plan.values, plan.coef):
        array.setflags(write=False)
    return plan


def _nodes(forest: Forest) -> Nodes:
    from hardwood.forest._forest import CATEGORIES, LEAF, OBLIQUE, THRESHOLD

    def given(array: np.ndarray | None, dtype: type[np.generic]) -> np.ndarray:
        return np.zeros(0, dtype) if array is None else array

    kinds = [forest.kind == each for each in (LEAF, CATEGORIES, OBLIQUE)]
    child = np.stack([forest.left, forest.right], axis=1)
    itself = np.arange(forest.node_count)[:, None]
    vocabulary = np.zeros(forest.n_features, np.int64)
    for column, words in forest.categories.items():
        vocabulary[column] = len(words)
    return Nodes(
        column=np.select(kinds, [AT_LEAF, AT_CATEGORIES, AT_OBLIQUE], forest.feature).astype(np.int32),
        cut=forest.threshold,
        child=child,
        hop=np.where((forest.kind == THRESHOLD)[:, None], child, itself).ravel().astype(np.uint32),
        leaf=np.maximum(forest._leaf_index, 0).astype(np.uint32),
        missing_right=(~forest.missing_left).astype(np.uint8),
        feature=forest.feature,
        vocabulary=vocabulary,
        category_start=given(forest.category_start, np.int64),
        category_codes=given(forest.category_codes, np.int32),
        weight_start=given(forest.weight_start, np.int64),
        weight_feature=given(forest.weight_feature, np.int32),
        weight_value=given(forest.weight_value, np.float64),
    )


def _crowns(forest: Forest, constants: Float[np.ndarray, "leaves summands"] | None) -> Crowns:
    """Pack the crowns, for float64 cells; `constants` are what leaves add where they add nothing else."""
    heap, exits, depth = _complete(forest)
    used = np.unique(forest.feature[heap[heap >= 0]]).astype(np.int64)
    top = np.maximum(depth - 3, 0)
    units = np.where(depth == 0, 0, np.where(top == 0, 1, 1 + (1 << top)))
    unit = np.concatenate([[0], np.cumsum(units)])
    nodes = np.full((unit[-1], UNIT), -1, np.int64)
    first_exit = np.concatenate([[0], np.cumsum(1 << depth)])
    exit_node = np.zeros(first_exit[-1], np.int64)
    for each in np.unique(depth):
        trees = np.flatnonzero(depth == each)
        # The exits of a shallower crown repeat at the deepest level: take the first of each group.
        stride = 1 << (DEEPEST - int(each))
        exit_node[first_exit[trees, None] + np.arange(1 << each)] = exits[trees, ::stride]
        for offset, places in _unit_places(int(each)):
            nodes[unit[trees] + offset, : len(places)] = heap[trees[:, None], places]

    flat = nodes.ravel()
    real = flat >= 0
    cut = np.where(real, forest.threshold[flat], np.inf)
    leaf = forest._leaf_index[exit_node]
    at_leaf = leaf >= 0
    exit_value = np.zeros(0)
    if constants is not None and constants.shape[1] == 1:
        exit_value = np.where(at_leaf, constants[leaf, 0], 0.0)
    return Crowns(
        used=used,
        column=(np.searchsorted(used, np.where(real, forest.feature[flat], 0)) * BLOCK * real).astype(np.int32),
        cut=cut,
        missing_right=(real & ~forest.missing_left[flat]).astype(np.uint8),
        depth=depth,
        unit=unit[:-1],
        first_exit=first_exit[:-1],
        exit=exit_node.astype(np.uint32),
        closed=np.logical_and.reduceat(at_leaf, first_exit[:-1]),
        levels_below=np.maximum(forest.depths - depth, 0),
        exit_value=exit_value,
    )


def _complete(
    forest: Forest,
) -> tuple[Int[np.ndarray, "trees heap"], Int[np.ndarray, "trees exits"], Int[np.ndarray, " trees"]]:
    """Pad the top of each tree to a complete tree of `DEEPEST` levels.

    Return the node at each place (-1 where there is only padding), the node at each exit, and how many levels, 0 or 3
    to `DEEPEST`, hold a threshold split. A node that is no threshold split is an exit, repeated below.
    """
    from hardwood.forest._forest import THRESHOLD

    at = forest.tree_start[:-1, None]
    heap = []
    depth = np.zeros(forest.n_trees, np.int64)
    for level in range(DEEPEST):
        split = forest.kind[at] == THRESHOLD
        depth[split.any(axis=1)] = max(level + 1, 3)
        heap.append(np.where(split, at, -1))
        below = np.stack([np.where(split, forest.left[at], at), np.where(split, forest.right[at], at)], axis=2)
        at = below.reshape(forest.n_trees, -1)
    return np.concatenate(heap, axis=1), at, depth


def _unit_places(depth: int) -> list[tuple[int, Int[np.ndarray, " places"]]]:
    """Return the units of a crown: each one's position among them and the breadth-first places that it holds."""
    if depth == 0:
        return []
    top = depth - 3
    units = [(0, np.arange((1 << top) - 1))] if top else []
    for k in range(1 << top):
        root = (1 << top) - 1 + k
        places = [((root + 1) << level) - 1 + i for level in range(3) for i in range(1 << level)]
        units.append((len(units), np.array(places)))
    return units


def round_up(threshold: Float[np.ndarray, " cuts"]) -> Float[np.ndarray, " cuts"]:
    """Return for each float64 threshold the smallest float32 that is not below it.

    A float32 number is below one exactly when it is below the other: no float32 lies between them.
    """
    with np.errstate(over="ignore"):
        nearest = threshold.astype(np.float32)
        return np.where(nearest < threshold, np.nextafter(nearest, np.float32(np.inf)), nearest)
