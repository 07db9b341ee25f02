"""What the papers printed, from papers.csv and get_paper.csv, to stand beside our figures."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Literal, NamedTuple

Parameters = Literal["default", "tuned"]
FIGURES = {"macro_f1": Path(__file__).with_name("papers.csv"), "r2": Path(__file__).with_name("get_paper.csv")}


class Figure(NamedTuple):
    """A mean and a standard deviation of a test score as printed."""

    mean: float
    std: float  # NaN where none is printed
    table: str  # the table's number in the thesis, or the paper


class Source(NamedTuple):
    """What names a figure, beside its set and the paper whose benchmark it belongs to."""

    method: str  # the papers' word for it
    parameters: Parameters


@lru_cache(maxsize=1)
def _all_figures(metric: str) -> dict[tuple[str, str, Source], Figure]:
    with FIGURES[metric].open(newline="", encoding="utf-8") as file:
        lines = list(csv.DictReader(line for line in file if not line.startswith("#")))
    figures: dict[tuple[str, str, Source], Figure] = {}
    for line in lines:
        parameters: Parameters = "tuned" if line["parameters"] == "tuned" else "default"
        key = line["set"], line["paper"], Source(line["method"], parameters)
        assert key not in figures, f"papers.csv has two figures for {key}"
        figures[key] = Figure(float(line["mean"]), float(line["std"] or "nan"), line["table"])
    return figures


def figures_of(
    source: Source, sets: Sequence[str], papers: Sequence[str], metric: str = "macro_f1"
) -> dict[str, Figure]:
    """Return the figures of a method by set, for the sets that have one; the first paper that has it counts."""
    known = _all_figures(metric)
    found = {}
    for name in sets:
        for paper in papers:
            if (name, paper, source) in known:
                found[name] = known[name, paper, source]
                break
    return found
