"""`read_parquet` and `read_csv`: streams of files, through pyarrow."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from hardwood.data._stream import TableStream
from hardwood.errors import MissingExtraError, reject

Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
_PARQUET = (".parquet", ".parq", ".pq")
_TYPES = "mend the file, or name the column's type in column_types, such as {'age': 'float64'}"
_CSV = (".csv", ".csv.gz", ".csv.bz2", ".csv.zst", ".tsv", ".tsv.gz")


def read_parquet(
    path: Paths,
    *,
    target: str | Sequence[str],
    chunk_rows: int = 65536,
    columns: Sequence[str] | None = None,
    sample_weight: str | None = None,
) -> TableStream:
    """Return the stream of one or more Parquet files; its chunks are Arrow tables, and its number of rows is known.

    Args:
        path: a file, a list of files, or a folder, whose files are read in the order of their names, those of folders
            in it included. Folders named `column=value` make a column.
        target: the column to predict; a list for several outputs.
        chunk_rows: rows of a chunk; the last one of a file has what is left.
        columns: the columns to learn from; by default all but the target and the weight.
        sample_weight: the column of weights, if there is one.
    """
    dataset = _arrow("read_parquet", "pyarrow.dataset")
    _check_size(chunk_rows)
    files, folder = _files(path, _PARQUET)
    hive = {} if folder is None else {"partitioning": "hive", "partition_base_dir": folder}
    try:
        whole = dataset.dataset(files, format="parquet", **hive)
        parts = list(whole.get_fragments())
        n_rows = sum(part.count_rows() for part in parts)
    except ValueError as error:
        _refuse(str(path), error, "pass Parquet files only")
    in_files = set(parts[0].physical_schema.names)
    of_folders = [field for field in whole.schema if field.name not in in_files]
    schemas = []
    for part in parts:
        schema = part.physical_schema
        for field in of_folders:
            schema = schema.append(field)
        schemas.append(schema)
    choose = _Choice(schemas[0].names, target, columns, sample_weight)
    for part, schema in zip(parts, schemas, strict=True):
        choose.check(part.path, schema.names)

    def passes() -> Iterator[Any]:
        for part, schema in zip(parts, schemas, strict=True):
            # Few batches ahead, so that memory stays bounded.
            batches = part.to_batches(
                schema=schema, columns=choose.names, batch_size=chunk_rows, batch_readahead=1, fragment_readahead=1
            )
            yield from map(choose.split, _cut(batches, chunk_rows))

    return TableStream(passes, n_rows)


def read_csv(
    path: Paths,
    *,
    target: str | Sequence[str],
    chunk_rows: int = 65536,
    columns: Sequence[str] | None = None,
    sample_weight: str | None = None,
    delimiter: str = ",",
    column_types: Mapping[str, str] | None = None,
) -> TableStream:
    """Return the stream of one or more CSV files with a line of names; its chunks are Arrow tables.

    The beginning of the first file decides of which type each column is. Empty cells are missing, and so are NA, NaN
    and the like, in columns of text too.

    Args:
        path: a file, a list of files, or a folder, whose files are read in the order of their names; compressed ones,
            such as `a.csv.gz`, too.
        target: the column to predict; a list for several outputs.
        chunk_rows: rows of a chunk; the last one of a file has what is left.
        columns: the columns to learn from; by default all but the target and the weight.
        sample_weight: the column of weights, if there is one.
        delimiter: what stands between cells.
        column_types: types by column, as Arrow calls them ("float64", "string", "bool", "date32"), where the
            beginning of the first file is not typical.
    """
    csv = _arrow("read_csv", "pyarrow.csv")
    _check_size(chunk_rows)
    files, _ = _files(path, _CSV)
    given = dict(column_types or {})

    def open_file(file: str, types: Mapping[str, Any]) -> Any:
        try:
            options = csv.ConvertOptions(column_types=types, strings_can_be_null=True)
            return csv.open_csv(file, parse_options=csv.ParseOptions(delimiter=delimiter), convert_options=options)
        except ValueError as error:
            _refuse(file, error)

    with open_file(files[0], given) as reader:
        types = {field.name: field.type for field in reader.schema}
    choose = _Choice(list(types), target, columns, sample_weight)
    unknown = sorted(given.keys() - types.keys())
    if unknown:
        reject("column_types", unknown[0], f"is no column of {files[0]!r}", f"its columns are {list(types)}")

    def passes() -> Iterator[Any]:
        for file in files:
            with open_file(file, types) as reader:
                choose.check(file, reader.schema.names)
                yield from map(choose.split, _cut(_batches(file, reader), chunk_rows))

    return TableStream(passes)


class _Choice:
    """Which columns of a file are what."""

    def __init__(
        self, present: list[str], target: str | Sequence[str], columns: Sequence[str] | None, weight: str | None
    ) -> None:
        self._present = present
        self._targets = [target] if isinstance(target, str) else list(target)
        self._single, self._weight = isinstance(target, str), weight
        weights = [] if weight is None else [weight]
        special = {*self._targets, *weights}
        self._features = [name for name in present if name not in special] if columns is None else list(columns)
        named = {"target": self._targets, "columns": self._features, "sample_weight": weights}
        for argument, names in named.items():
            if not names and argument != "sample_weight":
                reject(argument, names, "names no column", f"choose from {present}")
            missing = [name for name in names if name not in present]
            if missing:
                reject(argument, missing[0], "is no column of the file", f"choose from {present}")
        both = [name for name in self._features if name in special]
        if both:
            reject("columns", both[0], "is the target or the weight", "leave it out of columns")
        self.names = [*self._features, *self._targets, *weights]
        twice = sorted(name for name in set(self.names) if self.names.count(name) > 1)
        if twice:
            reject("columns", twice[0], "is named twice", "name every column once")

    def check(self, file: str, present: list[str]) -> None:
        """Refuse a file with other columns than the first one."""
        missing, extra = set(self._present) - set(present), set(present) - set(self._present)
        if missing or extra:
            problem = f"lacks the column(s) {sorted(missing)}" if missing else f"has the column(s) {sorted(extra)} more"
            reject("path", file, f"{problem}, compared with the first file", "give all files the same columns")

    def split(self, table: Any) -> tuple[Any, ...]:
        """Return a chunk of what is in a table."""
        y = table.column(self._targets[0]) if self._single else table.select(self._targets)
        chunk = (table.select(self._features), y)
        return chunk if self._weight is None else (*chunk, table.column(self._weight))


def _cut(batches: Iterable[Any], chunk_rows: int) -> Iterator[Any]:
    """Give tables of so many rows, made of batches of any size; the last table has what is left."""
    table = importlib.import_module("pyarrow").Table
    held: list[Any] = []
    n_rows = 0
    for batch in batches:
        held.append(batch)
        n_rows += len(batch)
        while n_rows >= chunk_rows:
            joined = table.from_batches(held)
            yield joined.slice(0, chunk_rows)
            n_rows -= chunk_rows
            held = joined.slice(chunk_rows).to_batches() if n_rows else []
    if n_rows:
        yield table.from_batches(held)


def _batches(file: str, reader: Iterable[Any]) -> Iterator[Any]:
    try:
        yield from reader
    except ValueError as error:
        _refuse(file, error)


def _refuse(file: str, error: ValueError, remedy: str = _TYPES) -> NoReturn:
    reject("path", file, f"cannot be read: {str(error).splitlines()[0]}", remedy)


def _files(path: Paths, endings: tuple[str, ...]) -> tuple[list[str], str | None]:
    """Return the files in the order in which they are read, and the folder that holds them if one was named."""
    if isinstance(path, (str, os.PathLike)) and Path(path).is_dir():
        found = [file for file in sorted(Path(path).rglob("*")) if file.is_file() and file.name.endswith(endings)]
        files = [str(file) for file in found if not any(p[0] in "._" for p in file.relative_to(path).parts)]
        if not files:
            reject("path", str(path), "is a folder without such files", f"put files ending in {endings[0]} there")
        return files, str(path)
    files = [os.fspath(path)] if isinstance(path, (str, os.PathLike)) else [os.fspath(each) for each in path]
    if not files:
        reject("path", path, "names no file", "pass a file, a folder or a list of files")
    for file in files:
        if not Path(file).is_file():
            reject("path", file, "is no file", "pass a file, a folder or a list of files")
    return files, None


def _check_size(chunk_rows: int) -> None:
    if chunk_rows < 1:
        reject("chunk_rows", chunk_rows, "must be at least 1", "pass 65536")


def _arrow(name: str, module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError:
        raise MissingExtraError(f'{name}() needs pyarrow; pip install "hardwood[stream]"') from None
