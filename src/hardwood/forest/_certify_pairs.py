"""Two rows that differ in one column: how far the first one's score can be above the second one's.

The rows reach the same leaf in every tree that does not split the column. So only the other trees, the moved ones, can
lower the score. In a sum they do so by their largest value in the first row minus their smallest in the second.

In a softmax over trees a score is `sum(w v) / sum(w)`, and it is above a number m exactly if `sum(w (v - m)) > 0`. Let
f and g be the scores of the first and the second row. Then `W (f - g)`, with W the first row's sum of w, is
`sum(w (v - g))` of the first row minus that of the second, which is 0. There the unmoved trees cancel, whatever g is,
and what the moved ones leave is at most a convex function of g: bounded by its values at the ends of where g can be.
"""

from __future__ import annotations

import numpy as np

from hardwood._typing import Bool, Float, Int
from hardwood.forest._certify_scores import ROUNDING, Score
from hardwood.forest._certify_search import Goal, Reached, Table


class Pairs:
    """The goal of a search for two rows, the first of which has the larger score."""

    def __init__(self, table: Table, score: Score, column: int) -> None:
        self.table = table
        self.score = score
        self.place = table.columns.index(column)
        n_trees = score.forest.n_trees
        # The track of each tree for the second row.
        self.second = np.arange(n_trees)
        for track in range(n_trees, len(table.tracks)):
            self.second[table.tracks[track].tree] = track
        self.moved = self.second >= n_trees
        self.goal = Goal(bound=self._bound, gaps=self._gaps, other_gaps=self._all_gaps)

    def box(
        self,
        inside: list[Bool[np.ndarray, " _"]],
        first: Bool[np.ndarray, " cells"],
        second: Bool[np.ndarray, " cells"],
    ) -> Bool[np.ndarray, " box"]:
        """Return the box of all pairs whose column has some cells in the first row, and some in the second."""
        masks = [inside[column] for column in self.table.columns]
        masks[self.place], masks[-1] = first, second
        return self.table.everywhere(masks)

    def _row(self, reached: Reached, tracks: Int[np.ndarray, " trees"]) -> Reached:
        """Return the leaves that one of the rows reaches, tree by tree."""
        ends = np.append(reached.starts, len(reached.entries))
        parts = [reached.entries[ends[track] : ends[track + 1]] for track in tracks.tolist()]
        starts = np.cumsum([0, *(len(part) for part in parts[:-1])])
        return Reached(self.table.leaf[np.concatenate(parts)], starts)

    def _bound(self, reached: Reached) -> float:
        first, second = self._row(reached, np.arange(len(self.second))), self._row(reached, self.second)
        weighed = self.score.forest.leaf_weights is not None
        # Parts rise and fall together into a score, which moves no farther than the part that moves most.
        together = (self._by_quotients if weighed else self._by_sums)(first, second).max()
        if together <= 0:
            return 0.0
        return min(float(together), self.score.upper(*first) - self.score.lower(*second))

    def _by_sums(self, first: Reached, second: Reached) -> Float[np.ndarray, " parts"]:
        """Bound the fall of each part; 0 if no tree lowers it, and then its sum does not fall by one bit."""
        values = self.score.values
        most = np.maximum.reduceat(values[first.entries], first.starts)
        least = np.minimum.reduceat(values[second.entries], second.starts)
        lowered = (most - least)[self.moved]
        size = np.abs(most).sum(axis=0) + np.abs(least).sum(axis=0) + np.abs(self.score.base)
        share = 1.0 if self.score.forest.combine == "sum" else 1.0 / len(self.second)
        return np.where((lowered > 0).any(axis=0), share * (lowered.sum(axis=0) + ROUNDING * size), 0.0)

    def _by_quotients(self, first: Reached, second: Reached) -> Float[np.ndarray, " parts"]:
        """Bound the fall of each part under a softmax over trees."""
        weights = self.score.forest.leaf_weights
        assert weights is not None
        largest = max(weights[first.entries].max(), weights[second.entries].max())
        before, after = np.exp(weights[first.entries] - largest), np.exp(weights[second.entries] - largest)
        values = self.score.values
        ends = -self.score.negated().best_quotients(*second), self.score.best_quotients(*first)
        left = np.full(values.shape[1], -np.inf)
        for end in ends:
            most = np.maximum.reduceat(before[:, None] * (values[first.entries] - end), first.starts)
            least = np.minimum.reduceat(after[:, None] * (values[second.entries] - end), second.starts)
            left = np.maximum(left, (most - least)[self.moved].sum(axis=0))
        whole = float(np.minimum.reduceat(before, first.starts).sum())
        return left / whole if whole > 0 else np.where(left > 0, np.inf, 0.0)

    def _gaps(self, reached: Reached) -> Float[np.ndarray, " tracks"]:
        """Return what is open in the moved trees; they are looked at first."""
        gaps = self._all_gaps(reached)
        gaps[: len(self.second)][~self.moved] = 0.0
        return gaps

    def _all_gaps(self, reached: Reached) -> Float[np.ndarray, " tracks"]:
        return self.score.gaps(self.table.leaf[reached.entries], reached.starts)
