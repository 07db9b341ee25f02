"""GET's search against a plain torch implementation of the paper's Algorithm 1, at equal hard training loss.

    python benchmarks/get.py                                 # airfoil_self_noise, depths 4 and 8, 3,000 epochs
    python benchmarks/get.py --set elevators --epochs 300    # a larger table, fewer epochs for the plain one
    python benchmarks/get.py --quick                         # drawn rows, few epochs
    python benchmarks/get.py --fit ailerons --depths 12 --device cuda
    python benchmarks/get.py --out benchmarks/results/get.md # add what is printed to a page

The opponent, `plain_algorithm_1` below, is the paper's text line by line: every leaf for every row in each epoch, all
rows at once, Adam with cosine warm restarts from 0.01, two factors from [5, 25] and [50, 150], leaves from hard
splits, columns from 0 to 1. It gets one start; so does ours: "same" is ours on the same columns, relaxation and kind of
start, without polish; "default" is what `GetRegressor` does by default, with one start. Ours is run with more and more
epochs until its hard loss on the training rows is no higher than the plain one's at its end, and the time of that run
counts, without the shorter ones before it. All times are without compilation. Then, prediction: the tree's `Forest`
against a random forest of 300 trees. `--fit` times whole fits at fixed depths instead.
"""

from __future__ import annotations

import argparse
import math
import shlex
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from benchmarks.tables.sets import DATA, load, read_index

from hardwood import GetRegressor
from hardwood.estimators._get_parameters import PRESETS
from hardwood.oblique import GetSettings, Run, Task, search
from hardwood.oblique._lower import Scaler

FACTORS = ((5.0, 25.0), (50.0, 150.0))
BUDGETS = (2, 4, 8, 15, 30, 60, 120, 250, 500, 1000, 2000)


def plain_algorithm_1(x: torch.Tensor, y: torch.Tensor, depth: int, epochs: int, seed: int) -> float:
    """Return the lowest hard training loss of one start."""
    generator = torch.Generator().manual_seed(seed)
    n_nodes, n_leaves = 2**depth - 1, 2**depth
    A = torch.randn(n_nodes, x.shape[1], generator=generator)
    b = torch.zeros(n_nodes)
    h = torch.zeros(n_leaves)
    # The ancestors of each leaf, and whether it lies to their left.
    ancestors = torch.zeros(n_leaves, depth, dtype=torch.long)
    to_left = torch.zeros(n_leaves, depth, dtype=torch.bool)
    for leaf in range(n_leaves):
        node = n_nodes + leaf
        for level in reversed(range(depth)):
            parent = (node - 1) // 2
            ancestors[leaf, level], to_left[leaf, level] = parent, node == 2 * parent + 1
            node = parent
    # Hyperplanes begin in the middle of all rows; at 0 most would have every row on one side.
    b[:] = (x.mean(0) * A).sum(1)
    best = math.inf
    factors = [low + (high - low) * float(torch.rand(1, generator=generator)) for low, high in FACTORS]
    for alpha in sorted(factors):
        parameters = [p.requires_grad_() for p in (A, b, h)]
        optimizer = torch.optim.Adam(parameters, lr=0.01)
        schedule = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, max(1, epochs // 3))
        for _ in range(epochs):
            optimizer.zero_grad()
            passes = torch.sigmoid(alpha * (b - x @ A.T))  # equation 4
            P = torch.ones(len(x), n_leaves)
            for level in range(depth):  # equation 2
                test = passes[:, ancestors[:, level]]
                P = P * torch.where(to_left[:, level], test, 1 - test)
            loss = (P * (y[:, None] - h) ** 2).sum(1).mean()  # equation 3
            loss.backward()
            optimizer.step()
            schedule.step()
        with torch.no_grad():
            node = torch.zeros(len(x), dtype=torch.long)
            for _ in range(depth):
                left = (x * A[node]).sum(1) < b[node]
                node = 2 * node + torch.where(left, 1, 2)
            leaf = node - n_nodes
            count = torch.zeros(n_leaves).index_add_(0, leaf, torch.ones(len(x)))
            total = torch.zeros(n_leaves).index_add_(0, leaf, y)
            h = torch.where(count > 0, total / count.clamp_min(1), h.detach())
            best = min(best, float(((y - h[leaf]) ** 2).mean()))
        A, b, h = A.detach(), b.detach(), h.detach()
    return best


def ours(task: Task, depth: int, epochs: int, seed: int, way: str) -> tuple[float, float]:
    """Return the hard training loss of one start, and the seconds it took."""
    options: dict[str, Any] = {"n_starts": 1, "epochs": epochs, "min_steps": 1, "random_state": seed}
    if way == "same":
        settings = GetSettings(**options, batch_size=256, skip=1e-3, polish=False)
    else:
        own = PRESETS["fast"]["constant"]
        polish = {"polish_epochs": max(1, epochs // 2), "polish_min_steps": 1, "n_greedy": min(1, own["n_greedy"])}
        settings = GetSettings(**{**own, **options, **polish})
    began = time.perf_counter()
    _, loss = search(task, depth, "constant", settings, Run(), "benchmark")
    return loss, time.perf_counter() - began


def compare(tasks: dict[str, Task], depth: int, epochs: int, seed: int) -> Iterator[str]:
    """Yield lines of the table."""
    x, y = torch.from_numpy(tasks["same"].x), torch.from_numpy(tasks["same"].y[:, 0].copy())
    began = time.perf_counter()
    wanted = plain_algorithm_1(x, y, depth, epochs, seed)
    plain = time.perf_counter() - began
    variance = float(y.numpy().var())
    for way, task in tasks.items():
        for budget in BUDGETS:
            loss, seconds = ours(task, depth, budget, seed, way)
            if loss <= wanted:
                break
        r2 = [f"{100 * (1 - each / variance):.2f}" for each in (wanted, loss)]
        reached = "" if loss <= wanted else " (not reached)"
        yield (
            f"| {depth} | {seed} | {plain:.1f} | {r2[0]} | {way} | {seconds:.2f}{reached} | {r2[1]} | {budget} | "
            f"{plain / seconds:.0f} |"
        )


def prediction(x: np.ndarray, y: np.ndarray, depth: int) -> str:
    """Time predicting all rows, in turns."""
    from sklearn.ensemble import RandomForestRegressor

    forest = RandomForestRegressor(300, random_state=0, n_jobs=torch.get_num_threads()).fit(x, y)
    tree = GetRegressor(depth, leaf_shrinkage=1.0, epochs=5, polish=False, random_state=0).fit(x, y).forest_
    times: dict[str, list[float]] = {"forest": [], "tree": []}
    for _ in range(7):
        for name, predict in (("forest", forest.predict), ("tree", tree.predict)):
            began = time.perf_counter()
            predict(x)
            times[name].append(time.perf_counter() - began)
    slow, fast = (statistics.median(times[name]) for name in ("forest", "tree"))
    times_both = f"random forest {1e3 * slow:.1f} ms, tree of depth {depth} {1e3 * fast:.2f} ms"
    return f"{len(x):,} rows: {times_both}: {slow / fast:.0f} times"


def whole_fit(x: np.ndarray, y: np.ndarray, depth: int, device: str) -> str:
    """Time a fit with everything in it; the second of two, since the first compiles."""
    for rows in (slice(0, 500), slice(None)):
        model = GetRegressor(depth, leaf_shrinkage=5.0, device=device, random_state=0)
        began = time.perf_counter()
        model.fit(x[rows], y[rows])
        seconds = time.perf_counter() - began
    return f"| {depth} | {device} | {seconds:.1f} | {100 * model.score(x, y):.2f} | {model.forest_.n_leaves} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--set", default="airfoil_self_noise")
    parser.add_argument("--fit", metavar="SET", default=None)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--epochs", type=int, default=3000, help="of the plain implementation, for each factor")
    parser.add_argument("--depths", type=int, nargs="+", default=[4, 8])
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--out", type=Path, default=None)
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    words = [word for word in sys.argv[1:] if word not in ("--out", str(given.out))]

    def say(text: str) -> None:
        print(text, flush=True)
        if given.out is not None:
            with given.out.open("a", encoding="utf-8") as file:
                file.write(text + "\n")

    say(f"\n`{shlex.join(['python', 'benchmarks/get.py', *words])}`\n")
    if given.quick:
        rng = np.random.default_rng(0)
        x = rng.uniform(size=(1000, 6))
        y = np.abs(x @ rng.normal(size=6)) + np.sin(5 * x[:, 0])
        given.epochs, given.seeds, given.set = min(given.epochs, 300), 1, "drawn rows"
    else:
        table = load(given.data, read_index(given.data)[given.fit or given.set])
        x = np.nan_to_num(np.asarray(table.X.select_dtypes("number"), np.float64))
        y = table.y
    say(f"{given.fit or given.set}, {x.shape[0]:,} rows, {x.shape[1]} columns; {torch.get_num_threads()} thread(s).\n")
    if given.fit:
        say("| depth | device | fit, s | training R2 | leaves |\n|---|---|---|---|---|")
        for depth in given.depths:
            say(whole_fit(x, y, depth, given.device))
        return
    weight, standard = np.ones(len(y)), (y - y.mean()) / y.std()
    scalings: dict[str, Any] = {"same": "range", "default": PRESETS["fast"]["scaling"]["constant"]}
    tasks = {way: Task.of(Scaler.learn(x, weight, how)(x), standard, weight) for way, how in scalings.items()}
    for way, task in tasks.items():
        ours(task.take(np.arange(300)), 2, 1, 0, way)  # compiles
    say(f"The plain implementation takes {given.epochs:,} epochs for each of two factors.\n")
    say("| depth | seed | plain, s | plain, training R2 | ours | ours, s | ours, training R2 | our epochs | ratio |")
    say("|---|---|---|---|---|---|---|---|---|")
    for depth in given.depths:
        for seed in range(given.seeds):
            for line in compare(tasks, depth, given.epochs, seed):
                say(line)
    say(f"\nPrediction, {prediction(x, y, 8)}")


if __name__ == "__main__":
    main()
