"""The scale is the encoder's `Standard`, and its inverse for thresholds is exact."""

from __future__ import annotations

import numpy as np
import pytest

from hardwood.data._monotone import Standard
from hardwood.rl import Scale


def hard_numbers(rng: np.random.Generator) -> np.ndarray:
    largest, tiny = np.finfo(np.float64).max, np.finfo(np.float64).tiny
    odd = [0.0, -0.0, np.inf, -np.inf, np.nan, largest, -largest, tiny, -tiny, 1e30, -1e30, 5e-324]
    return np.concatenate([odd, rng.standard_normal(200), rng.standard_normal(50) * 1e12])


@pytest.mark.parametrize(("mean", "deviation"), [(0.0, 1.0), (0.3, 1e-4), (-7e5, 3.0), (1e300, 1e290), (0.1, 1e-300)])
def test_the_scale_is_the_encoders(mean: float, deviation: float):
    rng = np.random.default_rng(0)
    with np.errstate(over="ignore"):
        rows = hard_numbers(rng)[:, None] * np.array([[1.0, deviation]])
    scale = Scale(np.array([mean, mean]), np.array([deviation, deviation]))
    standard = Standard(mean, deviation)
    with np.errstate(over="ignore", invalid="ignore"):
        expected = np.stack([standard.transform(column) for column in rows.T], 1)
    np.testing.assert_array_equal(scale.transform(rows), expected)

    thresholds = np.concatenate([rng.standard_normal(200), [0.0, 1e-30, -1e-30, 3e38, -3e38, np.inf, -np.inf]])
    thresholds = thresholds.astype(np.float32)
    raw = scale.raw_thresholds(np.zeros(len(thresholds), np.int64), thresholds)
    np.testing.assert_array_equal(raw, standard.raw_threshold(thresholds))


def test_a_column_that_does_not_vary_keeps_its_unit():
    scale = Scale.fit(np.array([[1.0, 5.0], [3.0, 5.0]]))
    np.testing.assert_array_equal(scale.mean, [2.0, 5.0])
    np.testing.assert_array_equal(scale.deviation, [1.0, 1.0])


def test_a_description_reads_back_exactly():
    import json

    scale = Scale.fit(np.random.default_rng(0).standard_normal((50, 3)))
    again = Scale.from_description(json.loads(json.dumps(scale.describe())))
    np.testing.assert_array_equal(again.mean, scale.mean)
    np.testing.assert_array_equal(again.deviation, scale.deviation)
