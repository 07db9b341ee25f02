"""A forest made from a scikit-learn model reaches the same leaves and predicts the same, on rows chosen to hurt."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.cluster import KMeans
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.ensemble import (
    AdaBoostClassifier,
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    IsolationForest,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor, ExtraTreeClassifier, ExtraTreeRegressor
from threadpoolctl import threadpool_limits

from hardwood import errors
from hardwood.forest import from_sklearn
from helpers.sklearn_models import check, close, labels, table, to_float32


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Keep OpenMP from spinning on cores that other tests use: these models are tiny."""
    with threadpool_limits(1):
        yield


# ---------------------------------------------------------------- single trees

SETTINGS: list[dict[str, Any]] = [
    {},
    {"max_depth": 1},
    {"max_leaf_nodes": 9},
    {"min_samples_leaf": 1000},
    {"ccp_alpha": 0.01},
    {"max_features": 2, "min_samples_leaf": 3},
]


@pytest.mark.parametrize("settings", SETTINGS, ids=repr)
@pytest.mark.parametrize("kind", [DecisionTreeClassifier, ExtraTreeClassifier])
def test_tree_classifiers(kind: type, settings: dict[str, Any]) -> None:
    rng = np.random.default_rng(1)
    X = table(rng)
    model = kind(random_state=0, **settings).fit(X, labels(rng, X, 3))
    forest = check(model, rng, rows=X)
    assert (forest.n_trees, forest.node_count, forest.depth) == (1, model.tree_.node_count, model.get_depth())


@pytest.mark.parametrize("settings", SETTINGS, ids=repr)
@pytest.mark.parametrize("kind", [DecisionTreeRegressor, ExtraTreeRegressor])
def test_tree_regressors(kind: type, settings: dict[str, Any]) -> None:
    rng = np.random.default_rng(2)
    X = table(rng)
    check(kind(random_state=0, **settings).fit(X, X[:, 0] + rng.normal(size=len(X))), rng, rows=X)


@pytest.mark.parametrize("criterion", ["absolute_error", "poisson"])
def test_tree_criteria(criterion: str) -> None:
    rng = np.random.default_rng(3)
    X = table(rng)
    check(DecisionTreeRegressor(criterion=criterion).fit(X, np.exp(X[:, 1])), rng, rows=X)


@pytest.mark.parametrize("outputs", [1, 2, 3])
def test_regressors_with_several_outputs(outputs: int) -> None:
    rng = np.random.default_rng(4)
    X = table(rng)
    y = X[:, :outputs] + rng.normal(size=(len(X), outputs))
    check(DecisionTreeRegressor(max_depth=4).fit(X, y if outputs > 1 else y[:, 0]), rng, rows=X)
    check(RandomForestRegressor(5, random_state=0).fit(X, y if outputs > 1 else y[:, 0]), rng, rows=X)


LABELS = {
    "text": np.array(["no", "yes", "perhaps"]),
    "objects": np.array(["no", "yes", "perhaps"], object),
    "integers": np.array([7, -3, 2**40]),
    "small integers": np.array([7, -3, 2], np.int8),
    "floats": np.array([2.0, -1.0, 7.0]),
}


@pytest.mark.parametrize("what", LABELS)
def test_kinds_of_labels(what: str) -> None:
    rng = np.random.default_rng(5)
    X = table(rng)
    y = LABELS[what][labels(rng, X, 3)]
    check(DecisionTreeClassifier(max_depth=3).fit(X, y), rng)
    check(GradientBoostingClassifier(n_estimators=3).fit(X, y), rng)
    check(HistGradientBoostingClassifier(max_iter=3).fit(X, y), rng)


def test_boolean_labels() -> None:
    rng = np.random.default_rng(6)
    X = table(rng)
    y = labels(rng, X, 2) == 1
    for model in (
        RandomForestClassifier(5, random_state=0),
        GradientBoostingClassifier(n_estimators=5),
        HistGradientBoostingClassifier(max_iter=5),
    ):
        check(model.fit(X, y), rng)


def test_one_class() -> None:
    rng = np.random.default_rng(7)
    X = table(rng)
    check(DecisionTreeClassifier().fit(X, np.full(len(X), "only")), rng)
    check(RandomForestClassifier(3).fit(X, np.full(len(X), 4)), rng)


def test_sample_weights_and_rows_without_weight() -> None:
    rng = np.random.default_rng(8)
    X = table(rng)
    y = labels(rng, X, 3)
    weights = rng.integers(0, 3, len(X)).astype(float)
    weights[y == 2] = 0
    for model in (
        DecisionTreeClassifier(),
        DecisionTreeClassifier(class_weight={0: 1.0, 1: 2.5, 2: 1.0}),
        RandomForestClassifier(5, random_state=0, class_weight="balanced_subsample"),
        ExtraTreesClassifier(5, random_state=0),
        HistGradientBoostingClassifier(max_iter=5),
        RandomForestRegressor(5, random_state=0),
    ):
        check(model.fit(X, y, sample_weight=weights), rng, rows=X)
    weights[y == 2] = 0.125
    check(GradientBoostingClassifier(n_estimators=5).fit(X, y, sample_weight=weights), rng, rows=X)


def test_monotonic_constraints() -> None:
    rng = np.random.default_rng(9)
    X = table(rng)
    y = labels(rng, X, 2)
    check(DecisionTreeClassifier(max_depth=5, monotonic_cst=[1, 0, -1, 0]).fit(X, y), rng)
    check(DecisionTreeRegressor(max_depth=5, monotonic_cst=[1, 0, -1, 0]).fit(X, y), rng)
    check(HistGradientBoostingRegressor(max_iter=5, monotonic_cst=[1, 0, -1, 0]).fit(X, y), rng)


@pytest.mark.parametrize(
    "model",
    [
        DecisionTreeClassifier(),
        ExtraTreeClassifier(random_state=0),
        RandomForestClassifier(5, random_state=0),
        ExtraTreesClassifier(5, random_state=0),
        HistGradientBoostingClassifier(max_iter=5, min_samples_leaf=2),
        HistGradientBoostingRegressor(max_iter=5, min_samples_leaf=2),
    ],
    ids=lambda model: type(model).__name__,
)
def test_missing_values(model: Any) -> None:
    rng = np.random.default_rng(10)
    X = table(rng)
    y = labels(rng, X, 2)
    X[rng.random(X.shape) < 0.3] = np.nan
    X[y == 1, 1] = np.nan  # a column whose best split is "missing or not", which has the threshold inf
    forest = check(model.fit(X, y), rng, missing=True, rows=X)
    assert np.isneginf(forest.threshold).any() or isinstance(model, (ExtraTreeClassifier, ExtraTreesClassifier))


def test_infinities_take_the_way_of_float32() -> None:
    """scikit-learn's public methods refuse infinities and huge numbers, its trees do not."""
    rng = np.random.default_rng(11)
    X = table(rng)
    X[::3, 2] = np.nan
    y = np.where(np.isnan(X[:, 2]), 5.0, X[:, 1])
    model = DecisionTreeRegressor().fit(X, y)
    forest = from_sklearn(model)
    rows = rng.choice([np.inf, -np.inf, 1e39, -1e39, 2.0**128 - 2.0**103, 3.4028235e38, np.nan, 0.0], (500, 4))
    np.testing.assert_array_equal(forest.apply(rows)[:, 0], model.tree_.apply(to_float32(rows)))


def test_thresholds_between_neighbours() -> None:
    """Columns whose values are neighbours in float32 make thresholds that float32 does not have."""
    rng = np.random.default_rng(12)
    steps = np.cumsum(rng.integers(1, 3, 200))
    for start in (np.float32(1), np.float32(-1), np.float32(1e-45), np.float32(3.4e38), np.float32(16777216)):
        x = (start.view(np.uint32) + steps.astype(np.uint32)).view(np.float32)
        model = DecisionTreeRegressor().fit(x[:, None].astype(float), rng.normal(size=200))
        check(model, rng, rows=np.repeat(x, 2)[:, None].astype(float))


# ---------------------------------------------------------------- ensembles


@pytest.mark.parametrize("classes", [2, 3, 5])
@pytest.mark.parametrize("kind", [RandomForestClassifier, ExtraTreesClassifier])
def test_forest_classifiers(kind: type, classes: int) -> None:
    rng = np.random.default_rng(13)
    X = table(rng)
    model = kind(12, random_state=0).fit(X, labels(rng, X, classes))
    forest = check(model, rng, rows=X)
    indicator, start = model.decision_path(X)
    ours, ours_start = forest.decision_path(X)
    np.testing.assert_array_equal(start, ours_start)
    np.testing.assert_array_equal(indicator.toarray(), ours.toarray())


@pytest.mark.parametrize("kind", [RandomForestRegressor, ExtraTreesRegressor])
def test_forest_regressors(kind: type) -> None:
    rng = np.random.default_rng(14)
    X = table(rng)
    check(kind(12, max_depth=6, random_state=0).fit(X, X[:, 0] + rng.normal(size=len(X))), rng, rows=X)


@pytest.mark.parametrize("loss", ["log_loss", "exponential"])
@pytest.mark.parametrize(
    "init",
    [None, "zero", DummyClassifier(strategy="most_frequent"), DummyClassifier(strategy="constant", constant=1)],
    ids=repr,
)
def test_gradient_boosting_of_two_classes(loss: str, init: Any) -> None:
    rng = np.random.default_rng(15)
    X = table(rng)
    model = GradientBoostingClassifier(loss=loss, init=init, n_estimators=8, random_state=0, subsample=0.7)
    forest = check(model.fit(X, labels(rng, X, 2)), rng, rows=X)
    assert (forest.n_trees, forest.link) == (8, "sigmoid")


@pytest.mark.parametrize("init", [None, "zero"])
def test_gradient_boosting_of_several_classes(init: Any) -> None:
    rng = np.random.default_rng(16)
    X = table(rng)
    model = GradientBoostingClassifier(init=init, n_estimators=4, learning_rate=0.3)
    forest = check(model.fit(X, labels(rng, X, 4)), rng, rows=X)
    assert (forest.n_trees, forest.n_outputs, forest.link) == (16, 4, "softmax")
    assert np.array_equal(forest.outputs(X), model.decision_function(X))


@pytest.mark.parametrize("loss", ["squared_error", "absolute_error", "huber", "quantile"])
@pytest.mark.parametrize("init", [None, "zero", DummyRegressor(strategy="median")], ids=repr)
def test_gradient_boosting_regressors(loss: str, init: Any) -> None:
    rng = np.random.default_rng(17)
    X = table(rng)
    model = GradientBoostingRegressor(loss=loss, init=init, n_estimators=8, learning_rate=0.3)
    check(model.fit(X, X[:, 0] + rng.normal(size=len(X))), rng, rows=X)


def test_gradient_boosting_that_stopped_early() -> None:
    rng = np.random.default_rng(18)
    X = table(rng)
    model = GradientBoostingClassifier(n_estimators=50, n_iter_no_change=1, tol=0.1).fit(X, labels(rng, X, 2))
    assert check(model, rng).n_trees == model.n_estimators_ < 50


def test_gradient_boosting_gives_a_tie_to_the_second_class() -> None:
    X = np.zeros((4, 1))
    for init in (None, "zero"):
        model = GradientBoostingClassifier(init=init, n_estimators=3).fit(X, ["a", "b", "a", "b"])
        assert model.decision_function(X).tolist() == [0.0] * 4
        forest = check(model, np.random.default_rng(0), rows=X)
        assert forest.predict(X).tolist() == ["b"] * 4


def test_forests_give_a_tie_to_the_first_class() -> None:
    X = np.array([[0.0], [0.0], [1.0], [1.0]])
    model = RandomForestClassifier(7, bootstrap=False).fit(X, ["a", "b", "b", "a"])
    assert check(model, np.random.default_rng(0), rows=X).predict(X).tolist() == ["a"] * 4
    histogram = HistGradientBoostingClassifier(max_iter=3).fit(X, ["a", "b", "b", "a"])
    assert check(histogram, np.random.default_rng(0), rows=X).predict(X).tolist() == ["a"] * 4


# ---------------------------------------------------------------- names and refusals


def test_feature_names() -> None:
    rng = np.random.default_rng(26)
    frame = pd.DataFrame(table(rng), columns=list("dcba"))
    for model in (DecisionTreeRegressor(), GradientBoostingRegressor(n_estimators=2), HistGradientBoostingRegressor()):
        model.fit(frame, frame["d"])
        forest = from_sklearn(model)
        assert forest.feature_names == ("d", "c", "b", "a")
        close(forest.predict(frame), model.predict(frame))
        close(forest.predict(frame[list("abcd")]), model.predict(frame))
        assert from_sklearn(model, feature_names=("1", "2", "3", "4")).feature_names == ("1", "2", "3", "4")
    assert from_sklearn(DecisionTreeRegressor().fit(frame.to_numpy(), frame["d"])).feature_names is None
    with pytest.raises(errors.InvalidArgumentError, match="feature_names"):
        from_sklearn(model, feature_names=["one"])


@pytest.mark.parametrize(
    "model",
    [
        DecisionTreeClassifier(),
        RandomForestRegressor(),
        GradientBoostingClassifier(),
        HistGradientBoostingRegressor(),
    ],
    ids=lambda model: type(model).__name__,
)
def test_unfitted_models_are_refused(model: Any) -> None:
    with pytest.raises(errors.InvalidArgumentError, match="is not fitted; call its fit method first"):
        from_sklearn(model)


@pytest.mark.parametrize(
    "model",
    [
        IsolationForest(),
        AdaBoostClassifier(),
        make_pipeline(StandardScaler(), DecisionTreeClassifier()),
        KMeans(),
        DecisionTreeClassifier,
        "forest",
        None,
    ],
    ids=repr,
)
def test_other_models_are_refused(model: Any) -> None:
    with pytest.raises(errors.InvalidArgumentError, match="HistGradientBoosting, each as Classifier or Regressor"):
        from_sklearn(model)


def test_what_no_forest_can_be() -> None:
    rng = np.random.default_rng(27)
    X = table(rng)
    y = labels(rng, X, 2)
    for model in (DecisionTreeClassifier(), RandomForestClassifier(3)):
        with pytest.raises(errors.InvalidArgumentError, match="2 outputs at once; fit one model per column"):
            from_sklearn(model.fit(X, np.stack([y, y], axis=1)))
    for init in (LogisticRegression(), DummyClassifier(strategy="uniform"), DummyClassifier(strategy="stratified")):
        with pytest.raises(errors.InvalidArgumentError, match=r"init.*another model"):
            from_sklearn(GradientBoostingClassifier(init=init, n_estimators=2).fit(X, y))
    with pytest.raises(errors.InvalidArgumentError, match=r"init.*another model"):
        from_sklearn(GradientBoostingRegressor(init=LinearRegression(), n_estimators=2).fit(X, y))


def test_the_model_is_left_alone() -> None:
    rng = np.random.default_rng(28)
    X = table(rng)
    model = DecisionTreeRegressor().fit(X, X[:, 0])
    before = model.tree_.threshold.copy(), model.tree_.value.copy()
    from_sklearn(model)
    np.testing.assert_array_equal(model.tree_.threshold, before[0])
    np.testing.assert_array_equal(model.tree_.value, before[1])


def test_counts_of_old_models_become_shares() -> None:
    """Models that scikit-learn stored before 1.3 hold class counts."""
    rng = np.random.default_rng(29)
    X = table(rng)
    model = DecisionTreeClassifier(max_depth=3).fit(X, labels(rng, X, 3))
    wanted = from_sklearn(model)
    model.tree_.value[:] *= model.tree_.weighted_n_node_samples[:, None, None]
    close(from_sklearn(model).leaf_values, wanted.leaf_values)
