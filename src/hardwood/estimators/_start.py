"""Where training starts: at random, at greedy trees, or at a model that was fitted before."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch

from hardwood._typing import Float
from hardwood.data import TableEncoder
from hardwood.errors import InvalidArgumentError, reject
from hardwood.estimators._rows import Rows
from hardwood.estimators._target import Target
from hardwood.forest import THRESHOLD, Forest
from hardwood.forest._combine import apply_link
from hardwood.forest._forest import Combine
from hardwood.forest._leaf_means import leaf_means
from hardwood.nn import HardTrees

# A greedy leaf of few rows is too sure of itself to begin with: its mean is mixed with this share of the overall one.
_DOUBT = 1 / 21
# The smallest leaves of the greedy trees that GradTree's restarts begin at; the fifth and later see resampled rows.
_SMALLEST_LEAVES = (1, 5, 2, 10)


def greedy_trees(
    x: Float[np.ndarray, "rows features"], rows: Rows, n_trees: int, depth: int, seed: int, shrinkage: float = 0.0
) -> list[Forest]:
    """Return greedy trees of different grain on encoded rows, the leaves having raw outputs, shrunken so strongly."""
    from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

    from hardwood.forest import from_sklearn

    target = rows.target
    rng = np.random.default_rng(seed)
    trees = []
    for number in range(n_trees):
        smallest = min(_SMALLEST_LEAVES[number % len(_SMALLEST_LEAVES)], max(1, len(rows) // 20))
        options: dict[str, Any] = {"max_depth": depth, "min_samples_leaf": smallest, "random_state": seed + number}
        weight = rows.weight
        if number >= len(_SMALLEST_LEAVES):
            options["max_features"] = 0.7
            drawn = weight * rng.multinomial(len(x), np.full(len(x), 1 / len(x)))
            weight = drawn if (drawn > 0).any() else weight
        grown = weight > 0
        if _greedy_classes(rows):
            model: Any = DecisionTreeClassifier(**options)
            answer: Any = target.codes
        else:
            model, answer = DecisionTreeRegressor(**options), target.signal
        model.fit(x[grown], answer[grown], sample_weight=weight[grown])
        forest = from_sklearn(model)
        means = leaf_means(forest, x, target.signal, rows.weight, shrinkage)
        trees.append(_ready(forest, x, outputs_from_means(target, means, _overall(rows))))
    return trees


def greedy_forest(
    x: Float[np.ndarray, "rows features"], rows: Rows, n_trees: int, depth: int, seed: int, n_jobs: int
) -> Forest:
    """Return a random forest on encoded rows as a GRANDE ensemble whose leaves all weigh the same."""
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

    options: dict[str, Any] = {"max_depth": depth, "random_state": seed, "n_jobs": n_jobs}
    if _greedy_classes(rows):
        model: Any = RandomForestClassifier(n_trees, **options)
        model.fit(x, rows.target.codes, sample_weight=rows.weight)
    else:
        share = 1 / 3 if rows.target.codes is None else "sqrt"
        model = RandomForestRegressor(n_trees, max_features=share, **options)
        signal = rows.target.signal
        model.fit(x, signal[:, 0] if signal.shape[1] == 1 else signal, sample_weight=rows.weight)
    return _with_outputs(model, x, rows)


def _greedy_classes(rows: Rows) -> bool:
    """Tell whether a greedy classifier suits the rows.

    scikit-learn's warns of targets with few rows of each class. The squared error of these classes' indicators is the
    same criterion, Gini's.
    """
    target = rows.target
    return target.codes is not None and target.classes is not None and 2 * len(target.classes) <= len(rows)


def _with_outputs(model: Any, x: Float[np.ndarray, "rows features"], rows: Rows) -> Forest:
    """Return a scikit-learn model as a forest whose leaves hold raw outputs of the target."""
    from hardwood.forest import from_sklearn

    forest = from_sklearn(model)
    target = rows.target
    signals = forest.leaf_values
    if hasattr(model, "classes_"):
        # The rows may not have shown every class.
        every = np.zeros((len(signals), max(2, len(target.classes if target.classes is not None else ()))))
        every[:, np.asarray(model.classes_, np.int64)] = signals
        signals = every
    return _ready(forest, x, outputs_from_means(target, signals, _overall(rows)))


def _overall(rows: Rows) -> Float[np.ndarray, " signals"]:
    """Return the mean signal of all rows."""
    overall = np.average(rows.target.signal, axis=0, weights=rows.weight)
    if rows.target.link in ("sigmoid", "softmax"):
        # One more row, of no class in particular: what these rows do not show is rare, and later calls may bring it.
        middle = 1 / 2 if rows.target.link == "sigmoid" else 1 / len(overall)
        overall = (len(rows) * overall + middle) / (len(rows) + 1)
    return overall


def outputs_from_means(
    target: Target, means: Float[np.ndarray, "leaves signals"], overall: Float[np.ndarray, " signals"]
) -> Float[np.ndarray, "leaves outputs"]:
    """Return raw outputs for leaves of such means, less sure than these where the target is a probability."""
    if target.link in ("sigmoid", "softmax"):
        means = (1 - _DOUBT) * means + _DOUBT * overall
    return target.outputs_of(means)


def _ready(
    forest: Forest, x: Float[np.ndarray, "rows features"], outputs: Float[np.ndarray, "leaves outputs"]
) -> Forest:
    """Return the trees with these outputs and finite thresholds, to be lifted into a layer."""
    with np.errstate(all="ignore"):
        lowest = np.nanmin(np.where(np.isnan(x), np.inf, x), axis=0, initial=np.inf)
    lowest = np.where(np.isfinite(lowest), lowest, 0.0) - 1.0
    # A split of missing from all other values: below every number there is.
    endless = (forest.kind == THRESHOLD) & ~np.isfinite(forest.threshold)
    threshold = np.where(endless, lowest[np.maximum(forest.feature, 0)], forest.threshold)
    combine: Combine = "softmax" if forest.combine == "softmax" else "mean"
    return replace(
        forest, threshold=threshold, leaf_values=outputs, classes=None, link="identity", base=None, combine=combine
    )


def given_forest(
    init: Any, encoder: TableEncoder, rows: Rows, x: Float[np.ndarray, "rows features"], depth: int, several: bool
) -> Forest:
    """Return a fitted model's trees on encoded columns, cut at `depth`, the leaves having raw outputs of the target.

    `several` says whether the trees will be combined; else they are alternatives, and a sum of trees is refused.
    """
    from hardwood.forest import forest_of

    try:
        forest = forest_of(init)
    except InvalidArgumentError as error:
        raise InvalidArgumentError(str(error).replace("model=", "init=", 1)) from None
    target = rows.target
    if forest.n_features != len(encoder.columns):
        problem = f"was fitted on {forest.n_features} columns, and X has {len(encoder.columns)}"
        reject("init", init, problem, "fit it on the same columns")
    names = encoder.columns.names
    if forest.feature_names is not None and names is not None and forest.feature_names != names:
        reject("init", init, f"was fitted on other columns than {list(names)}", "fit it on the same columns, in order")
    if not several and forest.combine != "mean" and forest.n_trees > 1:
        remedy = "pass a single tree or a random forest, or use GRANDE, or distill(model, X)"
        reject("init", init, f"combines {forest.n_trees} trees, and this estimator holds one", remedy)
    raw = encoder.to_raw(rows.X)
    if forest.depth > depth:
        forest = forest.truncate(depth, raw, rows.weight)
    values = _outputs_of(init, forest, target)
    forest = encoder.raise_forest(forest, raw, rows.weight)
    return _ready(forest, x, values)


def _outputs_of(init: Any, forest: Forest, target: Target) -> Float[np.ndarray, "leaves outputs"]:
    """Return a model's leaves as raw outputs of the target, such that the trees' mean is the model's answer."""
    values = forest.leaf_values
    if forest.combine == "sum":
        values = values * forest.n_trees
    if forest.base is not None:
        values = values + forest.base
    classes = target.classes
    if (classes is None) != (forest.classes is None):
        remedy = "pass a classifier to a classifier, a regressor to a regressor"
        reject("init", init, "does not predict what y is", remedy)
    if classes is None or forest.classes is None:
        if values.shape[1] != target.n_outputs:
            problem = f"has {values.shape[1]} output(s), and y needs {target.n_outputs}"
            reject("init", init, problem, "fit it on the same target")
        if forest.link == target.link:
            return (values - target.shift) / target.scale
        if forest.link == "identity" and target.link == "exp":
            return np.log(np.maximum(values, 1e-6))
        return (apply_link(forest.link, values) - target.shift) / target.scale
    place = np.searchsorted(classes, forest.classes)
    known = np.minimum(place, len(classes) - 1)
    if not (len(known) == len(classes) and (classes[known].astype(object) == forest.classes.astype(object)).all()):
        problem = f"knows the classes {forest.classes.tolist()[:10]}, and y has {classes.tolist()[:10]}"
        reject("init", init, problem, "fit it on the same classes")
    if forest.link == "identity":
        shares = np.zeros_like(values)
        shares[:, known] = values
        return outputs_from_means(target, shares, np.full(len(classes), 1 / len(classes)))
    if forest.link == "sigmoid":
        return values if known[1] else -values
    ordered = np.zeros_like(values)
    ordered[:, known] = values
    return ordered[:, 1:] - ordered[:, :1] if target.n_outputs == 1 else ordered


def has_splits(forest: Forest) -> bool:
    """Tell whether any of the trees is more than one leaf."""
    return forest.node_count > forest.n_trees


def with_leaves_of(forest: Forest, layer: HardTrees) -> HardTrees:
    """Give each tree of a layer the answer of the single leaf that is its tree in the forest.

    Rows of one answer have nothing to split. Equal splits everywhere would stay equal, so those of the layer remain.
    """
    with torch.no_grad():
        layer.leaf_values.copy_(torch.from_numpy(forest.leaf_values.copy())[:, None, :])
    return layer


def as_ensemble(forest: Forest) -> Forest:
    """Return the mean of some trees as a GRANDE ensemble: the leaves all weigh the same."""
    return replace(forest, combine="softmax", leaf_weights=np.zeros(forest.n_leaves))


def side_by_side(trees: list[Forest]) -> Forest:
    """Return single trees as the trees of one forest."""
    starts = np.cumsum([0, *(tree.node_count for tree in trees)])
    shifts = np.repeat(starts[:-1], np.diff(starts))

    def joined(name: str) -> np.ndarray:
        return np.concatenate([getattr(tree, name) for tree in trees])

    left, right = (np.where(joined(name) < 0, -1, joined(name) + shifts) for name in ("left", "right"))
    fields: dict[str, Any] = {
        name: joined(name) for name in ("kind", "feature", "threshold", "missing_left", "leaf_values")
    }
    return replace(trees[0], tree_start=starts, left=left, right=right, **fields)


def refitted(forest: Forest, x: Float[np.ndarray, "rows features"], rows: Rows, shrinkage: float) -> Forest:
    """Return a single tree whose leaves say what all rows call for, drawn towards the nodes above."""
    if not rows.target.refits:
        return forest
    means = leaf_means(forest, x, rows.target.signal, rows.weight, shrinkage)
    return replace(forest, leaf_values=rows.target.outputs_of(means))
