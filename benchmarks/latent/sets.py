"""The sets as the latent trees' paper reads them, and the files that results go to."""

from __future__ import annotations

import csv
import gzip
import os
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import numpy as np

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
RESULTS = Path(__file__).resolve().parents[1] / "results"
SEEDS = (0, 1, 2, 3)
Key = tuple[str, str, int]  # set, method, seed


def load(name: str) -> tuple[Any, np.ndarray]:
    """Read a set: a frame, its categories as ordinal numbers, and class numbers."""
    import pandas as pd

    with (DATA / "INDEX.csv").open(newline="", encoding="utf-8") as file:
        entry = {line["name"]: line for line in csv.DictReader(file)}[name]
    words = [column for column in entry["categorical_columns"].split(";") if column]
    with gzip.open(DATA / f"{name}.csv.gz", "rt") as file:
        frame = pd.read_csv(file, dtype=dict.fromkeys(words, str))
    y = np.unique(frame.pop("target").to_numpy(), return_inverse=True)[1]
    for column in words:
        # A blank is one more category.
        frame[column] = np.unique(frame[column].fillna("").to_numpy(str), return_inverse=True)[1].astype(float)
    return frame, y


def stored(path: Path) -> set[Key]:
    """Return the keys of the lines that are there."""
    if not path.is_file():
        return set()
    with path.open(newline="", encoding="utf-8") as file:
        return {(line["set"], line["method"], int(line["seed"])) for line in csv.DictReader(file)}


def store(path: Path, line: dict[str, Any]) -> None:
    """Append a line."""
    path.parent.mkdir(exist_ok=True, parents=True)
    new = not path.is_file()
    with path.open("a", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(line))
        if new:
            writer.writeheader()
        writer.writerow(line)
    print(line, flush=True)


def _quiet() -> None:
    """Make a worker use one thread."""
    import torch

    os.environ["OMP_NUM_THREADS"] = "1"
    torch.set_num_threads(1)


def compute(
    path: Path, keys: Iterable[Key], line: Callable[..., dict[str, Any]], workers: int, *arguments: Any
) -> None:
    """Compute `line(*key, *arguments)` for each key that has no line yet, and store them as they come."""
    done = stored(path)
    missing = [key for key in keys if key not in done]
    if workers == 1:
        for key in missing:
            store(path, line(*key, *arguments))
        return
    import multiprocessing

    # A process that is forked beside torch's threads can hang.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=context, initializer=_quiet) as pool:
        for each in as_completed([pool.submit(line, *key, *arguments) for key in missing]):
            store(path, each.result())
