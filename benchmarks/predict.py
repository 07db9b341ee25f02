"""Compare prediction by `Forest` and its exports with XGBoost and LightGBM, on models of equal shape in one run.

    python benchmarks/predict.py            every shape, 100,000 rows; a few minutes
    python benchmarks/predict.py --quick    two shapes, 20,000 rows
    python benchmarks/predict.py --shape "500 trees of depth 6" --out benchmarks/results/predict.csv

XGBoost and LightGBM train the trees. Both models become a `Forest`, whose predictions are compared with theirs, so
every contestant is measured against ours on the very same splits: what runs XGBoost's trees (XGBoost itself, and our
exports to C, ONNX, treelite and scikit-learn) against `Forest` on XGBoost's trees, LightGBM against `Forest` on
LightGBM's. Everything runs in one process, in turns, on as many threads as the process may use (the C export on one):
what else the machine does hits all alike, and the order changes from turn to turn: nobody always finds the rows in the
cache that another has just read. Before each turn threads get a rest, since some libraries let theirs spin for a while
after a call, which would hit the next. A ratio compares medians, or bests; above 1, ours is faster.

The latency of one row is that of a call from Python, overhead included; for C also that of a call from C, where each
row waits for the answer about the row before.
"""

from __future__ import annotations

import argparse
import csv
import platform
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from predict_contestants import Contestant, contestants_of_lightgbm, contestants_of_xgboost, version

from hardwood._numba import available_threads
from hardwood.forest import Forest, forest_of


class Shape(NamedTuple):
    """A shape of model and rows."""

    name: str
    trees: int
    depth: int  # 0: trees grow leaf by leaf to `leaves`
    leaves: int
    columns: int
    missing: float = 0.0


SHAPES = [
    Shape("1 tree of depth 8", 1, 8, 256, 30),
    Shape("100 trees of depth 4", 100, 4, 16, 30),
    Shape("100 trees of depth 6", 100, 6, 64, 30),
    Shape("500 trees of depth 6", 500, 6, 64, 30),
    Shape("500 trees of depth 6, missing", 500, 6, 64, 30, 0.1),
    Shape("200 trees of depth 8", 200, 8, 256, 30),
    Shape("100 trees of depth 10", 100, 10, 1024, 30),
    Shape("200 trees of 127 leaves", 200, 0, 127, 100),
]
QUICK = ("1 tree of depth 8", "100 trees of depth 6")
# Trees grow from so many rows; all rows are predicted.
TRAINED = 30_000
REST = 0.02  # seconds
FIELDS = (
    "shape", "trees", "nodes", "rows", "threads", "trees of", "contestant", "measure", "unit", "best", "median",
    "rows per second", "best / ours", "median / ours", "turns", "versions",
)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="two shapes, a few seconds each")
    parser.add_argument("--shape", action="append", choices=[shape.name for shape in SHAPES], help="only this one")
    parser.add_argument("--rows", type=int, default=None)
    parser.add_argument("--turns", type=int, default=None, help="of batches; a contestant that takes long has fewer")
    parser.add_argument("--out", type=Path, default=None, help="a CSV file; a shape's earlier lines are replaced")
    options = parser.parse_args()
    chosen = options.shape or (QUICK if options.quick else [shape.name for shape in SHAPES])
    rows = options.rows or (20_000 if options.quick else 100_000)
    turns = options.turns or (5 if options.quick else 15)
    for package in ("xgboost", "lightgbm"):
        if version(package) == "unknown":
            sys.exit("This benchmark needs XGBoost and LightGBM: pip install 'hardwood[bench]'")

    threads = available_threads()
    packages = ("numpy", "numba", "xgboost", "lightgbm", "onnxruntime", "treelite", "scikit-learn")
    versions = ", ".join(f"{name} {version(name)}" for name in packages)
    print("python", *sys.argv)
    print(f"{platform.machine()}, {threads} threads, Python {platform.python_version()}, {versions}")
    for shape in SHAPES:
        if shape.name in chosen:
            measure(shape, rows, turns, threads, versions, options.out)


def measure(shape: Shape, rows: int, turns: int, threads: int, versions: str, out: Path | None) -> None:
    """Train both models of a shape, and measure everything that predicts with their trees."""
    X, y = table(shape, rows)
    found: list[dict[str, Any]] = []
    makers = {"XGBoost": (train_xgboost, contestants_of_xgboost), "LightGBM": (train_lightgbm, contestants_of_lightgbm)}
    for maker, (train, contestants_of) in makers.items():
        model = train(shape, X[:TRAINED], y[:TRAINED], threads)
        forest = forest_of(model)
        with tempfile.TemporaryDirectory() as folder:
            contestants = contestants_of(model, forest, threads, Path(folder))
            check(contestants, X[:5000])
            for measured, lines in (("batch", batch(contestants, X, turns)), ("one row", one_row(contestants, X))):
                print(f"\n{shape.name}, trees of {maker}: {forest!r}; {rows:,} float32 rows\n")
                found += report(shape, forest, rows, threads, maker, measured, lines)
    if out is not None:
        write(out, [{**line, "versions": versions} for line in found], shape)


def table(shape: Shape, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw rows, and what the trees learn."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((rows, shape.columns)).astype(np.float32)
    y = X[:, 0] * X[:, 1] + np.sin(3 * X[:, -1]) + rng.standard_normal(rows)
    X[rng.random(X.shape) < shape.missing] = np.nan
    return X, y


def train_xgboost(shape: Shape, X: np.ndarray, y: np.ndarray, threads: int) -> Any:
    import xgboost

    growth = {"max_depth": shape.depth} if shape.depth else {"grow_policy": "lossguide", "max_leaves": shape.leaves}
    return xgboost.XGBRegressor(
        n_estimators=shape.trees, learning_rate=0.1, min_child_weight=0, reg_lambda=0, n_jobs=threads, **growth
    ).fit(X, y)


def train_lightgbm(shape: Shape, X: np.ndarray, y: np.ndarray, threads: int) -> Any:
    import lightgbm

    return lightgbm.LGBMRegressor(
        n_estimators=shape.trees, learning_rate=0.1, num_leaves=shape.leaves, max_depth=shape.depth or -1,
        min_child_samples=1, n_jobs=threads, verbose=-1,
    ).fit(X, y)  # fmt: skip


def check(contestants: list[Contestant], X: np.ndarray) -> None:
    """See that all contestants predict the same before they race."""
    wanted = contestants[0].batch(X)
    for each in contestants:
        np.testing.assert_allclose(each.batch(X), wanted, rtol=1e-3, atol=1e-3, err_msg=each.name)


class Times(NamedTuple):
    """What a contestant took, in seconds a call."""

    name: str
    taken: list[float]
    rows: int  # a call


def batch(contestants: list[Contestant], X: np.ndarray, turns: int) -> list[Times]:
    """Time batches in turns; who takes over a second has three."""
    times = [Times(each.name, [], len(X)) for each in contestants]
    pairs = list(zip(contestants, times, strict=True))
    order = random.Random(0)
    for turn in range(turns + 1):
        order.shuffle(pairs)
        for each, (_, taken, _) in pairs:
            if len(taken) >= 3 and statistics.median(taken) > 1:
                continue
            time.sleep(REST)
            start = time.perf_counter()
            each.batch(X)
            if turn > 0 or time.perf_counter() - start > 1:  # the first turn warms up
                taken.append(time.perf_counter() - start)
    return times


def one_row(contestants: list[Contestant], X: np.ndarray, calls: int = 20, turns: int = 25) -> list[Times]:
    """Time single rows in turns, some calls a turn."""
    able = [each for each in contestants if each.one is not None]
    times = [Times(each.name, [], 1) for each in able]
    ones = [np.ascontiguousarray(X[row : row + 1]) for row in range(calls)]
    pairs = list(zip(able, times, strict=True))
    order = random.Random(0)
    for turn in range(turns + 1):
        order.shuffle(pairs)
        for each, (_, taken, _) in pairs:
            time.sleep(REST)
            start = time.perf_counter()
            for row in ones:
                each.one(row)
            if turn > 0:
                taken.append((time.perf_counter() - start) / calls)
    inside = [each for each in contestants if each.seconds_inside is not None]
    for each in inside:
        taken = [each.seconds_inside(X[:1000], 20_000) for _ in range(turns)]
        times.append(Times(f"{each.name}, called from C", taken, 1))
    return times


def report(
    shape: Shape, forest: Forest, rows: int, threads: int, maker: str, measured: str, times: list[Times]
) -> list[dict[str, Any]]:
    """Print the times of one measure, the first being the yardstick, and return them as lines of the file."""
    unit, scale = ("ms", 1e3) if measured == "batch" else ("us", 1e6)
    ours = min(times[0].taken), statistics.median(times[0].taken)
    heads = f"{'best ' + unit:>12}{'median ' + unit:>12}{'rows per s':>14}{'best / ours':>13}{'median / ours':>15}"
    print(f"{measured:<34}{heads}")
    lines = []
    for name, taken, count in times:
        best, median = min(taken), statistics.median(taken)
        ratios = best / ours[0], median / ours[1]
        numbers = f"{best * scale:>12.3f}{median * scale:>12.3f}{count / median:>14,.0f}"
        print(f"{name:<34}{numbers}{ratios[0]:>13.2f}{ratios[1]:>15.2f}", flush=True)
        values = (
            shape.name, forest.n_trees, forest.node_count, rows, threads, maker, name, measured, unit,
            f"{best * scale:.4g}", f"{median * scale:.4g}", f"{count / median:.4g}",
            *(f"{ratio:.3g}" for ratio in ratios), len(taken),
        )  # fmt: skip
        lines.append(dict(zip(FIELDS, values, strict=False)))
    return lines


def write(out: Path, lines: list[dict[str, Any]], shape: Shape) -> None:
    """Put a shape's lines into the file, in the order of shapes."""
    kept: list[dict[str, Any]] = []
    if out.exists():
        with out.open(newline="", encoding="utf-8") as file:
            kept = [line for line in csv.DictReader(file) if line["shape"] != shape.name]
    order = {each.name: position for position, each in enumerate(SHAPES)}
    with out.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(sorted(kept + lines, key=lambda line: order.get(line["shape"], len(order))))


if __name__ == "__main__":
    main()
