"""A forest made from an XGBoost model reaches the same leaves, on rows chosen to hurt, and predicts the same."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from hardwood import errors
from hardwood.forest import CATEGORIES, Forest, from_xgboost
from hardwood.forest._vocabularies import given_vocabularies
from hardwood.forest._xgboost_trees import below_float32
from helpers.boosted_models import edge_rows, xgboost_leaves
from helpers.sklearn_models import labels, table, to_float32
from helpers.tables import HARD, neighbours, random_bits

xgboost = pytest.importorskip("xgboost")

SMALL = {"n_estimators": 6, "max_depth": 4, "n_jobs": 1}


def holes(rng: np.random.Generator, X: np.ndarray) -> np.ndarray:
    return np.where(rng.random(X.shape) < 0.1, np.nan, X)


def close(found: np.ndarray, wanted: np.ndarray) -> None:
    """XGBoost adds up in float32."""
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, rtol=2e-6, atol=2e-6 * max(1.0, float(np.abs(wanted).max())))


def check(model: Any, rng: np.random.Generator) -> Forest:
    """Convert a fitted model of the scikit-learn kind and compare everything that both can say."""
    forest = from_xgboost(model)
    finite = edge_rows(rng, forest, infinite=False)
    leaves = model.apply(finite).reshape(len(finite), -1)[:, : forest.n_trees]
    np.testing.assert_array_equal(forest.apply(finite), leaves)
    np.testing.assert_array_equal(forest.apply(to_float32(finite)), leaves)
    np.testing.assert_array_equal(xgboost_leaves(model.get_booster(), finite)[:, : forest.n_trees], leaves)
    every = edge_rows(rng, forest)
    np.testing.assert_array_equal(forest.apply(every), xgboost_leaves(model.get_booster(), every)[:, : forest.n_trees])
    margin = model.predict(finite, output_margin=True)
    close(forest.outputs(finite).reshape(margin.shape), margin)
    if hasattr(model, "classes_"):
        close(forest.predict_proba(finite), model.predict_proba(finite))
        sure = np.abs(forest.predict_proba(finite).max(axis=1) - 1 / len(model.classes_)) > 1e-6
        np.testing.assert_array_equal(forest.predict(finite)[sure], model.predict(finite)[sure])
    else:
        close(forest.predict(finite), model.predict(finite))
    return forest


def test_thresholds_part_the_same_numbers() -> None:
    rng = np.random.default_rng(0)
    with np.errstate(over="ignore", invalid="ignore"):
        cuts = np.concatenate([random_bits(rng, 300), HARD]).astype(np.float32)
        cuts = np.concatenate([cuts[~np.isnan(cuts)], [np.float32(1e-45), np.float32(-1e-45)]]).astype(np.float32)
        up, down = (np.nextafter(cuts, np.float32(end)).astype(float) for end in (np.inf, -np.inf))
        grid = np.concatenate([cuts.astype(float), up, down])
        x = np.concatenate([grid, (cuts + up) / 2, (cuts + down) / 2, HARD])
        x = neighbours(x[~np.isnan(x)])
        ours = x[:, None] < below_float32(cuts)
        theirs = x.astype(np.float32)[:, None] < cuts
    np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize(
    "objective",
    [
        "reg:squarederror", "reg:absoluteerror", "reg:squaredlogerror", "reg:pseudohubererror", "reg:logistic",
        "count:poisson", "reg:gamma", "reg:tweedie", "survival:cox",
    ],
)  # fmt: skip
@pytest.mark.parametrize("base_score", [None, 0.3])
def test_regressors(objective: str, base_score: float | None) -> None:
    rng = np.random.default_rng(1)
    X = holes(rng, table(rng))
    y = np.exp(np.nan_to_num(X[:, 1])) + 0.1 * rng.random(len(X))
    y = y / y.max() if objective == "reg:logistic" else y
    model = xgboost.XGBRegressor(objective=objective, base_score=base_score, **SMALL).fit(X, y)
    logs = ("count:poisson", "reg:gamma", "reg:tweedie", "survival:cox")
    wanted = "exp" if objective in logs else "sigmoid" if objective == "reg:logistic" else "identity"
    assert check(model, rng).link == wanted


@pytest.mark.parametrize("alpha", [0.3, [0.1, 0.5, 0.9]])
def test_quantiles(alpha: Any) -> None:
    rng = np.random.default_rng(2)
    X = table(rng)
    model = xgboost.XGBRegressor(objective="reg:quantileerror", quantile_alpha=alpha, **SMALL).fit(X, X[:, 1])
    assert check(model, rng).n_outputs == np.size(alpha)


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("base_score", [None, 0.4])
@pytest.mark.parametrize("kind", ["XGBClassifier", "XGBRFClassifier"])
def test_classifiers(kind: str, classes: int, base_score: float | None) -> None:
    rng = np.random.default_rng(3)
    X = table(rng)
    y = labels(rng, X, classes)
    model = getattr(xgboost, kind)(base_score=base_score, **SMALL).fit(holes(rng, X), y)
    forest = check(model, rng)
    assert forest.classes is not None and forest.classes.tolist() == list(range(classes))
    assert (forest.n_trees, forest.n_outputs) == (6 if classes == 2 else 24, 1 if classes == 2 else classes)


@pytest.mark.parametrize("objective", ["multi:softmax", "multi:softprob"])
def test_classifiers_by_softmax(objective: str) -> None:
    rng = np.random.default_rng(4)
    X = table(rng)
    check(xgboost.XGBClassifier(objective=objective, **SMALL).fit(X, labels(rng, X, 3)), rng)


def test_random_forest_of_several_outputs() -> None:
    rng = np.random.default_rng(5)
    X = holes(rng, table(rng))
    y = np.nan_to_num(X[:, :2]) + rng.normal(size=(len(X), 2))
    assert check(xgboost.XGBRFRegressor(**SMALL).fit(X, y), rng).n_trees == 12


@pytest.mark.parametrize("strategy", ["one_output_per_tree", "multi_output_tree"])
def test_several_outputs(strategy: str) -> None:
    rng = np.random.default_rng(6)
    X = holes(rng, table(rng))
    y = np.nan_to_num(X[:, :3]) + rng.normal(size=(len(X), 3))
    model = xgboost.XGBRegressor(multi_strategy=strategy, tree_method="hist", **SMALL).fit(X, y)
    forest = check(model, rng)
    assert (forest.n_outputs, forest.n_trees) == (3, 18 if strategy == "one_output_per_tree" else 6)


def test_classes_in_trees_with_vectors() -> None:
    rng = np.random.default_rng(7)
    X = table(rng)
    model = xgboost.XGBClassifier(multi_strategy="multi_output_tree", tree_method="hist", **SMALL)
    assert check(model.fit(X, labels(rng, X, 3)), rng).n_trees == 6


@pytest.mark.parametrize("classes", [2, 3])
def test_dropped_trees_count_less(classes: int) -> None:
    rng = np.random.default_rng(8)
    X = table(rng)
    model = xgboost.XGBClassifier(booster="dart", rate_drop=0.5, **SMALL).fit(X, labels(rng, X, classes))
    check(model, rng)


@pytest.mark.parametrize("how", [{"tree_method": "exact"}, {"grow_policy": "lossguide", "max_leaves": 9}])
def test_pruned_nodes_leave_no_gaps(how: dict[str, Any]) -> None:
    rng = np.random.default_rng(9)
    X = table(rng)
    model = xgboost.XGBRegressor(gamma=2.0, **how, **SMALL).fit(X, X[:, 1] + rng.normal(size=len(X)))
    forest = from_xgboost(model)
    rows = edge_rows(rng, forest)
    wanted = xgboost_leaves(model.get_booster(), rows)
    found = forest.apply(rows)
    renumbered = 0
    for tree in range(forest.n_trees):
        # The nodes that are left keep their order.
        pairs = sorted(set(zip(wanted[:, tree].tolist(), found[:, tree].tolist(), strict=True)))
        assert len({theirs for theirs, _ in pairs}) == len({ours for _, ours in pairs}) == len(pairs)
        assert [ours for _, ours in pairs] == sorted(ours for _, ours in pairs)
        renumbered += any(ours != theirs for theirs, ours in pairs)
    assert (renumbered > 0) == (how == {"tree_method": "exact"})
    finite = edge_rows(rng, forest, infinite=False)
    close(forest.predict(finite), model.predict(finite))


def test_the_best_rounds_of_a_model_that_stopped_early() -> None:
    rng = np.random.default_rng(10)
    X = table(rng, 200)
    y = labels(rng, X, 3)
    model = xgboost.XGBClassifier(n_estimators=50, max_depth=3, n_jobs=1, early_stopping_rounds=2)
    model.fit(X[:100], y[:100], eval_set=[(X[100:], y[100:])], verbose=False)
    forest = check(model, rng)
    assert forest.n_trees == 3 * (model.best_iteration + 1) < model.get_booster().num_boosted_rounds() * 3
    assert from_xgboost(model.get_booster()).n_trees == model.get_booster().num_boosted_rounds() * 3


@pytest.mark.parametrize("objective", ["reg:squarederror", "binary:logistic", "multi:softprob", "multi:softmax"])
def test_boosters_predict_what_they_predict(objective: str) -> None:
    rng = np.random.default_rng(11)
    X = table(rng)
    params = {"objective": objective, "max_depth": 3, "nthread": 1} | ({"num_class": 3} if "multi" in objective else {})
    y = labels(rng, X, 3 if "multi" in objective else 2)
    booster = xgboost.train(params, xgboost.DMatrix(X, y), 4)
    forest = from_xgboost(booster, feature_names=["a", "b", "c", "d"])
    assert forest.feature_names == ("a", "b", "c", "d")
    close(forest.predict(X).astype(float), booster.predict(xgboost.DMatrix(X)))
    assert (forest.classes is not None) == (objective == "multi:softmax")


def test_a_model_that_was_stored(tmp_path: Path) -> None:
    rng = np.random.default_rng(12)
    X = table(rng)
    model = xgboost.XGBClassifier(**SMALL).fit(X, labels(rng, X, 3))
    for name in ("model.json", "model.ubj"):
        model.save_model(tmp_path / name)
        again = xgboost.XGBClassifier()
        again.load_model(tmp_path / name)
        assert from_xgboost(again) == from_xgboost(model)


# ---------------------------------------------------------------- categories


def mixed_frame(rng: np.random.Generator, rows: int = 400) -> pd.DataFrame:
    frame = pd.DataFrame(
        {
            "town": pd.Categorical(rng.choice(["Ulm", "Aachen", "Bonn", "Jena", "Gera", "Suhl"], rows)),
            "size": rng.normal(size=rows),
            "rooms": pd.Categorical(rng.choice([3, 1, 10], rows)),
            "age": rng.integers(0, 90, rows),
            "garden": rng.random(rows) < 0.5,
        }
    )
    for column in ("town", "size", "rooms"):
        frame.loc[rng.random(rows) < 0.1, column] = None
    return frame


def target(rng: np.random.Generator, frame: pd.DataFrame) -> np.ndarray:
    said = 3.0 * frame["town"].isin(["Bonn", "Suhl", "Ulm"]) + frame["rooms"].isin([3]) + frame["size"].fillna(2.0)
    return np.asarray(said, float) + 0.1 * rng.normal(size=len(frame))


@pytest.mark.parametrize("one_hot", [1, 4, 100])
@pytest.mark.parametrize("booster", ["gbtree", "dart"])
def test_categories(one_hot: int, booster: str) -> None:
    rng = np.random.default_rng(13)
    frame = mixed_frame(rng)
    model = xgboost.XGBRegressor(enable_categorical=True, max_cat_to_onehot=one_hot, booster=booster, **SMALL)
    model.fit(frame, target(rng, frame))
    forest = from_xgboost(model)
    assert dict(forest.categories) == {0: ("Aachen", "Bonn", "Gera", "Jena", "Suhl", "Ulm"), 2: (1, 3, 10)}
    assert forest.feature_types == ("category", "float", "category", "int", "bool")
    assert (forest.kind == CATEGORIES).sum() > 6
    new = mixed_frame(rng)
    new["town"] = new["town"].cat.reorder_categories(new["town"].cat.categories[::-1])
    np.testing.assert_array_equal(forest.apply(new), model.apply(new))
    close(forest.predict(new), model.predict(new))
    rows = edge_rows(rng, forest)
    np.testing.assert_array_equal(forest.apply(rows), xgboost_leaves(model.get_booster(), rows))


def codes_model(rng: np.random.Generator, missing: bool) -> tuple[Any, np.ndarray]:
    X = np.stack([rng.integers(0, 9, 300), rng.normal(size=300)], axis=1).astype(float)
    y = 2.0 * np.isin(X[:, 0], [1, 2, 5]) + X[:, 1]
    if missing:
        X[::5, 0], y[::5] = np.nan, 2.0
    model = xgboost.XGBRegressor(feature_types=["c", "q"], enable_categorical=True, max_cat_to_onehot=2, **SMALL)
    return model.fit(X, y), X


def test_codes_in_an_array() -> None:
    rng = np.random.default_rng(14)
    model, X = codes_model(rng, missing=False)
    forest = from_xgboost(model, categories={0: range(9)})
    np.testing.assert_array_equal(forest.apply(X), model.apply(X))
    assert forest.categories[0] == tuple(range(9))
    named = from_xgboost(model, feature_names=["kind", "size"], categories={"kind": list("abcdefghi")})
    assert named.categories[0] == tuple("abcdefghi")
    model, X = codes_model(rng, missing=True)
    with pytest.raises(errors.InvalidArgumentError, match=r"fit on codes.*categories=\{0: range\(n\)\}"):
        from_xgboost(model)
    forest = from_xgboost(model, categories={0: range(9)})
    np.testing.assert_array_equal(forest.apply(X), model.apply(X))
    rows = edge_rows(rng, forest)
    np.testing.assert_array_equal(forest.apply(rows), xgboost_leaves(model.get_booster(), rows))


def test_words_that_are_not_ascii_have_to_be_given() -> None:
    rng = np.random.default_rng(15)
    words = ["Köln", "Łódź", "Ulm"]
    frame = pd.DataFrame({"town": pd.Categorical(rng.choice(words, 200), categories=words), "size": rng.random(200)})
    model = xgboost.XGBRegressor(enable_categorical=True, **SMALL).fit(frame, frame["town"] == "Łódź")
    with pytest.raises(errors.InvalidArgumentError, match=r"not ASCII.*pass categories=\{0: \[\.\.\.\]\}"):
        from_xgboost(model)
    forest = from_xgboost(model, categories={"town": words})
    np.testing.assert_array_equal(forest.apply(frame), model.apply(frame))


def test_vocabularies_that_cannot_be() -> None:
    rng = np.random.default_rng(16)
    frame = mixed_frame(rng)
    model = xgboost.XGBRegressor(enable_categorical=True, **SMALL).fit(frame, target(rng, frame))
    for wrong, message in (
        ({"town": ["a"]}, "6 categories"),
        ({"size": ["a"]}, r"'size'.*numbers \[0, 2\]"),
        ({"nothing": ["a"]}, "no column of categories"),
        ({True: ["a"]}, "no column of categories"),
        ({"town": "abcdef"}, "sequence of values"),
        ({"town": list("abcdef"), 0: list("abcdef")}, "twice"),
    ):
        with pytest.raises(errors.InvalidArgumentError, match=message):
            from_xgboost(model, categories=wrong)
    with pytest.raises(errors.InvalidArgumentError, match="must map columns"):
        given_vocabularies(["a"], None, [0])
    with pytest.raises(errors.InvalidArgumentError, match="leave categories out"):
        given_vocabularies({0: "ab"}, None, [])


# ---------------------------------------------------------------- refusals


def test_what_no_forest_can_be() -> None:
    rng = np.random.default_rng(17)
    X = table(rng)
    y = labels(rng, X, 2)

    def own(wanted: np.ndarray, said: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return said - wanted, np.ones_like(said)

    unfit = xgboost.XGBRegressor()
    for model, message in (
        (unfit, "is not fitted; call its fit method first"),
        (xgboost.Booster(), "has learned nothing yet"),
        (xgboost.train({"nthread": 1}, xgboost.DMatrix(X, y), 0), "has no trees"),
        (xgboost.XGBRegressor(missing=-1.0, **SMALL).fit(X, y), "missing=-1.0"),
        (xgboost.XGBRegressor(booster="gblinear", n_estimators=2, n_jobs=1).fit(X, y), "makes no trees"),
        (xgboost.XGBClassifier(objective="binary:hinge", **SMALL).fit(X, y), "objective='binary:hinge'"),
        (xgboost.XGBClassifier(objective=own, **SMALL).fit(X, y), "gives no probabilities"),
        (xgboost.XGBClassifier(objective="count:poisson", **SMALL).fit(X, y), "gives no probabilities"),
        (xgboost.XGBClassifier(**SMALL).fit(X, np.stack([y, 1 - y, y], axis=1)), "3 labels of a row at once"),
        (xgboost.XGBClassifier(**SMALL).fit(X, 0 * y), "single class"),
        (None, "no model of XGBoost"),
        (xgboost.XGBRegressor, "no model of XGBoost"),
        ({"a": 1}, "no model of XGBoost"),
    ):
        with pytest.raises(errors.InvalidArgumentError, match=message):
            from_xgboost(model)


def test_several_labels_as_numbers() -> None:
    rng = np.random.default_rng(18)
    X = table(rng)
    y = labels(rng, X, 2)
    model = xgboost.XGBClassifier(**SMALL).fit(X, np.stack([y, 1 - y, y], axis=1))
    close(from_xgboost(model.get_booster()).predict(X), model.predict_proba(X))


def test_xgboost_is_not_imported() -> None:
    program = "import sys; from hardwood.forest import from_xgboost; print('xgboost' in sys.modules)"
    source = Path(errors.__file__).parents[1]
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=source)
    assert done.stdout.strip() == "False"
