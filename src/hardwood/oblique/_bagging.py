"""Bagged trees with linear leaves: what they say of rows that they have not seen, all trees trained at once."""

from __future__ import annotations

import zlib
from dataclasses import replace

import numpy as np
import torch

from hardwood._typing import Float
from hardwood.oblique._descent import descend
from hardwood.oblique._run import Run
from hardwood.oblique._settings import GetSettings
from hardwood.oblique._starts import draw_starts
from hardwood.oblique._task import Problems, Task

_TREES, _DEPTH = 20, 4
# Of the linear leaves, in rows: samples repeat rows, so leaves need more of it than those of a single tree.
_SHRINKAGE = 5.0


def bagged_answers(task: Task, settings: GetSettings, run: Run, key: str) -> Float[np.ndarray, "rows signals"]:
    """Return, for each row, the mean answer of those trees whose sample of the rows did not have it.

    The trees are GET-Linear's, of depth 4 and from one random start each. A row that all samples had has NaN.
    """
    count = len(task.x)
    rng = np.random.default_rng([settings.random_state, zlib.crc32(key.encode())])
    samples = [np.sort(rng.integers(count, size=count)) for _ in range(_TREES)]
    depth = max(1, min(_DEPTH, int(np.log2(count + 1)) - 3))
    trees = draw_starts(task, depth, _TREES, 0, "linear", [settings.random_state, depth, 1])
    problems = Problems(trees, np.concatenate(samples), np.arange(_TREES + 1) * count)
    squared = replace(task, leaf_loss="squared_error")
    own = replace(settings, l1=0.0, leaf_shrinkage=_SHRINKAGE)
    for number, span in enumerate(settings.scale_factors):
        descend(problems, squared, own, rng.uniform(*span, _TREES), f"{key}.{number + 1}", run)
        if run.is_over():
            break
    with torch.no_grad():
        said = trees(torch.from_numpy(task.x)).numpy().astype(np.float64)
    unseen = np.ones((count, _TREES), bool)
    for number, rows in enumerate(samples):
        unseen[rows, number] = False
    total = (said * unseen[..., None]).sum(axis=1)
    with np.errstate(invalid="ignore"):
        return total / unseen.sum(axis=1)[:, None]
