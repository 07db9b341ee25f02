"""Weights count as repeated rows do, classes are weighed, and tables that teach little do no harm."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.utils.estimator_checks import check_sample_weight_equivalence_on_dense_data

from hardwood.errors import InvalidArgumentError
from hardwood.estimators._rows import draw_seed, merged
from helpers.fits import ALL, CLASSIFIERS, REGRESSORS, answers, mixed, mixed_target, table, tiny
from helpers.tables import FRAMES, make_frame


def odd_table(kind: Any) -> tuple[pd.DataFrame, np.ndarray]:
    columns = mixed(40, seed=3)
    return make_frame("pandas", columns), mixed_target(kind, columns)


@pytest.mark.parametrize("init", ["greedy", "random"])
@pytest.mark.parametrize("kind", ALL)
def test_a_weight_is_a_number_of_copies_to_the_last_bit(kind, init):
    frame, y = odd_table(kind)
    rng = np.random.default_rng(0)
    copies = rng.integers(0, 4, len(y))
    rows = rng.permutation(np.repeat(np.arange(len(y)), copies))
    weighed = tiny(kind, init=init).fit(frame, y, sample_weight=copies)
    repeated = tiny(kind, init=init).fit(frame.iloc[rows], y[rows])
    assert weighed.forest_ == repeated.forest_
    np.testing.assert_array_equal(answers(weighed, frame), answers(repeated, frame))
    assert weighed.forest_ != tiny(kind, init=init).fit(frame, y).forest_


@pytest.mark.parametrize("kind", ALL)
def test_scikit_learn_s_check_of_weights_holds_from_a_random_start_too(kind):
    check_sample_weight_equivalence_on_dense_data(kind.__name__, tiny(kind, init="random", max_iter=10))


@pytest.mark.parametrize("kind", ALL)
def test_the_order_of_rows_makes_no_difference_to_a_small_table(kind):
    frame, y = odd_table(kind)
    order = np.random.default_rng(1).permutation(len(y))
    assert tiny(kind).fit(frame, y).forest_ == tiny(kind).fit(frame.iloc[order], y[order]).forest_


@pytest.mark.parametrize("kind", ALL)
def test_rows_of_weight_zero_teach_nothing(kind):
    X, y = table(kind, 200)
    weight = np.ones(200)
    weight[120:] = 0
    wild = X.copy()
    wild[120:] = 1e9
    other = y[::-1].copy()
    other[:120] = y[:120]
    assert tiny(kind).fit(wild, other, sample_weight=weight).forest_ == tiny(kind).fit(X[:120], y[:120]).forest_


def test_merged_rows_are_the_different_ones_with_their_weights():
    X = np.array([[1.0, np.nan], [0.0, 1.0], [1.0, np.nan], [-0.0, 1.0], [1.0, np.nan]])
    y, weight = np.array([1, 0, 1, 0, 0]), np.array([1.0, 2.0, 4.0, 8.0, 16.0])
    rows, labels, weights = merged(X, y, weight, None, lambda _: 3)
    got = sorted(zip(rows[:, 0].tolist(), labels.tolist(), weights.tolist(), strict=True))
    assert got == [(0.0, 0, 10.0), (1.0, 0, 16.0), (1.0, 1, 5.0)]
    # More different rows than a batch has room for are left alone, and so are many.
    assert merged(X, y, weight, None, lambda _: 2)[0] is X
    assert merged(np.tile(X, (100, 1)), np.tile(y, 100), np.ones(500), None, lambda _: 3)[0].shape == (500, 2)


# ---------------------------------------------------------------- classes


@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_class_weights_are_weights_of_the_rows_of_a_class(kind):
    X, y = table(kind)
    factor = {0: 1.0, 1: 3.0}
    by_class = tiny(kind, class_weight=factor).fit(X, y)
    weight = np.where(y == 1, 3.0, 1.0)
    by_row = tiny(kind, class_weight=None).fit(X, y, sample_weight=weight * len(y) / weight.sum())
    np.testing.assert_allclose(answers(by_class, X), answers(by_row, X), atol=1e-6)
    share = np.bincount(y) / len(y)
    balanced = tiny(kind, class_weight="balanced").fit(X, y)
    same = tiny(kind, class_weight={0: 0.5 / share[0], 1: 0.5 / share[1]}).fit(X, y)
    np.testing.assert_allclose(answers(balanced, X), answers(same, X), atol=1e-6)
    between = tiny(kind, class_weight="sqrt_balanced").fit(X, y)
    same = tiny(kind, class_weight={0: share[0] ** -0.5, 1: share[1] ** -0.5}).fit(X, y)
    np.testing.assert_allclose(answers(between, X), answers(same, X), atol=1e-6)


@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_heavier_classes_are_predicted_more_often(kind):
    X, y = table(kind, 200)
    names = np.where((y == 1) & (X[:, 2] > 0), "rare", "common")
    often = [
        (tiny(kind, class_weight=weight).fit(X, names).predict(X) == "rare").sum()
        for weight in (None, "sqrt_balanced", "balanced", {"rare": 50.0})
    ]
    assert often == sorted(often)
    assert often[0] < often[-1]


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        ("heavy", r"class_weight='heavy': is not known; pass None, 'balanced'"),
        ({0: 1.0, 7: 2.0}, r"class_weight=.*7 is not one of the classes \[0, 1\]"),
        ({0: -1.0}, "class_weight=.*negative or not finite"),
        ({0: np.nan}, "class_weight=.*negative or not finite"),
        ({0: 0.0, 1: 0.0}, "class_weight=.*negative or not finite"),
        ({0: "x"}, "class_weight=.*no number"),
        ([1, 2], r"class_weight=\[1, 2\]: is not known"),
    ],
)
def test_class_weights_that_are_none_are_refused(weight, message):
    X, y = table(CLASSIFIERS[0])
    with pytest.raises(InvalidArgumentError, match=message):
        tiny(CLASSIFIERS[0], class_weight=weight).fit(X, y)


@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_a_class_of_weight_zero_is_known_but_not_learned(kind):
    X, y = table(kind)
    model = tiny(kind, class_weight={1: 0.0}, max_iter=20).fit(X, y)
    assert list(model.classes_) == [0, 1]
    assert (model.predict(X) == 0).all()
    assert np.isfinite(model.feature_importances_).all()


# ---------------------------------------------------------------- odd tables


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("init", ["greedy", "random"])
@pytest.mark.parametrize(
    "spoil",
    [
        lambda X: X[:1], lambda X: X[:2], lambda X: X[:3],
        lambda X: np.c_[X, np.full(len(X), 2.0)],
        lambda X: np.full_like(X, 3.0),
        lambda X: np.c_[X, np.full(len(X), np.nan)],
        lambda X: np.full_like(X, np.nan),
        lambda X: np.where(X > 1, np.inf, np.where(X < -1, -np.inf, X)),
        lambda X: X * 1e307,
        lambda X: np.where(np.arange(len(X))[:, None] % 3 == 0, np.nan, X),
    ],
    ids=["one row", "two", "three", "constant", "constants", "missing", "all missing", "infinite", "huge", "holes"],
)  # fmt: skip
def test_tables_that_teach_little_give_a_sensible_model(kind, init, spoil):
    X, y = table(kind, 40)
    X = spoil(X)
    y = y[: len(X)]
    model = tiny(kind, init=init, max_iter=2).fit(X, y)
    other = np.array([[np.nan], [np.inf], [-np.inf], [0.0], [1e308]]) * np.ones(X.shape[1])
    for rows in (X, other):
        assert np.isfinite(answers(model, rows)).all()
    if kind in REGRESSORS:
        # Leaf values of trained trees may overshoot a little.
        slack = np.ptp(y) + 1.0
        assert (model.predict(X) >= y.min() - slack).all() and (model.predict(X) <= y.max() + slack).all()
    else:
        assert np.isin(model.predict(X), y).all()


@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_one_class_is_always_answered(kind):
    X, _ = table(kind)
    model = tiny(kind).fit(X, np.full(len(X), "only"))
    assert list(model.classes_) == ["only"]
    assert (model.predict(X) == "only").all()
    np.testing.assert_array_equal(model.predict_proba(X), np.ones((len(X), 1)))
    assert model.forest_.node_count == 1
    assert "only" in str(model.explain(X[:1]))


@pytest.mark.parametrize("kind", REGRESSORS)
def test_one_number_is_always_answered(kind):
    X, _ = table(kind)
    model = tiny(kind).fit(X, np.full(len(X), 7.5))
    np.testing.assert_allclose(model.predict(X), 7.5, rtol=1e-6)


def test_too_many_classes_are_refused_before_anything_large_is_made():
    X = np.arange(20_000.0)[:, None]
    for kind in CLASSIFIERS:
        with pytest.raises(InvalidArgumentError, match=r"10,000 classes, and 1,000 are the most; .* regressor"):
            tiny(kind).fit(X, np.arange(20_000) // 2)
    with pytest.raises(InvalidArgumentError, match="1,000 are the most"):
        tiny(CLASSIFIERS[0]).partial_fit(X[:5], np.arange(5), classes=np.repeat(np.arange(10_000), 2))


@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_a_hundred_classes_of_a_few_rows_each_are_learned(kind):
    rng = np.random.default_rng(0)
    places = rng.normal(size=(100, 2))
    y = np.sort(np.concatenate([np.arange(100), (100 * rng.random(400) ** 2).astype(int)]))
    X = places[y] + 0.02 * rng.normal(size=(500, 2))
    model = tiny(kind, max_depth=7, max_iter=5).fit(X, y)
    assert model.predict_proba(X).shape == (500, 100)
    assert model.score(X, y) > 3 * np.bincount(y).max() / len(y)
    # Fewer than two rows of most classes: scikit-learn warns of such a target, once.
    few = np.r_[0:100, 300:400]
    with pytest.warns(UserWarning, match="greater than 50%") as warned:
        assert tiny(kind).fit(X[few], few).predict_proba(X).shape == (500, 200)
    assert len(warned) == 1


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.zeros((0, 3)), r"0 sample\(s\).*pass a table with rows"),
        (np.zeros((4, 0)), r"0 feature\(s\).*pass a table with columns"),
        (np.zeros(4), "two dimensions"),
        (np.array([[{}], [1], [2], [3]], object), r"X\['x0'\]"),
    ],
)
def test_what_is_no_table_is_refused(kind, X, message):
    with pytest.raises(InvalidArgumentError, match=message):
        tiny(kind).fit(X, np.arange(len(X)) % 2)


@pytest.mark.parametrize("kind", ALL)
def test_weights_that_are_none_are_refused(kind):
    X, y = table(kind)
    for wrong in (-1.0, np.nan, np.inf):
        weight = np.ones(len(y))
        weight[3] = wrong
        with pytest.raises(InvalidArgumentError, match=rf"sample_weight\[3\]={wrong}"):
            tiny(kind).fit(X, y, sample_weight=weight)
        with pytest.raises(InvalidArgumentError, match=rf"sample_weight\[3\]={wrong}"):
            tiny(kind).partial_fit(X, y, sample_weight=weight, **({"classes": [0, 1]} if kind in CLASSIFIERS else {}))
    for wrong, message in (
        (np.zeros(len(y)), "zero for every row"),
        (np.ones(3), "shape"),
        (["a"] * len(y), "numbers"),
    ):
        with pytest.raises(InvalidArgumentError, match=f"sample_weight.*{message}"):
            tiny(kind).fit(X, y, sample_weight=wrong)


@pytest.mark.parametrize("name", FRAMES)
def test_categories_that_training_rows_did_not_have_count_as_missing(name):
    columns = {"colour": ["red", "blue", "red", "blue", None] * 12, "size": [1.0, 2.0, 1.5, 2.5, 9.0] * 12}
    for kind in ALL:
        y = np.array([0, 1, 0, 1, 1] * 12)
        model = tiny(kind, max_iter=10).fit(make_frame(name, columns), y)
        new = make_frame(name, {"colour": ["green", None], "size": [1.0, 1.0]})
        found = answers(model, new)
        np.testing.assert_array_equal(found[0], found[1])


def test_a_seed_is_an_integer_or_a_generator_or_nothing():
    assert draw_seed(3) == draw_seed(3) == draw_seed(np.int64(3)) == draw_seed(np.random.RandomState(3))
    assert draw_seed(None) != draw_seed(None)
    with pytest.raises(InvalidArgumentError, match="random_state='a'"):
        draw_seed("a")
