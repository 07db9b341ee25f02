"""What the papers printed, from papers.csv, to stand beside our figures."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Literal, NamedTuple

Parameters = Literal["default", "tuned"]
FIGURES = Path(__file__).with_name("papers.csv")


class Figure(NamedTuple):
    """A mean and a standard deviation of test macro F1 as printed."""

    mean: float
    std: float
    table: str  # the table's number in the thesis


class Source(NamedTuple):
    """What names a figure, beside its set and the paper whose benchmark it belongs to."""

    method: str  # the papers' word for it
    parameters: Parameters


@lru_cache(maxsize=1)
def _all_figures() -> dict[tuple[str, str, Source], Figure]:
    with FIGURES.open(newline="", encoding="utf-8") as file:
        lines = list(csv.DictReader(line for line in file if not line.startswith("#")))
    figures: dict[tuple[str, str, Source], Figure] = {}
    for line in lines:
        parameters: Parameters = "tuned" if line["parameters"] == "tuned" else "default"
        key = line["set"], line["paper"], Source(line["method"], parameters)
        assert key not in figures, f"papers.csv has two figures for {key}"
        figures[key] = Figure(float(line["mean"]), float(line["std"]), line["table"])
    return figures


def figures_of(source: Source, sets: Sequence[str], papers: Sequence[str]) -> dict[str, Figure]:
    """Return the figures of a method by set, for the sets that have one; the first paper that has it counts."""
    known = _all_figures()
    found = {}
    for name in sets:
        for paper in papers:
            if (name, paper, source) in known:
                found[name] = known[name, paper, source]
                break
    return found
