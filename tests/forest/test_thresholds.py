"""A threshold that was moved sends every number to the side on which its library has it."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hardwood.forest._thresholds import after_float32, after_float64
from helpers.sklearn_models import to_float32

EDGES = [0.0, -0.0, 0.1, 1.0, -1.0, 1 + 2**-24, 1 + 2**-23, 1 + 3 * 2**-24, 2.0**24 + 1, 1e-45, 1e-46, 2.0**-149]
EDGES += [2.0**-150, 3 * 2.0**-150, 2.0**-126, 2.0**-127, 5e-324, 3.4028234663852886e38, 2.0**128 - 2.0**103, 2.0**128]
EDGES += [3.4028235e38, 1e39, 1e308, np.inf]
EDGES += [-edge for edge in EDGES]


def check_after_float32(threshold: np.ndarray) -> None:
    """Both sides of the boundary decide, since rounding and comparing are monotone; and a crowd around them."""
    ours = after_float32(threshold)
    finite = ~np.isposinf(threshold)
    assert (to_float32(ours)[finite] > threshold[finite]).all()
    assert (to_float32(np.nextafter(ours, -np.inf)) <= threshold)[finite].all()
    assert np.isposinf(ours[~finite]).all()
    around = ours[finite, None] + np.spacing(ours[finite])[:, None] * np.arange(-3, 4)
    rounded = to_float32(around)
    np.testing.assert_array_equal(rounded <= threshold[finite, None], around < ours[finite, None])


def test_after_float32_at_edges() -> None:
    near = [np.nextafter(EDGES, np.inf), np.nextafter(EDGES, -np.inf)]
    check_after_float32(np.concatenate([EDGES, *near]))


def test_after_float32_everywhere() -> None:
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 2**32, 100_000, dtype=np.uint32).view(np.float32)
    exact = bits[~np.isnan(bits)].astype(np.float64)
    bits = rng.integers(0, 2**64, 100_000, dtype=np.uint64).view(np.float64)
    check_after_float32(np.concatenate([exact, np.nextafter(exact, np.inf), bits[~np.isnan(bits)]]))
    # Halfway between neighbours of float32: scikit-learn's own thresholds.
    low = np.abs(exact[np.abs(exact) < 1e38])
    high = np.nextafter(low.astype(np.float32), np.float32(np.inf)).astype(np.float64)
    check_after_float32((low + high) / 2)


@given(st.floats(allow_nan=False), st.floats(allow_nan=False))
def test_after_float32_for_any_pair(threshold: float, x: float) -> None:
    ours = float(after_float32(np.array([threshold]))[0])
    if threshold < np.inf:
        assert (x < ours) == (float(to_float32(np.array([x]))[0]) <= threshold)


@given(st.floats(allow_nan=False, allow_infinity=False), st.floats(allow_nan=False))
def test_after_float64_for_any_pair(threshold: float, x: float) -> None:
    assert (x < float(after_float64(np.array([threshold]))[0])) == (x <= threshold)
    assert not threshold < threshold
    assert threshold < float(after_float64(np.array([threshold]))[0])
