"""Explaining predictions: the trees that decide, the path of the row in each, and what its leaf says."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hardwood._typing import Float, Int
from hardwood.draw._checks import check_tree
from hardwood.draw._number import percent
from hardwood.draw._words import adds as forest_adds
from hardwood.errors import reject
from hardwood.explain._checks import check_count
from hardwood.explain._conditions import conditions, path_asks
from hardwood.explain._explanation import Explanation, Reason
from hardwood.explain._words import PathWords
from hardwood.forest import Forest
from hardwood.forest._combine import apply_link, chosen_classes, probabilities
from hardwood.forest._inputs import _array, matrix

_INDENT = "    "
_MOST_OTHERS = 3  # classes beside the predicted one whose probabilities are said
_TOGETHER = 1 << 16  # numbers of shape (rows, trees, outputs) that are worked out at once


def row(forest: Forest, x: Any, n_trees: int | None = 3) -> Explanation:
    """Explain the prediction for one row: a one-dimensional array in raw coding, or a data frame of one row.

    The explanation has the `n_trees` trees with the largest shares in the prediction, or all of them with None.

    >>> from hardwood.forest import Forest
    >>> tree = Forest(
    ...     tree_start=[0, 5], kind=[1, 0, 1, 0, 0], left=[1, -1, 3, -1, -1], right=[2, -1, 4, -1, -1],
    ...     feature=[0, -1, 0, -1, -1], threshold=[25, 0, 40, 0, 0], missing_left=[False] * 5, n_features=1,
    ...     leaf_values=[[0.2, 0.8], [0.9, 0.1], [0.4, 0.6]], feature_names=("age",), classes=["no", "yes"],
    ... )
    >>> print(row(tree, [31]))
    Prediction: no (90%; yes 10%), because
        25 <= age < 40 (here 31)
    """
    check_tree(forest, 0)
    if not hasattr(type(x), "columns"):
        x = _array(x)
        x = x[None] if x.ndim == 1 else x
    table = matrix(forest, x)
    if len(table) != 1:
        reject("x", f"{len(table)} rows", "is not one row", "pass one row, or call explain.rows")
    return next(rows(forest, table, n_trees))


def rows(forest: Forest, X: Any, n_trees: int | None = 3) -> Iterator[Explanation]:
    """Explain the predictions for all rows of an array or data frame, one after another; see `row`."""
    check_tree(forest, 0)
    if n_trees is not None:
        check_count("n_trees", n_trees, "pass how many trees to show, or None for all")
    return _explanations(forest, matrix(forest, X), n_trees)


def _explanations(
    forest: Forest, table: Float[np.ndarray, "rows features"], n_trees: int | None
) -> Iterator[Explanation]:
    words: dict[int, PathWords] = {}
    step = max(1, _TOGETHER // (forest.n_trees * forest.n_outputs))
    for start in range(0, len(table), step):
        block = table[start : start + step]
        said, weight, leaf = forest.tree_outputs(block), forest.tree_weights(block), forest.apply(block)
        combined = forest.outputs(block)
        for k in range(len(block)):
            yield _explanation(
                _Row(forest, words, block[k : k + 1], said[k], weight[k], leaf[k], combined[k : k + 1]), n_trees
            )


@dataclass(frozen=True)
class _Row:
    """One row and what the forest makes of it."""

    forest: Forest
    words: dict[int, PathWords]  # of the trees met so far
    cells: Float[np.ndarray, "1 features"]
    said: Float[np.ndarray, "trees outputs"]
    weight: Float[np.ndarray, " trees"]
    leaf: Int[np.ndarray, " trees"]
    combined: Float[np.ndarray, "1 outputs"]

    def node(self, tree: int) -> int:
        """Return the node of the leaf reached."""
        return int(self.forest.tree_start[tree] + self.leaf[tree])

    def words_of(self, tree: int) -> PathWords:
        if tree not in self.words:
            self.words[tree] = PathWords(self.forest, tree)
        return self.words[tree]

    @property
    def chosen(self) -> int:
        """The position of the predicted class."""
        return int(chosen_classes(self.forest, self.combined)[0])

    def added(self) -> Float[np.ndarray, "trees summands"]:
        """Return what each tree adds, as `in_favour` has it."""
        with np.errstate(invalid="ignore", over="ignore"):
            return self.in_favour(self.weight[:, None] * self.said)

    def in_favour(self, outputs: Float[np.ndarray, "any outputs"]) -> Float[np.ndarray, "any summands"]:
        """Return what outputs say for the prediction: for a class, the output that decides, in favour of the class."""
        if self.forest.classes is None:
            return outputs
        if self.forest.link == "sigmoid":
            # The one output speaks for the second class.
            return outputs if self.chosen else 0.0 - outputs
        return outputs[:, self.chosen, None]


def _explanation(of: _Row, n_trees: int | None) -> Explanation:
    forest = of.forest
    added = of.added()
    share = of.weight if forest.combine == "softmax" else _shares(added)
    order = np.argsort(-share, kind="stable")[:n_trees].tolist()
    reasons = tuple(
        Reason(
            tree=tree,
            leaf=int(of.leaf[tree]),
            conditions=conditions(of.words_of(tree), path_asks(forest, of.node(tree)), of.cells),
            outputs=tuple(of.said[tree].tolist()),
            weight=float(of.weight[tree]),
            adds=tuple(added[tree].tolist()),
            share=float(share[tree]),
            text=_says(of, tree, added[tree]),
        )
        for tree in order
    )
    linked = apply_link(forest.link, of.combined)[0].tolist()
    prediction = tuple(linked) if len(linked) > 1 else linked[0]
    chances = None
    if forest.classes is not None:
        prediction = forest.classes[of.chosen].item()
        chances = tuple(probabilities(forest, of.combined)[0].tolist())
    made = Explanation(
        prediction=prediction,
        classes=None if forest.classes is None else tuple(forest.classes.tolist()),
        probabilities=chances,
        outputs=tuple(of.combined[0].tolist()),
        reasons=reasons,
        n_trees=forest.n_trees,
        text="",
    )
    return replace(made, text=_text(of, made))


def _shares(added: Float[np.ndarray, "trees summands"]) -> Float[np.ndarray, " trees"]:
    """Return each tree's part of what all of them add, whatever the sign; what is infinite leaves nothing to others."""
    size = np.abs(added)
    size = np.where(np.isfinite(size).all(), size, ~np.isfinite(size))
    if not size.any():
        return np.full(len(size), 1.0 / len(size))
    each = (size / size.max()).sum(axis=1)
    return each / each.sum()


# ---------------------------------------------------------------- in words


def _says(of: _Row, tree: int, added: Float[np.ndarray, " summands"]) -> str:
    """Say what a tree answers alone, or where trees are summed, what it adds."""
    forest, words = of.forest, of.words_of(tree)
    if not forest_adds(forest):
        alone = of.said[tree : tree + 1]
        text = words.answer(alone if forest.base is None else alone + forest.base)
    elif forest.classes is None:
        text = words.summands(added)
    else:
        text = f"{words.summand(float(added[0]))} for {words.class_name(of.chosen)}"
    formula = words.formula(int(forest._leaf_index[of.node(tree)]))
    return f"{text}, from {formula}" if formula else text


def _text(of: _Row, made: Explanation) -> str:
    first = f"Prediction: {_prediction(of, made)}"
    if of.forest.n_trees == 1:
        formula = of.words_of(0).formula(int(of.forest._leaf_index[of.node(0)]))
        return f"{first}{f', from {formula}' if formula else ''}, {_because(made.reasons[0])}"
    parts = [first, *(f"{_part(of, reason)}, {_because(reason)}" for reason in made.reasons)]
    left_out = made.n_trees - len(made.reasons)
    if left_out:
        who = "The other tree" if left_out == 1 else f"The other {left_out:,} trees"
        parts.append(f"{who}: {percent(made.rest)} {_whole(of.forest)}.")
    return "\n\n".join(parts)


def _prediction(of: _Row, made: Explanation) -> str:
    """Say the prediction and, where trees are summed, where their sum starts."""
    forest, words = of.forest, of.words_of(0)
    if made.probabilities is None:
        answer = words.answer(of.combined)
    else:
        chances = np.array(made.probabilities)
        order = np.argsort(-chances, kind="stable").tolist()
        others = [f"{words.class_name(k)} {percent(chances[k])}" for k in order if k != of.chosen and chances[k] != 0]
        if len(others) > _MOST_OTHERS:
            others[_MOST_OTHERS - 1 :] = [f"{len(others) - _MOST_OTHERS + 1} others less"]
        listed = "".join(f"{mark} {other}" for mark, other in zip(";" + "," * len(others), others, strict=False))
        answer = f"{words.class_name(of.chosen)} ({percent(chances[of.chosen])}{listed})"
    if forest_adds(forest) and forest.base is not None and forest.base.any():
        start = of.in_favour(forest.base[None])[0]
        said = words.summands(start) if forest.classes is None else words.summand(float(start[0]))
        answer += f", where the sum starts at {said}"
    return answer


def _whole(forest: Forest) -> str:
    """Say what a share is a share of."""
    return {
        "softmax": "of the weight",
        "mean": "of what all trees say",
        "sum": "of what all trees add",
    }[forest.combine]


def _part(of: _Row, reason: Reason) -> str:
    share = f"{percent(reason.share)} {_whole(of.forest)}"
    if of.forest.combine == "softmax":
        return f"Tree {reason.tree} has {share} and says {reason.text}"
    return f"Tree {reason.tree} {'adds' if forest_adds(of.forest) else 'says'} {reason.text} ({share})"


def _because(reason: Reason) -> str:
    if not reason.conditions:
        return "whatever the row"
    return "because\n" + "\n".join(f"{_INDENT}{condition}" for condition in reason.conditions)
