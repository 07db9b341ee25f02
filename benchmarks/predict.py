"""Compare batch and single-row prediction of `Forest` with XGBoost and scikit-learn on models of equal shape.

    python benchmarks/predict.py            500 trees of depth 6, 100,000 rows of 30 float32 columns
    python benchmarks/predict.py --quick    100 trees, 20,000 rows

XGBoost trains the trees, and the same trees become a `Forest` (the predictions are compared), so both walk the very
same splits. scikit-learn's forest has as many trees of the same depth. Everything runs in one process, in turns: what
else the machine does hits all alike. Each time shown is the best and the median of the turns.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import platform
import statistics
import sys
import time
from collections.abc import Callable

import numpy as np

from hardwood._numba import available_threads
from hardwood.forest import LEAF, THRESHOLD, Forest


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a smaller size that takes a few seconds")
    parser.add_argument("--trees", type=int, default=None)
    parser.add_argument("--depth", type=int, default=6)
    parser.add_argument("--rows", type=int, default=None)
    parser.add_argument("--columns", type=int, default=30)
    parser.add_argument("--missing", type=float, default=0.0, help="share of missing cells")
    parser.add_argument("--turns", type=int, default=None)
    options = parser.parse_args()
    trees = options.trees or (100 if options.quick else 500)
    rows = options.rows or (20_000 if options.quick else 100_000)
    turns = options.turns or (5 if options.quick else 15)
    try:
        import xgboost
    except ImportError:
        sys.exit("This benchmark needs XGBoost: pip install 'hardwood[bench]'")
    from sklearn.ensemble import RandomForestRegressor

    threads = available_threads()
    rng = np.random.default_rng(0)
    X = rng.standard_normal((rows, options.columns)).astype(np.float32)
    y = X[:, 0] * X[:, 1 % options.columns] + np.sin(3 * X[:, -1]) + rng.standard_normal(rows)
    X[rng.random(X.shape) < options.missing] = np.nan

    model = xgboost.XGBRegressor(
        n_estimators=trees, max_depth=options.depth, learning_rate=0.1, min_child_weight=0, reg_lambda=0, n_jobs=threads
    )
    booster = model.fit(X, y).get_booster()
    forest = forest_of(booster, options.columns)
    peer = RandomForestRegressor(trees, max_depth=options.depth, max_features=1, n_jobs=threads, random_state=0)
    peer.fit(X[:5000], y[:5000])
    np.testing.assert_allclose(forest.predict(X), booster.inplace_predict(X), rtol=1e-3, atol=1e-3)

    print("python", *sys.argv)
    packages = ("numpy", "numba", "xgboost", "scikit-learn")
    versions = ", ".join(f"{name} {version(name)}" for name in packages)
    print(f"{platform.machine()}, {threads} threads, Python {platform.python_version()}, {versions}")
    print(f"{forest}; {rows:,} rows of float32, {options.missing:.0%} missing, best and median of {turns} turns\n")

    X64, one = X.astype(np.float64), X[:1].copy()
    table(
        "batch", "ms", 1e3, turns,
        {
            "hardwood predict": lambda: forest.predict(X),
            "hardwood predict, float64 rows": lambda: forest.predict(X64),
            "xgboost inplace_predict": lambda: booster.inplace_predict(X),
            "xgboost predict": lambda: booster.predict(xgboost.DMatrix(X, nthread=threads)),
            "scikit-learn forest predict": lambda: peer.predict(X),
        },
    )  # fmt: skip
    print()
    table(
        "one row", "us", 1e6, turns * 20,
        {
            "hardwood predict": lambda: forest.predict(one),
            "xgboost inplace_predict": lambda: booster.inplace_predict(one),
            "scikit-learn forest predict": lambda: peer.predict(one),
        },
        slowest_turns=turns,
    )  # fmt: skip


def version(package: str) -> str:
    for name in (package, f"{package}-cpu"):
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return "unknown"


def table(
    title: str,
    unit: str,
    scale: float,
    turns: int,
    contestants: dict[str, Callable[[], object]],
    slowest_turns: int = 0,
) -> None:
    """Run all contestants in turns and print the best and the median time of each; the first is the measure."""
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for run in contestants.values():
        run()
    for turn in range(turns):
        for name, run in contestants.items():
            if slowest_turns and turn >= slowest_turns and name.startswith("scikit"):
                continue
            start = time.perf_counter()
            run()
            times[name].append(time.perf_counter() - start)
    first = next(iter(times.values()))
    print(f"{title:<34}{'best ' + unit:>12}{'median ' + unit:>12}{'best / ours':>14}{'median / ours':>15}")
    for name, each in times.items():
        best, median = min(each), statistics.median(each)
        ratios = f"{best / min(first):>14.2f}{median / statistics.median(first):>15.2f}"
        print(f"{name:<34}{best * scale:>12.2f}{median * scale:>12.2f}{ratios}")


def forest_of(booster: object, n_features: int) -> Forest:
    """Read the trees of an XGBoost regressor with one output."""
    learner = json.loads(booster.save_raw("json"))["learner"]  # type: ignore[attr-defined]
    trees = learner["gradient_booster"]["model"]["trees"]
    sizes = [len(tree["left_children"]) for tree in trees]
    start = np.concatenate([[0], np.cumsum(sizes)])
    shift = np.repeat(start[:-1], sizes)

    def joined(name: str) -> np.ndarray:
        return np.concatenate([np.asarray(tree[name]) for tree in trees])

    leaf = joined("left_children") < 0
    condition = joined("split_conditions").astype(np.float32).astype(np.float64)
    base = np.atleast_1d(np.asarray(json.loads(learner["learner_model_param"]["base_score"]), np.float64))
    return Forest(
        tree_start=start,
        kind=np.where(leaf, LEAF, THRESHOLD),
        left=np.where(leaf, -1, joined("left_children") + shift),
        right=np.where(leaf, -1, joined("right_children") + shift),
        feature=np.where(leaf, -1, joined("split_indices")),
        threshold=np.where(leaf, 0.0, condition),
        missing_left=~leaf & (joined("default_left") != 0),
        leaf_values=condition[leaf][:, None],
        n_features=n_features,
        base=base,
    )


if __name__ == "__main__":
    main()
