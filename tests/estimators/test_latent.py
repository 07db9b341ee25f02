"""The latent trees' estimators: what they learn, their two ways of routing, and rows that do not know of each other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_diabetes, load_iris, make_moons

from hardwood import LatentTreeClassifier, LatentTreeRegressor
from hardwood.errors import InvalidArgumentError

QUICK: dict[str, Any] = {"max_depth": 3, "max_iter": 60, "random_state": 0, "learning_rate": 0.03}


@pytest.fixture(scope="module")
def moons() -> tuple[np.ndarray, np.ndarray]:
    X, y = make_moons(400, noise=0.1, random_state=0)
    return X, np.where(y == 1, "moon", "other")


@pytest.fixture(scope="module")
def on_moons(moons: Any) -> LatentTreeClassifier:
    return LatentTreeClassifier(sees_rows=False, routing="hard", batch_size=64, **QUICK).fit(*moons)


def test_learns_what_is_not_linear(moons: Any, on_moons: LatentTreeClassifier):
    X, y = moons
    relaxed = LatentTreeClassifier(sees_rows=False, batch_size=64, **QUICK).fit(X, y)
    assert relaxed.score(X, y) > 0.95
    assert on_moons.score(X, y) > 0.93
    assert list(on_moons.classes_) == ["moon", "other"]


@pytest.mark.parametrize("options", [{}, {"predictor": "mlp"}, {"split_function": "elu", "routing": "hard"}])
def test_a_row_has_one_answer_alone_or_in_a_batch(moons: Any, options: dict[str, Any]):
    X, y = moons
    model = LatentTreeClassifier(batch_size=128, **{**QUICK, "max_iter": 5}, **options).fit(X, y)
    whole = model.predict_proba(X)
    assert np.array_equal(np.concatenate([model.predict_proba(X[i : i + 1]) for i in range(40)]), whole[:40])
    assert np.array_equal(np.concatenate([model.predict_proba(part) for part in np.array_split(X, 7)]), whole)
    assert np.array_equal(model.predict_proba(X[::-1])[::-1], whole)


def test_hard_routing_is_the_forest(moons: Any, on_moons: LatentTreeClassifier):
    X, _ = moons
    x = on_moons.encode(X)
    np.testing.assert_allclose(on_moons.predict_proba(X), on_moons.forest_.predict_proba(x), rtol=1e-12)
    assert np.array_equal(on_moons.predict(X), on_moons.forest_.predict(x))
    leaves = on_moons.apply(X)
    # Rows of one leaf have one answer.
    for leaf in np.unique(leaves):
        assert len(np.unique(on_moons.predict_proba(X[leaves == leaf])[:, 0])) == 1


def test_the_forest_has_raw_units_where_columns_are_linear():
    X, y = load_diabetes(return_X_y=True)
    X = X * 1000 + 5000
    options: dict[str, Any] = {"routing": "hard", "fine_tune": "none", "numeric": "standard", **QUICK, "max_iter": 9}
    model = LatentTreeRegressor(**options).fit(X, y)
    np.testing.assert_array_equal(model.forest_rows(X), X)
    np.testing.assert_allclose(model.forest_.predict(X), model.predict(X), rtol=1e-12)
    # The same as on encoded columns, but for rows that rounding puts on the other side of a split.
    encoded = model.encode(X)
    frozen = model.hard_tree_
    wanted = frozen.predict_from(frozen.hard_traversals[frozen.ends(encoded)], encoded)
    wanted = wanted[:, 0] * model._target.scale + model._target.shift
    same = np.isclose(model.forest_.predict(X), wanted, rtol=1e-4)
    assert same.mean() > 0.99
    hole = X[:1].copy()
    hole[0, 3] = np.nan
    filled = hole.copy()
    filled[0, 3] = model.forest_rows(hole)[0, 3]
    assert abs(filled[0, 3] - X[:, 3].mean()) < X[:, 3].std() / 5
    assert model.predict(hole) == model.predict(filled)
    holes = X.copy()
    holes[::9, 2] = np.nan
    assert LatentTreeRegressor(**options).fit(holes, y).forest_.n_features == X.shape[1] + 1
    assert LatentTreeRegressor(**{**options, "numeric": "quantile"}).fit(X, y).forest_rows(X).max() < 100


def test_fine_tuning_closes_the_gap(moons: Any, on_moons: LatentTreeClassifier):
    X, y = moons
    options: dict[str, Any] = {"sees_rows": False, "routing": "hard", "batch_size": 64, **QUICK}
    rough, some = (LatentTreeClassifier(fine_tune=each, **options).fit(X, y) for each in ("none", "predictor"))
    for model in (some, on_moons):
        assert np.array_equal(rough.tree_.split_weight, model.tree_.split_weight)
        assert rough.gap_.relaxed_loss == pytest.approx(model.gap_.relaxed_loss)
    assert np.array_equal(some.hard_tree_.split_weight, some.tree_.split_weight)
    assert not np.array_equal(on_moons.hard_tree_.split_weight, on_moons.tree_.split_weight)
    assert np.array_equal(on_moons.hard_tree_.node_numbers, on_moons.tree_.node_numbers)
    assert rough.gap_.hard_loss > some.gap_.hard_loss > on_moons.gap_.hard_loss


def test_the_gap_is_what_predictions_show(moons: Any):
    X, y = moons
    kept: dict[str, Any] = {**QUICK, "max_iter": 10, "sees_rows": False, "batch_size": 128, "fine_tune": "none"}
    relaxed, hard = (LatentTreeClassifier(routing=routing, **kept).fit(X, y) for routing in ("relaxed", "hard"))
    wanted = float((relaxed.predict(X) != hard.predict(X)).mean())
    assert relaxed.gap_.difference == hard.gap_.difference == pytest.approx(wanted)
    truth = (y == relaxed.classes_[1]).astype(int)
    for model, loss in ((relaxed, relaxed.gap_.relaxed_loss), (hard, hard.gap_.hard_loss)):
        chance = model.predict_proba(X)[np.arange(len(X)), truth]
        assert float(-np.log(chance).mean()) == pytest.approx(loss, rel=1e-5)


def test_the_gap_of_numbers_is_in_their_units():
    X, y = load_diabetes(return_X_y=True)
    models = [
        LatentTreeRegressor(routing=routing, fine_tune="none", **{**QUICK, "max_iter": 10}).fit(X, 1000 * y)
        for routing in ("relaxed", "hard")
    ]
    one, other = (model.predict(X) for model in models)
    assert models[0].gap_.difference == pytest.approx(float(np.sqrt(((one - other) ** 2).mean())), rel=1e-6)
    assert models[0].score(X, 1000 * y) > 0.3
    np.testing.assert_allclose(models[1].forest_.predict(models[1].encode(X)), other, rtol=1e-9)


def test_a_larger_penalty_leaves_less_activity():
    X, y = load_iris(return_X_y=True)
    activity = []
    for penalty in (0.01, 30.0, 3000.0):
        model = LatentTreeClassifier(penalty=penalty, **{**QUICK, "max_iter": 20}).fit(X, y)
        activity.append(float(model.tree_.pruning.sum()))
        assert len(model.active_nodes_) > 0 and all(0 <= share <= 1 for share in model.active_nodes_)
    assert activity[0] > activity[1] > activity[2]


def test_several_outputs_labels_and_holes():
    X, y = load_diabetes(return_X_y=True)
    X = X.copy()
    X[::7, 2] = np.nan
    both = np.column_stack([y, -2 * y])
    model = LatentTreeRegressor(**{**QUICK, "max_iter": 10}).fit(X, both)
    assert model.predict(X).shape == both.shape
    assert model.encode(X).shape == (len(X), X.shape[1] + 1)
    labels = (both > np.median(both, axis=0)).astype(int)
    marks = LatentTreeClassifier(**{**QUICK, "max_iter": 10}).fit(X, labels).predict(X)
    assert marks.shape == labels.shape and float((marks == labels).mean()) > 0.6


def test_tables_with_categories(moons: Any):
    import pandas as pd

    X, y = moons
    table = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "c": np.where(y == "moon", "red", "blue")})
    model = LatentTreeClassifier(**{**QUICK, "max_iter": 15}).fit(table, y)
    assert model.score(table, y) > 0.95
    assert model.forest_.feature_names == ("a", "b", "c=red")


def test_the_same_seed_gives_the_same_model_and_nothing_else_is_touched(moons: Any, random_state_stays: None):
    X, y = moons
    one, again = (
        LatentTreeClassifier(predictor="mlp", dropout=0.2, **{**QUICK, "max_iter": 4}).fit(X, y) for _ in range(2)
    )
    assert np.array_equal(one.predict_proba(X), again.predict_proba(X))


@pytest.mark.parametrize(
    "change",
    [
        {"penalty": 0}, {"penalty": np.inf}, {"max_depth": 13}, {"predictor": "tree"}, {"routing": "soft"},
        {"fine_tune": True},
        {"split_function": "relu"}, {"learning_rate": 0}, {"hidden_size": 0}, {"dropout": 1.0}, {"optimizer": "sgd"},
    ],
)  # fmt: skip
def test_bad_parameters_are_named(moons: Any, change: dict[str, Any]):
    with pytest.raises(InvalidArgumentError, match=next(iter(change))):
        LatentTreeClassifier(**change).fit(*moons)
