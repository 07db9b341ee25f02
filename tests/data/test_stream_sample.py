"""Samples of streams: uniform, the same for a seed wherever chunks are cut, and true to the rows they stand for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardwood.data import TableStream, sample, stream
from hardwood.data._stream_sample import stack_tables
from hardwood.errors import InvalidArgumentError


def cut(n_rows: int, size: int) -> TableStream:
    """Return a stream of rows that know their number."""
    every = np.arange(n_rows)

    def chunks():
        for start in range(0, n_rows, size):
            part = every[start : start + size]
            yield part[:, None] * 10.0, part % 3, part + 1.0

    return stream(chunks)


@given(st.integers(1, 120), st.integers(1, 60), st.integers(1, 130), st.integers(0, 3))
def test_a_sample_is_rows_of_the_stream_wherever_chunks_are_cut(n_rows, size, wanted, seed):
    drawn = sample(cut(n_rows, size), wanted, seed, task="classification")
    assert drawn.total_rows == n_rows and len(drawn.rows) == min(wanted, n_rows)
    assert (np.diff(drawn.rows) > 0).all()
    np.testing.assert_array_equal(drawn.X[:, 0], drawn.rows * 10.0)
    np.testing.assert_array_equal(drawn.y, drawn.rows % 3)
    np.testing.assert_array_equal(drawn.weight, drawn.rows + 1.0)
    whole = sample(cut(n_rows, n_rows), wanted, seed)
    np.testing.assert_array_equal(drawn.rows, whole.rows)
    # The smallest random keys, drawn for all rows at once.
    keys = np.random.default_rng(seed).random(n_rows)
    np.testing.assert_array_equal(drawn.rows, np.sort(np.argsort(keys, kind="stable")[:wanted]))
    every = np.arange(n_rows)
    classes = np.unique(every % 3)
    np.testing.assert_array_equal(drawn.classes, classes)
    np.testing.assert_allclose(drawn.class_totals, [(every[every % 3 == each] + 1.0).sum() for each in classes])
    assert whole.classes is None and whole.class_totals is None


def test_every_row_is_as_likely():
    counts = np.zeros(40)
    for seed in range(600):
        counts[sample(cut(40, 7), 10, seed).rows] += 1
    # Each is binomial(600, 1/4): mean 150, deviation 10.6.
    assert np.abs(counts - 150).max() < 45
    assert ((counts - 150) ** 2).mean() < 2 * 600 * 3 / 16


@pytest.mark.parametrize("kind", ["pandas", "polars", "arrow"])
def test_frames_stay_frames_when_types_vary(kind):
    """A column of integers in one chunk, of floats in the next, and without any value in a third."""
    make: Any = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "arrow": pa.table}[kind]
    parts = [
        make({"a": [1, 2], "b": ["x", None], "c": [None, None]}),
        make({"a": [1.5, None], "b": [None, None], "c": [True, None]}),
        make({"a": [3, 4], "b": ["y", "z"], "c": [False, True]}),
    ]
    drawn = sample(stream(lambda: [(part, [0, 1]) for part in parts]), 6)
    assert isinstance(drawn.X, type(parts[0]))
    frame = drawn.X if kind == "pandas" else drawn.X.to_pandas()
    assert [None if each != each else each for each in frame["a"]] == [1, 2, 1.5, None, 3, 4]
    assert [None if pd.isna(each) else each for each in frame["b"]] == ["x", None, None, None, "y", "z"]
    assert [None if pd.isna(each) else each for each in frame["c"]] == [None, None, True, None, False, True]
    if kind == "pandas":
        assert frame.index.tolist() == list(range(6))


def test_categories_of_chunks_are_joined():
    for make in (
        lambda words: pd.DataFrame({"c": pd.Categorical(words)}),
        lambda words: pl.DataFrame({"c": pl.Series(words, dtype=pl.Categorical)}),
        lambda words: pa.table({"c": pa.array(words).dictionary_encode()}),
    ):
        joined = stack_tables([make(["x", "y"]), make(["z", "y"])])
        assert list(joined["c"] if not isinstance(joined, pa.Table) else joined["c"].to_pylist()) == [
            "x",
            "y",
            "z",
            "y",
        ]


def test_labels_of_text_and_many_chunks():
    """More chunks than are held before their classes are joined."""
    words = np.array([f"class {each}" for each in range(7)], dtype=object)
    chunks = stream(lambda: ((np.zeros((2, 1)), words[[i % 7, (i * i) % 7]]) for i in range(350)))
    drawn = sample(chunks, 5, task="classification")
    assert drawn.classes.tolist() == words.tolist()
    expected = np.bincount([row for i in range(350) for row in (i % 7, (i * i) % 7)])
    np.testing.assert_array_equal(drawn.class_totals, expected)


def test_what_is_refused():
    chunks = cut(10, 5)
    for arguments, message in (
        ((chunks, 0), "n_rows=0"),
        ((chunks, 5, -1), "seed=-1"),
    ):
        with pytest.raises(InvalidArgumentError, match=message):
            sample(*arguments)
    several = stream(lambda: [(np.ones((2, 1)), np.ones((2, 2)))])
    with pytest.raises(InvalidArgumentError, match="each row has one class"):
        sample(several, 5, task="classification")
    assert sample(several, 5).y.shape == (2, 2)
