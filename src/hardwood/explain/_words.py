"""Merged conditions in a reader's words: `25 <= age < 40`, `colour in {red, blue}`, `age is missing`."""

from __future__ import annotations

import math

import numpy as np

from hardwood._typing import Float
from hardwood.draw._number import distinct, moment
from hardwood.draw._words import Words
from hardwood.forest._combine import apply_link, probabilities
from hardwood.forest._prune import _Possible

_WHOLE = 2.0**53  # below this float64 holds every whole number


class PathWords(Words):
    """Says what the splits of a path on one subject, a column or a weighted sum of columns, ask together.

    A subject is named by any node that splits it.
    """

    def rule(self, node: int, possible: _Possible) -> str:
        """Say which values fulfil the splits, missing ones included."""
        subject = self.subject(node)
        known = self._known(node, possible, self._written(node, possible, None))
        if known is None:
            # With a vocabulary, numbers that are no code may be left.
            return f"{subject} is {'missing' if possible.missing else 'none of its categories'}"
        if not known:
            return f"{subject} is {'any category or missing' if possible.missing else 'not missing'}"
        return f"{known} or missing" if possible.missing else known

    def reason(self, node: int, possible: _Possible, value: float, missing: bool) -> str:
        """Say the same about a row that fulfils them, with its value; missing values are named only if its is missing.

        `value` is the row's cell or weighted sum.
        """
        subject = self.subject(node)
        written = self._written(node, possible, None if missing else value)
        known = self._known(node, possible, written)
        if missing:
            return f"{known} or missing (here missing)" if known else f"{subject} is missing"
        here = self.value(node, value, written)
        if not known:
            return f"{subject} is not missing (here {here})"
        return known if known == f"{subject} is {here}" else f"{known} (here {here})"

    def answer(self, outputs: Float[np.ndarray, "1 outputs"]) -> str:
        """Say what outputs, `base` included, are as a prediction."""
        if self.forest.classes is not None:
            return self.shares(probabilities(self.forest, outputs)[0])
        return self._values(apply_link(self.forest.link, outputs)[0], signed=False)

    def summands(self, values: Float[np.ndarray, " outputs"]) -> str:
        """Write what is added to each output, with signs."""
        return self._values(values, signed=True)

    def summand(self, value: float) -> str:
        """Write a number that is added, with its sign."""
        return f"{'+' if value >= 0 else ''}{self.plain(value)}"

    def formula(self, leaf: int) -> str:
        """Write a linear leaf as a formula; "" for a constant one."""
        coef = self.forest.leaf_coef
        return "" if coef is None or not coef[leaf].any() else self._linear(leaf)

    def _written(self, node: int, possible: _Possible, value: float | None) -> dict[float, str]:
        """Write the bounds of a subject and a row's value: different ones differ, also from the tree's other bounds."""
        column = int(self.forest.feature[node])
        if column in self.forest.categories:
            return {}
        bounds = [bound for bound in (possible.low, possible.high) if bound is not None and bound != -math.inf]
        texts = {bound: self._thresholds[column, bound] for bound in bounds}
        if value is not None and not math.isnan(value):
            for number, text in distinct([*bounds, value], self._digits).items():
                texts[number] = max(text, texts.get(number, ""), key=len)
        return texts

    def _known(self, node: int, possible: _Possible, written: dict[float, str]) -> str | None:
        """Say which values other than missing ones are possible: None for no value, "" for every value."""
        column = int(self.forest.feature[node])
        if column in self.forest.categories:
            size = len(self.forest.categories[column])
            inside = {code for code in range(size) if possible.codes >> code & 1}
            if len(inside) in (0, size):
                return "" if inside else None
            return f"{self.subject(node)} {self._set(column, inside, goes_left=True)}"
        if not possible.numbers:
            return None
        if possible.low == -math.inf and possible.high is None:
            return ""
        return self._range(node, possible.low, possible.high, written)

    def _range(self, node: int, low: float, high: float | None, written: dict[float, str]) -> str:
        subject, kind = self.subject(node), self._type(node)
        if kind == "bool":
            if 0 < low <= 1 and (high is None or high > 1):
                return f"{subject} is true"
            if low <= 0 and high is not None and 0 < high <= 1:
                return f"{subject} is false"
        if kind == "int":
            whole = self._whole_range(subject, low, high)
            if whole is not None:
                return whole
        lower = None if low == -math.inf else self._bound(low, kind, written)
        upper = None if high is None else self._bound(high, kind, written)
        if lower is None:
            return f"{subject} < {upper}"
        return f"{subject} >= {lower}" if upper is None else f"{lower} <= {subject} < {upper}"

    @staticmethod
    def _whole_range(subject: str, low: float, high: float | None) -> str | None:
        """Say a range of whole numbers; None where there is no whole number in it, or float64 lacks some."""
        if any(math.isfinite(bound) and abs(bound) >= _WHOLE for bound in (low, high or 0.0)):
            return None
        first = math.ceil(low) if math.isfinite(low) else None
        last = math.ceil(high) - 1 if high is not None and math.isfinite(high) else None
        unsaid = (first is None and low != -math.inf) or (last is None and high is not None)
        if unsaid or (first is not None and last is not None and first > last):
            return None
        if first is None:
            return f"{subject} <= {last}"
        if last is None:
            return f"{subject} >= {first}"
        return f"{subject} is {first}" if first == last else f"{first} <= {subject} <= {last}"

    @staticmethod
    def _bound(value: float, kind: str, written: dict[float, str]) -> str:
        return moment(value) if kind == "datetime" and math.isfinite(value) else written[value]
