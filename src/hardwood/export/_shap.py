"""A forest as the dictionary of trees that `shap.TreeExplainer` takes.

shap sends a row left when `x <= threshold`. Path-dependent values compare in float64, interventional ones keep
thresholds and leaf values in float32. So the dictionary asks for float32 rows, and has the largest float32 number below
each threshold: a float32 x goes left there when `x < threshold`. `shap_values` takes float64 rows as they are: it
replaces each cell by the number of its column's thresholds that are not above it, which float32 holds exactly.

What is explained are outputs before the link.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hardwood._typing import Float, Int
from hardwood.errors import reject
from hardwood.explain._checks import check_rows
from hardwood.export import _support
from hardwood.export._extra import optional
from hardwood.export._nodes import measured
from hardwood.forest import LEAF, THRESHOLD, Forest

# shap's interventional values number nodes in 16 bits, and binomial coefficients of columns in 32.
_MOST_NODES, _MOST_COLUMNS = 2**15 - 1, 30


def to_shap(forest: Forest, X: Any = None, sample_weight: Any = None) -> dict[str, Any]:
    """Return the forest as `shap.TreeExplainer(dictionary)` takes it, for float32 rows.

    Path-dependent values ask how many rows pass each node: pass such rows as `X`, with their weights if they have any.
    Each leaf must be reached by one of them; `forest.prune(X)` is the forest of the leaves that are.

    Interventional values, `shap.TreeExplainer(dictionary, background)`, need no `X`. The background must be float32
    numbers too, which shap does not see to. Of an array it takes at most 100 rows;
    `shap.maskers.Independent(background, len(background))` stands for all.
    """
    _support.check(forest, "shap")
    if X is None:
        if sample_weight is not None:
            reject("sample_weight", sample_weight, "has no rows that it belongs to", "pass X too")
        _check_interventional(forest)
        rows = np.zeros(forest.node_count)
    else:
        rows = _row_counts(forest, X, sample_weight)
    return _dictionary(forest, rows, _largest_float32_below, np.float32)


def _row_counts(forest: Forest, X: Any, sample_weight: Any = None) -> Float[np.ndarray, " nodes"]:
    rows = measured(forest, X, sample_weight).rows
    idle = int((rows == 0).sum())
    if idle:
        problem = f"does not reach {idle} of the {forest.node_count} nodes, so path-dependent values are undefined"
        reject("X", X, problem, "pass more rows, or explain forest.prune(X)")
    return rows


def _check_interventional(forest: Forest) -> None:
    for tree, nodes in enumerate(np.diff(forest.tree_start).tolist()):
        span = slice(*forest.tree_start[tree : tree + 2].tolist())
        columns = min(int(forest.depths[tree]), len(np.unique(forest.feature[span][forest.kind[span] != LEAF])))
        if nodes > _MOST_NODES or columns > _MOST_COLUMNS:
            problem = (
                f"has a tree of {nodes} nodes with up to {columns} columns on a path; shap's interventional values are "
                f"right up to {_MOST_NODES} and {_MOST_COLUMNS}"
            )
            reject("forest", forest, problem, "pass X, for path-dependent values, or truncate the trees")


def _dictionary(
    forest: Forest,
    rows: Float[np.ndarray, " nodes"],
    last_left: Callable[[Forest], Float[np.ndarray, " nodes"]],
    dtype: type[np.floating[Any]],
) -> dict[str, Any]:
    """Return shap's dictionary; `last_left` tells the last number that each split sends left."""
    threshold = last_left(forest)
    # No number is below -inf, and none is above +inf: the same split with its sides exchanged.
    turned = (forest.kind == THRESHOLD) & np.isneginf(forest.threshold)
    threshold = np.where(turned, np.inf, threshold)
    scale = forest.n_trees if _support.combination(forest) == "mean" else 1
    trees = []
    for first, end in zip(forest.tree_start[:-1].tolist(), forest.tree_start[1:].tolist(), strict=True):
        span = slice(first, end)
        leaf = forest.kind[span] == LEAF
        left, right = (
            np.where(leaf, -1, child[span] - first).astype(np.int32) for child in (forest.left, forest.right)
        )
        values = np.zeros((end - first, forest.n_outputs))  # shap works out the means at splits itself
        values[leaf] = forest.leaf_values[forest._leaf_index[span][leaf]] / scale
        trees.append(
            {
                "children_left": np.where(turned[span], right, left),
                "children_right": np.where(turned[span], left, right),
                "children_default": np.where(forest.missing_left[span], left, right),
                "features": np.where(leaf, -2, forest.feature[span]).astype(np.int32),
                "thresholds": threshold[span].copy(),
                "values": values,
                "node_sample_weight": rows[span].copy(),
            }
        )
    return {
        "trees": trees,
        "base_offset": np.zeros(forest.n_outputs) if forest.base is None else forest.base.copy(),
        "input_dtype": dtype,
        "internal_dtype": np.float64,
        "objective": None,
        "tree_output": _tree_output(forest),
    }


def _largest_float32_below(forest: Forest) -> Float[np.ndarray, " nodes"]:
    with np.errstate(over="ignore", under="ignore"):
        near = forest.threshold.astype(np.float32)
        return np.where(near < forest.threshold, near, np.nextafter(near, np.float32(-np.inf))).astype(np.float64)


def _tree_output(forest: Forest) -> str:
    """Return shap's word for what outputs are, from which it knows how to make probabilities of them."""
    if forest.link == "sigmoid":
        return "log_odds"
    return "probability" if forest.classes is not None and forest.link == "identity" else "raw_value"


# ---------------------------------------------------------------- values


def shap_values(forest: Forest, X: Any, background: Any = None) -> Any:
    """Return a `shap.Explanation` of the outputs, before the link, for the rows of `X`: Shapley values of each column.

    With `background`, a column that is left out takes the values of those rows (interventional; shap works in float32
    there). Without it, the rows of `X` that pass a split tell how a row goes on that has no value there
    (path-dependent). Every float32 or float64 row is explained at the leaves that it reaches.
    """
    _support.check(forest, "shap")
    shap = optional("shap", "shap_values")
    table = check_rows(forest, X).astype(np.float64)
    if background is None:
        trees = _dictionary(forest, _row_counts(forest, table), _below_rank, np.float64)
        explainer = shap.TreeExplainer(trees, feature_perturbation="tree_path_dependent")
    else:
        _check_interventional(forest)
        rows = _ranks(forest, check_rows(forest, background, "background"))
        trees = _dictionary(forest, np.zeros(forest.node_count), _below_rank, np.float64)
        masker = shap.maskers.Independent(rows, max_samples=len(rows))
        explainer = shap.TreeExplainer(trees, masker, feature_perturbation="interventional")
    found = explainer(_ranks(forest, table))
    names: dict[str, Any] = {}
    if forest.feature_names is not None:
        names["feature_names"] = list(forest.feature_names)
    labels = forest.output_names if forest.classes is None else forest.classes.tolist()
    if forest.n_outputs > 1 and labels is not None:
        names["output_names"] = list(map(str, labels))
    return shap.Explanation(found.values, found.base_values, table, **names)


def _cuts(forest: Forest) -> dict[int, Float[np.ndarray, " thresholds"]]:
    """Return the ascending thresholds of each column that is split."""
    split = forest.kind == THRESHOLD
    column = forest.feature[split]
    return {int(each): np.unique(forest.threshold[split][column == each]) for each in np.unique(column)}


def _ranks(forest: Forest, table: Float[np.ndarray, "rows features"]) -> Float[np.ndarray, "rows features"]:
    """Return how many of its column's thresholds are not above each cell; NaN where it is missing."""
    result = np.where(np.isnan(table), np.nan, 0.0)
    for column, cuts in _cuts(forest).items():
        known = ~np.isnan(table[:, column])
        result[known, column] = np.searchsorted(cuts, table[known, column].astype(np.float64), side="right")
    return result


def _below_rank(forest: Forest) -> Float[np.ndarray, " nodes"]:
    """Return the number between the ranks of cells that a split sends left and right."""
    result = np.zeros(forest.node_count)
    split = np.flatnonzero(forest.kind == THRESHOLD)
    for column, cuts in _cuts(forest).items():
        nodes: Int[np.ndarray, " splits"] = split[forest.feature[split] == column]
        result[nodes] = np.searchsorted(cuts, forest.threshold[nodes]) + 0.5
    return result
