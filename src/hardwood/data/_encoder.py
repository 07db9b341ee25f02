"""`TableEncoder`: from any table to the float32 matrix that trees train on, and a forest of it back to raw columns."""

from __future__ import annotations

from typing import Any, Literal, get_args

import numpy as np

from hardwood._typing import Float, Int
from hardwood.data._categories import (
    CategoryCells,
    Task,
    cross_fitted_means,
    draw_folds,
    known_codes,
    one_hot_cells,
    target_matrix,
    target_means,
)
from hardwood.data._columns import Columns, learn_columns, read
from hardwood.data._lower import lower
from hardwood.data._lower_oblique import linear_maps, lower_oblique
from hardwood.data._monotone import Identity, Monotone, check_weights, fit_standard
from hardwood.data._quantile import fit_quantile
from hardwood.data._raise import raise_forest
from hardwood.errors import reject
from hardwood.forest import OBLIQUE, Forest

Numeric = Literal["quantile", "standard", "identity"]


class TableEncoder:
    """Learns on training rows how to turn a table into numbers near a normal distribution, NaN where a cell is missing.

    Numbers, booleans and dates have one encoded column each. A column of few categories has one-hot cells; one of many
    has the mean target of each category, cross-fitted for the rows it is learned from, and passed through the same
    map as numbers. A category that training rows did not have counts as missing. Infinities are the largest numbers.

    `lower` brings a forest on the encoded columns back to the raw ones: for every raw row there can be,
    `lower(forest).apply(raw) == forest.apply(encode_raw(raw))`.

    >>> encoder = TableEncoder()
    >>> encoder.fit_transform([[1.0, "red"], [2.0, "blue"], [4.0, None]]).shape
    (3, 2)
    >>> encoder.encoded_names
    ('x0', 'x1=red')

    Args:
        numeric: "quantile" maps numbers to a normal distribution by rank, "standard" subtracts the mean and divides
            by the deviation, "identity" only rounds to float32.
        n_quantiles: the most knots of a quantile map.
        noise: standard deviations of noise on numbers while their quantile maps are learned, as in the papers.
        categorical_features: "from_dtype", None, or a list of names or positions or a boolean mask; `learn_columns`
            says what they mean.
        one_hot_max_size: columns of up to so many categories are one-hot encoded.
        task: what `y` is, for target encodings.
        smoothing: rows of the overall mean that are mixed into each category's mean.
        n_folds: folds of the cross-fitting.
        seed: of noise and folds; the same seed and rows give the same numbers.
    """

    columns: Columns
    _parts: tuple[Monotone | CategoryCells, ...]

    def __init__(
        self,
        *,
        numeric: Numeric = "quantile",
        n_quantiles: int = 1000,
        noise: float = 0.0,
        categorical_features: Any = "from_dtype",
        one_hot_max_size: int = 10,
        task: Task = "regression",
        smoothing: float = 10.0,
        n_folds: int = 5,
        seed: int = 0,
    ) -> None:
        if numeric not in get_args(Numeric):
            reject("numeric", numeric, "is not known", "choose one of " + ", ".join(map(repr, get_args(Numeric))))
        if task not in get_args(Task):
            reject("task", task, "is not known", "choose 'regression' or 'classification'")
        if n_quantiles < 2:
            reject("n_quantiles", n_quantiles, "must be at least 2", "pass 1000, or fewer for coarser ranks")
        if not 0 <= noise < np.inf:
            reject("noise", noise, "must be a finite number of at least 0", "pass 0.001, or 0 for no noise")
        if one_hot_max_size < 0:
            reject("one_hot_max_size", one_hot_max_size, "must be at least 0", "pass 10, or 0 to encode by target only")
        if not 0 <= smoothing < np.inf:
            reject("smoothing", smoothing, "must be a finite number of at least 0", "pass 10.0, or 0 for plain means")
        if n_folds < 2:
            reject("n_folds", n_folds, "must be at least 2", "pass 5")
        if seed < 0:
            reject("seed", seed, "must be at least 0", "pass seed=0")
        self.numeric, self.n_quantiles, self.noise = numeric, n_quantiles, noise
        self.categorical_features, self.one_hot_max_size = categorical_features, one_hot_max_size
        self.task, self.smoothing, self.n_folds, self.seed = task, smoothing, n_folds, seed

    def fit_transform(self, X: Any, y: Any = None, sample_weight: Any = None) -> Float[np.ndarray, "rows encoded"]:
        """Learn from training rows and return them encoded; `transform` encodes all other rows.

        Rows of weight 0 are encoded, but teach nothing. `y` is needed for columns of more than `one_hot_max_size`
        categories. There, this differs from `transform` on the same rows: no row's own target is in its encoding.
        """
        table = read(X)
        # A table without rows is refused below, in its own words.
        weight = check_weights(sample_weight, len(table)) if len(table) else np.zeros(0)
        rows = None if (weight > 0).all() else np.flatnonzero(weight > 0)
        columns = learn_columns(table, self.categorical_features, rows)
        raw = columns.to_raw(table)
        target = None if y is None else target_matrix(y, self.task, weight)

        parts: list[Monotone | CategoryCells] = []
        encoded: list[Float[np.ndarray, "rows cells"]] = []
        for column, words in enumerate(columns.vocabularies):
            cells = raw[:, column]
            if words is None:
                number = self._fit_numbers(cells, weight, column, self.noise)
                parts.append(number)
                encoded.append(number.transform(cells)[:, None])
            elif len(words) <= self.one_hot_max_size:
                one_hot = one_hot_cells(words)
                parts.append(one_hot)
                encoded.append(one_hot.transform(cells))
            else:
                if target is None:
                    remedy = f"pass y, or one_hot_max_size={len(words)}"
                    shown = f"X[{columns.labels[column]!r}]"
                    reject(shown, list(words[:3]), f"has {len(words)} categories, which are encoded by target", remedy)
                part, made = self._fit_targets(known_codes(cells, len(words)), len(words), *target, weight, column)
                parts.append(part)
                encoded.append(made)
        self.columns, self._parts = columns, tuple(parts)
        return np.ascontiguousarray(np.concatenate(encoded, axis=1))

    def _fit_numbers(
        self, x: Float[np.ndarray, " rows"], weight: Float[np.ndarray, " rows"], column: int, noise: float
    ) -> Monotone:
        if self.numeric == "identity":
            return Identity()
        if self.numeric == "standard":
            return fit_standard(x, weight)
        rng = np.random.default_rng([self.seed, column])
        return fit_quantile(x, weight, n_quantiles=self.n_quantiles, noise=noise, rng=rng)

    def _fit_targets(
        self,
        codes: Int[np.ndarray, " rows"],
        n_words: int,
        targets: Float[np.ndarray, "rows targets"],
        names: tuple[str, ...],
        weight: Float[np.ndarray, " rows"],
        column: int,
    ) -> tuple[CategoryCells, Float[np.ndarray, "rows targets"]]:
        """Return the cells of each category for new rows, and the encoded training rows."""
        counted = weight > 0
        fold = draw_folds(counted, self.n_folds, np.random.default_rng([self.seed, column]))
        known = target_means(codes, n_words, targets, weight, self.smoothing)
        seen = cross_fitted_means(codes, n_words, targets, weight, self.smoothing, fold, self.n_folds)
        # Rows of weight 0 are in no sum, so nothing of theirs has to be left out.
        new = np.where(codes[:, None] < 0, np.nan, known[codes])
        seen = np.where(counted[:, None], seen, new)
        maps = [self._fit_numbers(cells, weight, column, 0.0) for cells in seen.T]
        values = np.stack([each.transform(cells) for each, cells in zip(maps, known.T, strict=True)], axis=1)
        made = np.stack([each.transform(cells) for each, cells in zip(maps, seen.T, strict=True)], axis=1)
        return CategoryCells(values, tuple(f"~y{name}" for name in names)), made

    def transform(self, X: Any) -> Float[np.ndarray, "rows encoded"]:
        """Return the encoded rows of a table that has training's columns."""
        return self.encode_raw(self.to_raw(X))

    def to_raw(self, X: Any) -> Float[np.ndarray, "rows columns"]:
        """Return a table in raw coding, as lowered forests take it; `Columns.to_raw` says what that is."""
        columns, _ = self._fitted()
        return columns.to_raw(X)

    def encode_raw(self, raw: Float[np.ndarray, "rows columns"]) -> Float[np.ndarray, "rows encoded"]:
        """Return the encoded rows of a matrix in raw coding; what is no code of a category counts as missing."""
        columns, parts = self._fitted()
        if raw.shape[1] != len(columns):
            problem = f"has {raw.shape[1]} column(s), but training had {len(columns)}"
            reject("raw", f"an array of shape {raw.shape}", problem, "pass what to_raw returns")
        encoded = [_two_dimensional(part.transform(raw[:, column])) for column, part in enumerate(parts)]
        return np.ascontiguousarray(np.concatenate(encoded, axis=1))

    @property
    def n_encoded(self) -> int:
        """The number of encoded columns."""
        return len(self.encoded_names)

    @property
    def cells_per_column(self) -> tuple[int, ...]:
        """The number of encoded columns of each raw column."""
        return tuple(part.values.shape[1] if isinstance(part, CategoryCells) else 1 for part in self._fitted()[1])

    @property
    def encoded_names(self) -> tuple[str, ...]:
        """The encoded columns' names: `age`; `colour=blue` for a one-hot cell; `city~y` for an encoding by target."""
        columns, parts = self._fitted()
        names: dict[str, None] = {}
        for label, part in zip(columns.labels, parts, strict=True):
            for end in part.names if isinstance(part, CategoryCells) else ("",):
                name = label + end
                while name in names:  # the number 1 and the text "1" look alike
                    name += "'"
                names[name] = None
        return tuple(names)

    def lower(self, forest: Forest) -> Forest:
        """Return the forest on raw columns that is equal to `forest`, which is on encoded ones; `apply` is the same.

        It knows the columns' names, types and categories. It reads data frames by itself; an array of texts has to
        go through `to_raw` first. Oblique splits and linear leaves can be lowered where all columns are encoded by
        "standard" or "identity", and are equal but for rounding.
        """
        if forest.leaf_coef is not None or bool((forest.kind == OBLIQUE).any()):
            return lower_oblique(forest, *self._fitted())
        return lower(forest, *self._fitted())

    @property
    def is_linear(self) -> bool:
        """Whether each column is encoded as `(x - mean) / scale`, so that oblique splits have raw units."""
        return linear_maps(self._fitted()[1]) is not None

    def raise_forest(self, forest: Forest, raw: Float[np.ndarray, "rows columns"], sample_weight: Any = None) -> Forest:
        """Return a forest on encoded columns that sends the rows of `raw` as `forest`, on raw columns, does.

        That is a start for training, such as `HardTrees.from_forest`. A threshold comes to stand halfway between the
        encoded numbers nearest to it, and a set of categories becomes a threshold on one of the column's cells. So rows
        that one encoded number stands for stay together, and a set that no cell can tell is told as well as one can:
        both go where most of the weight belongs. Rows of weight 0 have no say.

        Where the forest has vocabularies of its own, categories are matched by their words.
        """
        columns, parts = self._fitted()
        if raw.shape[1] != len(columns):
            problem = f"has {raw.shape[1]} column(s), but training had {len(columns)}"
            reject("raw", f"an array of shape {raw.shape}", problem, "pass what to_raw returns")
        if len(raw) == 0:
            reject("raw", f"an array of shape {raw.shape}", "has no rows", "pass the rows to be sent the same way")
        return raise_forest(forest, columns, parts, self.encoded_names, raw, check_weights(sample_weight, len(raw)))

    def _fitted(self) -> tuple[Columns, tuple[Monotone | CategoryCells, ...]]:
        if not hasattr(self, "columns"):
            reject("encoder", self, "has learned nothing yet", "call fit_transform on training rows first")
        return self.columns, self._parts


def _two_dimensional(cells: Float[np.ndarray, "rows ..."]) -> Float[np.ndarray, "rows cells"]:
    return cells[:, None] if cells.ndim == 1 else cells
