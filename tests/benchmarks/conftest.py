"""Tiny sets in a folder with an index, and the way to the benchmarks, which lie beside the package."""

from __future__ import annotations

import csv
import gzip
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

sys.path.append(str(Path(__file__).resolve().parents[2]))

HEAD = [
    "name",
    "task",
    "rows",
    "features",
    "categorical_columns",
    "classes",
    "missing_values",
    "paper",
    "source_repo",
    "note",
]


def write_set(folder: Path, name: str, task: str, columns: dict[str, list], **more: str) -> None:
    """Write a set, its column "target" among the columns, and add it to the folder's index."""
    rows = len(columns["target"])
    with gzip.open(folder / f"{name}.csv.gz", "wt", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([list(columns), *zip(*columns.values(), strict=True)])
    path = folder / "INDEX.csv"
    line = dict.fromkeys(HEAD, "") | {"name": name, "task": task, "rows": str(rows)} | more
    with path.open("a", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, HEAD)
        if path.stat().st_size == 0:
            writer.writeheader()
        writer.writerow(line)


@pytest.fixture
def add_set() -> Callable[..., None]:
    """Give tests `write_set`, since they cannot import a conftest."""
    return write_set


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Make three sets: two classes, three classes of which one has a single row, and numbers to predict."""
    made = tmp_path / "data"
    made.mkdir()
    rng = np.random.default_rng(0)
    rows = 80
    number = rng.normal(size=rows).round(3)
    few = rng.integers(0, 3, rows)
    many = rng.integers(0, 14, rows)
    columns = {
        "number": ["" if hole else cell for cell, hole in zip(number, rng.random(rows) < 0.1, strict=True)],
        "few": ["" if hole else f"word {cell}" for cell, hole in zip(few, rng.random(rows) < 0.1, strict=True)],
        "many: [codes]": many.tolist(),
        "empty": [""] * rows,
    }
    signal = number + (few == 1) + 0.1 * rng.normal(size=rows)
    more = {"categorical_columns": "few;many: [codes];empty"}
    labels = np.where(signal > 0, "yes", "no").tolist()
    write_set(made, "titanic", "binary", columns | {"target": labels}, paper="gradtree", **more)
    ranks = np.digitize(signal, [-0.5, 0.5])
    ranks[7] = 3
    classes = columns | {"target": ranks.tolist()}
    write_set(made, "glass", "multiclass", classes, paper="gradtree;latent", note="DEVIATION: made up", **more)
    write_set(made, "numbers", "regression", columns | {"target": signal.tolist()}, paper="get", **more)
    return made
