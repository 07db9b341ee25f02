"""`MultimodalClassifier` and `MultimodalRegressor`: images, texts and a table, one network, readable trees."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin

from hardwood._typing import Float, Shaped
from hardwood.estimators._answers import labels_of, numbers_of
from hardwood.estimators._kinds import constructor, keep_parameters
from hardwood.estimators._multimodal import MultimodalEstimator
from hardwood.estimators._target import of_classes, of_numbers


class MultimodalClassifier(ClassifierMixin, MultimodalEstimator):  # type: ignore[misc]
    """Learns classes from a frame whose columns hold image paths, texts, and ordinary cells.

    The ordinary columns go to a GRANDE layer, images and texts to encoders; all are trained together, end to end. The
    trees can be read: `forest_` holds them, on raw columns, and `explain` says what came from where.

    Args:
        branches: "auto" takes columns of image paths for images, columns of long and mostly different texts for texts,
            and leaves the others to the table. Or a list of `ImageBranch` and `TextBranch`, the other columns being the
            table; or a dict from column to "image", "text", "table" or a branch.
        fusion: "concat": trees and embeddings side by side under a linear layer. "gated": likewise, each part with a
            factor that depends on the row. "trees": trees that split on columns and embeddings alike.
        n_estimators: trees.
        max_depth: levels of splits of each tree.
        loss: as for `GrandeClassifier`.
        init: "greedy" starts the trees at a random forest (with fusion="trees" after the warm-up, on the embeddings of
            that time); "random" as in the paper; "auto" is "random" with fusion="trees", else "greedy".
        table_model: "trees"; or, for comparisons, a function `(n_features, n_outputs)` that returns the module that
            takes the trees' place.
        max_iter: passes over the rows, at most.
        batch_size: rows of a step; "auto" takes 16 to 128, growing with the frame.
        tree_rate: learning rate of the trees' splits; thresholds and leaves have theirs in GRANDE's proportions to it.
        encoder_rate: learning rate of encoders; a branch may have its own.
        head_rate: learning rate of projections and linear layers.
        dropout: share of trees that each step leaves out.
        normalization: of embeddings: "running" statistics, which become part of the thresholds, or "none".
        encoder_warmup: passes in which encoders learn under a linear layer, before trees join; "auto" takes a quarter
            of `max_iter`, 15 at most.
        encoder_every: the encoders move in every so manieth step.
        alternate: so many passes in which trees move, then so many in which encoders do; 0 moves all at once.
        early_stopping, validation_fraction, n_iter_no_change: as for `GrandeClassifier`; patience counts passes.
        class_weight: as for `GrandeClassifier`.
        numeric, categorical_features, one_hot_max_size: of the table; as for `GrandeClassifier`.
        device, n_jobs, random_state, checkpoint, resume_from, callbacks, verbose: likewise.

    Attributes:
        network_: the trained `nn.MultimodalTrees`.
        forest_: its trees; with fusion="trees" the whole model, on what `forest_rows` returns.
        branches_, table_columns_: which columns went where.
        classes_: the labels.
        history_, n_iter_, best_loss_: how training went.
    """

    classes_: Shaped[np.ndarray, " classes"]

    @constructor
    def __init__(
        self,
        branches: Any = "auto",
        *,
        fusion: str = "concat",
        n_estimators: int = 128,
        max_depth: int = 5,
        loss: Any = "cross_entropy",
        init: str = "auto",
        table_model: Any = "trees",
        max_iter: int = 60,
        batch_size: int | Literal["auto"] = "auto",
        tree_rate: float = 0.01,
        encoder_rate: float = 0.002,
        head_rate: float = 0.005,
        dropout: float = 0.2,
        normalization: str = "running",
        encoder_warmup: int | Literal["auto"] = "auto",
        encoder_every: int = 1,
        alternate: int = 0,
        early_stopping: bool = True,
        validation_fraction: float = 0.2,
        n_iter_no_change: int = 10,
        class_weight: Any = None,
        numeric: str = "quantile",
        categorical_features: Any = "from_dtype",
        one_hot_max_size: int = 10,
        device: Any = "auto",
        n_jobs: int | None = None,
        random_state: Any = None,
        checkpoint: Any = None,
        resume_from: Any = None,
        callbacks: Any = None,
        verbose: int = 0,
    ) -> None:
        keep_parameters(self, locals())

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> MultimodalClassifier:
        """Learn from a pandas, polars or Arrow frame and the class of each row."""
        self._fit(X, labels_of(y), lambda labels, _: of_classes(labels, self.loss), sample_weight)
        self.__dict__.update(self._described())
        return self

    def predict_proba(self, X: Any) -> Float[np.ndarray, "rows classes"]:
        """Return the probability of each class, in the order of `classes_`; of each label if there are several."""
        answers = self._answers(X)
        if self.target_.classes is None:
            return answers
        if len(self.classes_) == 1:
            return np.ones((len(answers), 1))
        return np.concatenate([1 - answers, answers], axis=1) if answers.shape[1] == 1 else answers

    def predict(self, X: Any) -> Shaped[np.ndarray, " rows"] | Shaped[np.ndarray, "rows labels"]:
        """Return the most probable class of each row; the labels as zeros and ones if there are several."""
        shares = self.predict_proba(X)
        if self.target_.classes is None:
            return (shares > 0.5).astype(np.int64)
        return self.classes_[shares.argmax(axis=1)]

    def _described(self) -> dict[str, Any]:
        classes = self.target_.classes
        return {"classes_": np.arange(self.target_.n_outputs) if classes is None else classes}


class MultimodalRegressor(RegressorMixin, MultimodalEstimator):  # type: ignore[misc]
    """Learns numbers from a frame whose columns hold image paths, texts, and ordinary cells.

    It has the parameters of `MultimodalClassifier` but for `class_weight`; `loss` is as for `GrandeRegressor`.
    """

    @constructor
    def __init__(
        self,
        branches: Any = "auto",
        *,
        fusion: str = "concat",
        n_estimators: int = 128,
        max_depth: int = 5,
        loss: Any = "squared_error",
        init: str = "auto",
        table_model: Any = "trees",
        max_iter: int = 60,
        batch_size: int | Literal["auto"] = "auto",
        tree_rate: float = 0.01,
        encoder_rate: float = 0.002,
        head_rate: float = 0.005,
        dropout: float = 0.2,
        normalization: str = "running",
        encoder_warmup: int | Literal["auto"] = "auto",
        encoder_every: int = 1,
        alternate: int = 0,
        early_stopping: bool = True,
        validation_fraction: float = 0.2,
        n_iter_no_change: int = 10,
        numeric: str = "quantile",
        categorical_features: Any = "from_dtype",
        one_hot_max_size: int = 10,
        device: Any = "auto",
        n_jobs: int | None = None,
        random_state: Any = None,
        checkpoint: Any = None,
        resume_from: Any = None,
        callbacks: Any = None,
        verbose: int = 0,
    ) -> None:
        keep_parameters(self, locals())

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> MultimodalRegressor:
        """Learn from a pandas, polars or Arrow frame and numbers for each row."""
        self._fit(X, numbers_of(y), lambda numbers, weight: of_numbers(numbers, self.loss, weight), sample_weight)
        return self

    def predict(self, X: Any) -> Float[np.ndarray, " rows"] | Float[np.ndarray, "rows outputs"]:
        """Return a number for each row, or for each row and output."""
        answers = self._answers(X)
        return answers[:, 0] if answers.shape[1] == 1 else answers

    def _described(self) -> dict[str, Any]:
        return {}
