"""What cells of CSV files stand for."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from hardwood.cli._cells import codes_of, numbers_of, plain_word, typed
from hardwood.errors import InvalidArgumentError


@pytest.mark.parametrize(
    ("cells", "kind", "numbers"),
    [
        (["1", "", "-3", "+4"], "int", [1, np.nan, -3, 4]),
        (["007", "7"], "int", [7, 7]),
        (["1.5", "2", " 3 ", "1e3", ".5", "NaN"], "float", [1.5, 2, 3, 1000, 0.5, np.nan]),
        (["inf", "-Infinity", "0"], "float", [np.inf, -np.inf, 0]),
        (["12345678901234567890"], "float", [12345678901234567890.0]),
        (["true", "False", "NA", ""], "bool", [1, 0, np.nan, np.nan]),
        (["1970-01-02", "1969-12-31T23:59:59.5", "null"], "datetime", [86400, -0.5, np.nan]),
        (["1970-01-01T01:00:00+01:00", "1970-01-01 00:00:01Z"], "datetime", [0, 1]),
        (["", ""], "float", [np.nan, np.nan]),
        (["", "NA"], "float", [np.nan, np.nan]),
        ([], "float", []),
    ],
)
def test_numbers_of_every_kind(cells: list[str], kind: str, numbers: list[float]):
    column = typed(cells)
    assert column.kind == kind
    np.testing.assert_array_equal(column.numbers, np.array(numbers, np.float64))
    assert len(column) == len(cells)


@pytest.mark.parametrize("odd", ["abc", "1_000", "0x10", "1,5", "2021-02-30", "2021-1-1", "yes", "\u0663", "1e"])
def test_anything_else_makes_a_column_of_categories(odd: str):
    column = typed([odd, "", "NA", " 1 "])
    assert column.kind == "category"
    assert column.words == (odd, None, "NA", " 1 ")


def test_dates_are_what_data_frames_make_of_them():
    cells = ["2024-02-29", "1583-01-01", "2024-05-31 12:34:56.789012", "9999-12-31T23:59"]
    series = pd.Series(np.array(cells, "datetime64[us]"))
    np.testing.assert_array_equal(typed(cells).numbers, series.astype("int64").to_numpy() / 1e6)


def test_a_cell_that_is_no_number_is_named_with_its_row():
    with pytest.raises(InvalidArgumentError, match=r"t\['age'\]='old': row 2 holds no number; write a number"):
        numbers_of(["1", "", "old", "x"], "float", "t['age']")
    with pytest.raises(InvalidArgumentError, match=r"row 0 holds no date or time such as 2024-05-31"):
        numbers_of(["soon"], "datetime", "t['day']")


def test_booleans_count_among_numbers():
    np.testing.assert_array_equal(numbers_of(["TRUE", "0", "2.5"], "bool", "t"), [1, 0, 2.5])


@pytest.mark.parametrize(
    ("words", "vocabulary", "codes"),
    [
        (["007", "7", "8", None], ["007", "7"], [0, 1, np.nan, np.nan]),
        ([7, 12, 9], ["007", "12"], [0, 1, np.nan]),  # numbers of a Parquet file, texts of a CSV file
        (["7", "7.0", "07", "x"], [7, 12], [0, 0, 0, np.nan]),
        (["true", "False"], [False, True], [1, 0]),
        ([True, False], ["False", "True"], [1, 0]),
        (["0.5", "5e-1"], [0.25, 0.5], [1, 1]),
        (["nan", "NA", ""], ["NA", "a"], [np.nan, 0, np.nan]),
        (["\u00e9"], ["e\u0301"], [np.nan]),  # texts are compared as they are
    ],
)
def test_codes_are_found_whichever_kind_of_file_spells_the_words(
    words: list[object], vocabulary: list[object], codes: list[float]
):
    np.testing.assert_array_equal(codes_of(words, vocabulary), np.array(codes, np.float64))


def test_cells_of_other_types_are_categories_as_they_are_written():
    assert plain_word(pd.Timestamp("2024-05-31").date()) == "2024-05-31"
    assert plain_word(3) == 3
