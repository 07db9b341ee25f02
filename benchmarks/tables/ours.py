"""hardwood's own estimators, which take the frame as it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from benchmarks.tables.methods import Method, Model, Setting, Size
from benchmarks.tables.sets import Task


@dataclass
class Ours:
    """An estimator that ends as a `Forest` in `forest_`."""

    estimator: Any

    def fit(self, X: Any, y: np.ndarray) -> Ours:
        self.estimator.fit(X, y)
        return self

    def predict(self, X: Any) -> np.ndarray:
        return np.asarray(self.estimator.predict(X))

    def predict_proba(self, X: Any) -> np.ndarray:
        return np.asarray(self.estimator.predict_proba(X))

    def size(self) -> Size:
        forest = self.estimator.forest_
        return Size(forest.n_leaves, forest.depth)


def _make(name: str, limited: bool) -> Callable[[Setting], Model]:
    def make(setting: Setting) -> Model:
        import hardwood

        # They take their threads from torch, which the cell has limited.
        kind = getattr(hardwood, f"{name}Regressor" if setting.task == "regression" else f"{name}Classifier")
        limit = {"max_depth": setting.depth} if limited else {}
        return Ours(kind(random_state=setting.seed, **limit))

    return make


def _get(**options: Any) -> Callable[[Setting], Model]:
    def make(setting: Setting) -> Model:
        from hardwood import GetClassifier, GetRegressor

        kind: Any = GetRegressor if setting.task == "regression" else GetClassifier
        return Ours(kind(random_state=setting.seed, **options))

    return make


_PACKAGES = ("hardwood", "torch")
_REGRESSION: tuple[Task, ...] = ("regression",)

METHODS = (
    Method("gradtree", _make("GradTree", limited=True), _PACKAGES, uses_depth=True, paper_name="GradTree"),
    Method("grande", _make("Grande", limited=False), _PACKAGES, paper_name="GRANDE"),
    Method("get", _get(), _PACKAGES, paper_name="GET"),
    Method("get-linear", _get(leaf="linear"), _PACKAGES, _REGRESSION, paper_name="GET-Linear"),
    Method("get-taught", _get(teacher="ensemble"), _PACKAGES),
    Method("get-linear-taught", _get(leaf="linear", teacher="ensemble"), _PACKAGES, _REGRESSION),
    Method("get-sigmoid", _get(relaxation="sigmoid"), _PACKAGES),
    Method("get-softmin", _get(relaxation="softmin"), _PACKAGES),
    Method("get-linear-softmin", _get(leaf="linear", relaxation="softmin"), _PACKAGES, _REGRESSION),
)
