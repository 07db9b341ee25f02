"""A raised forest sends given rows as the forest on raw columns does, as far as their encoded cells differ."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.ensemble import HistGradientBoostingClassifier
from threadpoolctl import threadpool_limits

from hardwood.data import TableEncoder
from hardwood.errors import InvalidArgumentError
from hardwood.forest import CATEGORIES, LEAF, OBLIQUE, THRESHOLD, Forest, from_sklearn
from hardwood.nn import HardTrees
from helpers.forests import random_forest
from helpers.tables import HARD, make_frame, neighbours, random_columns

NUMERIC = ["quantile", "standard", "identity"]


def one_split(
    column: int, n_features: int, threshold: float = 0.0, missing_left: bool = False, **fields: Any
) -> Forest:
    """Make a tree of one split: by number, or by the category codes in `codes`."""
    codes = fields.pop("codes", None)
    if codes is not None:
        fields |= {"category_start": [0, len(codes), len(codes), len(codes)]}
        fields |= {"category_codes": np.array(sorted(codes), np.int64)}
    return Forest(
        tree_start=[0, 3], kind=[THRESHOLD if codes is None else CATEGORIES, LEAF, LEAF], left=[1, -1, -1],
        right=[2, -1, -1], feature=[column, -1, -1], threshold=[threshold, 0, 0],
        missing_left=[missing_left, False, False], leaf_values=[[1.0], [2.0]], n_features=n_features, **fields,
    )  # fmt: skip


def check_finite(raised: Forest, encoder: TableEncoder) -> None:
    """Check that a layer can hold the forest exactly."""
    assert raised.n_features == encoder.n_encoded and raised.feature_names == encoder.encoded_names
    assert np.isin(raised.kind, (LEAF, THRESHOLD)).all() and not raised.categories
    assert np.isfinite(raised.threshold).all()
    np.testing.assert_array_equal(raised.threshold, raised.threshold.astype(np.float32))


@pytest.mark.parametrize("numeric", NUMERIC)
@pytest.mark.parametrize("seed", range(4))
def test_rows_of_numbers_go_the_same_way(numeric: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    raw = rng.normal(size=(80, 4))
    raw[:, 1] = rng.integers(0, 4, 80)
    raw[rng.random(raw.shape) < 0.1] = np.nan
    encoder = TableEncoder(numeric=numeric)
    encoder.fit_transform(raw)
    forest = random_forest(rng, n_features=4, kinds=(THRESHOLD,), linear=False, named=False, max_splits=25)
    pool = np.concatenate([neighbours(raw[~np.isnan(raw)]), [-9.0, 9.0, np.inf, -np.inf, 1e300]])
    forest = replace(forest, threshold=np.where(forest.kind == LEAF, 0.0, rng.choice(pool, forest.node_count)))
    raised = encoder.raise_forest(forest, raw)
    check_finite(raised, encoder)
    # Neighbours in float64 may be one number in float32: there, rows are compared that are told apart.
    encoded = encoder.encode_raw(raw)
    told = np.ones(len(raw), bool)
    for node in np.flatnonzero(forest.kind == THRESHOLD):
        cells, images = raw[:, forest.feature[node]], encoded[:, forest.feature[node]]
        right = cells >= forest.threshold[node]
        told &= ~(np.isin(images, images[right]) & np.isin(images, images[cells < forest.threshold[node]]))
    np.testing.assert_array_equal(raised.apply(encoded)[told], forest.apply(raw)[told])
    assert told.mean() > 0.9


@settings(max_examples=60)
@given(
    seed=st.integers(0, 2**32 - 1),
    rows=st.sampled_from([1, 2, 7, 40]),
    numeric=st.sampled_from(NUMERIC),
    one_hot_max_size=st.sampled_from([0, 3, 10, 40]),
    n_classes=st.sampled_from([0, 2, 4]),
)
def test_lowered_forests_come_back(seed: int, rows: int, numeric: Any, one_hot_max_size: int, n_classes: int) -> None:
    """What was lowered is told by encoded cells, in every kind of table, so that raising it is exact for given rows."""
    state = random.getstate()
    rng = np.random.default_rng(seed)
    table = random_columns(rng, rows, int(rng.integers(1, 6)))
    frame = make_frame(str(rng.choice(["pandas", "polars"])), table)
    y = rng.normal(size=rows) if n_classes == 0 else rng.integers(0, n_classes, rows)
    encoder = TableEncoder(
        numeric=numeric, task="classification" if n_classes else "regression", one_hot_max_size=one_hot_max_size
    )
    weight = rng.choice([0.0, 1.0, 2.0], rows)
    weight[rng.integers(rows)] = 1.0
    encoder.fit_transform(frame, y, weight)
    raw = encoder.to_raw(frame)
    encoded = encoder.encode_raw(raw)
    forest = random_forest(rng, n_features=encoder.n_encoded, kinds=(THRESHOLD,), linear=False, named=False)
    seen = encoded[~np.isnan(encoded)].astype(np.float64)
    pool = np.concatenate([neighbours(seen), rng.normal(size=10), [-1.0, 0.0, 1.0, np.inf, -np.inf]])
    forest = replace(forest, threshold=np.where(forest.kind == LEAF, 0.0, rng.choice(pool, forest.node_count)))
    lowered = encoder.lower(forest)
    raised = encoder.raise_forest(lowered, raw, weight)
    check_finite(raised, encoder)
    counted = weight > 0
    np.testing.assert_array_equal(raised.apply(encoded)[counted], forest.apply(encoded)[counted])
    again = encoder.lower(raised)
    np.testing.assert_array_equal(again.apply(raw)[counted], lowered.apply(raw)[counted])
    random.setstate(state)


# ---------------------------------------------------------------- numbers


@pytest.mark.parametrize("numeric", NUMERIC)
@pytest.mark.parametrize("missing_left", [False, True])
def test_a_threshold_anywhere_keeps_its_rows(numeric: Any, missing_left: bool) -> None:
    x = np.concatenate([HARD, [2.0, 5.0, 5.0, 7.0]])[:, None]
    encoder = TableEncoder(numeric=numeric)
    encoder.fit_transform(x)
    encoded = encoder.encode_raw(x)
    for cut in np.concatenate([neighbours(x[~np.isnan(x)]), [3.0, -7.0, 1e18]]):
        forest = one_split(0, 1, float(cut), missing_left)
        raised = encoder.raise_forest(forest, x)
        check_finite(raised, encoder)
        wanted, found = forest.apply(x)[:, 0], raised.apply(encoded)[:, 0]
        for image in np.unique(encoded[~np.isnan(encoded)]):
            same = encoded[:, 0] == image
            assert len(set(found[same])) == 1
            assert (found[same] == wanted[same]).sum() * 2 >= same.sum()
        assert found[np.isnan(x[:, 0])].tolist() == wanted[np.isnan(x[:, 0])].tolist()


def test_a_threshold_stands_halfway() -> None:
    x = np.array([[1.0], [2.0], [4.0], [np.nan]])
    encoder = TableEncoder(numeric="identity")
    encoder.fit_transform(x)
    for cut, wanted in ((1.001, 1.5), (2.0, 1.5), (2.5, 3.0), (4.0, 3.0), (0.5, 0.5), (1.0, 1.0), (9.0, 9.0)):
        assert encoder.raise_forest(one_split(0, 1, cut), x).threshold[0] == wanted
    raised = encoder.raise_forest(one_split(0, 1, np.inf, True), x)
    # Everything goes left: nothing is below the smallest number, and the sides have changed places.
    assert (raised.left[0], raised.right[0], raised.missing_left[0]) == (2, 1, False)
    assert raised.threshold[0] == -np.finfo(np.float32).max
    assert encoder.raise_forest(one_split(0, 1, -np.inf), x).threshold[0] == -np.finfo(np.float32).max
    nothing = np.full((2, 1), np.nan)
    assert encoder.raise_forest(one_split(0, 1, 2.5), nothing).threshold[0] == 2.5


def test_ties_go_where_most_weight_is() -> None:
    near = np.array([1.0, 1.0 + 2**-40, 1.0 + 2**-39])  # one number in float32
    x = np.concatenate([[0.0], near, [2.0]])[:, None]
    encoder = TableEncoder(numeric="identity")
    encoder.fit_transform(x)
    forest = one_split(0, 1, float(near[1]))
    for weight, wanted in (
        ([1.0, 1.0, 1.0, 1.0, 1.0], 0.5),
        ([1.0, 3.0, 1.0, 1.0, 1.0], 1.5),
        ([1.0, 2.0, 1.0, 1.0, 1.0], 1.5),
        ([0.0, 1.0, 1.0, 1.0, 1.0], 1.0),
        ([1.0, 3.0, 1.0, 1.0, 0.0], np.nextafter(np.float32(1), np.float32(2))),
    ):
        assert encoder.raise_forest(forest, x, weight).threshold[0] == wanted


def test_the_largest_numbers_have_nothing_beyond() -> None:
    x = np.array([[np.inf], [1e300], [np.nan]])
    encoder = TableEncoder(numeric="identity")
    encoder.fit_transform(x)
    raised = encoder.raise_forest(one_split(0, 1, np.inf, True), x, [1.0, 2.0, 1.0])
    np.testing.assert_array_equal(raised.apply(encoder.encode_raw(x))[:, 0], [1, 1, 1])
    raised = encoder.raise_forest(one_split(0, 1, np.inf, True), x, [2.0, 1.0, 1.0])
    np.testing.assert_array_equal(raised.apply(encoder.encode_raw(x))[:, 0], [2, 2, 1])


# ---------------------------------------------------------------- categories


def test_sets_that_one_hot_cells_tell() -> None:
    words = np.array(list("abcd"), object)[:, None]
    encoder = TableEncoder()
    encoder.fit_transform(words)
    raw = np.array([[0.0], [1.0], [2.0], [3.0], [np.nan]])
    encoded = encoder.encode_raw(raw)
    one_cell = [{0}, {1}, {3}, {0, 1, 2}, {1, 2, 3}, set(), {0, 1, 2, 3}]
    for codes, missing_left in itertools.product(one_cell, [False, True]):
        forest = one_split(0, 1, missing_left=missing_left, codes=codes, categories={0: tuple("abcd")})
        raised = encoder.raise_forest(forest, raw)
        check_finite(raised, encoder)
        np.testing.assert_array_equal(raised.apply(encoded), forest.apply(raw))
        np.testing.assert_array_equal(encoder.lower(raised).apply(raw), forest.apply(raw))


def test_other_sets_are_right_about_most_rows() -> None:
    encoder = TableEncoder()
    encoder.fit_transform(np.array(list("abcd"), object)[:, None])
    raw = np.array([0.0] * 5 + [1.0] * 3 + [2.0] * 4 + [3.0] * 2)[:, None]
    forest = one_split(0, 1, codes={0, 1}, categories={0: tuple("abcd")})
    for weight, wrong in ((None, 2), (np.repeat([1.0, 1.0, 0.0, 1.0], [5, 3, 4, 2]), 0)):
        raised = encoder.raise_forest(forest, raw, weight)
        each = np.ones(len(raw)) if weight is None else weight
        differ = raised.apply(encoder.encode_raw(raw)) != forest.apply(raw)
        assert each @ differ[:, 0] == wrong


@pytest.mark.parametrize("n_classes", [2, 3])
def test_sets_that_target_cells_tell(n_classes: int) -> None:
    """Compare with trying every cell, cut and direction."""
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 6, 60)
    words = np.array([f"w{code}" for code in codes], object)[:, None]
    encoder = TableEncoder(one_hot_max_size=2, task="classification")
    encoder.fit_transform(words, (codes + rng.integers(0, 2, 60)) % n_classes)
    raw = encoder.to_raw(words)
    weight = rng.choice([0.5, 1.0, 2.0], 60)
    cells = encoder.encode_raw(np.arange(6.0)[:, None])
    of_words = np.bincount(codes, weight, minlength=6)
    for bits in range(2**6):
        chosen = (bits >> np.arange(6)) & 1 == 1
        vocabulary = {0: tuple(f"w{code}" for code in range(6))}
        forest = one_split(0, 1, codes=set(np.flatnonzero(chosen).tolist()), categories=vocabulary)
        best = 0.0
        for cell in cells.T:
            for cut in [*np.unique(cell), np.inf]:
                right = of_words[(cell < cut) == chosen].sum()
                best = max(best, right, of_words.sum() - right)
        raised = encoder.raise_forest(forest, raw, weight)
        same = raised.apply(encoder.encode_raw(raw)) == forest.apply(raw)
        np.testing.assert_allclose(weight @ same[:, 0], best)


def test_categories_are_matched_by_words() -> None:
    encoder = TableEncoder()
    encoder.fit_transform(pd.DataFrame({"x": ["a", "b", "c", "d"]}))
    raw = np.array([[0.0], [1.0], [2.0], [3.0], [np.nan]])
    frame = pd.DataFrame({"x": ["a", "b", "c", "d", None]})
    # The forest does not know "d", which is missing there.
    for codes, missing_left, wrong in (({1}, False, 0), ({0, 2}, True, 0), ({0, 2}, False, 1)):
        forest = one_split(0, 1, missing_left=missing_left, codes=codes, categories={0: ("c", "b", "a")})
        found = encoder.raise_forest(forest, raw).apply(encoder.encode_raw(raw))
        assert (found != forest.apply(frame)).sum() == wrong
    by_code = encoder.raise_forest(one_split(0, 1, 0.5), raw)
    np.testing.assert_array_equal(by_code.apply(encoder.encode_raw(raw))[:, 0], [1, 2, 2, 2, 2])
    ordered = one_split(0, 1, 2.0, categories={0: ("d", "a", "b", "c")})
    found = encoder.raise_forest(ordered, raw).apply(encoder.encode_raw(raw))[:, 0]
    assert (found != ordered.apply(frame)[:, 0]).sum() == 1


def test_a_model_of_another_library_becomes_a_layer() -> None:
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"size": rng.normal(size=300), "town": pd.Categorical(rng.choice(list("ab"), 300))})
    frame.loc[::9, "size"] = np.nan
    y = (frame["size"].fillna(1.0) + (frame["town"] == "a") > 0).to_numpy()
    model = HistGradientBoostingClassifier(max_iter=4, max_depth=3, categorical_features="from_dtype")
    with threadpool_limits(1):
        model.fit(frame, y)
    forest = from_sklearn(model)
    encoder = TableEncoder()
    encoded = encoder.fit_transform(frame)
    raised = encoder.raise_forest(forest, encoder.to_raw(frame))
    np.testing.assert_array_equal(raised.apply(encoded), forest.apply(frame))
    again = HardTrees.from_forest(raised).to_forest()
    np.testing.assert_allclose(again.outputs(encoded), forest.outputs(frame), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(encoder.lower(again).outputs(frame), forest.outputs(frame), rtol=1e-5, atol=1e-6)


# ---------------------------------------------------------------- refusals


def test_forests_that_cannot_be_raised_are_refused() -> None:
    encoder = TableEncoder()
    frame = pd.DataFrame({"x": [0.0, 1.0], "w": ["a", "b"]})
    with pytest.raises(InvalidArgumentError, match="has learned nothing yet"):
        encoder.raise_forest(one_split(0, 2), np.zeros((1, 2)))
    encoder.fit_transform(frame)
    raw = encoder.to_raw(frame)
    forest = one_split(0, 2)
    for wrong, rows, message in (
        (one_split(0, 3), raw, r"has 3 column\(s\), but the encoder learned 2"),
        (replace(forest, feature_names=("w", "x")), raw, "has other columns than the encoder"),
        (replace(forest, leaf_coef=np.ones((2, 2, 1))), raw, "linear leaves"),
        (one_split(0, 2, codes={0}, categories={0: ("a",)}), raw, "'x' in categorical_features"),
        (replace(forest, kind=[OBLIQUE, LEAF, LEAF], feature=[-1, -1, -1], weight_start=[0, 1, 1, 1],
                 weight_feature=[0], weight_value=[1.0]), raw, "several columns at once"),
        (forest, raw[:, :1], r"has 1 column\(s\), but training had 2"),
        (forest, raw[:0], "has no rows"),
    ):  # fmt: skip
        with pytest.raises(InvalidArgumentError, match=message):
            encoder.raise_forest(wrong, rows)
    with pytest.raises(InvalidArgumentError, match=r"must have shape \(2,\)"):
        encoder.raise_forest(forest, raw, [1.0])
