"""`Quantile`: the map of a column to a normal distribution by the ranks of training rows, never falling in floats."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hardwood._typing import Float
from hardwood.data._monotone import LARGEST, Monotone, weighted_values
from hardwood.errors import reject

# Ranks nearer to 0 or 1 than this would be ever farther out, at no use to a tree.
_EDGE = 1e-7


@dataclass(frozen=True, eq=False)
class Quantile(Monotone):
    """Straight lines between knots: numbers that training rows had, and the normal quantiles of their ranks.

    Below the first knot and above the last the map is flat; with fewer than two knots it is 0 everywhere.
    """

    knots: Float[np.ndarray, " knots"]  # strictly rising, finite
    levels: Float[np.ndarray, " knots"]  # never falling

    def _finite(self, x: Float[np.ndarray, " rows"]) -> Float[np.ndarray, " rows"]:
        if len(self.knots) < 2:
            return np.where(np.isnan(x), x, 0.0)
        scale, start, gap, rise = self._segments
        at = np.clip(np.searchsorted(self.knots, x, side="right") - 1, 0, len(self.knots) - 2)
        inside = np.clip(x, self.knots[0], self.knots[-1])
        level = self.levels[at] + (inside * scale[at] - start[at]) / gap[at] * rise[at]
        # A segment begins exactly at its first level (its product is 0) and never passes its last.
        return np.minimum(level, self.levels[at + 1])

    @cached_property
    def _segments(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return each segment's scale, scaled first knot, scaled width and rise.

        A width beyond float64 is scaled down; other segments are not, lest a tiny width vanish.
        """
        with np.errstate(over="ignore", under="ignore"):
            scale = np.where(np.isinf(np.diff(self.knots)), 0.25, 1.0)
            start = self.knots[:-1] * scale
            return scale, start, self.knots[1:] * scale - start, np.diff(self.levels)


def fit_quantile(
    x: Float[np.ndarray, " rows"],
    weight: Float[np.ndarray, " rows"] | None = None,
    *,
    n_quantiles: int = 1000,
    noise: float = 0.0,
    rng: np.random.Generator | None = None,
) -> Quantile:
    """Learn the knots of a column.

    The rank of a number is the share of weight below it plus half the share at it. So ties sit at the middle of their
    ranks, and a weight of 2 is exactly a row that occurs twice (without noise). A column of at most `n_quantiles`
    distinct numbers has a knot at each; else the knots are the numbers nearest above evenly spaced ranks.

    Args:
        x: the training rows' numbers; missing ones take no part.
        weight: their weights, 1 by default.
        n_quantiles: the most knots, at least 2.
        noise: learn from `x` plus normal noise of this many standard deviations, as the papers do. It parts ties;
            numbers are mapped without noise afterwards.
        rng: where the noise comes from; needed with noise.
    """
    if n_quantiles < 2:
        reject("n_quantiles", n_quantiles, "must be at least 2", "pass 1000, or fewer for coarser ranks")
    if not 0 <= noise < np.inf:
        reject("noise", noise, "must be a finite number of at least 0", "pass 0.001, or 0 for no noise")
    if noise > 0:
        if rng is None:
            reject("rng", None, "is needed with noise", "pass np.random.default_rng(seed)")
        x = _with_noise(x, weight, noise, rng)
    values, weights = weighted_values(x, weight)
    if len(values) == 0:
        return Quantile(np.zeros(0), np.zeros(0))
    below = np.cumsum(weights)
    rank = (below - weights / 2) / below[-1]
    if len(values) > n_quantiles:
        evenly = np.searchsorted(rank, np.linspace(rank[0], rank[-1], n_quantiles))
        chosen = np.unique(np.concatenate([[0], np.minimum(evenly, len(values) - 1), [len(values) - 1]]))
        values, rank = values[chosen], rank[chosen]
    from scipy.special import ndtri

    level = np.maximum.accumulate(ndtri(np.clip(rank, _EDGE, 1 - _EDGE)))
    return Quantile(values, np.asarray(level, np.float64))


def _with_noise(
    x: Float[np.ndarray, " rows"], weight: Float[np.ndarray, " rows"] | None, noise: float, rng: np.random.Generator
) -> Float[np.ndarray, " rows"]:
    drawn = rng.standard_normal(len(x))
    finite = np.isfinite(x) if weight is None else np.isfinite(x) & (weight > 0)
    if not finite.any():
        return x
    peak = float(np.abs(x[finite]).max()) or 1.0
    spread = float((x[finite] / peak).std()) * peak
    with np.errstate(over="ignore", under="ignore"):
        return np.where(np.isfinite(x), np.clip(x + noise * spread * drawn, -LARGEST, LARGEST), x)
