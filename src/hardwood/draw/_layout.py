"""Where the nodes of a tree stand in a picture: a tidy layout with the root on the left."""

from __future__ import annotations

import heapq
from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from hardwood._typing import Int
from hardwood.draw._checks import check_tree
from hardwood.errors import reject
from hardwood.forest import LEAF, Forest


@dataclass(frozen=True)
class Place:
    """One node of the picture."""

    node: int  # number in the forest
    parent: int  # number in the forest; -1 at the root
    goes_left: bool  # whether it is the parent's left child
    depth: int
    row: float  # how far down it stands; nodes of one depth are at least 1 apart
    folded: int  # how many leaves are hidden beneath it; 0 for a node that is drawn in full


def layout(
    forest: Forest,
    tree: int = 0,
    max_depth: int | None = None,
    *,
    max_nodes: int | None = None,
    rows: Int[np.ndarray, " nodes"] | None = None,
    path: Collection[int] = (),
) -> list[Place]:
    """Place the nodes of one tree, parents first; the left child stands above the right.

    Splits at `max_depth` are folded, and so many more that about `max_nodes` nodes are left: those with the fewest
    `rows`, counted from the tree's root, or without rows the deepest. Splits of the `path`, numbers in the forest, stay
    open in any case.

    Subtrees are moved together until their outlines nearly touch, and a parent stands midway between its children
    (Reingold and Tilford, 1981). There is no recursion: a tree may be deeper than Python's stack.
    """
    check_tree(forest, tree, max_depth)
    if max_nodes is not None and max_nodes < 1:
        reject("max_nodes", max_nodes, "is less than one node", "pass how many nodes to draw, or None for all")
    start, stop = int(forest.tree_start[tree]), int(forest.tree_start[tree + 1])
    parents, depths = _walk(forest, start, stop)
    leaves_below = _leaves_below(forest, start, stop)
    opened = _opened(forest, start, stop, depths, max_depth, max_nodes, rows, path)
    drawn = [node for node in range(start, stop) if node == start or int(parents[node - start]) in opened]

    # Children stand after their parents, so going backwards meets every subtree before its parent.
    # An outline is kept deepest level first: the common levels of two subtrees are then compared and joined cheaply.
    shift: dict[int, float] = {}  # how far a node stands below its parent
    top: dict[int, list[float]] = {}  # highest row of each level below a node, relative to the node
    bottom: dict[int, list[float]] = {}
    for node in reversed(drawn):
        if node not in opened:
            top[node], bottom[node] = [0.0], [0.0]
            continue
        left, right = int(forest.left[node]), int(forest.right[node])
        common = min(len(top[left]), len(top[right]))
        apart = 1.0 + max(bottom[left][-k] - top[right][-k] for k in range(1, common + 1))
        shift[left], shift[right] = -apart / 2, apart / 2
        top[node] = _joined(top.pop(left), -apart / 2, top.pop(right), apart / 2)
        bottom[node] = _joined(bottom.pop(right), apart / 2, bottom.pop(left), -apart / 2)

    row: dict[int, float] = {start: 0.0}
    for node in drawn[1:]:
        row[node] = row[int(parents[node - start])] + shift[node]
    highest = min(row.values())
    return [
        Place(
            node=node,
            parent=int(parents[node - start]),
            goes_left=node != start and int(forest.left[parents[node - start]]) == node,
            depth=int(depths[node - start]),
            row=row[node] - highest,
            folded=leaves_below[node - start] if forest.kind[node] != LEAF and node not in opened else 0,
        )
        for node in drawn
    ]


def _opened(
    forest: Forest,
    start: int,
    stop: int,
    depths: np.ndarray,
    max_depth: int | None,
    max_nodes: int | None,
    rows: Int[np.ndarray, " nodes"] | None,
    path: Collection[int],
) -> set[int]:
    """Choose the splits whose children are drawn; with a split, all above it are chosen."""
    opened = {node for node in path if forest.kind[node] != LEAF}
    room = stop - start if max_nodes is None else max_nodes
    waiting = [(0.0, 0, start)]
    while waiting:
        _, depth, node = heapq.heappop(waiting)
        if node not in opened:
            deep = max_depth is not None and depth >= max_depth
            if forest.kind[node] == LEAF or deep or 2 * len(opened) + 3 > room:
                continue
            opened.add(node)
        for child in (int(forest.left[node]), int(forest.right[node])):
            urgency = 0.0 if rows is None else -float(rows[child - start])
            heapq.heappush(waiting, (urgency, int(depths[child - start]), child))
    return opened


def _walk(forest: Forest, start: int, stop: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the parent (-1 at the root) and the depth of each node of a tree."""
    parents = np.full(stop - start, -1)
    depths = np.zeros(stop - start, int)
    for node in range(start, stop):
        if forest.kind[node] != LEAF:
            for child in (int(forest.left[node]), int(forest.right[node])):
                parents[child - start] = node
                depths[child - start] = depths[node - start] + 1
    return parents, depths


def _leaves_below(forest: Forest, start: int, stop: int) -> list[int]:
    below = [0] * (stop - start)
    for node in range(stop - 1, start - 1, -1):
        if forest.kind[node] == LEAF:
            below[node - start] = 1
        else:
            below[node - start] = below[forest.left[node] - start] + below[forest.right[node] - start]
    return below


def _joined(first: list[float], first_by: float, second: list[float], second_by: float) -> list[float]:
    """Move two outlines and join them: `first` where it reaches, `second` below that; the node itself is at 0."""
    longer = max(len(first), len(second))
    joined = [first[-k] + first_by if k <= len(first) else second[-k] + second_by for k in range(longer, 0, -1)]
    return [*joined, 0.0]
