"""A forest's splits and leaves in a reader's words: column names, raw units, category and class labels."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from hardwood._typing import Float
from hardwood.draw._label import label
from hardwood.draw._number import distinct, moment, number, percent
from hardwood.forest import CATEGORIES, LEAF, OBLIQUE, THRESHOLD, Forest
from hardwood.forest._combine import apply_link, probabilities
from hardwood.forest._inputs import matrix

_MOST_CLASSES = 4
_DIGITS, _FEW_DIGITS = 6, 4  # of a number in full, and where room is short
_WHOLE = 2.0**53  # below this float64 holds every whole number


class Words:
    """Says what each split of one tree asks and what each leaf answers. Nodes and leaves are numbered as in the forest.

    `limit` is the most characters of a name, and makes lists and numbers short as well; None says everything.
    `exact` writes numbers so that they read back to the same number. `max_weights` is the most terms of a weighted sum
    that are shown, the largest first; `sizes` is what a weight of each column is multiplied by to be compared.
    """

    def __init__(
        self, forest: Forest, tree: int, *, limit: int | None = None, exact: bool = False,
        max_weights: int | None = None, sizes: Float[np.ndarray, " features"] | None = None,
    ) -> None:  # fmt: skip
        self.forest = forest
        self.nodes = range(int(forest.tree_start[tree]), int(forest.tree_start[tree + 1]))
        self.limit = limit
        self.exact = exact
        self.max_weights = 2 if max_weights is None and limit is not None else max_weights
        self.sizes = sizes

    @property
    def _digits(self) -> int:
        return _DIGITS if self.limit is None else _FEW_DIGITS

    @cached_property
    def _thresholds(self) -> dict[tuple[int, float], str]:
        """The thresholds of each column, different ones written differently. (-1: those of oblique splits.)"""
        forest = self.forest
        own = slice(self.nodes.start, self.nodes.stop)
        kind, feature, threshold = forest.kind[own], forest.feature[own], forest.threshold[own]
        split = (kind == THRESHOLD) | (kind == OBLIQUE)
        return {
            (int(column), value): text
            for column in np.unique(feature[split])
            for value, text in distinct(threshold[split & (feature == column)].tolist(), self._digits).items()
        }

    @cached_property
    def _answers(self) -> Float[np.ndarray, "leaves outputs"]:
        return leaf_answers(self.forest)

    @cached_property
    def _class_shares(self) -> Float[np.ndarray, "leaves classes"] | None:
        return leaf_shares(self.forest)

    # ---------------------------------------------------------------- splits

    def column(self, column: int) -> str:
        """Name a column."""
        names = self.forest.feature_names
        return f"x[{column}]" if names is None else label(names[column], self.limit)

    def subject(self, node: int) -> str:
        """Say what a split looks at: a column, or a weighted sum of columns."""
        if self.forest.kind[node] != OBLIQUE:
            return self.column(int(self.forest.feature[node]))
        return self._weighted_sum(*self._entries(node))

    def relation(self, node: int, goes_left: bool) -> str:
        """Say which values of the subject go left, or right; missing values aside."""
        forest = self.forest
        column, threshold = int(forest.feature[node]), float(forest.threshold[node])
        if forest.kind[node] == CATEGORIES:
            assert forest.category_start is not None
            assert forest.category_codes is not None
            own = slice(int(forest.category_start[node]), int(forest.category_start[node + 1]))
            return self._set(column, set(forest.category_codes[own].tolist()), goes_left)
        if column in forest.categories and math.isfinite(threshold):
            return self._set(column, set(range(max(0, math.ceil(threshold)))), goes_left)
        kind = self._type(node)
        if kind == "bool" and 0 < threshold <= 1:
            return "is false" if goes_left else "is true"
        if kind == "int" and abs(threshold) < _WHOLE and not self.exact:
            first_right = math.ceil(threshold)
            return f"<= {first_right - 1}" if goes_left else f">= {first_right}"
        return f"{'<' if goes_left else '>='} {self._threshold(column, threshold, kind)}"

    def missing(self, node: int, goes_left: bool) -> bool:
        """Whether a missing value goes this way."""
        return bool(self.forest.missing_left[node]) == goes_left

    def condition(self, node: int, goes_left: bool) -> str:
        """Say in full what sends a row this way."""
        missing = " or missing" if self.missing(node, goes_left) else ""
        return f"{self.subject(node)} {self.relation(node, goes_left)}{missing}"

    def _threshold(self, column: int, threshold: float, kind: str) -> str:
        if kind == "datetime" and math.isfinite(threshold):
            return moment(threshold)
        return repr(threshold) if self.exact else self._thresholds[column, threshold]

    def _set(self, column: int, left: set[int], goes_left: bool) -> str:
        vocabulary = self.forest.categories[column]
        inside = [code for code in range(len(vocabulary)) if (code in left) == goes_left]
        outside = len(vocabulary) - len(inside)
        word = ""
        if outside < len(inside) and outside and len(inside) > 2:
            inside = [code for code in range(len(vocabulary)) if (code in left) != goes_left]
            word = "not "
        shown = [label(vocabulary[code], self.limit) for code in inside]
        if len(shown) == 1:
            return f"is {word}{shown[0]}"
        if self.limit is not None and len(shown) > 1:
            fitting = int((np.cumsum([len(name) + 2 for name in shown]) <= 1.2 * self.limit).sum())
            if fitting < len(shown):
                shown = [*shown[: max(fitting, 1)], f"{len(shown) - max(fitting, 1)} more"]
        return f"{word}in {{{', '.join(shown)}}}"

    def _weighted_sum(self, columns: Sequence[int], weights: Sequence[float]) -> str:
        order: Sequence[int] = range(len(columns))
        if self.max_weights is not None and len(columns) > self.max_weights:
            sizes = np.ones(self.forest.n_features) if self.sizes is None else self.sizes
            order = sorted(order, key=lambda k: -abs(weights[k]) * sizes[columns[k]])[: self.max_weights]
        text = ""
        for k in order:
            sign = "-" if weights[k] < 0 else "+" if text else ""
            text += f" {sign} " if text else sign
            text += f"{self.plain(abs(weights[k]))}*{self.column(columns[k])}"
        return f"{text} + {len(columns) - len(order)} more" if len(order) < len(columns) else text

    def plain(self, value: float) -> str:
        """Write a number."""
        return repr(value) if self.exact else number(value, self._digits)

    def here(self, node: int, row: Float[np.ndarray, " features"]) -> str:
        """Write what a row has in a split's subject, different from the threshold where it is another number."""
        forest = self.forest
        columns, weights = self._entries(node)
        with np.errstate(invalid="ignore", over="ignore"):
            value = float(sum(weight * row[column] for column, weight in zip(columns, weights, strict=True)))
        vocabulary = forest.categories.get(columns[0]) if forest.kind[node] != OBLIQUE else None
        is_code = vocabulary is not None and value in range(len(vocabulary))
        if np.isnan(row[columns]).any() or (forest.kind[node] == CATEGORIES and not is_code):
            return "missing"
        if vocabulary is not None and not is_code:
            return number(value, self._digits)
        return self.value(node, value, distinct([float(forest.threshold[node]), value], self._digits))

    def _entries(self, node: int) -> tuple[list[int], list[float]]:
        """Return the columns of a split and their weights."""
        forest = self.forest
        if forest.kind[node] != OBLIQUE:
            return [int(forest.feature[node])], [1.0]
        assert forest.weight_start is not None
        assert forest.weight_feature is not None
        assert forest.weight_value is not None
        own = slice(int(forest.weight_start[node]), int(forest.weight_start[node + 1]))
        return forest.weight_feature[own].tolist(), forest.weight_value[own].tolist()

    def _type(self, node: int) -> str:
        column, types = int(self.forest.feature[node]), self.forest.feature_types
        return "float" if types is None or column < 0 else types[column]

    def value(self, node: int, value: float, written: Mapping[float, str]) -> str:
        """Write a value of a split's subject as the column's type has it; `written` are numbers as texts."""
        column, kind = int(self.forest.feature[node]), self._type(node)
        if column in self.forest.categories:
            return label(self.forest.categories[column][int(value)], self.limit)
        if kind == "bool" and value in (0, 1):
            return "true" if value else "false"
        if kind == "int" and abs(value) < _WHOLE and value == math.floor(value):
            return str(int(value))
        if kind == "datetime" and math.isfinite(value):
            return moment(value)
        return "not a number" if math.isnan(value) else written[value]

    # ---------------------------------------------------------------- leaves

    def leaf(self, leaf: int) -> str:
        """Say what a leaf answers: class shares, values, or what it adds to the sum of the trees."""
        forest = self.forest
        if forest.leaf_coef is not None and np.any(forest.leaf_coef[leaf]):
            answer = self._linear(leaf)
        elif self._class_shares is not None:
            answer = self.shares(self._class_shares[leaf])
        else:
            answer = self._values(self._answers[leaf], signed=adds(forest))
        if forest.combine == "softmax" and forest.n_trees > 1:
            assert forest.leaf_weights is not None
            answer += f", weight {self.plain(float(forest.leaf_weights[leaf]))}"
        return answer

    def outcome(self, output: int) -> str:
        """Name an output: a class where each output stands for one, else the output's own name."""
        forest = self.forest
        if forest.classes is not None and len(forest.classes) == forest.n_outputs:
            return self.class_name(output)
        if forest.output_names is not None:
            return label(forest.output_names[output], self.limit)
        return "" if forest.n_outputs == 1 else f"y[{output}]"

    def lead(self, output: int) -> str:
        """Return what stands before a number of an output: its name, if it has one."""
        name = self.outcome(output)
        return f"{name}: " if name else ""

    def class_name(self, index: int) -> str:
        """Name a class; a label that is not a text is told from the numbers around it."""
        classes = self.forest.classes
        assert classes is not None
        name = label(classes[index], self.limit)
        return name if classes.dtype.kind == "U" else f"class {name}"

    def shares(self, shares: Float[np.ndarray, " classes"]) -> str:
        """Write class shares, the largest first; where there are many classes, the smaller ones together."""
        order = np.argsort(-shares, kind="stable")
        write = repr if self.exact else percent
        parts = [f"{self.class_name(int(k))} {write(float(shares[k]))}" for k in order if shares[k] > 0]
        if self.exact or len(parts) <= _MOST_CLASSES:
            return ", ".join(parts) or f"{self.class_name(0)} 0%"
        rest = float(shares[order[_MOST_CLASSES - 1 :]].sum())
        return ", ".join([*parts[: _MOST_CLASSES - 1], f"{len(parts) - _MOST_CLASSES + 1} others {percent(rest)}"])

    def _values(self, values: Float[np.ndarray, " outputs"], signed: bool) -> str:
        parts = []
        for k, value in enumerate(values.tolist()):
            sign = "+" if signed and value >= 0 else ""
            parts.append(f"{self.lead(k)}{sign}{self.plain(value)}")
        return ", ".join(parts)

    def _linear(self, leaf: int) -> str:
        """Write a linear leaf as a formula for each output, before the link."""
        forest = self.forest
        assert forest.leaf_coef is not None
        formulas = []
        for output in range(forest.n_outputs):
            constant = float(forest.leaf_values[leaf, output])
            if forest.base is not None and not adds(forest):
                constant += float(forest.base[output])
            coef = forest.leaf_coef[leaf, :, output]
            used = np.flatnonzero(coef)
            formula = self.plain(constant)
            if len(used):
                terms = self._weighted_sum(used.tolist(), coef[used].tolist())
                formula += f" - {terms[1:]}" if terms.startswith("-") else f" + {terms}"
            formulas.append(f"{self.lead(output)}{formula}")
        text = ", ".join(formulas)
        return text if forest.link == "identity" or adds(forest) else f"{forest.link}({text})"


def column_sizes(forest: Forest, X: Any) -> Float[np.ndarray, " features"] | None:
    """Return the standard deviation of each column over some rows, by which weights of different units compare."""
    if X is None or (forest.weight_value is None and forest.leaf_coef is None):
        return None
    rows = matrix(forest, X).astype(np.float64)
    if len(rows) == 0:
        return None
    known = np.isfinite(rows)
    counts = np.maximum(known.sum(axis=0), 1)
    filled = np.where(known, rows, 0.0)
    # Squares of large numbers overflow.
    peak = np.maximum(np.abs(filled).max(axis=0), 1e-300)
    parts = filled / peak
    centred = np.where(known, parts - parts.sum(axis=0) / counts, 0.0)
    return np.sqrt((centred**2).sum(axis=0) / counts) * peak


def adds(forest: Forest) -> bool:
    """Whether a leaf is only a summand of the answer, because trees are summed and there are several."""
    return forest.combine == "sum" and forest.n_trees > 1


def leaf_answers(forest: Forest) -> Float[np.ndarray, "leaves outputs"]:
    """Return what each leaf's tree would answer alone, after the link; where trees are summed, what the leaf adds."""
    if adds(forest):
        return forest.leaf_values
    return apply_link(forest.link, _outputs_alone(forest))


def leaf_shares(forest: Forest) -> Float[np.ndarray, "leaves classes"] | None:
    """Return the class shares of each leaf, where a leaf has any: not in regression, sums of trees, linear leaves."""
    if forest.classes is None or adds(forest) or forest.leaf_coef is not None:
        return None
    return probabilities(forest, _outputs_alone(forest))


def _outputs_alone(forest: Forest) -> Float[np.ndarray, "leaves outputs"]:
    return forest.leaf_values if forest.base is None else forest.leaf_values + forest.base


def leaf_numbers(forest: Forest) -> dict[int, int]:
    """Map each leaf's node to its row in `leaf_values`."""
    return {int(node): leaf for leaf, node in enumerate(np.flatnonzero(forest.kind == LEAF))}
