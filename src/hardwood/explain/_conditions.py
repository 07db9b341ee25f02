"""`Condition`: what the splits of a path on one subject ask together, and how paths become conditions.

Two splits on one column are one range, category splits are one set, and oblique splits with the same weights are one
range of their weighted sum. What a column can still be after some splits is reckoned as `Forest.prune` does it.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np

from hardwood._typing import Bool, Float
from hardwood.explain._checks import plain
from hardwood.explain._words import PathWords
from hardwood.forest import OBLIQUE, Forest
from hardwood.forest._prune import _anything, _Possible, _sides, _subject

# What is asked of each subject: a node that splits it, and what it can still be.
Asked = dict[Hashable, tuple[int, _Possible]]


@dataclass(frozen=True)
class Condition:
    """What is asked of one column, or of one weighted sum of columns, in raw coding.

    A column with a vocabulary must have one of the `codes`; `low` and `high` are then about numbers that are no code.
    """

    columns: tuple[int, ...]  # one, or those of an oblique split
    names: tuple[str, ...]  # of the columns
    weights: tuple[float, ...] | None  # of an oblique split
    vocabulary: tuple[str | int | float | bool, ...] | None
    codes: frozenset[int]
    low: float  # numbers from here on ...
    high: float | None  # ... and below here; None is up to infinity, included
    missing: bool  # whether a missing value will do
    text: str  # in words

    def holds(self, X: Float[np.ndarray, "rows features"]) -> Bool[np.ndarray, " rows"]:
        """Tell for rows in raw coding whether they fulfil it, exactly as the splits of the tree decide."""
        values, missing = subject_values(X, self.columns, self.weights)
        # A weighted sum that is not a number, infinity minus infinity, goes right at every split: it is not below.
        inside = ~(values < self.low)
        if self.high is not None:
            inside &= values < self.high
        if self.vocabulary is not None:
            known = is_code(values, len(self.vocabulary))
            inside[known] = np.isin(values[known], sorted(self.codes))
        return np.where(missing, self.missing, inside)

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON can hold it; a bound that there is not is None."""
        fields: dict[str, Any] = {"columns": list(self.columns), "names": list(self.names)}
        if self.weights is not None:
            fields["weights"] = list(self.weights)
        if self.vocabulary is not None:
            fields["categories"] = [plain(self.vocabulary[code]) for code in sorted(self.codes)]
        else:
            fields["low"] = None if self.low == -math.inf else plain(self.low)
            fields["high"] = plain(self.high)
        return {**fields, "missing": self.missing, "text": self.text}

    def __str__(self) -> str:
        return self.text


def subject_values(
    X: Float[np.ndarray, "rows features"], columns: tuple[int, ...], weights: tuple[float, ...] | None
) -> tuple[Float[np.ndarray, " rows"], Bool[np.ndarray, " rows"]]:
    """Return each row's cell or weighted sum, added up in the forest's order, and whether it is missing."""
    cells = X[:, list(columns)].astype(np.float64)
    missing = np.isnan(cells).max(axis=1)
    if weights is None:
        return cells[:, 0], missing
    total = np.zeros(len(X))
    with np.errstate(invalid="ignore", over="ignore"):
        for k, weight in enumerate(weights):
            total += weight * cells[:, k]
    return total, missing


def is_code(values: Float[np.ndarray, " rows"], size: int) -> Bool[np.ndarray, " rows"]:
    """Tell which values are codes of a vocabulary of some size."""
    return (values >= 0) & (values < size) & (values == np.floor(values))


def narrow(forest: Forest, asked: Asked, node: int, goes_left: bool) -> Asked:
    """Return what is asked after one more split; what was asked before stays as it is."""
    key = _subject(forest, node)
    first, before = asked.get(key) or (node, _anything(forest, key))
    return {**asked, key: (first, _sides(forest, node, before)[0 if goes_left else 1])}


def path_asks(forest: Forest, leaf: int) -> Asked:
    """Return what the path to a leaf's node asks, in the order of the path."""
    path = []
    node = leaf
    while forest._parent[node] >= 0:
        above = int(forest._parent[node])
        path.append((above, int(forest.left[above]) == node))
        node = above
    asked: Asked = {}
    for node, goes_left in reversed(path):
        asked = narrow(forest, asked, node, goes_left)
    return asked


def conditions(
    words: PathWords, asked: Asked, row: Float[np.ndarray, "1 features"] | None = None
) -> tuple[Condition, ...]:
    """Put what is asked in words, with the values of a row where one is given; leave out what asks nothing."""
    return tuple(
        _condition(words, node, possible, row)
        for key, (node, possible) in asked.items()
        if possible != _anything(words.forest, key)
    )


def _condition(
    words: PathWords, node: int, possible: _Possible, row: Float[np.ndarray, "1 features"] | None
) -> Condition:
    forest = words.forest
    columns, weights = _columns(forest, node)
    vocabulary = forest.categories.get(columns[0]) if weights is None else None
    if row is None:
        text = words.rule(node, possible)
    else:
        values, missing = subject_values(row, columns, weights)
        # What is no code of the vocabulary has no name.
        nameless = vocabulary is not None and not is_code(values, len(vocabulary))[0]
        text = words.reason(node, possible, float(values[0]), bool(missing[0] or nameless))
    names = forest.feature_names
    return Condition(
        columns=columns,
        names=tuple(f"x[{column}]" if names is None else names[column] for column in columns),
        weights=weights,
        vocabulary=vocabulary,
        codes=frozenset(code for code in range(len(vocabulary or ())) if possible.codes >> code & 1),
        low=possible.low,
        high=possible.high,
        missing=possible.missing,
        text=text,
    )


def _columns(forest: Forest, node: int) -> tuple[tuple[int, ...], tuple[float, ...] | None]:
    """Return the columns of a split and, for an oblique one, their weights."""
    if forest.kind[node] != OBLIQUE:
        return (int(forest.feature[node]),), None
    assert forest.weight_start is not None and forest.weight_feature is not None and forest.weight_value is not None
    own = slice(int(forest.weight_start[node]), int(forest.weight_start[node + 1]))
    return tuple(forest.weight_feature[own].tolist()), tuple(forest.weight_value[own].tolist())
