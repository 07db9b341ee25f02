"""From records to figures: scores by set and method, means over common sets, wins, and paired differences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from benchmarks.tables.cell import Record
from benchmarks.tables.scores import METRICS

from hardwood.errors import reject

TIE = 1e-9  # scores are stored with nine digits


class Spread(NamedTuple):
    """A mean, the standard deviation of what it is the mean of (NaN for one number), and how many these are."""

    mean: float
    std: float
    n: int

    @property
    def error(self) -> float:
        """The standard error of the mean."""
        return self.std / self.n**0.5


def spread(values: Sequence[float]) -> Spread:
    """Summarise some numbers, at least one."""
    std = float(np.std(values, ddof=1)) if len(values) > 1 else float("nan")
    return Spread(float(np.mean(values)), std, len(values))


class Paired(NamedTuple):
    """How a method differs from an opponent, by set and over all of them; positive is better, whatever the metric."""

    by_set: dict[str, Spread]  # over seeds that both have
    overall: Spread  # over the sets' means
    better: int
    equal: int
    worse: int


@dataclass(frozen=True)
class Grid:
    """One score of some methods on some sets: (set, method) -> seed -> score."""

    metric: str
    sets: tuple[str, ...]
    methods: tuple[str, ...]
    scores: Mapping[tuple[str, str], Mapping[str, float]]

    def cell(self, name: str, method: str) -> Spread | None:
        """Return the spread over seeds; None where there is no score."""
        values = list(self.scores.get((name, method), {}).values())
        return spread(values) if values else None

    @property
    def common_sets(self) -> list[str]:
        """The sets on which all methods have scores of the same seeds: only over these are means compared."""
        kept = []
        for name in self.sets:
            seeds = {frozenset(self.scores.get((name, method), {})) for method in self.methods}
            if len(seeds) == 1 and frozenset() not in seeds:
                kept.append(name)
        return kept

    def overall(self, method: str, sets: Sequence[str]) -> Spread | None:
        """Return the spread of a method's means over some sets that it has scores on."""
        cells = [self.cell(name, method) for name in sets]
        means = [cell.mean for cell in cells if cell is not None]
        return spread(means) if means else None

    def best(self, name: str) -> set[str]:
        """Return the methods with the best mean on a set; several where they tie."""
        sign = 1.0 if METRICS[self.metric].higher_is_better else -1.0
        cells = {method: self.cell(name, method) for method in self.methods}
        means = {method: sign * cell.mean for method, cell in cells.items() if cell is not None}
        return {method for method, mean in means.items() if mean >= max(means.values()) - TIE}

    def wins(self, sets: Sequence[str]) -> Counter[str]:
        """Count the sets on which each method has the best mean; a tie counts for each."""
        return Counter(method for name in sets for method in self.best(name))

    def against(self, method: str, opponent: str) -> Paired | None:
        """Compare a method with another, seed by seed; None where they share no seed of any set."""
        sign = 1.0 if METRICS[self.metric].higher_is_better else -1.0
        by_set = {}
        for name in self.sets:
            ours, theirs = (self.scores.get((name, each), {}) for each in (method, opponent))
            gaps = [sign * (score - theirs[seed]) for seed, score in ours.items() if seed in theirs]
            if gaps:
                by_set[name] = spread(gaps)
        if not by_set:
            return None
        means = [each.mean for each in by_set.values()]
        better, worse = sum(mean > TIE for mean in means), sum(mean < -TIE for mean in means)
        return Paired(by_set, spread(means), better, len(means) - better - worse, worse)


def label_records(records: Sequence[Record]) -> list[Record]:
    """Return the records with a `label`: the method, and its depth limit where the file has several for it."""
    limits: dict[str, set[str]] = {}
    for record in records:
        limits.setdefault(record["method"], set()).add(record["depth_limit"])

    def label(record: Record) -> str:
        method, limit = record["method"], record["depth_limit"]
        return f"{method} (depth {limit})" if len(limits[method]) > 1 else method

    return [record | {"label": label(record)} for record in records]


def make_grid(labelled: Sequence[Record], sets: Sequence[str], methods: Sequence[str], metric: str) -> Grid:
    """Gather one score, or another number of the records, of methods by label on sets."""
    if metric not in METRICS:
        reject("metric", metric, "is not known", f"choose from {', '.join(METRICS)}")
    scores: dict[tuple[str, str], dict[str, float]] = {}
    splits: dict[tuple[str, str], str] = {}
    for record in labelled:
        name, method, seed = record["set"], record["label"], record["seed"]
        if record["status"] != "ok" or name not in sets or method not in methods:
            continue
        if splits.setdefault((name, seed), record["split"]) != record["split"]:
            problem = f"has results on two different splits of {name}, seed {seed}"
            reject("results", method, problem, "delete the older lines of that set and run again")
        if record[metric]:
            scores.setdefault((name, method), {})[seed] = float(record[metric])
    return Grid(metric, tuple(sets), tuple(methods), scores)
