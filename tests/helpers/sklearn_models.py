"""Tables and rows that try a scikit-learn model's edges, and the comparison of a model with its forest."""

from __future__ import annotations

from typing import Any

import numpy as np

from hardwood.forest import THRESHOLD, Forest, from_sklearn

Rng = np.random.Generator


def to_float32(values: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore", under="ignore"):
        return values.astype(np.float32)


def table(rng: Rng, rows: int = 120, columns: int = 4) -> np.ndarray:
    """Rows from coarse grids, so that values repeat, in float64 numbers that float32 does not have."""
    X = np.round(rng.normal(size=(rows, columns)), 1)
    X[:, 0] = rng.integers(0, 4, rows)
    X[:, -1] += 1e-9 * rng.normal(size=rows)
    return X


def labels(rng: Rng, X: np.ndarray, count: int) -> np.ndarray:
    """Class numbers that depend on the row, with noise, each present."""
    score = X[:, 0] + X[:, 1] * X[:, 2] + 0.5 * rng.normal(size=len(X))
    y = np.searchsorted(np.quantile(score, np.arange(1, count) / count), score)
    y[:count] = np.arange(count)
    return y


def rows_at_thresholds(rng: Rng, forest: Forest, rows: int = 400, missing: bool = False) -> np.ndarray:
    """Float64 rows on the forest's thresholds, on float32 neighbours of them, halfway between those, and beside."""
    cuts = forest.threshold[forest.kind == THRESHOLD]
    cuts = cuts[np.isfinite(cuts)]
    single = to_float32(cuts)
    up, down = np.nextafter(single, np.float32(np.inf)), np.nextafter(single, np.float32(-np.inf))
    pool = np.concatenate(
        [cuts, single, up, down, (single.astype(float) + up) / 2, (single.astype(float) + down) / 2, [0.0, -0.0, 3e38]]
    )
    pool = np.concatenate([pool, np.nextafter(pool, np.inf), np.nextafter(pool, -np.inf), rng.normal(size=20)])
    X = rng.choice(pool, (rows, forest.n_features))
    if missing:
        X[rng.random(X.shape) < 0.2] = np.nan
    return X


def close(found: np.ndarray, wanted: np.ndarray) -> None:
    np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=2e-15)


def check(model: Any, rng: Rng, missing: bool = False, rows: np.ndarray | None = None) -> Forest:
    """Convert a fitted model and compare everything that both can say."""
    forest = from_sklearn(model)
    assert forest.n_features == model.n_features_in_
    X = np.concatenate([rows_at_thresholds(rng, forest, missing=missing), *([] if rows is None else [rows])])
    if hasattr(model, "apply"):
        np.testing.assert_array_equal(forest.apply(X), model.apply(X).reshape(len(X), -1))
        single = to_float32(X)
        np.testing.assert_array_equal(forest.apply(single), model.apply(single).reshape(len(X), -1))
    if hasattr(model, "classes_"):
        close(forest.predict_proba(X), model.predict_proba(X))
        found, wanted = forest.predict(X), model.predict(X)
        np.testing.assert_array_equal(found, wanted)
        assert found.dtype.kind == wanted.dtype.kind or wanted.dtype.kind == "O"
        assert forest.classes is not None
        assert forest.classes.tolist() == model.classes_.tolist()
    else:
        assert forest.predict(X).shape == model.predict(X).shape
        close(forest.predict(X), model.predict(X))
    return forest
