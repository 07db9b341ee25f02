"""A forest as a fitted scikit-learn estimator, made of scikit-learn's own classes only.

scikit-learn rounds rows to float32 and sends them left when `x <= threshold`. For a float32 number x that is
`x < t` with the threshold t itself, or, where t is a float32 number, with the float64 before it.

What the estimator is depends on how leaves become predictions:

- One tree is a `DecisionTreeRegressor` or `DecisionTreeClassifier`, its leaves after base and link.
- A sum or mean of trees is a `RandomForestRegressor`, or a `RandomForestClassifier` where leaves are probabilities. A
  random forest averages its trees, so the leaves of a sum are multiplied by the number of trees.
- A link over several trees is put on top of the regressor: by a `TransformedTargetRegressor`, and for class labels by
  a `StackingClassifier` whose final `LogisticRegression` has the coefficient 1 for each output (for a sum, the number
  of trees), and `base` as its intercept.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from hardwood._typing import Float, Int
from hardwood.errors import reject
from hardwood.export import _support
from hardwood.export._nodes import Nodes, measured, unmeasured
from hardwood.forest import LEAF, Forest
from hardwood.forest._combine import apply_link, chosen_classes, probabilities
from hardwood.forest._inputs import matrix


def to_sklearn(forest: Forest, X: Any = None) -> Any:
    """Return a fitted scikit-learn estimator that predicts as the forest does on float32 rows.

    `apply`, where the estimator has it, gives the forest's own node numbers. scikit-learn rounds float64 rows to
    float32 first: they go where the forest sends `X.astype(np.float32)`. It takes missing values, and refuses infinite
    ones. With several trees and a link, the trees are `estimator.regressor_` (regression) or `estimator.estimators_[0]`
    (classification).

    scikit-learn keeps row counts and mean values for splits too, for pictures and for shap; they are taken from `X`, or
    else each leaf counts as one row. It did not fit the trees, so `feature_importances_` are 0.
    """
    _support.check(forest, "sklearn")
    one = forest.n_trees == 1
    # A single class has the probability 1, which takes no link over the trees.
    certain = forest.link == "softmax" and forest.n_outputs == 1
    shares = forest.classes is not None and (one or forest.link == "identity" or certain)
    stacked = forest.classes is not None and not shares
    if one:
        values = _linked(forest)
    elif certain:
        values = np.ones_like(forest.leaf_values)
    else:
        values = forest.leaf_values if stacked else _averaged(forest)
    plain = Forest(
        tree_start=forest.tree_start,
        kind=forest.kind,
        left=forest.left,
        right=forest.right,
        feature=forest.feature,
        threshold=forest.threshold,
        missing_left=forest.missing_left,
        leaf_values=values,
        n_features=forest.n_features,
        feature_names=forest.feature_names,
    )
    nodes = unmeasured(plain) if X is None else measured(plain, _as_compared(forest, X))
    classes = forest.classes if shares else None
    if one:
        model = _tree(plain, 0, nodes, classes)
        _name_columns(model, plain)
        return model
    model = _forest(plain, nodes, classes)
    if stacked:
        return _stacked(forest, model)
    return model if shares or certain or forest.link == "identity" else _transformed(forest, model)


def _as_compared(forest: Forest, X: Any) -> Float[np.ndarray, "rows features"]:
    """Return rows as scikit-learn's trees will see them."""
    with np.errstate(over="ignore"):
        return matrix(forest, X).astype(np.float32)


def _averaged(forest: Forest) -> Float[np.ndarray, "leaves outputs"]:
    """Return leaf values whose mean over trees is the forest's output, base included."""
    with np.errstate(over="ignore"):
        result = forest.leaf_values * forest.n_trees if forest.combine == "sum" else forest.leaf_values
        result = result if forest.base is None else result + forest.base
    if not np.isfinite(result).all():
        problem = f"has leaf values that overflow when they are multiplied by its {forest.n_trees} trees"
        reject("forest", forest, problem, "scale the leaf values down")
    return result


def _linked(forest: Forest) -> Float[np.ndarray, "leaves predictions"]:
    """Return what each leaf of a single tree predicts: probabilities, or the outputs after the link."""
    outputs = forest.leaf_values if forest.base is None else forest.leaf_values + forest.base
    if forest.classes is not None:
        return _settled(probabilities(forest, outputs), chosen_classes(forest, outputs))
    result = apply_link(forest.link, outputs)
    if not np.isfinite(result).all():
        reject("forest", forest, "has leaves that overflow under base and link", "scale the leaf values down")
    return result


def _settled(
    shares: Float[np.ndarray, "leaves classes"], chosen: Int[np.ndarray, " leaves"]
) -> Float[np.ndarray, "leaves classes"]:
    """Raise the chosen class's share by one rounding error where it is no larger than that of a class before it.

    scikit-learn chooses by probabilities, the forest by outputs, which tell apart what probabilities round to the same.
    """
    tied = np.flatnonzero(shares.argmax(axis=1) != chosen)
    result = shares.copy()
    result[tied, chosen[tied]] = np.nextafter(shares[tied].max(axis=1), np.inf)
    return result


# ---------------------------------------------------------------- trees


def _tree(plain: Forest, number: int, nodes: Nodes, classes: Any) -> Any:
    """Make a fitted estimator of one tree."""
    from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

    tree: Any
    if classes is None:
        tree = DecisionTreeRegressor()
        tree.n_outputs_ = plain.n_outputs
    else:
        tree = DecisionTreeClassifier()
        tree.n_outputs_, tree.n_classes_, tree.classes_ = 1, np.int64(len(classes)), classes.copy()
    tree.tree_ = _low_level_tree(plain, number, nodes, classes is not None)
    tree.n_features_in_ = tree.max_features_ = plain.n_features
    return tree


def _low_level_tree(plain: Forest, number: int, nodes: Nodes, as_classes: bool) -> Any:
    """Make one of scikit-learn's `Tree` objects, with the same node numbers."""
    from sklearn.tree._tree import Tree

    span = slice(*plain.tree_start[number : number + 2].tolist())
    first, leaf = span.start, plain.kind[span] == LEAF
    threshold = plain.threshold[span]
    # No number is below -inf, and none is above +inf: the same split with its sides exchanged.
    turned = ~leaf & np.isneginf(threshold)
    left, right = (np.where(leaf, -1, child[span] - first) for child in (plain.left, plain.right))
    record = np.zeros(len(leaf), _node_record())
    record["left_child"] = np.where(turned, right, left)
    record["right_child"] = np.where(turned, left, right)
    record["feature"] = np.where(leaf, -2, plain.feature[span])
    record["threshold"] = np.where(leaf, -2.0, np.where(turned, np.inf, _last_left(threshold)))
    record["missing_go_to_left"] = ~leaf & (plain.missing_left[span] != turned)
    record["n_node_samples"] = nodes.rows[span].round()
    record["weighted_n_node_samples"] = nodes.rows[span]
    values = nodes.values[span]
    sizes = np.array([values.shape[1]] if as_classes else [1] * values.shape[1], np.intp)
    tree = Tree(plain.n_features, sizes, len(sizes))
    shape = (len(leaf), 1, -1) if as_classes else (len(leaf), -1, 1)
    state = {"max_depth": int(plain.depths[number]), "node_count": len(leaf), "nodes": record}
    tree.__setstate__({**state, "values": np.ascontiguousarray(values).reshape(shape)})
    return tree


@functools.cache
def _node_record() -> Any:
    """Return the type of scikit-learn's nodes, which has grown with its versions, as a tree of its own has it."""
    from sklearn.tree import DecisionTreeRegressor

    # A seed, so that fitting draws nothing from NumPy's own generator.
    return (
        DecisionTreeRegressor(max_depth=1, random_state=0)
        .fit([[0.0], [1.0]], [0.0, 1.0])
        .tree_.__getstate__()["nodes"]
        .dtype
    )


def _last_left(threshold: Float[np.ndarray, " nodes"]) -> Float[np.ndarray, " nodes"]:
    """Return T so that `x <= T` is `x < threshold` for every float32 x."""
    with np.errstate(over="ignore"):
        is_float32 = threshold.astype(np.float32).astype(np.float64) == threshold
        return np.where(is_float32, np.nextafter(threshold, -np.inf), threshold)


def _name_columns(model: Any, forest: Forest) -> None:
    if forest.feature_names is not None:
        model.feature_names_in_ = np.array(forest.feature_names, object)


def _forest(plain: Forest, nodes: Nodes, classes: Any) -> Any:
    """Make a fitted random forest."""
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
    from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

    model: Any
    # The trees of a random forest know their classes by number.
    numbers = None if classes is None else np.arange(len(classes), dtype=np.float64)
    if classes is None:
        model, model_tree = RandomForestRegressor(plain.n_trees), DecisionTreeRegressor()
        model.n_outputs_ = plain.n_outputs
    else:
        model, model_tree = RandomForestClassifier(plain.n_trees), DecisionTreeClassifier()
        model.n_outputs_, model.n_classes_, model.classes_ = 1, len(classes), classes.copy()
    model.estimator_ = model_tree
    model.estimators_ = [_tree(plain, tree, nodes, numbers) for tree in range(plain.n_trees)]
    model.n_features_in_ = plain.n_features
    _name_columns(model, plain)
    return model


# ---------------------------------------------------------------- links over several trees


def _transformed(forest: Forest, trees: Any) -> Any:
    """Put a link on a regressor's predictions."""
    from scipy.special import expit, logit, softmax
    from sklearn.compose import TransformedTargetRegressor
    from sklearn.preprocessing import FunctionTransformer

    links = {
        "exp": (np.log, np.exp),
        "sigmoid": (logit, expit),
        "softmax": (np.log, functools.partial(softmax, axis=1)),
    }
    there, back = links[forest.link]
    model = TransformedTargetRegressor(regressor=trees, func=there, inverse_func=back, check_inverse=False)
    model.regressor_ = trees
    model.transformer_ = FunctionTransformer(func=there, inverse_func=back, check_inverse=False)
    model._training_dim = 1 if forest.n_outputs == 1 else 2
    _name_columns(model, forest)
    return model


def _stacked(forest: Forest, trees: Any) -> Any:
    """Make probabilities of a regressor's predictions."""
    from sklearn.ensemble import StackingClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import LabelEncoder

    assert forest.classes is not None
    link = LogisticRegression()
    link.classes_ = np.arange(len(forest.classes))
    # For two classes, scikit-learn takes the sigmoid of a difference.
    coef = np.array([[-1.0, 1.0]]) if forest.n_outputs == 2 else np.eye(forest.n_outputs)
    base = np.zeros(forest.n_outputs) if forest.base is None else forest.base
    link.coef_ = coef * (forest.n_trees if forest.combine == "sum" else 1.0)
    link.intercept_ = coef @ base
    link.n_features_in_ = forest.n_outputs
    link.n_iter_ = np.zeros(1, np.int32)
    model = StackingClassifier([("trees", trees)], final_estimator=link, cv="prefit", stack_method="predict")
    model.estimators_, model.named_estimators_ = [trees], {"trees": trees}
    model.stack_method_, model.final_estimator_ = ["predict"], link
    model._label_encoder = LabelEncoder()
    model.classes_ = model._label_encoder.classes_ = forest.classes.copy()
    _name_columns(model, forest)
    return model
