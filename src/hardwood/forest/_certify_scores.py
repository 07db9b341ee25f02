"""What is measured at the leaves, and bounds of it over all rows that reach some leaves.

A score is one number for a row, a rising function of weighed sums over trees: an output, or for a class among several
how far its output is above each other one. Bounds take each tree by itself. For "sum" and "mean" they are added up in
the order in which predictions are, and rounding keeps the order of numbers: so they hold to the last bit. For a softmax
over trees the bound is the best quotient of sums (Dinkelbach, 1967), and it holds to within rounding.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from hardwood._typing import Float, Int

if TYPE_CHECKING:
    from hardwood.forest._forest import Forest

ROUNDING = 1e-12  # relative to the scores: how far sums in another order may be off


@dataclass(frozen=True)
class Score:
    """A score of rows, by the leaves that they reach."""

    forest: Forest
    values: Float[np.ndarray, "leaves parts"]
    base: Float[np.ndarray, " parts"]
    join: Literal["one", "least", "log odds"] = "one"  # how parts become one number
    plain: bool = False  # whether it is an output of the forest, or its negative

    def negated(self) -> Score:
        """Return the score whose parts are the negatives of this one's."""
        return replace(self, values=-self.values, base=-self.base)

    def upper(self, leaf: Int[np.ndarray, " reached"], starts: Int[np.ndarray, " trees"]) -> float:
        """Return what no row exceeds that reaches one of these leaves in each tree; tree `t`'s begin at `starts[t]`."""
        if self.forest.leaf_weights is not None:
            return self._joined(self.best_quotients(leaf, starts) + self.base)
        return self._joined(self._combined(np.maximum.reduceat(self.values[leaf], starts)))

    def lower(self, leaf: Int[np.ndarray, " reached"], starts: Int[np.ndarray, " trees"]) -> float:
        """Return what no such row falls below."""
        if self.forest.leaf_weights is not None:
            least = -self.negated().best_quotients(leaf, starts)
            return self._joined(least + self.base)
        return self._joined(self._combined(np.minimum.reduceat(self.values[leaf], starts)))

    def gaps(self, leaf: Int[np.ndarray, " reached"], starts: Int[np.ndarray, " trees"]) -> Float[np.ndarray, " trees"]:
        """Return how much the leaves of each tree differ."""
        values = self.values[leaf]
        with np.errstate(over="ignore"):
            gap = (np.maximum.reduceat(values, starts) - np.minimum.reduceat(values, starts)).sum(axis=1)
        weights = self.forest.leaf_weights
        if weights is not None:
            gap = gap + np.maximum.reduceat(weights[leaf], starts) - np.minimum.reduceat(weights[leaf], starts)
        return gap

    def _combined(self, said: Float[np.ndarray, "trees parts"]) -> Float[np.ndarray, " parts"]:
        """Combine what trees say as predictions do: one after another."""
        with np.errstate(over="ignore", invalid="ignore"):
            if self.forest.combine == "sum":
                return np.add.accumulate(np.concatenate([self.base[None], said]))[-1]
            return np.add.accumulate(said)[-1] / self.forest.n_trees + self.base

    def _joined(self, parts: Float[np.ndarray, " parts"]) -> float:
        if self.join == "log odds":
            # log(p / (1 - p)) of a softmax, given how far the class is above each of the others.
            least = parts.min()
            return float(least - np.log(np.exp(least - parts).sum()))
        return float(parts.min())

    def best_quotients(
        self, leaf: Int[np.ndarray, " reached"], starts: Int[np.ndarray, " trees"]
    ) -> Float[np.ndarray, " parts"]:
        """Return the largest weighed mean, part by part, where each tree takes its best leaf."""
        weights = self.forest.leaf_weights
        assert weights is not None
        weight = np.exp(weights[leaf] - weights[leaf].max())
        tree = np.repeat(np.arange(len(starts)), np.diff([*starts.tolist(), len(leaf)]))
        result = np.empty(self.values.shape[1])
        for part in range(len(result)):
            value = self.values[leaf, part]
            mean = float(value.min())
            for _ in range(100):
                gain = weight * (value - mean)
                best = np.flatnonzero(gain == np.maximum.reduceat(gain, starts)[tree])
                chosen = best[np.unique(tree[best], return_index=True)[1]]
                whole = weight[chosen].sum()
                # Weights may be so different that all chosen ones count as 0: the largest value bounds any mean.
                better = float((weight[chosen] * value[chosen]).sum() / whole) if whole > 0 else float(value.max())
                if not better > mean:
                    break
                mean = better
            result[part] = mean
        return result


def score_of(forest: Forest, output: int) -> Score:
    """Return the score that orders rows by their prediction for an output, or for a class."""
    base = np.zeros(forest.n_outputs) if forest.base is None else forest.base
    if forest.link == "sigmoid" and forest.classes is not None:
        # The one output speaks for the second class.
        plain = Score(forest, forest.leaf_values, base, plain=True)
        return plain if output == 1 else plain.negated()
    if forest.link == "softmax" and forest.n_outputs > 1:
        margins, start = margins_of(forest, output)
        return Score(forest, margins, start, join="one" if len(start) == 1 else "log odds")
    own = slice(output, output + 1)
    return Score(forest, forest.leaf_values[:, own], base[own], plain=True)


def lead_of(forest: Forest, label: int) -> Score:
    """Return the score that is above 0 where a class is predicted, and below where it is not."""
    if forest.link == "sigmoid":
        return score_of(forest, label)
    margins, start = margins_of(forest, label)
    return Score(forest, margins, start, join="least")


def margins_of(forest: Forest, output: int) -> tuple[Float[np.ndarray, "leaves others"], Float[np.ndarray, " others"]]:
    """Return how far an output is above each other one, at leaves and in `base`."""
    base = np.zeros(forest.n_outputs) if forest.base is None else forest.base
    others = [each for each in range(forest.n_outputs) if each != output] or [output]
    values = forest.leaf_values
    return values[:, [output]] - values[:, others], base[output] - base[others]
