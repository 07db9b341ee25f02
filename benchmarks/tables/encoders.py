"""How each peer wants its table: numbers for scikit-learn's trees, categories for those that know them.

Everything is learned from training rows alone. A category that they do not have becomes a missing value, or what the
peer's own encoder makes of it.
"""

from __future__ import annotations

import warnings
from typing import Any, Protocol

import numpy as np
from benchmarks.tables.sets import Task

ONE_HOT_UP_TO = 10  # as in GRANDE's paper; above it, target encoding
MISSING_WORD = "(missing)"


class Encoder(Protocol):
    """Turns the frame that all methods get into what one peer can read."""

    def fit_transform(self, X: Any, y: np.ndarray) -> Any: ...

    def transform(self, X: Any) -> Any: ...


def category_columns(X: Any) -> list[str]:
    """Return the names of the columns of categories."""
    return [name for name in X.columns if X[name].dtype == "category"]


def fit_targets(encoder: Any, X: Any, y: np.ndarray) -> Any:
    """Fit an encoder that may hold a target encoder, and transform the rows that it was fitted on."""
    with warnings.catch_warnings():
        # The folds of the target encoder cannot each have a row of a class that is rarer than they are.
        warnings.filterwarnings("ignore", "The least populated class in y", UserWarning)
        return encoder.fit_transform(X, y)


def target_encoder(task: Task, seed: int) -> Any:
    """Make a target encoder whose training rows are encoded by the other four fifths of them."""
    from sklearn.model_selection import KFold, StratifiedKFold
    from sklearn.preprocessing import TargetEncoder

    if task == "regression":
        return TargetEncoder(target_type="continuous", cv=KFold(shuffle=True, random_state=seed))
    return TargetEncoder(target_type=task, cv=StratifiedKFold(shuffle=True, random_state=seed))


class Numbers:
    """Numbers only: one column per category up to ten, target encoding above, missing numbers left to the tree."""

    def __init__(self, task: Task, seed: int) -> None:
        self._task = task
        self._seed = seed

    def fit_transform(self, X: Any, y: np.ndarray) -> np.ndarray:
        from sklearn.compose import ColumnTransformer
        from sklearn.preprocessing import OneHotEncoder

        categorical = category_columns(X)
        few = [name for name in categorical if X[name].nunique() <= ONE_HOT_UP_TO]
        many = [name for name in categorical if name not in few]
        one_hot = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
        parts = [("few", one_hot, few), ("many", target_encoder(self._task, self._seed), many)]
        self._transformer = ColumnTransformer(parts, remainder="passthrough", sparse_threshold=0)
        return fit_targets(self._transformer, _words(X), y)

    def transform(self, X: Any) -> np.ndarray:
        return self._transformer.transform(_words(X))


def _words(X: Any) -> Any:
    """Return the frame with a word in each missing cell of a category: missing is then a category of its own."""
    return X.assign(**{name: X[name].astype(object).fillna(MISSING_WORD) for name in category_columns(X)})


class Words:
    """Categories as text, a missing one as a word of its own."""

    def fit_transform(self, X: Any, y: np.ndarray) -> Any:
        return _words(X)

    def transform(self, X: Any) -> Any:
        return _words(X)


class Categories:
    """Categories as pandas categories, without columns that have no value, and with plain column names.

    Some peers refuse empty columns, or brackets and colons in names. `most` is the largest number of categories that
    the peer takes; columns with more are target encoded.
    """

    def __init__(self, task: Task, seed: int, most: int | None = None) -> None:
        self._task = task
        self._seed = seed
        self._most = most

    def fit_transform(self, X: Any, y: np.ndarray) -> Any:
        self._kept = [name for name in X.columns if X[name].notna().any()]
        counts = {name: X[name].nunique() for name in category_columns(X[self._kept])}
        self._many = [name for name, count in counts.items() if self._most is not None and count > self._most]
        few = [name for name in counts if name not in self._many]
        self._words = {name: X[name].cat.remove_unused_categories().cat.categories for name in few}
        encoded = self._plain(X)
        if self._many:
            self._by_target = target_encoder(self._task, self._seed)
            return self._joined(encoded, fit_targets(self._by_target, _words(X[self._many]), y))
        return encoded

    def transform(self, X: Any) -> Any:
        encoded = self._plain(X)
        return self._joined(encoded, self._by_target.transform(_words(X[self._many]))) if self._many else encoded

    def _plain(self, X: Any) -> Any:
        kept = X[[name for name in self._kept if name not in self._many]]
        # A category keeps its number from training; one that training did not have is missing.
        kept = kept.assign(**{name: kept[name].cat.set_categories(words) for name, words in self._words.items()})
        return kept.set_axis([f"x{number}" for number in range(kept.shape[1])], axis=1)

    @staticmethod
    def _joined(encoded: Any, numbers: np.ndarray) -> Any:
        return encoded.assign(**{f"target{column}": numbers[:, column] for column in range(numbers.shape[1])})
