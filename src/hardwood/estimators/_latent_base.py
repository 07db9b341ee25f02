"""`LatentTreeEstimator`: from a raw table to a latent tree, and its answers by relaxed or by hard routing."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.special import expit, softmax
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from hardwood._typing import Float, Int, Shaped
from hardwood.data import Columns
from hardwood.data._columns import read
from hardwood.errors import reject
from hardwood.estimators._fitted import all_or_nothing
from hardwood.estimators._latent_training import Cells, Learned, Lesson, batch_size, hard_outputs, learn
from hardwood.estimators._parameters import check_parameters
from hardwood.estimators._rows import Rows, checked, class_weights, draw_seed, merged, new_encoder, split, that_count
from hardwood.estimators._target import Target
from hardwood.forest import Forest
from hardwood.nn import FrozenLatentTree
from hardwood.nn._latent_tree import MOST_DEPTH


class RoutingGap(NamedTuple):
    """How far relaxed and hard routing are apart, on the rows that `fit` was given."""

    relaxed_loss: float
    hard_loss: float
    difference: float  # the share of rows with another class; of numbers the root mean squared difference, in y's units


class LatentTreeEstimator(BaseEstimator):  # type: ignore[misc]
    """What latent trees share, whatever they learn. A subclass says what the target is."""

    max_depth: int
    loss: Any
    batch_size: int | str
    early_stopping: bool
    validation_fraction: float
    routing: str
    numeric: Any
    categorical_features: Any
    one_hot_max_size: int
    class_weight: Any = None
    random_state: Any
    callbacks: Any

    # What `fit` leaves behind.
    tree_: FrozenLatentTree
    hard_tree_: FrozenLatentTree
    forest_: Forest
    columns_: Columns
    gap_: RoutingGap
    active_nodes_: list[float]
    history_: Any
    n_iter_: int
    best_loss_: float | None
    n_features_in_: int
    _cells: Cells
    _target: Target

    def _fit_rows(
        self,
        X: Any,
        y: Shaped[np.ndarray, "..."],
        make_target: Callable[[Shaped[np.ndarray, "..."], Float[np.ndarray, " rows"]], Target],
        sample_weight: Any,
    ) -> None:
        """Learn from a table, and leave the fitted attributes behind, or after an error what was there before."""
        with all_or_nothing(self):
            parameters = self.get_params(deep=False)
            check_parameters(parameters)
            if self.max_depth > MOST_DEPTH:
                reject("max_depth", self.max_depth, f"must be at most {MOST_DEPTH}", "try max_depth=4")
            weight = checked(X, y, sample_weight)
            validate_data(self, X, reset=True, skip_check_array=True)
            seed = draw_seed(self.random_state)
            X, y, weight, _ = that_count(X, y, weight)
            X, y, weight = merged(X, y, weight, self.categorical_features, self._rows_a_step)
            target = make_target(y, weight)
            rows = Rows(X, target, class_weights(target, self.class_weight, weight))
            self._learn(rows, seed, parameters)
            self.__dict__.update(self._described(target))

    def _rows_a_step(self, n_rows: int) -> int:
        return batch_size(self.batch_size, n_rows)

    def _learn(self, rows: Rows, seed: int, parameters: dict[str, Any]) -> None:
        training, validation = split(rows, self.validation_fraction, seed) if self.early_stopping else (rows, None)
        target = rows.target
        encoder = new_encoder(self, target, seed)
        encoded = training.encoded(encoder)
        cells = Cells(encoder, encoded)
        held_out = None if validation is None else _lesson(validation, cells.encode(validation.X))
        lesson = _lesson(training, cells.fill(encoded))
        learned = learn(parameters, target.loss, target.n_outputs, lesson, held_out, seed, self.callbacks or ())
        self._cells, self._target = cells, target.take(np.arange(0))
        self.tree_, self.hard_tree_ = learned.frozen, learned.hard
        self.history_, self.n_iter_ = learned.result.history, learned.result.epochs
        self.best_loss_, self.active_nodes_ = learned.result.best_loss, learned.active
        self.columns_ = encoder.columns
        self._keep_forest(learned, target)
        self.gap_ = self._gap(lesson if held_out is None else _together(lesson, held_out))

    def _keep_forest(self, learned: Learned, target: Target) -> None:
        if not learned.hard.can_lower:
            self.__dict__.pop("forest_", None)
            return
        plain = learned.hard.to_forest(feature_names=self._cells.names, classes=target.classes, link=_link_of(target))
        coef = None if plain.leaf_coef is None else plain.leaf_coef * target.scale
        forest = replace(plain, leaf_values=plain.leaf_values * target.scale + target.shift, leaf_coef=coef)
        self.forest_ = self._cells.encoder.lower(forest) if self._cells.have_raw_units else forest

    def _gap(self, lesson: Lesson) -> RoutingGap:
        relaxed, hard = self.tree_.outputs(lesson.x), hard_outputs(self.hard_tree_, lesson.x)
        prepared = self._target.loss.prepare(lesson.target, relaxed.shape[1], torch.float64)
        share = lesson.weight / lesson.weight.sum()

        def loss_of(outputs: Float[np.ndarray, "rows outputs"]) -> float:
            values = self._target.loss(torch.from_numpy(outputs), prepared).double().numpy()
            return float((values * share).sum() if values.ndim else values)

        one, other = (_linked(each * self._target.scale + self._target.shift, self._target) for each in (relaxed, hard))
        if self._target.classes is not None:
            apart = float((one.argmax(axis=1) != other.argmax(axis=1)).mean())
        else:
            apart = float(np.sqrt(((one - other) ** 2).mean()))
        return RoutingGap(loss_of(relaxed), loss_of(hard), apart)

    @abstractmethod
    def _described(self, target: Target) -> dict[str, Any]:
        """Return the fitted attributes that say what is predicted."""

    # ---------------------------------------------------------------- reading

    def encode(self, X: Any) -> Float[np.ndarray, "rows columns"]:
        """Return a table as the tree reads it: encoded, and without holes."""
        check_is_fitted(self, "tree_")
        read(X)  # says what is wrong with X in better words
        validate_data(self, X, reset=False, skip_check_array=True)
        return self._cells.encode(X)

    def forest_rows(self, X: Any) -> Float[np.ndarray, "rows columns"]:
        """Return a table as `forest_` takes it, without holes: raw numbers if it is in their units, else encoded."""
        encoded = self.encode(X)  # says what is wrong with X
        return self._cells.filled_rows(X) if self._cells.have_raw_units else encoded

    def traversals(self, X: Any) -> Float[np.ndarray, "rows nodes"]:
        """Return z: how much of each row passes each node that is left; `tree_.node_numbers` numbers them."""
        x = self.encode(X)
        return self.tree_.traversals(x)

    def apply(self, X: Any) -> Int[np.ndarray, " rows"]:
        """Return the node at which each row ends under hard routing, numbered breadth-first in the complete tree."""
        x = self.encode(X)
        return self.hard_tree_.node_numbers[self.hard_tree_.ends(x)]

    def _answers(self, X: Any) -> Float[np.ndarray, "rows answers"]:
        """Return the predictions after the link: a column for each class, label or number."""
        check_is_fitted(self, "tree_")
        if self.routing != "hard":
            outputs = self.tree_.outputs(self.encode(X))
        elif hasattr(self, "forest_"):
            return _linked(self.forest_.outputs(self.forest_rows(X)), self._target)
        else:
            outputs = hard_outputs(self.hard_tree_, self.encode(X))
        return _linked(outputs * self._target.scale + self._target.shift, self._target)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        return tags


def _lesson(rows: Rows, x: Float[np.ndarray, "rows columns"]) -> Lesson:
    return Lesson(x, rows.target.tensor(torch.device("cpu")), rows.weight)


def _together(one: Lesson, other: Lesson) -> Lesson:
    return Lesson(
        np.concatenate([one.x, other.x]),
        torch.cat([one.target, other.target]),
        np.concatenate([one.weight, other.weight]),
    )


def _link_of(target: Target) -> Any:
    # With a single class there is nothing to tell apart.
    return "softmax" if target.classes is not None and len(target.classes) == 1 else target.link


def _linked(outputs: Float[np.ndarray, "rows outputs"], target: Target) -> Float[np.ndarray, "rows answers"]:
    link = _link_of(target)
    if link == "softmax":
        return np.asarray(softmax(outputs, axis=1))
    if link == "sigmoid":
        second = expit(outputs)
        return np.concatenate([1 - second, second], axis=1) if target.classes is not None else second
    return np.exp(outputs) if link == "exp" else outputs
