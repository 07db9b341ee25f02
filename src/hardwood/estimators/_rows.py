"""The rows an estimator learns from: checked, without those that do not count, and split for validation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from hardwood._typing import Float, Int, Shaped
from hardwood.data import TableEncoder, learn_columns, split_rows, take_rows
from hardwood.data._columns import read
from hardwood.data._monotone import check_weights
from hardwood.errors import reject
from hardwood.estimators._target import Target

# Larger tables are hardly ever copies of one batch of rows, and to look for these takes time.
_MOST_COPIES = 10


@dataclass(frozen=True)
class Rows:
    """A table, its target, and how much each row counts."""

    X: Any
    target: Target
    weight: Float[np.ndarray, " rows"]

    def __len__(self) -> int:
        return len(self.weight)

    def take(self, rows: Int[np.ndarray, " some"]) -> Rows:
        """Return some of the rows."""
        return Rows(take_rows(self.X, rows), self.target.take(rows), self.weight[rows])

    def encoded(self, encoder: TableEncoder) -> Float[np.ndarray, "rows encoded"]:
        """Fit an encoder on the rows, and return them as it encodes rows to learn from."""
        signal = self.target.values if self.target.codes is None else self.target.codes
        return encoder.fit_transform(self.X, signal, self.weight)

    @property
    def labels(self) -> Any:
        """What the split into training and validation spreads evenly."""
        return self.target.codes


def draw_seed(random_state: Any) -> int:
    """Return a seed from an integer, or drawn from a `RandomState` or, for None, from the system's entropy."""
    if random_state is None:
        return int(np.random.default_rng().integers(2**31 - 1))
    try:
        return int(check_random_state(random_state).randint(2**31 - 1))
    except ValueError:
        reject("random_state", random_state, "is no seed", "pass an integer from 0 to 2**32 - 1, or None")


def checked(X: Any, y: Shaped[np.ndarray, "..."], sample_weight: Any) -> Float[np.ndarray, " rows"]:
    """Return the weights of rows, after checking that there are rows, columns, and a target for each row."""
    table = read(X)
    n_rows, n_columns = table.shape
    if n_rows == 0:
        problem = f"0 sample(s) (shape={table.shape}) while a minimum of 1 is required"
        reject("X", f"a table of {n_columns} columns", problem, "pass a table with rows")
    if n_columns == 0:
        problem = f"0 feature(s) (shape={table.shape}) while a minimum of 1 is required"
        reject("X", f"a table of {n_rows} rows", problem, "pass a table with columns")
    if y.ndim == 0 or len(y) != n_rows:
        problem = f"Found input variables with inconsistent numbers of samples: [{n_rows}, {len(y) if y.ndim else 0}]"
        reject("y", f"an array of shape {y.shape}", problem, "pass one target for each row of X")
    return check_weights(sample_weight, n_rows)


def that_count(
    X: Any, y: Shaped[np.ndarray, "rows ..."], weight: Float[np.ndarray, " rows"]
) -> tuple[Any, Shaped[np.ndarray, "kept ..."], Float[np.ndarray, " kept"], Int[np.ndarray, " kept"]]:
    """Return the rows of weight above 0, and their numbers."""
    kept = np.flatnonzero(weight > 0)
    if len(kept) == len(weight):
        return X, y, weight, kept
    return take_rows(X, kept), y[kept], weight[kept], kept


def merged(
    X: Any,
    y: Shaped[np.ndarray, "rows ..."],
    weight: Float[np.ndarray, " rows"],
    categorical_features: Any,
    batch_size: Callable[[int], int],
) -> tuple[Any, Shaped[np.ndarray, "kept ..."], Float[np.ndarray, " kept"]]:
    """Return equal rows as one of their summed weight, in an order that depends on nothing but the rows.

    Training on all rows at once then does not depend on how often a row stands there if its weight makes up for it,
    nor on the order of the rows: to the last bit. A table whose different rows are more than a batch is left alone.
    """
    if len(weight) > _MOST_COPIES * batch_size(len(weight)):
        return X, y, weight
    raw = learn_columns(X, categorical_features).to_raw(X)
    raw = np.where(np.isnan(raw), np.nan, raw) + 0.0  # one kind of NaN, and one kind of zero
    answers = [np.unique(column, return_inverse=True)[1].astype(np.float64) for column in y.reshape(len(y), -1).T]
    content = np.ascontiguousarray(np.column_stack([raw, *answers]))
    keys = content.view(np.dtype((np.void, content.dtype.itemsize * content.shape[1]))).reshape(-1)
    _, first, which = np.unique(keys, return_index=True, return_inverse=True)
    if len(first) > batch_size(len(first)):
        return X, y, weight
    return take_rows(X, first), y[first], np.bincount(which, weight).astype(np.float64)


def split(rows: Rows, fraction: float, seed: int) -> tuple[Rows, Rows | None]:
    """Return training rows and validation rows; no validation where there are too few rows for one."""
    training, validation = split_rows(len(rows), fraction, seed, rows.labels)
    if len(validation) == 0:
        return rows, None
    return rows.take(training), rows.take(validation)


def new_encoder(parameters: Any, target: Target, seed: int) -> TableEncoder:
    """Return an encoder for an estimator's parameters and its task."""
    return TableEncoder(
        numeric=parameters.numeric,
        categorical_features=parameters.categorical_features,
        one_hot_max_size=parameters.one_hot_max_size,
        task="regression" if target.codes is None else "classification",
        seed=seed,
    )


def class_weights(
    target: Target,
    class_weight: Any,
    weight: Float[np.ndarray, " rows"],
    counted: Float[np.ndarray, " classes"] | None = None,
) -> Float[np.ndarray, " rows"]:
    """Return the weights of rows, multiplied by those of their classes; `counted` counts rows that came before too."""
    if class_weight is None:
        return weight
    remedy = "pass None, 'balanced', 'sqrt_balanced', or a dict from class label to number"
    codes, classes = target.codes, target.classes
    if codes is None or classes is None:
        if isinstance(class_weight, str) and class_weight == "sqrt_balanced":
            return weight  # the default, which is about classes
        reject("class_weight", class_weight, "needs one class for each row", "pass None, and sample_weight")
    if isinstance(class_weight, str):
        if class_weight not in ("balanced", "sqrt_balanced"):
            reject("class_weight", class_weight, "is not known", remedy)
        counted = target.class_sums(weight) if counted is None else counted
        assert counted is not None
        factor = np.where(counted > 0, counted.sum() / ((counted > 0).sum() * np.maximum(counted, 1e-300)), 1.0)
        if class_weight == "sqrt_balanced":
            factor = np.sqrt(factor)
    elif isinstance(class_weight, dict):
        unknown = [label for label in class_weight if label not in classes.tolist()]
        if unknown:
            reject("class_weight", class_weight, f"{unknown[0]!r} is not one of the classes {classes.tolist()}", remedy)
        try:
            factor = np.array([float(class_weight.get(label, 1.0)) for label in classes.tolist()])
        except (TypeError, ValueError):
            reject("class_weight", class_weight, "holds something that is no number", remedy)
        if not (np.isfinite(factor).all() and (factor >= 0).all() and (factor > 0).any()):
            reject("class_weight", class_weight, "has a number that is negative or not finite", "use numbers from 0 up")
    else:
        reject("class_weight", class_weight, "is not known", remedy)
    weighed = weight * factor[codes]
    if not (weighed > 0).any():
        reject("class_weight", class_weight, "leaves no row with a weight above 0", remedy)
    # Class weights move rows' shares, not their sum: shrinkage counts rows.
    return weighed * (weight.sum() / weighed.sum())
