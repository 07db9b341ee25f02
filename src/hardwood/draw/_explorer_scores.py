"""How good a forest is on given rows, as the explorer page draws it: ROC, calibration, confusion, residuals."""

from __future__ import annotations

from typing import Any

import numpy as np

from hardwood._typing import Bool, Float, Shaped
from hardwood.draw._explorer_forest import finite
from hardwood.draw._explorer_rows import class_numbers, even_edges
from hardwood.draw._scores import ClassScores, _auc, _score_values, score
from hardwood.forest import Forest

_CURVE = 160  # points of a ROC curve
_MOST_CURVES = 20  # classes that have one
_CELLS = 10  # of a calibration diagram
_MOST_CONFUSED = 30  # classes of a confusion matrix
_POINTS = 400  # of truth against prediction
_BINS = 40
_HUGE = 1e300


def performance(
    forest: Forest, table: Float[np.ndarray, "rows features"], truth: Shaped[np.ndarray, "rows ..."]
) -> dict[str, Any]:
    """Return scores and what the diagrams show."""
    if forest.classes is None:
        predicted = np.asarray(forest.predict(table), np.float64).reshape(len(table), -1)
        answers = truth.reshape(len(table), -1)
        return {"outputs": [_values(predicted[:, k], answers[:, k]) for k in range(answers.shape[1])]}
    scores = score(forest, table, truth)
    assert isinstance(scores, ClassScores)
    shares = forest.predict_proba(table)
    true = class_numbers(forest, truth)
    assert true is not None
    drawn = [1] if len(forest.classes) == 2 else list(range(min(len(forest.classes), _MOST_CURVES)))
    return {
        "accuracy": scores.accuracy,
        "balanced_accuracy": scores.balanced_accuracy,
        "log_loss": finite(scores.log_loss),
        "majority": scores.majority,
        "confusion": scores.confusion.tolist() if len(forest.classes) <= _MOST_CONFUSED else None,
        "curves": [{"class": k, **_curve(shares[:, k], true == k)} for k in drawn],
    }


def _curve(chance: Float[np.ndarray, " rows"], positive: Bool[np.ndarray, " rows"]) -> dict[str, Any]:
    """Return the ROC curve of one class against the rest, its area, and the calibration of its probability."""
    result: dict[str, Any] = {"auc": None, "roc": None, "calibration": _calibration(chance, positive)}
    if not positive.any() or positive.all() or not np.isfinite(chance).all():
        return result
    order = np.argsort(-chance, kind="stable")
    # Rows with one probability are called positive together, so the curve has a corner after each of these.
    last = np.flatnonzero(np.append(np.diff(chance[order]) != 0, True))
    found = np.cumsum(positive[order])[last] / np.count_nonzero(positive)
    alarms = np.cumsum(~positive[order])[last] / np.count_nonzero(~positive)
    keep = np.unique(np.linspace(0, len(last) - 1, min(len(last), _CURVE)).round().astype(np.int64))
    result["roc"] = [[0.0, 0.0], *np.stack([alarms, found], axis=1)[keep].round(5).tolist()]
    result["auc"] = _auc(chance[positive], chance[~positive])
    return result


def _calibration(
    chance: Float[np.ndarray, " rows"], positive: Bool[np.ndarray, " rows"]
) -> list[tuple[float, float, int]]:
    """Return for each tenth of the scale that is in use: mean probability, share of positives, rows."""
    chance = np.clip(np.nan_to_num(chance), 0.0, 1.0)
    cell = np.minimum((chance * _CELLS).astype(np.int64), _CELLS - 1)
    rows = np.bincount(cell, minlength=_CELLS)
    mean = np.bincount(cell, chance, _CELLS) / np.maximum(rows, 1)
    share = np.bincount(cell, positive, _CELLS) / np.maximum(rows, 1)
    return [(float(mean[k]), float(share[k]), int(rows[k])) for k in np.flatnonzero(rows).tolist()]


def _values(predicted: Float[np.ndarray, " rows"], truth: Float[np.ndarray, " rows"]) -> dict[str, Any]:
    """Return the scores of one output, its residuals, and its mean truth by predicted tenths."""
    scores = _score_values(predicted, truth)
    # Sums and squares of larger numbers are no numbers.
    usable = np.isfinite(scores.residuals) & (np.abs(predicted) < _HUGE) & (np.abs(truth) < _HUGE)
    residuals, predicted, truth = scores.residuals[usable], predicted[usable], truth[usable]
    bins = min(_BINS, max(5, round(len(residuals) ** 0.5)))
    edges = even_edges(float(residuals.min()), float(residuals.max()), bins) if len(residuals) else np.zeros(0)
    counts = np.histogram(residuals, edges)[0] if len(residuals) else np.zeros(0, np.int64)
    order = np.argsort(predicted, kind="stable")
    tenths = [part for part in np.array_split(order, min(_CELLS, len(order))) if len(part)] if len(order) else []
    few = np.unique(np.linspace(0, len(truth) - 1, min(len(truth), _POINTS)).round().astype(np.int64))
    return {
        "r2": finite(scores.r2),
        "rmse": finite(scores.rmse),
        "mae": finite(scores.mae),
        "spread": finite(scores.spread),
        "residuals": {"counts": counts.tolist(), "edges": edges.tolist()},
        "points": [[float(predicted[k]), float(truth[k])] for k in few.tolist()],
        "calibration": [(float(predicted[part].mean()), float(truth[part].mean()), len(part)) for part in tenths],
    }
