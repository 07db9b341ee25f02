"""A forest from whatever holds one: a forest, an estimator of ours, or a fitted model of another library."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from hardwood._typing import Float
from hardwood.errors import reject
from hardwood.forest._forest import Forest
from hardwood.forest._inputs import matrix

# Library -> the module and the function that make a forest of its models.
_LIBRARIES = {
    "lightgbm": ("hardwood.forest._lightgbm", "from_lightgbm"),
    "sklearn": ("hardwood.forest._sklearn", "from_sklearn"),
    "xgboost": ("hardwood.forest._xgboost", "from_xgboost"),
}
_WORKS = (
    "a Forest, a fitted estimator of hardwood, or a fitted tree model of scikit-learn (DecisionTree, ExtraTree, "
    "RandomForest, ExtraTrees, GradientBoosting, HistGradientBoosting), XGBoost (XGBClassifier, XGBRegressor, "
    "XGBRFClassifier, XGBRFRegressor, Booster) or LightGBM (LGBMClassifier, LGBMRegressor, Booster)"
)


def forest_of(model: Any, feature_names: Iterable[str] | None = None) -> Forest:
    """Return the forest of a model of any kind that has one; a `Forest` is returned as it is.

    `feature_names` replaces the names of the columns. What a model is, is told by its class: no library is imported
    to find out.
    """
    if isinstance(model, Forest):
        return model if feature_names is None else replace(model, feature_names=tuple(feature_names))
    # An estimator that is not fitted yet has no such attribute.
    if not isinstance(model, type) and hasattr(model, "forest_"):
        return forest_of(model.forest_, feature_names)
    libraries = [kind.__module__.partition(".")[0] for kind in type(model).__mro__]
    if "hardwood" in libraries and hasattr(model, "fit"):
        reject("model", model, "has no forest: it is not fitted", "call its fit method first")
    # The wrappers of other libraries inherit from scikit-learn's classes, which come after their own.
    library = next((name for name in libraries if name in _LIBRARIES), None)
    if library is None:
        reject("model", model, "has no forest", f"pass {_WORKS}")
    home, converter = _LIBRARIES[library]
    forest: Forest = getattr(importlib.import_module(home), converter)(model, feature_names=feature_names)
    return forest


def rows_of(model: Any, X: Any) -> Float[np.ndarray, "rows features"]:
    """Return a table as the forest of a model takes it.

    An estimator of ours knows what the columns of its table are, and encodes them if its forest splits on encoded
    columns; a forest takes a data frame with its columns, or an array in raw coding.
    """
    return matrix(forest_of(model), model.forest_rows(X) if hasattr(model, "forest_rows") else X)
