"""Forests from fitted scikit-learn models, exact to the last leaf.

scikit-learn's trees round a row to float32 and send it left when `x <= threshold`; `_thresholds` moves each threshold
so that ours, `x < threshold` in float64, takes the same way for every float64 number. Node numbers stay.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from hardwood._typing import Float
from hardwood.errors import reject
from hardwood.forest._assemble import SourceTree, assemble
from hardwood.forest._forest import Forest
from hardwood.forest._thresholds import after_float32

_SUPPORTED = (
    "DecisionTree, ExtraTree, RandomForest, ExtraTrees, GradientBoosting and HistGradientBoosting, "
    "each as Classifier or Regressor"
)
# scikit-learn's gradient boosting gives a raw output of exactly 0 to the second class, we give a tie to the first.
# This is added to its base: a few rounding errors, and just enough to make the second class the more probable one.
_TIE = 2.0**-50


def from_sklearn(model: Any, *, feature_names: Iterable[str] | None = None) -> Forest:
    """Make a `Forest` that predicts as a fitted scikit-learn model does, with the same nodes.

    Takes decision trees, random forests, extra trees, gradient boosting and histogram gradient boosting, for
    regression (several outputs too, where the model can) and for classification with one output. `feature_names`
    replaces the names that the model has seen. A model that was fit without missing values refuses them; the forest
    sends them where the model's trees say.

    Columns that a histogram gradient boosting model treats as categories keep their vocabulary: pass a data frame to
    have values encoded, or an array of codes.
    """
    import sklearn.ensemble as ensembles
    import sklearn.tree as trees
    from sklearn.exceptions import NotFittedError
    from sklearn.utils.validation import check_is_fitted

    single = (trees.DecisionTreeClassifier, trees.DecisionTreeRegressor)  # the ExtraTree classes inherit from them
    random_forests = (ensembles.RandomForestClassifier, ensembles.RandomForestRegressor)
    extra_trees = (ensembles.ExtraTreesClassifier, ensembles.ExtraTreesRegressor)
    boosted = (ensembles.GradientBoostingClassifier, ensembles.GradientBoostingRegressor)
    histogram = (ensembles.HistGradientBoostingClassifier, ensembles.HistGradientBoostingRegressor)
    if not isinstance(model, (*single, *random_forests, *extra_trees, *boosted, *histogram)):
        remedy = f"pass one of {_SUPPORTED} (the last step of a pipeline, the best estimator of a search)"
        reject("model", model, "is of a kind that has no exact forest here", remedy)
    try:
        check_is_fitted(model)
    except NotFittedError:
        reject("model", model, "is not fitted", "call its fit method first")

    names: Any = feature_names
    if names is None and hasattr(model, "feature_names_in_"):
        names = model.feature_names_in_.tolist()
    if isinstance(model, histogram):
        from hardwood.forest._sklearn_histogram import fields_of_histogram_boosting

        fields = fields_of_histogram_boosting(model, named=names is not None)
    elif isinstance(model, boosted):
        fields = _fields_of_boosting(model)
    else:
        fields = _fields_of_trees(model, [model] if isinstance(model, single) else list(model.estimators_))
    return Forest(n_features=int(model.n_features_in_), feature_names=names, **fields)


def _source_tree(tree: Any, node_values: Float[np.ndarray, "nodes outputs"]) -> SourceTree:
    """Read one of scikit-learn's low-level `Tree` objects."""
    return SourceTree(
        left=tree.children_left.astype(np.int64),
        right=tree.children_right.astype(np.int64),
        feature=tree.feature.astype(np.int64),
        threshold=tree.threshold,
        missing_left=tree.missing_go_to_left.astype(bool),
        node_values=node_values,
    )


def _fields_of_trees(model: Any, estimators: list[Any]) -> dict[str, Any]:
    """Return the fields for one tree, or for the mean of several."""
    classes = getattr(model, "classes_", None)
    if classes is not None and model.n_outputs_ > 1:
        remedy = "fit one model per column of y (sklearn.multioutput.MultiOutputClassifier) and convert each"
        reject("model", model, f"classifies {model.n_outputs_} outputs at once", remedy)
    sources = []
    for estimator in estimators:
        values = estimator.tree_.value  # (nodes, outputs, classes)
        sources.append(_source_tree(estimator.tree_, values[:, :, 0] if classes is None else _shares(values[:, 0])))
    return {**assemble(sources, after_float32), "combine": "mean", "classes": classes}


def _shares(values: Float[np.ndarray, "nodes classes"]) -> Float[np.ndarray, "nodes classes"]:
    """Return the share of each class; models stored by scikit-learn before 1.3 hold counts instead."""
    total = values.sum(axis=1, keepdims=True)
    if np.allclose(total, 1.0, rtol=0.0, atol=1e-9):
        return values
    return values / np.where(total == 0, 1.0, total)


def _fields_of_boosting(model: Any) -> dict[str, Any]:
    """Return the fields for gradient boosting: a sum over stages, with one tree per class and stage if classes > 2."""
    from sklearn.dummy import DummyClassifier, DummyRegressor

    init = model.init_
    constant = isinstance(init, (DummyClassifier, DummyRegressor)) and init.strategy not in ("stratified", "uniform")
    if not constant and not (isinstance(init, str) and init == "zero"):
        problem = "begins with predictions of another model, which are no constant"
        reject("init", init, problem, "fit with init=None, init='zero' or a dummy estimator that is not random")
    base = np.asarray(model._raw_predict_init(np.zeros((1, model.n_features_in_), np.float32))[0], np.float64)
    outputs = model.estimators_.shape[1]
    classes = getattr(model, "classes_", None)
    # The exponential loss has p = 1 / (1 + exp(-2 raw)), our sigmoid 1 / (1 + exp(-raw)).
    scale = 2.0 if classes is not None and model.loss == "exponential" else 1.0
    base = scale * base + (_TIE if classes is not None and outputs == 1 else 0.0)
    sources = []
    for stage in model.estimators_:
        for output, estimator in enumerate(stage):
            values = np.zeros((estimator.tree_.node_count, outputs))
            values[:, output] = scale * (model.learning_rate * estimator.tree_.value[:, 0, 0])
            sources.append(_source_tree(estimator.tree_, values))
    link = "identity" if classes is None else "sigmoid" if outputs == 1 else "softmax"
    return {**assemble(sources, after_float32), "combine": "sum", "base": base, "link": link, "classes": classes}
