"""`GetRegressor` and `GetClassifier`: one oblique tree, optimised whole."""

from __future__ import annotations

from typing import Any, Literal

from hardwood.estimators._answers import labels_of, numbers_of
from hardwood.estimators._get_fitting import GetEstimator
from hardwood.estimators._kinds import constructor, keep_parameters
from hardwood.estimators._predicting import ClassPredictor, NumberPredictor
from hardwood.estimators._target import of_classes, of_numbers


class GetRegressor(GetEstimator, NumberPredictor):
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
        polish: train every subtree again on its own rows, level by level, and keep what improves. "auto" stops after
            the level that held-out rows like best. By default with constant leaves only, and as "auto" if something
            else is chosen on held-out rows as well.
        polish_epochs, polish_min_steps: passes over the rows of a subtree for each factor, and steps, at least.
        min_weight: remove split weights smaller than this share of their split's largest (on scaled columns), and train
            the others once more. A split that is left with one weight becomes a plain threshold.
        leaf_shrinkage: how strongly a leaf is drawn to the nodes above it: the weight of rows at which a step down the
            tree counts half. "auto" chooses on held-out rows.
        teacher: "ensemble": learn a mixture of the targets and of what many trees say of rows that they have not seen:
            a random forest, and bagged trees with linear leaves. Held-out rows choose the share of these from 0, 0.5
            and 1. It is of use for noisy targets. The result is one tree all the same.
        scaling: the columns that splits are trained on: "standard", "range" (to [0, 1]) or "balance": standard and less
            correlated. By default "balance", but "standard" with linear leaves, `l1` or `min_weight`.
        validation_fraction: share of rows that are held out where something is "auto".
        validation_splits: how often rows are held out, each time others; mean losses are compared. None: three times in
            tables of fewer than 3,000 rows, else once.
        max_seconds: end the search after this time with the best tree so far.
        categorical_features: "from_dtype": columns of text or of a category type. A list of names or positions, or a
            mask, adds others. None: there are none.
        one_hot_max_size: columns of up to so many categories become a 0/1 column for each, named `colour=blue` in
            the forest; those of more become the mean target of each category, `city~y`.
        prune: drop branches that no row took.
        n_jobs: threads; None takes all that torch may use where there is enough to do, else one.
        device: "auto", "cpu", "cuda" or "cuda:1". "auto" takes a GPU where a step is large enough to gain by it.
        random_state: an integer for the same result every time.
        checkpoint: a file to which the state of the search is written from time to time.
        resume_from: such a file of a search that was cut off; with the same data and parameters it goes on from there.
        callbacks: a list of `train.Callback`s, called when a factor, or a level of subtrees, is done.
        verbose: 1 shows a progress bar.

    Attributes:
        forest_: the tree, a `Forest` on the columns of `columns_`: draw it, prune it, save it.
        columns_: the expanded columns; `columns_.to_raw(X)` is what `forest_` takes. They are those of `X` where it has
            neither categories nor missing cells.
        depth_, l1_, leaf_shrinkage_, polish_levels_, teacher_share_: what was used.
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
        polish: bool | str | None = None,
        polish_epochs: int | None = None,
        polish_min_steps: int | None = None,
        min_weight: float = 0.0,
        leaf_shrinkage: float | str = "auto",
        teacher: str | None = None,
        scaling: str | None = None,
        validation_fraction: float = 1 / 3,
        validation_splits: int | None = None,
        max_seconds: float | None = None,
        categorical_features: Any = "from_dtype",
        one_hot_max_size: int = 10,
        prune: bool = True,
        n_jobs: int | None = None,
        device: Any = "auto",
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


class GetClassifier(GetEstimator, ClassPredictor):
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
        polish: bool | str | None = None,
        polish_epochs: int | None = None,
        polish_min_steps: int | None = None,
        min_weight: float = 0.0,
        leaf_shrinkage: float | str = "auto",
        teacher: str | None = None,
        scaling: str | None = None,
        validation_fraction: float = 1 / 3,
        validation_splits: int | None = None,
        max_seconds: float | None = None,
        categorical_features: Any = "from_dtype",
        one_hot_max_size: int = 10,
        class_weight: Any = None,
        prune: bool = True,
        n_jobs: int | None = None,
        device: Any = "auto",
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
