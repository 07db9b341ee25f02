"""A tree as one `CASE` expression over columns of doubles (`x0`, ...) and words (`w0`, ...), NULL where missing."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hardwood.export._source import Step, steps
from hardwood.export._sql_dialects import Dialect
from hardwood.forest import CATEGORIES, OBLIQUE, THRESHOLD, Forest


def case(
    forest: Forest,
    tree: int,
    dialect: Dialect,
    vocabularies: Mapping[int, list[str]],
    says: Callable[[int], str],
    indent: str,
) -> str:
    """Return the expression of one tree; `says` writes what a leaf, given by its node, says.

    In a CASE a condition that is NULL does not hold, so a missing value goes on to the branches after it.
    """
    parts: list[str] = []
    opened: list[bool] = [False]  # whether a CASE is open, for each level
    for step in steps(forest, tree):
        inset = f"\n{indent}{'    ' * step.level}"
        if step.what == "test":
            if not opened[step.level]:
                parts.append("CASE")
                opened[step.level] = True
            parts.append(f"{inset}    WHEN {_test(forest, step, dialect, vocabularies)} THEN ")
            opened.append(False)
        elif step.what == "end":
            opened.pop()
        else:
            leaf = says(step.node)
            parts.append(f"{inset}    ELSE {leaf}{inset}END" if opened[step.level] else leaf)
    return "".join(parts)


def word_columns(forest: Forest) -> list[int]:
    """Return the columns that are split by words."""
    return sorted(set(forest.feature[forest.kind == CATEGORIES].tolist()))


def number_columns(forest: Forest, linear: bool) -> list[int]:
    """Return the columns that a split, or a linear leaf, looks at as numbers; a category is its code there."""
    used = set(forest.feature[forest.kind == THRESHOLD].tolist())
    if forest.weight_feature is not None:
        used |= set(forest.weight_feature.tolist())
    if linear:
        assert forest.leaf_coef is not None
        used |= set((forest.leaf_coef != 0).any(axis=(0, 2)).nonzero()[0].tolist())
    return sorted(used)


def _test(forest: Forest, step: Step, dialect: Dialect, vocabularies: Mapping[int, list[str]]) -> str:
    """Write the test of a split, which asks for one of its sides."""
    node, left = step.node, step.left
    kind, cell, missing_left = forest.kind[node], f"x{forest.feature[node]}", bool(forest.missing_left[node])
    if kind == THRESHOLD:
        compared = f"{cell} {'<' if left else '>='} {dialect.number(float(forest.threshold[node]))}"
        return f"({compared} OR {cell} IS NULL)" if left == missing_left else compared
    if kind == CATEGORIES:
        return _category_test(forest, node, left, missing_left, vocabularies[int(forest.feature[node])], dialect)
    assert kind == OBLIQUE
    return _oblique_test(forest, node, left, missing_left, dialect)


def _category_test(
    forest: Forest, node: int, left: bool, missing_left: bool, words: list[str], dialect: Dialect
) -> str:
    """Write a test for words: what is none of them is missing, as NULL is."""
    assert forest.category_start is not None and forest.category_codes is not None
    codes = set(forest.category_codes[forest.category_start[node] : forest.category_start[node + 1]].tolist())
    cell = f"w{forest.feature[node]}"
    # The words of the side that missing values do not take.
    listed = [word for code, word in enumerate(words) if (code in codes) != missing_left]
    with_missing = left == missing_left
    if not listed:
        return "1 = 1" if with_missing else "1 = 0"
    groups = [listed[at : at + dialect.most_words] for at in range(0, len(listed), dialect.most_words)]
    if with_missing:
        tests = [f"{cell} NOT IN ({', '.join(group)})" for group in groups]
        return f"({cell} IS NULL OR {' AND '.join(tests)})"
    tests = [f"{cell} IN ({', '.join(group)})" for group in groups]
    return tests[0] if len(tests) == 1 else f"({' OR '.join(tests)})"


def _oblique_test(forest: Forest, node: int, left: bool, missing_left: bool, dialect: Dialect) -> str:
    """Write a test of a weighted sum, whose terms are added from left to right.

    A sum of infinities of both signs is no number and goes right; SQLite makes it NULL.
    """
    assert forest.weight_start is not None
    assert forest.weight_feature is not None and forest.weight_value is not None
    span = slice(*forest.weight_start[node : node + 2].tolist())
    columns = forest.weight_feature[span].tolist()
    weights = forest.weight_value[span].tolist()
    terms = [f"{dialect.number(weight)} * x{column}" for column, weight in zip(columns, weights, strict=True)]
    below = f"{' + '.join(terms)} < {dialect.number(float(forest.threshold[node]))}"
    missing = " OR ".join(f"x{column} IS NULL" for column in columns)
    if left:
        return f"({missing} OR {below})" if missing_left else below
    known = " AND ".join(f"x{column} IS NOT NULL" for column in columns)
    not_below = f"COALESCE(NOT ({below}), 1 = 1)"
    return f"({known} AND {not_below})" if missing_left else f"({missing} OR {not_below})"
