"""What a certificate says, in words: names are made safe to show, as in rules and pictures."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from hardwood._typing import Float

if TYPE_CHECKING:
    from hardwood.forest._forest import Forest

_MOST_COLUMNS = 12


def _label(name: object) -> str:
    # Words come from a room to the right; they are loaded only when something is said.
    from hardwood.draw._label import label

    return label(name)


def target(forest: Forest, output: int) -> str:
    """Name a prediction: the probability of a class, or an output."""
    if forest.classes is not None:
        return f"the probability of {_label(forest.classes[output])}"
    if forest.output_names is not None:
        return _label(forest.output_names[output])
    return "the prediction" if forest.n_outputs == 1 else f"output {output}"


def move(forest: Forest, column: int, first: Any, then: Any) -> str:
    """Say what moves: a column from any number to a larger one, or from what `first` allows to what `then` does."""
    name = _column(forest, column)
    return f"a larger {name}" if first is None else f"{name} from {_allowed(first)} to {_allowed(then)}"


def pair(forest: Forest, rows: Float[np.ndarray, "2 features"], moved: int) -> str:
    """Describe two rows that differ in one column, by the columns that their paths look at."""
    passed = np.unique(forest.decision_path(rows)[0].indices)
    seen = np.unique(forest.feature[passed])
    others = [column for column in seen.tolist() if column not in (-1, moved)]
    text = f"{_column(forest, moved)} from {_cell(forest, moved, rows[0])} to {_cell(forest, moved, rows[1])}"
    parts = [f"{_column(forest, column)} = {_cell(forest, column, rows[0])}" for column in others[:_MOST_COLUMNS]]
    if len(others) > _MOST_COLUMNS:
        parts.append(f"{len(others) - _MOST_COLUMNS} more")
    return f"{text} (with {', '.join(parts)})" if parts else text


def _column(forest: Forest, column: int) -> str:
    return f"x[{column}]" if forest.feature_names is None else _label(forest.feature_names[column])


def _cell(forest: Forest, column: int, row: Float[np.ndarray, " features"]) -> str:
    value = float(row[column])
    if math.isnan(value):
        return "missing"
    vocabulary = forest.categories.get(column)
    return repr(value).removesuffix(".0") if vocabulary is None else _label(vocabulary[int(value)])


def _allowed(said: Any) -> str:
    """Put an interval, a collection of values or one value in words."""
    if isinstance(said, tuple) and len(said) == 2:
        low, high = said
        if low is None:
            return "any number" if high is None else f"at most {high}"
        return f"at least {low}" if high is None else f"between {low} and {high}"
    if isinstance(said, (set, frozenset, list)):
        return " or ".join(sorted("missing" if each is None else _label(each) for each in said))
    return "missing" if said is None else _label(said)
