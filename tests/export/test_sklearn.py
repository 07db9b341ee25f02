"""scikit-learn's estimators take every float32 row to the forest's leaf and predict what it predicts."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from sklearn.compose import TransformedTargetRegressor
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier, StackingClassifier
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
from sklearn.utils.validation import check_is_fitted

import hardwood
from hardwood.errors import InvalidArgumentError
from hardwood.export import to_sklearn
from hardwood.export._sklearn import _node_record
from hardwood.forest import LEAF, THRESHOLD, Forest
from helpers.exports import assert_close, edge_rows, extreme_forest, finite, many_forests, rebuilt
from helpers.forests import small_fields

PLAIN = {"kinds": [THRESHOLD], "linear": False, "named": False}


def leaves(model: Any, X: np.ndarray) -> np.ndarray:
    if isinstance(model, TransformedTargetRegressor):
        model = model.regressor_
    if isinstance(model, StackingClassifier):
        model = model.estimators_[0]
    return model.apply(X).reshape(len(X), -1)


def compare(model: Any, forest: Forest, X: np.ndarray) -> None:
    assert np.array_equal(leaves(model, X), forest.apply(X))
    if forest.classes is None:
        assert_close(model.predict(X), forest.predict(X), 1e-13)
    else:
        assert_close(model.predict_proba(X), forest.predict_proba(X), 1e-13)
        assert model.predict(X).dtype == forest.classes.dtype
        best = np.sort(forest.outputs(X), axis=1)
        clear = np.ones(len(X), bool) if best.shape[1] == 1 else best[:, -1] - best[:, -2] > 1e-12
        assert np.array_equal(model.predict(X)[clear], forest.predict(X)[clear])


@pytest.mark.parametrize("combine", ["sum", "mean"])
@pytest.mark.parametrize("task", ["regression", "binary", "probability", "classes"])
def test_every_kind_of_forest_agrees(task: str, combine: str) -> None:
    for rng, forest in many_forests(range(15), task=task, combine=combine, **PLAIN):
        model = to_sklearn(forest)
        check_is_fitted(model)
        compare(model, forest, finite(edge_rows(rng, forest, 30, np.float32)))


def test_one_tree_alone_is_a_decision_tree_whatever_its_link_and_combination() -> None:
    for combine in ("sum", "mean", "softmax"):
        for rng, forest in many_forests(range(20), n_trees=1, combine=combine, **PLAIN):
            model = to_sklearn(forest)
            assert type(model) is (DecisionTreeRegressor if forest.classes is None else DecisionTreeClassifier)
            compare(model, forest, finite(edge_rows(rng, forest, 20, np.float32)))


@pytest.mark.parametrize(("n_trees", "depth"), [(1, 1), (50, 2), (3, 12)])
def test_thresholds_of_every_magnitude_route_alike(n_trees: int, depth: int) -> None:
    rng = np.random.default_rng(depth)
    forest = extreme_forest(rng, n_trees, depth)
    compare(to_sklearn(forest), forest, finite(edge_rows(rng, forest, 200, np.float32)))


def test_infinite_rows_go_alike_where_the_check_of_inputs_is_left_out() -> None:
    rng = np.random.default_rng(0)
    forest = extreme_forest(rng, 1, 8)
    X = edge_rows(rng, forest, 300, np.float32)
    assert np.isinf(X).any()
    assert np.array_equal(to_sklearn(forest).tree_.apply(X)[:, None], forest.apply(X))


def test_float64_rows_are_rounded_to_float32_first() -> None:
    for rng, forest in many_forests(range(10), task="regression", combine="mean", **PLAIN):
        X = finite(edge_rows(rng, forest, 50))
        assert np.array_equal(leaves(to_sklearn(forest), X), forest.apply(X.astype(np.float32)))


def test_the_way_back_gives_the_same_trees() -> None:
    for rng, forest in many_forests(range(10), task="regression", combine="mean", **PLAIN):
        if forest.link != "identity":
            continue
        back = hardwood.from_sklearn(to_sklearn(forest))
        X = edge_rows(rng, forest, 50, np.float32)
        assert np.array_equal(back.apply(X), forest.apply(X))


def test_a_chosen_class_stays_chosen_where_probabilities_round_to_the_same() -> None:
    forest = Forest(
        tree_start=[0, 1], kind=[LEAF], left=[-1], right=[-1], feature=[-1], threshold=[0.0], missing_left=[False],
        leaf_values=[[1e-30]], n_features=1, link="sigmoid", classes=["no", "yes"],
    )  # fmt: skip
    X = np.zeros((1, 1), np.float32)
    assert forest.predict(X) == "yes" and to_sklearn(forest).predict(X) == "yes"


def test_rows_give_counts_and_means_as_fitting_does() -> None:
    iris = load_iris()
    X = iris.data.astype(np.float32)
    fitted = DecisionTreeClassifier(max_depth=3, random_state=0).fit(X, iris.target)
    again = to_sklearn(hardwood.from_sklearn(fitted), X)
    assert np.array_equal(again.tree_.n_node_samples, fitted.tree_.n_node_samples)
    assert_close(again.tree_.value, fitted.tree_.value, 1e-12)
    assert not again.feature_importances_.any()
    assert to_sklearn(hardwood.from_sklearn(fitted)).tree_.n_node_samples[0] == fitted.get_n_leaves()


def test_columns_keep_their_names() -> None:
    iris = load_iris(as_frame=True)
    for make in (DecisionTreeClassifier, RandomForestClassifier):
        model = make(max_depth=2, random_state=0).fit(iris.data, iris.target)
        again = to_sklearn(hardwood.from_sklearn(model))
        assert type(again) is make
        assert list(again.feature_names_in_) == list(iris.data.columns)
        assert_close(again.predict_proba(iris.data), model.predict_proba(iris.data), 1e-13)
        with pytest.raises(ValueError, match="feature names"):
            again.predict(iris.data.rename(columns=str.upper))


@pytest.mark.usefixtures("random_state_stays")
def test_nothing_is_drawn_from_the_process_generators() -> None:
    _node_record.cache_clear()
    for _, forest in many_forests(range(3), combine="sum", **PLAIN):
        to_sklearn(forest)


def test_one_class_has_probability_one() -> None:
    for _, forest in many_forests(range(6), task="classes", n_outputs=1, combine="mean", **PLAIN):
        X = np.zeros((3, forest.n_features), np.float32)
        assert (to_sklearn(forest).predict_proba(X) == 1).all()


def test_what_comes_out_is_pickled_and_loaded_without_hardwood() -> None:
    for rng, forest in many_forests(range(4), n_trees=2, combine="sum", **PLAIN):
        X = finite(edge_rows(rng, forest, 10, np.float32))
        model = pickle.loads(pickle.dumps(to_sklearn(forest)))
        assert_close(model.predict(X), forest.predict(X), 1e-13) if forest.classes is None else compare(
            model, forest, X
        )
        assert b"hardwood" not in pickle.dumps(model)


def test_what_scikit_learn_cannot_hold_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match=r"category sets.*a column with a number.*onnx"):
        to_sklearn(Forest(**small_fields()))
    for _, forest in many_forests(range(1), n_trees=3, combine="softmax", max_splits=3, **PLAIN):
        with pytest.raises(InvalidArgumentError, match="GRANDE"):
            to_sklearn(forest)
    huge = rebuilt(next(many_forests(range(1), n_trees=3, combine="sum", task="regression", **PLAIN))[1], base=None)
    with pytest.raises(InvalidArgumentError, match="overflow"):
        to_sklearn(rebuilt(huge, leaf_values=np.full_like(huge.leaf_values, 1e308)))
