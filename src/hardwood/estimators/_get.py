"""`GetRegressor` and `GetClassifier`: one oblique tree, optimised whole."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any, Literal

import numpy as np
import torch
from sklearn.utils.validation import validate_data

from hardwood._typing import Float, Shaped
from hardwood.data import ExpandedColumns, learn_expanded
from hardwood.estimators._answers import labels_of, numbers_of
from hardwood.estimators._device import count_threads, threads
from hardwood.estimators._fitted import all_or_nothing
from hardwood.estimators._get_parameters import PRESETS, check_parameters, depths_of
from hardwood.estimators._kinds import constructor, keep_parameters
from hardwood.estimators._predicting import ClassPredictor, NumberPredictor
from hardwood.estimators._reading import ForestEstimator
from hardwood.estimators._rows import Rows, checked, class_weights, draw_seed, merged, that_count
from hardwood.estimators._target import Target, of_classes, of_numbers
from hardwood.forest import Forest
from hardwood.train._checkpoint import fingerprint

# Shrinkages that "auto" chooses from, for constant and for linear leaves.
_SHRINKAGES: dict[str, tuple[float, ...]] = {
    "constant": (0.0, 1.0, 5.0, 20.0, 80.0),
    "linear": (0.01, 0.1, 1.0, 5.0, 20.0, 80.0),
}
_PENALTIES = (0.0, 1e-5, 1e-4, 1e-3)
_IMPORTANCE_ROWS = 10_000


class _Get(ForestEstimator):
    """Searches for one oblique tree on expanded columns, and keeps it as a `Forest` in their units."""

    max_depth: int | str
    preset: str
    relaxation: str | None
    scale_factors: Any
    n_starts: int | None
    n_greedy: int | None
    keep: float | None
    epochs: int | None
    min_steps: int | None
    batch_size: int | None
    learning_rate: float | None
    skip: float | None
    l1: float | str
    polish: bool | None
    polish_epochs: int | None
    polish_min_steps: int | None
    min_weight: float
    leaf_shrinkage: float | str
    scaling: str | None
    validation_fraction: float
    max_seconds: float | None
    categorical_features: Any
    one_hot_max_size: int
    prune: bool
    n_jobs: int | None
    random_state: Any
    checkpoint: Any
    resume_from: Any
    callbacks: Any
    verbose: int

    # What `fit` leaves behind.
    columns_: ExpandedColumns
    depth_: int
    l1_: float
    leaf_shrinkage_: float
    history_: Any
    n_iter_: int
    best_loss_: float | None
    feature_importances_: Float[np.ndarray, " features"]

    @property
    def _leaf(self) -> Literal["constant", "linear"]:
        return "constant"

    def _fit_rows(
        self,
        X: Any,
        y: Shaped[np.ndarray, "..."],
        make_target: Callable[[Shaped[np.ndarray, "..."], Float[np.ndarray, " rows"]], Target],
        sample_weight: Any,
        class_weight: Any = None,
    ) -> None:
        """Learn from a table, and leave the fitted attributes behind, or after an error what was there before."""
        with all_or_nothing(self):
            check_parameters(self.get_params(deep=False))
            weight = checked(X, y, sample_weight)
            validate_data(self, X, skip_check_array=True)
            seed = draw_seed(self.random_state)
            X, y, weight, _ = that_count(X, y, weight)
            size = self._settings(seed).batch_size
            X, y, weight = merged(X, y, weight, self.categorical_features, lambda rows: size)
            target = make_target(y, weight)
            rows = Rows(X, target, class_weights(target, class_weight, weight))
            self.__dict__.update(self._described(target))
            self._learn(rows, seed)

    def _settings(self, seed: int) -> Any:
        """Return the preset with what the user has set instead."""
        from hardwood.oblique import GetSettings

        given = {**PRESETS[self.preset][self._leaf], "random_state": seed}
        for name in (each.name for each in fields(GetSettings)):
            value = getattr(self, name, None)
            if name not in ("l1", "leaf_shrinkage", "random_state") and value is not None:
                given[name] = value
        if self.scale_factors is not None:
            given["scale_factors"] = tuple((float(low), float(high)) for low, high in self.scale_factors)
        given["n_greedy"] = min(given["n_greedy"], given["n_starts"])
        given["l1"] = 0.0 if isinstance(self.l1, str) else self.l1
        # Linear leaves need some of it to be comparable at all.
        given["leaf_shrinkage"] = 1.0 if isinstance(self.leaf_shrinkage, str) else self.leaf_shrinkage
        return GetSettings(**given)

    def _learn(self, rows: Rows, seed: int) -> None:
        from hardwood.oblique import Run, Task
        from hardwood.oblique._lower import Scaler, lower

        target = rows.target
        task_kind: Any = "regression" if target.codes is None else "classification"
        columns, x = learn_expanded(
            rows.X,
            target.given if target.codes is None else target.codes,
            rows.weight,
            task=task_kind,
            categorical_features=self.categorical_features,
            one_hot_max_size=self.one_hot_max_size,
            seed=seed,
        )
        signal = target.signal
        settings = self._settings(seed)
        scaling: Any = self.scaling or PRESETS[self.preset]["scaling"]
        scaler = Scaler.learn(x, rows.weight, scaling)
        self.columns_ = columns
        self.history_, self.n_iter_, self.best_loss_ = None, 0, None
        self.depth_, self.l1_, self.leaf_shrinkage_ = 0, settings.l1, settings.leaf_shrinkage
        if len(scaler.columns) == 0 or len(x) < 2 or (signal == signal[0]).all():
            self._keep(None, columns.to_raw(rows.X), rows)
            return
        task = Task.of(scaler(x), signal, rows.weight, _leaf_loss(target))
        # A thread trains one start, or some of the subtrees, for a while: an epoch has to be worth it.
        work = len(x) * settings.n_starts * task.x.shape[1] * 10
        tensors = [torch.from_numpy(each) for each in (task.x, task.y, task.weight)]
        identity = self._identity(seed, fingerprint(*tensors))
        with threads(count_threads(self.n_jobs, work)):
            run = Run(
                callbacks=self.callbacks or (),
                verbose=self.verbose,
                max_seconds=self.max_seconds,
                checkpoint=self.checkpoint,
                resume_from=self.resume_from,
                identity=identity,
            )
            try:
                tree = self._search(task, rows, settings, run, seed)
            finally:
                run.close()
            run.write()
        self.history_, self.n_iter_ = run.history, run.epochs
        raw = columns.to_raw(rows.X)
        self._keep(lower(tree, scaler, raw, rows.weight), raw, rows)
        _tell_interrupted(run)

    def _search(self, task: Any, rows: Rows, settings: Any, run: Any, seed: int) -> Any:
        """Return the tree, after depth, penalty and shrinkage are chosen on held-out rows where they are "auto"."""
        from hardwood.data import split_rows
        from hardwood.oblique import choose, search, sparsify

        automatic = "auto" in (self.max_depth, self.l1, self.leaf_shrinkage)
        depth = 1 if self.max_depth == "auto" else int(self.max_depth)
        chosen = None
        shrinkages = _SHRINKAGES[self._leaf]
        if not isinstance(self.leaf_shrinkage, str):
            shrinkages = (self.leaf_shrinkage,)
        if automatic:
            training, held_out = split_rows(len(task.x), self.validation_fraction, seed, rows.labels)
            if len(held_out) and (task.y[training] != task.y[training[0]]).any():
                depths = depths_of(self.max_depth, self.preset, len(training))
                chosen = choose(
                    task.take(training),
                    task.take(held_out),
                    self._leaf,
                    settings,
                    run,
                    depths=depths,
                    penalties=_PENALTIES if self.l1 == "auto" else (settings.l1,),
                    shrinkages=shrinkages,
                    patience=PRESETS[self.preset]["depth_patience"],
                )
                depth = chosen.depth
                settings = replace(settings, l1=chosen.l1)
                self.leaf_shrinkage_, self.best_loss_ = chosen.shrinkage, chosen.loss
        self.depth_, self.l1_ = depth, settings.l1
        if chosen is not None and run.stopped is not None:
            return chosen.tree
        tree, _ = search(task, depth, self._leaf, settings, run, "final")
        if self.min_weight > 0:
            sparsify(tree, task, self.min_weight, settings, run, "final")
        return tree

    def _keep(self, forest: Forest | None, raw: Float[np.ndarray, "rows expanded"], rows: Rows) -> None:
        """Set the leaves from all rows, where the forest sends them, and keep it; None is a single leaf."""
        from hardwood.explain import importances
        from hardwood.forest._leaf_means import leaf_means
        from hardwood.oblique._lower import single_leaf, with_linear_leaves

        target = rows.target
        if forest is None:
            forest = single_leaf(np.zeros(target.n_outputs), raw.shape[1])
        if self._leaf == "linear" and forest.n_leaves > 0 and forest.depth > 0:
            forest = with_linear_leaves(forest, raw, target.signal, rows.weight, self.leaf_shrinkage_)
        else:
            means = leaf_means(forest, raw, target.signal, rows.weight, self.leaf_shrinkage_)
            forest = replace(forest, leaf_values=target.outputs_of(means))
        coef = forest.leaf_coef
        forest = replace(
            forest,
            leaf_values=forest.leaf_values * target.scale + target.shift,
            leaf_coef=None if coef is None else coef * np.broadcast_to(target.scale, target.n_outputs),
            link="softmax" if target.classes is not None and len(target.classes) == 1 else target.link,
            classes=target.classes,
            feature_names=self.columns_.names,
            feature_types=self.columns_.types,
        )
        self.forest_ = forest.prune(raw) if self.prune else forest
        few = slice(None, None, max(1, len(raw) // _IMPORTANCE_ROWS))
        found = importances(self.forest_, raw[few], rows.weight[few])
        source = np.array(self.columns_.source)
        self.feature_importances_ = np.bincount(source, found, minlength=len(self.columns_.columns))

    def _identity(self, seed: int, rows: str) -> dict[str, Any]:
        """Return what must be the same when a search is resumed."""
        free = {"checkpoint", "resume_from", "max_seconds", "callbacks", "verbose", "n_jobs", "random_state", "prune"}
        fixed = {name: repr(value) for name, value in self.get_params(deep=False).items() if name not in free}
        return {**fixed, "seed": seed, "rows": rows}


def _leaf_loss(target: Target) -> Any:
    if target.link == "identity":
        return "squared_error"
    return "cross_entropy" if target.classes is not None else "binary_cross_entropy"


def _tell_interrupted(run: Any) -> None:
    if run.stopped == "interrupted":
        import warnings

        from hardwood.train._errors import TrainingWarning

        message = f"the search was interrupted after {run.epochs} epochs; the best tree so far is kept"
        warnings.warn(message, TrainingWarning, stacklevel=5)


class GetRegressor(_Get, NumberPredictor):
    """One oblique regression tree, all of whose splits are optimised together (GET, and GET-Linear).

    A split asks whether a weighted sum of columns is below a threshold. Splits are trained on a relaxation in which
    each row belongs to several leaves, which is sharpened step by step; leaves are then set from where the hard splits
    send the rows, and every subtree is trained again on its own rows. The result, `forest_`, is in the units of `X`.

    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = GetRegressor(max_depth=2, leaf_shrinkage=5.0, random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.4)
    True

    Args:
        max_depth: levels of splits, at most 16; "auto" tries rising depths on held-out rows and then learns from all.
        leaf: "constant", or "linear": each leaf has a ridge regression on all columns.
        preset: "fast", or "paper": 10 random starts, 3,000 epochs of all rows at once for each of two factors, columns
            scaled to [0, 1], no path skipped, depths from 1 to 12. Each of the parameters that are None here takes the
            preset's value.
        relaxation: "sigmoid" (GET) or "softmin" (ReLU+Argmin); see `hardwood.ops.relaxed_oblique_loss`.
        scale_factors: pairs of numbers, from small to large: each start draws a factor from each range in turn.
        n_starts: trees that are trained side by side.
        n_greedy: how many of these begin at a greedy tree, the others at random.
        keep: share of the starts that go on to the next factor.
        epochs: passes over the rows for each factor.
        min_steps: steps for each factor, at least: small tables are passed over more often.
        batch_size: rows of a step. A table that fits into one batch is trained as a whole: then equal rows are merged
            into one of their summed weight.
        learning_rate: Adam's rate, which falls to 0 along a cosine for each factor.
        skip: paths that a row takes with less than this weight are left out of a step.
        l1: penalty on the split weights of scaled columns; "auto" chooses on held-out rows.
        polish: train every subtree again on its own rows, and keep what improves. By default with constant leaves only.
        polish_epochs, polish_min_steps: passes over the rows of a subtree for each factor, and steps, at least.
        min_weight: remove split weights smaller than this share of their split's largest (on scaled columns), and train
            the others once more. A split that is left with one weight becomes a plain threshold.
        leaf_shrinkage: how strongly a leaf is drawn to the nodes above it: the weight of rows at which a step down the
            tree counts half. "auto" chooses on held-out rows.
        scaling: "standard" or "range" (to [0, 1]): the scaled columns that splits are trained on.
        validation_fraction: share of rows that are held out where something is "auto".
        max_seconds: end the search after this time with the best tree so far.
        categorical_features: "from_dtype": columns of text or of a category type. A list of names or positions, or a
            mask, adds others. None: there are none.
        one_hot_max_size: columns of up to so many categories become a 0/1 column for each, named `colour=blue` in
            the forest; those of more become the mean target of each category, `city~y`.
        prune: drop branches that no row took.
        n_jobs: threads; None takes all that torch may use where there is enough to do, else one.
        random_state: an integer for the same result every time.
        checkpoint: a file to which the state of the search is written from time to time.
        resume_from: such a file of a search that was cut off; with the same data and parameters it goes on from there.
        callbacks: a list of `train.Callback`s, called when a factor, or a level of subtrees, is done.
        verbose: 1 shows a progress bar.

    Attributes:
        forest_: the tree, a `Forest` on the columns of `columns_`: draw it, prune it, save it.
        columns_: the expanded columns; `columns_.to_raw(X)` is what `forest_` takes. They are those of `X` where it has
            neither categories nor missing cells.
        depth_, l1_, leaf_shrinkage_: what was used.
        history_: hard losses, stage by stage, with `to_frame()` and `plot()`.
        feature_importances_: how much the answer changes at splits on each column, along the training rows' paths.
        n_iter_: epochs in all.
        best_loss_: the loss on held-out rows of what was chosen there; None where nothing was.
    """

    leaf: str

    @constructor
    def __init__(
        self,
        max_depth: int | Literal["auto"] = "auto",
        *,
        leaf: str = "constant",
        preset: str = "fast",
        relaxation: str | None = None,
        scale_factors: Any = None,
        n_starts: int | None = None,
        n_greedy: int | None = None,
        keep: float | None = None,
        epochs: int | None = None,
        min_steps: int | None = None,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        skip: float | None = None,
        l1: float | str = 0.0,
        polish: bool | None = None,
        polish_epochs: int | None = None,
        polish_min_steps: int | None = None,
        min_weight: float = 0.0,
        leaf_shrinkage: float | str = "auto",
        scaling: str | None = None,
        validation_fraction: float = 1 / 3,
        max_seconds: float | None = None,
        categorical_features: Any = "from_dtype",
        one_hot_max_size: int = 10,
        prune: bool = True,
        n_jobs: int | None = None,
        random_state: Any = None,
        checkpoint: Any = None,
        resume_from: Any = None,
        callbacks: Any = None,
        verbose: int = 0,
    ) -> None:
        keep_parameters(self, locals())

    @property
    def _leaf(self) -> Literal["constant", "linear"]:
        return "linear" if self.leaf == "linear" else "constant"

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> GetRegressor:
        """Learn from a table and a number for each row, or a matrix with a column for each output.

        `X` is a pandas, polars or Arrow table, or an array; text and category columns, dates, booleans and missing
        cells are taken as they are. Rows of weight 0 teach nothing.
        """
        self._fit_rows(X, numbers_of(y), lambda kept, weight: of_numbers(kept, "squared_error", weight), sample_weight)
        return self


class GetClassifier(_Get, ClassPredictor):
    """One oblique classification tree, all of whose splits are optimised together by the cross-entropy.

    It is trained as `GetRegressor` with constant leaves is, whose parameters it has.

    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = GetClassifier(max_depth=2, leaf_shrinkage=1.0, random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.95)
    True

    Args:
        class_weight: "sqrt_balanced", "balanced", None, or a dict from label to weight.
    """

    class_weight: Any

    @constructor
    def __init__(
        self,
        max_depth: int | Literal["auto"] = "auto",
        *,
        preset: str = "fast",
        relaxation: str | None = None,
        scale_factors: Any = None,
        n_starts: int | None = None,
        n_greedy: int | None = None,
        keep: float | None = None,
        epochs: int | None = None,
        min_steps: int | None = None,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        skip: float | None = None,
        l1: float | str = 0.0,
        polish: bool | None = None,
        polish_epochs: int | None = None,
        polish_min_steps: int | None = None,
        min_weight: float = 0.0,
        leaf_shrinkage: float | str = "auto",
        scaling: str | None = None,
        validation_fraction: float = 1 / 3,
        max_seconds: float | None = None,
        categorical_features: Any = "from_dtype",
        one_hot_max_size: int = 10,
        class_weight: Any = None,
        prune: bool = True,
        n_jobs: int | None = None,
        random_state: Any = None,
        checkpoint: Any = None,
        resume_from: Any = None,
        callbacks: Any = None,
        verbose: int = 0,
    ) -> None:
        keep_parameters(self, locals())

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> GetClassifier:
        """Learn from a table and the class of each row; or a matrix of zeros and ones for several labels a row.

        `X` is a pandas, polars or Arrow table, or an array; text and category columns, dates, booleans and missing
        cells are taken as they are. Rows of weight 0 teach nothing.
        """
        labels = labels_of(y)
        self._fit_rows(X, labels, lambda kept, _: of_classes(kept, "cross_entropy"), sample_weight, self.class_weight)
        return self
