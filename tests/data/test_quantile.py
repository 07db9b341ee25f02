"""The quantile map: ranks of training rows, ties, weights, noise."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtri

from hardwood.data import Quantile, fit_quantile
from hardwood.errors import InvalidArgumentError
from helpers.tables import HARD, neighbours, random_bits, random_numbers


def test_smooth_columns_become_normal() -> None:
    rng = np.random.default_rng(0)
    x = np.exp(rng.normal(size=20_000))
    z = fit_quantile(x).transform(x)
    grid = np.linspace(0.01, 0.99, 99)
    np.testing.assert_allclose(np.quantile(z, grid), ndtri(grid), atol=0.01)


def test_ties_sit_at_the_middle_of_their_ranks() -> None:
    x = np.array([5.0, 5.0, 5.0, 7.0])
    each = fit_quantile(x)
    np.testing.assert_array_equal(each.transform(np.array([5.0, 7.0])), ndtri([3 / 8, 7 / 8]).astype(np.float32))
    np.testing.assert_allclose(each.transform(np.array([6.0])), [(ndtri(3 / 8) + ndtri(7 / 8)) / 2], rtol=1e-6)
    np.testing.assert_array_equal(each.transform(np.array([-9.0, 99.0])), each.transform(np.array([5.0, 7.0])))


@given(seed=st.integers(0, 2**32 - 1), n_quantiles=st.sampled_from([2, 3, 10, 1000]))
def test_weight_two_is_a_row_that_occurs_twice(seed: int, n_quantiles: int) -> None:
    rng = np.random.default_rng(seed)
    x = random_numbers(rng, 50)
    weight = rng.integers(0, 4, 50)
    by_weight = fit_quantile(x, weight.astype(float), n_quantiles=n_quantiles)
    by_repeat = fit_quantile(rng.permutation(np.repeat(x, weight)), n_quantiles=n_quantiles)
    np.testing.assert_array_equal(by_weight.knots, by_repeat.knots)
    np.testing.assert_array_equal(by_weight.levels, by_repeat.levels)
    tried = np.concatenate([neighbours(x), random_bits(rng, 50), HARD])
    np.testing.assert_array_equal(by_weight.transform(tried), by_repeat.transform(tried))


@pytest.mark.parametrize("x", [[], [np.nan], [np.nan, np.nan], [3.0], [3.0, 3.0, np.nan], [np.inf], [0.0, -0.0]])
def test_columns_that_say_nothing_become_zero(x: list[float]) -> None:
    each = fit_quantile(np.array(x))
    np.testing.assert_array_equal(each.transform(np.array([3.0, -1.0, np.inf, np.nan])), [0, 0, 0, np.nan])
    np.testing.assert_array_equal(each.raw_threshold(np.array([0.0, -1.0, 1e-9])), [-np.inf, -np.inf, np.inf])


def test_the_number_of_knots_is_bounded_and_the_ends_are_kept() -> None:
    x = np.random.default_rng(0).normal(size=5000)
    each = fit_quantile(x, n_quantiles=7)
    assert len(each.knots) <= 8
    assert each.knots[0] == x.min()
    assert each.knots[-1] == x.max()
    assert np.isin(each.knots, x).all()


def test_few_rows_of_a_weight_far_below_others_stay_finite() -> None:
    each = fit_quantile(np.array([1.0, 2.0, 3.0]), np.array([1e-300, 1.0, 1e-300]))
    assert np.isfinite(each.levels).all()
    assert np.isfinite(each.transform(HARD[~np.isnan(HARD)])).all()


def test_widths_beyond_float64_and_at_its_smallest() -> None:
    largest = np.finfo(np.float64).max
    wide = fit_quantile(np.array([-largest, largest]))
    np.testing.assert_allclose(wide.transform(np.array([0.0, largest / 2])), [0, ndtri(0.75) / 2], atol=1e-7)
    tiny = fit_quantile(np.array([0.0, 5e-324]))
    np.testing.assert_array_equal(tiny.transform(np.array([0.0, 5e-324])), ndtri([0.25, 0.75]).astype(np.float32))


@given(seed=st.integers(0, 2**32 - 1))
def test_segments_meet_in_float64_too(seed: int) -> None:
    """Rounding to float32 would hide most of a step down by one unit in the last place, but not all."""
    rng = np.random.default_rng(seed)
    knots = np.unique(rng.choice(np.concatenate([random_bits(rng, 20), rng.normal(size=20)]), 30))
    knots = knots[np.isfinite(knots)]
    levels = np.sort(rng.normal(size=len(knots)))
    each = Quantile(knots, levels)
    np.testing.assert_array_equal(each._finite(knots)[:-1], levels[:-1])
    assert each._finite(knots)[-1] <= levels[-1]
    tried = np.sort(np.clip(np.concatenate([neighbours(neighbours(knots)), random_bits(rng, 50)]), -1.7e308, 1.7e308))
    with np.errstate(invalid="ignore"):
        assert (np.diff(each._finite(tried[~np.isnan(tried)])) >= 0).all()


def test_infinities_are_the_largest_numbers() -> None:
    x = np.array([-np.inf, 0.0, 1.0, np.inf])
    np.testing.assert_array_equal(fit_quantile(x).transform(x), ndtri([1 / 8, 3 / 8, 5 / 8, 7 / 8]).astype(np.float32))


def test_noise_parts_ties_and_is_drawn_from_the_generator() -> None:
    x = np.repeat([0.0, 1.0], 50)
    fit = [fit_quantile(x, noise=0.01, rng=np.random.default_rng(seed)) for seed in (0, 0, 1)]
    np.testing.assert_array_equal(fit[0].knots, fit[1].knots)
    assert (fit[0].knots != fit[2].knots).all()
    assert len(fit[0].knots) == 100
    constant = fit_quantile(np.full(5, 2.0), noise=0.01, rng=np.random.default_rng(0))
    np.testing.assert_array_equal(constant.knots, [2.0])
    for hard in (np.full(3, np.nan), HARD):
        assert np.isfinite(fit_quantile(hard, noise=1e-3, rng=np.random.default_rng(0)).knots).all()


def test_a_pickled_map_is_the_same() -> None:
    each = fit_quantile(np.arange(9.0))
    again = pickle.loads(pickle.dumps(each))
    np.testing.assert_array_equal(again.transform(HARD), each.transform(HARD))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_quantiles": 1}, "n_quantiles=1: must be at least 2"),
        ({"noise": -1.0}, "noise=-1.0: must be a finite"),
        ({"noise": 0.1}, "rng=None: is needed with noise"),
    ],
)
def test_bad_options_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        fit_quantile(np.arange(3.0), **options)  # type: ignore[arg-type]
