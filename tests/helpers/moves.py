"""Pairs of rows that differ in one column, in which the second row has the larger number."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np


def moves(
    rng: np.random.Generator, rows: np.ndarray, directions: np.ndarray
) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """For every column with a direction, move each row in it, between two numbers that some rows have."""
    for column in np.flatnonzero(directions):
        numbers = rows[~np.isnan(rows)]
        ends = np.sort(rng.choice(numbers, (len(rows), 2)), axis=1)
        low, high = rows.copy(), rows.copy()
        low[:, column], high[:, column] = ends[:, 0], ends[:, 1]
        yield int(directions[column]), low, high
