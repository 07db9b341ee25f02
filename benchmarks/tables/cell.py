"""One cell of the benchmark: one method on one split of one set, from the table to a record of its scores."""

from __future__ import annotations

import contextlib
import hashlib
import platform
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from benchmarks.tables.methods import Method, Setting, find_methods
from benchmarks.tables.scores import classification_scores, regression_scores
from benchmarks.tables.sets import Entry, Task, load

from hardwood.data import split_rows

TEST_FRACTION = 0.2
# GET's paper holds a quarter back (its appendix H.1).
GET_TEST_FRACTION = 0.25

Record = dict[str, str]


class Cell(NamedTuple):
    """What is to be run. `depth` is None for a method that has no limit to set."""

    entry: Entry
    method: str
    seed: int
    depth: int | None

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What names the cell in the store."""
        return self.entry.name, self.method, "" if self.depth is None else str(self.depth), str(self.seed)


class Split(NamedTuple):
    """Numbers of training and test rows, and a short fingerprint of the latter."""

    training: np.ndarray
    test: np.ndarray
    fingerprint: str


def test_fraction(entry: Entry) -> float:
    """Return the share of a set's rows that is for the score."""
    return GET_TEST_FRACTION if "get" in entry.papers else TEST_FRACTION


def split(y: np.ndarray, task: Task, seed: int, fraction: float = TEST_FRACTION) -> Split:
    """Split rows by seed, by default 80/20, the same for every method, classes in proportion.

    Each class keeps a row for training, so a class of one row is only there.
    """
    training, test = split_rows(len(y), fraction, seed, None if task == "regression" else y)
    fingerprint = hashlib.blake2b(test.astype("<i8").tobytes(), digest_size=4).hexdigest()
    return Split(training, test, fingerprint)


def run_cell(cell: Cell, folder: Path, threads: int) -> Record:
    """Run a cell and return its record; whatever the method raises becomes a record of the failure."""
    record = beginning(cell, threads)
    try:
        (method,) = find_methods([cell.method])
        record |= {"versions": _versions(method)} | _run(cell, method, folder, threads)
    except Exception as error:
        return record | failure(f"{type(error).__name__}: {error}")
    return record | {"status": "ok"}


def beginning(cell: Cell, threads: int) -> Record:
    """Return what is known of a cell before it runs."""
    name, method, depth, seed = cell.key
    task = cell.entry.task
    return {"set": name, "method": method, "depth_limit": depth, "seed": seed, "task": task, "threads": str(threads)}


def failure(error: str) -> Record:
    """Return how a failed cell ends: with its error on one line, and not too long."""
    return {"status": "failed", "error": " ".join(error.split())[:300]}


def _run(cell: Cell, method: Method, folder: Path, threads: int) -> Record:
    table = load(folder, cell.entry)
    parts = split(table.y, cell.entry.task, cell.seed, test_fraction(cell.entry))
    X, X_test = (table.X.iloc[rows].reset_index(drop=True) for rows in (parts.training, parts.test))
    y, y_test = table.y[parts.training], table.y[parts.test]
    with thread_limit(threads, torch_too="torch" in method.packages):
        model = method.make(Setting(cell.entry.task, cell.seed, cell.depth or 0, threads))
        began = time.perf_counter()
        model.fit(X, y)
        fitted = time.perf_counter()
        predicted = model.predict(X_test)
        done = time.perf_counter()
        if table.classes is None:
            scores = regression_scores(y_test, _checked(predicted, (len(y_test),)))
        else:
            probabilities = _checked(model.predict_proba(X_test), (len(y_test), len(table.classes)))
            scores = classification_scores(y_test, _checked(predicted, (len(y_test),)), probabilities)
    size = model.size()
    numbers = scores | {"fit_seconds": fitted - began, "predict_seconds": done - fitted}
    return {
        "split": parts.fingerprint,
        "train_rows": str(len(y)),
        "test_rows": str(len(y_test)),
        "leaves": "" if size is None else str(size.leaves),
        "depth": "" if size is None else str(size.depth),
        # A score that is not defined, such as the ROC AUC of one class, stays empty.
        **{name: f"{value:.9g}" if np.isfinite(value) else "" for name, value in numbers.items()},
    }


def _checked(prediction: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    if prediction.shape != shape:
        raise ValueError(f"the method predicts an array of shape {prediction.shape}, not {shape}")
    if not np.isfinite(prediction).all():
        raise ValueError("the method predicts numbers that are not finite")
    return prediction


@contextlib.contextmanager
def thread_limit(threads: int, torch_too: bool) -> Iterator[None]:
    """Let BLAS, OpenMP and, where it is used, torch have so many threads; put the old limits back afterwards."""
    from threadpoolctl import threadpool_limits

    with contextlib.ExitStack() as limits:
        if torch_too:
            import torch

            limits.callback(torch.set_num_threads, torch.get_num_threads())
            torch.set_num_threads(threads)
        limits.enter_context(threadpool_limits(threads))
        yield


def _versions(method: Method) -> str:
    return f"python {platform.python_version()}; numpy {np.__version__}; {method.versions()}"
