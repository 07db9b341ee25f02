"""GET's tables 3 and 9: training and test R2 at fixed depths, with parts of the method taken away.

    python benchmarks/get_ablation.py run --sets airfoil_self_noise space_ga --depths 2 4 8
    python benchmarks/get_ablation.py render

Rows are split 75/25 by seed, as in the paper's appendix H.1. "factor 1" and "factor 100" train at one factor (for as
many epochs as all others together), "iterative" at rising ones, "polished" with Algorithm 2 after that; "softmin" is
"polished" on the ReLU+Argmin relaxation, "shrunken" is "polished" with leaves drawn to the nodes above. All have the
same starts and epochs. Finished cells stand in the file and are not run again.
"""

from __future__ import annotations

import argparse
import csv
import time
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.tables.cell import GET_TEST_FRACTION
from benchmarks.tables.sets import DATA, SUITES, choose, load, read_index

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
TWICE = {"epochs": 60, "min_steps": 1000}
METHODS: dict[str, dict[str, Any] | None] = {
    "cart": None,
    "factor 1": {"scale_factors": ((1, 1),), "polish": False, **TWICE},
    "factor 100": {"scale_factors": ((100, 100),), "polish": False, **TWICE},
    "iterative": {"polish": False, "epochs": 30, "min_steps": 500},
    "polished": {"polish": True, "epochs": 30, "min_steps": 500},
    "softmin": {"polish": True, "epochs": 30, "min_steps": 500, "relaxation": "softmin"},
    "shrunken": {"polish": True, "epochs": 30, "min_steps": 500, "leaf_shrinkage": 20.0},
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
        model = GetRegressor(depth, random_state=seed, keep=0.5, n_starts=4, **{"leaf_shrinkage": 0.0, **options})
    began = time.perf_counter()
    model.fit(x[training], y[training])
    seconds = time.perf_counter() - began
    return model.score(x[training], y[training]), model.score(x[test], y[test]), seconds


def run(given: argparse.Namespace) -> None:
    import pandas as pd

    known = set()
    if given.out.is_file():
        with given.out.open(newline="", encoding="utf-8") as file:
            known = {tuple(line[name] for name in FIELDS[:4]) for line in csv.DictReader(file)}
    else:
        given.out.parent.mkdir(exist_ok=True)
        given.out.write_text(",".join(FIELDS) + "\n", encoding="utf-8")
    index = read_index(given.data)
    entries = choose(index, ["get-regression"] if not given.sets else [], given.sets)
    began = time.perf_counter()
    for depth in given.depths:
        for entry in entries:
            for seed in range(given.seeds):
                for method in given.methods:
                    key = (entry.name, method, str(depth), str(seed))
                    if key in known or (given.minutes and time.perf_counter() - began > 60 * given.minutes):
                        continue
                    table = load(given.data, entry)
                    x = pd.get_dummies(table.X).to_numpy(np.float64)
                    scores = run_cell(x, table.y, method, depth, seed)
                    with given.out.open("a", newline="", encoding="utf-8") as file:
                        csv.writer(file, lineterminator="\n").writerow([*key, *(f"{each:.5g}" for each in scores)])
                    print(*key, *(f"{each:.4g}" for each in scores), flush=True)


def render(given: argparse.Namespace) -> None:
    with given.out.open(newline="", encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    depths = sorted({int(line["depth"]) for line in lines})
    print(f"# Parts of GET ({SUITES['get-regression'].title}; mean R2 in per cent)\n")
    heads = [f"depth {depth}: {what}" for depth in depths for what in ("training", "paper", "test")]
    print("| method | " + " | ".join(heads) + " |\n|---" * 1 + "|---:" * len(heads) + "|")
    for method in METHODS:
        cells = []
        for depth in depths:
            at = [line for line in lines if int(line["depth"]) == depth]
            by_method = {name: {(r["set"], r["seed"]): r for r in at if r["method"] == name} for name in METHODS}
            common = set.intersection(*(set(each) for each in by_method.values() if each))
            own = [by_method[method][key] for key in sorted(common) if key in by_method[method]]
            printed = f"{PAPER[method][DEPTHS.index(depth)]:.2f}" if method in PAPER and depth in DEPTHS else "–"
            for name, text in (("train_r2", None), ("", printed), ("test_r2", None)):
                value = f"{100 * np.mean([float(line[name]) for line in own]):.2f}" if own and name else "–"
                cells.append(value if text is None else text)
        print(f"| {method} | " + " | ".join(cells) + " |")
    counts = {depth: len({line["set"] for line in lines if int(line["depth"]) == depth}) for depth in depths}
    print(f"\nSets by depth: {counts}. The paper's means are over 16 sets. Cells that all methods have are averaged.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    actions = parser.add_subparsers(required=True)
    runner = actions.add_parser("run")
    runner.add_argument("--sets", nargs="+", default=[])
    runner.add_argument("--depths", type=int, nargs="+", default=list(DEPTHS))
    runner.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    runner.add_argument("--seeds", type=int, default=1)
    runner.add_argument("--minutes", type=float, default=0.0, help="begin no cell after this time; 0: no limit")
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
