"""Files as streams: the same cells as whole files read at once, in the order of rows."""

from __future__ import annotations

import gzip
import importlib

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hardwood.data import TableStream, read_csv, read_parquet
from hardwood.errors import InvalidArgumentError, MissingExtraError


def frame(n_rows: int, start: int = 0) -> pd.DataFrame:
    number = np.arange(start, start + n_rows)
    return pd.DataFrame(
        {
            "number": number,
            "half": np.where(number % 5 == 0, np.nan, number / 2),
            "word": [None if each % 4 == 0 else f"w{each % 3}" for each in number],
            "label": [f"class {each % 2}" for each in number],
            "weight": number + 0.5,
        }
    )


def whole(chunks: TableStream) -> pd.DataFrame:
    """Return a stream as one frame, the target beside the columns."""
    parts = []
    for chunk in chunks:
        part = chunk.X.to_pandas()
        part["label"] = chunk.y
        if chunk.weight is not None:
            part["weight"] = chunk.weight
        parts.append(part)
    return pd.concat(parts, ignore_index=True)


def same(one: pd.DataFrame, two: pd.DataFrame) -> None:
    assert list(one.columns) == list(two.columns)
    for name in one.columns:
        left, right = ([None if pd.isna(cell) else cell for cell in table[name]] for table in (one, two))
        assert left == right, name


@pytest.mark.parametrize("chunk_rows", [1, 7, 20, 1000])
@pytest.mark.parametrize("group", [3, 8, 1000])
def test_parquet(tmp_path, chunk_rows, group):
    pq.write_table(pa.Table.from_pandas(frame(20)), tmp_path / "b.parquet", row_group_size=group)
    pq.write_table(pa.Table.from_pandas(frame(9, 20)), tmp_path / "c.parquet", row_group_size=group)
    chunks = read_parquet(tmp_path, target="label", chunk_rows=chunk_rows, sample_weight="weight")
    assert chunks.n_rows == 29
    for _ in range(2):
        same(whole(chunks), frame(29))
    sizes = [len(chunk.y) for chunk in chunks]
    assert sizes == [
        min(chunk_rows, end - at) for begin, end in ((0, 20), (20, 29)) for at in range(begin, end, chunk_rows)
    ]


@pytest.mark.parametrize("chunk_rows", [1, 7, 1000])
def test_csv(tmp_path, chunk_rows):
    frame(20).to_csv(tmp_path / "a.csv", index=False)
    with gzip.open(tmp_path / "b.csv.gz", "wt") as file:
        frame(9, 20).to_csv(file, index=False)
    chunks = read_csv(tmp_path, target="label", chunk_rows=chunk_rows, sample_weight="weight")
    assert chunks.n_rows is None
    for _ in range(2):
        same(whole(chunks), frame(29))
    assert chunks.n_rows == 29
    assert max(len(chunk.y) for chunk in chunks) <= chunk_rows


def test_columns_targets_and_lists_of_files(tmp_path):
    for name in "ab":
        frame(5).to_parquet(tmp_path / f"{name}.parquet")
    given = [tmp_path / "b.parquet", str(tmp_path / "a.parquet")]
    chunks = read_parquet(given, target=["weight", "number"], columns=["word", "half"])
    seen = list(chunks)
    assert len(seen) == 2 and seen[0].X.column_names == ["word", "half"] and seen[0].weight is None
    np.testing.assert_array_equal(seen[1].y, frame(5)[["weight", "number"]].to_numpy())


def test_folders_that_name_a_column(tmp_path):
    for year in (2021, 2020):
        for month in (1, 2):
            folder = tmp_path / f"year={year}" / f"month={month}"
            folder.mkdir(parents=True)
            pd.DataFrame({"a": [1.0, 2.0], "y": [year, month]}).to_parquet(folder / "part.parquet")
    (tmp_path / "_SUCCESS").touch()
    (tmp_path / "_hidden.parquet").touch()
    chunks = list(read_parquet(tmp_path, target="y"))
    years = [chunk.X["year"].to_pylist() for chunk in chunks]
    assert years == [[2020, 2020], [2020, 2020], [2021, 2021], [2021, 2021]]
    assert [chunk.X["month"].to_pylist() for chunk in chunks] == [[1, 1], [2, 2], [1, 1], [2, 2]]
    assert [chunk.y.tolist() for chunk in chunks] == [[2020, 1], [2020, 2], [2021, 1], [2021, 2]]


def test_numbers_may_change_their_type_from_file_to_file_and_text_may_not(tmp_path):
    for name, cells in (("a", [1, 2]), ("b", [1.5, None]), ("c", [None, None])):
        pd.DataFrame({"x": cells, "y": [0, 1]}).to_parquet(tmp_path / f"{name}.parquet")
    chunks = read_parquet(tmp_path, target="y")
    assert [chunk.X["x"].to_pylist() for chunk in chunks] == [[1, 2], [1.5, None], [None, None]]
    pd.DataFrame({"x": ["1", "2"], "y": [0, 1]}).to_parquet(tmp_path / "d.parquet")
    with pytest.raises(InvalidArgumentError, match=r"in chunk 4: X\['x'\]='text or categories'"):
        list(read_parquet(tmp_path, target="y"))


def test_types_of_csv(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("x;code;y\n" + "1;007;0\n" * 200_000 + "1.5;008;1\n")
    with pytest.raises(InvalidArgumentError, match=r"path='.*a.csv.: cannot be read: .*'1.5'.*column_types, such as"):
        list(read_csv(path, target="y", delimiter=";"))
    chunks = read_csv(path, target="y", delimiter=";", column_types={"x": "float64", "code": "string"})
    last = list(chunks)[-1]
    assert last.X["x"].to_pylist()[-1] == 1.5 and last.X["code"].to_pylist()[-1] == "008"
    assert chunks.n_rows == 200_001
    with pytest.raises(InvalidArgumentError, match="column_types='z': is no column"):
        read_csv(path, target="y", delimiter=";", column_types={"z": "string"})
    # The first file's types hold for the others.
    other = tmp_path / "b.csv"
    other.write_text("code;x;y\n9;3;0\n")
    both = list(read_csv([other], target="y", delimiter=";", column_types={"code": "string"}))
    assert both[0].X["code"].to_pylist() == ["9"]


def test_what_is_refused(tmp_path):
    frame(5).to_parquet(tmp_path / "a.parquet")
    path = tmp_path / "a.parquet"
    for given, message in (
        ({"path": tmp_path / "none.parquet"}, "path='.*none.parquet': is no file"),
        ({"path": []}, "names no file"),
        ({"target": "nothing"}, r"target='nothing': is no column of the file; choose from \['number', 'half'"),
        ({"target": []}, "target=.*names no column"),
        ({"columns": ["word", "label"]}, "columns='label': is the target or the weight"),
        ({"columns": ["word", "word"]}, "columns='word': is named twice"),
        ({"columns": ["none"]}, "columns='none': is no column"),
        ({"sample_weight": "none"}, "sample_weight='none': is no column"),
        ({"chunk_rows": 0}, "chunk_rows=0"),
    ):
        with pytest.raises(InvalidArgumentError, match=message):
            read_parquet(**{"path": path, "target": "label", **given})
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(InvalidArgumentError, match="is a folder without such files"):
        read_csv(empty, target="label")
    (empty / "not.parquet").write_text("this is text")
    with pytest.raises(InvalidArgumentError, match=r"cannot be read: .*pass Parquet files only"):
        read_parquet(empty, target="label")
    (empty / "not.parquet").unlink()
    frame(5).drop(columns="word").to_parquet(tmp_path / "b.parquet")
    with pytest.raises(InvalidArgumentError, match=r"path='.*b.parquet': lacks the column\(s\) \['word'\], compared"):
        read_parquet(tmp_path, target="label")
    pd.DataFrame({"a": [1], "b": [2]}).to_csv(tmp_path / "a.csv", index=False)
    pd.DataFrame({"a": [1], "b": [2], "c": [3]}).to_csv(tmp_path / "b.csv", index=False)
    with pytest.raises(InvalidArgumentError, match=r"b.csv': has the column\(s\) \['c'\] more"):
        list(read_csv(tmp_path, target="b"))
    (tmp_path / "a.csv").write_text("a,b\n")
    with pytest.raises(InvalidArgumentError, match="stream='0 rows': has no rows"):
        list(read_csv(tmp_path / "a.csv", target="b"))
    (tmp_path / "a.csv").write_text("a,b\n1,2\n3\n")
    with pytest.raises(InvalidArgumentError, match=r"cannot be read: .*Expected 2 columns, got 1"):
        list(read_csv(tmp_path / "a.csv", target="b"))


def test_without_pyarrow(tmp_path, monkeypatch):
    def missing(name: str, *rest):
        if name.startswith("pyarrow"):
            raise ImportError(name)
        return real(name, *rest)

    real = importlib.import_module
    monkeypatch.setattr(importlib, "import_module", missing)
    for read in (read_parquet, read_csv):
        with pytest.raises(MissingExtraError, match=r'needs pyarrow; pip install "hardwood\[stream\]"'):
            read(tmp_path, target="y")
