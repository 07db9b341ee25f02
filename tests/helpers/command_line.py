"""Running commands in this process, and small tables with every kind of column."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import hardwood
from hardwood.cli import main

CLASSES = ("--target", "answer", "--drop", "id", "--drop", "price", "--drop", "weight", "--categorical", "zip")
NUMBERS = ("--target", "price", "--drop", "id", "--drop", "answer", "--weight", "weight", "--categorical", "zip")
TINY = ("--max-iter", "6", "--max-depth", "3", "--quiet")


@dataclass(frozen=True)
class Result:
    """What a command did."""

    code: int
    out: str
    err: str


def run_command(*arguments: Any, stdin: str | None = None) -> Result:
    """Run a command in this process."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="") for _ in range(2))
    before = sys.stdin
    if stdin is not None:
        sys.stdin = io.TextIOWrapper(io.BytesIO(stdin.encode()), encoding="utf-8")
    try:
        with redirect_stdout(out), redirect_stderr(err):
            code = main([str(argument) for argument in arguments])
    finally:
        sys.stdin = before
    texts = []
    for stream in (out, err):
        stream.flush()
        texts.append(stream.buffer.getvalue().decode())  # type: ignore[attr-defined]
    return Result(code, *texts)


def write_csv(path: Path, names: Sequence[str], rows: Sequence[Sequence[Any]]) -> Path:
    """Write rows as CSV, None as an empty cell."""
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([names, *[["" if cell is None else cell for cell in row] for row in rows]])
    return path


NAMES = ("id", "amount", "count", "zip", "colour", "city", "day", "member", "nothing", "answer", "price", "weight")


def make_rows(n: int, seed: int) -> list[list[Any]]:
    """Return rows with every kind of column, holes in most of them, and two targets that depend on some."""
    rng = np.random.default_rng(seed)
    rows: list[list[Any]] = []
    for number in range(n):
        amount, count = round(float(rng.normal()), 6), int(rng.integers(0, 30))
        code, colour = str(rng.choice(["007", "7", "0123", "99"])), str(rng.choice(["red", "green", 'sky, "blue"']))
        city = f"city {rng.integers(0, 25)}"
        day = str(np.datetime64("2021-01-01") + int(rng.integers(0, 900)))
        member = str(bool(rng.integers(0, 2)))
        total = amount + 2 * (code == "007") + (member == "True") + (day > "2022-03-01")
        cells: list[Any] = [amount, count, code, colour, city, day, member]
        cells = [None if rng.random() < 0.08 else cell for cell in cells]
        answer = "yes" if total > 1.5 else "no" if total > 0 else "NA"
        rows.append([f"{number:05}", *cells, None, answer, round(total * 10, 3), int(rng.integers(1, 4))])
    return rows


def load(model: Path) -> hardwood.Forest:
    """Return the forest of a model's folder, as a user of Python does."""
    return hardwood.load(model / "forest.safetensors")
