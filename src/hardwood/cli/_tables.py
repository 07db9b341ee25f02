"""Tables in: CSV by Python alone, Parquet by whichever data frame library is installed."""

from __future__ import annotations

import csv
import importlib.util
import io
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from hardwood._typing import Float
from hardwood.cli._cells import Column, codes_of, numbers_of, plain_word, typed
from hardwood.errors import MissingExtraError, reject
from hardwood.forest import Forest

# The suffixes of the two kinds of file.
CSV, PARQUET = (".csv", ".tsv"), (".parquet", ".pq")
_LIBRARIES: tuple[Literal["polars", "pyarrow"], ...] = ("polars", "pyarrow")


@dataclass(frozen=True, eq=False)
class Table:
    """The columns of a file: the cells of a CSV file as they are written, or a frame with types of a Parquet file.

    Nothing is looked at before it is asked for: columns that a model does not know may hold anything.
    """

    name: str
    names: list[str]
    n_rows: int
    cells: Mapping[str, Sequence[str]] | None = None  # of a CSV file
    frame: Any = None  # a narwhals frame of a Parquet file

    def column(self, name: str, categorical: bool = False) -> Column:
        """Return a column with its type; as categories, cells of a CSV file stay as they are written ("007")."""
        if self.cells is not None:
            cells = self.cells[name]
            return Column("category", words=tuple(cell or None for cell in cells)) if categorical else typed(cells)
        return _typed_series(self.frame.get_column(name), self.label(name), categorical)

    def label(self, name: str) -> str:
        """Return what a column is called in errors."""
        return f"{self.name}[{name!r}]"

    def require(self, argument: str, name: str) -> str:
        """Return the name of a column that an option names, after checking that it is there."""
        if name not in self.names:
            known = ", ".join(map(repr, self.names[:12])) + (", ..." if len(self.names) > 12 else "")
            reject(argument, name, f"is no column of {self.name!r}", f"pass one of {known}")
        return name

    def raw(self, forest: Forest) -> Float[np.ndarray, "rows features"]:
        """Return the rows in a forest's coding and order of columns; columns that it does not know play no part."""
        assert forest.feature_names is not None
        missing = [name for name in forest.feature_names if name not in self.names]
        if missing:
            problem = f"lacks the column(s) {', '.join(map(repr, missing))}"
            reject("TABLE", self.name, problem, "pass a table with all columns that the model was trained on")
        raw = np.empty((self.n_rows, forest.n_features), np.float64)
        for place, name in enumerate(forest.feature_names):
            raw[:, place] = self._coded(name, forest, place)
        return raw

    def _coded(self, name: str, forest: Forest, place: int) -> Float[np.ndarray, " rows"]:
        vocabulary = forest.categories.get(place)
        if vocabulary is not None:
            return codes_of(self.column(name, categorical=True).words or (), vocabulary)
        if self.cells is not None:
            kind = "float" if forest.feature_types is None else forest.feature_types[place]
            return numbers_of(self.cells[name], kind, self.label(name))
        column = self.column(name)
        if column.numbers is None:
            text = next(word for word in column.words or () if word is not None)
            problem, remedy = "is text, and the model was trained on numbers", "pass numbers, dates or booleans"
            reject(self.label(name), text, problem, remedy)
        return column.numbers


def _typed_series(series: Any, label: str, categorical: bool) -> Column:
    """Return a column of a data frame with its type, by the functions that the estimators read frames with."""
    from hardwood.data._cells import feature_type, is_missing, numbers

    if series.null_count() == len(series) and not categorical:
        return Column("float", np.full(len(series), np.nan))
    kind = "category" if categorical else feature_type(series, label)
    if kind == "category":
        return Column(kind, words=tuple(None if is_missing(cell) else plain_word(cell) for cell in series.to_list()))
    return Column(kind, numbers(series, None, label))


def read_table(path: str) -> Table:
    """Read a file by its suffix, or CSV from stdin for "-"."""
    if path == "-":
        return _read_csv(path)
    if not os.path.isfile(path):
        problem = "is a folder" if os.path.isdir(path) else "is no file"
        reject("TABLE", path, problem, "pass a .csv or .parquet file, or - to read CSV from stdin")
    suffix = Path(path).suffix.lower()
    if suffix not in CSV + PARQUET:
        problem = "has neither the suffix .csv (or .tsv) nor .parquet"
        reject("TABLE", path, problem, "convert it, or pass - to read CSV from stdin")
    try:
        return _read_csv(path) if suffix in CSV else _read_parquet(path)
    except PermissionError:
        reject("TABLE", path, "may not be read", "change its permissions")


def _read_csv(path: str) -> Table:
    delimiter = "\t" if path.lower().endswith(".tsv") else ","
    try:
        if path == "-":
            binary = getattr(sys.stdin, "buffer", None)
            text = sys.stdin.read() if binary is None else binary.read().decode("utf-8-sig")
            rows = list(csv.reader(io.StringIO(text, newline=""), strict=True))
        else:
            with open(path, newline="", encoding="utf-8-sig") as file:
                rows = list(csv.reader(file, delimiter=delimiter, strict=True))
    except (csv.Error, UnicodeDecodeError) as error:
        reject("TABLE", path, f"is no CSV file in UTF-8 ({error})", "save it as CSV with commas, in UTF-8")
    if not rows:
        reject("TABLE", path, "is empty", "pass a file whose first line names the columns")
    names, body = rows[0], rows[1:]
    if len(names) == 1 and (";" in names[0] or "\t" in names[0]):
        found = "a semicolon" if ";" in names[0] else "a tab"
        problem = f"has {found} where a comma should separate the columns"
        reject("TABLE", path, problem, "save it as CSV with commas, or with tabs and the suffix .tsv")
    _check_names(path, names)
    # A blank line is a row only where there is one column: there it is a missing cell.
    body = [row or [""] for row in body] if len(names) == 1 else [row for row in body if row]
    for number, row in enumerate(body):
        if len(row) != len(names):
            problem = f"row {number} has {len(row)} cells, and {len(names)} columns are named"
            reject("TABLE", path, problem, "put cells that hold commas in double quotes")
    columns = zip(*body, strict=True) if body else ((),) * len(names)
    return Table(path, names, len(body), cells=dict(zip(names, columns, strict=True)))


def _check_names(path: str, names: Sequence[str]) -> None:
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        reject("TABLE", path, f"names the column {twice!r} twice", "give each column its own name")
    if not names or "" in names:
        reject("TABLE", path, "has a column without a name", "name every column in the first line")


def frame_library() -> Literal["polars", "pyarrow"]:
    """Return the data frame library that reads and writes Parquet."""
    for library in _LIBRARIES:
        if importlib.util.find_spec(library) is not None:
            return library
    raise MissingExtraError('Parquet files need polars or pyarrow; pip install "hardwood[stream]", or use CSV')


def _read_parquet(path: str) -> Table:
    library = frame_library()
    import narwhals as nw

    try:
        frame = nw.read_parquet(path, backend=library)
    except PermissionError:
        raise
    except Exception as error:  # each library has its own errors
        first = (str(error).strip() or repr(error)).splitlines()[0]
        reject("TABLE", path, f"cannot be read as Parquet ({first})", "pass a whole Parquet file")
    names = list(frame.columns)
    _check_names(path, names)
    return Table(path, names, len(frame), frame=frame)
