"""scikit-learn's own checks of the latent trees' estimators, with none excused."""

from __future__ import annotations

from typing import Any

from sklearn.utils.estimator_checks import parametrize_with_checks

from hardwood import LatentTreeClassifier, LatentTreeClustering, LatentTreeRegressor

ESTIMATORS = [
    LatentTreeClassifier(max_depth=2, max_iter=8, batch_size=16, learning_rate=0.05),
    LatentTreeRegressor(max_depth=2, max_iter=8, batch_size=16, learning_rate=0.05),
    LatentTreeClustering(max_depth=2, max_iter=8, batch_size=16, learning_rate=0.05),
]


@parametrize_with_checks(ESTIMATORS)
def test_checks(estimator: Any, check: Any):
    check(estimator)
