"""Writing tables: the same cells whatever the format, and nothing half written."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from hardwood.cli import _tables
from hardwood.cli._outputs import check_output, check_table_output, replace_file, write_table
from hardwood.cli._tables import read_table
from hardwood.errors import InvalidArgumentError

MADE = {"prediction": ["a", "b", "a"], "chance": [0.1, 1 / 3, 1e-17]}


@pytest.fixture(params=["polars", "pyarrow"])
def _library(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_tables, "_LIBRARIES", (request.param,))


@pytest.mark.usefixtures("_library")
@pytest.mark.parametrize("source", ["csv", "parquet"])
@pytest.mark.parametrize("suffix", ["csv", "tsv", "parquet"])
def test_what_is_carried_over_stays_as_it_is(tmp_path: Path, source: str, suffix: str):
    given = pd.DataFrame({"id": ["007", "0,8", None], "number": [2**60 + 1, -1, 0], "day": ["2024-05-31", None, "x"]})
    if source == "csv":
        given.to_csv(tmp_path / "t.csv", index=False)
    else:
        given.to_parquet(tmp_path / "t.parquet")
    path = tmp_path / f"out.{suffix}"
    write_table(str(path), read_table(str(tmp_path / f"t.{source}")), ["number", "id"], MADE)
    if suffix == "parquet":
        read = pd.read_parquet(path)
    else:
        read = pd.read_csv(path, sep="\t" if suffix == "tsv" else ",", dtype={"id": str})
    assert list(read.columns) == ["number", "id", "prediction", "chance"]
    assert [int(cell) for cell in read["number"]] == [2**60 + 1, -1, 0]
    assert [None if pd.isna(cell) else cell for cell in read["id"]] == ["007", "0,8", None]
    assert read["prediction"].tolist() == MADE["prediction"]
    assert read["chance"].tolist() == MADE["chance"]
    assert [entry.name for entry in tmp_path.iterdir() if entry.name.startswith(".hardwood")] == []


@pytest.mark.usefixtures("_library")
def test_a_table_without_rows_keeps_its_columns(tmp_path: Path):
    (tmp_path / "t.csv").write_text("id,x\n")
    table = read_table(str(tmp_path / "t.csv"))
    for suffix in ("csv", "parquet"):
        write_table(str(tmp_path / f"out.{suffix}"), table, ["id"], {"prediction": []})
        assert read_table(str(tmp_path / f"out.{suffix}")).names == ["id", "prediction"]


def test_a_failure_leaves_the_old_file(tmp_path: Path):
    path = tmp_path / "out.csv"
    path.write_text("old")

    def fail(place: str) -> None:
        Path(place).write_text("half")
        raise RuntimeError

    with pytest.raises(RuntimeError):
        replace_file(str(path), fail)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_places_where_nothing_can_be_written_are_refused(tmp_path: Path):
    check_output(str(tmp_path / "page.html"))
    check_table_output("-")
    with pytest.raises(InvalidArgumentError, match="is a folder"):
        check_output(str(tmp_path))
    with pytest.raises(InvalidArgumentError, match="which is no folder"):
        check_output(str(tmp_path / "none" / "page.html"), "--html")
    with pytest.raises(InvalidArgumentError, match="neither the suffix"):
        check_table_output(str(tmp_path / "out.xlsx"))


def test_the_table_that_is_read_is_not_overwritten(tmp_path: Path):
    path = tmp_path / "t.csv"
    path.write_text("a\n1\n")
    (tmp_path / "link.csv").symlink_to(path)
    with pytest.raises(InvalidArgumentError, match="is the table that is read"):
        check_table_output(str(tmp_path / "link.csv"), [str(path)])
