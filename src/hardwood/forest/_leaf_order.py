# mypy: allow-untyped-defs, allow-untyped-calls
"""Which leaves of a tree must not say less than which others, when columns have directions.

Let a row move in one column of direction +1 (or -1), from one number to a larger (smaller) one. Leaf `a` comes before
leaf `b` when such a move leads from a row of `a` to a row of `b`. A tree is monotone exactly when no leaf says less
than one that comes before it.

Let `n` be the split at which the paths to `a` and `b` part. A move in another column takes the same side of `n`, so
the move is in `n`'s column. There the numbers of left leaves lie below those of right ones, and a missing value takes
one side only. So `a` comes before `b`, or `b` before `a`, exactly when `n`'s column has a direction, both can have a
number there, and in every other column some number, category or missing value is possible in both.

All pairs of `n` lead from the same of its sides. So no leaf comes before itself, not over others either, and when the
splits are done in the order one side, split, other side, then whatever a leaf has to hand on has reached it before its
turn: bounds over whole chains of leaves need no more memory than one number for each leaf.

Cost of a tree: for each split in such a column, the pairs of leaves on its two sides, times the levels below it. Where
all splits are in such columns, that is leaves^2 / 2 pairs; where none is, nothing. Memory: leaves x columns.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hardwood._numba import exact_kernel, inlined
from hardwood._typing import Bool, Float, Int, Integer, UInt8


class Tree(NamedTuple):
    """One tree; nodes count from its root, and a child stands after its parent."""

    left: Int[np.ndarray, " nodes"]  # -1 at leaves
    right: Int[np.ndarray, " nodes"]
    parent: Int[np.ndarray, " nodes"]  # -1 at the root
    leaf: Int[np.ndarray, " nodes"]  # the number of a leaf among the tree's leaves
    column: Int[np.ndarray, " nodes"]  # -1 at leaves
    threshold: Float[np.ndarray, " nodes"]
    below: Float[np.ndarray, " nodes"]  # the number before each threshold
    missing_left: Bool[np.ndarray, " nodes"]
    by_category: Bool[np.ndarray, " nodes"]
    codes_left: Integer[np.ndarray, "nodes words"]  # bit k of a node's words: category k goes left


class _Possible(NamedTuple):
    """What each leaf, counted from the left, can have in the columns that the tree splits on.

    Columns with categories come first. The interval is there about the numbers that are none.
    """

    low: Float[np.ndarray, "places leaves"]  # numbers from here; NaN where there are none
    last: Float[np.ndarray, "places leaves"]  # to here
    missing: UInt8[np.ndarray, "places leaves"]
    codes: Integer[np.ndarray, "places_with_categories leaves words"]
    size: Int[np.ndarray, " places_with_categories"]  # the number of categories
    anything: UInt8[np.ndarray, " leaves"]  # whether rows can reach the leaf


@inlined
def _constrained_splits(tree, direction):
    """Return the splits in columns with a direction: those of the side that comes first, the split, the others."""
    nodes = tree.column.shape[0]
    result, above = np.empty(nodes, np.int64), np.empty(nodes, np.int64)
    found = waiting = node = 0
    while node >= 0 or waiting > 0:
        while node >= 0:
            above[waiting] = node
            waiting += 1
            column = tree.column[node]
            node = tree.right[node] if column >= 0 and direction[column] < 0 else tree.left[node]
        waiting -= 1
        node = above[waiting]
        column = tree.column[node]
        if column >= 0 and direction[column] != 0:
            result[found] = node
            found += 1
        node = tree.left[node] if column >= 0 and direction[column] < 0 else tree.right[node]
    return result[:found]


@inlined
def _leaves_below(tree):
    """Return the leaf nodes from left to right, and which of them lie below each node: from where to where."""
    nodes = tree.column.shape[0]
    begin, end, ordered = np.zeros(nodes, np.int64), np.zeros(nodes, np.int64), np.empty((nodes + 1) // 2, np.int64)
    for node in range(nodes - 1, -1, -1):
        end[node] = 1 if tree.left[node] < 0 else end[tree.left[node]] + end[tree.right[node]]
    for node in range(nodes):
        end[node] += begin[node]
        if tree.left[node] < 0:
            ordered[begin[node]] = node
        else:
            begin[tree.left[node]] = begin[node]
            begin[tree.right[node]] = begin[node] + end[tree.left[node]]
    return ordered, begin, end


@inlined
def _places(tree, categories):
    """Return the place of every column that the tree splits on, columns with categories first, and how many there are.

    The last number is that of columns with categories.
    """
    place = np.full(categories.shape[0], -1)
    found = with_categories = 0
    for names in range(2):
        for node in range(tree.column.shape[0]):
            column = tree.column[node]
            if column >= 0 and place[column] < 0 and (categories[column] == 0) == (names == 1):
                place[column] = found
                found += 1
        if names == 0:
            with_categories = found
    return place, found, with_categories


@inlined
def _has_number(low, last, size):
    if low == last and size > 0:  # the only number may be a category
        return not (low >= 0 and low < size and low == np.floor(low))
    return low <= last


@inlined
def _possible_in(tree, direction, ordered, categories, place, places, with_categories):
    """Find what each leaf can have, if it lies below a split in a column with a direction."""
    leaves, words = ordered.shape[0], tree.codes_left.shape[1]
    low, last = np.full((places, leaves), -np.inf), np.full((places, leaves), np.inf)
    missing, anything = np.ones((places, leaves), np.uint8), np.ones(leaves, np.uint8)
    codes, sizes = np.zeros((with_categories, leaves, words), np.uint64), np.zeros(with_categories, np.int64)
    for column in range(categories.shape[0] if with_categories > 0 else 0):
        at, size = place[column], categories[column]
        if at >= 0 and size > 0:
            sizes[at] = size
            for code in range(size):
                for leaf in range(leaves):
                    codes[at, leaf, code // 64] |= np.uint64(1) << np.uint64(code % 64)
    for leaf in range(leaves):
        node = ordered[leaf]
        matters = False
        while tree.parent[node] >= 0:
            node = tree.parent[node]
            matters |= direction[tree.column[node]] != 0
        if not matters:
            continue
        node = ordered[leaf]
        while tree.parent[node] >= 0:
            child, node = node, tree.parent[node]
            at, goes_left, threshold = place[tree.column[node]], tree.left[node] == child, tree.threshold[node]
            with_missing = goes_left == tree.missing_left[node]
            if not with_missing:
                missing[at, leaf] = 0
            # No number is below -inf, and none stands before it. One that is no category goes where missing values go.
            if (tree.by_category[node] and not with_missing) or (goes_left and threshold == -np.inf):
                low[at, leaf], last[at, leaf] = np.inf, -np.inf
            elif goes_left and not tree.by_category[node]:
                last[at, leaf] = min(last[at, leaf], tree.below[node])
            elif not tree.by_category[node]:
                low[at, leaf] = max(low[at, leaf], threshold)
            if at < with_categories:
                for word in range(words):
                    here = tree.codes_left[node, word]
                    codes[at, leaf, word] &= here if goes_left else ~here
        node = ordered[leaf]
        while tree.parent[node] >= 0:
            node = tree.parent[node]
            at = place[tree.column[node]]
            size = sizes[at] if at < with_categories else 0
            if not _has_number(low[at, leaf], last[at, leaf], size):
                low[at, leaf], last[at, leaf] = np.nan, np.nan
            some = missing[at, leaf] != 0 or low[at, leaf] <= last[at, leaf]
            if size > 0:
                for word in range(words):
                    some = some or codes[at, leaf, word] != 0
            if not some:
                anything[leaf] = 0
    return _Possible(low, last, missing, codes, sizes, anything)


@inlined
def _in_common(possible, at, a, b):
    """Tell whether two leaves have something in common in a column with categories."""
    low, last = max(possible.low[at, a], possible.low[at, b]), min(possible.last[at, a], possible.last[at, b])
    numbers = possible.low[at, a] <= possible.last[at, a] and possible.low[at, b] <= possible.last[at, b]
    some = (possible.missing[at, a] & possible.missing[at, b]) != 0
    some = some or (numbers and _has_number(low, last, possible.size[at]))
    for word in range(possible.codes.shape[2]):
        some = some or (possible.codes[at, a, word] & possible.codes[at, b, word]) != 0
    return some


@inlined
def _keep_common(low, last, missing, at, a, begin, related, count):
    """Take out of `related`, about leaves from `begin` on, those that have nothing in common with leaf `a`.

    Indices are unsigned, so that numba does not test each one for being negative, and LLVM makes SIMD code of the loop.
    """
    lowest, highest, with_missing = low[at, a], last[at, a], missing[at, a]
    for b in range(np.uint64(count)):
        numbers = (low[at, begin + b] <= highest) & (lowest <= last[at, begin + b])
        related[b] &= np.uint8(numbers) | (with_missing & missing[at, begin + b])


@inlined
def _join(a, b, group):
    """Put two leaves into one group; a group's lowest leaf stands for it, and others point towards that."""
    while group[a] != a:
        group[a] = group[group[a]]
        a = group[a]
    while group[b] != b:
        group[b] = group[group[b]]
        b = group[b]
    group[max(a, b)] = min(a, b)


@inlined
def _bring_back(values, best):
    """Let a leaf that has the value itself stand for itself."""
    for leaf in range(best.shape[0]):
        for c in range(best.shape[1]):
            if values[best[leaf, c], c] == values[leaf, c]:
                best[leaf, c] = leaf


@exact_kernel
def bound_leaves(tree, direction, categories, chains, values, upper, lower, group):
    """Write for each leaf and column of `values` which leaf has the largest value among itself and those before it.

    In `lower`, it is the smallest among itself and those after it. A leaf that has that value itself counts first, then
    the lowest number. Without `chains` only those count that one move leads from, or to. In `group`, it is the lowest
    leaf that each is connected with, whichever comes before. What has no rows is not written. `categories` counts those
    of each column.
    """
    leaves, outputs = values.shape
    for leaf in range(leaves):
        for c in range(outputs):
            if upper.shape[0] > 0:
                upper[leaf, c] = leaf
            if lower.shape[0] > 0:
                lower[leaf, c] = leaf
        if group.shape[0] > 0:
            group[leaf] = leaf
    splits = _constrained_splits(tree, direction)
    if splits.shape[0] == 0:
        return
    ordered, begin, end = _leaves_below(tree)
    place, places, with_categories = _places(tree, categories)
    possible = _possible_in(tree, direction, ordered, categories, place, places, with_categories)
    low, last, missing, anything = possible.low, possible.last, possible.missing, possible.anything
    leaf_of, parent, column = tree.leaf, tree.parent, tree.column
    with_number, related = np.empty(leaves, np.uint8), np.empty(leaves, np.uint8)
    for turn in range(2):
        # What comes first is handed on forwards, then what comes last is handed on backwards.
        forwards = turn == 0
        best = upper if forwards else lower
        joins = forwards and group.shape[0] > 0
        for number in range(splits.shape[0] if best.shape[0] > 0 or joins else 0):
            split = splits[number if forwards else splits.shape[0] - 1 - number]
            own = place[column[split]]
            left_first = (direction[column[split]] > 0) == forwards
            middle = begin[tree.right[split]]
            count = end[split] - middle
            for b in range(count):
                with_number[b] = anything[middle + b] & np.uint8(low[own, middle + b] <= last[own, middle + b])
            for a in range(begin[split], middle):
                if anything[a] == 0 or not low[own, a] <= last[own, a]:
                    continue
                for b in range(np.uint64(count)):
                    related[b] = with_number[b]
                # Only columns on which both paths split below here matter: elsewhere one has all that the other has.
                node = parent[ordered[a]]
                while node != split:
                    at = place[column[node]]
                    node = parent[node]
                    if at == own:
                        continue
                    if at < with_categories:
                        for b in range(count):
                            related[b] &= np.uint8(_in_common(possible, at, a, middle + b))
                        continue
                    _keep_common(low, last, missing, np.uint64(at), np.uint64(a), np.uint64(middle), related, count)
                for b in range(count):
                    if related[b] == 0:
                        continue
                    first, second = leaf_of[ordered[a]], leaf_of[ordered[middle + b]]
                    if not left_first:
                        first, second = second, first
                    for c in range(best.shape[1]):
                        offered, holder = best[first, c] if chains else first, best[second, c]
                        new, old = values[offered, c], values[holder, c]
                        more = new > old if forwards else new < old
                        if more or (new == old and offered < holder):
                            best[second, c] = offered
                    if joins:
                        _join(first, second, group)
    _bring_back(values, upper)
    _bring_back(values, lower)
    for leaf in range(group.shape[0]):
        lowest = leaf
        while group[lowest] != lowest:
            lowest = group[lowest]
        group[leaf] = lowest
