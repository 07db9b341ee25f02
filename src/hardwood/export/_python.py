"""A forest as a Python module that imports nothing but `math`."""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Iterable

import numpy as np

from hardwood._typing import Int
from hardwood.draw._label import label
from hardwood.export import _python_parts as parts
from hardwood.export import _support
from hardwood.export._source import Step, chosen_layout, comment, steps
from hardwood.forest import CATEGORIES, LEAF, OBLIQUE, THRESHOLD, Forest
from hardwood.forest._combine import summands

# Tests of so many nodes are compiled in some seconds.
_MOST_NODES_AS_IFS = 20_000
_LONGEST_REMARK = 60

_CODES = "_CODES = {at: {word: float(code) for code, word in enumerate(CATEGORIES[at])} for at in CATEGORIES}"


def to_python(forest: Forest, *, layout: str = "auto") -> str:
    """Return the text of a Python module that predicts as the forest does, and needs nothing but Python 3.

    It has `leaf(row)`, the number of the leaf's node in each tree (as `Forest.apply`), `outputs(row)` before the link,
    `predict(row)` and, for a classifier, `predict_proba(row)`, and the tuples `FEATURES`, `CATEGORIES` (a dict),
    `OUTPUTS` and `CLASSES`. A row is a sequence of cells in the order of the columns, or a mapping from the names of
    columns; the cell of a category column is its word. None and NaN are missing values, and so is an unknown word.

    Outputs are those of the forest to the last bit; predictions and probabilities are as good as Python's `math.exp`.
    `layout` is "ifs" (one function of tests a tree), "tables" (nodes as data, and a loop), or "auto", by size.
    """
    _support.check(forest, "python")
    written = chosen_layout(forest, layout, _MOST_NODES_AS_IFS)
    packed = written == "tables"
    text = [
        parts.TOP.replace("$ABOUT", comment(repr(forest))),
        _names(forest),
        parts.BELOW if (forest.kind == OBLIQUE).any() else "",
        _tree_tables(forest) if packed else _tree_functions(forest),
        parts.LEAF,
        _sums(forest, packed),
        parts.LINKS["classes of sigmoid" if _is_binary(forest) else forest.link],
        _predict(forest),
    ]
    return re.sub("\n{3,}", "\n\n\n", "\n".join(text))


def _is_binary(forest: Forest) -> bool:
    return forest.classes is not None and forest.link == "sigmoid"


def _predict(forest: Forest) -> str:
    if forest.classes is not None:
        return parts.CLASSIFIER_OF_ONE_OUTPUT if _is_binary(forest) else parts.CLASSIFIER
    return parts.REGRESSOR if forest.n_outputs == 1 else parts.SEVERAL


# ---------------------------------------------------------------- what is written as data


def python_literal(value: object) -> str:
    """Return a string, number or boolean as a Python expression of ASCII characters on one line.

    >>> print(python_literal("a \N{SNOWMAN}"), python_literal(float("inf")))
    'a \\u2603' math.inf
    """
    if isinstance(value, float) and math.isinf(value):
        return "math.inf" if value > 0 else "-math.inf"
    return ascii(value)


def _tuple(values: Iterable[object]) -> str:
    return "(" + "".join(f"{python_literal(value)}, " for value in values).rstrip(" ") + ")"


def _names(forest: Forest) -> str:
    words = "".join(f"    {column}: {_tuple(each)},\n" for column, each in forest.categories.items())
    lines = [
        f"N_FEATURES = {forest.n_features}",
        f"N_TREES = {forest.n_trees}",
        f"FEATURES = {None if forest.feature_names is None else _tuple(forest.feature_names)}",
        f"OUTPUTS = {None if forest.output_names is None else _tuple(forest.output_names)}",
        f"CLASSES = {None if forest.classes is None else _tuple(forest.classes.tolist())}",
        f"CATEGORIES = {{\n{words}}}" if words else "CATEGORIES = {}",
        _CODES,
    ]
    return "\n".join(lines) + "\n"


def _data(name: str, values: np.ndarray, packed: bool) -> str:
    """Write a table as numbers or, where there are many, as bytes."""
    flat = values.ravel()
    if not packed:
        return f"{name} = {_tuple(flat.tolist())}\n"
    code, dtype = ("d", "<f8") if flat.dtype.kind == "f" else ("i", "<i4")
    text = base64.b64encode(flat.astype(dtype).tobytes()).decode("ascii")
    lines = "".join(f'    "{text[at : at + 100]}"\n' for at in range(0, len(text), 100))
    return f'{name} = _unpack(\n    "{code}",\n{lines or "    " + chr(34) * 2 + chr(10)})\n'


# ---------------------------------------------------------------- trees


def _leaf_nodes(forest: Forest) -> Int[np.ndarray, " leaves"]:
    """Return the number of each leaf's node in its tree."""
    leaves = np.flatnonzero(forest.kind == LEAF)
    return leaves - np.repeat(forest.tree_start[:-1], np.diff(np.searchsorted(leaves, forest.tree_start)))


def _tree_functions(forest: Forest) -> str:
    lines: list[str] = []
    for tree in range(forest.n_trees):
        lines += ["", "", f"def _tree_{tree}(x):"]
        for step in steps(forest, tree):
            indent = "    " * (step.level + 1)
            if step.what == "leaf":
                lines.append(f"{indent}return {forest._leaf_index[step.node]}")
            elif step.what == "test":
                lines.append(f"{indent}if {_test(forest, step)}:{_remark(forest, step.node)}")
    trees = ", ".join(f"_tree_{tree}" for tree in range(forest.n_trees))
    lines += ["", "", f"_TREES = ({trees},)"]
    return "\n".join(lines) + "\n" + _data("_LEAF_NODE", _leaf_nodes(forest), False) + "\n" + parts.ROW_OF_IFS


def _test(forest: Forest, step: Step) -> str:
    """Write the test of a split, which asks for one of its sides; NaN fails every comparison."""
    node, left = step.node, step.left
    kind, cell, missing_left = forest.kind[node], f"x[{forest.feature[node]}]", bool(forest.missing_left[node])
    cut = python_literal(float(forest.threshold[node]))
    if kind == THRESHOLD:
        if missing_left:
            return f"not {cell} >= {cut}" if left else f"{cell} >= {cut}"
        return f"{cell} < {cut}" if left else f"not {cell} < {cut}"
    if kind == OBLIQUE:
        assert forest.weight_start is not None
        assert forest.weight_feature is not None and forest.weight_value is not None
        span = slice(*forest.weight_start[node : node + 2].tolist())
        columns, weights = _tuple(forest.weight_feature[span].tolist()), _tuple(forest.weight_value[span].tolist())
        side = f"_below(x, {columns}, {weights}, {cut})"
        if left:
            return f"{side} != 0" if missing_left else f"{side} > 0"
        return f"{side} == 0" if missing_left else f"{side} <= 0"
    codes = _codes(forest, node)
    if missing_left:
        codes = [code for code in range(len(forest.categories[int(forest.feature[node])])) if code not in set(codes)]
    if not codes:
        return str(missing_left == left)
    inside = left != missing_left
    return f"{cell} {'in' if inside else 'not in'} {{{', '.join(map(str, codes))}}}"


def _codes(forest: Forest, node: int) -> list[int]:
    assert forest.category_start is not None and forest.category_codes is not None
    codes: list[int] = forest.category_codes[forest.category_start[node] : forest.category_start[node + 1]].tolist()
    return codes


def _remark(forest: Forest, node: int) -> str:
    """Name the column of a test."""
    if forest.feature_names is None or forest.kind[node] == OBLIQUE:
        return ""
    return "  # " + comment(label(forest.feature_names[int(forest.feature[node])], _LONGEST_REMARK))


def _tree_tables(forest: Forest) -> str:
    split = forest.kind != LEAF
    tables: dict[str, np.ndarray | None] = {
        "_START": forest.tree_start[:-1],
        "_KIND": forest.kind,
        "_LEFT": np.where(split, forest.left, forest._leaf_index),
        "_RIGHT": forest.right,
        "_COLUMN": forest.feature,
        "_CUT": forest.threshold,
        "_MISSING_LEFT": forest.missing_left,
        "_LEAF_NODE": _leaf_nodes(forest),
    }
    if (forest.kind == OBLIQUE).any():
        tables |= {
            "_WEIGHT_START": forest.weight_start,
            "_WEIGHT_COLUMN": forest.weight_feature,
            "_WEIGHT": forest.weight_value,
        }
    text = "".join(_data(name, table, True) for name, table in tables.items() if table is not None)
    nodes = np.flatnonzero(forest.kind == CATEGORIES).tolist()
    if nodes:
        text += "_SETS = {\n" + "".join(f"    {node}: frozenset({_codes(forest, node)}),\n" for node in nodes) + "}\n"
    return text + "\n" + parts.ROW_OF_TABLES


# ---------------------------------------------------------------- sums


def _sums(forest: Forest, packed: bool) -> str:
    by_row = forest._large_weights
    values, coef = (forest.leaf_values, forest.leaf_coef) if by_row else summands(forest)
    linear = _support.has_linear_leaves(forest)
    text = f"N_SUMS = {values.shape[1]}\n" + _data("_VALUES", values, packed)
    if linear:
        assert coef is not None
        leaf, column = np.nonzero((coef != 0).any(axis=2))
        start = np.searchsorted(leaf, np.arange(forest.n_leaves + 1))
        for name, table in {"_COEF_START": start, "_COEF_COLUMN": column, "_COEF": coef[leaf, column]}.items():
            text += _data(name, table, packed)
    if forest.base is not None:
        text += _data("_BASE", forest.base, False)
    if by_row:
        assert forest.leaf_weights is not None
        text += _data("_WEIGHTS", forest.leaf_weights, packed)
    start_at = "list(_BASE)" if forest.base is not None and forest.combine == "sum" else "[0.0] * N_SUMS"
    result = {"sum": "value", "mean": "value / N_TREES", "softmax": "value / sums[-1]"}[forest.combine]
    kept = "sums[:-1]" if forest.combine == "softmax" else "sums"
    if by_row:
        result, kept = "value", "sums"
    if forest.combine == "sum" or (result == "value" and forest.base is None):
        finish = "sums"
    elif forest.base is None:
        finish = f"[{result} for value in {kept}]"
    else:
        finish = f"[{result} + base for value, base in zip({kept}, _BASE)]"
    function = parts.SUMS_BY_ROW if by_row else parts.SUMS
    return text + "\n" + parts.SAYS[linear] + "\n" + function.replace("$START", start_at).replace("$FINISH", finish)
