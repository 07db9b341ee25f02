"""What every explaining function asks of its arguments."""

from __future__ import annotations

from typing import Any

import numpy as np

from hardwood._typing import Float
from hardwood.draw._checks import check_tree
from hardwood.errors import reject
from hardwood.forest._inputs import matrix


def check_rows(forest: Any, X: Any, name: str = "X") -> Float[np.ndarray, "rows features"]:
    """Return rows as numbers in the forest's columns; there must be at least one."""
    check_tree(forest, 0)
    table = matrix(forest, X)
    if len(table) == 0:
        reject(name, f"an array of shape {table.shape}", "has no rows to average over", "pass at least one row")
    return table


def check_weights(sample_weight: Any, rows: int) -> Float[np.ndarray, " rows"]:
    """Return one weight a row, so scaled that they sum to 1; None weighs all rows alike."""
    if sample_weight is None:
        return np.full(rows, 1.0 / rows)
    given = np.asarray(sample_weight)
    if given.shape != (rows,) or given.dtype.kind not in "biuf":
        what = f"an array of {given.dtype} of shape {given.shape}"
        reject("sample_weight", what, f"must hold {rows} numbers", "pass one weight a row")
    weights = given.astype(np.float64)
    if not np.isfinite(weights).all() or weights.min() < 0 or weights.max() == 0:
        problem = "must be finite, none negative and not all zero"
        reject("sample_weight", given, problem, "leave rows out by the weight 0, or leave it out to weigh all alike")
    weights /= weights.max()  # weights near the largest float have a finite sum then
    return weights / weights.sum()


def check_count(name: str, value: Any, unless: str) -> int:
    """Return a count of at least 1; `unless` is the remedy to name."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)) or value < 1:
        reject(name, value, "must be an integer of at least 1", unless)
    return int(value)


def plain(value: Any) -> Any:
    """Return a number as JSON can hold it: what is not finite becomes a text."""
    return str(value) if isinstance(value, float) and not np.isfinite(value) else value
