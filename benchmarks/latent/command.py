"""The command line of the latent trees' benchmarks."""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks.latent.sets import RESULTS, SEEDS

SETS = {
    "tables": ["tictactoe", "mushroom", "fico_heloc", "higgs_subset", "covtype_subset"],
    "clusters": ["glass", "covtype_subset"],
}
METHODS = {
    "tables": ["latent", "cart", "boosting"],
    "clusters": ["latent", "latent-paper", "start", "birch", "hkmeans", "agglomerative-average", "agglomerative-ward"],
}


def main() -> None:
    """Run one of the benchmarks."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.latent", description="Latent trees.")
    speed = ["solver", "growth", "epoch", "cuda"]
    parser.add_argument("what", choices=[*speed, "tables", "clusters", "curve", "gates", "summary"])
    parser.add_argument("--sets", nargs="+", default=None)
    parser.add_argument("--methods", nargs="+", default=None)
    parser.add_argument("--rows", nargs="+", type=int, default=[8, 16, 32, 64, 128, 256, 512])
    parser.add_argument("--trials", type=int, default=30, help="draws of hyper-parameters for each line")
    parser.add_argument("--seeds", nargs="+", type=int, default=list(SEEDS))
    parser.add_argument("--workers", type=int, default=1, help="lines that are computed at a time")
    parser.add_argument("--results", type=Path, default=RESULTS)
    given = parser.parse_args()
    if given.what in speed:
        from benchmarks.latent import speed as module

        if given.what == "solver":
            module.solver(given.rows)
        else:
            {"growth": module.growth, "epoch": module.epoch, "cuda": module.cuda}[given.what]()
    elif given.what in SETS:
        from benchmarks.latent import clusters, tables

        sets, methods = given.sets or SETS[given.what], given.methods or METHODS[given.what]
        run = {"tables": tables.run, "clusters": clusters.run}[given.what]
        run(sets, methods, given.trials, given.seeds, given.workers, given.results)
    elif given.what == "curve":
        from benchmarks.latent import glass

        glass.run(given.seeds, given.workers, given.results)
    elif given.what == "gates":
        from benchmarks.latent import gates

        gates.run(given.sets, given.methods, given.seeds, given.workers, given.results)
    else:
        from benchmarks.latent import summary

        summary.run(given.results)
