"""`hardwood predict`: the same answers from CSV, from Parquet and in Python, to the last bit."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest

from helpers.command_line import NAMES, Result, load, write_csv

Run = Callable[..., Result]


@pytest.fixture(scope="module")
def frame(folder: Path) -> pd.DataFrame:
    """`new.csv` with types; `new.parquet` is written beside it."""
    read = pd.read_csv(
        folder / "new.csv", dtype={"id": str, "zip": str, "answer": str}, keep_default_na=False, na_values=[""]
    )
    read["day"] = pd.to_datetime(read["day"])
    read["count"] = read["count"].astype("Int64")
    read.to_parquet(folder / "new.parquet")
    return read


@pytest.mark.parametrize("name", ["tree", "ensemble"])
def test_csv_parquet_and_python_agree_to_the_last_bit(
    name: str, folder: Path, tmp_path: Path, frame: pd.DataFrame, run: Run, request: pytest.FixtureRequest
):
    model: Path = request.getfixturevalue(name)
    forest = load(model)
    assert forest.feature_names is not None
    X = frame[list(forest.feature_names)]
    expected = forest.predict(X)
    assert len(np.unique(expected)) > 2
    np.testing.assert_array_equal(forest.predict(pl.from_pandas(X)), expected)
    chances = ("--probabilities",) if name == "tree" else ()
    for source in ("new.csv", "new.parquet"):
        for suffix in ("csv", "parquet"):
            place = tmp_path / f"out.{suffix}"
            done = run("predict", model, folder / source, "-o", place, *chances)
            assert (done.code, done.out, done.err) == (0, "", "")
            read = pd.read_csv(place, keep_default_na=False) if suffix == "csv" else pd.read_parquet(place)
            assert read["prediction"].tolist() == expected.tolist()
            if chances:
                assert list(read.columns) == ["prediction", *(f"probability of {each}" for each in ("NA", "no", "yes"))]
                np.testing.assert_array_equal(read.iloc[:, 1:].to_numpy(), forest.predict_proba(X))


def test_what_training_did_not_show_counts_as_missing(tree: Path, folder: Path, tmp_path: Path, run: Run):
    with (folder / "new.csv").open(newline="") as file:
        rows = list(csv.reader(file))[1:]
    new = {"violet", "nowhere", "7777"}
    assert any(new & set(row) for row in rows)
    holes = write_csv(tmp_path / "holes.csv", NAMES, [[None if cell in new else cell for cell in row] for row in rows])
    assert run("predict", tree, folder / "new.csv", "-p").out == run("predict", tree, holes, "-p").out


def test_stdout_and_stdin_are_the_default_pipe(tree: Path, folder: Path, run: Run):
    text = (folder / "new.csv").read_text()
    assert run("predict", tree, "-", stdin=text).out == run("predict", tree, folder / "new.csv").out
    lines = run("predict", tree, "-", "-o", "-", stdin=text).out.split("\n")
    assert lines[0] == "prediction"
    assert len(lines) == 62
    assert lines[-1] == ""


def test_columns_are_carried_over_as_they_are(tree: Path, folder: Path, frame: pd.DataFrame, tmp_path: Path, run: Run):
    for source in ("new.csv", "new.parquet"):
        done = run("predict", tree, folder / source, "--columns", "id", "-c", "zip", "-c", "id")
        rows = list(csv.DictReader(done.out.splitlines()))
        assert list(rows[0]) == ["id", "zip", "prediction"]
        assert [row["id"] for row in rows] == frame["id"].tolist()
        assert [row["zip"] for row in rows] == frame["zip"].fillna("").tolist()


def test_order_and_number_of_other_columns_play_no_part(
    tree: Path, folder: Path, frame: pd.DataFrame, tmp_path: Path, run: Run
):
    turned = frame[list(reversed(frame.columns))].drop(columns=["answer", "weight"])
    turned.assign(more="x").to_parquet(tmp_path / "turned.parquet")
    assert run("predict", tree, tmp_path / "turned.parquet").out == run("predict", tree, folder / "new.csv").out


def test_a_table_without_rows_gives_one(tree: Path, tmp_path: Path, run: Run):
    empty = write_csv(tmp_path / "empty.csv", NAMES, [])
    assert run("predict", tree, empty).out == "prediction\n"
    assert run("predict", tree, empty, "-p", "-o", tmp_path / "out.parquet").code == 0


def test_bad_input_is_told_in_a_line(tree: Path, ensemble: Path, folder: Path, tmp_path: Path, run: Run):
    with (folder / "new.csv").open(newline="") as file:
        rows = list(csv.reader(file))
    lacking = write_csv(tmp_path / "lacking.csv", rows[0][2:], [row[2:] for row in rows[1:]])
    text = write_csv(tmp_path / "text.csv", rows[0], [[row[0], "much", *row[2:]] for row in rows[1:]])
    pd.read_csv(text).to_parquet(tmp_path / "text.parquet")
    taken = write_csv(tmp_path / "taken.csv", ["prediction", *rows[0][1:]], rows[1:])
    new = folder / "new.csv"
    for arguments, message in [
        ((tree, tmp_path / "none.csv"), "is no file"),
        ((tree, lacking), "lacks the column(s) 'amount'; pass a table with all columns"),
        ((tree, text), "['amount']='much': row 0 holds no number"),
        ((tree, tmp_path / "text.parquet"), "['amount']='much': is text, and the model was trained on numbers"),
        ((tree, new, "-o", tmp_path / "out.xls"), "has neither the suffix .csv"),
        ((tree, new, "-o", tmp_path / "none" / "out.csv"), "which is no folder"),
        ((tree, new, "-o", new), "is the table that is read"),
        ((tree, new, "-c", "nothing like it"), "--columns='nothing like it': is no column of"),
        ((tree, taken, "-c", "prediction"), "--columns='prediction': is the name of a column of predictions"),
        ((ensemble, new, "-p"), "needs classes, and the model predicts numbers (price)"),
        ((tmp_path / "none", new), "is no folder; pass a folder that `hardwood fit` wrote"),
        ((tree,), "Missing argument 'TABLE'; see `hardwood predict --help`"),
    ]:
        done = run("predict", *arguments)
        assert (done.code, done.out) == (2, ""), arguments
        assert done.err.startswith("error: ")
        assert message in done.err
        assert done.err.count("\n") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["lacking.csv", "taken.csv", "text.csv", "text.parquet"]
