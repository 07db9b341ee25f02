"""`ForestEstimator`: what every fitted estimator can tell about its forest, however that was learned."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from hardwood._typing import Float, Int
from hardwood.data import Columns
from hardwood.data._columns import read
from hardwood.errors import reject
from hardwood.estimators._answers import as_array
from hardwood.forest import Forest

if TYPE_CHECKING:
    from hardwood.data import ExpandedColumns
    from hardwood.explain import Explanation, PermutationImportances
else:
    ExpandedColumns = Explanation = PermutationImportances = Any


class ForestEstimator(BaseEstimator):  # type: ignore[misc]
    """Reads a table with the columns of training, and answers with `forest_`."""

    forest_: Forest
    columns_: Columns | ExpandedColumns
    n_features_in_: int

    def _raw(self, X: Any) -> Float[np.ndarray, "rows columns"]:
        """Return a table in raw coding, after checking that it has the columns of training."""
        check_is_fitted(self, "forest_")
        read(X)  # says what is wrong with X in better words
        validate_data(self, X, reset=False, skip_check_array=True)
        return self.columns_.to_raw(X)

    def forest_rows(self, X: Any) -> Float[np.ndarray, "rows columns"]:
        """Return a table as `forest_` takes it: numbers, and categories as their codes."""
        check_is_fitted(self, "forest_")
        return self.columns_.to_raw(X)

    def apply(self, X: Any) -> Int[np.ndarray, "rows trees"]:
        """Return the leaf that each row reaches in each tree, as a node number counted from the tree's root."""
        raw = self._raw(X)
        return self.forest_.apply(raw)

    def decision_path(self, X: Any) -> Any:
        """Return which nodes each row passes; see `Forest.decision_path`."""
        raw = self._raw(X)
        return self.forest_.decision_path(raw)

    def explain(self, X: Any, n_trees: int | None = 3) -> Explanation:
        """Explain the prediction of one row: its path, and the trees that carry it; see `hardwood.explain.row`."""
        from hardwood import explain

        raw = self._raw(X)
        if len(raw) != 1:
            reject("X", f"a table of {len(raw)} rows", "must be one row", "pass X[:1], or X.iloc[[0]] of a frame")
        return explain.row(self.forest_, raw[0], n_trees)

    def permutation_importances(
        self,
        X: Any,
        y: Any,
        *,
        metric: Callable[..., float] | None = None,
        n_repeats: int = 5,
        random_state: Any = 0,
        sample_weight: Any = None,
    ) -> PermutationImportances:
        """Return how much worse predictions get when a column is shuffled; see `hardwood.explain`."""
        from hardwood import explain

        raw = self._raw(X)
        return explain.permutation_importances(
            self.forest_,
            raw,
            as_array(y),
            metric=metric,
            n_repeats=n_repeats,
            random_state=random_state,
            sample_weight=sample_weight,
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        return tags
