"""Algorithm 1: many starts, ascending scale factors, each factor starting from the solution of the one before."""

from __future__ import annotations

import zlib
from collections.abc import Callable

import numpy as np
import torch

from hardwood.nn import ObliqueTrees
from hardwood.nn._oblique_trees import Leaf
from hardwood.oblique._descent import descend
from hardwood.oblique._leaves import settle
from hardwood.oblique._polish import polish
from hardwood.oblique._run import Arrays, Run
from hardwood.oblique._settings import GetSettings
from hardwood.oblique._starts import draw_starts
from hardwood.oblique._task import Problems, Task


def search(
    task: Task, depth: int, leaf: Leaf, settings: GetSettings, run: Run, key: str,
    watch: Callable[[ObliqueTrees], None] | None = None,
) -> tuple[ObliqueTrees, float]:  # fmt: skip
    """Return the tree with the lowest hard loss of all that were met, and that loss.

    `watch` sees the tree before it is polished and after each level of that.
    """
    kept = run.recall(key)
    trees = draw_starts(task, depth, settings.n_starts, settings.n_greedy, leaf, [settings.random_state, depth])
    problems = Problems.on_all_rows(trees, task)
    if kept is not None:
        best = trees.take([0])
        load_arrays(best, kept)
        return best, float(kept["loss"])
    losses = settle(problems, task, settings.leaf_shrinkage)
    lowest = int(losses.argmin())
    best, best_loss = trees.take([lowest]), float(losses[lowest])
    rng = np.random.default_rng([settings.random_state, zlib.crc32(key.encode()), depth])
    factors = [rng.uniform(*span, settings.n_starts) for span in settings.scale_factors]
    alive = np.arange(settings.n_starts)
    for number, drawn in enumerate(factors):
        stage = f"{key}/factor {number + 1}"
        losses = descend(problems, task, settings, drawn[alive], stage, run)
        lowest = int(losses.argmin())
        if losses[lowest] < best_loss:
            best, best_loss = problems.trees.take([lowest]), float(losses[lowest])
        if run.is_over():
            break
        count = max(1, round(len(alive) * settings.keep))
        if number < len(factors) - 1 and count < len(alive):
            going_on = np.sort(np.argsort(losses, kind="stable")[:count])
            problems, alive = problems.take(going_on.tolist()), alive[going_on]
    if watch is not None:
        watch(best)
    if settings.polish and not run.is_over():
        best_loss = polish(best, task, settings, run, key, watch)
    if not run.is_over():
        arrays = {name: parameter.detach().numpy() for name, parameter in best.named_parameters()}
        run.note(key, {**arrays, "loss": np.array(best_loss)})
    return best, best_loss


def load_arrays(trees: ObliqueTrees, arrays: Arrays) -> None:
    """Put noted parameters into trees."""
    with torch.no_grad():
        for name, parameter in trees.named_parameters():
            parameter.copy_(torch.from_numpy(arrays[name]))
