"""What source code in every language is made from: trees as tests without `else`, and names that cannot break out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

import numpy as np

from hardwood._typing import Int
from hardwood.draw._label import label, visible
from hardwood.errors import reject
from hardwood.forest import LEAF, Forest


class Step(NamedTuple):
    """One piece of a tree written as tests: a test that opens a block, the end of a block, or a leaf."""

    what: Literal["test", "end", "leaf"]
    node: int
    level: int  # of indentation
    left: bool = True  # whether the test asks "does the row go left?" or "does it go right?"


def steps(forest: Forest, tree: int) -> Iterator[Step]:
    """Write one tree as tests: after the end of a block comes what happens where its test fails, at the same level.

    Since every leaf returns, that needs no `else`. The child with the flatter text goes into the block, so that a tree
    of L leaves is nested at most log2(L) deep, a chain of any length just once; compilers and databases limit nesting.
    """
    nested = _nesting(forest)
    stack = [Step("test", int(forest.tree_start[tree]), 0)]
    while stack:
        step = stack.pop()
        if step.what == "end" or forest.kind[step.node] == LEAF:
            yield step if step.what == "end" else step._replace(what="leaf")
            continue
        left, right = int(forest.left[step.node]), int(forest.right[step.node])
        asks_left = bool(nested[left] <= nested[right])
        inside, after = (left, right) if asks_left else (right, left)
        yield step._replace(left=asks_left)
        stack.append(Step("test", after, step.level))
        stack.append(Step("end", step.node, step.level))
        stack.append(Step("test", inside, step.level + 1))


def _nesting(forest: Forest) -> Int[np.ndarray, " nodes"]:
    """Return how many blocks deep the text of each node's subtree is."""
    nested = np.zeros(forest.node_count, np.int64)
    for node in reversed(np.flatnonzero(forest.kind != LEAF).tolist()):
        low, high = sorted((nested[forest.left[node]], nested[forest.right[node]]))
        nested[node] = max(low + 1, high)
    return nested


def chosen_layout(forest: Forest, layout: str, most_nodes: int) -> str:
    """Return the layout to write: what was asked for, or tests as long as there are few nodes."""
    if layout not in ("auto", "ifs", "tables"):
        reject("layout", layout, "is no layout", "use 'auto', 'ifs' or 'tables'")
    if layout == "auto":
        return "ifs" if forest.node_count <= most_nodes else "tables"
    return layout


# ---------------------------------------------------------------- names


def comment(text: object) -> str:
    """Return any text as one line of ASCII: no line break, nothing that turns text around, nothing outside ASCII.

    >>> comment("two\\nlines"), comment("größe")
    ('two\\\\nlines', 'gr\\\\xf6\\\\xdfe')
    """
    return visible(str(text)).encode("ascii", "backslashreplace").decode("ascii")


def identifier(name: str, argument: str) -> str:
    """Return a name as the beginning of identifiers in C: what is no letter, digit or underscore becomes one.

    >>> identifier("iris-2.0", "name"), identifier("2 trees", "name")
    ('iris_2_0', 'forest_2_trees')
    """
    if not isinstance(name, str) or not re.search("[A-Za-z0-9]", name):
        reject(argument, name, "has no letter or digit to name things by", "pass a word such as 'forest'")
    made = re.sub("[^A-Za-z0-9]+", "_", name).strip("_")
    return f"forest_{made}" if made[0].isdigit() else made


def column_notes(forest: Forest) -> list[str]:
    """Describe each column in one line of ASCII: its number, its name and, for categories, what the codes mean."""
    notes = []
    for column in range(forest.n_features):
        named = f": {label(forest.feature_names[column])}" if forest.feature_names is not None else ""
        words = forest.categories.get(column)
        if words is not None:
            named += f"{',' if named else ':'} the code of a category, " + ", ".join(
                f"{code} = {label(word)}" for code, word in enumerate(words)
            )
        if named:
            notes.append(comment(f"{column}{named}"))
    return notes


def outcome_notes(forest: Forest) -> list[str]:
    """Describe each output, or each class, in one line of ASCII."""
    names = forest.output_names if forest.classes is None else forest.classes.tolist()
    return [] if names is None else [comment(f"{k}: {label(name)}") for k, name in enumerate(names)]
