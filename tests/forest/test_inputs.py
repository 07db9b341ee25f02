"""Arrays, lists and data frames in; clear errors for what is no table of numbers."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from hardwood.errors import InvalidArgumentError
from hardwood.forest import Forest
from hardwood.forest._inputs import matrix
from helpers.forests import complete_forest, small_fields

COLUMNS: dict[str, list[Any]] = {
    "age": [30, 40, None],
    "colour": ["blue", None, "mauve"],
    "size": [0.25, None, float("inf")],
}
NUMBERS = np.array([[0.25, 2, 30], [np.nan, np.nan, 40], [np.inf, np.nan, np.nan]])


@pytest.fixture(params=["pandas", "polars", "pyarrow"])
def frame_of(request: pytest.FixtureRequest) -> Any:
    module = pytest.importorskip(request.param)
    return module.table if request.param == "pyarrow" else module.DataFrame


@pytest.fixture
def forest() -> Forest:
    return Forest(**small_fields())


def test_columns_are_found_by_name_and_categories_looked_up(forest: Forest, frame_of: Any) -> None:
    frame = frame_of(COLUMNS)
    np.testing.assert_array_equal(matrix(forest, frame), NUMBERS)
    np.testing.assert_array_equal(forest.predict(frame), forest.predict(NUMBERS))
    np.testing.assert_array_equal(forest.apply(frame), forest.apply(NUMBERS))


def test_missing_and_unknown_columns_are_named(forest: Forest, frame_of: Any) -> None:
    some = {name: COLUMNS[name] for name in ("size", "colour")}
    with pytest.raises(InvalidArgumentError, match=r"lacks the column\(s\) \['age'\]"):
        forest.predict(frame_of(some))
    with pytest.raises(InvalidArgumentError, match=r"has the column\(s\) \['id'\] that the forest does not know"):
        forest.predict(frame_of({**COLUMNS, "id": [1, 2, 3]}))


def test_without_names_columns_count_by_position(frame_of: Any) -> None:
    forest = complete_forest(np.random.default_rng(0), 2, 3, 2)
    X = np.random.default_rng(1).normal(size=(9, 2))
    np.testing.assert_array_equal(forest.predict(frame_of({"b": X[:, 0], "a": X[:, 1]})), forest.predict(X))
    with pytest.raises(InvalidArgumentError, match=r"has 1 column\(s\), but the forest was made for 2"):
        forest.predict(frame_of({"b": X[:, 0]}))


def test_dates_durations_and_booleans_become_numbers(frame_of: Any) -> None:
    forest = complete_forest(np.random.default_rng(0), 1, 1, 4)
    moment = dt.datetime(2021, 3, 4, 5, 6, 7, 250_000)
    frame = frame_of(
        {
            "moment": [moment, None],
            "day": [dt.date(2021, 3, 4), dt.date(1969, 12, 31)],
            "span": [dt.timedelta(minutes=1, microseconds=5), None],
            "flag": [True, False],
        }
    )
    if "pandas" in type(frame).__module__:
        frame["day"] = frame["day"].astype("datetime64[ns]")
    seconds = moment.replace(tzinfo=dt.UTC).timestamp()
    day = dt.datetime(2021, 3, 4, tzinfo=dt.UTC).timestamp()
    expected = [[seconds, day, 60.000005, 1.0], [np.nan, -86400.0, np.nan, 0.0]]
    np.testing.assert_allclose(matrix(forest, frame), expected, rtol=1e-15)


def test_booleans_with_nulls(frame_of: Any) -> None:
    forest = complete_forest(np.random.default_rng(0), 1, 1, 1)
    np.testing.assert_array_equal(matrix(forest, frame_of({"flag": [True, None, False]})), [[1], [np.nan], [0]])


def test_a_column_of_nothing_is_missing_whatever_its_type(frame_of: Any) -> None:
    forest = complete_forest(np.random.default_rng(0), 1, 1, 1)
    assert np.isnan(matrix(forest, frame_of({"x": [None, None]}))).all()


def test_text_in_a_number_column_is_refused(frame_of: Any) -> None:
    forest = complete_forest(np.random.default_rng(0), 1, 1, 1)
    with pytest.raises(InvalidArgumentError, match=r"X\['size'\]=\['big'.*splits it by number|that are no numbers"):
        forest.predict(frame_of({"size": ["big", "small"]}))


@pytest.mark.parametrize(
    ("dtype", "null"), [("Int64", None), ("Float32", None), ("boolean", None), ("category", None), ("int8", 0)]
)
def test_pandas_extension_types(dtype: str, null: Any) -> None:
    pd = pytest.importorskip("pandas")
    forest = complete_forest(np.random.default_rng(0), 1, 1, 1, categories={0: (1, 0)} if dtype == "category" else {})
    frame = pd.DataFrame({"a": pd.Series([1, null, 0], dtype=dtype)})
    expected = [0, np.nan, 1] if dtype == "category" else [1, np.nan if null is None else null, 0]
    np.testing.assert_array_equal(matrix(forest, frame)[:, 0], expected)


@pytest.mark.parametrize("words", [("a", "b"), (1, 2), (0.5, 1.5), (False, True)])
def test_vocabularies_of_every_type(frame_of: Any, words: tuple[Any, ...]) -> None:
    forest = complete_forest(np.random.default_rng(0), 1, 1, 1, categories={0: words})
    frame = frame_of({"a": [words[1], words[0], words[1]]})
    np.testing.assert_array_equal(matrix(forest, frame)[:, 0], [1, 0, 1])


def test_a_lazy_frame_is_refused(forest: Forest) -> None:
    polars = pytest.importorskip("polars")
    with pytest.raises(InvalidArgumentError, match=r"LazyFrame.*collected"):
        forest.predict(polars.LazyFrame(COLUMNS))


X = np.array([[0.25, 2, 30], [0.5, np.nan, 40], [7.0, 1, 50]])


@pytest.mark.parametrize(
    "given",
    [
        X.tolist(),
        np.asfortranarray(X),
        np.repeat(X, 2, axis=1)[:, ::2],
        X.astype(object),
        X.astype(np.float32),
        X.astype(np.float16),
        X.astype(">f8"),
        X.astype(np.longdouble),
        [[0.25, 2, 30], [0.5, None, 40], [7.0, 1, 50]],
        np.ma.masked_invalid(X),
    ],
    ids=lambda given: type(given).__name__ + str(getattr(given, "dtype", "")),
)
def test_any_array_of_the_same_numbers_predicts_the_same(forest: Forest, given: Any) -> None:
    np.testing.assert_array_equal(forest.predict(given), forest.predict(X))


def test_read_only_rows(forest: Forest) -> None:
    rows = X.copy()
    rows.setflags(write=False)
    np.testing.assert_array_equal(forest.predict(rows), forest.predict(X))


@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.int32, np.int64, np.uint64, np.bool_])
def test_integers_and_booleans(forest: Forest, dtype: type) -> None:
    rows = np.array([[0, 1, 1], [1, 0, 0]], dtype)
    np.testing.assert_array_equal(forest.predict(rows), forest.predict(rows.astype(np.float64)))


def test_integers_beyond_float32_stay_exact() -> None:
    rng = np.random.default_rng(0)
    forest = complete_forest(rng, 1, 1, 1)
    fields = {"threshold": np.array([2.0**24 + 1, 0, 0]), "missing_left": np.zeros(3, bool)}
    rows = np.array([[2**24], [2**24 + 1]])
    np.testing.assert_array_equal(replace(forest, **fields).apply(rows)[:, 0], [1, 2])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (np.zeros(3), r"X='an array of shape \(3,\)'.*two dimensions.*X.reshape\(1, -1\)"),
        ([], "two dimensions"),
        (np.zeros((2, 3, 1)), "two dimensions"),
        (5.0, "two dimensions"),
        (np.zeros((2, 4)), r"has 4 column\(s\), but the forest was made for 3"),
        (np.zeros((2, 3), complex), "does not hold real numbers"),
        (np.zeros((2, 3), "datetime64[s]"), "does not hold real numbers"),
        (np.array([["a", "b", "c"]]), "does not hold real numbers"),
        ([["a", 1, 2]], "does not hold real numbers"),
        (np.array([["a", 1, 2]], object), "does not hold real numbers only.*codes for categories"),
        ([[1, 2, 3], [1, 2]], "not a rectangular table"),
    ],
)
def test_what_is_no_table_is_refused(forest: Forest, given: Any, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        forest.predict(given)


def test_sparse_matrices_are_refused(forest: Forest) -> None:
    from scipy.sparse import csr_matrix

    with pytest.raises(InvalidArgumentError, match=r"is a sparse matrix; pass X.toarray\(\)"):
        forest.predict(csr_matrix(np.zeros((2, 3))))


def test_rows_are_not_copied_without_need(forest: Forest) -> None:
    for rows in (X, X.astype(np.float32)):
        assert matrix(forest, rows) is rows
