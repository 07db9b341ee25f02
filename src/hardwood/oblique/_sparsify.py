"""Splits on fewer columns: small weights are removed, and what remains is trained again."""

from __future__ import annotations

import zlib

import numpy as np
import torch

from hardwood.nn import ObliqueTrees
from hardwood.oblique._descent import descend
from hardwood.oblique._leaves import settle
from hardwood.oblique._run import Run
from hardwood.oblique._settings import GetSettings
from hardwood.oblique._task import Problems, Task


def sparsify(tree: ObliqueTrees, task: Task, share: float, settings: GetSettings, run: Run, key: str) -> float:
    """Remove weights smaller than `share` of their split's largest from a single tree; return its hard loss.

    The weights that remain are then trained at factors drawn from the last range, and kept as they are if that makes
    the hard loss no smaller.
    """
    with torch.no_grad():
        size = tree.split_weights.abs()
        tree.split_weights[size < share * size.amax(2, keepdim=True)] = 0.0
    problems = Problems.on_all_rows(tree, task)
    before = settle(problems, task, settings.leaf_shrinkage)
    rng = np.random.default_rng([settings.random_state, zlib.crc32(key.encode())])
    trial = problems.take([0])
    drawn = rng.uniform(*settings.scale_factors[-1], 1)
    after = descend(trial, task, settings, drawn, f"{key}/sparse", run, keep_zeros=True)
    if after[0] < before[0]:
        with torch.no_grad():
            for mine, other in zip(tree.parameters(), trial.trees.parameters(), strict=True):
                mine.copy_(other)
    return float(min(before[0], after[0]))
