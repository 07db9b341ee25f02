"""scikit-learn's own checks of what an estimator is, with none excused."""

from __future__ import annotations

from typing import Any

from sklearn.utils.estimator_checks import parametrize_with_checks

from hardwood import (
    GetClassifier,
    GetRegressor,
    GradTreeClassifier,
    GradTreeRegressor,
    GrandeClassifier,
    GrandeRegressor,
)

# Small and short: the checks fit each estimator about a hundred times.
_SHORT = {
    "max_depth": 3,
    "leaf_shrinkage": 0.1,
    "n_starts": 2,
    "epochs": 10,
    "min_steps": 60,
    "polish_epochs": 1,
    "polish_min_steps": 5,
}
ESTIMATORS = [
    GradTreeClassifier(max_depth=4, n_restarts=2, max_iter=5),
    GradTreeRegressor(max_depth=4, n_restarts=2, max_iter=5),
    GrandeClassifier(16, max_depth=3, max_iter=5),
    GrandeRegressor(16, max_depth=3, max_iter=5),
    GetClassifier(**_SHORT),
    GetRegressor(**_SHORT),
    GetRegressor(leaf="linear", **_SHORT),
]


@parametrize_with_checks(ESTIMATORS)
def test_checks(estimator: Any, check: Any):
    check(estimator)
