"""A lowered forest sends every raw row to the leaves to which the forest sends the encoded row."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hardwood.data import TableEncoder
from hardwood.errors import InvalidArgumentError
from hardwood.forest import CATEGORIES, LEAF, THRESHOLD, Forest
from helpers.forests import complete_forest, random_forest, reference_route
from helpers.tables import HARD, make_frame, neighbours, random_bits, random_columns


def forest_on(rng: np.random.Generator, encoder: TableEncoder, encoded: np.ndarray, **options: Any) -> Forest:
    """Draw trees whose thresholds lie on, beside and between encoded numbers, and beyond all of them."""
    forest = random_forest(rng, n_features=encoder.n_encoded, kinds=(THRESHOLD,), linear=False, **options)
    seen = encoded[~np.isnan(encoded)].astype(np.float64)
    pool = np.concatenate([neighbours(seen), rng.normal(size=10), [-1.0, 0.0, 1.0, np.inf, -np.inf]])
    threshold = np.where(forest.kind == LEAF, 0.0, rng.choice(pool, forest.node_count))
    return replace(forest, threshold=threshold)


def hard_rows(rng: np.random.Generator, encoder: TableEncoder, raw: np.ndarray, lowered: Forest) -> np.ndarray:
    """Make raw rows of training cells, numbers on and beside thresholds, random floats, and codes good and bad."""
    cuts = lowered.threshold[lowered.kind == THRESHOLD]
    shared = np.concatenate([neighbours(cuts), random_bits(rng, 40), HARD, np.arange(-1.0, 35.0)])
    columns = [rng.choice(np.concatenate([shared, np.repeat(cells, 3)]), 80) for cells in raw.T]
    return np.concatenate([raw, np.stack(columns, axis=1)])


def check_equal_routes(rng: np.random.Generator, encoder: TableEncoder, encoded: np.ndarray, raw: np.ndarray) -> None:
    forest = forest_on(rng, encoder, encoded)
    lowered = encoder.lower(forest)
    rows = hard_rows(rng, encoder, raw, lowered)
    np.testing.assert_array_equal(lowered.apply(rows), forest.apply(encoder.encode_raw(rows)))
    for row in rows[:: max(1, len(rows) // 5)]:
        encoded_row = encoder.encode_raw(row[None])[0]
        assert reference_route(lowered, row) == reference_route(forest, encoded_row)


@settings(max_examples=100)
@given(
    seed=st.integers(0, 2**32 - 1),
    rows=st.sampled_from([1, 2, 7, 40]),
    numeric=st.sampled_from(["quantile", "standard", "identity"]),
    n_quantiles=st.sampled_from([2, 5, 1000]),
    one_hot_max_size=st.sampled_from([0, 3, 10, 40]),
    n_classes=st.sampled_from([0, 2, 4]),
)
def test_routing_is_equal_for_every_row(seed: int, rows: int, numeric: Any, n_classes: int, **options: Any) -> None:
    state = random.getstate()
    rng = np.random.default_rng(seed)
    table = random_columns(rng, rows, int(rng.integers(1, 6)))
    frame = make_frame(str(rng.choice(["pandas", "polars"])), table)
    y = rng.normal(size=rows) if n_classes == 0 else rng.integers(0, n_classes, rows)
    encoder = TableEncoder(
        numeric=numeric, noise=float(rng.choice([0, 0.01])), task="classification" if n_classes else "regression",
        smoothing=float(rng.choice([0, 10])), **options,
    )  # fmt: skip
    weight = rng.choice([0.0, 1.0, 2.0], rows)
    weight[rng.integers(rows)] = 1.0
    encoded = encoder.fit_transform(frame, y, weight)
    assert encoded.shape == (rows, encoder.n_encoded)
    check_equal_routes(rng, encoder, encoded, encoder.to_raw(frame))
    random.setstate(state)


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
def test_a_lowered_forest_reads_frames_by_itself(kind: str) -> None:
    rng = np.random.default_rng(0)
    table = {
        "age": [30.0, None, 7.5, 80.0],
        "colour": ["red", "blue", None, "green"],
        "flag": [True, False, True, True],
        "name": ["a", "b", "c", "d"],
    }
    encoder = TableEncoder(one_hot_max_size=3)
    encoded = encoder.fit_transform(make_frame(kind, table), [1.0, 2.0, 3.0, 4.0])
    forest = forest_on(rng, encoder, encoded, n_trees=9, max_splits=20, named=False)
    lowered = encoder.lower(forest)
    assert lowered.feature_names == tuple(table)
    assert lowered.feature_types == ("float", "category", "bool", "category")
    assert dict(lowered.categories) == {1: ("blue", "green", "red"), 3: ("a", "b", "c", "d")}
    new = make_frame(kind, {**table, "colour": ["mauve", "blue", "green", "green"], "age": [1.0, 30.0, None, 50.0]})
    np.testing.assert_array_equal(lowered.apply(new), forest.apply(encoder.transform(new)))
    np.testing.assert_array_equal(lowered.apply(encoder.to_raw(new)), lowered.apply(new))
    np.testing.assert_array_equal(lowered.outputs(new), forest.outputs(encoder.transform(new)))


def one_split(threshold: float, missing_left: bool, column: int = 0, n_features: int = 1) -> Forest:
    return Forest(
        tree_start=[0, 3], kind=[THRESHOLD, LEAF, LEAF], left=[1, -1, -1], right=[2, -1, -1], feature=[column, -1, -1],
        threshold=[threshold, 0, 0], missing_left=[missing_left, False, False], leaf_values=[[1.0], [2.0]],
        n_features=n_features,
    )  # fmt: skip


@pytest.mark.parametrize("missing_left", [False, True])
@pytest.mark.parametrize("threshold", [-np.inf, -9.0, -0.5, 0.0, 0.5, 9.0, np.inf])
@pytest.mark.parametrize("numeric", ["quantile", "standard", "identity"])
def test_splits_that_nothing_or_everything_passes(threshold: float, missing_left: bool, numeric: Any) -> None:
    encoder = TableEncoder(numeric=numeric)
    encoder.fit_transform(np.array([[0.0], [1.0], [2.0]]))
    forest = one_split(threshold, missing_left)
    rows = np.concatenate([HARD, np.linspace(-1, 3, 50)])[:, None]
    np.testing.assert_array_equal(encoder.lower(forest).apply(rows), forest.apply(encoder.transform(rows)))


def test_one_hot_splits_name_one_category() -> None:
    encoder = TableEncoder()
    encoder.fit_transform([["a"], ["b"], ["c"], ["d"]])
    for column, word in enumerate("abcd"):
        lowered = encoder.lower(one_split(0.0, True, column, 4))
        assert lowered.kind[0] == CATEGORIES
        assert lowered.category_codes.tolist() == [column]
        # The category itself went right, so the children have changed places and missing values go right of them.
        assert (lowered.left[0], lowered.right[0], lowered.missing_left[0]) == (2, 1, False)
        np.testing.assert_array_equal(lowered.apply([["abcd".index(word)], [np.nan], [4.0]])[:, 0], [2, 1, 1])


def test_a_set_never_lists_more_than_half_of_the_categories() -> None:
    rng = np.random.default_rng(0)
    words = np.array([f"w{number}" for number in range(101)])[:, None]
    encoder = TableEncoder()
    encoded = encoder.fit_transform(words, rng.normal(size=101))
    for threshold in np.unique(encoded):
        assert len(encoder.lower(one_split(float(threshold), False)).category_codes) <= 50


def test_ten_thousand_categories_are_lowered_fast() -> None:
    rng = np.random.default_rng(0)
    codes = np.concatenate([np.arange(10_000), rng.integers(0, 10_000, 20_000)])
    table = np.array([f"w{code:05}" for code in codes])[:, None]
    encoder = TableEncoder(task="classification")
    encoder.fit_transform(table, rng.integers(0, 3, 30_000))
    assert encoder.n_encoded == 3
    forest = complete_forest(rng, 16, 4, 3)
    lowered = encoder.lower(forest)
    rows = np.concatenate([np.arange(10_001), [np.nan]])[:, None]
    np.testing.assert_array_equal(lowered.apply(rows), forest.apply(encoder.encode_raw(rows)))


def test_forests_that_cannot_be_lowered_are_refused() -> None:
    encoder = TableEncoder()
    encoder.fit_transform(np.array([[0.0], [1.0]]))
    with pytest.raises(InvalidArgumentError, match=r"has 2 column\(s\), but the encoder makes 1"):
        encoder.lower(one_split(0.0, False, 0, 2))
    with pytest.raises(InvalidArgumentError, match="neither leaves nor thresholds"):
        encoder.lower(replace(one_split(0.0, False), kind=[CATEGORIES, LEAF, LEAF], category_start=[0, 0, 0, 0],
                              category_codes=np.zeros(0, int), categories={0: ("a",)}))  # fmt: skip
    with pytest.raises(InvalidArgumentError, match="linear leaves"):
        encoder.lower(replace(one_split(0.0, False), leaf_coef=np.ones((2, 1, 1))))
