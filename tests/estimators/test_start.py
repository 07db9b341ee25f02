"""Training starts where it is told to: at a fitted model of any library, whose answers it first gives itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from lightgbm import LGBMClassifier, LGBMRegressor
from sklearn.ensemble import (
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LinearRegression
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
from xgboost import XGBClassifier, XGBRegressor

from hardwood import GradTreeClassifier, GradTreeRegressor, GrandeClassifier, GrandeRegressor
from hardwood.errors import InvalidArgumentError
from hardwood.estimators import _gradtree
from helpers.fits import ALL, CLASSIFIERS, GRADTREES, REGRESSORS, answers, mixed, mixed_target, numbers, table, tiny
from helpers.tables import make_frame

STILL = {"split_logits_rate": 0, "thresholds_rate": 0, "leaf_values_rate": 0, "max_iter": 1, "early_stopping": False}
SMALL: dict[str, Any] = {"n_estimators": 5, "max_depth": 3, "random_state": 0}
QUIET: dict[str, Any] = {**SMALL, "verbose": -1, "min_child_samples": 5}


def still(kind: Any, init: Any, **given: Any) -> Any:
    """Make an estimator that stays where it starts."""
    options = {**STILL, "init": init, "class_weight": None, **given}
    if kind in GRADTREES:
        # Losses that do not call for means leave the leaves alone.
        options.setdefault("loss", "focal" if kind in CLASSIFIERS else "absolute_error")
    if kind in REGRESSORS:
        del options["class_weight"]
    if kind not in GRADTREES:
        options["leaf_weights_rate"] = 0
    return tiny(kind, **options)


def classes(count: int) -> tuple[np.ndarray, np.ndarray]:
    X, y = table(GradTreeClassifier, 100)
    return X, y + (count == 3) * (X[:, 2] > 0.5)


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize(
    "model",
    [
        XGBClassifier(**SMALL), LGBMClassifier(**QUIET), GradientBoostingClassifier(**SMALL),
        HistGradientBoostingClassifier(max_iter=5, max_depth=3, random_state=0),
    ],
    ids=lambda model: type(model).__name__,
)  # fmt: skip
def test_boosted_classifiers_are_taken_over_exactly(model, count):
    X, y = classes(count)
    model.fit(X, y)
    ours = still(GrandeClassifier, model).fit(X, y)
    np.testing.assert_allclose(ours.predict_proba(X), model.predict_proba(X), atol=1e-5)
    assert ours.forest_.n_trees == 5 * (1 if count == 2 else 3)


@pytest.mark.parametrize(
    "model",
    [
        XGBRegressor(**SMALL), LGBMRegressor(**QUIET), GradientBoostingRegressor(**SMALL),
        RandomForestRegressor(**SMALL), ExtraTreesRegressor(**SMALL), DecisionTreeRegressor(max_depth=3),
    ],
    ids=lambda model: type(model).__name__,
)  # fmt: skip
def test_regressors_are_taken_over_exactly(model):
    X, y = table(GrandeRegressor, 100)
    y = 100 + 10 * y
    model.fit(X, y)
    for loss in ("squared_error", "huber"):
        ours = still(GrandeRegressor, model, loss=loss).fit(X, y)
        np.testing.assert_allclose(ours.predict(X), model.predict(X), rtol=1e-5)


@pytest.mark.parametrize("kind", ALL)
def test_a_single_tree_is_taken_over_exactly(kind):
    X, y = table(kind, 100)
    if kind in CLASSIFIERS:
        names = np.array(["low", "high"])[y]
        given = DecisionTreeClassifier(max_depth=3, min_samples_leaf=5).fit(X, names)
        ours = still(kind, given).fit(X, names)
        np.testing.assert_array_equal(ours.predict(X), given.predict(X))
        # A greedy leaf is too sure of itself to begin with: a share of doubt is mixed in.
        expected = given.predict_proba(X) * 20 / 21 + 1 / 42
        np.testing.assert_allclose(ours.predict_proba(X), expected, atol=1e-6)
    else:
        given = DecisionTreeRegressor(max_depth=3).fit(X, y)
        ours = still(kind, given).fit(X, y)
        np.testing.assert_allclose(ours.predict(X), given.predict(X), rtol=1e-6)


def test_a_tree_s_leaves_are_means_already():
    X, y = table(GradTreeRegressor, 100)
    trees = DecisionTreeRegressor(max_depth=3), DecisionTreeClassifier(max_depth=3)
    for kind, given in zip((GradTreeRegressor, GradTreeClassifier), trees, strict=True):
        answer = y if kind is GradTreeRegressor else (y > 2).astype(int)
        given.fit(X, answer)
        loss = "squared_error" if kind is GradTreeRegressor else "cross_entropy"
        ours = still(kind, given, loss=loss, leaf_shrinkage=0).fit(X, answer)
        np.testing.assert_allclose(answers(ours, X), answers(given, X), atol=1e-5)


def test_a_random_forest_of_classes_is_taken_over_but_for_its_logarithms():
    X, y = classes(3)
    given = RandomForestClassifier(**SMALL).fit(X, y)
    ours = still(GrandeClassifier, given).fit(X, y)
    assert np.abs(ours.predict_proba(X) - given.predict_proba(X)).max() < 0.2
    assert (ours.predict(X) == given.predict(X)).mean() > 0.9


@pytest.mark.parametrize("kind", ALL)
def test_an_estimator_of_ours_is_taken_over_with_its_categories(kind):
    columns = mixed()
    frame, y = make_frame("pandas", columns), mixed_target(kind, columns)
    plain = {"one_hot_max_size": 20} if kind in CLASSIFIERS else {}
    given = still(kind, "greedy", **plain).fit(frame, y)
    for init in (given, given.forest_):
        ours = still(kind, init, **plain).fit(frame, y)
        agree = np.isclose(answers(ours, frame), answers(given, frame), atol=1e-5)
        assert agree.mean() > 0.95


@pytest.mark.parametrize("kind", ALL)
def test_training_goes_on_from_there_and_gets_better(kind):
    X, y = table(kind, 100)
    noise = np.random.default_rng(0).permutation(y)
    given = (DecisionTreeClassifier if kind in CLASSIFIERS else DecisionTreeRegressor)(max_depth=2).fit(X, noise)
    rates = {"split_logits_rate": 0.05, "thresholds_rate": 0.02, "leaf_values_rate": 0.05}
    options = {"max_iter": 60, "early_stopping": False, "init": given, "batch_size": 100, **rates}
    model = tiny(kind, **options).fit(X, y)
    losses = model.history_.to_frame()["loss"]
    assert losses.iloc[-1] < 0.9 * losses.iloc[0]
    assert model.score(X, y) > given.score(X, y)


@pytest.mark.parametrize("kind", ALL)
def test_greedy_starts_are_not_random_ones(kind):
    X, y = table(kind)
    greedy, random = (still(kind, init).fit(X, y) for init in ("greedy", "random"))
    assert greedy.forest_ != random.forest_
    assert greedy.score(X, y) > random.score(X, y)


@pytest.mark.parametrize("kind", ALL)
def test_a_deeper_model_is_cut(kind):
    X, y = table(kind, 100)
    given = (DecisionTreeClassifier if kind in CLASSIFIERS else DecisionTreeRegressor)(random_state=0).fit(X, y)
    assert given.get_depth() > 2
    ours = still(kind, given, max_depth=2).fit(X, y)
    top = type(given)(max_depth=2, random_state=0).fit(X, y)
    assert ours.forest_.depth <= 2
    if kind in CLASSIFIERS:
        np.testing.assert_array_equal(ours.predict(X), top.predict(X))
    else:
        np.testing.assert_allclose(ours.predict(X), top.predict(X), rtol=1e-5)


def test_a_random_forest_gives_gradtree_as_many_restarts():
    X, y = table(GradTreeRegressor, 100)
    given = RandomForestRegressor(**SMALL).fit(X, y)
    ours = still(GradTreeRegressor, given).fit(X, y)
    assert ours._session.model.n_trees == 5
    best = min(np.abs(tree.predict(X) - y).mean() for tree in given.estimators_)
    assert np.abs(ours.predict(X) - y).mean() == pytest.approx(best, rel=1e-5)


def test_classes_in_another_order_are_put_in_theirs():
    from dataclasses import replace

    X, y = classes(3)
    names = np.array(["a", "b", "c"])
    for count in (2, 3):
        labels = names[np.minimum(y, count - 1)]
        forest = still(GrandeClassifier, "greedy").fit(X, labels).forest_
        turned = forest.classes[::-1]
        values = -forest.leaf_values if count == 2 else forest.leaf_values[:, ::-1].copy()
        other = replace(forest, classes=turned, leaf_values=values, output_names=None)
        np.testing.assert_array_equal(other.predict(X), forest.predict(X))
        ours = still(GrandeClassifier, other).fit(X, labels)
        np.testing.assert_allclose(ours.predict_proba(X), forest.predict_proba(X), atol=1e-5)


def test_a_start_does_not_touch_the_given_model():
    X, y = table(GradTreeRegressor)
    given = tiny(GradTreeRegressor).fit(X, y)
    before = given.forest_
    tiny(GradTreeRegressor, init=given, max_iter=10).fit(X, y)
    assert given.forest_ == before


@pytest.mark.parametrize(
    ("kind", "init", "message"),
    [
        (GrandeClassifier, "warm", "init='warm': is not known; pass 'greedy', 'random', or a fitted tree model"),
        (GrandeRegressor, LinearRegression(), "init=LinearRegression.*pass one of DecisionTree"),
        (GrandeRegressor, DecisionTreeRegressor, "init=<class.*no forest; pass a Forest"),
        (GrandeRegressor, None, "init=None.*no forest"),
        (GrandeRegressor, 3, "init=3: has no forest"),
        (GrandeRegressor, tiny(GradTreeRegressor), "not fitted"),
        (GrandeRegressor, DecisionTreeRegressor(), "init=DecisionTreeRegressor.*not fitted"),
    ],
)
def test_what_is_no_fitted_tree_is_refused(kind, init, message):
    X, y = table(kind)
    with pytest.raises(InvalidArgumentError, match=message):
        tiny(kind, init=init).fit(X, y)


def test_models_of_something_else_are_refused():
    X, y = table(GrandeRegressor)
    labels = (y > 2).astype(int)
    classifier, regressor = DecisionTreeClassifier().fit(X, labels), DecisionTreeRegressor().fit(X, y)
    boosted = XGBRegressor(n_estimators=3, max_depth=2).fit(X, y)
    frame = make_frame("pandas", dict(zip("abcd", X.T.tolist(), strict=True)))
    for kind, init, answer, message in (
        (GrandeRegressor, classifier, y, "does not predict what y is; pass a classifier to a classifier"),
        (GrandeClassifier, regressor, labels, "does not predict what y is"),
        (GrandeClassifier, classifier, labels + 5, r"knows the classes \[0, 1\], and y has \[5, 6\]"),
        (GrandeClassifier, classifier, np.array(["a", "b"])[labels], r"knows the classes \[0, 1\], and y has \['a'"),
        (GrandeClassifier, classifier, labels + 2 * (X[:, 0] > 0), "knows the classes"),
        (GrandeRegressor, regressor, np.c_[y, y], r"has 1 output\(s\), and y needs 2"),
        (GradTreeRegressor, boosted, y, r"combines 3 trees, and this estimator holds one; .*distill"),
    ):
        with pytest.raises(InvalidArgumentError, match=message):
            tiny(kind, init=init).fit(X, answer)
    with pytest.raises(InvalidArgumentError, match=r"init=.*was fitted on 4 columns, and X has 3"):
        tiny(GrandeRegressor, init=regressor).fit(X[:, :3], y)
    named = DecisionTreeRegressor().fit(frame[["b", "a", "c", "d"]], y)
    with pytest.raises(InvalidArgumentError, match=r"init=.*other columns"):
        tiny(GrandeRegressor, init=named).fit(frame, y)


def test_a_greedy_start_knows_classes_that_its_rows_do_not_show():
    """Bootstrapped and weighted rows may not show every class; the layer knows all of them."""
    X = numbers(60)
    y = np.r_[np.zeros(29), np.ones(29), 2, 2].astype(int)
    for kind in CLASSIFIERS:
        model = tiny(kind, **({"n_restarts": 8} if kind in GRADTREES else {"n_estimators": 12})).fit(X, y)
        assert model.predict_proba(X).shape == (60, 3)
        assert np.isfinite(model.predict_proba(X)).all()


@pytest.mark.parametrize("kind", GRADTREES)
def test_a_tree_that_gains_nothing_by_training_grows_again_on_all_rows(kind):
    X, y = table(kind, 200)
    options = {"n_restarts": 1, "leaf_shrinkage": 0.0, "class_weight": None} if kind in CLASSIFIERS else {
        "n_restarts": 1, "leaf_shrinkage": 0.0
    }  # fmt: skip
    still_there = dict.fromkeys(("split_logits_rate", "thresholds_rate", "leaf_values_rate"), 0)
    model = tiny(kind, **options, **still_there).fit(X, y)
    assert model.improvement_ == 0
    assert model.is_greedy_
    greedy: Any = DecisionTreeClassifier if kind in CLASSIFIERS else DecisionTreeRegressor
    expected = greedy(max_depth=3, random_state=0).fit(X, y)
    np.testing.assert_allclose(answers(model, X), answers(expected, X), atol=1e-5)


def test_a_tree_that_training_improves_is_kept(monkeypatch):
    monkeypatch.setattr(_gradtree, "_CERTAINTY", -np.inf)
    X, y = table(GradTreeClassifier, 200)
    model = tiny(GradTreeClassifier, split_logits_rate=0.5, thresholds_rate=0.5).fit(X, y)
    trained = model._session.model.to_forest([int(np.argmin(model._running_losses))])
    raw = model._session.encoder.lower(trained).prune()
    assert {*raw.threshold[raw.left >= 0]} >= {*model.forest_.threshold[model.forest_.left >= 0]}
