"""Histogram gradient boosting of scikit-learn: float64 comparisons, category bitsets, reordered columns."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hardwood._typing import Int
from hardwood.errors import reject
from hardwood.forest._assemble import SourceTree, assemble
from hardwood.forest._thresholds import after_float64

# The name of the loss's link class -> our link.
_LINKS = {"IdentityLink": "identity", "LogLink": "exp", "LogitLink": "sigmoid", "MultinomialLogit": "softmax"}


def fields_of_histogram_boosting(model: Any, named: bool) -> dict[str, Any]:
    """Return the fields of a `Forest` (all but number and names of columns) for a histogram gradient boosting model.

    `named` says whether the forest's columns will have names: then rows come as data frames, whose categories it
    encodes. Without names they come as arrays, in which it takes categories for codes.
    """
    link = _LINKS.get(type(model._loss.link).__name__)
    if link is None:
        reject("loss", model.loss, "has a link that a forest does not know", f"use a loss with one of {sorted(_LINKS)}")
    classes = getattr(model, "classes_", None)
    if classes is not None and len(classes) == 1:
        reject("model", model, "was fit with a single class", "fit it with rows of two classes or more")
    categories = _vocabularies(model, named)
    columns = _columns(model)
    outputs = model.n_trees_per_iteration_
    trees = [
        _source_tree(predictor, columns, categories, output, outputs)
        for iteration in model._predictors
        for output, predictor in enumerate(iteration)
    ]
    types = None
    if categories:
        types = tuple("category" if column in categories else "float" for column in range(model.n_features_in_))
    return {
        **assemble(trees, after_float64),
        "combine": "sum",
        "base": np.asarray(model._baseline_prediction, np.float64).reshape(-1),
        "link": link,
        "classes": classes,
        "categories": categories,
        "feature_types": types,
    }


def _columns(model: Any) -> Int[np.ndarray, " features"]:
    """Return the input column of each column that the trees see: scikit-learn moves category columns to the front."""
    if model.is_categorical_ is None:
        return np.arange(model.n_features_in_)
    return np.argsort(~model.is_categorical_, kind="stable")


def _vocabularies(model: Any, named: bool) -> dict[int, tuple[Any, ...]]:
    """Return the categories of each category column in the order of the codes that the trees see."""
    if model.is_categorical_ is None:
        return {}
    result = {}
    encoder = model._preprocessor.named_transformers_["encoder"]
    for column, known in zip(np.flatnonzero(model.is_categorical_).tolist(), encoder.categories_, strict=True):
        # A missing value is the encoder's last category, but the trees see it as missing.
        values = [value for value in known.tolist() if not (isinstance(value, float) and math.isnan(value))]
        where = f"categories of column {column}"
        if None in values:
            remedy = "replace None by NaN or by a text before fit"
            reject(where, values, "have None, which the model tells apart from missing and a forest does not", remedy)
        if not named and values != list(range(len(values))):
            problem = "are not the codes 0, 1, 2, ..., which a forest expects in an array without column names"
            reject(where, values, problem, "pass feature_names=... and predict with a data frame, or fit on codes")
        result[column] = tuple(values)
    return result


def _source_tree(
    predictor: Any,
    columns: Int[np.ndarray, " features"],
    categories: dict[int, tuple[Any, ...]],
    output: int,
    outputs: int,
) -> SourceTree:
    """Read one tree, whose value goes to one of the outputs."""
    nodes = predictor.nodes
    leaf = nodes["is_leaf"].astype(bool)
    feature = columns[np.where(leaf, 0, nodes["feature_idx"]).astype(np.int64)]
    node_values = np.zeros((len(nodes), outputs))
    node_values[:, output] = nodes["value"]
    codes = {}
    for node in np.flatnonzero(~leaf & nodes["is_categorical"].astype(bool)).tolist():
        words = predictor.raw_left_cat_bitsets[nodes["bitset_idx"][node]]
        bits = (words[:, None] >> np.arange(32, dtype=np.uint32)) & 1
        codes[node] = np.flatnonzero(bits.reshape(-1)[: len(categories[int(feature[node])])])
    return SourceTree(
        left=np.where(leaf, -1, nodes["left"].astype(np.int64)),
        right=np.where(leaf, -1, nodes["right"].astype(np.int64)),
        feature=feature,
        threshold=nodes["num_threshold"].astype(np.float64),
        missing_left=nodes["missing_go_to_left"].astype(bool),
        node_values=node_values,
        codes=codes,
    )
