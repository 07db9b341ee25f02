"""LightGBM's text form of a model, read as it is: keys and values, a block for each tree, parameters, vocabularies.

The text is read and not the JSON of `dump_model`, because only the text is exact: in JSON an infinite threshold, which
parts missing values from all numbers, is written as 1e300.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import numpy as np

from hardwood.errors import reject


class TextModel(NamedTuple):
    """A model in pieces."""

    header: dict[str, str]
    trees: list[dict[str, str]]
    categorical: tuple[int, ...]  # the columns that the parameters name as columns of categories
    pandas_categorical: list[list[Any]] | None  # the words of each category column of the training frame

    def numbers(self, tree: dict[str, str], key: str, dtype: type[np.generic]) -> Any:
        """Return an array of a tree's block, empty where there is none."""
        return np.array([float(word) for word in tree.get(key, "").split()]).astype(dtype)


def read_text(text: str) -> TextModel:
    """Take a model's text apart."""
    header: dict[str, str] = {}
    trees: list[dict[str, str]] = []
    block = header
    lines = iter(text.split("\n"))
    for line in lines:
        if line == "end of trees":
            break
        key, _, value = line.partition("=")
        if key == "Tree":
            trees.append({})
            block = trees[-1]
        elif key:
            block[key] = value
    categorical: tuple[int, ...] = ()
    vocabularies = None
    for line in lines:
        if line.startswith("[categorical_feature: "):
            columns = line[len("[categorical_feature: ") :].rstrip("]")
            categorical = tuple(int(column) for column in columns.split(",") if column.strip().isdigit())
        elif line.startswith("pandas_categorical:"):
            vocabularies = json.loads(line.partition(":")[2])
    if "max_feature_idx" not in header or not trees:
        reject("model", text[:40], "has no trees", "train it for at least one round")
    return TextModel(header, trees, categorical, vocabularies)
