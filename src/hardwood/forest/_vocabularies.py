"""Vocabularies of category columns that a caller names, because the model of another library does not keep them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from hardwood.errors import reject


def given_vocabularies(
    categories: Any, names: Sequence[str] | None, allowed: Collection[int]
) -> dict[int, tuple[Any, ...]]:
    """Return the vocabularies by column number; `categories` may name columns by number or by name.

    `allowed` are the columns that can have one.
    """
    if categories is None:
        return {}
    if not isinstance(categories, Mapping):
        remedy = "pass a dict such as {'town': ['Bonn', 'Jena']}, in the order of the codes"
        reject("categories", categories, "must map columns to vocabularies", remedy)
    result: dict[int, tuple[Any, ...]] = {}
    for key, words in categories.items():
        column = _column(key, names)
        if column not in allowed:
            remedy = f"name columns among the numbers {sorted(allowed)}" if allowed else "leave categories out"
            reject("categories", key, "is no column of categories of this model", remedy)
        if column in result:
            reject("categories", key, "names a column twice", "name it once, by number or by name")
        if isinstance(words, str) or not hasattr(words, "__iter__"):
            reject(f"categories[{key!r}]", words, "must be a sequence of values", "pass one value per code, in order")
        result[column] = tuple(words)
    return result


def _column(key: Any, names: Sequence[str] | None) -> int:
    """Return the number of a column, -1 where there is none."""
    if isinstance(key, str):
        return list(names).index(key) if names is not None and key in names else -1
    if isinstance(key, (int, np.integer)) and not isinstance(key, (bool, np.bool_)):
        return int(key)
    return -1
