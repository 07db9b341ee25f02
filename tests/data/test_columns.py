"""Columns are recognised alike in every kind of table, and come out in the coding that a forest reads."""

from __future__ import annotations

import datetime as dt
import pickle
from typing import Any

import numpy as np
import pytest

from hardwood.data import Columns, learn_columns, take_rows
from hardwood.errors import InvalidArgumentError
from helpers.tables import FRAMES, make_frame

MOMENT = dt.datetime(2021, 3, 4, 5, 6, 7, 250_000)
SECONDS = MOMENT.replace(tzinfo=dt.UTC).timestamp()
TABLE: dict[str, list[Any]] = {
    "size": [0.5, None, float("inf"), -1.0],
    "count": [3, 1, 2, 1],
    "flag": [True, False, False, True],
    "colour": ["red", None, "blue", "red"],
    "when": [MOMENT, None, MOMENT, MOMENT],
    "none": [None, None, None, None],
}
TYPES = ("float", "int", "bool", "category", "datetime", "category")
RAW = np.array(
    [
        [0.5, 3, 1, 1, SECONDS, np.nan],
        [np.nan, 1, 0, np.nan, np.nan, np.nan],
        [np.inf, 2, 0, 0, SECONDS, np.nan],
        [-1, 1, 1, 1, SECONDS, np.nan],
    ]
)


@pytest.fixture(params=FRAMES)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_frames_of_all_libraries_give_the_same(kind: str) -> None:
    columns = learn_columns(make_frame(kind, TABLE))
    assert columns == Columns(tuple(TABLE), TYPES, (None, None, None, ("blue", "red"), None, ()))
    assert columns.categories == {3: ("blue", "red"), 5: ()}
    np.testing.assert_array_equal(columns.to_raw(make_frame(kind, TABLE)), RAW)
    other = make_frame(next(each for each in FRAMES if each != kind), dict(reversed(TABLE.items())))
    np.testing.assert_array_equal(columns.to_raw(other), RAW)


def test_an_array_of_objects_gives_the_same() -> None:
    names = ["size", "count", "flag", "colour", "none"]
    cells = np.array([TABLE[name] for name in names], object).T
    columns = learn_columns(cells)
    assert columns.names is None
    assert columns.labels == ("x0", "x1", "x2", "x3", "x4")
    assert columns.types == ("float", "int", "bool", "category", "category")
    np.testing.assert_array_equal(columns.to_raw(cells), RAW[:, [0, 1, 2, 3, 5]])
    np.testing.assert_array_equal(columns.to_raw(cells.tolist()), RAW[:, [0, 1, 2, 3, 5]])


@pytest.mark.parametrize(
    ("array", "kinds", "raw"),
    [
        (np.array([[1.5, np.nan]]), ("float", "float"), [[1.5, np.nan]]),
        (np.array([[1, 2]], np.uint8), ("int", "int"), [[1, 2]]),
        (np.array([[True, False]]), ("bool", "bool"), [[1, 0]]),
        (np.array([[MOMENT, None]], "datetime64[us]"), ("datetime", "datetime"), [[SECONDS, np.nan]]),
        (np.array([[5, "NaT"]], "timedelta64[ms]"), ("float", "float"), [[0.005, np.nan]]),
        (np.array([["b", "a"]]), ("category", "category"), [[0, 0]]),
        (np.array([["b", "a"]], np.dtypes.StringDType()), ("category", "category"), [[0, 0]]),
        ([[1, "a"], [None, "b"]], ("int", "category"), [[1, 0], [np.nan, 1]]),
        (np.ma.masked_invalid([[1.0, np.nan]]), ("float", "float"), [[1, np.nan]]),
    ],
)
def test_arrays_of_every_dtype(array: Any, kinds: tuple[str, ...], raw: list[list[float]]) -> None:
    columns = learn_columns(array)
    assert columns.types == kinds
    np.testing.assert_array_equal(columns.to_raw(array), raw)


def test_arrays_and_frames_code_dates_alike(kind: str) -> None:
    days = [dt.datetime(1969, 12, 31), dt.datetime(2200, 1, 1, 0, 0, 0, 1), None]
    columns = learn_columns(make_frame(kind, {"day": days}))
    array = np.array(days, "datetime64[us]")[:, None]
    np.testing.assert_array_equal(columns.to_raw(array), columns.to_raw(make_frame(kind, {"day": days})))


def test_values_that_training_did_not_have_are_missing(kind: str) -> None:
    columns = learn_columns(make_frame(kind, {"colour": ["b", "a", "c"]}), rows=np.array([0, 1]))
    assert columns.vocabularies == (("a", "b"),)
    np.testing.assert_array_equal(
        columns.to_raw(make_frame(kind, {"colour": ["c", "b", None, "a"]}))[:, 0], [np.nan, 1, np.nan, 0]
    )
    np.testing.assert_array_equal(columns.to_raw(np.array([["c"], ["b"]]))[:, 0], [np.nan, 1])
    np.testing.assert_array_equal(columns.to_raw(np.array([[1.0], [np.nan]]))[:, 0], [np.nan, np.nan])


def test_codes_do_not_depend_on_the_order_of_rows(kind: str) -> None:
    words = ["b", "a", "C", "", "é", "10", "9"]
    assert learn_columns(make_frame(kind, {"w": words})) == learn_columns(make_frame(kind, {"w": words[::-1]}))


def test_columns_that_are_empty_at_prediction_are_missing(kind: str) -> None:
    columns = learn_columns(make_frame(kind, TABLE))
    nothing = make_frame(kind, {name: [None, None] for name in TABLE})
    np.testing.assert_array_equal(columns.to_raw(nothing), np.full((2, 6), np.nan))


def test_a_column_without_values_is_a_number_where_categories_are_not_wanted() -> None:
    columns = learn_columns(np.array([[None, 1]], object), None)
    assert columns == Columns(None, ("float", "int"), (None, None))
    np.testing.assert_array_equal(columns.to_raw(np.array([[None, 1], [2.5, 1]], object)), [[np.nan, 1], [2.5, 1]])


def test_no_rows_at_prediction(kind: str) -> None:
    columns = learn_columns(make_frame(kind, TABLE))
    assert columns.to_raw(take_rows(make_frame(kind, TABLE), np.arange(0))).shape == (0, 6)
    assert columns.to_raw(np.empty((0, 6))).shape == (0, 6)


@pytest.mark.parametrize(
    "chosen", [["count"], [1], [False, True, False, False, False, False], np.array([1]), ("count",)]
)
def test_columns_can_be_named_as_categories(kind: str, chosen: Any) -> None:
    columns = learn_columns(make_frame(kind, TABLE), chosen)
    assert columns.types == ("float", "category", "bool", "category", "datetime", "category")
    assert columns.vocabularies[1] == (1, 2, 3)
    np.testing.assert_array_equal(columns.to_raw(make_frame(kind, TABLE))[:, 1], [2, 0, 1, 0])


def test_numbers_booleans_and_mixed_objects_can_be_categories() -> None:
    array = np.array([[2.0, 1], [np.nan, 0], [-1.5, 1]])
    columns = learn_columns(array, [0])
    assert columns.vocabularies == ((-1.5, 2.0), None)
    np.testing.assert_array_equal(columns.to_raw(array), [[1, 1], [np.nan, 0], [0, 1]])
    assert learn_columns(np.array([[True], [False]]), [0]).vocabularies == ((False, True),)
    mixed = np.array([["a"], [1], [None], [0.5]], object)
    assert learn_columns(mixed, [0]).vocabularies == ((0.5, 1, "a"),)


def test_pandas_dtypes() -> None:
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(
        {
            "text": pd.Series(["b", None, "a"], dtype="string"),
            "unused": pd.Categorical(["y", "x", "y"], categories=["z", "y", "x"]),
            "numbers": pd.Categorical([3, None, 1]),
            "holes": pd.Series([1, None, 3], dtype="Int64"),
            "flags": pd.Series([True, None, False], dtype="boolean"),
            "objects": pd.Series([True, None, False], dtype=object),
            "whole": pd.Series([1, None, 2**40], dtype=object),
            "span": pd.to_timedelta([1, 2, None], unit="s"),
        }
    ).set_axis([7, 7, 1])
    columns = learn_columns(frame)
    assert columns.types == ("category", "category", "category", "int", "bool", "bool", "int", "float")
    assert columns.vocabularies[:3] == (("a", "b"), ("x", "y"), (1, 3))
    expected = [[1, 1, 1, 1, 1, 1, 1, 1], [np.nan, 0, np.nan, np.nan, np.nan, np.nan, np.nan, 2],
                [0, 1, 0, 3, 0, 0, 2**40, np.nan]]  # fmt: skip
    np.testing.assert_array_equal(columns.to_raw(frame), expected)
    np.testing.assert_array_equal(columns.to_raw(take_rows(frame, np.array([2, 0]))), np.array(expected)[[2, 0]])


def test_polars_dtypes() -> None:
    pl = pytest.importorskip("polars")
    frame = pl.DataFrame(
        {
            "enum": pl.Series(["b", None], dtype=pl.Enum(["c", "b", "a"])),
            "category": pl.Series(["b", None], dtype=pl.Categorical),
            "decimal": pl.Series(["1.5", None]).cast(pl.Decimal(10, 2)),
            "date": [dt.date(1970, 1, 2), None],
            "small": pl.Series([1, None], dtype=pl.UInt8),
        }
    )
    columns = learn_columns(frame)
    assert columns.types == ("category", "category", "float", "datetime", "int")
    np.testing.assert_array_equal(columns.to_raw(frame), [[0, 0, 1.5, 86400, 1], [np.nan] * 5])


def test_frames_without_text_names_count_by_position() -> None:
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(np.array([[1.0, 2.0]]))
    columns = learn_columns(frame)
    assert columns.names is None
    np.testing.assert_array_equal(columns.to_raw(frame.set_axis(["b", "a"], axis=1)), [[1, 2]])


def test_rows_can_be_taken(kind: str) -> None:
    columns = learn_columns(make_frame(kind, TABLE))
    rows = np.array([3, 0, 0])
    taken = take_rows(make_frame(kind, TABLE), rows)
    assert type(taken) is type(make_frame(kind, TABLE))
    np.testing.assert_array_equal(columns.to_raw(taken), RAW[rows])
    np.testing.assert_array_equal(take_rows(RAW, rows), RAW[rows])


def test_ten_thousand_categories() -> None:
    words = np.array([f"w{number}" for number in range(10_000)])[:, None]
    columns = learn_columns(words[::-1])
    np.testing.assert_array_equal(np.sort(columns.to_raw(words)[:, 0]), np.arange(10_000))


def test_columns_can_be_pickled(kind: str) -> None:
    columns = learn_columns(make_frame(kind, TABLE))
    assert pickle.loads(pickle.dumps(columns)) == columns


@pytest.mark.parametrize(
    ("table", "chosen", "message"),
    [
        (np.empty((0, 2)), "from_dtype", "has no rows"),
        (np.empty((2, 0)), "from_dtype", "has no columns"),
        (np.zeros(3), "from_dtype", r"two dimensions; Reshape your data: one row is X.reshape\(1, -1\)"),
        (np.zeros((1, 1, 1)), "from_dtype", "two dimensions"),
        ([[1, 2], [3]], "from_dtype", "rectangular"),
        (np.array([[1j]]), "from_dtype", r"X\['x0'\].*complex128"),
        (np.array([["a"], [1]], object), "from_dtype", r"X\['x0'\].*mixes text.*categorical_features"),
        (np.array([[{}], [1]], object), [0], r"X\['x0'\].*cannot be a column of categories"),
        (np.array([[(1,)], [1]], object), None, "objects that are no numbers|two dimensions"),
        (np.array([["a"]]), None, r"X\['x0'\]=\['a'\]: is a column of categories, and categorical_features is None"),
        (np.zeros((1, 2)), "all", "categorical_features='all'.*from_dtype"),
        (np.zeros((1, 2)), 1, "categorical_features=1"),
        (np.zeros((1, 2)), [2], "categorical_features=2: is no column of the 2"),
        (np.zeros((1, 2)), [-1], "categorical_features=-1"),
        (np.zeros((1, 2)), ["a"], "categorical_features='a': is no column of X"),
        (np.zeros((1, 2)), [True], "mask of 1 entries for 2 columns"),
        (np.zeros((1, 2)), [0.5], "neither a column's name nor its position"),
        (np.zeros((1, 2), "datetime64[s]"), [0], r"X\['x0'\].*cannot be a column of categories"),
    ],
)
def test_what_is_no_table_is_refused(table: Any, chosen: Any, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        learn_columns(table, chosen).to_raw(table)


def test_frames_that_do_not_fit_are_refused(kind: str) -> None:
    columns = learn_columns(make_frame(kind, TABLE))
    some = {name: TABLE[name] for name in TABLE if name != "size"}
    with pytest.raises(InvalidArgumentError, match=r"lacks the column\(s\) \['size'\]"):
        columns.to_raw(make_frame(kind, some))
    with pytest.raises(InvalidArgumentError, match=r"has the column\(s\) \['id'\]"):
        columns.to_raw(make_frame(kind, {**TABLE, "id": [1, 2, 3, 4]}))
    with pytest.raises(InvalidArgumentError, match=r"X\['count'\].*(String|objects that are no numbers)"):
        columns.to_raw(make_frame(kind, {**TABLE, "count": ["a", "b", "c", "d"]}))
    with pytest.raises(InvalidArgumentError, match=r"has 5 column\(s\), but training had 6"):
        columns.to_raw(np.zeros((2, 5)))
    with pytest.raises(InvalidArgumentError, match=r"X\['size'\]='a': holds text, and the column was numbers at fit"):
        columns.to_raw(np.array([["a", 1, True, "b", 1.0, None]], object))
    with pytest.raises(InvalidArgumentError, match=r"X\['size'\].*holds text"):
        columns.to_raw(np.array([["a", "1", "1", "b", "1", "2"]]))


def test_times_lists_and_lazy_frames_are_refused() -> None:
    pl = pytest.importorskip("polars")
    with pytest.raises(InvalidArgumentError, match=r"X\['t'\].*Time"):
        learn_columns(pl.DataFrame({"t": [dt.time(1)]}))
    with pytest.raises(InvalidArgumentError, match=r"X\['t'\].*List"):
        learn_columns(pl.DataFrame({"t": [[1]]}))
    with pytest.raises(InvalidArgumentError, match=r"LazyFrame"):
        learn_columns(pl.LazyFrame({"t": [1]}))
    with pytest.raises(InvalidArgumentError, match=r"no text, number or boolean"):
        learn_columns(pl.DataFrame({"t": [dt.date(2020, 1, 1)]}), ["t"])


def test_a_name_that_occurs_twice_is_refused() -> None:
    pd = pytest.importorskip("pandas")
    with pytest.raises(InvalidArgumentError, match="names a column twice"):
        learn_columns(pd.DataFrame([[1, 2]], columns=["a", "a"]))
