"""Forests from fitted XGBoost models: the same leaf for every row, and the same sums to float32's precision.

XGBoost rounds a cell to float32 and sends it left when it is below a float32 threshold; each threshold moves so that
ours, `x < threshold` in float64, takes the same way for every float64 number. It adds leaves up in float32 and we in
float64, so raw scores differ by what it rounds away: about 1e-7 of the largest of its partial sums.

Everything is read from the model's own JSON form, as `Booster.save_raw` gives it. XGBoost is not imported here.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from hardwood._typing import Float, Shaped
from hardwood.errors import reject
from hardwood.forest._assemble import assemble
from hardwood.forest._forest import Forest
from hardwood.forest._vocabularies import given_vocabularies
from hardwood.forest._xgboost_trees import source_trees, stored_vocabularies, vocabularies

_LINKS: dict[str, str] = {
    **dict.fromkeys(("reg:squarederror", "reg:squaredlogerror", "reg:pseudohubererror"), "identity"),
    **dict.fromkeys(("reg:absoluteerror", "reg:quantileerror"), "identity"),
    **dict.fromkeys(("rank:pairwise", "rank:ndcg", "rank:map"), "identity"),
    **dict.fromkeys(("count:poisson", "reg:gamma", "reg:tweedie", "survival:cox", "survival:aft"), "exp"),
    **dict.fromkeys(("binary:logistic", "reg:logistic"), "sigmoid"),
    **dict.fromkeys(("multi:softprob", "multi:softmax"), "softmax"),
}
# The type of a column in XGBoost's words -> in ours; every other one holds plain numbers.
_TYPES = {"c": "category", "int": "int", "i": "bool"}


def from_xgboost(
    model: Any,
    *,
    feature_names: Iterable[str] | None = None,
    categories: Mapping[Any, Sequence[Any]] | None = None,
) -> Forest:
    """Make a `Forest` that predicts as a fitted XGBoost model does.

    Takes `XGBClassifier`, `XGBRegressor`, their random forests `XGBRFClassifier` and `XGBRFRegressor`, and `Booster`,
    of boosters "gbtree" and "dart", with one tree per output or with vectors in the leaves. As in its own `predict`, a
    model of the scikit-learn kind that stopped early has the rounds up to its best one only, and a `Booster` has all.
    A `Booster` predicts what its own `predict` does: labels for "multi:softmax", else numbers.

    Nodes keep their numbers, but for trees in which XGBoost skips the numbers of nodes that it has pruned.
    `feature_names` replaces the names that the model has seen. `categories` holds vocabularies by column number or
    name, in the order of the codes; it is needed where the model has none: when it was fit on codes in an array, and
    when words are not ASCII. In a column of categories, what is no code of the vocabulary counts as missing.
    """
    kinds = {kind.__name__ for kind in type(model).__mro__ if kind.__module__.partition(".")[0] == "xgboost"}
    if not kinds & {"XGBModel", "Booster"}:
        remedy = "pass a fitted XGBClassifier, XGBRegressor, XGBRFClassifier, XGBRFRegressor or Booster"
        reject("model", model, "is no model of XGBoost", remedy)
    wrapped = "XGBModel" in kinds
    if wrapped:
        _check_wrapper(model)
    best = getattr(model, "best_iteration", None) if wrapped else None
    learner = _learner(model.get_booster() if wrapped else model)
    param, boosted = learner["learner_model_param"], learner["gradient_booster"]
    objective = learner["objective"]["name"]
    link = _LINKS.get(objective)
    if link is None:
        reject("objective", objective, "predicts by a rule that a forest does not know", f"use one of {sorted(_LINKS)}")
    if boosted["name"] not in ("gbtree", "dart"):
        reject("booster", boosted["name"], "makes no trees", "use booster='gbtree' or 'dart'")
    n_features = int(param["num_feature"])
    n_outputs = max(int(param["num_class"]), int(param["num_target"]), 1)
    classes = None
    if "XGBClassifier" in kinds:
        classes = _classes(model, objective, link, int(param["num_target"]))
    elif objective == "multi:softmax" and not wrapped:
        classes = np.arange(n_outputs)

    names: Any = feature_names if feature_names is not None else learner.get("feature_names") or None
    types = tuple(_TYPES.get(kind, "float") for kind in learner.get("feature_types") or ()) or None
    columns = [column for column, kind in enumerate(types or ()) if kind == "category"]
    trees = source_trees(boosted, None if best is None else best + 1, n_outputs)
    if not trees:
        reject("model", model, "has no trees", "train it for at least one round")
    given = given_vocabularies(categories, names, columns)
    return Forest(
        **assemble(trees, lambda threshold: threshold),
        n_features=n_features,
        combine="sum",
        base=_base(param["base_score"], link, n_outputs),
        link=link,  # type: ignore[arg-type]
        feature_names=names,
        feature_types=types,  # type: ignore[arg-type]
        categories=vocabularies(trees, columns, stored_vocabularies(boosted), given),
        classes=classes,
    )


def _check_wrapper(model: Any) -> None:
    if not model.__sklearn_is_fitted__():
        reject("model", model, "is not fitted", "call its fit method first")
    if model.missing is not None and not math.isnan(model.missing):
        problem = "is a number that counts as missing; a forest knows NaN only"
        reject("missing", model.missing, problem, "replace it by NaN in the rows, and fit with missing=nan")


def _learner(booster: Any) -> dict[str, Any]:
    """Return what a booster has learned, in XGBoost's JSON form."""
    try:
        stored = booster.save_raw("json")
    except ValueError:  # XGBoost's own error is one
        reject("model", booster, "has learned nothing yet", "train it first")
    learned: dict[str, Any] = json.loads(bytes(stored))["learner"]
    return learned


def _classes(model: Any, objective: str, link: str, n_targets: int) -> Shaped[np.ndarray, " classes"]:
    """Return the labels of a classifier whose probabilities a forest can give."""
    if callable(model.objective) or link not in ("sigmoid", "softmax"):
        shown = "a function" if callable(model.objective) else objective
        remedy = "use 'binary:logistic' or 'multi:softprob', or pass model.get_booster()"
        reject("objective", shown, "gives no probabilities of classes", remedy)
    if n_targets > 1:
        remedy = "pass model.get_booster(): its forest gives the probability of each label"
        reject("model", model, f"tells {n_targets} labels of a row at once", remedy)
    if len(model.classes_) < 2:
        reject("model", model, "was fit with a single class", "fit it with rows of two classes or more")
    return np.asarray(model.classes_)


def _base(text: str, link: str, n_outputs: int) -> Float[np.ndarray, " outputs"]:
    """Return the first guess before the link; XGBoost stores it after the link, but for softmax."""
    stored = np.array([float(number) for number in text.strip("[]").split(",")]).astype(np.float32).astype(np.float64)
    if link == "exp":
        stored = np.log(stored)
    elif link == "sigmoid":
        stored = np.log(stored) - np.log1p(-stored)
    return np.broadcast_to(stored, n_outputs)
