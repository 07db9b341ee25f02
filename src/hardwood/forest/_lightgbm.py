"""Forests from fitted LightGBM models: the same leaf for every row, and the same sums.

LightGBM compares float64 numbers, left when `x <= threshold`, and adds leaves up in float64, as we do. Numbers no
farther from 0 than 1e-35 it takes for 0; a threshold among them moves to an end of that range. What counts as missing
depends on the split: NaN; nothing, and NaN stands for 0; or, when trained with `zero_as_missing`, 0 and NaN.
LightGBM itself is not imported here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from hardwood._typing import Bool, Float, Int
from hardwood.errors import reject
from hardwood.forest._assemble import SourceTree, assemble
from hardwood.forest._forest import Forest
from hardwood.forest._lightgbm_text import TextModel, read_text
from hardwood.forest._thresholds import after_float64
from hardwood.forest._vocabularies import given_vocabularies

_LINKS: dict[str, str] = {
    **dict.fromkeys(("regression", "regression_l1", "huber", "fair", "quantile", "mape"), "identity"),
    **dict.fromkeys(("lambdarank", "rank_xendcg", "custom"), "identity"),
    **dict.fromkeys(("poisson", "gamma", "tweedie"), "exp"),
    **dict.fromkeys(("binary", "cross_entropy", "multiclassova"), "sigmoid"),
    "multiclass": "softmax",
}
# The bits of a split's decision type.
_CATEGORICAL, _DEFAULT_LEFT, _MISSING_SHIFT = 1, 2, 2
_NAN_IS_ZERO, _ZERO_IS_MISSING = 0, 1
# Numbers up to this far from 0 are taken for 0.
_ZERO = float(np.float32(1e-35))
# The codes of a column without a vocabulary have to be listed.
_MOST_CODES = 1 << 20


def from_lightgbm(
    model: Any,
    *,
    feature_names: Iterable[str] | None = None,
    categories: Mapping[Any, Sequence[Any]] | None = None,
) -> Forest:
    """Make a `Forest` that predicts as a fitted LightGBM model does.

    Takes `LGBMClassifier`, `LGBMRegressor` and `Booster`, boosted by gradients or by "dart", or a random forest ("rf").
    As in LightGBM's own `predict`, a model that stopped early has the rounds up to its best one only. A `Booster` has
    no class labels: it predicts what its own `predict` does. Where the parameter `sigmoid` is not 1, raw outputs are
    multiplied by it, so that probabilities are the same; those of a random forest are the mean of its rounds.

    Split `i` of a tree of `n` leaves is node `i`, and its leaf `k` is node `n - 1 + k`. `feature_names` replaces the
    names that the model has seen, in which LightGBM writes "_" for a space. `categories` holds vocabularies by column
    number or name, in the order of the codes, where the model does not say which of its vocabularies belongs to which
    column. In a column of categories, what is no code of the vocabulary counts as missing (LightGBM cuts 2.5 to 2).
    """
    kinds = {kind.__name__ for kind in type(model).__mro__ if kind.__module__.partition(".")[0] == "lightgbm"}
    if not kinds & {"LGBMModel", "Booster"}:
        remedy = "pass a fitted LGBMClassifier, LGBMRegressor or Booster"
        reject("model", model, "is no model of LightGBM", remedy)
    wrapped = "LGBMModel" in kinds
    if wrapped and not model.__sklearn_is_fitted__():
        reject("model", model, "is not fitted", "call its fit method first")
    text = read_text((model.booster_ if wrapped else model).model_to_string())
    link, scale = _link(text)
    outputs = int(text.header["num_tree_per_iteration"])
    classes = _classes(model, text) if "LGBMClassifier" in kinds else None

    n_features = int(text.header["max_feature_idx"]) + 1
    names: Any = feature_names
    if names is None:
        seen = text.header["feature_names"].split(" ")
        names = None if seen == [f"Column_{column}" for column in range(n_features)] else seen
    sums_to_mean = "average_output" in text.header
    # A mean over rounds is one over trees, of which each round has one per output.
    factor = scale * (outputs if sums_to_mean else 1)
    trees = [_source_tree(text, tree, number % outputs, outputs, factor) for number, tree in enumerate(text.trees)]
    vocabularies = _vocabularies(text, trees, given_vocabularies(categories, names, range(n_features)))
    types = tuple("category" if column in vocabularies else "float" for column in range(n_features))
    return Forest(
        **assemble(trees, after_float64),
        n_features=n_features,
        combine="mean" if sums_to_mean else "sum",
        link=link,  # type: ignore[arg-type]
        feature_names=names,
        feature_types=types if vocabularies else None,  # type: ignore[arg-type]
        categories=vocabularies,
        classes=classes,
    )


def _link(text: TextModel) -> tuple[str, float]:
    """Return our link, and what raw outputs have to be multiplied by for it."""
    # An objective that is a function of the user's is not stored.
    shown = text.header.get("objective", "custom")
    name, *options = shown.split(" ")
    link = _LINKS.get(name)
    if link is None or "sqrt" in options:
        remedy = f"use one of {sorted(_LINKS)}, without reg_sqrt"
        reject("objective", shown, "predicts by a rule that a forest does not know", remedy)
    values = dict(option.partition(":")[::2] for option in options)
    return link, float(values.get("sigmoid", 1.0))


def _classes(model: Any, text: TextModel) -> Any:
    """Return the labels of a classifier whose probabilities a forest can give."""
    name = text.header.get("objective", "custom").split(" ")[0]
    if name not in ("binary", "multiclass"):
        remedy = "use 'binary' or 'multiclass', or pass model.booster_"
        reject("objective", name, "gives no probabilities that add up to 1", remedy)
    if len(model.classes_) < 2:
        reject("model", model, "was fit with a single class", "fit it with rows of two classes or more")
    return model.classes_


def _source_tree(text: TextModel, tree: dict[str, str], output: int, outputs: int, factor: float) -> SourceTree:
    """Read one tree, whose values go to one of the outputs: its splits first, then its leaves."""
    if tree.get("is_linear", "0") != "0":
        problem = "has linear leaves, which ignore their slopes where a cell is missing; those of a forest do not"
        reject("linear_tree", True, problem, "train with linear_tree=False")
    values = text.numbers(tree, "leaf_value", np.float64)
    splits = len(values) - 1
    feature = text.numbers(tree, "split_feature", np.int64)
    threshold = text.numbers(tree, "threshold", np.float64)
    decision = text.numbers(tree, "decision_type", np.int64)
    categorical = (decision & _CATEGORICAL) != 0
    threshold, missing_left = _directions(feature, np.where(categorical, 0.0, threshold), decision)

    def padded(at_splits: Any, at_leaf: Any) -> Any:
        return np.concatenate([at_splits, np.full(splits + 1, at_leaf)])

    def child(side: str) -> Int[np.ndarray, " nodes"]:
        given = text.numbers(tree, side, np.int64)
        return np.asarray(padded(np.where(given < 0, splits + ~given, given), -1), np.int64)

    node_values = np.zeros((2 * splits + 1, outputs))
    node_values[splits:, output] = factor * values
    return SourceTree(
        left=child("left_child"),
        right=child("right_child"),
        feature=padded(feature, -1),
        threshold=padded(threshold, 0.0),
        missing_left=padded(missing_left & ~categorical, False),
        node_values=node_values,
        codes=_codes(text, tree, categorical),
    )


def _directions(
    feature: Int[np.ndarray, " splits"], threshold: Float[np.ndarray, " splits"], decision: Int[np.ndarray, " splits"]
) -> tuple[Float[np.ndarray, " splits"], Bool[np.ndarray, " splits"]]:
    """Return thresholds of `x <= threshold` and whether NaN goes left, for splits by number.

    Numbers near 0 go where 0 goes, so no threshold may part them. Where 0 counts as missing, they may take another
    side than the threshold says; a single threshold can say so only if they stand next to the numbers of their side.
    """
    missing = (decision >> _MISSING_SHIFT) & 3
    to_left = (decision & _DEFAULT_LEFT) != 0
    number = (decision & _CATEGORICAL) == 0
    below = np.nextafter(-_ZERO, -np.inf)
    zero_left = np.where(missing == _ZERO_IS_MISSING, to_left, threshold >= 0)
    apart = number & np.where(zero_left, threshold < below, threshold > _ZERO)
    if apart.any():
        where = int(np.argmax(apart))
        problem = f"sends zeros in column {int(feature[where])} to another side than the numbers on both sides of 0"
        remedy = "train with NaN in place of zeros, without zero_as_missing"
        reject("zero_as_missing", True, problem, remedy)
    moved = np.where(zero_left, np.maximum(threshold, _ZERO), np.minimum(threshold, below))
    return moved, np.where(missing == _NAN_IS_ZERO, zero_left, to_left)


def _codes(
    text: TextModel, tree: dict[str, str], categorical: Bool[np.ndarray, " splits"]
) -> dict[int, Int[np.ndarray, " codes"]]:
    """Return the codes that each category split sends left, ascending; they are bits of 32-bit words."""
    if not categorical.any():
        return {}
    start = text.numbers(tree, "cat_boundaries", np.int64)
    words = text.numbers(tree, "cat_threshold", np.uint32)
    place = text.numbers(tree, "threshold", np.float64)
    codes = {}
    for node in np.flatnonzero(categorical).tolist():
        own = words[start[int(place[node])] : start[int(place[node]) + 1]]
        bits = (own[:, None] >> np.arange(32, dtype=np.uint32)) & 1
        codes[node] = np.flatnonzero(bits.reshape(-1))
    return codes


def _vocabularies(
    text: TextModel, trees: Sequence[SourceTree], given: Mapping[int, tuple[Any, ...]]
) -> dict[int, tuple[Any, ...]]:
    """Return the vocabulary of each column of categories: as given, as the frame had it, or the plain codes."""
    size = dict.fromkeys(text.categorical, 0)
    for column, seen in enumerate(text.header["feature_infos"].split(" ")):
        # Numbers have a range in brackets, a constant column has "none".
        if seen != "none" and not seen.startswith("["):
            size[column] = 1 + max(int(code) for code in seen.split(":"))
    for tree in trees:
        for node, codes in tree.codes.items():
            column = int(tree.feature[node])
            size[column] = max(size.get(column, 0), int(codes.max(initial=-1)) + 1)
    result = dict(given)
    rest = [column for column in sorted(size) if column not in given]
    if rest and text.pandas_categorical:
        # One vocabulary per category column of the frame; ordered ones, too, which are split by number.
        stored = [tuple(words) for words in text.pandas_categorical]
        sizes = [size[column] for column in sorted(size)]
        if len(stored) != len(size) or any(len(words) < least for words, least in zip(stored, sizes, strict=True)):
            problem = f"are not told apart: the frame had {len(stored)} of them, the model splits {len(size)} by set"
            reject("categories", sorted(size), problem, "pass categories={column: [...]} for all category columns")
        result.update(dict(zip(sorted(size), stored, strict=True)) | dict(given))
    elif rest:
        largest = max(rest, key=lambda column: size[column])
        if size[largest] > _MOST_CODES:
            remedy = f"number the categories of column {largest} from 0 without gaps, and fit again"
            reject(f"categories[{largest}]", size[largest] - 1, "is too large a code", remedy)
        result.update({column: tuple(range(size[column])) for column in rest})
    for column, words in result.items():
        if len(words) < size.get(column, 0):
            problem = f"has {len(words)} entries, but the model knows {size[column]} codes"
            reject(f"categories[{column}]", words, problem, "list them all, in the order of the codes")
    return result
