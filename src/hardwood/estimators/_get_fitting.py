"""What GET's estimators share: from a table to the search, and from its tree to a `Forest` in the table's units."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any, Literal

import numpy as np
import torch
from sklearn.utils.validation import validate_data

from hardwood._typing import Float, Int, Shaped
from hardwood.data import ExpandedColumns, learn_expanded
from hardwood.estimators._device import choose_device, count_threads, threads
from hardwood.estimators._fitted import all_or_nothing
from hardwood.estimators._get_parameters import PRESETS, check_parameters, depths_of
from hardwood.estimators._get_teacher import TEACHER_SHARES, lessons
from hardwood.estimators._reading import ForestEstimator
from hardwood.estimators._rows import Rows, checked, class_weights, draw_seed, merged, that_count
from hardwood.estimators._target import Target
from hardwood.forest import Forest
from hardwood.train._checkpoint import fingerprint

# Shrinkages that "auto" chooses from, for constant and for linear leaves.
_SHRINKAGES: dict[str, tuple[float, ...]] = {
    "constant": (0.0, 1.0, 5.0, 20.0, 80.0),
    "linear": (0.01, 0.1, 1.0, 5.0, 20.0, 80.0),
}
_PENALTIES = (0.0, 1e-5, 1e-4, 1e-3)
_IMPORTANCE_ROWS = 10_000
# How many times less work a step needs to be worth a GPU than one whose kernels are launched one by one.
_LAUNCHED_TOGETHER = 25
# Tables of fewer rows are split several times where something is "auto": one held-out part says little.
_FEW_ROWS, _FEW_SPLITS = 3_000, 3


class GetEstimator(ForestEstimator):
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
    polish: bool | str | None
    polish_epochs: int | None
    polish_min_steps: int | None
    min_weight: float
    leaf_shrinkage: float | str
    teacher: str | None
    scaling: str | None
    validation_fraction: float
    validation_splits: int | None
    max_seconds: float | None
    categorical_features: Any
    one_hot_max_size: int
    prune: bool
    n_jobs: int | None
    device: Any
    random_state: Any
    checkpoint: Any
    resume_from: Any
    callbacks: Any
    verbose: int

    # What `fit` leaves behind.
    columns_: ExpandedColumns
    depth_: int
    polish_levels_: int
    teacher_share_: float
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
            unsaid = value is None or (isinstance(value, str) and value == "auto")
            if name not in ("l1", "leaf_shrinkage", "random_state", "device") and not unsaid:
                given[name] = value
        if self.scale_factors is not None:
            given["scale_factors"] = tuple((float(low), float(high)) for low, high in self.scale_factors)
        given["n_greedy"] = min(given["n_greedy"], given["n_starts"])
        given["l1"] = 0.0 if isinstance(self.l1, str) else self.l1
        # Linear leaves need some of it to be comparable at all.
        given["leaf_shrinkage"] = 1.0 if isinstance(self.leaf_shrinkage, str) else self.leaf_shrinkage
        return GetSettings(**given)

    @property
    def _scaling(self) -> Any:
        if self.scaling is not None:
            return self.scaling
        usual = PRESETS[self.preset]["scaling"][self._leaf]
        # Penalties and small weights are those of columns only as long as they are not mixed.
        return "standard" if usual == "balance" and (self.l1 != 0 or self.min_weight > 0) else usual

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
        scaler = Scaler.learn(x, rows.weight, self._scaling)
        self.columns_ = columns
        self.history_, self.n_iter_, self.best_loss_ = None, 0, None
        self.depth_, self.l1_, self.leaf_shrinkage_ = 0, settings.l1, settings.leaf_shrinkage
        self.polish_levels_, self.teacher_share_ = 0, 0.0
        if len(scaler.columns) == 0 or len(x) < 2 or (signal == signal[0]).all():
            self._keep(None, columns.to_raw(rows.X), rows, signal)
            return
        task = Task.of(scaler(x), signal, rows.weight, _leaf_loss(target))
        # On a GPU every row of a step sees every node, in kernels that are launched together.
        deepest = max(depths_of(self.max_depth, self.preset, self._leaf, len(x)))
        step = min(settings.batch_size, len(x)) * settings.n_starts * 2**deepest * _LAUNCHED_TOGETHER
        settings = replace(settings, device=str(choose_device(self.device, step)))
        # A thread trains one start, or some of the subtrees, for a while: an epoch has to be worth it.
        work = len(x) * settings.n_starts * task.x.shape[1] * 10
        tensors = [torch.from_numpy(each) for each in (task.x, task.y, task.weight)]
        identity = self._identity(seed, fingerprint(*tensors), settings.device)
        with threads(count_threads(self.n_jobs, work)):
            run = Run(
                callbacks=self.callbacks or (),
                verbose=self.verbose,
                max_seconds=self.max_seconds,
                checkpoint=self.checkpoint,
                resume_from=self.resume_from,
                identity=identity,
            )

            told: dict[bytes, Any] = {}

            def teach(share: float, some: Int[np.ndarray, " some"] | None) -> Task:
                """Return the task of some rows, or all, with such a share of the teacher's answers in their targets."""
                own = task if some is None else task.take(some)
                if share == 0:
                    return own
                key = b"" if some is None else some.tobytes()
                if key not in told:
                    part = x if some is None else x[some]
                    told[key] = lessons(own, part, settings, run, f"teacher {zlib.crc32(key)}", torch.get_num_threads())
                return Task.of(own.x, (1 - share) * own.y + share * told[key], own.weight, own.leaf_loss)

            try:
                tree, lesson = self._search(task, teach, rows, settings, run, seed)
            finally:
                run.close()
            run.write()
        self.history_, self.n_iter_ = run.history, run.epochs
        raw = columns.to_raw(rows.X)
        taught = signal if self.teacher_share_ == 0 else lesson.y.astype(np.float64)
        self._keep(lower(tree, scaler, raw, rows.weight), raw, rows, taught)
        _tell_interrupted(run)

    def _search(self, task: Any, teach: Callable[..., Any], rows: Rows, settings: Any, run: Any, seed: int) -> Any:
        """Return the tree and its lesson, after what is "auto" was chosen on held-out rows."""
        from hardwood.data import split_rows
        from hardwood.oblique import choose, search, sparsify

        shares = (0.0,) if self.teacher is None else TEACHER_SHARES
        automatic = len(shares) > 1 or "auto" in (self.max_depth, self.l1, self.leaf_shrinkage, self.polish)
        unsaid = PRESETS[self.preset]["early_stop"] if self.polish is None else False
        early_stop = settings.polish and automatic and (unsaid or self.polish == "auto")
        depth = 1 if self.max_depth == "auto" else int(self.max_depth)
        chosen = None
        shrinkages = _SHRINKAGES[self._leaf]
        if not isinstance(self.leaf_shrinkage, str):
            shrinkages = (self.leaf_shrinkage,)
        if automatic:
            count = self.validation_splits
            count = (_FEW_SPLITS if len(task.x) < _FEW_ROWS else 1) if count is None else count
            splits = [split_rows(len(task.x), self.validation_fraction, seed + k, rows.labels) for k in range(count)]
            usable = [
                (training, held_out)
                for training, held_out in splits
                if len(held_out) and (task.y[training] != task.y[training[0]]).any()
            ]
            depths = depths_of(self.max_depth, self.preset, self._leaf, len(usable[0][0])) if usable else ()
            for share in shares if usable else ():
                found = choose(
                    [(teach(share, training), task.take(held_out)) for training, held_out in usable],
                    self._leaf,
                    settings,
                    run,
                    # A teacher's lesson is less noisy, so it bears deeper trees.
                    depths=[each for each in depths if chosen is None or each >= chosen.depth],
                    penalties=_PENALTIES if self.l1 == "auto" else (settings.l1,),
                    shrinkages=shrinkages,
                    patience=PRESETS[self.preset]["depth_patience"][self._leaf],
                    early_stop=early_stop,
                    name=f"teacher {share:g}, " if share > 0 else "",
                )
                if chosen is None or found.loss < chosen.loss:
                    chosen, self.teacher_share_ = found, share
                if run.stopped is not None:
                    break
            if chosen is not None:
                depth = chosen.depth
                settings = replace(settings, l1=chosen.l1, polish_levels=chosen.polish_levels)
                self.leaf_shrinkage_, self.best_loss_ = chosen.shrinkage, chosen.loss
        self.depth_, self.l1_ = depth, settings.l1
        self.polish_levels_ = min(depth, settings.polish_levels) if settings.polish else 0
        lesson = teach(self.teacher_share_, None)
        if chosen is not None and run.stopped is not None:
            return chosen.tree, lesson
        tree, _ = search(lesson, depth, self._leaf, settings, run, "final")
        if self.min_weight > 0:
            sparsify(tree, lesson, self.min_weight, settings, run, "final")
        return tree, lesson

    def _keep(
        self, forest: Forest | None, raw: Float[np.ndarray, "rows expanded"], rows: Rows,
        signal: Float[np.ndarray, "rows signals"],
    ) -> None:  # fmt: skip
        """Set the leaves from all rows, where the forest sends them, and keep it; None is a single leaf."""
        from hardwood.explain import importances
        from hardwood.forest._leaf_means import leaf_means
        from hardwood.oblique._lower import single_leaf, with_linear_leaves

        target = rows.target
        if forest is None:
            forest = single_leaf(np.zeros(target.n_outputs), raw.shape[1])
        if self._leaf == "linear" and forest.n_leaves > 0 and forest.depth > 0:
            forest = with_linear_leaves(forest, raw, signal, rows.weight, self.leaf_shrinkage_)
        else:
            means = leaf_means(forest, raw, signal, rows.weight, self.leaf_shrinkage_)
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

    def _identity(self, seed: int, rows: str, device: str) -> dict[str, Any]:
        """Return what must be the same when a search is resumed."""
        free = {"checkpoint", "resume_from", "max_seconds", "callbacks", "verbose", "n_jobs", "random_state", "prune"}
        free |= {"device"}
        fixed = {name: repr(value) for name, value in self.get_params(deep=False).items() if name not in free}
        return {**fixed, "seed": seed, "rows": rows, "device": device}


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
