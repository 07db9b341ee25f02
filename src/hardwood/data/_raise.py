"""From a forest on raw columns to one on encoded columns that sends given rows the same way.

This is the way back from `lower`, as far as there is one: encoding rounds, and a set of categories need not be what
one threshold on one encoded cell can say. So it is exact for the rows that it is given, where their encoded cells
differ, and for sets of categories that one cell can tell; elsewhere it agrees with as much weight as it can.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from hardwood._typing import Bool, Float, Int
from hardwood.data._categories import CategoryCells, known_codes
from hardwood.data._columns import Columns
from hardwood.data._monotone import Monotone
from hardwood.errors import reject
from hardwood.forest import CATEGORIES, LEAF, THRESHOLD, Forest

_LARGEST = float(np.finfo(np.float32).max)
_Splits = tuple[Float[np.ndarray, " nodes"], Bool[np.ndarray, " nodes"]]  # thresholds, and where children change places


def raise_forest(
    forest: Forest,
    columns: Columns,
    parts: Sequence[Monotone | CategoryCells],
    names: Sequence[str],
    raw: Float[np.ndarray, "rows columns"],
    weight: Float[np.ndarray, " rows"],
) -> Forest:
    """Return the forest on encoded columns, called `names`, that agrees with `forest` on the rows of `raw`.

    Nodes keep their numbers; two kinds of split exchange their children: one that all encoded numbers pass, and one by
    category where the cell orders the categories the other way round. Every threshold is a finite float32.
    Cost: sorting each column; for a set of categories, the column's categories times their cells.
    """
    _check(forest, columns)
    raw, weight = raw[weight > 0], weight[weight > 0]
    feature, threshold = forest.feature.copy(), forest.threshold.copy()
    exchanged = np.zeros(forest.node_count, bool)
    start = 0
    for column, part in enumerate(parts):
        nodes = np.flatnonzero((forest.kind != LEAF) & (forest.feature == column))
        if isinstance(part, Monotone):
            feature[nodes] = start
            threshold[nodes], exchanged[nodes] = _numbers(part, forest.threshold[nodes], raw[:, column], weight)
            start += 1
        else:
            left = _left_words(forest, nodes, columns, column)
            codes = known_codes(raw[:, column], len(part.values))
            # Counting nothing gives integers.
            of_words = np.bincount(codes[codes >= 0], weight[codes >= 0], minlength=len(part.values)).astype(np.float64)
            made: dict[bytes, tuple[int, float, bool]] = {}
            for node, words in zip(nodes.tolist(), left, strict=True):
                key = words.tobytes()
                if key not in made:
                    made[key] = _cell_split(part.values, words, of_words)
                cell, threshold[node], exchanged[node] = made[key]
                feature[node] = start + cell
            start += part.values.shape[1]
    return replace(
        forest,
        kind=np.where(forest.kind == LEAF, LEAF, THRESHOLD),
        left=np.where(exchanged, forest.right, forest.left),
        right=np.where(exchanged, forest.left, forest.right),
        feature=feature,
        threshold=threshold,
        missing_left=forest.missing_left ^ exchanged,
        n_features=start,
        category_start=None,
        category_codes=None,
        weight_start=None,
        weight_feature=None,
        weight_value=None,
        feature_names=tuple(names),
        feature_types=None,
        categories={},
    )


# ---------------------------------------------------------------- numbers


def _numbers(
    part: Monotone,
    threshold: Float[np.ndarray, " nodes"],
    x: Float[np.ndarray, " rows"],
    weight: Float[np.ndarray, " rows"],
) -> _Splits:
    """Return thresholds on a column's images that part its rows as thresholds on its numbers do.

    They stand halfway between the nearest images on the two sides. Where these are the same, rows of that image go
    where most of their weight belongs. Where there are no rows on one side, the threshold's own image is taken,
    moved up just so far that all rows stay on their side.
    """
    order = np.argsort(x, kind="stable")[: int((~np.isnan(x)).sum())]
    image, rows = part.transform(x[order]), len(order)
    below = np.searchsorted(x[order], threshold, side="left")
    total = np.concatenate([[0.0], np.cumsum(weight[order])])
    own = part.transform(threshold)
    if rows == 0:
        return _finite(np.where(np.isposinf(threshold), np.inf, own))
    low, high = image[np.maximum(below - 1, 0)], image[np.minimum(below, rows - 1)]
    first, last = np.searchsorted(image, low, side="left"), np.searchsorted(image, low, side="right")
    tied_left = total[below] - total[first] >= total[last] - total[below]
    # A tie is decided by moving the border to where the next lower, or the next higher, image begins.
    border = np.where(low < high, below, np.where(tied_left, last, first))
    low, high = image[np.maximum(border - 1, 0)], image[np.minimum(border, rows - 1)]
    with np.errstate(over="ignore"):
        beyond = np.nextafter(image[-1], np.float32(np.inf))
    # A border that ties have moved to an end is just beside the rows, not at the threshold's image.
    at_start = np.where(below == 0, own, image[0])
    at_end = np.where(below == rows, np.where(np.isposinf(threshold), np.inf, np.maximum(own, beyond)), beyond)
    return _finite(np.where(border == 0, at_start, np.where(border == rows, at_end, _between(low, high))))


def _between(low: Float[np.ndarray, " gaps"], high: Float[np.ndarray, " gaps"]) -> Float[np.ndarray, " gaps"]:
    """Return float32 numbers halfway, above `low` and not above `high` where these differ."""
    middle = ((low.astype(np.float64) + high) / 2).astype(np.float32)
    return np.where(middle <= low, high, middle)


def _finite(threshold: Float[np.ndarray, " nodes"]) -> _Splits:
    """Replace a threshold of infinity, which all images pass, by one that none passes, the children exchanged."""
    everything = np.isposinf(threshold)
    return np.where(everything, -_LARGEST, threshold).astype(np.float64), everything


# ---------------------------------------------------------------- categories


def _left_words(
    forest: Forest, nodes: Int[np.ndarray, " nodes"], columns: Columns, column: int
) -> Bool[np.ndarray, "nodes words"]:
    """Return which of the encoder's categories each split sends left; one that the forest does not know is missing."""
    words = columns.vocabularies[column] or ()
    code = {word: place for place, word in enumerate(forest.categories.get(column, words))}
    # The code -1 stands for a word that the forest does not know.
    theirs = np.array([code.get(word, -1) for word in words], np.int64)
    left = np.zeros((len(nodes), len(words)), bool)
    for place, node in enumerate(nodes.tolist()):
        if forest.kind[node] == THRESHOLD:
            goes = theirs < forest.threshold[node]
        else:
            assert forest.category_start is not None and forest.category_codes is not None
            chosen = forest.category_codes[forest.category_start[node] : forest.category_start[node + 1]]
            goes = np.isin(theirs, chosen)
        left[place] = np.where(theirs < 0, forest.missing_left[node], goes)
    return left


def _cell_split(
    values: Float[np.ndarray, "words cells"], left: Bool[np.ndarray, " words"], weight: Float[np.ndarray, " words"]
) -> tuple[int, float, bool]:
    """Return the cell, the threshold, and whether children are exchanged, that send most categories as wanted.

    A split that is right about all categories is taken; else the one that is right about most weight of rows, and
    among those about most categories.
    """
    best, found = (False, -1.0, -1), (0, -_LARGEST, False)
    for cell in range(values.shape[1]):
        order = np.argsort(values[:, cell], kind="stable")
        value, goes, each = values[order, cell], left[order], weight[order]
        starts = np.flatnonzero(np.append(True, np.diff(value) > 0))
        # What is right when the first categories in this order go left and the others right.
        weights = (each[~goes].sum() + _running(np.where(goes, each, -each)))[starts]
        counts = ((~goes).sum() + _running(np.where(goes, 1.0, -1.0)))[starts]
        for swap in (False, True):
            by_weight = each.sum() - weights if swap else weights
            by_count = len(left) - counts if swap else counts
            place = int(np.lexsort((by_count, by_weight, by_count == len(left)))[-1])
            score = bool(by_count[place] == len(left)), float(by_weight[place]), int(by_count[place])
            if score > best:
                end = int(starts[place])
                cut = float(_between(value[end - 1 : end], value[end : end + 1])[0]) if end else -_LARGEST
                best, found = score, (cell, cut, swap)
    return found


def _running(terms: Float[np.ndarray, " words"]) -> Float[np.ndarray, " words+1"]:
    """Return the sums of the first terms: of none, of one, ..., of all."""
    return np.concatenate([[0.0], np.cumsum(terms)])


# ---------------------------------------------------------------- checks


def _check(forest: Forest, columns: Columns) -> None:
    if forest.n_features != len(columns):
        problem = f"has {forest.n_features} column(s), but the encoder learned {len(columns)}"
        reject("forest", forest, problem, "pass a forest on this encoder's raw columns")
    if forest.feature_names is not None and columns.names is not None and forest.feature_names != columns.names:
        problem = f"has other columns than the encoder, whose are {columns.names}"
        reject("feature_names", forest.feature_names, problem, "pass feature_names=... where the forest is made")
    if not np.isin(forest.kind, (LEAF, THRESHOLD, CATEGORIES)).all():
        problem = "has splits on several columns at once"
        reject("forest", forest, problem, "raise forests of axis-aligned splits only")
    if forest.leaf_coef is not None:
        problem = "has linear leaves, which have no equal on encoded columns"
        reject("forest", forest, problem, "use leaves that are constant")
    for column in forest.categories:
        if columns.vocabularies[column] is None:
            where = f"categories[{column}]"
            remedy = f"fit the encoder with {columns.labels[column]!r} in categorical_features"
            reject(where, forest.categories[column], "are of a column that the encoder takes for numbers", remedy)
