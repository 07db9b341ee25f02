"""Forests of all sizes, and rows that try their edges, for comparing exported models with."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from hardwood.forest import CATEGORIES, OBLIQUE, THRESHOLD, Forest
from helpers.forests import complete_forest, random_forest, random_rows


def many_forests(seeds: range, **fixed: Any) -> Iterator[tuple[np.random.Generator, Forest]]:
    """Make random forests of every size, one a seed; `fixed` are arguments of `random_forest`."""
    for seed in seeds:
        rng = np.random.default_rng(seed)
        yield rng, random_forest(rng, **{"max_splits": int(rng.choice([0, 2, 10, 30])), **fixed})


def extreme_forest(rng: np.random.Generator, n_trees: int, depth: int, **fields: Any) -> Forest:
    """Make complete trees whose thresholds have every magnitude, zeros of both signs among them."""
    forest = complete_forest(rng, n_trees, depth, n_features=6, **fields)
    cuts = rng.choice([-1.0, 1.0], forest.node_count) * 10.0 ** rng.uniform(-320, 308, forest.node_count)
    common = rng.choice([0.0, -0.0, 0.1, 1.0, 2.0**-126, 2.0**-149, 3e38, -np.inf, np.inf], forest.node_count)
    cuts = np.where(rng.random(forest.node_count) < 0.5, cuts, common)
    return rebuilt(forest, threshold=np.where(forest.kind == THRESHOLD, cuts, 0.0))


def rebuilt(forest: Forest, **changes: Any) -> Forest:
    """Return the forest with some fields changed."""
    from dataclasses import replace

    return replace(forest, **changes)


def without_empty_arrays(forest: Forest) -> Forest:
    """Leave out arrays of a kind of split that no tree has: JSON says nothing of them."""
    changes: dict[str, None] = {}
    if not (forest.kind == CATEGORIES).any():
        changes |= {"category_start": None, "category_codes": None}
    if not (forest.kind == OBLIQUE).any():
        changes |= {"weight_start": None, "weight_feature": None, "weight_value": None}
    return rebuilt(forest, **changes)


def edge_rows(rng: np.random.Generator, forest: Forest, rows: int, dtype: type = np.float64) -> np.ndarray:
    """Make rows as `random_rows` does, and as many with each cell at, just below or just above a float32 or float64
    threshold of its own column."""
    near = random_rows(rng, forest, rows, dtype)
    for column in range(forest.n_features):
        cuts = forest.threshold[(forest.kind == THRESHOLD) & (forest.feature == column)]
        if len(cuts) == 0:
            continue
        with np.errstate(all="ignore"):
            cuts = cuts.astype(dtype)
            pool = np.concatenate([cuts, np.nextafter(cuts, dtype(np.inf)), np.nextafter(cuts, dtype(-np.inf))])
        near[:, column] = rng.choice(pool, rows)
    hole = rng.random(near.shape) < 0.1
    near[hole] = np.nan
    return np.concatenate([random_rows(rng, forest, rows, dtype), near])


def finite(rows: np.ndarray, largest: float = 1e35) -> np.ndarray:
    """Return rows without infinities, and with finite sums, for runtimes that refuse others."""
    return np.clip(rows, -largest, largest).astype(rows.dtype)


def assert_close(found: Any, wanted: Any, tolerance: float) -> None:
    """Compare outputs by a relative and an absolute tolerance of the same size, NaN being equal to NaN."""
    np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)
