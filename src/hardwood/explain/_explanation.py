"""`Explanation`: why a forest predicts what it does for one row, as a value to read or to pass on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hardwood.explain._checks import plain
from hardwood.explain._conditions import Condition

Label = str | int | float | bool


@dataclass(frozen=True)
class Reason:
    """One tree's part in a prediction."""

    tree: int
    leaf: int  # the leaf reached, counted from the tree's root as in `Forest.apply`
    conditions: tuple[Condition, ...]  # what the path to it asks, one for each column or weighted sum of columns
    outputs: tuple[float, ...]  # what the leaf says for the row, before trees are combined
    weight: float  # of the tree, for this row: 1 in a sum, 1 / n_trees in a mean, or the softmax of leaf weights
    adds: tuple[float, ...]  # weight times outputs; for a class, what it adds in favour of the one predicted
    share: float  # see `Explanation`
    text: str  # what the leaf says, in words

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON can hold it."""
        fields = {name: getattr(self, name) for name in ("tree", "leaf", "weight", "share", "text")}
        lists = {name: [plain(value) for value in getattr(self, name)] for name in ("outputs", "adds")}
        return {
            **{name: plain(value) for name, value in fields.items()},
            **lists,
            "conditions": [condition.to_dict() for condition in self.conditions],
        }


@dataclass(frozen=True, repr=False)
class Explanation:
    """Why a forest predicts what it does for one row. `print` it to read it.

    `reasons` are the trees with the largest shares, the largest first. Where trees are weighed by the leaves that a row
    reaches, a tree's share is its weight. Elsewhere it is its part of the sum of what all trees add to the prediction,
    whatever the sign; for a class, to the output that decides for it.
    """

    prediction: Label | tuple[float, ...]  # as `Forest.predict` has it
    classes: tuple[Label, ...] | None
    probabilities: tuple[float, ...] | None  # of the classes
    outputs: tuple[float, ...]  # before the link
    reasons: tuple[Reason, ...]
    n_trees: int  # of the forest
    text: str  # all of it in words

    @property
    def rest(self) -> float:
        """The share of the trees that are not among the reasons."""
        return max(0.0, 1.0 - sum(reason.share for reason in self.reasons)) if len(self.reasons) < self.n_trees else 0.0

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON can hold it; a number that is not finite becomes a text."""
        prediction = self.prediction
        return {
            "prediction": [plain(each) for each in prediction] if isinstance(prediction, tuple) else plain(prediction),
            "classes": None if self.classes is None else [plain(label) for label in self.classes],
            "probabilities": None if self.probabilities is None else [plain(value) for value in self.probabilities],
            "outputs": [plain(value) for value in self.outputs],
            "reasons": [reason.to_dict() for reason in self.reasons],
            "n_trees": self.n_trees,
            "rest": self.rest,
            "text": self.text,
        }

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"Explanation({self.prediction!r}, {len(self.reasons)} of {self.n_trees} trees)"
