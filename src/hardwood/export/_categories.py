"""Categories as other formats have them: splits as a set of codes for one side, and words as JSON values."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from hardwood._typing import Int
from hardwood.errors import reject
from hardwood.forest import Forest

_LONGEST_INTEGER = 2000  # bits; JSON readers, ours among them, refuse much longer ones


class CodeSet(NamedTuple):
    """The codes that go to one side; whatever is none of them goes to the other."""

    codes: Int[np.ndarray, " codes"]
    go_right: bool


def code_set(forest: Forest, node: int) -> CodeSet:
    """Return the set of a category split that leaves missing values, and codes without a category, to the other side.

    Where these go left, the set is that of the vocabulary's categories that go right.
    """
    assert forest.category_start is not None and forest.category_codes is not None
    codes = forest.category_codes[forest.category_start[node] : forest.category_start[node + 1]]
    if not forest.missing_left[node]:
        return CodeSet(codes, go_right=False)
    vocabulary = np.arange(len(forest.categories[int(forest.feature[node])]), dtype=codes.dtype)
    return CodeSet(np.setdiff1d(vocabulary, codes, assume_unique=True), go_right=True)


def json_value(word: Any) -> Any:
    """Return a category or a class label as JSON has it; an infinity, for which JSON has no number, as an object.

    >>> json_value("inf"), json_value(float("inf"))
    ('inf', {'float': 'inf'})
    """
    if isinstance(word, float) and math.isinf(word):
        return {"float": repr(word)}
    if isinstance(word, int) and word.bit_length() > _LONGEST_INTEGER:
        remedy = "name that category by a text instead"
        reject("forest.categories", hex(word), "has an integer of hundreds of digits", remedy)
    return word
