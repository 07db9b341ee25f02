"""What each column contributes to each prediction, along the row's paths, so that it all adds up."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from hardwood._typing import Float
from hardwood.draw._checks import check_tree
from hardwood.explain._checks import check_rows, check_weights
from hardwood.explain._expected import (
    Expected,
    SplitColumns,
    expect,
    leaf_slopes,
    linear_cells,
    reached,
    split_columns,
    tree_weights,
)
from hardwood.forest import LEAF, Forest
from hardwood.forest._inputs import matrix


class Contributions(NamedTuple):
    """What columns contribute: `base + values.sum(axis=1)` are the forest's outputs, to rounding."""

    values: Float[np.ndarray, "rows features outputs"]
    base: Float[np.ndarray, "rows outputs"]


def contributions(forest: Forest, X: Any, background: Any = None) -> Contributions:
    """Return what each column contributes to the outputs of each row, before the link.

    A split that a row passes contributes the step that the expected value takes there: the mean of what the tree says
    over the rows of `background` (by default `X` itself) that pass the next node, less the mean over those that pass
    the split (Saabas, 2014). Steps in all trees are weighed like the trees and added up for each column; `base` is what
    the roots expect, plus the forest's own base. Where trees are weighed by the leaves that the row reaches, the row's
    weights are taken as they are for steps and roots alike, so that `base` differs from row to row.

    An oblique split is shared out among its columns in proportion to weight times standard deviation in `background`.
    In a linear leaf a column contributes as well its coefficient times its cell's distance from the mean cell of the
    leaf's rows. A node that no row of `background` passes expects the mean of its two sides.
    The cost is linear in rows x trees x depth x outputs, and in rows x trees x features x outputs with linear leaves.
    """
    # SciPy loads when it is needed: the room stays light.
    from scipy.sparse import csr_matrix

    check_tree(forest, 0)
    table = matrix(forest, X)
    name = "X" if background is None else "background"
    given = check_rows(forest, X if background is None else background, name)
    share = check_weights(None, len(given))
    expected = expect(forest, given, share, name)
    steps = _steps(forest, expected, split_columns(forest, given, share))
    cells = linear_cells(forest, table)
    at_roots = expected.value[forest.tree_start[:-1]]

    values = np.zeros((len(table), forest.n_features, forest.n_outputs))
    base = np.zeros((len(table), forest.n_outputs))
    for rows, leaf in reached(forest, table):
        weight = tree_weights(forest, leaf)
        starts = np.arange(len(leaf) + 1) * forest.n_trees
        reach = csr_matrix((weight.ravel(), leaf.ravel(), starts), shape=(len(leaf), forest.n_leaves))
        for output, step in enumerate(steps):
            values[rows, :, output] = (reach @ step).toarray()
        base[rows] = weight @ at_roots
        for tree in range(forest.n_trees if forest.leaf_coef is not None else 0):
            slopes = leaf_slopes(forest, expected, leaf[:, tree], cells[rows])
            with np.errstate(invalid="ignore", over="ignore"):
                values[rows] += weight[:, tree, None, None] * slopes
    if forest.base is not None:
        base += forest.base
    return Contributions(values, base)


def _steps(forest: Forest, expected: Expected, columns: SplitColumns) -> list[Any]:
    """Return for each output a sparse matrix (leaves, features): the steps on the path to each leaf, by column."""
    from scipy.sparse import coo_matrix

    at = np.flatnonzero(forest.kind == LEAF)
    leaf = np.arange(len(at))
    leaves, splits, changes = [leaf[:0]], [leaf[:0]], [np.zeros((0, forest.n_outputs))]
    while len(at):
        above = forest._parent[at]
        inside = above >= 0
        at, above, leaf = at[inside], above[inside], leaf[inside]
        leaves.append(leaf)
        splits.append(above)
        changes.append(expected.value[at] - expected.value[above])
        at = above
    where, change = (np.concatenate(leaves), np.concatenate(splits)), np.concatenate(changes)
    shares = coo_matrix((columns.share, (columns.node, columns.column)), shape=(forest.node_count, forest.n_features))
    shape = (forest.n_leaves, forest.node_count)
    return [coo_matrix((change[:, k], where), shape=shape).tocsr() @ shares.tocsr() for k in range(forest.n_outputs)]
