"""Finding the extreme of a forest over a box of inputs: best first, with bounds that no row exceeds.

A box allows some cells of each column. Of each tree a box reaches some leaves; the best of them, each tree taken by
itself, bound what rows of the box can get. The box with the highest bound is cut in two at the split that divides a
tree's reachable leaves, until all rows of a box get the same: then that is the highest of all (Kantchelian, Tygar and
Joseph, 2016, search with such bounds). The work can grow exponentially with the trees, so the boxes are counted.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hardwood._typing import Bool, Float, Int
from hardwood.forest._certify_cells import Cells, columns_split

if TYPE_CHECKING:
    from hardwood.forest._forest import Forest

_MOST_CELLS = 1 << 28  # of leaves times cells: a byte each


class TooManyBoxes(Exception):
    """The search was given up; `bound` is what no row exceeds."""

    def __init__(self, bound: float) -> None:
        super().__init__()
        self.bound = bound


class Track(NamedTuple):
    """One tree as one of the rows takes it."""

    tree: int
    root: int
    middle: dict[int, int]  # of each split: the first leaf, from left to right, on its right side
    place: dict[int, tuple[int, Bool[np.ndarray, " _"]]]  # of each split: its column here, and what goes left


class Reached(NamedTuple):
    """The leaves that a box reaches, track by track."""

    entries: Int[np.ndarray, " reached"]  # rows of `Table.leaf`
    starts: Int[np.ndarray, " tracks"]  # where each track's begin


@dataclass(frozen=True)
class Table:
    """All leaves of all tracks, each track's from left to right, and the cells that lead to them."""

    left: Int[np.ndarray, " nodes"]  # of the forest
    right: Int[np.ndarray, " nodes"]
    tracks: list[Track]
    track_start: Int[np.ndarray, " track_starts"]
    leaf: Int[np.ndarray, " entries"]  # row of the forest's `leaf_values`
    cell_start: Int[np.ndarray, " cell_starts"]
    columns: list[int]  # of the forest; a column stands twice if two rows differ in it
    cells: Bool[np.ndarray, "entries box"]

    def everywhere(self, allowed: list[Bool[np.ndarray, " _"]]) -> Bool[np.ndarray, " box"]:
        """Return the box of some allowed cells, given for each of the table's columns."""
        return np.concatenate([*allowed, np.zeros(0, bool)])

    def reached(self, box: Bool[np.ndarray, " box"]) -> Reached:
        """Return the leaves that a box reaches."""
        entries = np.arange(len(self.leaf))
        for column in range(len(self.columns)):
            entries = self._through(entries, column, box)
        return self._with_starts(entries)

    def narrowed(self, reached: Reached, column: int, box: Bool[np.ndarray, " box"]) -> Reached:
        """Return what is left of the reached leaves when a box has shrunk in one column."""
        return self._with_starts(self._through(reached.entries, column, box))

    def _through(
        self, entries: Int[np.ndarray, " before"], column: int, box: Bool[np.ndarray, " box"]
    ) -> Int[np.ndarray, " after"]:
        own = slice(int(self.cell_start[column]), int(self.cell_start[column + 1]))
        return entries[(self.cells[entries, own] & box[own]).any(axis=1)]

    def _with_starts(self, entries: Int[np.ndarray, " reached"]) -> Reached:
        return Reached(entries, np.searchsorted(entries, self.track_start[:-1]))

    def parting(self, reached: Reached, track: int) -> tuple[int, Bool[np.ndarray, " cells"]]:
        """Return the column and the left cells of the split that divides a track's reached leaves."""
        begin = int(reached.starts[track])
        end = int(reached.starts[track + 1]) if track + 1 < len(reached.starts) else len(reached.entries)
        first, last = (int(each - self.track_start[track]) for each in reached.entries[[begin, end - 1]])
        of = self.tracks[track]
        node = of.root
        while not first < of.middle[node] <= last:
            node = int(self.left[node] if last < of.middle[node] else self.right[node])
        return of.place[node]


def table_of(forest: Forest, cells: list[Cells], moved: int | None = None) -> Table | None:
    """Return the table of a forest; None if it would be too large.

    With a column `moved` there are two rows that differ in it: the trees that split it stand there twice, the second
    time with a copy of the column.
    """
    used = columns_split(forest).tolist()
    columns = [*used, *([] if moved is None else [moved])]
    sizes = [len(cells[column]) for column in columns]
    trees = list(range(forest.n_trees))
    splits_moved = [
        moved is not None and bool((forest.feature[forest.tree_start[t] : forest.tree_start[t + 1]] == moved).any())
        for t in trees
    ]
    twice = [tree for tree in trees if splits_moved[tree]]
    counts = np.diff(np.concatenate([[0], np.cumsum(forest.kind == 0)])[forest.tree_start])
    entries = int(counts.sum() + counts[twice].sum())
    if entries * sum(sizes) > _MOST_CELLS:
        return None
    start = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    matrix = np.ones((entries, int(start[-1])), bool)
    place = {column: k for k, column in enumerate(used)}
    tracks, leaves, track_start = [], [], [0]
    for number, tree in enumerate([*trees, *twice]):
        second = {} if moved is None or number < len(trees) else {moved: len(used)}
        track, own = _track(forest, tree, cells, {**place, **second}, start, matrix[track_start[-1] :])
        tracks.append(track)
        leaves += own
        track_start.append(len(leaves))
    return Table(forest.left, forest.right, tracks, np.array(track_start), np.array(leaves), start, columns, matrix)


def _track(
    forest: Forest,
    tree: int,
    cells: list[Cells],
    place: dict[int, int],
    start: Int[np.ndarray, " starts"],
    matrix: Bool[np.ndarray, "entries box"],
) -> tuple[Track, list[int]]:
    """Walk a tree from left to right, writing into `matrix` the cells that lead to each leaf."""
    root = int(forest.tree_start[tree])
    track = Track(tree, root, {}, {})
    leaves: list[int] = []
    # A node is met twice: before its left side and before its right side.
    waiting: list[tuple[int, bool, dict[int, Bool[np.ndarray, " _"]]]] = [(root, False, {})]
    while waiting:
        node, left_is_done, asked = waiting.pop()
        if forest.left[node] < 0:
            for column, mask in asked.items():
                matrix[len(leaves), start[column] : start[column + 1]] = mask
            leaves.append(int(forest._leaf_index[node]))
            continue
        if not left_is_done:
            column = int(forest.feature[node])
            track.place[node] = place[column], cells[column].left(forest, node)
            track.middle[node] = -1
        own, left = track.place[node]
        side = ~left if left_is_done else left
        below = {**asked, own: asked[own] & side if own in asked else side}
        if left_is_done:
            track.middle[node] = len(leaves)
            waiting.append((int(forest.right[node]), False, below))
        else:
            waiting += [(node, True, asked), (int(forest.left[node]), False, below)]
    return track, leaves


class Goal(NamedTuple):
    """What to make large."""

    bound: Callable[[Reached], float]  # no row of a box exceeds it; it is reached where all gaps are 0
    gaps: Callable[[Reached], Float[np.ndarray, " tracks"]]  # how much is open in each track
    other_gaps: Callable[[Reached], Float[np.ndarray, " tracks"]]  # the same, about all that a prediction depends on


def search(
    table: Table,
    boxes: list[Bool[np.ndarray, " box"]],
    goal: Goal,
    accept: Callable[[Bool[np.ndarray, " box"]], bool],
    enough: float,
    max_boxes: int,
) -> Bool[np.ndarray, " box"] | None:
    """Return the accepted box with the highest bound; None if there is none whose bound is above `enough`.

    Only boxes in which nothing is open are offered to `accept`. One that is refused is looked into further, as long as
    predictions differ in it.
    """
    heap: list[tuple[float, int, int, Bool[np.ndarray, " box"], Reached]] = []
    made = 0

    def push(box: Bool[np.ndarray, " box"], reached: Reached, depth: int) -> None:
        nonlocal made
        made += 1
        # Among equal bounds the deepest box first: it is the nearest to an answer.
        heapq.heappush(heap, (-goal.bound(reached), -depth, made, box, reached))

    for box in boxes:
        push(box, table.reached(box), 0)
    looked = 0
    while heap:
        bound, depth, _, box, reached = heapq.heappop(heap)
        if -bound <= enough:
            return None
        looked += 1
        if looked > max_boxes:
            raise TooManyBoxes(-bound)
        gaps = goal.gaps(reached)
        if not gaps.any():
            if accept(box):
                return box
            gaps = goal.other_gaps(reached)
            if not gaps.any():
                continue
        column, left = table.parting(reached, int(np.argmax(gaps)))
        own = slice(int(table.cell_start[column]), int(table.cell_start[column + 1]))
        for side in (left, ~left):
            smaller = box.copy()
            smaller[own] &= side
            push(smaller, table.narrowed(reached, column, smaller), 1 - depth)
    return None
