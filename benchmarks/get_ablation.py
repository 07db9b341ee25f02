"""GET's tables 3 and 9: training and test R2 at fixed depths, with parts of the method taken away.

    python benchmarks/get_ablation.py run --sets airfoil_self_noise space_ga --depths 2 4 8
    python benchmarks/get_ablation.py render

Rows are split 75/25 by seed, as in the paper's appendix H.1. The first methods are the paper's: "factor 1" and
"factor 100" train at one factor (for as many epochs as all others together), "iterative" at rising ones, "polished"
with Algorithm 2 after that. "balanced" is "polished" on balanced columns, "softmin" that on the ReLU+Argmin
relaxation. "ours" are the defaults (without shrinkage), and what follows are ways to keep a deep tree from overfitting:
an L1 penalty, polish stopped early, leaves drawn to the nodes above, each chosen on held-out rows, and a teacher.
Finished cells stand in the file and are not run again.
"""

from __future__ import annotations

import argparse
import csv
import math
import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.tables.cell import GET_TEST_FRACTION
from benchmarks.tables.sets import DATA, SUITES, Entry, choose, load, read_index

from hardwood import GetRegressor
from hardwood.data import split_rows

OUT = Path(__file__).resolve().parent / "results" / "get_ablation.csv"
FIELDS = ("set", "method", "depth", "seed", "train_r2", "test_r2", "seconds")
# Table 9's training R2, mean over 16 sets, at depths 2, 4, 8, 12; CART's from table 3.
PAPER = {
    "cart": (47.26, 60.90, 81.33, 93.43),
    "factor 1": (55.23, 65.38, 81.91, 93.42),
    "factor 100": (68.48, 77.22, 87.09, 94.11),
    "iterative": (70.86, 80.30, 89.45, 95.16),
    "polished": (71.80, 82.40, 91.02, 96.09),
}
DEPTHS = (2, 4, 8, 12)
# The paper's method: sigmoid, random starts, columns from 0 to 1; "factor ..." has the epochs of both factors.
_PAPER: dict[str, Any] = {
    "relaxation": "sigmoid", "scaling": "range", "n_starts": 4, "n_greedy": 0, "epochs": 60, "min_steps": 1500,
    "scale_factors": ((5, 25), (50, 150)), "keep": 0.5, "leaf_shrinkage": 0.0,
}  # fmt: skip
_TWICE = {"epochs": 120, "min_steps": 3000, "polish": False}
METHODS: dict[str, dict[str, Any] | None] = {
    "cart": None,
    "factor 1": {**_PAPER, **_TWICE, "scale_factors": ((1, 1),)},
    "factor 100": {**_PAPER, **_TWICE, "scale_factors": ((100, 100),)},
    "iterative": {**_PAPER, "polish": False},
    "polished": {**_PAPER, "polish": True},
    "balanced": {**_PAPER, "polish": True, "scaling": "balance"},
    "softmin": {**_PAPER, "polish": True, "scaling": "balance", "relaxation": "softmin"},
    "ours": {"polish": True, "leaf_shrinkage": 0.0},
    "ours, L1": {"polish": True, "leaf_shrinkage": 0.0, "l1": "auto"},
    "ours, early stop": {"polish": "auto", "leaf_shrinkage": 0.0},
    "ours, shrunken": {"polish": True, "leaf_shrinkage": "auto"},
    "ours, all three": {"polish": "auto", "leaf_shrinkage": "auto", "l1": "auto"},
    "ours, taught": {"polish": "auto", "leaf_shrinkage": "auto", "teacher": "ensemble"},
}


def run_cell(x: np.ndarray, y: np.ndarray, method: str, depth: int, seed: int) -> tuple[float, float, float]:
    """Return training and test R2, and the seconds of the fit."""
    from sklearn.tree import DecisionTreeRegressor

    training, test = split_rows(len(y), GET_TEST_FRACTION, seed)
    options = METHODS[method]
    model: Any
    if options is None:
        model = DecisionTreeRegressor(max_depth=depth, random_state=seed)
    else:
        model = GetRegressor(depth, random_state=seed, **options)
    began = time.perf_counter()
    model.fit(x[training], y[training])
    seconds = time.perf_counter() - began
    return model.score(x[training], y[training]), model.score(x[test], y[test]), seconds


def _cell(data: Path, entry: Entry, method: str, depth: int, seed: int, deadline: float) -> tuple[float, ...] | None:
    import pandas as pd
    import torch

    if time.time() > deadline:
        return None
    torch.set_num_threads(1)
    table = load(data, entry)
    return run_cell(pd.get_dummies(table.X).to_numpy(np.float64), table.y, method, depth, seed)


def run(given: argparse.Namespace) -> None:
    known = set()
    if given.out.is_file():
        with given.out.open(newline="", encoding="utf-8") as file:
            known = {tuple(line[name] for name in FIELDS[:4]) for line in csv.DictReader(file)}
    else:
        given.out.parent.mkdir(exist_ok=True)
        given.out.write_text(",".join(FIELDS) + "\n", encoding="utf-8")
    entries = choose(read_index(given.data), ["get-regression"] if not given.sets else [], given.sets)
    deadline = time.time() + 60 * given.minutes if given.minutes else math.inf
    cells = [
        (entry, method, depth, seed)
        for seed in range(given.seeds)
        for entry in entries
        for depth in given.depths
        for method in given.methods
        if depth >= 8 or not method.startswith("ours, ")  # shallow trees do not overfit
        if (entry.name, method, str(depth), str(seed)) not in known
    ]
    with ProcessPoolExecutor(given.jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        running = {pool.submit(_cell, given.data, *cell, deadline): cell for cell in cells}
        for done in as_completed(running):
            entry, method, depth, seed = running[done]
            scores = done.result()
            if scores is None:
                continue
            line = [entry.name, method, depth, seed, *(f"{each:.5g}" for each in scores)]
            with given.out.open("a", newline="", encoding="utf-8") as file:
                csv.writer(file, lineterminator="\n").writerow(line)
            print(*line, flush=True)


def render(given: argparse.Namespace) -> None:
    with given.out.open(newline="", encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    page = [
        f"# Parts of GET on {SUITES['get-regression'].title}\n",
        "Mean R² in per cent over the sets, named below a table, that all of its methods have run. “paper's” is",
        "the paper's training R² (tables 3 and 9), on its 16 sets.",
        "`python benchmarks/get_ablation.py --help` says what the methods are.",
    ]
    groups = {
        "The paper's parts": list(PAPER),
        "Our columns, relaxation and starts": ["polished", "balanced", "softmin", "ours"],
    }
    for title, methods in groups.items():
        page += [f"\n## {title}", *_tables(lines, methods)]
    page += ["\n## Against overfitting\n", *_pairs(lines)]
    target = given.out.with_suffix(".md")
    target.write_text("\n".join(page) + "\n", encoding="utf-8")
    print(target.name)


def _pairs(lines: list[dict[str, str]]) -> list[str]:
    """Return a table of each way against overfitting beside none, on the sets that both have run."""
    page = ["| depth | way | sets | test without | test with |", "| ---: | --- | --- | ---: | ---: |"]
    by_cell = {(r["method"], r["depth"], r["set"], r["seed"]): float(r["test_r2"]) for r in lines}
    for depth in DEPTHS:
        for method in METHODS:
            own = {key[2:]: r2 for key, r2 in by_cell.items() if key[:2] == (method, str(depth))}
            plain = {where: by_cell.get(("ours", str(depth), *where)) for where in own}
            common = sorted(where for where, r2 in plain.items() if r2 is not None)
            if not method.startswith("ours, ") or not common:
                continue
            before = 100 * np.mean([by_cell["ours", str(depth), *where] for where in common])
            after = 100 * np.mean([own[where] for where in common])
            names = ", ".join(dict.fromkeys(name for name, _ in common))
            page.append(f"| {depth} | {method.removeprefix('ours, ')} | {names} | {before:.2f} | {after:.2f} |")
    return page


def _tables(lines: list[dict[str, str]], methods: list[str]) -> list[str]:
    """Return a table for each depth."""
    page = []
    for depth in DEPTHS:
        by_method = {
            name: {(r["set"], r["seed"]): r for r in lines if r["method"] == name and r["depth"] == str(depth)}
            for name in methods
        }
        by_method = {name: found for name, found in by_method.items() if found}
        common = sorted(set.intersection(*map(set, by_method.values()))) if len(by_method) > 1 else []
        if not common:
            continue
        page.append(f"\n| depth {depth} | training | paper's | test |\n| --- | ---: | ---: | ---: |")
        for method, found in by_method.items():
            training, test = (
                f"{100 * np.mean([float(found[key][name]) for key in common]):.2f}" for name in ("train_r2", "test_r2")
            )
            printed = f"{PAPER[method][DEPTHS.index(depth)]:.2f}" if method in PAPER else "–"
            page.append(f"| {method} | {training} | {printed} | {test} |")
        page.append(f"\n{', '.join(dict.fromkeys(name for name, _ in common))}.")
    return page


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    actions = parser.add_subparsers(required=True)
    runner = actions.add_parser("run")
    runner.add_argument("--sets", nargs="+", default=[])
    runner.add_argument("--depths", type=int, nargs="+", default=list(DEPTHS))
    runner.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    runner.add_argument("--seeds", type=int, default=1)
    runner.add_argument("--minutes", type=float, default=0.0, help="begin no cell after this time; 0: no limit")
    runner.add_argument("--jobs", type=int, default=1, help="processes")
    runner.add_argument("--data", type=Path, default=DATA)
    runner.set_defaults(action=run)
    shower = actions.add_parser("render")
    shower.set_defaults(action=render)
    for each in (runner, shower):
        each.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args()
    given.action(given)


if __name__ == "__main__":
    main()
