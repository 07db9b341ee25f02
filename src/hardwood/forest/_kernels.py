# mypy: allow-untyped-defs, allow-untyped-calls
"""Compiled prediction: rows down all trees, then leaves added up in the order of the trees.

Cost: rows x trees x depth steps. In a batch, rows come in blocks; there the first six levels of every tree are rows x
trees x (crown splits / vector width) independent comparisons instead (see `_crown`), and what lies below is gone down
together. One row goes down all trees together. Everything is added up in float64, one tree after another, so that all
ways to the same leaves give the same sums to the last bit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hardwood._numba import available_threads, exact_kernel, run_chunks
from hardwood._typing import Float, Int
from hardwood.forest._combine import start_sums
from hardwood.forest._crown import BLOCK, DEEPEST, crown, lanes_of
from hardwood.forest._plan import AT_CATEGORIES, AT_LEAF

if TYPE_CHECKING:
    from hardwood.forest._forest import Forest

# So few rows go down one by one, all trees together: a block would be mostly padding.
_FEW = 2
# A thread is worth waking for so many rows times trees.
_WORK = 1 << 15
# Going down together looks up after so many levels, and stops when fewer than one in so many items is on its way.
_ROUND, _PATIENCE = 4, 5

_LANES32, _LANES64 = lanes_of(4), lanes_of(8)
_NOWHERE = np.zeros((0, 0), np.int64)


@exact_kernel
def _category_goes_right(cell, codes, first, last, size, missing_right):
    """Decide a category split. What is no code of the vocabulary is missing."""
    if not (cell >= 0 and cell < size) or cell != np.floor(cell):
        return missing_right
    code = int(cell)
    while first < last:
        middle = (first + last) // 2
        if codes[middle] < code:
            first = middle + 1
        elif codes[middle] > code:
            last = middle
        else:
            return 0
    return 1


@exact_kernel
def _oblique_goes_right(X, row, columns, weights, span, threshold, missing_right):
    """Decide an oblique split."""
    total = 0.0
    for k in range(span[0], span[1]):
        cell = np.float64(X[row, columns[k]])
        if np.isnan(cell):
            return missing_right
        total += weights[k] * cell
    return 0 if total < threshold else 1


@exact_kernel
def _walk_on(X, first, step, count, at, nodes):
    """Take the items that are not at a leaf yet there, over splits of any kind; items are those of `_descend`."""
    for item in range(count):
        row, node = first + step * item, np.int64(at[item])
        while True:
            where = nodes.column[node]
            if where >= 0:
                cell = np.float64(X[row, where])
                right = 0 if cell < nodes.cut[node] else 1
                if np.isnan(cell):
                    right = nodes.missing_right[node]
            elif where == AT_LEAF:
                break
            elif where == AT_CATEGORIES:
                cell = np.float64(X[row, nodes.feature[node]])
                first_code, last_code = nodes.category_start[node], nodes.category_start[node + 1]
                size, missing = nodes.vocabulary[nodes.feature[node]], nodes.missing_right[node]
                right = _category_goes_right(cell, nodes.category_codes, first_code, last_code, size, missing)
            else:
                span = nodes.weight_start[node], nodes.weight_start[node + 1]
                cut, missing = nodes.cut[node], nodes.missing_right[node]
                right = _oblique_goes_right(X, row, nodes.weight_feature, nodes.weight_value, span, cut, missing)
            node = nodes.child[node, right]
        at[item] = node


@exact_kernel
def _descend(X, first, step, count, levels, at, column, cut, hop, missing_right):
    """Take `count` items down together, level by level, until few of them are left at threshold splits.

    An item is a row in one tree, or a tree for one row: item `i` compares row `first + step * i` and stands at node
    `at[i]`. A single walk waits for each comparison; here the processor has many to do at a time. There is no branch,
    since one that depends on the data would be guessed wrong half the time, so items that have arrived hop in place.
    Return whether all items stand at leaves.
    """
    waiting = count
    while levels > 0 and _PATIENCE * waiting > count:
        for _ in range(min(levels, _ROUND)):
            for item in range(count):
                node = np.uintp(at[item])
                cell = np.float64(X[first + step * item, np.uintp(max(column[node], 0))])
                missing = np.isnan(cell)
                right = ((not cell < cut[node]) & (not missing)) | (missing & (missing_right[node] != 0))
                at[item] = hop[2 * node + np.uintp(right)]
        levels -= _ROUND
        waiting = 0
        for item in range(count):
            waiting += 1 if column[np.uintp(at[item])] >= 0 else 0
    arrived = True
    for item in range(count):
        arrived &= column[np.uintp(at[item])] == AT_LEAF
    return arrived


@exact_kernel
def _add_leaves(X, first, step, count, at, leaf, sums, values, coef):
    """Add what the leaves of items say to the sums of their rows: the constant, then the terms in column order."""
    for item in range(count):
        row, where = np.uintp(first + step * item), np.uintp(leaf[np.uintp(at[item])])
        if coef.shape[0] == 0:
            for k in range(values.shape[1]):
                sums[row, k] += values[where, k]
            continue
        for k in range(values.shape[1]):
            total = values[where, k]
            for column in range(coef.shape[1]):
                cell = np.float64(X[row, column])
                if coef[where, column, k] != 0 and not np.isnan(cell):
                    total += coef[where, column, k] * cell
            sums[row, k] += total


@exact_kernel
def _sum_rows(X, sums, nodes, values, coef, root, depth):
    """Add up all trees for each row, one row at a time."""
    trees = root.shape[0]
    at = np.empty(trees, np.uint32)
    for row in range(X.shape[0]):
        at[:] = root
        if not _descend(X, row, 0, trees, depth, at, nodes.column, nodes.cut, nodes.hop, nodes.missing_right):
            _walk_on(X, row, 0, trees, at, nodes)
        _add_leaves(X, row, 0, trees, at, nodes.leaf, sums, values, coef)


@exact_kernel
def _load_block(X, first, rows, used, cells):
    """Copy the used columns of a block of rows, column by column; return whether a cell is NaN."""
    missing = False
    for row in range(rows):
        for position in range(used.shape[0]):
            cell = X[first + row, used[position]]
            cells[position * BLOCK + row] = cell
            missing |= np.isnan(cell)
    return missing


@exact_kernel
def _blocks(X, start, stop, sums, found, crowns, nodes, values, coef):
    """Find the leaves of rows `start:stop`, a block of rows at a time, tree after tree.

    Add them up in `sums`, or, where `found` has rows, write the row of the leaf arrays there instead.
    """
    only_find = found.shape[0] > 0
    cells = np.zeros(crowns.used.shape[0] * BLOCK, X.dtype)
    below = np.zeros(BLOCK << (DEEPEST - 3), np.uint32)
    at = np.zeros(BLOCK, np.uint32)
    sum_of_row = np.zeros(BLOCK)
    direct = crowns.exit_value.shape[0] > 0 and not only_find
    lanes = _LANES32 if X.itemsize == 4 else _LANES64
    for first in range(start, stop, BLOCK):
        rows = min(BLOCK, stop - first)
        padded = (rows + lanes - 1) // lanes * lanes
        missing = _load_block(X, first, rows, crowns.used, cells)
        if direct:
            sum_of_row[:rows] = sums[first : first + rows, 0]
        for tree in range(crowns.depth.shape[0]):
            depth, exit_ = crowns.depth[tree], crowns.first_exit[tree]
            if depth == 0:
                at[:] = 0
            else:
                crown(
                    cells, crowns.column, crowns.cut, crowns.missing_right, crowns.unit[tree], depth, missing,
                    padded, lanes, below, at,
                )  # fmt: skip
            if direct and crowns.closed[tree]:
                value = crowns.exit_value[exit_ : exit_ + (1 << depth)]
                for row in range(rows):
                    sum_of_row[row] += value[np.uint32(at[row])]
                continue
            node = crowns.exit[exit_ : exit_ + (1 << depth)]
            for row in range(rows):
                at[row] = node[np.uint32(at[row])]
            if not crowns.closed[tree]:
                levels = crowns.levels_below[tree]
                if not _descend(X, first, 1, rows, levels, at, nodes.column, nodes.cut, nodes.hop, nodes.missing_right):
                    _walk_on(X, first, 1, rows, at, nodes)
            if only_find:
                for row in range(rows):
                    found[first + row, tree] = nodes.leaf[np.uintp(at[row])]
            elif direct:
                for row in range(rows):
                    sum_of_row[row] += values[nodes.leaf[np.uintp(at[row])], 0]
            else:
                _add_leaves(X, first, 1, rows, at, nodes.leaf, sums, values, coef)
        if direct:
            sums[first : first + rows, 0] = sum_of_row[:rows]


def sums(forest: Forest, X: Float[np.ndarray, "rows features"]) -> Float[np.ndarray, "rows summands"]:
    """Return the sums over trees of what the reached leaves add."""
    plan = forest._plan
    total = start_sums(forest, X.shape[0], plan.values.shape[1])
    if X.shape[0] <= _FEW:
        _sum_rows(X, total, plan.nodes, plan.values, plan.coef, plan.root, forest.depth)
        return total
    crowns = plan.crowns32 if X.dtype == np.float32 else plan.crowns64

    def work(start: int, stop: int) -> None:
        _blocks(X, start, stop, total, _NOWHERE, crowns, plan.nodes, plan.values, plan.coef)

    run_chunks(work, X.shape[0], available_threads(), _smallest(forest))
    return total


def leaves(forest: Forest, X: Float[np.ndarray, "rows features"]) -> Int[np.ndarray, "rows trees"]:
    """Return the leaf, as its row of `leaf_values`, that each row reaches in each tree."""
    plan = forest._plan
    found = np.empty((X.shape[0], forest.n_trees), np.int64)
    total = np.zeros((0, plan.values.shape[1]))
    crowns = plan.crowns32 if X.dtype == np.float32 else plan.crowns64

    def work(start: int, stop: int) -> None:
        _blocks(X, start, stop, total, found, crowns, plan.nodes, plan.values, plan.coef)

    run_chunks(work, X.shape[0], available_threads(), _smallest(forest))
    return found


def _smallest(forest: Forest) -> int:
    """Return the fewest rows that are worth a thread."""
    return max(BLOCK, _WORK // forest.n_trees)
