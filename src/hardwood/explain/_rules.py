"""A tree as a list of rules: for each leaf what its path asks, merged, and what it answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hardwood._typing import Bool, Float
from hardwood.draw._checks import check_labels, check_tree
from hardwood.errors import reject
from hardwood.explain._checks import check_rows, plain
from hardwood.explain._conditions import Asked, Condition, conditions, narrow
from hardwood.explain._words import PathWords
from hardwood.forest import LEAF, Forest


@dataclass(frozen=True)
class Rule:
    """One leaf as a rule: if all conditions hold, the tree gives the answer. `print` it to read it.

    `support` is there with rows, `precision` with a classifier's rows and labels, `error` with those of a regression:
    the tree is then asked alone, `base` included. Both are None also where no row supports the rule.
    """

    tree: int
    leaf: int  # counted from the tree's root as in `Forest.apply`
    conditions: tuple[Condition, ...]
    answer: str  # in words
    values: tuple[float, ...]  # the leaf's values; the constants of a linear leaf
    support: int | None = None  # rows for which the conditions hold
    precision: float | None = None  # the share of them for which the answer is right
    error: float | None = None  # the root mean squared error for them

    def holds(self, X: Float[np.ndarray, "rows features"]) -> Bool[np.ndarray, " rows"]:
        """Tell for rows in raw coding whether all conditions hold: just the rows that reach the leaf."""
        result = np.ones(len(X), bool)
        for condition in self.conditions:
            result &= condition.holds(X)
        return result

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON can hold it."""
        names = ("tree", "leaf", "answer", "support", "precision", "error")
        return {
            **{name: plain(getattr(self, name)) for name in names},
            "values": list(self.values),
            "conditions": [condition.to_dict() for condition in self.conditions],
        }

    def __str__(self) -> str:
        # "a or missing and b" could be read in two ways.
        several = len(self.conditions) > 1
        asked = " and ".join(
            f"({each})" if several and each.text.endswith(" or missing") else each.text for each in self.conditions
        )
        return f"if {asked}: {self.answer}" if asked else f"always: {self.answer}"


def rules(forest: Forest, tree: int = 0, X: Any = None, y: Any = None) -> list[Rule]:
    """List the rules of one tree from left to right, leaving out leaves that the conditions above them rule out.

    Every row fulfils exactly one rule, that of the leaf which it reaches. With rows `X` the rules say how many of them
    each one holds for, and with the true answers `y` as well how good it is for those.

    >>> from hardwood.forest import Forest
    >>> tree = Forest(
    ...     tree_start=[0, 5], kind=[1, 0, 1, 0, 0], left=[1, -1, 3, -1, -1], right=[2, -1, 4, -1, -1],
    ...     feature=[0, -1, 0, -1, -1], threshold=[25, 0, 40, 0, 0], missing_left=[False] * 5, n_features=1,
    ...     leaf_values=[[0.2, 0.8], [0.9, 0.1], [0.4, 0.6]], feature_names=("age",), classes=["no", "yes"],
    ... )
    >>> for rule in rules(tree):
    ...     print(rule)
    if age < 25: yes 80%, no 20%
    if 25 <= age < 40: no 90%, yes 10%
    if age >= 40 or missing: yes 60%, no 40%
    """
    check_tree(forest, tree)
    if X is None and y is not None:
        reject("y", "an array", "is given without X", "pass the rows as X, or leave y out")
    scores = None if X is None else _Scores(forest, tree, X, y)
    words = PathWords(forest, tree)
    root = int(forest.tree_start[tree])
    found: list[Rule] = []
    waiting: list[tuple[int, Asked]] = [(root, {})]
    while waiting:
        node, asked = waiting.pop()
        if forest.kind[node] == LEAF:
            leaf = int(forest._leaf_index[node])
            found.append(
                Rule(
                    tree=tree,
                    leaf=node - root,
                    conditions=conditions(words, asked),
                    answer=words.leaf(leaf),
                    values=tuple(forest.leaf_values[leaf].tolist()),
                    **({} if scores is None else scores.of(node - root)),
                )
            )
            continue
        # The last one pushed is taken first.
        for goes_left, child in ((False, int(forest.right[node])), (True, int(forest.left[node]))):
            below = narrow(forest, asked, node, goes_left)
            if all(possible.anything for _, possible in below.values()):
                waiting.append((child, below))
    return found


class _Scores:
    """How many rows reach each leaf of a tree, and how good the tree's own predictions for them are."""

    def __init__(self, forest: Forest, tree: int, X: Any, y: Any) -> None:
        table = check_rows(forest, X)
        alone = forest[tree]
        self.leaf = alone.apply(table)[:, 0]
        self.classes = forest.is_classifier
        self.loss: Float[np.ndarray, " rows"] | None = None
        if y is not None:
            truth = check_labels(forest, y, len(table))
            answer = alone.predict(table)
            wrong = answer != truth if self.classes else (answer - truth) ** 2
            self.loss = wrong.reshape(len(table), -1).mean(axis=1)

    def of(self, leaf: int) -> dict[str, Any]:
        """Return the fields of the rule of one leaf."""
        own = self.leaf == leaf
        support = int(own.sum())
        if self.loss is None or not support:
            return {"support": support}
        loss = float(self.loss[own].mean())
        return {"support": support, **({"precision": 1.0 - loss} if self.classes else {"error": loss**0.5})}
