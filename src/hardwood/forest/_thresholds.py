"""Thresholds of other libraries, moved so that our `x < t` in float64 sends every number to the same side."""

from __future__ import annotations

import numpy as np

from hardwood._typing import Float

# The number that float32 would hold next if it had one more exponent: halfway to it, rounding to infinity begins.
_BEYOND_FLOAT32 = 2.0**128


def after_float64(threshold: Float[np.ndarray, " nodes"]) -> Float[np.ndarray, " nodes"]:
    """Return t' so that `x <= threshold` is `x < t'` for every finite x, and for infinite x where threshold is finite.

    A threshold of +inf has no t' that sends x = inf to the left: exchange the children of such a split instead.
    """
    with np.errstate(over="ignore", under="ignore"):
        return np.nextafter(threshold, np.inf)


def after_float32(threshold: Float[np.ndarray, " nodes"]) -> Float[np.ndarray, " nodes"]:
    """Return t' so that `float32(x) <= threshold`, compared in float64, is `x < t'` for every float64 x.

    Let `low` be the largest float32 that is not above the threshold, and `high` the next one. A float64 between them
    rounds to the nearer, and from halfway to the one whose last bit is 0. So t' is halfway (exact in float64) when
    that is `high`, and the number after halfway when it is `low`. Beyond the largest float32 rounding goes to infinity.

    A threshold of +inf has no t' that sends x = inf to the left: exchange the children of such a split instead.
    """
    with np.errstate(over="ignore", under="ignore"):
        low = threshold.astype(np.float32)
        low = np.where(low > threshold, np.nextafter(low, np.float32(-np.inf)), low)
        high = np.nextafter(low, np.float32(np.inf))
        halfway = (_finite(low) + _finite(high)) / 2
        low_is_even = low.view(np.uint32) % 2 == 0
        result = np.where(low_is_even, np.nextafter(halfway, np.inf), halfway)
    return np.where(np.isposinf(threshold), np.inf, result)


def _finite(values: Float[np.ndarray, " nodes"]) -> Float[np.ndarray, " nodes"]:
    return np.clip(values.astype(np.float64), -_BEYOND_FLOAT32, _BEYOND_FLOAT32)
