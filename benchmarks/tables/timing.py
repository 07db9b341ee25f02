"""Fitting times of some methods on one set, in one process, in turns: what else the machine does hits all alike."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.tables.cell import split, thread_limit
from benchmarks.tables.methods import Method, Setting
from benchmarks.tables.sets import Entry, load

from hardwood.errors import reject

METHODS = ("gradtree", "hist_gradient_boosting", "grande", "catboost")
WARM_UP_ROWS = 500


def time_fits(
    entry: Entry, methods: Sequence[Method], folder: Path, *, turns: int, threads: int, depth: int
) -> dict[str, list[float]]:
    """Return the seconds that each method takes to fit the training rows of a set, turn by turn.

    Before the turns every method fits a few rows, so that compiling and importing stay out. Turn and seed are the same
    number; the rows are those of seed 0 in every turn.
    """
    if turns < 1:
        reject("turns", turns, "must be at least 1", "pass --turns 3")
    for method in methods:
        if entry.task not in method.tasks:
            reject("methods", method.name, f"cannot do {entry.name}, which is {entry.task}", "leave it out")
    table = load(folder, entry)
    training = split(table.y, entry.task, seed=0).training
    X, y = table.X.iloc[training].reset_index(drop=True), table.y[training]
    seconds: dict[str, list[float]] = {method.name: [] for method in methods}
    for turn in range(-1, turns):
        few = split(y, entry.task, seed=0).training[:WARM_UP_ROWS] if turn < 0 else slice(None)
        rows, targets = X.iloc[few], y[few]
        for method in methods:
            with thread_limit(threads, torch_too="torch" in method.packages):
                model = method.make(Setting(entry.task, max(turn, 0), depth, threads))
                began = time.perf_counter()
                model.fit(rows, targets)
                took = time.perf_counter() - began
            if turn >= 0:
                seconds[method.name].append(took)
    return seconds


def timing_table(seconds: dict[str, list[float]]) -> str:
    """Return a table of the times, and of the ratio of each method's median to that of every other."""
    names = list(seconds)
    width = max(map(len, names)) + 2
    medians = {name: statistics.median(each) for name, each in seconds.items()}
    heads = "".join(f"{f'/ {name}':>{len(name) + 4}}" for name in names)
    lines = [f"{'fit':<{width}}{'best s':>10}{'median s':>10}{'longest s':>11}  {heads}"]
    for name, each in seconds.items():
        ratios = "".join(f"{medians[name] / medians[other]:>{len(other) + 4}.2f}" for other in names)
        lines.append(f"{name:<{width}}{min(each):>10.2f}{medians[name]:>10.2f}{max(each):>11.2f}  {ratios}")
    return "\n".join(lines)
