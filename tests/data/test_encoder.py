"""The encoder as a whole: shapes, names, seeds, weights, missing values and tables that say little."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardwood.data import TableEncoder
from hardwood.errors import InvalidArgumentError
from helpers.tables import FRAMES, make_frame, random_columns


def test_columns_of_every_type_are_encoded() -> None:
    table = {
        "age": [1.0, 2.0, None, 4.0],
        "flag": [True, False, True, True],
        "two": ["a", "b", None, "a"],
        "three": ["a", "b", "c", None],
        "four": ["a", "b", "c", "d"],
    }
    encoder = TableEncoder(one_hot_max_size=3)
    for kind in FRAMES:
        encoded = encoder.fit_transform(make_frame(kind, table), [0.0, 1.0, 2.0, 3.0])
        assert encoder.encoded_names == ("age", "flag", "two=b", "three=a", "three=b", "three=c", "four~y")
        assert encoder.n_encoded == 7
        assert encoded.shape == (4, 7)
        assert encoded.dtype == np.float32
        assert encoded.flags.c_contiguous
        again = encoder.transform(make_frame(kind, table))
        np.testing.assert_array_equal(again[:, :6], encoded[:, :6])
        np.testing.assert_array_equal(np.isnan(encoded).sum(axis=0), [1, 0, 1, 1, 1, 1, 0])
        np.testing.assert_array_equal(
            encoded[:, 2:6], [[-1, 1, -1, -1], [1, -1, 1, -1], [np.nan, -1, -1, 1], [-1, *[np.nan] * 3]]
        )
        unseen = encoder.transform(make_frame(kind, {**table, "three": ["z"] * 4, "four": ["z"] * 4}))
        assert np.isnan(unseen[:, 3:]).all()


@given(seed=st.integers(0, 2**32 - 1), rows=st.sampled_from([1, 3, 30]))
def test_only_missing_and_unseen_cells_are_nan(seed: int, rows: int) -> None:
    rng = np.random.default_rng(seed)
    frame = make_frame("polars", random_columns(rng, rows, 3))
    encoder = TableEncoder()
    encoded = encoder.fit_transform(frame, rng.normal(size=rows))
    raw = encoder.to_raw(frame)
    for each in (encoded, encoder.transform(frame)):
        assert not np.isinf(each).any()
        missing = np.isnan(each)
        width = [len(part.names) if hasattr(part, "names") else 1 for part in encoder._parts]
        np.testing.assert_array_equal(missing, np.repeat(np.isnan(raw), width, axis=1))


@given(seed=st.integers(0, 2**32 - 1), numeric=st.sampled_from(["quantile", "standard"]))
def test_weight_two_is_a_row_that_occurs_twice(seed: int, numeric: Any) -> None:
    rng = np.random.default_rng(seed)
    frame = make_frame("pandas", random_columns(rng, 12, 3))
    weight = rng.integers(0, 3, 12)
    weight[0] = 1
    again = rng.permutation(np.repeat(np.arange(12), weight))
    y = rng.integers(-5, 5, 12).astype(float)
    # Without target encodings all of it is equal; their training rows are encoded by folds, which see rows one by one.
    one, two = (TableEncoder(numeric=numeric, one_hot_max_size=99) for _ in range(2))
    encoded = one.fit_transform(frame, y, weight)
    np.testing.assert_array_equal(two.fit_transform(frame.iloc[again], y[again]), encoded[again])
    np.testing.assert_array_equal(one.transform(frame), two.transform(frame))


def test_the_seed_decides_folds_and_noise() -> None:
    rng = np.random.default_rng(0)
    table = np.array(
        [[f"w{code}", number] for code, number in zip(rng.integers(0, 30, 200), range(200), strict=True)], object
    )
    y = rng.normal(size=200)
    made = [TableEncoder(seed=seed, noise=0.01).fit_transform(table, y) for seed in (1, 1, 2)]
    np.testing.assert_array_equal(made[0], made[1])
    assert (made[0] != made[2]).any(axis=0).all()
    twice = TableEncoder(noise=0.01).fit_transform(np.repeat(table, 2, axis=1), y)
    assert (twice[:, 0::2] != twice[:, 1::2]).any(axis=0).all()


@pytest.mark.usefixtures("random_state_stays")
def test_process_wide_generators_are_left_alone() -> None:
    TableEncoder(noise=0.1).fit_transform(np.array([[f"w{n}", n] for n in range(20)], object), np.arange(20.0))


def test_targets_do_not_leak_into_training_rows() -> None:
    """A key that is almost unique says nothing about a random target, as it will say nothing on new rows."""
    rng = np.random.default_rng(0)
    table, y = np.array([f"w{code}" for code in rng.integers(0, 800, 1000)])[:, None], rng.integers(0, 2, 1000)
    encoded = TableEncoder(task="classification").fit_transform(table, y)
    assert abs(np.corrcoef(encoded[:, 0], y)[0, 1]) < 0.1


def test_target_encodings_rank_categories_by_their_targets() -> None:
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 20, 4000)
    y = codes * 100.0 + rng.normal(size=4000)
    table = np.array([f"w{code:02}" for code in codes])[:, None]
    encoder = TableEncoder()
    encoded = encoder.fit_transform(table, y)
    assert np.corrcoef(encoded[:, 0], y)[0, 1] > 0.9
    assert abs(encoded).max() < 5
    assert (np.diff(encoder.encode_raw(np.arange(20.0)[:, None])[:, 0]) > 0).all()


def test_classes_have_an_encoding_each() -> None:
    table = np.array([f"w{code}" for code in range(12)] * 5)[:, None]
    encoder = TableEncoder(task="classification")
    encoded = encoder.fit_transform(table, np.arange(60) % 3)
    assert encoder.encoded_names == ("x0~y[0]", "x0~y[1]", "x0~y[2]")
    assert encoded.shape == (60, 3)


def test_rows_of_weight_zero_teach_nothing_and_are_encoded() -> None:
    table = np.array([["a", 1.0], ["b", 2.0], ["never", 1e9]], object)
    encoder = TableEncoder()
    encoded = encoder.fit_transform(table, sample_weight=[1, 1, 0])
    assert encoder.columns.vocabularies[0] == ("a", "b")
    np.testing.assert_array_equal(encoded[2], [np.nan, encoded[1, 1]])
    many = np.array([f"w{number}" for number in range(20)] * 5)[:, None]
    weight = np.ones(100)
    weight[3:6] = 0
    encoded, new = encoder.fit_transform(many, np.arange(100.0), weight), encoder.transform(many)
    np.testing.assert_array_equal(encoded[3:6], new[3:6])
    assert (encoded != new).mean() > 0.5


@pytest.mark.parametrize("numeric", ["quantile", "standard", "identity"])
@pytest.mark.parametrize(
    "table",
    [
        np.array([[1.0]]),
        np.full((3, 1), 5.0),
        np.full((3, 1), np.nan),
        np.array([[np.inf], [-np.inf], [0.0]]),
        np.array([["a"]]),
        np.array([[None], [None]], object),
        np.array([[1e308], [-1e308]]),
    ],
)
def test_tables_that_say_little(numeric: Any, table: np.ndarray) -> None:
    encoder = TableEncoder(numeric=numeric)
    encoded = encoder.fit_transform(table)
    np.testing.assert_array_equal(encoder.transform(table), encoded)
    assert not np.isinf(encoded).any()
    assert encoder.transform(table[:0]).shape == (0, 1)


def test_names_are_distinct() -> None:
    encoder = TableEncoder(categorical_features=[0])
    encoder.fit_transform(np.array([[1], ["1"], ["a"]], object))
    assert encoder.encoded_names == ("x0=1", "x0=1'", "x0=a")


def test_a_pickled_encoder_is_the_same() -> None:
    table = np.array([[f"w{n}", n, n % 2 == 0] for n in range(20)], object)
    encoder = TableEncoder()
    encoder.fit_transform(table, np.arange(20.0))
    again = pickle.loads(pickle.dumps(encoder))
    np.testing.assert_array_equal(again.transform(table), encoder.transform(table))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_quantiles": 1}, "n_quantiles=1"),
        ({"noise": -1.0}, "noise=-1.0"),
        ({"one_hot_max_size": -1}, "one_hot_max_size=-1"),
        ({"smoothing": -1.0}, "smoothing=-1.0"),
        ({"n_folds": 1}, "n_folds=1"),
        ({"seed": -1}, "seed=-1"),
    ],
)
def test_bad_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        TableEncoder(**options)


def test_wrong_order_of_calls_and_tables() -> None:
    encoder = TableEncoder()
    with pytest.raises(InvalidArgumentError, match="has learned nothing yet"):
        encoder.transform(np.zeros((1, 1)))
    many = np.array([f"w{number}" for number in range(20)])[:, None]
    with pytest.raises(InvalidArgumentError, match=r"X\['x0'\].*20 categories.*pass y, or one_hot_max_size=20"):
        encoder.fit_transform(many)
    with pytest.raises(InvalidArgumentError, match="has no rows"):
        encoder.fit_transform(np.zeros((0, 1)))
    with pytest.raises(InvalidArgumentError, match="sample_weight"):
        encoder.fit_transform(np.zeros((2, 1)), sample_weight=[1.0])
    encoder.fit_transform(np.zeros((2, 1)))
    with pytest.raises(InvalidArgumentError, match=r"raw=.*has 2 column\(s\), but training had 1"):
        encoder.encode_raw(np.zeros((2, 2)))
