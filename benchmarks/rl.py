"""Tree policies: the thesis's tables, and how long a million steps of CartPole take.

    python benchmarks/rl.py train                      # what is missing of the table, one training after another
    python benchmarks/rl.py train --methods tree mlp --envs CartPole-v1 --seeds 2
    python benchmarks/rl.py train --rows out/ --first-seed 102 --seeds 1    # elsewhere, many at a time, and then
    python benchmarks/rl.py merge out/
    python benchmarks/rl.py table                      # benchmarks/results/rl.md beside the thesis's numbers
    python benchmarks/rl.py speed                      # benchmarks/results/rl_speed.md: against an MLP policy and SB3

A training's line is appended to benchmarks/results/rl.csv when it has ended: an interrupted run goes on where it was.
Networks and soft trees are trained once for all the trees that are made of them.
Training seeds are 100, 101, ...; settings were chosen on others. Each policy is the one with the best
validation reward of its training, tried greedily in five episodes of gymnasium's own environment, whose seeds belong to
neither training nor validation.
"""

from __future__ import annotations

import argparse
import csv
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

RESULTS = Path(__file__).parent / "results"
CSV, TABLE, SPEED = RESULTS / "rl.csv", RESULTS / "rl.md", RESULTS / "rl_speed.md"
FIRST_SEED = 100
COLUMNS = (
    "env", "method", "seed", "steps", "seconds", "rewards", "validation", "cohens_d", "decisions", "different", "nodes",
    "inside_nodes", "version",
)  # fmt: skip
# Environment -> the thesis's tree, D-SDT, SA-DT (5), SA-DT (8), MLP, SDT (Tables 6.1, 6.2) and tree size (Table 6.5).
THESIS: dict[str, tuple[Any, ...]] = {
    "CartPole-v1": (500, 128, 446, 476, 500, 500, 39.4),
    "Acrobot-v1": (-80, -205, -97, -75, -72, -77, 78.6),
    "LunarLander-v3": (-57, -221, -197, -150, 241, -124, 55.0),
    "MountainCarContinuous-v0": (94, -10, 97, 96, 95, -4, 23.4),
    "Pendulum-v1": (-323, -1343, -1251, -854, -191, -310, 56.2),
    "MiniGrid-Empty-Random-5x5-v0": (0.964, 0.662, 0.583, 0.845, 0.963, 0.966, None),
    "MiniGrid-DoorKey-5x5-v0": (0.959, 0.654, 0.958, 0.961, 0.963, 0.959, None),
    "MiniGrid-LavaGapS5-v0": (0.951, 0.262, 0.951, 0.951, 0.951, 0.839, None),
    "MiniGrid-LavaGapS7-v0": (0.953, 0.381, 0.458, 0.799, 0.760, 0.953, None),
    "MiniGrid-DistShift1-v0": (0.939, 0.932, 0.952, 0.954, 0.951, 0.954, None),
}
# Method -> its place above, what is trained, and what tree is made of that, how deep.
METHODS: dict[str, tuple[int | None, str, str | None, int | None]] = {
    "tree": (0, "tree", None, None),
    "d-sdt": (1, "soft-tree", "d-sdt", None),
    "sa-dt-5": (2, "mlp", "sa-dt", 5),
    "sa-dt-8": (3, "mlp", "sa-dt", 8),
    "viper-5": (None, "mlp", "viper", 5),
    "viper-8": (None, "mlp", "viper", 8),
    "mlp": (4, "mlp", None, None),
    "soft-tree": (5, "soft-tree", None, None),
}


# ---------------------------------------------------------------- the table


def read() -> list[dict[str, str]]:
    if not CSV.exists():
        return []
    with CSV.open(newline="") as file:
        return list(csv.DictReader(file))


def train(given: argparse.Namespace) -> None:
    import torch

    torch.set_num_threads(given.threads)
    for seed in range(given.first_seed, given.first_seed + given.seeds):
        for env in given.envs:
            steps = given.steps or default_steps(env)
            missing = [
                method for method in given.methods if suits(method, env) and not is_done(env, method, seed, given.rows)
            ]
            for source in ("tree", "mlp", "soft-tree"):
                wanted = [method for method in missing if METHODS[method][1] == source]
                if wanted:
                    train_one(env, source, wanted, seed, steps, given.rows)


def is_done(env: str, method: str, seed: int, folder: Path | None) -> bool:
    if folder is not None:
        return (folder / f"{env}.{method}.{seed}.csv").exists()
    return (env, method, str(seed)) in {(row["env"], row["method"], row["seed"]) for row in read()}


def train_one(env: str, source: str, methods: list[str], seed: int, steps: int, folder: Path | None) -> None:
    """Train one policy, make of it all trees that are wanted, and write a line for each."""
    from hardwood import rl

    started = time.perf_counter()
    trained = rl.train(env, policy=source, seed=seed, steps=steps)
    trained_seconds = time.perf_counter() - started
    for method in methods:
        started = time.perf_counter()
        _, _, made_by, depth = METHODS[method]
        agent = trained if made_by is None else rl.derive(trained, made_by, depth, seed=seed)
        seconds = trained_seconds + time.perf_counter() - started
        row = {"env": env, "method": method, "seed": seed, "steps": steps, "seconds": f"{seconds:.1f}"}
        if agent.forest is None:
            rewards = agent.evaluate(5, seed=seed)
        else:
            lost = agent.information_loss(5, seed=seed)
            rewards = lost.applied
            # As in the thesis: the trained model's rewards against those of what is applied in its place.
            row |= {
                "cohens_d": f"{lost.cohens_d:.4f}", "decisions": lost.decisions, "different": lost.different,
                "nodes": agent.forest.node_count, "inside_nodes": nodes_inside(agent),
            }  # fmt: skip
        row |= {
            "rewards": " ".join(f"{reward:.6g}" for reward in rewards), "version": version(),
            "validation": f"{agent.about['best_validation']:.6g}",
        }  # fmt: skip
        append(row, CSV if folder is None else folder / f"{env}.{method}.{seed}.csv")
        print(f"{env} {method} seed {seed}: {rewards.mean():.4g} in {seconds:.0f} s", flush=True)


def version() -> str:
    import hardwood

    return hardwood.__version__


def suits(method: str, env: str) -> bool:
    """Tell whether a method can be used: VIPER is for discrete actions."""
    return not (method.startswith("viper") and env in ("MountainCarContinuous-v0", "Pendulum-v1"))


def merge(given: argparse.Namespace) -> None:
    """Take the lines of other runs into the table, in the place of older ones."""
    rows = {(row["env"], row["method"], row["seed"]): row for row in read()}
    for folder in given.folders:
        for path in sorted(folder.glob("*.csv")):
            with path.open(newline="") as file:
                rows |= {(row["env"], row["method"], row["seed"]): row for row in csv.DictReader(file)}
    order = {name: place for place, name in enumerate([*THESIS, *METHODS])}
    CSV.unlink(missing_ok=True)
    for key in sorted(rows, key=lambda key: (order[key[0]], order[key[1]], int(key[2]))):
        append(rows[key], CSV)


def default_steps(env: str) -> int:
    """Return how many steps a training takes: at most the thesis's million."""
    from hardwood.rl._settings import settings_for

    return settings_for(env, "tree", "ppo", {}).steps


def nodes_inside(agent: Any) -> int:
    """Count nodes that some observation within the space's bounds can reach, as the thesis prunes (E.2.4)."""
    forest, encoder = agent.forest, agent.encoder
    reached = 0
    tasks = [(0, encoder.low.copy(), encoder.high.copy())]
    while tasks:
        node, low, high = tasks.pop()
        while forest.left[node] >= 0:
            column, threshold = forest.feature[node], forest.threshold[node]
            if threshold <= low[column]:
                node = int(forest.right[node])
            elif threshold > high[column]:
                node = int(forest.left[node])
            else:
                break
        reached += 1
        if forest.left[node] >= 0:
            below, above = high.copy(), low.copy()
            below[column], above[column] = np.nextafter(threshold, -np.inf), threshold
            tasks += [(int(forest.left[node]), low, below), (int(forest.right[node]), above, high)]
    return reached


def append(row: dict[str, Any], path: Path) -> None:
    fresh = not path.exists()
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        if fresh:
            writer.writeheader()
        writer.writerow(row)


def table(given: argparse.Namespace) -> None:
    rows = read()
    out = [
        "# Tree policies (SYMPOL)", "",
        "`python benchmarks/rl.py train` and `python benchmarks/rl.py table`. Mean undiscounted reward of the greedy",
        "policy over all trainings x 5 episodes; +- is the deviation between the means of trainings; in brackets the",
        "thesis's number (Tables 6.1 and 6.2), and how many trainings there were where it is not five.", "",
    ]  # fmt: skip
    methods = [method for method in METHODS if any(row["method"] == method for row in rows)]
    out += ["| environment | steps | " + " | ".join(methods) + " |", "|---" * (len(methods) + 2) + "|"]
    for env, thesis in THESIS.items():
        own = [row for row in rows if row["env"] == env]
        if not own:
            continue
        cells = [
            cell([row for row in own if row["method"] == method], None if at is None else thesis[at])
            for method in methods
            for at in [METHODS[method][0]]
        ]
        steps = ", ".join(sorted({f"{int(row['steps']):,}" for row in own}))
        out.append(f"| {env} | {steps} | " + " | ".join(cells) + " |")
    out += [
        "",
        "## Nodes after pruning, and what is lost",
        "",
        "| environment | nodes | nodes within the space's bounds |",
    ]
    out[-1] += " thesis | decisions that differ | Cohen's D, tree | " + " | ".join(
        f"{m}" for m in ("d-sdt", "sa-dt-5", "sa-dt-8", "viper-5", "viper-8") if m in methods
    )
    others = [m for m in ("d-sdt", "sa-dt-5", "sa-dt-8", "viper-5", "viper-8") if m in methods]
    out[-1] = out[-1].rstrip(" |") + " |"
    out.append("|---" * (6 + len(others)) + "|")
    for env, thesis in THESIS.items():
        own = [row for row in rows if row["env"] == env and row["method"] == "tree"]
        if not own:
            continue
        nodes, inside = (statistics.mean(int(row[name]) for row in own) for name in ("nodes", "inside_nodes"))
        lost = f"{sum(int(row['different']) for row in own)} of {sum(int(row['decisions']) for row in own):,}"
        effect = [f"{statistics.mean(abs(float(row['cohens_d'])) for row in own):.2f}"]
        for method in others:
            found = [float(row["cohens_d"]) for row in rows if row["env"] == env and row["method"] == method]
            effect.append(f"{statistics.mean(found):.2f}" if found else "")
        out.append(f"| {env} | {nodes:.1f} | {inside:.1f} | {thesis[6] or ''} | {lost} | " + " | ".join(effect) + " |")
    TABLE.write_text("\n".join(out) + "\n")
    print(TABLE.read_text())


def cell(rows: list[dict[str, str]], thesis: Any) -> str:
    if not rows:
        return ""
    means = [statistics.mean(map(float, row["rewards"].split())) for row in rows]
    spread = f" +- {statistics.stdev(means):.3g}" if len(means) > 1 else ""
    notes = ([] if thesis is None else [str(thesis)]) + ([] if len(means) == 5 else [f"n={len(means)}"])
    return f"{statistics.mean(means):.4g}{spread}" + (f" ({'; '.join(notes)})" if notes else "")


# ---------------------------------------------------------------- speed


def speed(given: argparse.Namespace) -> None:
    import torch

    from hardwood import rl

    torch.set_num_threads(given.threads)
    # The same work for both: every pass through every rollout. As they are, trees end passes early (`target_kl`).
    aligned = {
        "n_envs": 16, "rollout_steps": 128, "growth": 4, "batch_size": 512, "epochs": 10, "target_kl": None,
        "validation_episodes": 20,
    }  # fmt: skip
    rl.train("CartPole-v1", seed=0, **{**aligned, "steps": 2_000})  # compiles what is not in the cache yet
    agent = None
    lines = []
    for policy in ("tree", "mlp"):
        started = time.perf_counter()
        made = rl.train("CartPole-v1", policy=policy, seed=0, steps=given.steps, **aligned)
        seconds = time.perf_counter() - started
        agent = agent or made
        split = ", ".join(f"{name} {value:.1f}" for name, value in made.about["split"].items())
        lines.append((policy, given.steps, seconds, split, made.about["best_validation"]))
        print(lines[-1], flush=True)
    if given.sb3_steps:
        lines.append(
            ("SB3 PPO, defaults", given.sb3_steps, sb3(given.sb3_steps, 1), "one environment, its default", None)
        )
        print(lines[-1], flush=True)
        sizes = {"n_steps": 128, "batch_size": 512, "n_epochs": 10}
        seconds = sb3(given.sb3_steps, 16, **sizes)
        lines.append(
            ("SB3 PPO, our sizes", given.sb3_steps, seconds, "16 environments, batches of 512, 10 epochs", None)
        )
        print(lines[-1], flush=True)
    started = time.perf_counter()
    made = rl.train("CartPole-v1", seed=0, steps=given.steps)
    seconds = time.perf_counter() - started
    split = ", ".join(f"{name} {value:.1f}" for name, value in made.about["split"].items())
    lines.append(("tree, CartPole's settings", given.steps, seconds, split, made.about["best_validation"]))
    print(lines[-1], flush=True)
    ours = lines[0][2] / lines[0][1]
    command = f"python benchmarks/rl.py speed --steps {given.steps} --sb3-steps {given.sb3_steps}"
    machine = f"{os.cpu_count()} cores, {platform.machine()}, torch {torch.__version__}"
    out = [
        "# A million steps of CartPole, training included",
        "",
        f"`{command} --threads {given.threads}`; {machine}; one run of each, one after another.",
        "",
        "| policy | steps | seconds | per million steps | over the tree | where the seconds went |",
        "|---|---|---|---|---|---|",
    ]
    for name, steps, seconds, split, _ in lines:
        each = seconds / steps
        out.append(f"| {name} | {steps:,} | {seconds:.1f} | {each * 1e6:.0f} s | {each / ours:.2f} | {split} |")
    assert agent is not None and agent.forest is not None
    if shutil.which("cc"):
        out += ["", f"The exported C policy ({agent.forest.node_count} nodes) answers in {c_latency(agent):.1f} ns."]
    SPEED.write_text("\n".join(out) + "\n")
    print(SPEED.read_text())


def sb3(steps: int, n_envs: int, **sizes: int) -> float:
    from stable_baselines3 import PPO
    from stable_baselines3.common.env_util import make_vec_env

    model = PPO("MlpPolicy", make_vec_env("CartPole-v1", n_envs, seed=0), seed=0, device="cpu", **sizes)
    started = time.perf_counter()
    model.learn(steps)
    return time.perf_counter() - started


def c_latency(agent: Any) -> float:
    """Return nanoseconds a call of the exported C policy, on observations of its own episodes."""
    from hardwood import export, rl

    rows = np.concatenate([rl.play(agent, seed=seed, frames=False).rows for seed in range(4)])
    main = """
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include "policy.h"
int main(int argc, char **argv) {
    int n = atoi(argv[1]); double *x = malloc(sizeof(double) * 4 * n); long sum = 0;
    for (int i = 0; i < 4 * n; i++) if (scanf("%lf", x + i) != 1) return 1;
    struct timespec a, b; clock_gettime(CLOCK_MONOTONIC, &a);
    int rounds = 20000000 / n;
    for (int r = 0; r < rounds; r++) for (int i = 0; i < n; i++) sum += policy_class(x + 4 * i);
    clock_gettime(CLOCK_MONOTONIC, &b);
    printf("%f %ld\\n", ((b.tv_sec - a.tv_sec) * 1e9 + (b.tv_nsec - a.tv_nsec)) / ((double)rounds * n), sum);
}"""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "policy.h").write_text(export.to_c(agent.forest, name="policy", header=True))
        (place / "main.c").write_text(main)
        subprocess.run(["cc", "-O2", "-o", place / "main", place / "main.c", "-lm"], check=True)
        text = "\n".join(repr(float(cell)) for cell in rows.ravel())
        done = subprocess.run([place / "main", str(len(rows))], input=text, capture_output=True, text=True, check=True)
    return float(done.stdout.split()[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    for name, run in (("train", train), ("merge", merge), ("table", table), ("speed", speed)):
        command = commands.add_parser(name)
        command.set_defaults(run=run)
        command.add_argument("--threads", type=int, default=1)
        if name == "train":
            command.add_argument("--envs", nargs="+", default=list(THESIS), choices=list(THESIS))
            command.add_argument("--methods", nargs="+", default=["tree"], choices=list(METHODS))
            command.add_argument("--seeds", type=int, default=5, help="how many trainings")
            command.add_argument("--first-seed", type=int, default=FIRST_SEED)
            command.add_argument("--steps", type=int)
            command.add_argument("--rows", type=Path, help="a folder for a file of each line, for `merge`")
        if name == "merge":
            command.add_argument("folders", nargs="+", type=Path)
        if name == "speed":
            command.add_argument("--steps", type=int, default=1_000_000)
            command.add_argument("--sb3-steps", type=int, default=100_000)
    given = parser.parse_args()
    RESULTS.mkdir(exist_ok=True)
    given.run(given)


if __name__ == "__main__":
    sys.exit(main())
