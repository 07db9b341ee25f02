"""A tree as indented rules."""

from __future__ import annotations

from typing import Any

import numpy as np

from hardwood.draw._census import Census, census
from hardwood.draw._checks import check_tree
from hardwood.draw._words import Words, adds, column_sizes, leaf_numbers
from hardwood.errors import reject
from hardwood.forest import LEAF, Forest

_INDENT = "    "
_ROOM, _LIMIT = 60, 60  # of a summary: lines, and characters of a name


def text(
    forest: Forest,
    tree: int = 0,
    max_depth: int | None = None,
    *,
    X: Any = None,
    y: Any = None,
    exact: bool = False,
    max_weights: int | None = None,
) -> str:
    """Write one tree as nested if and else, in raw units.

    Every line says the whole condition of its branch, the way of missing values included, so that a path can be read
    by itself. Thresholds have as many digits as tell them apart, at least six, and those of whole-number columns are
    whole; with `exact` all numbers read back to the forest's own. Below `max_depth` splits the rules are cut off with a
    note of what is left out. With rows `X`, remarks say how many of them come to each split and leaf, and with the true
    answers `y` also which classes those have, or the mean and standard deviation of their values.

    `max_weights` shortens weighted sums, of oblique splits and linear leaves, to so many terms, the largest first: by
    weight, or with rows `X` by weight times the column's standard deviation, so that units do not matter.

    >>> from hardwood.forest import Forest
    >>> stump = Forest(
    ...     tree_start=[0, 3], kind=[1, 0, 0], left=[1, -1, -1], right=[2, -1, -1], feature=[0, -1, -1],
    ...     threshold=[2.5, 0, 0], missing_left=[True, False, False], leaf_values=[[1.0], [4.5]], n_features=1,
    ...     feature_names=("petal length",),
    ... )
    >>> print(text(stump))
    if petal length < 2.5 or missing:
        1
    else:  # petal length >= 2.5
        4.5
    >>> print(text(stump, X=[[1.4], [5.0], [6.1]], y=[1, 4, 5]))
    # 3 rows: mean 3.33333, sd 1.69967
    if petal length < 2.5 or missing:
        1  # 1 row: mean 1, sd 0
    else:  # petal length >= 2.5
        4.5  # 2 rows: mean 4.5, sd 0.5
    """
    check_tree(forest, tree, max_depth)
    if max_weights is not None and max_weights < 1:
        reject("max_weights", max_weights, "must be at least 1", "pass max_weights=3, or None for all")
    sizes = None if max_weights is None else column_sizes(forest, X)
    words = Words(forest, tree, exact=exact, max_weights=max_weights, sizes=sizes)
    return "\n".join(_lines(words, tree, max_depth, census(forest, tree, X, y)))


def summary(forest: Forest) -> str:
    """Describe a forest in few lines: its size, and the rules of its first tree as far as there is room."""
    depths = forest._node_depth[: forest.tree_start[1]][forest.kind[: forest.tree_start[1]] != LEAF]
    # Each split that is shown takes three lines.
    shown = np.searchsorted(np.cumsum(np.bincount(depths)), _ROOM // 3, side="right") if len(depths) else 0
    cut = max(1, int(shown)) if len(depths) else None
    lines = [repr(forest), *_lines(Words(forest, 0, limit=_LIMIT), 0, cut, None)]
    if forest.n_trees > 1:
        others = forest.n_trees - 1
        lines.append(
            f"# {others:,} more {'tree' if others == 1 else 'trees'}: hardwood.draw.text(forest, tree) shows one"
        )
    return "\n".join(lines)


def _lines(words: Words, tree: int, max_depth: int | None, known: Census | None) -> list[str]:
    forest, root = words.forest, words.nodes.start
    numbers = leaf_numbers(forest)
    lines = _heading(forest, tree)
    # Each entry: a node, its depth, and the line that leads to it.
    waiting: list[tuple[int, int, str | None]] = [(root, 0, None)]
    while waiting:
        node, depth, lead = waiting.pop()
        indent = _INDENT * depth
        remark = "" if known is None else known.words(words, node - root)
        shown_in_full = forest.kind[node] != LEAF and depth != max_depth
        if shown_in_full and remark and lead is None:
            lines.append(f"# {remark}")
        elif shown_in_full and remark:
            lead = f"{lead}{'; ' if str(lead).startswith('else') else '  # '}{remark}"
        if lead is not None:
            lines.append(f"{_INDENT * (depth - 1)}{lead}")
        after = f"  # {remark}" if remark else ""
        if forest.kind[node] == LEAF:
            lines.append(f"{indent}{words.leaf(numbers[node])}{after}")
        elif depth == max_depth:
            lines.append(f"{indent}... {_left_out(forest, node)}{after}")
        else:
            # The last one pushed is written first.
            otherwise = f"else:  # {words.condition(node, goes_left=False)}"
            waiting.append((int(forest.right[node]), depth + 1, otherwise))
            waiting.append((int(forest.left[node]), depth + 1, f"if {words.condition(node, goes_left=True)}:"))
    return lines


def _heading(forest: Forest, tree: int) -> list[str]:
    if forest.n_trees == 1:
        return []
    role = {
        "sum": "what it adds to the sum of all trees",
        "mean": "what it answers alone; the forest averages all trees",
        "softmax": "what it answers alone; the weights of the leaves reached decide how much each tree counts",
    }[forest.combine]
    lines = [f"# tree {tree} of {forest.n_trees}: {role}"]
    if adds(forest) and forest.base is not None and forest.base.any():
        lines.append(f"# the sum starts at {', '.join(map(repr, forest.base.tolist()))}")
    if adds(forest) and forest.link != "identity":
        lines.append(f"# the {forest.link} of the sum is the prediction")
    return lines


def _left_out(forest: Forest, node: int) -> str:
    leaves, waiting = 0, [node]
    while waiting:
        each = waiting.pop()
        if forest.kind[each] == LEAF:
            leaves += 1
        else:
            waiting += [int(forest.left[each]), int(forest.right[each])]
    return f"{leaves} leaves"
