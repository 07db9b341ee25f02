"""The results: one tidy CSV, a line per cell that was run, which is only ever appended to."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from benchmarks.tables.cell import Record
from benchmarks.tables.scores import METRICS

from hardwood.errors import reject

FIELDS = (
    "set", "method", "depth_limit", "seed", "task", "status", "error", "split", "train_rows", "test_rows", *METRICS,
    "fit_seconds", "predict_seconds", "leaves", "depth", "threads", "versions", "command",
)  # fmt: skip
KEY = ("set", "method", "depth_limit", "seed")


class Store:
    """The results of one file. Of several records with the same set, method, depth limit and seed the last counts."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def records(self) -> list[Record]:
        """Return the record of each cell, in the order in which the cells were first run.

        A line that was being written when the machine stopped is left out.
        """
        if not self._path.is_file():
            return []
        text = self._path.read_bytes().decode()
        whole = text[: text.rfind("\n") + 1]
        lines = list(csv.reader(io.StringIO(whole)))
        if not lines:
            return []
        if tuple(lines[0]) != FIELDS:
            problem = "has other columns than this version of the benchmark writes"
            reject("out", str(self._path), problem, "name another file, or move this one away")
        latest: dict[tuple[str, ...], Record] = {}
        for number, line in enumerate(lines[1:], start=2):
            if len(line) != len(FIELDS):
                reject("out", str(self._path), f"has a broken line {number}", "delete that line")
            record = dict(zip(FIELDS, line, strict=True))
            latest[tuple(record[name] for name in KEY)] = record
        return list(latest.values())

    def statuses(self) -> dict[tuple[str, ...], str]:
        """Return "ok" or "failed" for each cell in the file, by its key."""
        return {tuple(record[name] for name in KEY): record["status"] for record in self.records()}

    def append(self, record: Mapping[str, str]) -> None:
        """Add a record in one write, so that a reader, or another run with the same file, sees all of it or nothing."""
        unknown = set(record) - set(FIELDS)
        if unknown:
            reject("record", sorted(unknown), "has fields that the file has not", f"use some of {', '.join(FIELDS)}")
        self._path.parent.mkdir(parents=True, exist_ok=True)
        line = _line(record.get(name, "") for name in FIELDS)
        file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            size = os.fstat(file).st_size
            if size == 0:
                line = _line(FIELDS) + line
            else:
                self._cut_unfinished(file, size)
            os.write(file, line)
            os.fsync(file)
        finally:
            os.close(file)

    def _cut_unfinished(self, file: int, size: int) -> None:
        """Drop a last line without its end, which a stopped machine left."""
        os.lseek(file, size - 1, os.SEEK_SET)
        if os.read(file, 1) != b"\n":
            whole = self._path.read_bytes()
            os.ftruncate(file, whole.rfind(b"\n") + 1)


def _line(cells: Iterable[str]) -> bytes:
    text = io.StringIO()
    # A line is a record, so no cell may hold a line break.
    csv.writer(text, lineterminator="\n").writerow([" ".join(cell.split()) for cell in cells])
    return text.getvalue().encode()
