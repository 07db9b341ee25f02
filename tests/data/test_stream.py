"""Streams: the same rows in every pass, whatever is unlike the rest refused with the number of its chunk."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from hardwood.data import TableEncoder, TableStream, sample, stream
from hardwood.errors import InvalidArgumentError

FRAMES = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "arrow": pa.table, "array": None}


def table(kind: str, n_rows: int, start: int = 0) -> Any:
    """Return rows that know their number."""
    number = np.arange(start, start + n_rows)
    if kind == "array":
        return np.column_stack([number, -number]).astype(np.float64)
    return FRAMES[kind]({"number": number, "word": [f"w{each % 3}" for each in number]})


def numbers(X: Any) -> list[int]:
    return X[:, 0].astype(int).tolist() if isinstance(X, np.ndarray) else list(map(int, X["number"].to_numpy()))


def cut(kind: str, sizes: list[int], *, weighted: bool = False) -> TableStream:
    def chunks():
        start = 0
        for size in sizes:
            y = np.arange(start, start + size)
            yield (table(kind, size, start), y, y / 7) if weighted else (table(kind, size, start), y)
            start += size

    return stream(chunks)


@pytest.mark.parametrize("kind", FRAMES)
@pytest.mark.parametrize("weighted", [False, True])
def test_every_pass_has_the_same_rows(kind, weighted):
    chunks = cut(kind, [5, 1, 7], weighted=weighted)
    assert chunks.n_rows is None and "nobody has counted" in repr(chunks)
    for _ in range(2):
        seen = list(chunks)
        assert [len(chunk.y) for chunk in seen] == [5, 1, 7]
        assert [row for chunk in seen for row in numbers(chunk.X)] == list(range(13))
        for chunk in seen:
            assert type(chunk.X) is type(table(kind, 1))
            assert (chunk.weight is not None) == weighted
            if weighted:
                np.testing.assert_array_equal(chunk.weight, chunk.y / 7)
        assert chunks.n_rows == 13 and repr(chunks) == "<TableStream of 13 rows>"


@pytest.mark.parametrize("kind", FRAMES)
def test_rows_left_out(kind):
    chunks = cut(kind, [4, 4, 4, 4], weighted=True)
    left_out = [3, 4, 5, 6, 7, 15, 3]
    kept = [row for row in range(16) if row not in left_out]
    for known in (False, True):
        rest = chunks.without(np.array(left_out))
        assert rest.n_rows == (10 if known else None)
        seen = list(rest)
        assert [len(chunk.y) for chunk in seen] == [3, 4, 3]
        assert [row for chunk in seen for row in numbers(chunk.X)] == kept
        assert [row for chunk in seen for row in chunk.y] == kept
        assert [row for chunk in seen for row in chunk.weight] == [row / 7 for row in kept]
        assert rest.n_rows == 10
    assert [len(chunk.y) for chunk in chunks.without([])] == [4, 4, 4, 4]


def test_rows_that_cannot_be_left_out():
    chunks = cut("array", [4, 4])
    with pytest.raises(InvalidArgumentError, match="rows=8: is no row of the stream's 8 rows"):
        list(chunks.without([8]))
    for rows in ([-1], [0.5], [[1]], [8], [True, False]):
        with pytest.raises(InvalidArgumentError, match="rows="):
            chunks.without(rows)


def refused(message: str, *chunks: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        list(stream(lambda: chunks))


@pytest.mark.parametrize("kind", ["pandas", "polars", "arrow"])
def test_frames_that_are_unlike(kind):
    make: Any = FRAMES[kind]
    first = (make({"a": [1, 2], "b": ["x", "y"]}), [0, 1])
    refused(r"in chunk 2: X=\['a'\]: but chunks before have the columns \['a', 'b'\]", first, (make({"a": [1]}), [0]))
    refused(r"in chunk 3: X=\['b', 'a'\]", first, first, (make({"b": ["x"], "a": [1]}), [0]))
    refused(r"in chunk 2: X\['a'\]='text or categories': but chunks before have numbers there", first,
            (make({"a": ["1"], "b": ["x"]}), [0]))  # fmt: skip
    refused(r"X\['b'\]='dates'", first, (make({"a": [1], "b": [datetime(2020, 1, 1)]}), [0]))
    refused(r"X\['a'\]='booleans'", first, (make({"a": [True], "b": ["x"]}), [0]))
    refused("in chunk 2: X='a table without rows'", first, (make({"a": [1], "b": ["x"]})[:0], []))
    refused("in chunk 2: X", first, (np.ones((1, 2)), [0]))
    # Missing cells, and another type of numbers, are the same kind.
    fine = (make({"a": [None, 1.5], "b": [None, None]}), [0, 1])
    assert len(list(stream(lambda: (first, fine, first)))) == len(list(stream(lambda: (fine, first)))) + 1


def test_a_column_that_begins_empty_has_the_kind_of_its_first_value():
    empty = (np.array([[None, 1.0]], dtype=object), [0])
    words, numbers = (np.array([[cell, 1.0]], dtype=object) for cell in ("x", 2.0))
    assert len(list(stream(lambda: (empty, (words, [0]))))) == 2
    refused(r"in chunk 3: X\['x0'\]='numbers': but chunks before have text", empty, (words, [0]), (numbers, [0]))


def test_targets_and_weights_that_do_not_go():
    X = np.ones((2, 1))
    for holes in (
        [1.0, np.nan], [np.inf, 1.0], ["a", None], [1, None], np.array(["a", np.nan], dtype=object),
        pd.Series([1, None], dtype="Int64"), pl.Series(["a", None]), pa.chunked_array([[None, 2]]),
        np.array(["2020", "NaT"], dtype="datetime64[D]"), [[1.0, 2.0], [np.nan, 1.0]],
    ):  # fmt: skip
        refused(r"in chunk 2: y\[\d\]=.*: is missing or infinite", (X, _filled(holes)), (X, holes))
    refused("in chunk 1: y='an array of shape .3,.': does not fit 2 rows", (X, [1, 2, 3]))
    refused(r"in chunk 2: y='an array of shape \(2, 2\)'", (X, [1, 2]), (X, [[1, 2], [3, 4]]))
    refused("in chunk 2: y='text or categories': but chunks before have numbers", (X, [1, 2]), (X, ["1", "2"]))
    refused("in chunk 2: weight='weights': is unlike", (X, [1, 2]), (X, [1, 2], [1, 1]))
    refused("in chunk 2: weight='no weights'", (X, [1, 2], [1, 1]), (X, [1, 2]))
    refused(r"in chunk 1: weight\[1\]=-1.0: is no weight", (X, [1, 2], [1, -1]))
    refused(r"weight\[0\]=nan", (X, [1, 2], [np.nan, 1]))
    refused("weight='an array of shape .3,.'", (X, [1, 2], [1, 1, 1]))
    refused("does not hold numbers", (X, [1, 2], ["a", "b"]))
    assert len(list(stream(lambda: [(X, [1, 2], [0, 0])]))) == 1  # a chunk may have no weight


def _filled(holes: Any) -> np.ndarray:
    """Return a target without holes and of the same kind."""
    from hardwood.data._stream_checks import _holes, target_array

    y = target_array(holes).copy()
    y[_holes(y)] = y[~_holes(y)][0]
    return y


def test_what_is_no_chunk_and_no_stream():
    X = np.ones((2, 1))
    refused("in chunk 1: chunk='a ndarray': is not", X)
    refused("in chunk 1: chunk='a tuple of 1'", (X,))
    refused("stream='0 rows': has no rows")
    used = iter([(X, [1, 2])])
    once = stream(lambda: used)
    assert len(list(once)) == 1
    with pytest.raises(InvalidArgumentError, match="stream='0 rows': had 2 rows before"):
        list(once)

    def broken():
        yield X, [1, 2]
        raise OSError("the disk is gone")

    with pytest.raises(OSError, match="the disk is gone"):
        list(stream(broken))


def test_a_pass_that_stops_early_counts_nothing():
    chunks = cut("array", [2, 2])
    next(iter(chunks))
    assert chunks.n_rows is None


def test_an_encoder_from_a_sample_encodes_every_chunk():
    """One table as chunks, and the sample of all rows: the encoding is that of the whole table."""
    chunks = cut("pandas", [30, 50, 20])
    drawn = sample(chunks, 100)
    encoder = TableEncoder(seed=1)
    whole = table("pandas", 100)
    encoder.fit_transform(drawn.X, drawn.y)
    again = TableEncoder(seed=1)
    again.fit_transform(whole, np.arange(100))
    parts = np.concatenate([encoder.transform(chunk.X) for chunk in chunks])
    np.testing.assert_array_equal(parts, again.transform(whole))
