"""A forest as JSON that a person can read: columns by name, categories by word, each tree as nested splits.

Numbers are written so that they come back to the last bit; an infinite one is the text "inf" or "-inf". A node says its
number in the tree, as `Forest.apply` counts, so the arrays come back in their order too.
"""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np

from hardwood.errors import reject
from hardwood.export import _support
from hardwood.export._categories import json_value
from hardwood.export._json_read import FORMAT, MOST_LEVELS, VERSION, read
from hardwood.forest import CATEGORIES, LEAF, OBLIQUE, Forest


def to_json(forest: Forest) -> str:
    """Return the forest as JSON text, which `from_json` reads back to an equal forest.

    Arrays of splits of a kind that no tree has are left out, so they come back as None.
    """
    _support.check(forest, "json")
    if forest.depth > MOST_LEVELS:
        problem = f"has a tree of {forest.depth} levels, and JSON readers give up on text nested that deeply"
        reject("forest", forest, problem, "save it with Forest.save, or truncate it")
    lines = ["{", f' "format": {_dump(FORMAT)},', f' "version": {VERSION},']
    lines += [f' "combine": {_dump(forest.combine)},', f' "link": {_dump(forest.link)},']
    lines.append(f' "base": {_dump(None if forest.base is None else forest.base.tolist())},')
    outputs = {"count": forest.n_outputs, "names": forest.output_names}
    lines += [f' "outputs": {_dump(outputs)},', f' "classes": {_dump(_classes(forest))},']
    columns = [_dump(_column(forest, column)) for column in range(forest.n_features)]
    lines += [' "features": [', ",\n".join(f"  {column}" for column in columns), " ],", ' "trees": [']
    for tree in range(forest.n_trees):
        _write_tree(forest, tree, lines)
        lines[-1] += "," if tree + 1 < forest.n_trees else ""
    return "\n".join([*lines, " ]", "}"]) + "\n"


def _dump(value: Any) -> str:
    return json.dumps(value, allow_nan=False)


def _number(value: float) -> float | str:
    return value if math.isfinite(value) else repr(value)


def _classes(forest: Forest) -> dict[str, Any] | None:
    if forest.classes is None:
        return None
    labels = [_number(label) if isinstance(label, float) else label for label in forest.classes.tolist()]
    return {"dtype": forest.classes.dtype.str.lstrip("<>|="), "labels": labels}


def _column(forest: Forest, column: int) -> dict[str, Any]:
    described: dict[str, Any] = {}
    if forest.feature_names is not None:
        described["name"] = forest.feature_names[column]
    if forest.feature_types is not None:
        described["type"] = forest.feature_types[column]
    if column in forest.categories:
        described["categories"] = [json_value(word) for word in forest.categories[column]]
    return described


def _write_tree(forest: Forest, tree: int, lines: list[str]) -> None:
    """Append the lines of one tree, without recursion: a node, then its left side, then its right."""
    first = int(forest.tree_start[tree])
    waiting: list[tuple[int, str, str]] = [(first, "", "")]  # node, what stands before it, what closes after it
    while waiting:
        node, before, after = waiting.pop()
        indent = " " * (2 + int(forest._node_depth[node]))
        inside = ", ".join(f"{_dump(key)}: {_dump(value)}" for key, value in _node(forest, node, first).items())
        if forest.kind[node] == LEAF:
            lines.append(f"{indent}{before}{{{inside}}}{after}")
        else:
            lines.append(f"{indent}{before}{{{inside},")
            waiting.append((int(forest.right[node]), '"right": ', "}" + after))
            waiting.append((int(forest.left[node]), '"left": ', ","))


def _node(forest: Forest, node: int, first: int) -> dict[str, Any]:
    """Return a node without its sides."""
    result: dict[str, Any] = {"node": node - first}
    kind = forest.kind[node]
    if kind == LEAF:
        return {**result, **_leaf(forest, int(forest._leaf_index[node]))}
    if kind == OBLIQUE:
        assert forest.weight_start is not None and forest.weight_feature is not None and forest.weight_value is not None
        span = slice(*forest.weight_start[node : node + 2].tolist())
        names = [_name(forest, column) for column in forest.weight_feature[span].tolist()]
        result["weights"] = [list(pair) for pair in zip(names, forest.weight_value[span].tolist(), strict=True)]
    else:
        result["feature"] = _name(forest, int(forest.feature[node]))
    if kind == CATEGORIES:
        assert forest.category_start is not None and forest.category_codes is not None
        codes = forest.category_codes[slice(*forest.category_start[node : node + 2].tolist())]
        words = forest.categories[int(forest.feature[node])]
        result["in"] = [json_value(words[code]) for code in codes.tolist()]
    else:
        result["below"] = _number(float(forest.threshold[node]))
    result["missing"] = "left" if forest.missing_left[node] else "right"
    return result


def _leaf(forest: Forest, leaf: int) -> dict[str, Any]:
    result: dict[str, Any] = {"values": forest.leaf_values[leaf].tolist()}
    if forest.leaf_weights is not None:
        result["weight"] = float(forest.leaf_weights[leaf])
    if forest.leaf_coef is not None:
        coef = forest.leaf_coef[leaf]
        used = np.flatnonzero(((coef != 0) | np.signbit(coef)).any(axis=1))  # -0.0 comes back as it is
        result["coefficients"] = [[_name(forest, column), coef[column].tolist()] for column in used.tolist()]
    return result


def _name(forest: Forest, column: int) -> str | int:
    return column if forest.feature_names is None else forest.feature_names[column]


def from_json(text: Any) -> Forest:
    """Read a forest from the text that `to_json` wrote.

    Raises `ForestFileError` where the text is anything else. Nothing in it is executed; it may come from a stranger.
    """
    return read(text)
