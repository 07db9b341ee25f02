"""`GrandeClassifier` and `GrandeRegressor`: hard trees weighed by the leaves that a row reaches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import numpy as np
import torch

from hardwood._typing import Float
from hardwood.estimators._base import TreeEstimator
from hardwood.estimators._device import count_threads
from hardwood.estimators._kinds import TreeClassifier, TreeRegressor, constructor, keep_parameters
from hardwood.estimators._parameters import is_whole
from hardwood.estimators._rows import Rows
from hardwood.estimators._start import as_ensemble, greedy_forest, has_splits, with_leaves_of
from hardwood.forest import THRESHOLD, Forest
from hardwood.nn import HardTrees
from hardwood.train import draw_tree_rows

_STRENGTH = 1.0
# A share of the columns is a number between these, as in the papers' later experiments.
_FEWEST_FEATURES, _MOST_FEATURES = 10, 50


class _Grande(TreeEstimator):
    """Trains an ensemble as one model."""

    n_estimators: int
    leaf_weights_rate: float | None
    dropout: float
    max_features: float | int | None
    max_samples: float
    bootstrap: bool
    warmup: float

    _rate_names: ClassVar[tuple[str, ...]] = (
        "split_logits_rate", "thresholds_rate", "leaf_values_rate", "leaf_weights_rate",
    )  # fmt: skip
    _default_rates: ClassVar[Mapping[str, tuple[float, ...]]] = {
        "greedy": (0.01, 0.01, 0.01, 0.005),
        "random": (0.01, 0.05, 0.05, 0.001),
    }
    _smallest_batch: ClassVar[int] = 256

    def _n_trees(self) -> int:
        return self.n_estimators

    def _features_per_tree(self, n_features: int) -> int:
        """Return how many encoded columns each tree may split on."""
        if self.max_features is None:
            return n_features
        if is_whole(self.max_features):
            return min(n_features, int(self.max_features))
        share = round(self.max_features * n_features)
        return min(n_features, max(_FEWEST_FEATURES, min(_MOST_FEATURES, share)))

    def _random_layer(self, n_features: int, rows: Rows, options: dict[str, Any]) -> HardTrees:
        size = (n_features, rows.target.n_outputs, self.n_estimators, self.max_depth)
        chosen = self._features_per_tree(n_features)
        return HardTrees(*size, combine="softmax", init="normal", features_per_tree=chosen, **options)

    def _greedy_layer(
        self, x: Float[np.ndarray, "rows features"], rows: Rows, seed: int, options: dict[str, Any]
    ) -> HardTrees:
        jobs = count_threads(self.n_jobs, x.size * self.n_estimators)
        forest = greedy_forest(x, rows, self.n_estimators, self.max_depth, seed, jobs)
        if not has_splits(forest):
            return with_leaves_of(forest, self._random_layer(x.shape[1], rows, options))
        return self._given_layer(forest, options)

    def _given_layer(self, forest: Forest, options: dict[str, Any]) -> HardTrees:
        if forest.combine != "softmax":
            forest = as_ensemble(forest)
        used = max(len(np.unique(tree.feature[tree.kind == THRESHOLD])) for tree in forest)
        chosen = max(used, self._features_per_tree(forest.n_features))
        return HardTrees.from_forest(
            forest, depth=self.max_depth, strength=_STRENGTH, features_per_tree=chosen, **options
        )

    def _settled(self, model: HardTrees, best_tree: int | None, x: Any, rows: Rows | None) -> Forest:
        return model.to_forest()

    def _extra_settings(self) -> dict[str, Any]:
        # One tree cannot be left out of one.
        dropout = self.dropout if self._n_trees() > 1 else 0.0
        return {"betas": (0.9, 0.95), "tree_dropout": dropout, "warmup_epochs": self.warmup}

    def _tree_rows(self, n_rows: int, n_trees: int, seed: int) -> torch.Tensor | None:
        if self.max_samples == 1 and not self.bootstrap:
            return None
        generator = torch.Generator().manual_seed(seed)
        return draw_tree_rows(n_rows, n_trees, self.max_samples, generator, replace=self.bootstrap)


class GrandeClassifier(_Grande, TreeClassifier):
    """An ensemble of hard, axis-aligned trees learned as one model by gradient descent.

    Each leaf has a value and a weight; for each row the softmax of the weights of the leaves it reaches says how much
    each tree counts, so a few trees may carry a prediction. The result, `forest_`, splits on the columns of `X` in
    their own units.

    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = GrandeClassifier(n_estimators=32, max_iter=100, random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.9)
    True

    Args:
        n_estimators: trees of the ensemble. A given `init` has as many as it has trees.
        max_depth: levels of splits of each tree.
        loss: as for `GradTreeClassifier`.
        init: "greedy" starts at a random forest of this size and trains all of it jointly; "random" as in the paper;
            or a fitted model of scikit-learn, XGBoost, LightGBM or hardwood. Trees deeper than `max_depth` are cut.
        max_iter: passes over the rows, at most.
        batch_size: rows of a step; "auto" takes 256 to 1024, growing with the table.
        split_logits_rate, thresholds_rate, leaf_values_rate, leaf_weights_rate: learning rates. None takes 0.01, 0.01,
            0.01 and 0.005, or 0.01, 0.05, 0.05 and 0.001 after a random start.
        warmup: passes over which the rates climb from near 0.
        dropout: share of trees that each step leaves out; the others' weights are taken among themselves.
        max_features: the encoded columns that each tree may split on: a share (then at least 10 and at most 50), a
            number, or None for all. After a greedy or a given start those that a tree splits on are always among them.
        max_samples: share of rows that each tree learns from.
        bootstrap: draw these rows with replacement.
        optimizer, weight_decay, schedule, averaging, early_stopping, validation_fraction, n_iter_no_change,
        max_seconds: as for `GradTreeClassifier`.
        selection, split, temperature, prune, numeric, categorical_features, one_hot_max_size, class_weight: likewise.
        monotonic_cst: as for `GradTreeClassifier`. Leaf weights then do not depend on constrained columns.
        warm_start, device, n_jobs, random_state, checkpoint, resume_from, callbacks, verbose: likewise.

    Attributes:
        forest_: the trees, a `Forest` on raw columns: draw it, prune it, save it.
        classes_: the labels.
        history_: losses, evaluation by evaluation, with `to_frame()` and `plot()`.
        feature_importances_: how much the answer changes at splits on each column, along the training rows' paths.
        n_iter_: passes over the rows.
        best_loss_: the lowest validation loss.
    """

    @constructor
    def __init__(
        self,
        n_estimators: int = 256,
        *,
        max_depth: int = 5,
        loss: Any = "cross_entropy",
        init: Any = "greedy",
        max_iter: int = 250,
        batch_size: int | Literal["auto"] = "auto",
        split_logits_rate: float | None = None,
        thresholds_rate: float | None = None,
        leaf_values_rate: float | None = None,
        leaf_weights_rate: float | None = None,
        warmup: float = 0.0,
        dropout: float = 0.2,
        max_features: float | int | None = 0.8,
        max_samples: float = 1.0,
        bootstrap: bool = False,
        optimizer: str = "adam",
        weight_decay: float = 0.0,
        schedule: str = "constant",
        averaging: str = "none",
        early_stopping: bool = True,
        validation_fraction: float = 0.2,
        n_iter_no_change: int = 25,
        max_seconds: float | None = None,
        selection: str = "entmax",
        split: str = "softsign",
        temperature: float = 1.0,
        prune: bool = True,
        numeric: str = "quantile",
        categorical_features: Any = "from_dtype",
        one_hot_max_size: int = 10,
        monotonic_cst: Any = None,
        class_weight: Any = "sqrt_balanced",
        warm_start: bool = False,
        device: Any = "auto",
        n_jobs: int | None = None,
        random_state: Any = None,
        checkpoint: Any = None,
        resume_from: Any = None,
        callbacks: Any = None,
        verbose: int = 0,
    ) -> None:
        keep_parameters(self, locals())


class GrandeRegressor(_Grande, TreeRegressor):
    """An ensemble of hard, axis-aligned regression trees learned as one model by gradient descent.

    It is trained as `GrandeClassifier` is, whose parameters it has but for `class_weight`.

    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = GrandeRegressor(n_estimators=32, max_iter=50, random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.4)
    True

    Args:
        loss: as for `GradTreeRegressor`.
        monotonic_cst: as for `GradTreeRegressor`.
    """

    @constructor
    def __init__(
        self,
        n_estimators: int = 256,
        *,
        max_depth: int = 5,
        loss: Any = "squared_error",
        init: Any = "greedy",
        max_iter: int = 250,
        batch_size: int | Literal["auto"] = "auto",
        split_logits_rate: float | None = None,
        thresholds_rate: float | None = None,
        leaf_values_rate: float | None = None,
        leaf_weights_rate: float | None = None,
        warmup: float = 0.0,
        dropout: float = 0.2,
        max_features: float | int | None = 0.8,
        max_samples: float = 1.0,
        bootstrap: bool = False,
        optimizer: str = "adam",
        weight_decay: float = 0.0,
        schedule: str = "constant",
        averaging: str = "none",
        early_stopping: bool = True,
        validation_fraction: float = 0.2,
        n_iter_no_change: int = 25,
        max_seconds: float | None = None,
        selection: str = "entmax",
        split: str = "softsign",
        temperature: float = 1.0,
        prune: bool = True,
        numeric: str = "quantile",
        categorical_features: Any = "from_dtype",
        one_hot_max_size: int = 10,
        monotonic_cst: Any = None,
        warm_start: bool = False,
        device: Any = "auto",
        n_jobs: int | None = None,
        random_state: Any = None,
        checkpoint: Any = None,
        resume_from: Any = None,
        callbacks: Any = None,
        verbose: int = 0,
    ) -> None:
        keep_parameters(self, locals())
