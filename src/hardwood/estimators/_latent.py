"""`LatentTreeClassifier` and `LatentTreeRegressor`: one oblique tree, its pruning learned, with a predictor on top."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from hardwood._typing import Float, Shaped
from hardwood.estimators._answers import labels_of, numbers_of
from hardwood.estimators._kinds import constructor, keep_parameters
from hardwood.estimators._latent_base import LatentTreeEstimator
from hardwood.estimators._predicting import ClassAnswers, NumberAnswers
from hardwood.estimators._target import of_classes, of_numbers


class LatentTreeClassifier(ClassAnswers, LatentTreeEstimator):
    """A binary tree of linear splits, learned by gradient descent through a program that also prunes it.

    At every node a row goes left where the split function is negative. The program relaxes that: a row near a split
    passes both children in part, and a node that earns less than `penalty` costs is less active, down to not at all.
    Those nodes are gone when training is over. A predictor, linear or with hidden layers, reads how much of a row
    passes each node, and the row itself. With `routing="hard"` rows go one way only.

    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LatentTreeClassifier(max_depth=3, max_iter=100, random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.9)
    True

    Args:
        max_depth: levels of splits, at most 12.
        penalty: lambda of the paper, above 0: more of it makes nodes less active and prunes more. It stands against a
            sum over the rows of a batch.
        predictor: "linear", or "mlp": `n_hidden` layers of `hidden_size` cells with ELU, and dropout.
        sees_rows: whether the predictor reads the encoded row beside the traversals. Without, the answer is a constant
            for every way through the tree.
        split_function: "linear", or "elu": a linear function followed by ELU.
        n_hidden, hidden_size, dropout: of the "mlp".
        routing: "relaxed" answers as training does, "hard" sends each row one way. `gap_` says how far these are apart.
        fine_tune: with "hard", what learns on from hard routing, where the relaxed tree left off: the whole "tree", by
            straight-through gradients, its pruning staying as it is; the "predictor" alone; or "none".
        loss: "cross_entropy", "focal", "poly", a `train.CrossEntropy` or `train.MultiLabel` with options, or a function
            `(raw prediction, target, weight)` that returns one number for each row.
        max_iter: passes over the rows, at most.
        batch_size: rows of a step; "auto" takes 64 to 512, growing with the table. A table that fits into one batch is
            trained as a whole: then equal rows are merged into one of their summed weight.
        learning_rate: of the optimiser.
        optimizer: "qhadam" (Quasi-Hyperbolic Adam), "adam" or "adamw".
        weight_decay: L2 penalty, or AdamW's decay.
        schedule: "plateau" (times `plateau_factor` when the held-out loss has not fallen for `plateau_patience`
            evaluations), "constant", or "cosine" (falls to 0 at `max_iter`).
        plateau_patience, plateau_factor: of "plateau".
        early_stopping: hold rows out, keep the parameters with the lowest loss on them, and stop when it has not
            fallen for `n_iter_no_change` evaluations. Otherwise the last parameters of all `max_iter` passes are kept.
        validation_fraction: share of rows that are held out.
        n_iter_no_change: evaluations to wait. There is one after each pass, but after no fewer than 10 steps.
        max_seconds: stop after this time, at the next evaluation.
        numeric: how numbers are encoded: "quantile" (to a normal distribution, by rank), "standard" or "identity".
        categorical_features: "from_dtype": columns of text or of a category type. A list of names or positions, or a
            mask, adds others. None: there are none.
        one_hot_max_size: columns of up to so many categories are one-hot encoded, others by the targets.
        class_weight: None, "balanced", "sqrt_balanced" (its square root), or a dict from label to weight.
        device: "auto", "cpu", "cuda" or "cuda:1", to train on. "auto" takes a GPU where a step is large enough to gain.
        n_jobs: threads; None takes all that torch may use where a step is large enough, else one.
        random_state: an integer for the same result every time.
        checkpoint: a file to which the state of training is written from time to time.
        resume_from: such a file of a run that was cut off; with the same data and parameters training goes on from it.
        callbacks: a list of `train.Callback`s.
        verbose: 1 shows a progress bar.

    Attributes:
        tree_: the trained tree without its pruned nodes, a `nn.FrozenLatentTree`, which can be saved.
        hard_tree_: the tree for hard routing, after `fine_tune`.
        forest_: hard routing as a `Forest` of oblique splits; not for an "mlp" that sees rows. It is in the units of
            `X` where `numeric` is "standard" or "identity" and all columns are numbers without holes, else on the
            columns that `encode` makes; `forest_rows(X)` is what it takes in either case.
        gap_: the loss of relaxed and of hard routing, and the share of rows to which they give another class.
        active_nodes_: the share of nodes that are not pruned, evaluation by evaluation.
        classes_, history_, n_iter_, best_loss_: labels, losses, passes over the rows, lowest held-out loss.
    """

    @constructor
    def __init__(
        self,
        max_depth: int = 4,
        *,
        penalty: float = 1.0,
        predictor: str = "linear",
        sees_rows: bool = True,
        split_function: str = "linear",
        n_hidden: int = 2,
        hidden_size: int = 64,
        dropout: float = 0.0,
        routing: str = "relaxed",
        fine_tune: str = "tree",
        loss: Any = "cross_entropy",
        max_iter: int = 500,
        batch_size: int | Literal["auto"] = "auto",
        learning_rate: float = 0.01,
        optimizer: str = "qhadam",
        weight_decay: float = 0.0,
        schedule: str = "plateau",
        plateau_patience: int = 10,
        plateau_factor: float = 0.3,
        early_stopping: bool = True,
        validation_fraction: float = 0.2,
        n_iter_no_change: int = 30,
        max_seconds: float | None = None,
        numeric: str = "quantile",
        categorical_features: Any = "from_dtype",
        one_hot_max_size: int = 10,
        class_weight: Any = None,
        device: Any = "auto",
        n_jobs: int | None = None,
        random_state: Any = None,
        checkpoint: Any = None,
        resume_from: Any = None,
        callbacks: Any = None,
        verbose: int = 0,
    ) -> None:
        keep_parameters(self, locals())

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> LatentTreeClassifier:
        """Learn from a table and the class of each row; or a matrix of zeros and ones for several labels a row.

        `X` is a pandas, polars or Arrow table, or an array. Rows of weight 0 teach nothing.
        """
        self._fit_rows(X, labels_of(y), lambda labels, _: of_classes(labels, self.loss), sample_weight)
        return self

    def predict(self, X: Any) -> Shaped[np.ndarray, " rows"] | Shaped[np.ndarray, "rows labels"]:
        """Return the most probable class of each row; the labels as zeros and ones if there are several."""
        answers = self._answers(X)
        if self._target.classes is None:
            return (answers > 0.5).astype(np.int64)
        return self.classes_[answers.argmax(axis=1)]

    def predict_proba(self, X: Any) -> Float[np.ndarray, "rows classes"]:
        """Return the probability of each class, in the order of `classes_`; of each label if there are several."""
        return self._answers(X)


class LatentTreeRegressor(NumberAnswers, LatentTreeEstimator):
    """A binary tree of linear splits for numbers, its pruning learned along with them.

    It is trained as `LatentTreeClassifier` is, whose parameters it has but for `class_weight`.

    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = LatentTreeRegressor(max_depth=3, max_iter=100, random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.4)
    True

    Args:
        loss: "squared_error", "absolute_error", "huber", "quantile" (the median), "poisson", "tweedie", one of the
            classes of `hardwood.train` with options, or a function `(prediction, target, weight)`, in the units of `y`,
            that returns one number for each row.
    """

    @constructor
    def __init__(
        self,
        max_depth: int = 4,
        *,
        penalty: float = 1.0,
        predictor: str = "linear",
        sees_rows: bool = True,
        split_function: str = "linear",
        n_hidden: int = 2,
        hidden_size: int = 64,
        dropout: float = 0.0,
        routing: str = "relaxed",
        fine_tune: str = "tree",
        loss: Any = "squared_error",
        max_iter: int = 500,
        batch_size: int | Literal["auto"] = "auto",
        learning_rate: float = 0.01,
        optimizer: str = "qhadam",
        weight_decay: float = 0.0,
        schedule: str = "plateau",
        plateau_patience: int = 10,
        plateau_factor: float = 0.3,
        early_stopping: bool = True,
        validation_fraction: float = 0.2,
        n_iter_no_change: int = 30,
        max_seconds: float | None = None,
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

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> LatentTreeRegressor:
        """Learn from a table and a number for each row, or a matrix with a column for each output.

        `X` is a pandas, polars or Arrow table, or an array. Rows of weight 0 teach nothing.
        """
        self._fit_rows(X, numbers_of(y), lambda numbers, weight: of_numbers(numbers, self.loss, weight), sample_weight)
        return self

    def predict(self, X: Any) -> Float[np.ndarray, " rows"] | Float[np.ndarray, "rows outputs"]:
        """Return a number for each row, or for each row and output."""
        answers = self._answers(X)
        return answers[:, 0] if self.n_outputs_ == 1 else answers
