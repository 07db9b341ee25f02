"""Maps never fall, and raw thresholds send every float64 to the side of its image."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardwood.data import Identity, Monotone, Standard, fit_quantile, fit_standard
from hardwood.data._monotone import _key, _number, check_weights, weighted_values
from hardwood.errors import InvalidArgumentError
from helpers.tables import HARD, neighbours, random_bits, random_numbers

MAPS = ["identity", "standard", "quantile", "coarse quantile"]


def make_map(kind: str, x: np.ndarray) -> Monotone:
    if kind == "identity":
        return Identity()
    if kind == "standard":
        return fit_standard(x)
    return fit_quantile(x, n_quantiles=1000 if kind == "quantile" else 4)


def images(each: Monotone, rng: np.random.Generator) -> np.ndarray:
    """Draw thresholds on and beside images, between them, and beyond."""
    reached = each.transform(np.concatenate([random_bits(rng, 20), rng.normal(size=20), HARD])).astype(np.float64)
    reached = reached[~np.isnan(reached)]
    with np.errstate(over="ignore", under="ignore"):
        beside32 = np.nextafter(reached.astype(np.float32), np.float32(np.inf)).astype(np.float64)
    return np.concatenate([neighbours(reached), beside32, rng.normal(size=20), [np.inf, -np.inf]])


@pytest.mark.parametrize("kind", MAPS)
@given(seed=st.integers(0, 2**32 - 1), rows=st.sampled_from([1, 2, 5, 40]))
def test_maps_never_fall(kind: str, seed: int, rows: int) -> None:
    rng = np.random.default_rng(seed)
    x = random_numbers(rng, rows)
    each = make_map(kind, x)
    tried = np.sort(np.concatenate([neighbours(x), neighbours(random_bits(rng, 200)), neighbours(HARD)]))
    image = each.transform(tried)
    assert image.dtype == np.float32
    np.testing.assert_array_equal(np.isnan(image), np.isnan(tried))
    image = image[~np.isnan(tried)]
    assert np.isfinite(image).all()
    assert (np.diff(image) >= 0).all()


@pytest.mark.parametrize("kind", MAPS)
@given(seed=st.integers(0, 2**32 - 1), rows=st.sampled_from([1, 2, 5, 40]))
def test_raw_thresholds_route_every_number_as_its_image(kind: str, seed: int, rows: int) -> None:
    rng = np.random.default_rng(seed)
    x = random_numbers(rng, rows)
    each = make_map(kind, x)
    t = images(each, rng)
    raw = each.raw_threshold(t)
    assert not np.isnan(raw).any()
    tried = np.concatenate([neighbours(raw), neighbours(x), random_bits(rng, 100), HARD])
    tried = tried[~np.isnan(tried)]
    image_left = each.transform(tried)[:, None] < t
    # A threshold that nothing reaches is +inf: everything goes left there, inf too.
    np.testing.assert_array_equal((tried[:, None] < raw) | (raw == np.inf), image_left)


@pytest.mark.parametrize("kind", MAPS)
def test_between_two_neighbouring_knots_all_numbers_are_tried(kind: str) -> None:
    """The widest proof that fits a test: every float64 between two numbers a few hundred steps apart."""
    low = 1.0 - 2.0**-45
    x = np.array([low, 1.0, 1.0 + 2.0**-46, 1.0 + 2.0**-45])
    each = make_map(kind, x)
    start, stop = (int(np.array(v).view(np.int64)) for v in (low - 2.0**-47, 1.0 + 2.0**-44))
    every = np.arange(start, stop).view(np.float64)
    image = each.transform(every)
    assert (np.diff(every) > 0).all()
    assert (np.diff(image) >= 0).all()
    t = np.unique(image).astype(np.float64)
    t = np.concatenate([neighbours(t), (t[1:] + t[:-1]) / 2])
    raw = each.raw_threshold(t)
    for one, threshold in zip(raw, t, strict=True):
        np.testing.assert_array_equal((every < one) | (one == np.inf), image < threshold)


def test_the_identity_rounds_to_float32() -> None:
    x = np.array([0.1, 1 + 2.0**-30, np.nan, 1e300, -np.inf])
    largest = np.finfo(np.float32).max
    np.testing.assert_array_equal(Identity().transform(x), np.array([0.1, 1.0, np.nan, largest, -largest], np.float32))
    assert Identity().raw_threshold(np.array([1.0]))[0] == 1 - 2.0**-25
    np.testing.assert_array_equal(Identity().raw_threshold(np.array([-np.inf, np.inf])), [-np.inf, np.inf])


@given(st.lists(st.floats(allow_nan=False), min_size=2))
def test_keys_count_float64_in_order(numbers: list[float]) -> None:
    ordered = sorted(numbers)
    keys = [_key(x) for x in ordered]
    assert keys == sorted(keys)
    np.testing.assert_array_equal(_number(np.array(keys, np.int64)), ordered)


def test_neighbouring_keys_are_neighbouring_numbers() -> None:
    keys = np.array([-2, -1, 0, 1, 2])
    np.testing.assert_array_equal(_number(keys), [-1e-323, -5e-324, 0, 5e-324, 1e-323])


@given(seed=st.integers(0, 2**32 - 1))
def test_weight_two_is_a_row_that_occurs_twice(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = random_numbers(rng, 30)
    weight = rng.integers(0, 4, 30)
    again = rng.permutation(np.repeat(x, weight))
    by_weight, by_repeat = fit_standard(x, weight.astype(float)), fit_standard(again)
    assert by_weight == by_repeat
    for a, b in zip(weighted_values(x, weight.astype(float)), weighted_values(again, None), strict=True):
        np.testing.assert_array_equal(a, b)


def test_standard() -> None:
    x = np.array([1.0, 3.0, np.nan])
    assert fit_standard(x) == Standard(2.0, 1.0)
    np.testing.assert_array_equal(fit_standard(x).transform(x), np.array([-1, 1, np.nan], np.float32))
    assert fit_standard(np.full(3, 7.0)) == Standard(7.0, 1.0)
    assert fit_standard(np.full(3, np.nan)) == Standard(0.0, 1.0)


@pytest.mark.parametrize(
    ("weight", "problem"),
    [
        ([1.0, 2.0], "must have shape"),
        ([1.0, -1.0, 1.0], "is no weight"),
        ([1.0, np.nan, 1.0], "is no weight"),
        ([0.0, 0.0, 0.0], "is zero for every row"),
        ([1e308, 1e308, 1e308], "too large"),
        (["a", "b", "c"], "does not hold numbers"),
    ],
)
def test_bad_weights_are_refused(weight: list[object], problem: str) -> None:
    with pytest.raises(InvalidArgumentError, match=rf"sample_weight.*{problem}"):
        check_weights(weight, 3)


def test_weights_are_ones_by_default() -> None:
    np.testing.assert_array_equal(check_weights(None, 3), np.ones(3))
    np.testing.assert_array_equal(check_weights([1, 2, 0], 3), [1.0, 2.0, 0.0])
