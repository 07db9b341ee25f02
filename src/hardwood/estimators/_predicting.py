"""What fitted classifiers and regressors answer, whatever learned their forest."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin

from hardwood._typing import Float, Shaped
from hardwood.estimators._reading import ForestEstimator
from hardwood.estimators._target import Target
from hardwood.forest._combine import chosen_classes


class ClassAnswers(ClassifierMixin):  # type: ignore[misc]
    """Says what classes are predicted; a subclass has `predict_proba`."""

    classes_: Shaped[np.ndarray, " classes"]

    @abstractmethod
    def predict_proba(self, X: Any) -> Float[np.ndarray, "rows classes"]:
        """Return the probability of each class, in the order of `classes_`; of each label if there are several."""

    def predict_log_proba(self, X: Any) -> Float[np.ndarray, "rows classes"]:
        """Return the logarithm of the probabilities."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def _described(self, target: Target) -> dict[str, Any]:
        if target.classes is None:
            return {"n_outputs_": target.n_outputs, "classes_": np.arange(target.n_outputs)}
        return {"n_outputs_": 1, "classes_": target.classes}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags


class NumberAnswers(RegressorMixin):  # type: ignore[misc]
    """Says what numbers are predicted."""

    def _described(self, target: Target) -> dict[str, Any]:
        return {"n_outputs_": target.n_outputs}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


class ClassPredictor(ClassAnswers, ForestEstimator):
    """Predicts classes, or several labels at once, by a forest."""

    def predict(self, X: Any) -> Shaped[np.ndarray, " rows"] | Shaped[np.ndarray, "rows labels"]:
        """Return the most probable class of each row; the labels as zeros and ones if there are several."""
        raw = self._raw(X)
        if self.forest_.classes is None:
            return (self.forest_.predict(raw).reshape(len(raw), -1) > 0.5).astype(np.int64)
        # The labels as they were given, whatever their type.
        return self.classes_[chosen_classes(self.forest_, self.forest_.outputs(raw))]

    def predict_proba(self, X: Any) -> Float[np.ndarray, "rows classes"]:
        """Return the probability of each class, in the order of `classes_`; of each label if there are several."""
        raw = self._raw(X)
        if self.forest_.classes is None:
            return np.asarray(self.forest_.predict(raw)).reshape(len(raw), -1)
        return self.forest_.predict_proba(raw)


class NumberPredictor(NumberAnswers, ForestEstimator):
    """Predicts numbers, one or several for each row, by a forest."""

    def predict(self, X: Any) -> Float[np.ndarray, " rows"] | Float[np.ndarray, "rows outputs"]:
        """Return a number for each row, or for each row and output."""
        raw = self._raw(X)
        return self.forest_.predict(raw)
