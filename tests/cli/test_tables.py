"""Reading tables: CSV as it is written, Parquet with its types, and what is refused."""

from __future__ import annotations

import importlib.util
import io
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from hardwood.cli import _tables
from hardwood.cli._tables import read_table
from hardwood.errors import InvalidArgumentError, MissingExtraError


@pytest.fixture(params=["polars", "pyarrow"])
def library(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The data frame library that reads Parquet."""
    monkeypatch.setattr(_tables, "_LIBRARIES", (request.param,))
    return str(request.param)


def write(path: Path, text: str) -> str:
    path.write_bytes(text.encode())
    return str(path)


def test_csv_cells_stay_as_they_are_written(tmp_path: Path):
    text = '\ufeffid,"a, b",empty\r\n007,"say ""hi""",\r\n\r\n8,"two\nlines",x\r\n'
    table = read_table(write(tmp_path / "t.csv", text))
    assert table.names == ["id", "a, b", "empty"]
    assert table.n_rows == 2
    assert table.cells is not None
    assert list(table.cells["id"]) == ["007", "8"]
    assert list(table.cells["a, b"]) == ['say "hi"', "two\nlines"]
    assert table.column("id", categorical=True).words == ("007", "8")
    assert table.column("empty").words == (None, "x")


def test_tabs_separate_in_tsv(tmp_path: Path):
    table = read_table(write(tmp_path / "t.tsv", "a\tb\n1,5\t2\n"))
    assert table.cells == {"a": ("1,5",), "b": ("2",)}


def test_a_dash_is_stdin(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO("a,b\n1,2\n"))
    assert read_table("-").cells == {"a": ("1",), "b": ("2",)}


def test_blank_lines_are_rows_only_where_there_is_one_column(tmp_path: Path):
    assert read_table(write(tmp_path / "t.csv", "a\n1\n\n3\n")).cells == {"a": ("1", "", "3")}
    assert read_table(write(tmp_path / "u.csv", "a,b\n1,2\n\n3,4\n")).n_rows == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("a,b\n1,2,3\n", "row 0 has 3 cells, and 2 columns are named"),
        ("a,b\n1,2\n3\n", "row 1 has 1 cells"),
        ("a,a\n1,2\n", "names the column 'a' twice"),
        ("a,,c\n1,2,3\n", "a column without a name"),
        ("a;b\n1;2\n", "has a semicolon where a comma should"),
        ("a\tb\n1\t2\n", "has a tab where a comma should"),
        ('a,b\n"1,2\n', "is no CSV file in UTF-8"),
        ("a\n\x00\n", "TABLE"),
    ],
)
def test_a_file_that_is_no_table_is_refused(tmp_path: Path, text: str, message: str):
    path = write(tmp_path / "t.csv", text)
    if message == "TABLE":  # csv takes NUL as a letter since Python 3.11
        assert read_table(path).cells == {"a": ("\x00",)}
        return
    with pytest.raises(InvalidArgumentError, match=message) as caught:
        read_table(path)
    assert str(caught.value).startswith(f"TABLE={path!r}"[:60])


def test_other_encodings_are_refused(tmp_path: Path):
    path = tmp_path / "t.csv"
    path.write_bytes("gr\u00f6\u00dfe\n1\n".encode("latin-1"))
    with pytest.raises(InvalidArgumentError, match="is no CSV file in UTF-8"):
        read_table(str(path))


def test_places_without_a_table_are_refused(tmp_path: Path):
    with pytest.raises(InvalidArgumentError, match="is no file"):
        read_table(str(tmp_path / "none.csv"))
    with pytest.raises(InvalidArgumentError, match="is a folder"):
        read_table(str(tmp_path))
    with pytest.raises(InvalidArgumentError, match="neither the suffix"):
        read_table(write(tmp_path / "t.xlsx", "a\n1\n"))


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="permissions do not bind the superuser")
def test_an_unreadable_file_is_refused(tmp_path: Path):
    path = write(tmp_path / "t.csv", "a\n1\n")
    Path(path).chmod(0)
    with pytest.raises(InvalidArgumentError, match="may not be read"):
        read_table(path)


def frame() -> pd.DataFrame:
    """Columns of every type, each with a hole where it can have one."""
    return pd.DataFrame(
        {
            "float": [1.5, np.nan, -2.0],
            "int": [3, 4, 2**40],
            "maybe": pd.array([1, None, 3], "Int64"),
            "flag": [True, False, True],
            "text": ["007", None, "b"],
            "kind": pd.Categorical(["x", "y", None]),
            "day": pd.to_datetime(["2024-05-31", None, "1969-12-31 12:00"], format="ISO8601"),
            "none": [None, None, None],
        }
    )


def test_parquet_and_csv_of_the_same_rows_are_the_same_columns(tmp_path: Path, library: str):
    frame().to_parquet(tmp_path / "t.parquet")
    frame().to_csv(tmp_path / "t.csv", index=False)
    typed, written = read_table(str(tmp_path / "t.parquet")), read_table(str(tmp_path / "t.csv"))
    assert typed.names == written.names
    assert typed.n_rows == written.n_rows == 3
    for name in typed.names:
        if name == "text":
            assert typed.column(name).words == written.column(name).words == ("007", None, "b")
            continue
        one, other = typed.column(name), written.column(name)
        assert one.words == other.words
        # A CSV file does not tell a whole float from an integer.
        assert one.kind == other.kind or {one.kind, other.kind} == {"int", "float"}
        if one.numbers is not None:
            np.testing.assert_array_equal(one.numbers, other.numbers)


def test_columns_that_nobody_asks_for_may_hold_anything(tmp_path: Path, library: str):
    pd.DataFrame({"a": [1, 2], "list": [[1], [2, 3]]}).to_parquet(tmp_path / "t.parquet")
    table = read_table(str(tmp_path / "t.parquet"))
    assert table.column("a").kind == "int"
    with pytest.raises(InvalidArgumentError, match="'list'"):
        table.column("list")


def test_a_broken_parquet_file_is_refused(tmp_path: Path, library: str):
    path = tmp_path / "t.parquet"
    frame().to_parquet(path)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(InvalidArgumentError, match="cannot be read as Parquet"):
        read_table(str(path))


def test_without_a_library_parquet_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    frame().to_parquet(tmp_path / "t.parquet")
    found: Any = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name in ("polars", "pyarrow") else found(name)
    )
    with pytest.raises(MissingExtraError, match=r"hardwood\[stream\]"):
        read_table(str(tmp_path / "t.parquet"))


def test_require_names_the_columns_there_are(tmp_path: Path):
    table = read_table(write(tmp_path / "t.csv", "a,b\n1,2\n"))
    assert table.require("--target", "b") == "b"
    with pytest.raises(InvalidArgumentError, match=r"--target='c': is no column of .*; pass one of 'a', 'b'"):
        table.require("--target", "c")
