"""How good a forest is on rows whose answers are known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hardwood._typing import Float, Int, Shaped
from hardwood.forest import Forest


@dataclass(frozen=True)
class ClassScores:
    """Scores of a classifier. `confusion[i, j]` counts the rows of class i that were called class j."""

    accuracy: float
    balanced_accuracy: float  # the mean over the classes present of the share found
    log_loss: float
    auc: float | None  # area under the ROC curve, for two classes
    majority: float  # accuracy of always answering the most common class
    confusion: Int[np.ndarray, "classes classes"]


@dataclass(frozen=True)
class ValueScores:
    """Scores of a regression, for one output or the mean over several."""

    r2: float
    rmse: float
    mae: float
    spread: float  # root mean squared distance of the truth from its mean: the error of a constant answer
    residuals: Float[np.ndarray, " residuals"]  # truth minus prediction


def score(forest: Forest, X: Any, truth: Shaped[np.ndarray, "rows ..."]) -> ClassScores | ValueScores:
    """Compare a forest's predictions with the truth."""
    if forest.classes is None:
        return _score_values(np.asarray(forest.predict(X), np.float64), truth.astype(np.float64))
    return _score_classes(forest.predict_proba(X), np.searchsorted(np.sort(forest.classes), truth), forest.classes)


def _score_classes(
    shares: Float[np.ndarray, "rows classes"], rank: Int[np.ndarray, " rows"], classes: Shaped[np.ndarray, " classes"]
) -> ClassScores:
    true = np.argsort(classes, kind="stable")[rank]
    called = shares.argmax(axis=1)
    size = len(classes)
    confusion = np.bincount(true * size + called, minlength=size * size).reshape(size, size)
    present = confusion.sum(axis=1) > 0
    found = np.diag(confusion)[present] / confusion.sum(axis=1)[present]
    own = np.clip(shares[np.arange(len(true)), true], 1e-15, 1.0)
    auc = None
    if size == 2 and present.all():
        auc = _auc(shares[:, 1][true == 1], shares[:, 1][true == 0])
    return ClassScores(
        accuracy=float(np.mean(called == true)),
        balanced_accuracy=float(found.mean()),
        log_loss=float(-np.log(own).mean()),
        auc=auc,
        majority=float(confusion.sum(axis=1).max() / len(true)),
        confusion=confusion,
    )


def _auc(positive: Float[np.ndarray, " positives"], negative: Float[np.ndarray, " negatives"]) -> float:
    """The chance that a row of the second class scores above one of the first; a tie counts half."""
    ordered = np.sort(negative)
    below = np.searchsorted(ordered, positive, side="left")
    not_above = np.searchsorted(ordered, positive, side="right")
    return float((below + not_above).mean() / (2 * len(negative)))


def _score_values(predicted: Float[np.ndarray, "rows ..."], truth: Float[np.ndarray, "rows ..."]) -> ValueScores:
    residuals = truth - predicted
    squared = (residuals**2).mean(axis=0)
    spread = ((truth - truth.mean(axis=0)) ** 2).mean(axis=0)
    # As in scikit-learn: a constant truth is predicted perfectly or not at all.
    constant = np.where(squared == 0, 1.0, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        r2 = np.where(spread > 0, 1 - squared / spread, constant)
    return ValueScores(
        r2=float(r2.mean()),
        rmse=float(np.sqrt(squared).mean()),
        mae=float(np.abs(residuals).mean()),
        spread=float(np.sqrt(spread).mean()),
        residuals=residuals.ravel(),
    )
