"""From a forest on encoded columns to the same forest on raw columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from hardwood._typing import Bool, Float, Int
from hardwood.data._categories import CategoryCells
from hardwood.data._columns import Columns
from hardwood.data._monotone import Monotone
from hardwood.errors import reject
from hardwood.forest import CATEGORIES, LEAF, THRESHOLD, Forest


def lower(forest: Forest, columns: Columns, parts: Sequence[Monotone | CategoryCells]) -> Forest:
    """Return the forest that sends each raw row to the leaves to which `forest` sends the encoded row.

    Nodes keep their numbers. A threshold on an encoded number becomes the smallest raw number that reaches it. A
    threshold on a cell of categories becomes the set of those whose cell lies below it. Two kinds of split exchange
    their children: one whose threshold no raw number reaches, not even inf (`x < inf` would send inf right), and one
    that would have to list more than half of the categories.

    Cost: 64 evaluations of a column's map for its thresholds; for each split of categories, up to half of them in
    memory, which a forest needs to hold the set.
    """
    _check(forest, sum(_width(part) for part in parts))
    kind, feature, threshold = forest.kind.copy(), forest.feature.copy(), forest.threshold.copy()
    exchanged = np.zeros(forest.node_count, bool)
    codes: list[Int[np.ndarray, " codes"]] = [_NO_CODES] * forest.node_count
    split = np.flatnonzero(forest.kind == THRESHOLD)
    ordered = split[np.argsort(forest.feature[split], kind="stable")]
    cells = forest.feature[ordered]
    start = 0
    for column, part in enumerate(parts):
        ends = np.searchsorted(cells, np.arange(start, start + _width(part) + 1))
        feature[ordered[ends[0] : ends[-1]]] = column
        if isinstance(part, Monotone):
            nodes = ordered[ends[0] : ends[1]]
            raw = part.raw_threshold(forest.threshold[nodes])
            exchanged[nodes] = raw == np.inf
            threshold[nodes] = np.where(raw == np.inf, -np.inf, raw)
        else:
            for cell in range(_width(part)):
                nodes = ordered[ends[cell] : ends[cell + 1]]
                sets, swapped = _category_sets(part.values[:, cell], forest.threshold[nodes])
                kind[nodes], threshold[nodes], exchanged[nodes] = CATEGORIES, 0.0, swapped
                for node, chosen in zip(nodes.tolist(), sets, strict=True):
                    codes[node] = chosen
        start += _width(part)
    return replace(
        forest,
        kind=kind,
        left=np.where(exchanged, forest.right, forest.left),
        right=np.where(exchanged, forest.left, forest.right),
        feature=feature,
        threshold=threshold,
        missing_left=forest.missing_left ^ exchanged,
        n_features=len(columns),
        category_start=np.cumsum([0, *map(len, codes)]),
        category_codes=np.concatenate([_NO_CODES, *codes]),
        feature_names=columns.names,
        feature_types=columns.types,
        categories=columns.categories,
    )


_NO_CODES = np.zeros(0, np.int32)


def _category_sets(
    values: Float[np.ndarray, " words"], thresholds: Float[np.ndarray, " nodes"]
) -> tuple[list[Int[np.ndarray, " codes"]], Bool[np.ndarray, " nodes"]]:
    """Return for each threshold the codes whose value lies below it, or, where fewer, those where it does not."""
    order = np.argsort(values, kind="stable").astype(np.int32)
    below = np.searchsorted(values[order].astype(np.float64), thresholds, side="left")
    swapped = 2 * below > len(order)
    made: dict[int, Int[np.ndarray, " codes"]] = {}
    for count in below.tolist():
        if count not in made:
            made[count] = np.sort(order[count:] if 2 * count > len(order) else order[:count])
    return [made[count] for count in below.tolist()], swapped


def _width(part: Monotone | CategoryCells) -> int:
    """Return how many encoded columns a raw column has."""
    return 1 if isinstance(part, Monotone) else part.values.shape[1]


def _check(forest: Forest, n_encoded: int) -> None:
    if forest.n_features != n_encoded:
        problem = f"has {forest.n_features} column(s), but the encoder makes {n_encoded}"
        reject("forest", forest, problem, "pass a forest on this encoder's columns")
    if not np.isin(forest.kind, (LEAF, THRESHOLD)).all():
        problem = "has splits that are neither leaves nor thresholds on one column"
        reject("forest", forest, problem, "lower forests of axis-aligned splits only")
    if forest.leaf_coef is not None:
        problem = "has linear leaves, which have no equal on raw columns"
        reject("forest", forest, problem, "use leaves that are constant")
