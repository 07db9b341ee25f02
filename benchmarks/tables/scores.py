"""What is measured of predictions, and which way is better."""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np


class Metric(NamedTuple):
    """How a score is called on a page, and which way is better."""

    title: str
    higher_is_better: bool


CLASSIFICATION = {
    "macro_f1": Metric("Macro F1", True),
    "balanced_accuracy": Metric("Balanced accuracy", True),
    "accuracy": Metric("Accuracy", True),
    "log_loss": Metric("Log loss", False),
    "roc_auc": Metric("ROC AUC", True),
}
REGRESSION = {"r2": Metric("R²", True), "rmse": Metric("RMSE", False), "mae": Metric("MAE", False)}
METRICS = CLASSIFICATION | REGRESSION


def classification_scores(y: np.ndarray, predicted: np.ndarray, probabilities: np.ndarray) -> dict[str, float]:
    """Score class numbers and probabilities. F1 is averaged over the classes that occur in `y` or `predicted`.

    ROC AUC of several classes is the mean, over the classes that can be told apart in `y`, of one against the rest;
    NaN where there is none.
    """
    from sklearn import metrics

    with warnings.catch_warnings():
        # A rare class may be predicted where the test rows have none.
        warnings.filterwarnings("ignore", "y_pred contains classes not in y_true", UserWarning)
        balanced = metrics.balanced_accuracy_score(y, predicted)
    return {
        "macro_f1": float(metrics.f1_score(y, predicted, average="macro", zero_division=0)),
        "balanced_accuracy": float(balanced),
        "accuracy": float(metrics.accuracy_score(y, predicted)),
        "log_loss": _log_loss(y, probabilities),
        "roc_auc": _roc_auc(y, probabilities),
    }


def _log_loss(y: np.ndarray, probabilities: np.ndarray) -> float:
    """Return the mean of -log p of the true class. As in scikit-learn, p is at least the smallest step from 1."""
    of_truth = probabilities[np.arange(len(y)), y].astype(np.float64)
    # Some methods return float32, whose rows do not add up to 1 in float64.
    share = of_truth / probabilities.sum(axis=1, dtype=np.float64)
    return float(-np.log(np.clip(share, np.finfo(np.float64).eps, 1.0)).mean())


def _roc_auc(y: np.ndarray, probabilities: np.ndarray) -> float:
    from sklearn.metrics import roc_auc_score

    n_classes = probabilities.shape[1]
    classes = [1] if n_classes == 2 else range(n_classes)
    told_apart = [k for k in classes if 0 < (y == k).sum() < len(y)]
    areas = [roc_auc_score(y == k, probabilities[:, k]) for k in told_apart]
    return float(np.mean(areas)) if areas else float("nan")


def regression_scores(y: np.ndarray, predicted: np.ndarray) -> dict[str, float]:
    """Score predicted numbers; R2 is NaN where all targets are the same."""
    error = predicted - y
    spread = float(((y - y.mean()) ** 2).sum())
    return {
        "r2": 1.0 - float((error**2).sum()) / spread if spread > 0 else float("nan"),
        "rmse": float(np.sqrt((error**2).mean())),
        "mae": float(np.abs(error).mean()),
    }
