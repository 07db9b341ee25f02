"""Maps of one raw number to one encoded number that never fall, and their exact inverse for thresholds.

Each map is a chain of floating-point operations on x. IEEE rounding never falls: where a real function never falls,
its correctly rounded result does not either. So x - a, x * c and x / c with c > 0, minima, maxima, and rounding to
float32 never fall, and nor does a chain of them. The numbers whose image reaches t are then all those from one number
on, and halving the ordered float64 numbers finds it with no error at all.
"""

from __future__ import annotations

import abc
from dataclasses import dataclass

import numpy as np

from hardwood._typing import Float, Int
from hardwood.errors import reject

LARGEST = np.finfo(np.float64).max
_LARGEST32 = np.finfo(np.float32).max


class Monotone(abc.ABC):
    """A map from float64 to float32 that never falls and keeps NaN; infinities count as the largest numbers."""

    @abc.abstractmethod
    def _finite(self, x: Float[np.ndarray, " rows"]) -> Float[np.ndarray, " rows"]:
        """Map numbers that are finite or NaN, with float64's warnings off."""

    def transform(self, x: Float[np.ndarray, " rows"]) -> Float[np.ndarray, " rows"]:
        """Return the image of each number, a finite float32 (NaN for NaN)."""
        # "invalid" is what a signalling NaN raises; the other two are meant.
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            image = self._finite(np.clip(x.astype(np.float64), -LARGEST, LARGEST))
            return np.clip(image, -_LARGEST32, _LARGEST32).astype(np.float32)

    def raw_threshold(self, t: Float[np.ndarray, " thresholds"]) -> Float[np.ndarray, " thresholds"]:
        """Return the smallest float64 x with `transform(x) >= t`, -inf if all have it, +inf if none has.

        For all float64 numbers x, `transform(x) < t` is then `x < raw_threshold(t)`, but for x = inf where none
        reaches t: the largest number and inf have the same image, so +inf is returned in that case only.
        """
        wanted = t.astype(np.float64)
        low = np.full(wanted.shape, _key(-np.inf), np.int64)
        high = np.full(wanted.shape, _key(np.inf), np.int64)
        # Fewer than 2**64 keys lie between. Rounding the middle down, the last step tries -inf itself where it is left.
        for _ in range(64):
            middle = (low >> 1) + (high >> 1) + (low & high & 1)
            reached = self.transform(_number(middle)) >= wanted
            high = np.where(reached, middle, high)
            low = np.where(reached, low, middle)
        return _number(high)


def _key(x: float) -> int:
    """Return the place of a float64 among all of them in rising order; 0 for both zeros."""
    bits = int(np.array(x, np.float64).view(np.int64))
    return bits if bits >= 0 else -(bits & 0x7FFF_FFFF_FFFF_FFFF)


def _number(key: Int[np.ndarray, " keys"]) -> Float[np.ndarray, " keys"]:
    """Return the float64 at each place."""
    size = np.abs(key).view(np.float64)
    return np.where(key < 0, -size, size)


@dataclass(frozen=True)
class Identity(Monotone):
    """Leaves a number as it is, rounded to float32."""

    def _finite(self, x: Float[np.ndarray, " rows"]) -> Float[np.ndarray, " rows"]:
        return x


@dataclass(frozen=True)
class Standard(Monotone):
    """Subtracts the mean and divides by the standard deviation of training rows."""

    mean: float
    scale: float

    def _finite(self, x: Float[np.ndarray, " rows"]) -> Float[np.ndarray, " rows"]:
        # Halves, because the difference of two large numbers may be infinite.
        return (x / 2 - self.mean / 2) / (self.scale / 2)


def fit_standard(x: Float[np.ndarray, " rows"], weight: Float[np.ndarray, " rows"] | None = None) -> Standard:
    """Learn mean and deviation; a weight of 2 is exactly a row that occurs twice."""
    values, weights = weighted_values(x, weight)
    if len(values) == 0:
        return Standard(0.0, 1.0)
    # Squares of large numbers overflow, those of small ones vanish.
    peak = float(np.abs(values).max()) or 1.0
    with np.errstate(under="ignore"):
        part = values / peak
        mean = float((part * weights).sum() / weights.sum())
        deviation = float(np.sqrt(((part - mean) ** 2 * weights).sum() / weights.sum()))
    scale = deviation * peak
    return Standard(mean * peak, scale if scale > np.finfo(np.float64).tiny * 4 else 1.0)


def weighted_values(
    x: Float[np.ndarray, " rows"], weight: Float[np.ndarray, " rows"] | None
) -> tuple[Float[np.ndarray, " values"], Float[np.ndarray, " values"]]:
    """Return the distinct numbers in rising order, each with the sum of its rows' weights.

    Missing cells and rows of weight 0 are left out, infinities count as the largest numbers. Whole weights add up
    exactly, so that a row of weight 2 and a row that occurs twice give the same.
    """
    weight = np.ones(len(x)) if weight is None else weight
    keep = ~np.isnan(x) & (weight > 0)
    values, where = np.unique(np.clip(x[keep], -LARGEST, LARGEST), return_inverse=True)
    # Counting nothing gives integers.
    return values, np.bincount(where, weight[keep], minlength=len(values)).astype(np.float64)


def check_weights(weight: object, n_rows: int) -> Float[np.ndarray, " rows"]:
    """Return sample weights as float64, ones by default; refuse what cannot be weights."""
    if weight is None:
        return np.ones(n_rows)
    try:
        given = np.asarray(weight, np.float64)
    except (TypeError, ValueError):
        reject("sample_weight", weight, "does not hold numbers", "pass one number per row")
    if given.shape != (n_rows,):
        problem = f"must have shape ({n_rows},)"
        reject("sample_weight", f"an array of shape {given.shape}", problem, "pass one weight per row")
    bad = ~np.isfinite(given) | (given < 0)
    if bad.any():
        where = int(np.argmax(bad))
        reject(f"sample_weight[{where}]", float(given[where]), "is no weight", "pass finite numbers of at least 0")
    if not (given > 0).any():
        reject("sample_weight", given.tolist(), "is zero for every row", "give at least one row a weight above 0")
    if given.max() > LARGEST / n_rows:
        reject("sample_weight", float(given.max()), "is too large to be summed", "divide all weights by it")
    return given
