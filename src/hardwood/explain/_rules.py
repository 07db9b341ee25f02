"""A tree as a list of rules: for each leaf what its path asks, merged, and what it answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np

from hardwood._typing import Bool, Float
from hardwood.draw._checks import check_labels, check_tree
from hardwood.draw._number import number, percent
from hardwood.errors import MissingExtraError, reject
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
    share: float | None = None  # of all rows
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
        names = ("tree", "leaf", "answer", "support", "share", "precision", "error")
        return {
            **{name: plain(getattr(self, name)) for name in names},
            "values": list(self.values),
            "conditions": [condition.to_dict() for condition in self.conditions],
        }

    @property
    def asked(self) -> str:
        """All conditions in one text; "" where nothing is asked."""
        # "a or missing and b" could be read in two ways.
        several = len(self.conditions) > 1
        return " and ".join(
            f"({each})" if several and each.text.endswith(" or missing") else each.text for each in self.conditions
        )

    def __str__(self) -> str:
        text = f"if {self.asked}: {self.answer}" if self.conditions else f"always: {self.answer}"
        if self.support is None:
            return text
        remarks = [f"{self.support:,} {'row' if self.support == 1 else 'rows'}"]
        if self.precision is not None:
            remarks.append(f"right for {percent(self.precision)}")
        if self.error is not None:
            remarks.append(f"error {number(self.error, 4)}")
        return f"{text}  # {', '.join(remarks)}"


class Rules(Sequence[Rule]):
    """Rules in an order. `print` them to read them; see `rules`."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._rules = tuple(rules)

    def __len__(self) -> int:
        return len(self._rules)

    def __iter__(self) -> Iterator[Rule]:
        return iter(self._rules)

    @overload
    def __getitem__(self, which: int) -> Rule: ...
    @overload
    def __getitem__(self, which: slice) -> Rules: ...
    def __getitem__(self, which: int | slice) -> Rule | Rules:
        return Rules(self._rules[which]) if isinstance(which, slice) else self._rules[which]

    def __eq__(self, other: object) -> bool:
        return self._rules == other._rules if isinstance(other, Rules) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._rules)

    def __str__(self) -> str:
        several = len({rule.tree for rule in self}) > 1
        return "\n".join(f"tree {rule.tree}: {rule}" if several else str(rule) for rule in self)

    def __repr__(self) -> str:
        return f"Rules({len(self)} {'rule' if len(self) == 1 else 'rules'})"

    def to_dicts(self) -> list[dict[str, Any]]:
        """Return the rules as JSON can hold them."""
        return [rule.to_dict() for rule in self]

    def to_table(self) -> list[dict[str, Any]]:
        """Return one flat record a rule: what it asks and answers in words, and how good it is."""
        names = ("tree", "leaf", "if", "then", "support", "share", "precision", "error")
        known = [name for name in names if any(getattr(rule, name, name) is not None for rule in self)]
        words = {"if": "asked", "then": "answer"}
        return [{name: getattr(rule, words.get(name, name)) for name in known} for rule in self]

    def to_frame(self, library: str = "pandas") -> Any:
        """Return the table as a data frame of some library."""
        import narwhals as nw

        if library not in ("pandas", "polars", "pyarrow"):
            reject("library", library, "is no library of data frames", "use 'pandas', 'polars' or 'pyarrow'")
        backend: Any = library
        table = self.to_table()
        columns = {name: [record[name] for record in table] for name in table[0]} if table else {}
        try:
            return nw.from_dict(columns, backend=backend).to_native()
        except ModuleNotFoundError as reason:
            raise MissingExtraError(f"to_frame({library!r}) needs {library}: install it, or use to_table()") from reason


def rules(
    forest: Forest,
    tree: int | None = 0,
    X: Any = None,
    y: Any = None,
    *,
    order: str = "tree",
) -> Rules:
    """List the rules of one tree, or with None of all, leaving out leaves that the conditions above them rule out.

    The splits of a path on one column are one condition: a range, a set of categories, missing or not. Every row
    fulfils exactly one rule of each tree, that of the leaf which it reaches, so the order changes nothing: from left to
    right in the "tree", or with the largest "support" or "precision" first (those of a regression: the smallest error).
    With rows `X` the rules say how many of them each one holds for, and with the true answers `y` as well how good it
    is for those.

    >>> from hardwood.forest import Forest
    >>> tree = Forest(
    ...     tree_start=[0, 5], kind=[1, 0, 1, 0, 0], left=[1, -1, 3, -1, -1], right=[2, -1, 4, -1, -1],
    ...     feature=[0, -1, 0, -1, -1], threshold=[25, 0, 40, 0, 0], missing_left=[False] * 5, n_features=1,
    ...     leaf_values=[[0.2, 0.8], [0.9, 0.1], [0.4, 0.6]], feature_names=("age",), classes=["no", "yes"],
    ... )
    >>> print(rules(tree))
    if age < 25: yes 80%, no 20%
    if 25 <= age < 40: no 90%, yes 10%
    if age >= 40 or missing: yes 60%, no 40%
    >>> print(rules(tree, X=[[20], [31], [33], [70]], y=["yes", "no", "no", "no"], order="support")[:2])
    if 25 <= age < 40: no 90%, yes 10%  # 2 rows, right for 100%
    if age < 25: yes 80%, no 20%  # 1 row, right for 100%
    """
    check_tree(forest, 0 if tree is None else tree)
    if X is None and y is not None:
        reject("y", "an array", "is given without X", "pass the rows as X, or leave y out")
    needed = {"tree": True, "support": X is not None, "precision": y is not None}
    if order not in needed:
        reject("order", order, "is no order of rules", "use 'tree', 'support' or 'precision'")
    if not needed[order]:
        remedy = "pass rows as X" if order == "support" else "pass rows as X and their true answers as y"
        reject("order", order, "is not known without rows", remedy)
    found = [
        rule for each in (range(forest.n_trees) if tree is None else [tree]) for rule in _of_tree(forest, each, X, y)
    ]
    if order != "tree":
        found.sort(key=_best_first if order == "precision" else lambda rule: -(rule.support or 0))
    return Rules(found)


def _best_first(rule: Rule) -> tuple[float, int]:
    """Return what to sort by: quality, then support; rules without rows come last."""
    bad = rule.error if rule.precision is None else -rule.precision
    return float("inf") if bad is None else bad, -(rule.support or 0)


def _of_tree(forest: Forest, tree: int, X: Any, y: Any) -> list[Rule]:
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
        counted = {"support": support, "share": support / len(own)}
        if self.loss is None or not support:
            return counted
        loss = float(self.loss[own].mean())
        return {**counted, **({"precision": 1.0 - loss} if self.classes else {"error": loss**0.5})}
