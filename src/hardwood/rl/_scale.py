"""`Scale`: observations brought to a common scale for training, exactly undone for the tree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hardwood._numba import exact_kernel
from hardwood._typing import Float, Int
from hardwood.data._monotone import fit_standard

_LARGEST = np.finfo(np.float64).max
_LARGEST32 = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class Scale:
    """Each column less its mean, divided by its deviation: `data`'s `Standard`, for all columns in one pass.

    It is computed in float64 and rounded to float32 by steps that never fall. So for each threshold on the scaled
    column there is exactly one on the raw column with the same meaning, and `raw_thresholds` finds it without error.
    """

    mean: Float[np.ndarray, " columns"]
    deviation: Float[np.ndarray, " columns"]

    @classmethod
    def of_flags(cls, n_columns: int) -> Scale:
        """Return the scale that makes 0 and 1 to -1 and 1."""
        return cls(np.full(n_columns, 0.5), np.full(n_columns, 0.5))

    @property
    def is_of_flags(self) -> bool:
        """Whether every column is scaled as a flag, with 0 and 1 equally far from 0."""
        return bool((self.mean == 0.5).all() and (self.deviation == 0.5).all())

    @classmethod
    def fit(cls, rows: Float[np.ndarray, "rows columns"]) -> Scale:
        """Learn the scale from observations; a column that hardly varies keeps its unit."""
        learned = [fit_standard(column) for column in rows.T]
        deviation = np.array([each.scale for each in learned])
        return cls(np.array([each.mean for each in learned]), np.where(deviation > 1e-8, deviation, 1.0))

    def transform(self, rows: Float[np.ndarray, "rows columns"]) -> Float[np.ndarray, "rows columns"]:
        """Return the scaled rows in float32."""
        scaled = np.empty(rows.shape, np.float32)
        _transform(rows, self.mean, self.deviation, scaled)
        return scaled

    def raw_thresholds(
        self, column: Int[np.ndarray, " nodes"], threshold: Float[np.ndarray, " nodes"]
    ) -> Float[np.ndarray, " nodes"]:
        """Return for each node the smallest raw number whose image reaches the threshold; +inf if none does."""
        raw = np.empty(len(column))
        _raw_thresholds(column, threshold.astype(np.float64), self.mean, self.deviation, raw)
        return raw

    def describe(self) -> dict[str, Any]:
        """Return the scale as JSON; Python writes numbers so that they read back exactly."""
        return {"mean": self.mean.tolist(), "deviation": self.deviation.tolist()}

    @classmethod
    def from_description(cls, document: dict[str, Any]) -> Scale:
        """Return what `describe` described."""
        return cls(np.array(document["mean"], np.float64), np.array(document["deviation"], np.float64))


@exact_kernel
def _image(x: Any, mean: Any, deviation: Any) -> Any:
    """Scale one number, as `data._monotone.Standard` does."""
    x = min(max(x, -_LARGEST), _LARGEST) if x == x else x
    # Halves, because the difference of two large numbers may be infinite.
    y = (x / 2 - mean / 2) / (deviation / 2)
    return np.float32(min(max(y, -_LARGEST32), _LARGEST32) if y == y else y)


@exact_kernel
def _transform(rows: Any, mean: Any, deviation: Any, scaled: Any) -> None:
    for row in range(rows.shape[0]):
        for column in range(rows.shape[1]):
            scaled[row, column] = _image(rows[row, column], mean[column], deviation[column])


@exact_kernel
def _raw_thresholds(columns: Any, thresholds: Any, means: Any, deviations: Any, raw: Any) -> None:
    for node in range(len(columns)):
        mean, deviation, threshold = means[columns[node]], deviations[columns[node]], thresholds[node]
        guess = threshold * deviation + mean
        width = max(abs(guess), deviation, 1e-300) * 1e-6
        low, high = guess - width, guess + width
        # `low` must not reach the threshold and `high` must.
        while low > -np.inf and _image(low, mean, deviation) >= threshold:
            width *= 16
            low = guess - width
        while high < np.inf and not _image(high, mean, deviation) >= threshold:
            width *= 16
            high = guess + width
        if low == -np.inf:
            low = -_LARGEST
            if _image(low, mean, deviation) >= threshold:
                raw[node] = -np.inf
                continue
        if high == np.inf:
            high = _LARGEST
            if not _image(high, mean, deviation) >= threshold:
                raw[node] = np.inf
                continue
        while True:
            middle = low + (high - low) / 2 if (low < 0) == (high < 0) else (low + high) / 2
            if middle <= low or middle >= high:
                break
            if _image(middle, mean, deviation) >= threshold:
                high = middle
            else:
                low = middle
        raw[node] = high
