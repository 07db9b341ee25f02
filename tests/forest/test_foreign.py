"""`forest_of` finds the forest of whatever holds one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.tree import DecisionTreeRegressor

from hardwood.errors import InvalidArgumentError
from hardwood.forest import Forest, forest_of, from_lightgbm, from_sklearn, from_xgboost
from helpers.forests import small_fields
from helpers.sklearn_models import table

NAMES = ["a", "b", "c", "d"]


def data() -> tuple[np.ndarray, np.ndarray]:
    X = table(np.random.default_rng(0))
    return X, X[:, 1]


def test_a_forest_is_returned_as_it_is() -> None:
    forest = Forest(**small_fields())
    assert forest_of(forest) is forest
    assert forest_of(forest, ["x", "y", "z"]).feature_names == ("x", "y", "z")


def test_an_estimator_gives_its_forest() -> None:
    class Holds:
        forest_ = Forest(**small_fields())

    assert forest_of(Holds()) is Holds.forest_
    assert forest_of(Holds(), ["x", "y", "z"]).feature_names == ("x", "y", "z")
    with pytest.raises(InvalidArgumentError, match="has no forest"):
        forest_of(Holds)


def test_scikit_learn() -> None:
    class Own(DecisionTreeRegressor):
        pass

    for kind in (DecisionTreeRegressor, Own):
        model = kind(max_depth=3).fit(*data())
        assert forest_of(model) == from_sklearn(model)
        assert forest_of(model, NAMES) == from_sklearn(model, feature_names=NAMES)


def test_xgboost() -> None:
    xgboost = pytest.importorskip("xgboost")
    model = xgboost.XGBRegressor(n_estimators=2, n_jobs=1).fit(*data())
    for each in (model, model.get_booster()):
        assert forest_of(each, NAMES) == from_xgboost(each, feature_names=NAMES)


def test_lightgbm() -> None:
    lightgbm = pytest.importorskip("lightgbm")
    model = lightgbm.LGBMRegressor(n_estimators=2, n_jobs=1, verbose=-1).fit(*data())
    for each in (model, model.booster_):
        assert forest_of(each, NAMES) == from_lightgbm(each, feature_names=NAMES)


@pytest.mark.parametrize("wrong", [None, 3, "forest", Forest, {"forest_": 1}, np.zeros(3)], ids=repr)
def test_what_has_none(wrong: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=r"has no forest; pass a Forest, .*XGBRFClassifier.*LGBMClassifier"):
        forest_of(wrong)


def test_an_estimator_that_is_not_fitted() -> None:
    kind = type("GradTreeClassifier", (), {"__module__": "hardwood.estimators", "fit": None})
    with pytest.raises(InvalidArgumentError, match="not fitted; call its fit method first"):
        forest_of(kind())
    with pytest.raises(InvalidArgumentError, match="not fitted"):
        forest_of(DecisionTreeRegressor())
