"""What given rows tell about a forest: some of the rows themselves, how cells are spread, and who passes each node."""

from __future__ import annotations

from typing import Any

import numpy as np

from hardwood._typing import Bool, Float, Int, Shaped
from hardwood.draw._explorer_forest import finite, packed
from hardwood.forest import Forest

_BINS = 36
_FEW_WHOLE = 40  # so many different whole numbers have a bar each
_MOST_WORDS = 60  # bars of a column of categories
_MOST_STACKED = 8  # classes that a bar tells apart
_TAIL = 0.01  # share of the cells on either side that may be left out of a histogram's range
_MOST_CELLS = 60_000  # of the sample, so that a wide table leaves the page small
_IMPORTANCE_ROWS = 10_000
_LARGEST = float(np.finfo(np.float64).max)
_MOST_COUNTS = 400_000  # nodes times classes


def class_numbers(forest: Forest, truth: Shaped[np.ndarray, "rows ..."] | None) -> Int[np.ndarray, " rows"] | None:
    """Return the number of each row's class; None where there are no classes or no truth."""
    if truth is None or forest.classes is None:
        return None
    order = np.argsort(forest.classes, kind="stable")
    return order[np.searchsorted(forest.classes[order], truth)]


def sample(
    forest: Forest,
    table: Float[np.ndarray, "rows features"],
    truth: Shaped[np.ndarray, "rows ..."] | None,
    sample_rows: int,
) -> dict[str, Any]:
    """Return rows for the page, evenly spread over those given, with their numbers and true answers."""
    size = min(sample_rows, len(table), max(1, _MOST_CELLS // forest.n_features)) if sample_rows else 0
    chosen = np.unique(np.linspace(0, len(table) - 1, size).round().astype(np.int64)) if size else np.zeros(0, np.int64)
    numbers = class_numbers(forest, truth)
    answers = truth if numbers is None else numbers
    return {
        "index": chosen.tolist(),
        "cells": packed(table[chosen], "f8"),
        "truth": None if answers is None else packed(answers[chosen], "f8"),
    }


def typical_row(forest: Forest, table: Float[np.ndarray, "rows features"]) -> Float[np.ndarray, " features"]:
    """Return a cell for each column that is in the middle of its cells, or is its most common category."""
    row = np.full(forest.n_features, np.nan)
    for column in range(forest.n_features):
        cells = table[:, column].astype(np.float64)
        words = forest.categories.get(column)
        if words is not None:
            known = cells[_known(cells, len(words))]
            row[column] = np.bincount(known.astype(np.int64)).argmax() if len(known) else np.nan
        elif np.isfinite(cells).any():
            row[column] = np.quantile(cells[np.isfinite(cells)], 0.5, method="inverted_cdf")
    return row


def histograms(
    forest: Forest,
    table: Float[np.ndarray, "rows features"],
    truth: Shaped[np.ndarray, "rows ..."] | None,
    used: Bool[np.ndarray, " features"],
) -> list[dict[str, Any] | None]:
    """Return the histogram of each column that the forest looks at; bars are divided by the true class, if few."""
    numbers = class_numbers(forest, truth)
    groups = 1
    if numbers is not None and forest.classes is not None and 1 < len(forest.classes) <= _MOST_STACKED:
        groups = len(forest.classes)
    group = numbers if groups > 1 and numbers is not None else np.zeros(len(table), np.int64)
    result: list[dict[str, Any] | None] = []
    for column in range(forest.n_features):
        cells = table[:, column].astype(np.float64)
        if not used[column]:
            result.append(None)
        elif column in forest.categories:
            result.append(_words_histogram(cells, len(forest.categories[column]), group, groups))
        else:
            result.append(_number_histogram(cells, group, groups))
    return result


def _known(cells: Float[np.ndarray, " rows"], size: int) -> Bool[np.ndarray, " rows"]:
    """Tell which cells hold a code of a vocabulary."""
    return (cells >= 0) & (cells < size) & (cells == np.floor(cells))


def _words_histogram(
    cells: Float[np.ndarray, " rows"], size: int, group: Int[np.ndarray, " rows"], groups: int
) -> dict[str, Any]:
    known = _known(cells, size)
    counts = np.bincount(cells[known].astype(np.int64) * groups + group[known], minlength=size * groups)
    counts = counts.reshape(size, groups)
    total = counts.sum(axis=1)
    codes = np.argsort(-total, kind="stable")[:_MOST_WORDS]
    return {
        "codes": codes.tolist(),
        "counts": counts[codes].tolist(),
        "others": int(total.sum() - total[codes].sum()),
        "missing": int(len(cells) - np.count_nonzero(known)),
    }


def _number_histogram(
    cells: Float[np.ndarray, " rows"], group: Int[np.ndarray, " rows"], groups: int
) -> dict[str, Any]:
    """Return edges and counts. A long tail is cut off, and said to be."""
    numbers = np.isfinite(cells)
    shown = cells[numbers]
    missing = int(np.isnan(cells).sum())
    if not len(shown):
        outside = int(np.isinf(cells).sum())
        return {"edges": [], "counts": [], "missing": missing, "outside": outside, "range": None}
    edges = _edges(shown)
    inside = (shown >= edges[0]) & (shown <= edges[-1])
    place = np.clip(np.searchsorted(edges, shown[inside], side="right") - 1, 0, len(edges) - 2)
    counts = np.bincount(place * groups + group[numbers][inside], minlength=(len(edges) - 1) * groups)
    return {
        "edges": edges.tolist(),
        "counts": counts.reshape(-1, groups).tolist(),
        "missing": missing,
        "outside": int(len(cells) - missing - counts.sum()),
        "range": [float(shown.min()), float(shown.max())],
    }


def _edges(shown: Float[np.ndarray, " cells"]) -> Float[np.ndarray, " edges"]:
    """Return the rising edges of the bars for finite cells: at least two, around whole numbers if these are few."""
    lowest, highest = float(shown.min()), float(shown.max())
    low, high = (float(mark) for mark in np.quantile(shown, [_TAIL, 1 - _TAIL], method="inverted_cdf"))
    # Halves, since a difference of large numbers may be no number.
    if not high / 2 - low / 2 < 0.5 * (highest / 2 - lowest / 2):
        low, high = lowest, highest
    # Beyond 2**52 there are no halves.
    if high - low < _FEW_WHOLE and max(abs(low), abs(high)) < 2.0**52 and (shown == np.floor(shown)).all():
        return np.arange(low, high + 2) - 0.5
    return even_edges(low, high, _BINS)


def even_edges(low: float, high: float, bars: int) -> Float[np.ndarray, " edges"]:
    """Return the edges of bars of equal width between two finite numbers, which may be equal, tiny or huge."""
    step = np.linspace(0.0, 1.0, bars + 1)
    with np.errstate(over="ignore"):
        between = low * (1 - step) + high * step
    # Neighbours among large numbers have nothing between them.
    edges = np.unique(np.clip([low, *between[1:-1], high], low, high))
    if len(edges) > 1:
        return edges
    wide = max(0.5, 1e-9 * abs(low))
    return np.clip([low - wide, low + wide], -_LARGEST, _LARGEST)


def passing(
    forest: Forest, table: Float[np.ndarray, "rows features"], truth: Shaped[np.ndarray, "rows ..."] | None
) -> dict[str, Any]:
    """Return how many rows pass each node, and how their true answers are spread: counts of classes, or means."""
    from hardwood.explain._expected import reached, sums_upwards

    numbers = class_numbers(forest, truth)
    n_classes = 0 if numbers is None or forest.classes is None else len(forest.classes)
    if n_classes * forest.node_count > _MOST_COUNTS:
        n_classes = 0
    means = truth is not None and forest.classes is None
    values = truth.reshape(len(table), -1)[:, 0].astype(np.float64) if means and truth is not None else np.zeros(0)
    rows = np.zeros(forest.n_leaves)
    classes = np.zeros((n_classes, forest.n_leaves))
    totals = np.zeros(forest.n_leaves)
    for block, leaf in reached(forest, table):
        rows += np.bincount(leaf.ravel(), minlength=forest.n_leaves)
        for k in range(n_classes):
            assert numbers is not None
            classes[k] += np.bincount(leaf[numbers[block] == k].ravel(), minlength=forest.n_leaves)
        if means:
            totals += np.bincount(leaf.ravel(), np.repeat(values[block], forest.n_trees), forest.n_leaves)
    passed = sums_upwards(forest, rows)
    result: dict[str, Any] = {"rows": packed(passed, "i4"), "classes": None, "means": None}
    if n_classes:
        result["classes"] = packed(np.stack([sums_upwards(forest, each) for each in classes], axis=1), "i4")
    if means:
        result["means"] = packed(sums_upwards(forest, totals) / np.maximum(passed, 1), "f8")
    return result


def spreads(table: Float[np.ndarray, "rows features"]) -> list[float]:
    """Return the standard deviation of each column's finite cells."""
    from hardwood.explain._expected import _spread

    share = np.full(len(table), 1.0 / len(table))
    return [finite(value) or 0.0 for value in _spread(table, share).tolist()]


def importance_shares(forest: Forest, table: Float[np.ndarray, "rows features"]) -> list[float]:
    """Return `explain.importances` over the rows, or over some of them if there are very many."""
    from hardwood.explain import importances
    from hardwood.explain._expected import linear_cells

    few = table[:: max(1, len(table) // _IMPORTANCE_ROWS)]
    # Infinite cells have no mean, where a linear leaf multiplies them.
    few = few[np.isfinite(linear_cells(forest, few)).all(axis=1)]
    if not len(few):
        return [0.0] * forest.n_features
    return [finite(share) or 0.0 for share in importances(forest, few).tolist()]
