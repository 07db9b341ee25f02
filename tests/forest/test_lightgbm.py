"""A forest made from a LightGBM model reaches the same leaves, on rows chosen to hurt, and predicts the same."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from hardwood import errors
from hardwood.forest import CATEGORIES, LEAF, Forest, from_lightgbm
from helpers.boosted_models import edge_rows
from helpers.sklearn_models import close, labels, table, to_float32

lightgbm = pytest.importorskip("lightgbm")

SMALL: dict[str, Any] = {"n_estimators": 6, "num_leaves": 9, "min_child_samples": 3, "n_jobs": 1, "verbose": -1}
PLAIN: dict[str, Any] = {"num_leaves": 7, "min_data_in_leaf": 2, "min_data_in_bin": 1, "num_threads": 1, "verbose": -1}


def holes(rng: np.random.Generator, X: np.ndarray) -> np.ndarray:
    return np.where(rng.random(X.shape) < 0.1, np.nan, X)


def leaf_numbers(forest: Forest, X: Any) -> np.ndarray:
    """Return the leaf that each row reaches, counted among the leaves of its tree as LightGBM counts them."""
    leaf = forest.kind == LEAF
    before = np.cumsum(leaf) - leaf
    first = forest.tree_start[:-1]
    return np.asarray(before[forest.apply(X) + first] - before[first])


def check_booster(booster: Any, forest: Forest, X: Any) -> None:
    theirs = booster.predict(X, pred_leaf=True).reshape(len(X), -1)
    np.testing.assert_array_equal(leaf_numbers(forest, X), theirs)
    raw = booster.predict(X, raw_score=True)
    if forest.combine == "mean":  # LightGBM takes the mean after what it calls raw
        raw /= forest.n_trees / forest.n_outputs
    close(forest.outputs(X).reshape(raw.shape), raw)


def check(model: Any, rng: np.random.Generator) -> Forest:
    """Convert a fitted model of the scikit-learn kind and compare everything that both can say."""
    forest = from_lightgbm(model)
    X = edge_rows(rng, forest)
    check_booster(model.booster_, forest, X)
    check_booster(model.booster_, forest, to_float32(X))
    if hasattr(model, "classes_"):
        close(forest.predict_proba(X), model.predict_proba(X))
        np.testing.assert_array_equal(forest.predict(X), model.predict(X))
    else:
        close(forest.predict(X).ravel(), model.booster_.predict(X))
    return forest


@pytest.mark.parametrize(
    "objective",
    [
        "regression", "regression_l1", "huber", "fair", "quantile", "mape", "poisson", "gamma", "tweedie",
        "cross_entropy",
    ],
)  # fmt: skip
@pytest.mark.parametrize("missing", [False, True])
def test_regressors(objective: str, missing: bool) -> None:
    rng = np.random.default_rng(1)
    X = table(rng)
    y = np.exp(X[:, 1]) + 0.1 * rng.random(len(X))
    y = y / y.max() if objective == "cross_entropy" else y
    model = lightgbm.LGBMRegressor(objective=objective, **SMALL).fit(holes(rng, X) if missing else X, y)
    wanted = {"poisson": "exp", "gamma": "exp", "tweedie": "exp", "cross_entropy": "sigmoid"}
    assert check(model, rng).link == wanted.get(objective, "identity")


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("boosting", ["gbdt", "dart", "rf"])
def test_classifiers(classes: int, boosting: str) -> None:
    rng = np.random.default_rng(2)
    X = table(rng)
    y = np.array(["no", "yes", "perhaps", "never"])[labels(rng, X, classes)]
    how = {"boosting_type": boosting, "subsample": 0.7, "subsample_freq": 1}
    model = lightgbm.LGBMClassifier(**how, **SMALL).fit(holes(rng, X), y)
    forest = check(model, rng)
    assert forest.classes is not None and forest.classes.tolist() == model.classes_.tolist()
    assert forest.combine == ("mean" if boosting == "rf" else "sum")


def test_a_sigmoid_of_another_slope() -> None:
    rng = np.random.default_rng(3)
    X = table(rng)
    model = lightgbm.LGBMClassifier(sigmoid=2.5, **SMALL).fit(X, labels(rng, X, 2))
    forest = from_lightgbm(model)
    rows = edge_rows(rng, forest)
    close(forest.predict_proba(rows), model.predict_proba(rows))
    close(forest.outputs(rows)[:, 0], 2.5 * model.booster_.predict(rows, raw_score=True))


@pytest.mark.parametrize("objective", ["binary", "multiclass", "multiclassova"])
def test_boosters_predict_what_they_predict(objective: str) -> None:
    rng = np.random.default_rng(4)
    X = table(rng)
    params = {"objective": objective, **PLAIN} | ({} if objective == "binary" else {"num_class": 3})
    booster = lightgbm.train(params, lightgbm.Dataset(X, labels(rng, X, 2 if objective == "binary" else 3)), 4)
    forest = from_lightgbm(booster, feature_names=["a", "b", "c", "d"])
    assert (forest.feature_names, forest.classes) == (("a", "b", "c", "d"), None)
    rows = edge_rows(rng, forest)
    check_booster(booster, forest, rows)
    close(forest.predict(rows), booster.predict(rows))
    assert from_lightgbm(lightgbm.Booster(model_str=booster.model_to_string())) == from_lightgbm(booster)


def test_an_objective_of_ones_own() -> None:
    rng = np.random.default_rng(5)
    X = table(rng)
    y = X[:, 1]

    def squares(wanted: np.ndarray, said: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return said - wanted, np.ones_like(said)

    check(lightgbm.LGBMRegressor(objective=squares, **SMALL).fit(X, y), rng)
    with pytest.raises(errors.InvalidArgumentError, match="objective='custom'"):
        from_lightgbm(lightgbm.LGBMClassifier(objective=squares, **SMALL).fit(X, y > 0))


@pytest.mark.filterwarnings("ignore:The argument .eval_set. is deprecated")
def test_the_best_rounds_of_a_model_that_stopped_early() -> None:
    rng = np.random.default_rng(6)
    X = table(rng, 200)
    y = labels(rng, X, 3)
    model = lightgbm.LGBMClassifier(**SMALL | {"n_estimators": 60})
    stop = lightgbm.early_stopping(2, verbose=False)
    model.fit(X[:100], y[:100], eval_set=[(X[100:], y[100:])], callbacks=[stop])
    assert check(model, rng).n_trees == 3 * model.best_iteration_ < 180


def test_trees_of_one_leaf() -> None:
    rng = np.random.default_rng(7)
    X = table(rng)
    forest = from_lightgbm(lightgbm.LGBMRegressor(**SMALL).fit(X, np.full(len(X), 3.0)))
    assert forest.node_count == forest.n_trees
    np.testing.assert_array_equal(forest.predict(X), np.full(len(X), 3.0))


# ---------------------------------------------------------------- missing values


def test_splits_that_part_missing_values_from_all_numbers() -> None:
    rng = np.random.default_rng(8)
    X = table(rng, 200)
    X[::3, 1] = np.nan
    forest = check(lightgbm.LGBMRegressor(**SMALL).fit(X, 5.0 * np.isnan(X[:, 1]) + X[:, 0]), rng)
    # No threshold has infinity below it: it is on the right of -inf.
    assert np.isneginf(forest.threshold).any()


def test_splits_that_part_infinities() -> None:
    rng = np.random.default_rng(9)
    X = rng.normal(size=(300, 2))
    X[::4, 0], X[1::4, 0] = np.inf, -np.inf
    y = np.nan_to_num(X[:, 0], posinf=5.0, neginf=-5.0)
    booster = lightgbm.train({**PLAIN}, lightgbm.Dataset(X, y), 3)
    forest = from_lightgbm(booster)
    check_booster(booster, forest, edge_rows(rng, forest))


def test_missing_values_that_training_did_not_have_stand_for_zero() -> None:
    rng = np.random.default_rng(10)
    X = table(rng)
    for shift in (-3.0, 0.0, 3.0):
        model = lightgbm.LGBMRegressor(**SMALL).fit(X + shift, X[:, 1])
        forest = check(model, rng)
        at_zero, missing = np.zeros((1, 4)), np.full((1, 4), np.nan)
        np.testing.assert_array_equal(forest.apply(at_zero), forest.apply(missing))


def test_no_use_of_missing_values() -> None:
    rng = np.random.default_rng(11)
    X = holes(rng, table(rng))
    check(lightgbm.LGBMRegressor(use_missing=False, **SMALL).fit(X, np.nan_to_num(X[:, 1])), rng)


@pytest.mark.parametrize("side", [-1.0, 1.0])
def test_zeros_that_are_missing(side: float) -> None:
    """Zeros that stand beside the numbers of their side are like other splits."""
    rng = np.random.default_rng(12)
    X = side * np.where(rng.random((300, 2)) < 0.4, 0.0, np.abs(rng.normal(size=(300, 2))))
    params = {"zero_as_missing": True, **PLAIN, "num_leaves": 2}
    booster = lightgbm.train(params, lightgbm.Dataset(X, X[:, 0] > 0.0 if side > 0 else X[:, 0] < 0), 3)
    forest = from_lightgbm(booster)
    tiny = float(np.float32(1e-35))
    edges = np.array([0.0, tiny, np.nextafter(tiny, 1), np.nextafter(tiny, 0), 1e-36, np.nan, 1.0])
    rows = np.stack([np.concatenate([edges, -edges]), np.zeros(2 * len(edges))], axis=1)
    check_booster(booster, forest, np.concatenate([rows, edge_rows(rng, forest)]))


def test_zeros_that_are_missing_apart_from_both_sides_are_refused() -> None:
    rng = np.random.default_rng(13)
    X = np.where(rng.random((300, 1)) < 0.4, 0.0, rng.normal(size=(300, 1)))
    booster = lightgbm.train({"zero_as_missing": True, **PLAIN}, lightgbm.Dataset(X, X[:, 0] == 0), 1)
    with pytest.raises(errors.InvalidArgumentError, match=r"zero_as_missing=True: .* column 0 .* NaN in place"):
        from_lightgbm(booster)


# ---------------------------------------------------------------- categories


def mixed_frame(rng: np.random.Generator, rows: int = 400) -> pd.DataFrame:
    frame = pd.DataFrame(
        {
            "town": pd.Categorical(rng.choice(["Ulm", "Köln", "Bonn", "Jena", "Łódź", "Suhl"], rows)),
            "size": rng.normal(size=rows),
            "rooms": pd.Categorical(rng.choice([3, 1, 10], rows)),
            "garden": pd.Categorical(rng.choice([True, False], rows)),
            "alike": pd.Categorical(["one"] * rows),
            "age": rng.integers(0, 90, rows),
        }
    )
    for column in ("town", "size", "rooms"):
        frame.loc[rng.random(rows) < 0.1, column] = None
    return frame


def target(frame: pd.DataFrame) -> np.ndarray:
    said = 3.0 * frame["town"].isin(["Bonn", "Łódź", "Ulm"]) + frame["rooms"].isin([3]) * frame["garden"].isin([True])
    return np.asarray(said + frame["size"].fillna(2.0), float)


SETS = {"min_data_per_group": 1, "cat_smooth": 1, "cat_l2": 0, **SMALL}


@pytest.mark.parametrize("one_hot", [1, 4, 100])
def test_categories(one_hot: int) -> None:
    rng = np.random.default_rng(14)
    frame = mixed_frame(rng)
    model = lightgbm.LGBMRegressor(max_cat_to_onehot=one_hot, **SETS).fit(frame, target(frame))
    forest = check(model, rng)
    assert dict(forest.categories) == {
        0: ("Bonn", "Jena", "Köln", "Suhl", "Ulm", "Łódź"), 2: (1, 3, 10), 3: (False, True), 4: ("one",),
    }  # fmt: skip
    assert forest.feature_names == ("town", "size", "rooms", "garden", "alike", "age")
    assert (forest.kind == CATEGORIES).sum() > 6
    new = mixed_frame(rng)
    new["town"] = new["town"].cat.rename_categories({"Ulm": "Paris"}).cat.remove_categories(["Suhl"])
    np.testing.assert_array_equal(leaf_numbers(forest, new), model.predict(new, pred_leaf=True))
    close(forest.predict(new), model.predict(new))
    again = from_lightgbm(lightgbm.Booster(model_str=model.booster_.model_to_string()))
    assert again.predict(new).tolist() == forest.predict(new).tolist()


def test_codes_in_an_array() -> None:
    rng = np.random.default_rng(15)
    X = np.stack([rng.choice([3.0, 7.0, 8.0, 40.0, np.nan], 300), rng.normal(size=300)], axis=1)
    y = 3.0 * np.isin(X[:, 0], [7, 40]) + X[:, 1]
    model = lightgbm.LGBMRegressor(max_cat_to_onehot=1, **SETS).fit(X, y, categorical_feature=[0])
    forest = check(model, rng)
    assert forest.categories[0] == tuple(range(41))
    rows = np.stack([np.repeat([*range(-2, 70), np.inf, -np.inf, np.nan, 1e300], 3), np.tile([-1.0, 0, 1], 76)], axis=1)
    check_booster(model.booster_, forest, rows)
    named = from_lightgbm(model, feature_names=["kind", "size"], categories={"kind": [f"k{n}" for n in range(41)]})
    np.testing.assert_array_equal(named.apply(X), forest.apply(X))
    with pytest.raises(errors.InvalidArgumentError, match="has 2 entries, but the model knows 41 codes"):
        from_lightgbm(model, categories={0: ["a", "b"]})


def test_a_code_that_is_too_large() -> None:
    X = np.array([[0.0], [2.0**22]] * 50)
    model = lightgbm.LGBMRegressor(**SETS).fit(X, X[:, 0], categorical_feature=[0])
    with pytest.raises(errors.InvalidArgumentError, match=r"categories\[0\]=4194304: is too large a code"):
        from_lightgbm(model)


def test_ordered_categories_have_to_be_named() -> None:
    """LightGBM splits ordered categories by number, and does not say which column their vocabulary is of."""
    rng = np.random.default_rng(16)
    frame = mixed_frame(rng)[["town", "size", "rooms"]]
    frame["rooms"] = frame["rooms"].cat.as_ordered()
    model = lightgbm.LGBMRegressor(**SETS).fit(frame, target(frame.assign(garden=True)))
    with pytest.raises(errors.InvalidArgumentError, match=r"frame had 2 of them, .* for all category columns"):
        from_lightgbm(model)
    words = {name: frame[name].cat.categories.tolist() for name in ("town", "rooms")}
    forest = from_lightgbm(model, categories=words)
    np.testing.assert_array_equal(leaf_numbers(forest, frame), model.predict(frame, pred_leaf=True))


# ---------------------------------------------------------------- names and refusals


def test_names() -> None:
    rng = np.random.default_rng(17)
    X = table(rng)
    assert from_lightgbm(lightgbm.LGBMRegressor(**SMALL).fit(X, X[:, 1])).feature_names is None
    frame = pd.DataFrame(X, columns=["a size", "b", "c", "d"])
    model = lightgbm.LGBMRegressor(**SMALL).fit(frame, X[:, 1])
    assert from_lightgbm(model).feature_names == ("a_size", "b", "c", "d")
    forest = from_lightgbm(model, feature_names=list(frame.columns))
    close(forest.predict(frame[["d", "c", "b", "a size"]]), model.predict(frame))


def test_what_no_forest_can_be() -> None:
    rng = np.random.default_rng(18)
    X = table(rng)
    y = labels(rng, X, 2)
    for model, message in (
        (lightgbm.LGBMRegressor(), "is not fitted; call its fit method first"),
        (lightgbm.Booster(PLAIN, lightgbm.Dataset(X, y)), "has no trees"),
        (lightgbm.LGBMRegressor(linear_tree=True, **SMALL).fit(X, X[:, 1]), "linear_tree=True"),
        (lightgbm.LGBMRegressor(reg_sqrt=True, **SMALL).fit(X, y), "without reg_sqrt"),
        (lightgbm.LGBMRegressor(objective="cross_entropy_lambda", **SMALL).fit(X, y), "a rule that a forest"),
        (lightgbm.LGBMClassifier(objective="multiclassova", **SMALL).fit(X, labels(rng, X, 3)), "add up to 1"),
        (lightgbm.LGBMClassifier(**SMALL).fit(X, 0 * y), "single class"),
        (None, "no model of LightGBM"),
        (lightgbm.LGBMRegressor, "no model of LightGBM"),
    ):
        with pytest.raises(errors.InvalidArgumentError, match=message):
            from_lightgbm(model)


def test_lightgbm_is_not_imported() -> None:
    program = "import sys; from hardwood.forest import from_lightgbm; print('lightgbm' in sys.modules)"
    source = Path(errors.__file__).parents[1]
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=source)
    assert done.stdout.strip() == "False"
