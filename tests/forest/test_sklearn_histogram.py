"""A forest made from histogram gradient boosting predicts the same, categories and missing values included."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn._loss.loss import ExponentialLoss
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
)
from threadpoolctl import threadpool_limits

from hardwood import errors
from hardwood.forest import Forest, from_sklearn
from helpers.sklearn_models import Rng, check, close, labels, table


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Keep OpenMP from spinning on cores that other tests use: these models are tiny."""
    with threadpool_limits(1):
        yield


@pytest.mark.parametrize("loss", ["squared_error", "absolute_error", "poisson", "gamma", "quantile"])
def test_histogram_regressors(loss: str) -> None:
    rng = np.random.default_rng(19)
    X = table(rng)
    quantile = 0.3 if loss == "quantile" else None
    model = HistGradientBoostingRegressor(loss=loss, quantile=quantile, max_iter=8, min_samples_leaf=3)
    forest = check(model.fit(X, np.exp(X[:, 0]) + rng.random(len(X))), rng, missing=True, rows=X)
    assert forest.link == ("exp" if loss in ("poisson", "gamma") else "identity")


@pytest.mark.parametrize("classes", [2, 4])
def test_histogram_classifiers(classes: int) -> None:
    rng = np.random.default_rng(20)
    X = table(rng, 200)
    model = HistGradientBoostingClassifier(max_iter=8, min_samples_leaf=3).fit(X, labels(rng, X, classes))
    rows = rng.choice([np.inf, -np.inf, np.nan, 1e39, 1e300, 0.0], (200, 4))
    check(model, rng, missing=True, rows=np.concatenate([X, rows]))


def mixed_frame(rng: Rng, rows: int = 400) -> pd.DataFrame:
    """Categories before, between and after numbers, with missing values in all."""
    frame = pd.DataFrame(
        {
            "town": pd.Categorical(rng.choice(["Ulm", "Köln", "Bonn", "Jena"], rows)),
            "size": rng.normal(size=rows),
            "rooms": pd.Categorical(rng.choice([3, 1, 10, 4], rows)),
            "age": rng.integers(0, 90, rows).astype(float),
            "garden": pd.Categorical(rng.choice([True, False], rows)),
        }
    )
    for column in ("town", "size", "rooms"):
        frame.loc[rng.random(rows) < 0.2, column] = np.nan
    return frame


def encoded(frame: pd.DataFrame, forest: Forest) -> np.ndarray:
    """Encode by hand what the forest's vocabulary knows; anything else is missing."""
    result = np.full(frame.shape, np.nan)
    for column, name in enumerate(frame.columns):
        vocabulary = forest.categories.get(column)
        for row, value in enumerate(frame[name].tolist()):
            if vocabulary is None:
                result[row, column] = value
            elif value in vocabulary:
                result[row, column] = vocabulary.index(value)
    return result


@pytest.mark.parametrize("target", ["regression", "two classes", "three classes"])
def test_histogram_boosting_with_categories(target: str) -> None:
    rng = np.random.default_rng(21)
    frame = mixed_frame(rng)
    score = frame["town"].isin(["Ulm", "Jena"]) + frame["rooms"].isna() + 0.5 * frame["size"].fillna(1.0)
    score = score.to_numpy(float) + 0.3 * rng.normal(size=len(frame))
    settings: dict[str, Any] = {"max_iter": 10, "min_samples_leaf": 4, "random_state": 0}
    if target == "regression":
        model = HistGradientBoostingRegressor(**settings).fit(frame, score)
    else:
        y = np.searchsorted([0.7] if target == "two classes" else [0.4, 1.2], score)
        model = HistGradientBoostingClassifier(**settings).fit(frame, np.array(["a", "b", "c"])[y])
    forest = from_sklearn(model)
    assert forest.categories[0] == ("Bonn", "Jena", "Köln", "Ulm")
    assert forest.categories[2] == (1, 3, 4, 10)
    assert forest.feature_names == tuple(frame.columns)
    assert forest.feature_types == ("category", "float", "category", "float", "category")
    fresh = mixed_frame(np.random.default_rng(22))
    strange = fresh.astype({"town": object, "rooms": object})
    strange.loc[::3, "town"] = "Atlantis"
    strange.loc[::4, "rooms"] = 5
    for rows in (frame, fresh, strange):
        wanted = model.predict(rows) if target == "regression" else model.predict_proba(rows)
        for X in (encoded(rows, forest), rows):
            found = forest.predict(X) if target == "regression" else forest.predict_proba(X)
            close(found, wanted)


def test_histogram_boosting_with_codes_in_an_array() -> None:
    rng = np.random.default_rng(23)
    X = table(rng, 300)
    X[:, 2] = rng.integers(0, 7, len(X))
    X[rng.random(X.shape) < 0.1] = np.nan
    y = np.isin(X[:, 2], [1, 4, 5]) + X[:, 0] * 0.1
    model = HistGradientBoostingRegressor(max_iter=5, categorical_features=[2, 0], min_samples_leaf=3)
    forest = from_sklearn(model.fit(X, np.nan_to_num(y)))
    assert forest.categories == {0: (0.0, 1.0, 2.0, 3.0), 2: (0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0)}
    rows = rng.choice([0, 1, 2, 3, 4, 5, 6, 7, 250, 256, -1, 0.5, np.nan], (500, 4))
    close(forest.predict(rows), model.predict(rows))


def test_histogram_boosting_with_a_category_of_one_value() -> None:
    rng = np.random.default_rng(24)
    X = np.stack([rng.choice([0.0, np.nan], 200), rng.integers(0, 3, 200)], axis=1)
    y = 3.0 * np.isnan(X[:, 0]) + (X[:, 1] == 1)
    for columns in ([0], [0, 1]):
        model = HistGradientBoostingRegressor(max_iter=3, categorical_features=columns, min_samples_leaf=2).fit(X, y)
        rows = rng.choice([0.0, 1.0, 2.0, 3.0, np.nan], (100, 2))
        close(from_sklearn(model).predict(rows), model.predict(rows))


def test_categories_that_no_forest_tells_apart() -> None:
    rng = np.random.default_rng(25)
    words = pd.Series(rng.choice(np.array(["a", None], object), 60), dtype=object)
    y = rng.normal(size=60)
    frame = pd.DataFrame({"a": words, "b": y})
    model = HistGradientBoostingRegressor(categorical_features=["a"], max_iter=2).fit(frame, y)
    with pytest.raises(errors.InvalidArgumentError, match=r"column 0=.*None"):
        from_sklearn(model)
    X = np.stack([rng.choice([10.0, 20.0, 30.0], 60), rng.normal(size=60)], axis=1)
    model = HistGradientBoostingRegressor(categorical_features=[0], max_iter=2).fit(X, y)
    with pytest.raises(errors.InvalidArgumentError, match=r"codes 0, 1, 2.*feature_names"):
        from_sklearn(model)
    forest = from_sklearn(model, feature_names=["tens", "b"])
    assert forest.categories == {0: (10.0, 20.0, 30.0)}
    close(forest.predict(pd.DataFrame(X, columns=["tens", "b"])), model.predict(X))


def test_what_no_forest_can_be() -> None:
    X = table(np.random.default_rng(26))
    with pytest.raises(errors.InvalidArgumentError, match="single class"):
        from_sklearn(HistGradientBoostingClassifier(max_iter=2).fit(X, np.zeros(len(X))))
    model = HistGradientBoostingClassifier(loss=ExponentialLoss(), max_iter=2).fit(X, X[:, 0] > 1)
    with pytest.raises(errors.InvalidArgumentError, match="link that a forest does not know"):
        from_sklearn(model)
