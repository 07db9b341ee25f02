"""Splits of rows into training and validation, by seed, with the classes spread over both."""

from __future__ import annotations

from typing import Any

import numpy as np

from hardwood._typing import Int
from hardwood.errors import reject

TrainingRows = Int[np.ndarray, " training"]
ValidationRows = Int[np.ndarray, " validation"]


def split_rows(
    n_rows: int, validation_fraction: float = 0.2, seed: int = 0, labels: Any = None
) -> tuple[TrainingRows, ValidationRows]:
    """Return the numbers of training rows and of validation rows, each in rising order.

    Validation has the fraction of rows, rounded, but at least one, and leaves at least one for training; a single row
    is for training. With `labels` the classes are spread in proportion: each gives to validation its share rounded up
    or down, and keeps at least one row for training, so that training knows every class. Where classes are so rare
    that this leaves too few rows to give, validation is smaller, even empty. Sample weights play no part.

    Args:
        n_rows: the number of rows.
        validation_fraction: between 0 and 1, both excluded.
        seed: the same seed and labels give the same split.
        labels: one class label per row, for classification.
    """
    if n_rows < 1:
        reject("n_rows", n_rows, "must be at least 1", "pass a table with rows")
    if not 0 < validation_fraction < 1:
        reject("validation_fraction", validation_fraction, "must lie between 0 and 1", "pass 0.2")
    rng = np.random.default_rng(seed)
    wanted = min(max(round(validation_fraction * n_rows), 1), n_rows - 1)
    which = np.zeros(n_rows, np.int64) if labels is None else _class_numbers(labels, n_rows)
    given = _given(np.bincount(which), wanted)
    # A random order within classes: equal keys keep the order of the shuffled rows.
    shuffled = rng.permutation(n_rows)
    order = shuffled[np.argsort(which[shuffled], kind="stable")]
    first = np.cumsum(np.bincount(which)) - np.bincount(which)
    place = np.arange(n_rows) - first[which[order]]
    validation = np.zeros(n_rows, bool)
    validation[order[place < given[which[order]]]] = True
    return np.flatnonzero(~validation), np.flatnonzero(validation)


def _class_numbers(labels: Any, n_rows: int) -> Int[np.ndarray, " rows"]:
    given = np.asarray(labels)
    if given.shape != (n_rows,):
        reject("labels", f"an array of shape {given.shape}", f"must have shape ({n_rows},)", "pass one label per row")
    try:
        return np.unique(given, return_inverse=True)[1].astype(np.int64)
    except TypeError:
        reject("labels", given[:3].tolist(), "mixes labels that cannot be sorted", "pass labels of one type")


def _given(counts: Int[np.ndarray, " classes"], wanted: int) -> Int[np.ndarray, " classes"]:
    """Return how many rows each class gives: its share rounded down, and one more for the largest remainders."""
    # In whole numbers, so that no rounding takes a share across a border.
    given, remainder = np.divmod(counts * wanted, counts.sum())
    can_give = np.flatnonzero((given < counts - 1) & (remainder > 0))
    largest = can_give[np.argsort(-remainder[can_give], kind="stable")]
    given[largest[: wanted - int(given.sum())]] += 1
    return given
