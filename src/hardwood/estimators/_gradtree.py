"""`GradTreeClassifier` and `GradTreeRegressor`: one hard, axis-aligned tree learned by gradient descent."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Literal

import numpy as np
import torch

from hardwood._typing import Float
from hardwood.estimators._base import TreeEstimator
from hardwood.estimators._kinds import TreeClassifier, TreeRegressor, constructor, keep_parameters
from hardwood.estimators._rows import Rows, new_encoder
from hardwood.estimators._session import Chosen, Session, Trained
from hardwood.estimators._start import greedy_trees, has_splits, refitted, side_by_side, with_leaves_of
from hardwood.forest import Forest
from hardwood.nn import HardTrees

# The split logit of a node's greedy feature, the others having 0: enough to begin with, not too much to be left.
_STRENGTH = 0.5
# Training has to gain more on the held-out rows than so many times its standard error.
_CERTAINTY = 2.0


class _GradTree(TreeEstimator):
    """Trains restarts side by side, and keeps the one with the lowest validation loss."""

    n_restarts: int
    leaf_shrinkage: float
    tol: float
    improvement_: float | None
    is_greedy_: bool

    _rate_names: ClassVar[tuple[str, ...]] = ("split_logits_rate", "thresholds_rate", "leaf_values_rate")
    _default_rates: ClassVar[Mapping[str, tuple[float, ...]]] = {
        "greedy": (0.01, 0.005, 0.02),
        "random": (0.05, 0.01, 0.05),
    }
    _smallest_batch: ClassVar[int] = 128

    @property
    def _combines(self) -> bool:
        return False

    def _n_trees(self) -> int:
        return self.n_restarts

    def _random_layer(self, n_features: int, rows: Rows, options: dict[str, Any]) -> HardTrees:
        size = (n_features, rows.target.n_outputs, self.n_restarts, self.max_depth)
        return HardTrees(*size, combine="none", init="glorot", **options)

    def _greedy_layer(
        self, x: Float[np.ndarray, "rows features"], rows: Rows, seed: int, options: dict[str, Any]
    ) -> HardTrees:
        forest = side_by_side(greedy_trees(x, rows, self.n_restarts, self.max_depth, seed, self.leaf_shrinkage))
        if not has_splits(forest):
            return with_leaves_of(forest, self._random_layer(x.shape[1], rows, options))
        return self._given_layer(forest, options)

    def _given_layer(self, forest: Forest, options: dict[str, Any]) -> HardTrees:
        return HardTrees.from_forest(forest, depth=self.max_depth, strength=_STRENGTH, combine="none", **options)

    def _chosen(self, trained: Trained, rows: Rows, seed: int) -> Chosen:
        """Return the trained tree if it beats the greedy one on held-out rows, and else a greedy one of all rows.

        Rows are held out to judge training; a tree that gains nothing by it had better see them all.
        """
        session, held_out, best = trained.session, trained.validation, super()._chosen(trained, rows, seed)
        self.improvement_, self.is_greedy_ = None, False
        from_greedy = trained.begun and isinstance(self.init, str) and self.init == "greedy"
        if trained.start is None or held_out is None or not from_greedy or not rows.target.refits:
            return best
        x = session.encoder.transform(trained.training.X)

        def held_out_losses(model: HardTrees, tree: int) -> Float[np.ndarray, " rows"]:
            forest = refitted(model.to_forest([tree]), x, trained.training, self.leaf_shrinkage)
            return _losses(forest, session, held_out)

        share = held_out.weight / held_out.weight.sum()
        # The tree of the finest grain comes first; on tables of few rows the others are too coarse for rare classes.
        start = held_out_losses(trained.start, 0)
        gain = start - held_out_losses(session.model, best.best_tree or 0)
        self.improvement_ = float(share @ gain)
        chance = float(np.sqrt(share**2 @ (gain - self.improvement_) ** 2))
        if self.improvement_ > _CERTAINTY * chance:
            return best
        self.is_greedy_ = True
        encoder = new_encoder(self, rows.target, seed)
        model = self._new_layer(rows.encoded(encoder), rows, encoder, seed, torch.device("cpu"))
        others = [math.inf] * (self.n_restarts - 1)
        return Chosen(replace(session, encoder=encoder, model=model), 0, (float(share @ start), *others))

    def _keep_constant(self, rows: Rows) -> None:
        super()._keep_constant(rows)
        self.improvement_, self.is_greedy_ = None, False

    def _extra_settings(self) -> dict[str, Any]:
        return {"tolerance": self.tol}

    def _settled(self, model: HardTrees, best_tree: int | None, x: Any, rows: Rows | None) -> Forest:
        best = best_tree or 0
        tree = model.to_forest([best])
        if rows is None:
            return tree
        tree = refitted(tree, x, rows, self.leaf_shrinkage)
        with torch.no_grad():
            # Training that goes on begins at the leaves as they are now.
            model.leaf_values[best] = torch.from_numpy(tree.leaf_values.copy()).to(model.leaf_values.dtype)
        return tree


def _losses(forest: Forest, session: Session, rows: Rows) -> Float[np.ndarray, " rows"]:
    """Return the loss of each row under a tree on encoded columns whose leaves hold raw outputs."""
    raw = replace(forest, link="identity", classes=None).predict(session.encoder.transform(rows.X))
    prediction = torch.from_numpy(raw.reshape(len(rows), -1))
    target = session.target.loss.prepare(rows.target.tensor(torch.device("cpu")), prediction.shape[1], prediction.dtype)
    losses: Float[np.ndarray, " rows"] = session.target.loss(prediction, target).numpy()
    return losses


class GradTreeClassifier(_GradTree, TreeClassifier):
    """One hard, axis-aligned decision tree whose splits and leaves are learned together by gradient descent.

    Several trees are trained side by side, by default from greedy trees of different grain; the one with the lowest
    loss on held-out rows is kept. Training from greedy trees has to gain more on these rows than chance would explain:
    otherwise the greedy tree is grown again on all rows, and is the result. Its leaves are then set by all rows, and
    drawn towards the nodes above them. `forest_` splits on the columns of `X` in their own units.

    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = GradTreeClassifier(max_depth=3, random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.9)
    True

    Args:
        max_depth: levels of splits, at most 16. Parameters, and time, double with every level.
        loss: "cross_entropy", "focal", "poly", a `train.CrossEntropy` or `train.MultiLabel` with options, or a function
            `(raw prediction, target, weight)` that returns one number for each row.
        init: "greedy", "random" (the papers' way), or a fitted tree or random forest of scikit-learn, XGBoost,
            LightGBM or hardwood: then all of it is trained on. Trees deeper than `max_depth` are cut there.
        n_restarts: trees that are trained side by side. A given `init` has as many as it has trees.
        max_iter: passes over the rows, at most.
        batch_size: rows of a step; "auto" takes 128 to 1024, growing with the table. A table that fits into one batch
            is trained as a whole: then equal rows are merged into one of their summed weight.
        split_logits_rate, thresholds_rate, leaf_values_rate: learning rates of the choice of features, the thresholds
            and the leaves. None takes 0.01, 0.005 and 0.02, or 0.05, 0.01 and 0.05 after a random start.
        optimizer: "adam" or "adamw".
        weight_decay: Adam's L2 penalty, or AdamW's decay.
        schedule: "constant", "cosine" (falls to 0 at `max_iter`) or "plateau".
        averaging: "none", "ema" over steps, or "checkpoints" over the last evaluations: the parameters that are judged
            and kept.
        early_stopping: hold rows out, keep the parameters with the lowest loss on them, and stop when it has not
            fallen for `n_iter_no_change` evaluations. Otherwise the last parameters of all `max_iter` passes are kept.
        validation_fraction: share of rows that are held out.
        tol: what the loss has to fall by, over these evaluations, for training to go on.
        n_iter_no_change: evaluations to wait. There is one after each pass, but after no fewer than 10 steps and no
            more than 50.
        max_seconds: stop after this time, at the next evaluation.
        selection: how a node's choice of feature passes gradients: "entmax", "softmax", "gumbel" (ST-Gumbel) or
            "annealed" (a mixture of features that hardens while training).
        split: "sigmoid", "softsign" or "entmoid": how the pull of a row on a split falls with its distance.
        temperature: of "gumbel", and where "annealed" begins.
        leaf_shrinkage: how strongly a leaf is drawn to the nodes above it (hierarchical shrinkage): the weight of rows
            at which a step down the tree counts half. 0 takes the plain shares of each leaf.
        prune: drop branches that no row took, and splits that make no difference.
        numeric: how numbers are encoded for training: "quantile" (to a normal distribution, by rank), "standard" or
            "identity". The result is in raw units whatever it is.
        categorical_features: "from_dtype": columns of text or of a category type. A list of names or positions, or a
            mask, adds others. None: there are none.
        one_hot_max_size: columns of up to so many categories are one-hot encoded for training, others by the targets.
            The result splits on sets of categories.
        monotonic_cst: for each column 1 (the probability of the second class never falls), -1 (never rises) or 0; or a
            dict from column name. With two classes only. The final tree keeps it exactly.
        class_weight: "sqrt_balanced", "balanced", None, or a dict from label to weight. "sqrt_balanced" takes the
            square root of the balanced weights: rare classes count more, and probabilities shift towards them.
        warm_start: go on from the parameters of the last `fit`.
        device: "auto", "cpu", "cuda" or "cuda:1". "auto" takes a GPU where a step is large enough to gain by it.
        n_jobs: threads; None takes all that torch may use where a step is large enough, else one.
        random_state: an integer for the same result every time.
        checkpoint: a file to which the state of training is written from time to time.
        resume_from: such a file of a run that was cut off; with the same data and parameters training goes on from it.
        callbacks: a list of `train.Callback`s. `set_callbacks` takes those of scikit-learn 1.9 and later.
        verbose: 1 shows a progress bar.

    Attributes:
        forest_: the tree, a `Forest` on raw columns: draw it, prune it, save it.
        classes_: the labels.
        history_: losses, evaluation by evaluation, with `to_frame()` and `plot()`.
        feature_importances_: how much the answer changes at splits on each column, along the training rows' paths.
        n_iter_: passes over the rows.
        best_loss_: the lowest validation loss.
        improvement_: how much training from a greedy tree lowered the mean loss of the held-out rows, leaves being set
            alike; None where there was nothing to compare.
        is_greedy_: whether that was no more than chance, so that `fit` kept a greedy tree of all rows.
    """

    @constructor
    def __init__(
        self,
        max_depth: int = 8,
        *,
        loss: Any = "cross_entropy",
        init: Any = "greedy",
        n_restarts: int = 4,
        max_iter: int = 1000,
        batch_size: int | Literal["auto"] = "auto",
        split_logits_rate: float | None = None,
        thresholds_rate: float | None = None,
        leaf_values_rate: float | None = None,
        optimizer: str = "adam",
        weight_decay: float = 0.0,
        schedule: str = "constant",
        averaging: str = "none",
        early_stopping: bool = True,
        validation_fraction: float = 0.2,
        n_iter_no_change: int = 25,
        tol: float = 1e-4,
        max_seconds: float | None = None,
        selection: str = "entmax",
        split: str = "sigmoid",
        temperature: float = 1.0,
        leaf_shrinkage: float = 25.0,
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


class GradTreeRegressor(_GradTree, TreeRegressor):
    """One hard, axis-aligned regression tree whose splits and leaves are learned together by gradient descent.

    It is trained as `GradTreeClassifier` is, whose parameters it has but for `class_weight`.

    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = GradTreeRegressor(max_depth=4, random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.4)
    True

    Args:
        loss: "squared_error", "absolute_error", "huber", "quantile" (the median), "poisson", "tweedie", one of the
            classes of `hardwood.train` with options, such as `Quantile(alpha=(0.1, 0.9))`, or a function
            `(prediction, target, weight)`, in the units of `y`, that returns one number for each row.
        monotonic_cst: for each column 1 (the prediction never falls), -1 (never rises) or 0; or a dict from name.
    """

    @constructor
    def __init__(
        self,
        max_depth: int = 8,
        *,
        loss: Any = "squared_error",
        init: Any = "greedy",
        n_restarts: int = 4,
        max_iter: int = 1000,
        batch_size: int | Literal["auto"] = "auto",
        split_logits_rate: float | None = None,
        thresholds_rate: float | None = None,
        leaf_values_rate: float | None = None,
        optimizer: str = "adam",
        weight_decay: float = 0.0,
        schedule: str = "constant",
        averaging: str = "none",
        early_stopping: bool = True,
        validation_fraction: float = 0.2,
        n_iter_no_change: int = 25,
        tol: float = 1e-4,
        max_seconds: float | None = None,
        selection: str = "entmax",
        split: str = "sigmoid",
        temperature: float = 1.0,
        leaf_shrinkage: float = 25.0,
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
