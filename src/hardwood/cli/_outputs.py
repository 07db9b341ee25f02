"""Tables and pages out: places are checked before any work is done, and a file appears whole or not at all."""

from __future__ import annotations

import csv
import io
import os
import secrets
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from hardwood.cli._tables import CSV, PARQUET, Table, frame_library
from hardwood.errors import reject


def check_output(path: str, argument: str = "--output", inputs: Sequence[str] = ()) -> None:
    """Refuse a place where no file can be written, or that one of the inputs has."""
    if path == "-":
        return
    if os.path.isdir(path):
        reject(argument, path, "is a folder", "add a file name")
    folder = os.path.dirname(os.path.realpath(path))
    if not os.path.isdir(folder):
        reject(argument, path, f"lies in {folder!r}, which is no folder", "create that folder first")
    if not os.access(folder, os.W_OK | os.X_OK):
        reject(argument, path, f"lies in {folder!r}, which cannot be written to", "pass another folder")
    if any(os.path.exists(given) and os.path.realpath(given) == os.path.realpath(path) for given in inputs):
        reject(argument, path, "is the table that is read", "pass another file name")


def check_table_output(path: str, inputs: Sequence[str] = ()) -> None:
    """Refuse a place for a table, and a suffix that says nothing about its format."""
    check_output(path, inputs=inputs)
    suffix = Path(path).suffix.lower()
    if path != "-" and suffix not in CSV + PARQUET:
        problem = "has neither the suffix .csv (or .tsv) nor .parquet"
        reject("--output", path, problem, "add one, or pass - for CSV to stdout")
    if suffix in PARQUET:
        frame_library()


def write_table(path: str, table: Table, carried: Sequence[str], made: Mapping[str, Sequence[Any]]) -> None:
    """Write some columns of a table as they are, and new ones beside them; "-" is CSV to stdout."""
    if Path(path).suffix.lower() in PARQUET:
        frame = _frame(table, carried, made)
        replace_file(path, lambda place: frame.write_parquet(place))
        return
    columns = {**{name: _texts(table, name) for name in carried}, **made}
    text = io.StringIO(newline="")
    writer = csv.writer(text, delimiter="\t" if path.lower().endswith(".tsv") else ",", lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    write_text(path, text.getvalue())


def write_text(path: str, text: str) -> None:
    """Write a text in UTF-8 to a file, or to stdout for "-"."""
    content = text.encode("utf-8", "surrogatepass")
    if path != "-":
        replace_file(path, lambda place: Path(place).write_bytes(content))
    elif hasattr(sys.stdout, "buffer"):
        sys.stdout.flush()
        sys.stdout.buffer.write(content)
        sys.stdout.flush()
    else:
        sys.stdout.write(text)


def replace_file(path: str, write: Callable[[str], object]) -> None:
    """Let `write` fill a file beside the place, and move it there when it is whole."""
    folder, name = os.path.split(os.path.realpath(path))
    temporary = os.path.join(folder, f".hardwood-{secrets.token_hex(8)}{Path(name).suffix}")
    try:
        write(temporary)
        os.replace(temporary, os.path.join(folder, name))
    finally:
        if os.path.exists(temporary):
            os.unlink(temporary)


def _texts(table: Table, name: str) -> list[str]:
    """Return a column as it stands in a CSV file."""
    if table.cells is not None:
        return list(table.cells[name])
    from hardwood.data._cells import is_missing

    cells = table.frame.get_column(name).to_list()
    return ["" if is_missing(cell) else str(cell) for cell in cells]


def _frame(table: Table, carried: Sequence[str], made: Mapping[str, Sequence[Any]]) -> Any:
    """Return the columns as a narwhals frame; those that are carried over keep their types, or are texts."""
    import narwhals as nw

    columns: dict[str, Any] = {}
    for name in carried:
        if table.cells is not None:
            columns[name] = [cell or None for cell in table.cells[name]]
        else:
            columns[name] = table.frame.get_column(name)
    backend = frame_library()
    made_columns = [nw.new_series(name, list(cells), backend=backend) for name, cells in made.items()]
    kept = [
        cells if isinstance(cells, nw.Series) else nw.new_series(name, cells, nw.String, backend=backend)
        for name, cells in columns.items()
    ]
    return nw.from_dict({series.name: series for series in kept + made_columns}, backend=backend)
