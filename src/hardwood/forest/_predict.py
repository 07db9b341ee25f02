"""From rows to predictions: picks the compiled kernels or NumPy, and puts leaves together."""

from __future__ import annotations

import functools
import os
import warnings
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from hardwood._typing import Float, Int, Shaped
from hardwood.errors import reject
from hardwood.forest import _combine, _numpy
from hardwood.forest._inputs import matrix

if TYPE_CHECKING:
    from hardwood.forest._forest import Forest

# The most numbers in a working array of shape (rows, trees, outputs).
_WORKING = 1 << 20


def _backend() -> ModuleType:
    """Return the module that finds and adds up leaves: the kernels, or NumPy if the user asks or numba is missing."""
    if os.environ.get("HARDWOOD_NUMPY") == "1":
        return _numpy
    return _compiled()


@functools.cache
def _compiled() -> ModuleType:
    try:
        from hardwood.forest import _kernels
    except ImportError as reason:
        message = f"numba cannot be imported ({reason}): forests predict with NumPy, which is many times slower"
        warnings.warn(message, RuntimeWarning, stacklevel=2)
        return _numpy
    return _kernels


def predict(forest: Forest, X: Any) -> Shaped[np.ndarray, " rows"] | Shaped[np.ndarray, "rows outputs"]:
    """Predict labels, or outputs after the link."""
    combined = outputs(forest, X)
    if forest.classes is not None:
        return forest.classes[_combine.chosen_classes(forest, combined)]
    linked = _combine.apply_link(forest.link, combined)
    return linked[:, 0] if linked.shape[1] == 1 else linked


def predict_proba(forest: Forest, X: Any) -> Float[np.ndarray, "rows classes"]:
    """Return the probability of each class."""
    if forest.classes is None:
        reject("forest", forest, "has no classes, so no probabilities", "call predict: it predicts numbers")
    return _combine.probabilities(forest, outputs(forest, X))


def outputs(forest: Forest, X: Any) -> Float[np.ndarray, "rows outputs"]:
    """Return the combined outputs plus base."""
    table = matrix(forest, X)
    if forest._large_weights:
        return _outputs_row_by_row(forest, table)
    return _combine.finish_sums(forest, _backend().sums(forest, table))


def _outputs_row_by_row(forest: Forest, table: Float[np.ndarray, "rows features"]) -> Float[np.ndarray, "rows outputs"]:
    """Return the outputs where each row needs a softmax of its own, because leaf weights are too large."""
    total = np.zeros((len(table), forest.n_outputs))
    step = max(1, _WORKING // (forest.n_trees * forest.n_outputs))
    for start in range(0, len(table), step):
        said = tree_outputs(forest, table[start : start + step])
        weight = tree_weights(forest, table[start : start + step])
        for tree in range(forest.n_trees):
            with np.errstate(invalid="ignore"):
                total[start : start + step] += weight[:, tree, None] * said[:, tree]
    return total if forest.base is None else total + forest.base


def leaf_nodes(forest: Forest, X: Any) -> Int[np.ndarray, "rows trees"]:
    """Return the leaf node, counted through all trees, that each row reaches in each tree."""
    found = _backend().leaves(forest, matrix(forest, X))
    return np.flatnonzero(forest._leaf_index >= 0)[found]


def tree_outputs(forest: Forest, X: Any) -> Float[np.ndarray, "rows trees outputs"]:
    """Return what each tree says for each row."""
    table = matrix(forest, X)
    found = _backend().leaves(forest, table)
    said = _numpy.leaf_outputs(
        forest.leaf_values, forest.leaf_coef, found.ravel(), np.repeat(table, forest.n_trees, axis=0)
    )
    return said.reshape(len(table), forest.n_trees, forest.n_outputs)


def tree_weights(forest: Forest, X: Any) -> Float[np.ndarray, "rows trees"]:
    """Return the weight of each tree for each row."""
    table = matrix(forest, X)
    if forest.leaf_weights is None:
        each = 1.0 if forest.combine == "sum" else 1.0 / forest.n_trees
        return np.full((len(table), forest.n_trees), each)
    return _combine.softmax(forest.leaf_weights[_backend().leaves(forest, table)])


def decision_path(forest: Forest, X: Any) -> Any:
    """Return a CSR matrix (rows, nodes) with a one at each node that a row passes.

    Time and memory are linear in the number of ones. They are written from the leaves upwards, all paths together.
    """
    from scipy.sparse import csr_matrix

    leaf = leaf_nodes(forest, X)
    at = leaf.ravel()
    ends = np.cumsum(forest._node_depth[at] + 1)
    nodes = np.empty(ends[-1] if len(ends) else 0, np.int64)
    place = ends - 1
    while len(at):
        nodes[place] = at
        above = forest._parent[at]
        inside = above >= 0
        at, place = above[inside], place[inside] - 1
    row_ends = ends[forest.n_trees - 1 :: forest.n_trees]
    starts = np.concatenate([[0], row_ends])
    return csr_matrix((np.ones(len(nodes), np.int64), nodes, starts), shape=(len(leaf), forest.node_count))
