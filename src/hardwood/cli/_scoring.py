"""How good answers are, as a few numbers by name; and the greedy tree that a learned one is compared with."""

from __future__ import annotations

from typing import Any

import numpy as np

from hardwood._typing import Float, Int, Shaped
from hardwood.cli._features import Features, Task
from hardwood.forest import Forest

Scores = dict[str, float]
# scikit-learn computes in float32.
_LARGEST = 3e38


def score_forest(
    forest: Forest,
    raw: Float[np.ndarray, "rows features"],
    truth: Shaped[np.ndarray, " rows"],
    weight: Float[np.ndarray, " rows"] | None = None,
) -> Scores:
    """Score the predictions of a forest."""
    if forest.classes is None:
        return score_numbers(forest.predict(raw), truth, weight)
    return score_classes(forest.predict_proba(raw), forest.classes, truth, weight)


def score_classes(
    shares: Float[np.ndarray, "rows classes"],
    classes: Shaped[np.ndarray, " classes"],
    truth: Shaped[np.ndarray, " rows"],
    weight: Float[np.ndarray, " rows"] | None = None,
) -> Scores:
    """Score probabilities of classes. As in scikit-learn, classes that neither occur nor are called do not count."""
    order = np.argsort(classes, kind="stable")
    true: Int[np.ndarray, " rows"] = order[np.searchsorted(classes[order], truth)]
    weight = np.ones(len(true)) if weight is None else weight
    called = shares.argmax(axis=1)
    size = len(classes)
    confusion = np.bincount(true * size + called, weight, size * size).reshape(size, size)
    right, occurs, called_so = np.diag(confusion), confusion.sum(axis=1), confusion.sum(axis=0)
    met, named = occurs > 0, occurs + called_so > 0
    own = np.clip(shares[np.arange(len(true)), true], np.finfo(np.float64).eps, 1.0)
    return {
        "accuracy": float(right.sum() / occurs.sum()),
        "balanced accuracy": float((right[met] / occurs[met]).mean()),
        "macro F1": float((2 * right[named] / (occurs + called_so)[named]).mean()),
        "log loss": float(np.average(-np.log(own), weights=weight)),
    }


def score_numbers(
    predicted: Shaped[np.ndarray, " rows"],
    truth: Float[np.ndarray, " rows"],
    weight: Float[np.ndarray, " rows"] | None = None,
) -> Scores:
    """Score numbers."""
    error = truth - predicted
    spread = float(np.average((truth - np.average(truth, weights=weight)) ** 2, weights=weight))
    squared = float(np.average(error**2, weights=weight))
    # As in scikit-learn: a constant truth is predicted perfectly or not at all.
    r2 = 1 - squared / spread if spread > 0 else float(squared == 0)
    return {
        "R2": r2,
        "root mean squared error": squared**0.5,
        "mean absolute error": float(np.average(np.abs(error), weights=weight)),
    }


def score_greedy(
    depth: int,
    task: Task,
    training: tuple[Features, Shaped[np.ndarray, " rows"], Float[np.ndarray, " rows"]],
    held_out: tuple[Features, Shaped[np.ndarray, " other"], Float[np.ndarray, " other"]],
    seed: int,
) -> Scores:
    """Fit scikit-learn's greedy tree of a depth on rows, answers and weights, and score it on others."""
    from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

    from hardwood.data import TableEncoder

    features, answers, weight = training
    columns = list(features.vocabularies)
    named: Any = columns if columns else "from_dtype"
    # Numbers near 1, so that dates keep their digits in scikit-learn's float32.
    encoder = TableEncoder(numeric="standard", task=task, seed=seed, categorical_features=named)
    target = np.unique(answers, return_inverse=True)[1] if task == "classification" else answers
    x = np.clip(encoder.fit_transform(features.raw, target, weight), -_LARGEST, _LARGEST)
    held, truth, importance = held_out
    others = np.clip(encoder.transform(held.raw), -_LARGEST, _LARGEST)
    if task == "classification":
        tree = DecisionTreeClassifier(max_depth=depth, random_state=seed).fit(x, answers, weight)
        return score_classes(tree.predict_proba(others), tree.classes_, truth, importance)
    model = DecisionTreeRegressor(max_depth=depth, random_state=seed).fit(x, answers, weight)
    return score_numbers(model.predict(others), truth, importance)
