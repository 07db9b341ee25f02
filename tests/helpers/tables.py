"""Random tables of every column type, the frames they may come in, and numbers that are hard to route."""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np

FRAMES = ("pandas", "polars", "pyarrow")
HARD = np.array(
    [0.0, -0.0, 5e-324, -5e-324, 1e-310, 0.1, 1.0, -1.0, 1 + 2**-40, 1 + 2**-52, 3.4028235e38, 3.5e38, 1e300, -1e300,
     np.finfo(np.float64).max, -np.finfo(np.float64).max, np.inf, -np.inf, np.nan]
)  # fmt: skip


def make_frame(kind: str, columns: dict[str, Any]) -> Any:
    """Make a frame of one library from lists of cells."""
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    made = {name: list(cells) for name, cells in columns.items()}
    return {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}[kind](made)


def random_bits(rng: np.random.Generator, size: int) -> np.ndarray:
    """Draw float64 numbers of every size, sign and kind, NaN and infinities among them."""
    bits = rng.integers(0, 2**64, size, np.uint64)
    # Some exponents near 1, where tables are.
    near = rng.random(size) < 0.5
    exponent = rng.integers(1023 - 60, 1023 + 60, size).astype(np.uint64) << np.uint64(52)
    bits = np.where(near, (bits & np.uint64(0x800F_FFFF_FFFF_FFFF)) | exponent, bits)
    return bits.view(np.float64)


def neighbours(x: np.ndarray) -> np.ndarray:
    """Return numbers together with those next to them on both sides."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        return np.concatenate([x, np.nextafter(x, np.inf), np.nextafter(x, -np.inf)])


def random_numbers(rng: np.random.Generator, rows: int) -> np.ndarray:
    """Draw a column of numbers of some random shape: smooth, tied, constant, all missing, or extreme."""
    shape = rng.integers(7)
    if shape == 0:
        x = rng.normal(size=rows)
    elif shape == 1:
        x = rng.integers(0, 4, rows).astype(float)
    elif shape == 2:
        x = np.full(rows, rng.choice([0.0, 3.5, 1e300]))
    elif shape == 3:
        return np.full(rows, np.nan)
    elif shape == 4:
        x = rng.choice(HARD, rows)
    elif shape == 5:
        x = random_bits(rng, rows)
    else:
        x = np.where(rng.random(rows) < 0.6, 0.0, np.exp(10 * rng.normal(size=rows)))
    return np.where(rng.random(rows) < rng.choice([0.0, 0.2]), np.nan, x)


def random_columns(rng: np.random.Generator, rows: int, n_columns: int) -> dict[str, list[Any]]:
    """Draw a table of named columns of every type, as lists of cells with None for a missing one."""
    columns: dict[str, list[Any]] = {}
    for number in range(n_columns):
        kind = rng.choice(["float", "int", "bool", "text", "day", "many", "nothing"])
        hole = rng.random(rows) < rng.choice([0.0, 0.3])
        if kind == "float":
            cells = random_numbers(rng, rows).tolist()
        elif kind == "int":
            cells = rng.integers(-3, 4, rows).tolist()
        elif kind == "bool":
            cells = (rng.random(rows) < 0.3).tolist()
        elif kind == "day":
            cells = [dt.datetime(2020, 1, 1) + dt.timedelta(hours=int(h)) for h in rng.integers(0, 9999, rows)]
        elif kind == "nothing":
            hole[:] = True
            cells = [None] * rows
        else:
            size = int(rng.integers(1, 5)) if kind == "text" else 30
            cells = [f"word {code}" for code in rng.integers(0, size, rows)]
        columns[f"{kind} {number}"] = [None if empty else cell for empty, cell in zip(hole, cells, strict=True)]
    return columns
