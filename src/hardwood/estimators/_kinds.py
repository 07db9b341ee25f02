"""What classifiers and what regressors have in common, whatever their trees."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec

import numpy as np
from sklearn.base import BaseEstimator

from hardwood._typing import Float
from hardwood.errors import reject
from hardwood.estimators._answers import labels_of, numbers_of
from hardwood.estimators._base import TreeEstimator
from hardwood.estimators._callbacks import with_callbacks
from hardwood.estimators._online import OnlineMixin
from hardwood.estimators._predicting import ClassPredictor, NumberPredictor
from hardwood.estimators._session import Session
from hardwood.estimators._target import Target, of_classes, of_numbers, of_shares

P = ParamSpec("P")


def constructor(init: Callable[P, None]) -> Callable[P, None]:
    """Mark a constructor that takes whatever it is given: scikit-learn wants `fit` to be what complains."""
    init.__no_type_check__ = True  # type: ignore[attr-defined]
    return init


def keep_parameters(estimator: BaseEstimator, given: dict[str, Any]) -> None:
    """Keep the arguments of a constructor, its `locals()`, under their names, as scikit-learn asks for."""
    for name, value in given.items():
        if name not in ("self", "__class__"):
            setattr(estimator, name, value)


class TreeClassifier(ClassPredictor, OnlineMixin, TreeEstimator):
    """Predicts classes, or several labels at once."""

    @with_callbacks
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> TreeClassifier:
        """Learn from a table and the class of each row; or a matrix of zeros and ones for several labels a row.

        `X` is a pandas, polars or Arrow table, or an array; text and category columns, dates, booleans and missing
        cells are taken as they are. Rows of weight 0 teach nothing.
        """
        self._fit_rows(X, labels_of(y), lambda labels, _: of_classes(labels, self.loss), sample_weight)
        return self

    @with_callbacks
    def distill(self, teacher: Any, X: Any, sample_weight: Any = None) -> TreeClassifier:
        """Learn what a fitted classifier answers: its `predict_proba` on `X` takes the place of `y`.

        Soft answers say more about a row than its label, and rows without a label can be used too.
        """
        if not hasattr(teacher, "predict_proba") or not hasattr(teacher, "classes_"):
            remedy = "pass a fitted classifier with predict_proba and classes_"
            reject("teacher", type(teacher).__name__, "gives no probabilities of classes", remedy)
        shares = np.asarray(teacher.predict_proba(X), np.float64)
        classes = np.asarray(teacher.classes_)
        if shares.ndim != 2 or shares.shape[1] != len(classes):
            reject("teacher", type(teacher).__name__, "answers for several outputs", "pass one for a single output")
        if not np.isfinite(shares).all():
            reject("teacher", type(teacher).__name__, "gives probabilities that are not finite", "look at its inputs")
        order = np.argsort(classes)
        shares = np.clip(shares[:, order], 0.0, 1.0)
        self._fit_rows(X, shares, lambda kept, _: of_shares(kept, classes[order], self.loss), sample_weight)
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> TreeClassifier:
        """Pass over some new rows once: splits and leaves move, and the optimiser remembers earlier calls.

        After `fit` it goes on from there. Without one, the first call names all `classes` that will ever come, and
        learns the columns, their categories and their range from its rows.
        """
        labels = labels_of(y)

        def make_target(session: Session | None, _: Float[np.ndarray, " rows"]) -> Target:
            if session is None:
                if classes is None and labels.ndim == 1:
                    remedy = "pass every class that will come"
                    reject("classes", None, "is needed in the first call of partial_fit", remedy)
                return of_classes(labels, self.loss, None if classes is None else labels_of(classes))
            before = session.target
            if labels.shape[1:] != (before.n_outputs,) * (before.classes is None):
                problem = "is not like that of the first call"
                reject("y", f"an array of shape {labels.shape}", problem, "pass the same kind of target in every call")
            if classes is not None and not np.array_equal(np.unique(labels_of(classes)), self.classes_):
                reject("classes", classes, f"are not those of the first call, {self.classes_}", "leave classes out")
            return of_classes(labels, self.loss, before.classes)

        self._fit_more(X, labels, make_target, sample_weight)
        return self


class TreeRegressor(NumberPredictor, OnlineMixin, TreeEstimator):
    """Predicts numbers, one or several for each row."""

    @with_callbacks
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> TreeRegressor:
        """Learn from a table and a number for each row, or a matrix with a column for each output.

        `X` is a pandas, polars or Arrow table, or an array; text and category columns, dates, booleans and missing
        cells are taken as they are. Rows of weight 0 teach nothing.
        """
        self._fit_rows(X, numbers_of(y), lambda numbers, weight: of_numbers(numbers, self.loss, weight), sample_weight)
        return self

    @with_callbacks
    def distill(self, teacher: Any, X: Any, sample_weight: Any = None) -> TreeRegressor:
        """Learn what a fitted regressor answers: its `predict` on `X` takes the place of `y`."""
        if not hasattr(teacher, "predict"):
            reject("teacher", type(teacher).__name__, "has no predict method", "pass a fitted regressor")
        answers = np.asarray(teacher.predict(X), np.float64)
        self._fit_rows(X, answers, lambda numbers, weight: of_numbers(numbers, self.loss, weight), sample_weight)
        return self

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> TreeRegressor:
        """Pass over some new rows once: splits and leaves move, and the optimiser remembers earlier calls.

        After `fit` it goes on from there. Without one, the first call learns the columns, their categories and range,
        and the target's scale from its rows.
        """
        numbers = numbers_of(y)

        def make_target(session: Session | None, weight: Float[np.ndarray, " rows"]) -> Target:
            return of_numbers(numbers, self.loss, weight) if session is None else session.target.like(numbers)

        self._fit_more(X, numbers, make_target, sample_weight)
        return self
