"""How much worse a forest predicts when a column is shuffled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from hardwood._typing import Float, Int, Shaped
from hardwood.draw._checks import check_labels
from hardwood.errors import reject
from hardwood.explain._checks import check_count, check_rows, check_weights
from hardwood.forest import CATEGORIES, THRESHOLD, Forest

# No prediction counts as less probable than this.
_LEAST = float(np.finfo(np.float64).eps)


class PermutationImportances(NamedTuple):
    """How much the metric rises when a column is shuffled: over the repeats, the mean and the standard deviation."""

    means: Float[np.ndarray, " features"]
    deviations: Float[np.ndarray, " features"]


def permutation_importances(
    forest: Forest,
    X: Any,
    y: Any,
    *,
    metric: Callable[..., float] | None = None,
    n_repeats: int = 5,
    random_state: int | np.random.Generator | None = 0,
    sample_weight: Any = None,
) -> PermutationImportances:
    """Return how much the metric rises when the cells of a column are shuffled among the rows.

    Columns that no tree looks at have exactly 0. Two columns that say the same can both seem to matter little.

    Args:
        forest: what predicts.
        X: rows, as for `Forest.predict`; best some that the forest was not trained on.
        y: their true answers.
        metric: a loss `metric(y, prediction)`, where smaller is better; the prediction is `predict_proba` of a
            classifier, else `predict`. By default the log loss, or the mean squared error over rows and outputs.
        n_repeats: how often each column is shuffled.
        random_state: a seed, a generator to draw from, or None for another result each time.
        sample_weight: the rows' weights in the metric; one of your own gets them as its argument `sample_weight`.
    """
    table = check_rows(forest, X)
    truth = check_labels(forest, y, len(table))
    count = check_count("n_repeats", n_repeats, "pass how often to shuffle each column")
    score = _scorer(forest, truth, metric, sample_weight)
    rng = np.random.default_rng(random_state)
    before = score(table)
    rises = np.zeros((forest.n_features, count))
    shuffled = table.copy()
    for column in _used(forest):
        for repeat in range(count):
            shuffled[:, column] = rng.permutation(table[:, column])
            rises[column, repeat] = score(shuffled) - before
        shuffled[:, column] = table[:, column]
    return PermutationImportances(rises.mean(axis=1), rises.std(axis=1))


def _scorer(
    forest: Forest, truth: Shaped[np.ndarray, "rows ..."], metric: Callable[..., float] | None, sample_weight: Any
) -> Callable[[Float[np.ndarray, "rows features"]], float]:
    """Return the function that scores the predictions for a table."""
    share = check_weights(sample_weight, len(truth))
    predict = forest.predict if forest.classes is None else forest.predict_proba
    if metric is None:
        losses = _squared_errors(truth) if forest.classes is None else _log_losses(forest.classes, truth)
        return lambda table: float(share @ losses(predict(table)))
    own = metric
    weights = {} if sample_weight is None else {"sample_weight": np.asarray(sample_weight)}

    def score(table: Float[np.ndarray, "rows features"]) -> float:
        value = np.asarray(own(truth, predict(table), **weights))
        if value.ndim or value.dtype.kind not in "biuf" or np.isnan(value):
            reject("metric", own, f"returned {value!r}", "let it return one number, smaller for better predictions")
        return float(value)

    return score


def _log_losses(
    classes: Shaped[np.ndarray, " classes"], truth: Shaped[np.ndarray, " rows"]
) -> Callable[[Any], Float[np.ndarray, " rows"]]:
    order = np.argsort(classes, kind="stable")
    true: Int[np.ndarray, " rows"] = order[np.searchsorted(classes[order], truth)]

    def losses(shares: Any) -> Float[np.ndarray, " rows"]:
        return -np.log(np.clip(shares[np.arange(len(true)), true], _LEAST, 1.0))

    return losses


def _squared_errors(truth: Shaped[np.ndarray, "rows ..."]) -> Callable[[Any], Float[np.ndarray, " rows"]]:
    def losses(predicted: Any) -> Float[np.ndarray, " rows"]:
        with np.errstate(over="ignore"):
            return ((predicted - truth) ** 2).reshape(len(truth), -1).mean(axis=1)

    return losses


def _used(forest: Forest) -> list[int]:
    """Return the columns that any split or linear leaf looks at."""
    used = np.zeros(forest.n_features, bool)
    used[forest.feature[(forest.kind == THRESHOLD) | (forest.kind == CATEGORIES)]] = True
    if forest.weight_feature is not None:
        used[forest.weight_feature] = True
    if forest.leaf_coef is not None:
        used |= (forest.leaf_coef != 0).any(axis=(0, 2))
    return np.flatnonzero(used).tolist()
