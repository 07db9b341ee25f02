"""`TreeEstimator`: from a table to a trained layer to a `Forest` on raw columns, for every estimator of the house."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import torch
from sklearn.utils.validation import validate_data

from hardwood._typing import Float, Shaped
from hardwood.data import Columns, TableEncoder
from hardwood.errors import reject
from hardwood.estimators._callbacks import CallbackSupportMixin, FallingTemperature, ForwardToSklearn
from hardwood.estimators._device import choose_device, count_threads, threads
from hardwood.estimators._fitted import all_or_nothing
from hardwood.estimators._parameters import check_parameters
from hardwood.estimators._reading import ForestEstimator
from hardwood.estimators._rows import Rows, checked, class_weights, draw_seed, merged, new_encoder, split, that_count
from hardwood.estimators._session import Chosen, Session, Trained, structure_of
from hardwood.estimators._start import given_forest
from hardwood.estimators._target import Target
from hardwood.forest import LEAF, Forest
from hardwood.nn import HardTrees
from hardwood.train import Callback, OnlineTraining, TrainingSettings, fit

# An evaluation takes place after each epoch, but after no fewer and no more steps than these.
_FEWEST_STEPS, _MOST_STEPS = 10, 50
_IMPORTANCE_ROWS = 10_000


class TreeEstimator(CallbackSupportMixin, ForestEstimator):  # type: ignore[misc]
    """What the estimators share. A subclass says where training starts, and which tree or trees are the result."""

    # Parameters that every estimator has; each explains them in its own docstring.
    max_depth: int
    loss: Any
    init: Any
    max_iter: int
    batch_size: int | str
    split_logits_rate: float | None
    thresholds_rate: float | None
    leaf_values_rate: float | None
    optimizer: Any
    weight_decay: float
    schedule: Any
    averaging: Any
    early_stopping: bool
    validation_fraction: float
    n_iter_no_change: int
    max_seconds: float | None
    selection: Any
    split: Any
    temperature: float
    numeric: Any
    categorical_features: Any
    one_hot_max_size: int
    monotonic_cst: Any
    class_weight: Any = None
    prune: bool
    warm_start: bool
    device: Any
    n_jobs: int | None
    random_state: Any
    checkpoint: Any
    resume_from: Any
    callbacks: Any
    verbose: int

    _default_rates: ClassVar[Mapping[str, tuple[float, ...]]]
    _rate_names: ClassVar[tuple[str, ...]]
    _smallest_batch: ClassVar[int]

    # What `fit` leaves behind.
    history_: Any
    n_iter_: int
    best_loss_: float | None
    feature_importances_: Float[np.ndarray, " features"]
    _session: Session | None = None
    _online: OnlineTraining | None = None
    _running_losses: np.ndarray | None = None  # of restarts, by which partial_fit picks one

    # ---------------------------------------------------------------- what subclasses say

    @abstractmethod
    def _n_trees(self) -> int:
        """Return how many trees are trained side by side."""

    @abstractmethod
    def _random_layer(self, n_features: int, rows: Rows, options: dict[str, Any]) -> HardTrees:
        """Return a layer with random parameters."""

    @abstractmethod
    def _greedy_layer(self, x: Float[np.ndarray, "rows features"], rows: Rows, seed: int, options: Any) -> HardTrees:
        """Return a layer that starts at greedy trees."""

    @abstractmethod
    def _given_layer(self, forest: Forest, options: dict[str, Any]) -> HardTrees:
        """Return a layer that starts at a forest on encoded columns."""

    @abstractmethod
    def _settled(self, model: HardTrees, best_tree: int | None, x: Any, rows: Rows | None) -> Forest:
        """Return the trained trees on encoded columns; given all rows, with what can still be learned from them."""

    @property
    def _combines(self) -> bool:
        """Whether the trees of a given model are combined, or are alternatives."""
        return True

    def _chosen(self, trained: Trained, rows: Rows, seed: int) -> Chosen:
        """Return the layer that is the result, and which of its trees, if they are restarts."""
        return Chosen(trained.session, trained.result.best_tree, trained.result.tree_losses)

    def _extra_settings(self) -> dict[str, Any]:
        """Return further entries of `TrainingSettings`."""
        return {}

    def _tree_rows(self, n_rows: int, n_trees: int, seed: int) -> torch.Tensor | None:
        """Return which trees learn from which rows, if not all from all."""
        return None

    # ---------------------------------------------------------------- fitting

    def _fit_rows(
        self,
        X: Any,
        y: Shaped[np.ndarray, "..."],
        make_target: Callable[[Shaped[np.ndarray, "..."], Float[np.ndarray, " rows"]], Target],
        sample_weight: Any,
    ) -> None:
        """Learn from a table, and leave the fitted attributes behind, or after an error what was there before."""
        with all_or_nothing(self):
            self._check_parameters()
            weight = checked(X, y, sample_weight)
            before = self._session if self.warm_start else None
            if before is not None:
                before.check(self.get_params(deep=False))
            validate_data(self, X, reset=before is None, skip_check_array=True)
            seed = draw_seed(self.random_state)
            X, y, weight, _ = that_count(X, y, weight)
            if before is None:
                X, y, weight = merged(X, y, weight, self.categorical_features, self._batch_size)
            target = make_target(y, weight)
            rows = Rows(X, target, class_weights(target, self.class_weight, weight))
            self.__dict__.update(self._described(target))
            if target.classes is not None and len(target.classes) == 1:
                self._keep_constant(rows)
            else:
                self._learn(rows, weight, seed, before)

    def _learn(self, rows: Rows, weight: Float[np.ndarray, " rows"], seed: int, before: Session | None) -> None:
        """Train on checked rows, and keep what came of it; `weight` is without those of classes."""
        training, validation = split(rows, self.validation_fraction, seed) if self.early_stopping else (rows, None)
        trained = self._train(training, validation, seed, before)
        result = trained.result
        chosen = self._chosen(trained, rows, seed)
        session = chosen.session
        forest = self._settled(session.model, chosen.best_tree, session.encoder.transform(rows.X), rows)
        self.history_, self.n_iter_, self.best_loss_ = result.history, result.epochs, result.best_loss
        self._session = replace(
            session, target=session.target.take(np.arange(0)), counted=rows.target.class_sums(weight)
        )
        self._online = None
        self._running_losses = None if chosen.tree_losses is None else np.array(chosen.tree_losses)
        self._keep_forest(forest, session, rows)

    def _train(self, training: Rows, validation: Rows | None, seed: int, before: Session | None) -> Trained:
        """Train a layer, new or from the fit before, and return how it went."""
        target = training.target
        if before is None:
            encoder = new_encoder(self, target, seed)
            x = training.encoded(encoder)
        else:
            encoder = before.encoder
            x = encoder.transform(training.X)
        n_trees = self._n_trees()
        batch = self._batch_size(len(training))
        # One column of outputs weighs about as much as a level of the tree.
        work = min(batch, len(x)) * n_trees * self.max_depth * min(x.shape[1], 50)
        device = choose_device(self.device, work)
        with threads(count_threads(self.n_jobs, work)):
            if before is not None:
                model, base = before.again(target, self.temperature)
                model = model.to(device)
            else:
                model = self._new_layer(x, training, encoder, seed, device)
                base = self._base(target, training.weight)
            session = Session(encoder, model, target, base, structure_of(self.get_params(deep=False)))
            # Restarts are alternatives to where they began.
            start = None if self._combines else copy.deepcopy(model).cpu()
            steps = -(-len(x) // batch)
            settings = self._settings(batch, steps, seed, validation is not None)
            held_out = None
            if validation is not None:
                held_out = (
                    torch.from_numpy(encoder.transform(validation.X)).to(device),
                    validation.target.tensor(device),
                    torch.from_numpy(validation.weight).float().to(device),
                )
            tree_rows = self._tree_rows(len(x), model.n_trees, seed)
            result = fit(
                model,
                torch.from_numpy(x).to(device),
                target.tensor(device),
                loss=target.loss,
                settings=settings,
                validation=held_out,
                sample_weight=torch.from_numpy(training.weight).float().to(device),
                base=None if base is None else base.to(device),
                tree_rows=None if tree_rows is None else tree_rows.to(device),
                callbacks=self._all_callbacks(session, training),
                verbose=self.verbose,
                checkpoint=self.checkpoint,
                resume_from=self.resume_from,
            )
            model.cpu()
        return Trained(result, session, start, before is None, training, validation)

    def _new_layer(
        self, x: Float[np.ndarray, "rows features"], rows: Rows, encoder: TableEncoder, seed: int, device: torch.device
    ) -> HardTrees:
        options: dict[str, Any] = {
            "selection": self.selection,
            "split": self.split,
            "temperature": self.temperature,
            "monotone": self._encoded_directions(encoder, rows.target),
            "generator": torch.Generator().manual_seed(seed),
            "device": device,
        }
        if not isinstance(self.init, str):
            forest = given_forest(self.init, encoder, rows, x, self.max_depth, self._combines)
            return self._given_layer(forest, options)
        if self.init == "greedy":
            return self._greedy_layer(x, rows, seed, options)
        if self.init != "random":
            remedy = "pass 'greedy', 'random', or a fitted tree model to start from"
            reject("init", self.init, "is not known", remedy)
        return self._random_layer(x.shape[1], rows, options)

    def _base(self, target: Target, weight: Float[np.ndarray, " rows"]) -> torch.Tensor | None:
        """Return the constant that an ensemble of random trees starts from; other leaves begin with good values."""
        if not (self._combines and isinstance(self.init, str) and self.init == "random"):
            return None
        return target.loss.initial(target.tensor(torch.device("cpu")), torch.from_numpy(weight)).float()

    def _settings(self, batch: int, steps: int, seed: int, validated: bool) -> TrainingSettings:
        # After a greedy or a given start small steps suffice.
        start = self.init if isinstance(self.init, str) and self.init in self._default_rates else "greedy"
        defaults = dict(zip(self._rate_names, self._default_rates[start], strict=True))
        rates = {
            name: default if getattr(self, name) is None else getattr(self, name) for name, default in defaults.items()
        }
        settings: dict[str, Any] = {
            "max_epochs": self.max_iter,
            "batch_size": batch,
            "learning_rate": rates["split_logits_rate"],
            **rates,
            "optimizer": self.optimizer,
            "weight_decay": self.weight_decay,
            "schedule": self.schedule,
            "averaging": self.averaging,
            "patience": self.n_iter_no_change if validated else None,
            "evaluate_every": min(max(steps, _FEWEST_STEPS), _MOST_STEPS),
            "max_seconds": self.max_seconds,
            "random_state": seed,
            **self._extra_settings(),
        }
        return TrainingSettings(**settings)

    def _all_callbacks(self, session: Session, rows: Rows) -> list[Callback]:
        listeners: list[Callback] = list(self.callbacks or ())
        if self.selection == "annealed":
            listeners.append(FallingTemperature(self.temperature))
        if getattr(self, "_skl_callbacks", None) or hasattr(self, "_parent_callback_ctx"):

            def fitted(best_tree: int | None) -> dict[str, Any]:
                return self._attributes_of(session, rows, best_tree)

            listeners.append(ForwardToSklearn(self, fitted, rows.X, rows.target.given))
        return listeners

    def _attributes_of(self, session: Session, rows: Rows, best_tree: int | None) -> dict[str, Any]:
        """Return the fitted attributes as if training had ended now, with this one of several restarts."""
        names = ("n_features_in_", "feature_names_in_")
        kept = {name: getattr(self, name) for name in names if hasattr(self, name)}
        encoded = self._settled(session.model, best_tree, None, None)
        forest = self._lowered(encoded, session)
        return {**kept, **self._described(rows.target), "forest_": forest, "columns_": session.encoder.columns}

    # ---------------------------------------------------------------- results

    @abstractmethod
    def _described(self, target: Target) -> dict[str, Any]:
        """Return the fitted attributes that say what is predicted."""

    def _keep_constant(self, rows: Rows) -> None:
        """Keep a model that always answers the only class there is."""
        encoder = new_encoder(self, rows.target, 0)
        encoder.fit_transform(rows.X, rows.target.values, rows.weight)
        columns = encoder.columns
        nowhere = np.array([-1])
        leaf = Forest(
            tree_start=np.array([0, 1]), kind=np.array([LEAF]), left=nowhere, right=nowhere, feature=nowhere,
            threshold=np.zeros(1), missing_left=np.zeros(1, bool), leaf_values=np.zeros((1, 1)),
            n_features=len(columns), feature_names=columns.names, feature_types=columns.types,
            categories=columns.categories, classes=rows.target.classes, link="softmax",
        )  # fmt: skip
        self.forest_, self.columns_ = leaf, columns
        self.feature_importances_ = np.zeros(len(columns))
        self.history_, self.n_iter_, self.best_loss_ = None, 0, None
        self._session, self._online, self._running_losses = None, None, None

    def _keep_forest(self, encoded: Forest, session: Session, rows: Rows, all_rows: bool = True) -> None:
        """Lower the trained trees to raw columns, prune them, and keep them; `all_rows`: that trained them."""
        from hardwood.explain import importances

        columns = session.encoder.columns
        forest = self._lowered(encoded, session)
        raw = columns.to_raw(rows.X)
        if self.prune:
            # A branch that no row took may still be one that a constraint is about, or that later rows take.
            forest = forest.prune(raw) if all_rows and self.monotonic_cst is None else forest.prune()
        self.forest_, self.columns_ = forest, columns
        few = slice(None, None, max(1, len(raw) // _IMPORTANCE_ROWS))
        self.feature_importances_ = importances(forest, raw[few], rows.weight[few])

    def _lowered(self, encoded: Forest, session: Session) -> Forest:
        target = session.target
        base = None if session.base is None else session.base.double().numpy() * target.scale
        described = replace(
            encoded,
            leaf_values=encoded.leaf_values * target.scale + target.shift,
            base=base,
            classes=target.classes,
            link=target.link,
        )
        forest = session.encoder.lower(described)
        directions = self._directions(session.encoder.columns)
        return forest if directions is None else forest.make_monotone(directions)

    # ---------------------------------------------------------------- parameters

    def _batch_size(self, n_rows: int) -> int:
        """Return the rows of a step; "auto" grows with the table, to a point."""
        if self.batch_size != "auto":
            return int(self.batch_size)
        return int(min(1024, max(self._smallest_batch, 2 ** int(np.log2(max(1, n_rows / 64))))))

    def _directions(self, columns: Columns) -> list[int] | None:
        """Return the direction of each raw column, or None where there is no constraint."""
        given = self.monotonic_cst
        if given is None:
            return None
        remedy = "pass one of 1, 0, -1 for each column, or a dict from column name to 1 or -1"
        if isinstance(given, Mapping):
            unknown = [name for name in given if name not in columns.labels]
            if unknown:
                reject("monotonic_cst", given, f"{unknown[0]!r} is no column of X", remedy)
            listed = [int(given.get(name, 0)) for name in columns.labels]
        else:
            listed = [int(each) for each in given]
        if len(listed) != len(columns):
            reject("monotonic_cst", given, f"has {len(listed)} entries for {len(columns)} columns", remedy)
        for label, direction, words in zip(columns.labels, listed, columns.vocabularies, strict=True):
            if direction not in (-1, 0, 1):
                reject("monotonic_cst", given, f"has {direction} for {label!r}", remedy)
            if direction and words is not None:
                reject("monotonic_cst", given, f"{label!r} holds categories, which have no order", remedy)
        return listed if any(listed) else None

    def _encoded_directions(self, encoder: TableEncoder, target: Target) -> list[int] | None:
        directions = self._directions(encoder.columns)
        if directions is None:
            return None
        if target.classes is not None and target.n_outputs > 1:
            problem = f"has no meaning for {target.n_outputs} classes"
            reject("monotonic_cst", self.monotonic_cst, problem, "use it with two classes, or numbers")
        widths = encoder.cells_per_column
        return [each for each, width in zip(directions, widths, strict=True) for _ in range(width)]

    def _check_parameters(self) -> None:
        """Refuse parameters that the rooms below would name otherwise, or not at all."""
        check_parameters(self.get_params(deep=False))
