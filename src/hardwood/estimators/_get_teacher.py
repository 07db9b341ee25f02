"""Many trees as a teacher: what they say of rows that they have not seen is less noisy than the rows' targets.

One half is a random forest, the other bagged trees with linear leaves: the two err in different ways.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hardwood._typing import Float
from hardwood.oblique import GetSettings, Run, Task
from hardwood.oblique._bagging import bagged_answers

_TREES = 100
# Shares of the teacher in the lesson that held-out rows choose from.
TEACHER_SHARES = (0.0, 0.5, 1.0)


def lessons(
    task: Task, x: Float[np.ndarray, "rows features"], settings: GetSettings, run: Run, key: str, threads: int
) -> Float[np.ndarray, "rows signals"]:
    """Return the mixture of the two halves that is nearest to the targets of unseen rows."""
    y, weight = task.y.astype(np.float64), task.weight.astype(np.float64)
    forest = out_of_bag(x, y, weight, settings.random_state, threads)
    linear = bagged_answers(task, settings, run, key)
    if task.leaf_loss != "squared_error":
        linear = np.clip(linear, 0.0, 1.0)
    if task.leaf_loss == "cross_entropy":
        total = linear.sum(axis=1, keepdims=True)
        linear = np.where(total > 0, linear / np.where(total > 0, total, 1.0), np.nan)
    linear = np.where(np.isfinite(linear).all(axis=1, keepdims=True), linear, forest)
    apart = linear - forest
    size = float((weight[:, None] * apart**2).sum())
    share = float((weight[:, None] * apart * (y - forest)).sum()) / size if size > 0 else 0.0
    return forest + min(1.0, max(0.0, share)) * apart


def out_of_bag(
    x: Float[np.ndarray, "rows features"], signal: Float[np.ndarray, "rows signals"],
    weight: Float[np.ndarray, " rows"], seed: int, threads: int,
) -> Float[np.ndarray, "rows signals"]:  # fmt: skip
    """Return, for each row, the mean answer of those trees of a random forest whose sample did not have that row.

    A row that all samples had keeps its own signal.
    """
    from sklearn.tree import DecisionTreeRegressor

    rows = np.ascontiguousarray(np.clip(x, np.finfo(np.float32).min, np.finfo(np.float32).max), np.float32)
    rng = np.random.default_rng([seed, 1])
    seeds = rng.integers(2**31, size=_TREES)
    drawn = [rng.multinomial(len(rows), np.full(len(rows), 1 / len(rows))) for _ in range(_TREES)]

    def grow(number: int) -> tuple[Any, Any]:
        counts = weight * drawn[number]
        inside, outside = np.flatnonzero(counts > 0), np.flatnonzero(drawn[number] == 0)
        tree = DecisionTreeRegressor(random_state=int(seeds[number]))
        tree.fit(rows[inside], signal[inside], sample_weight=counts[inside])
        return outside, tree.predict(rows[outside]).reshape(len(outside), -1) if len(outside) else signal[outside]

    total, count = np.zeros_like(signal, np.float64), np.zeros(len(rows))
    for outside, said in _in_threads(grow, threads):
        total[outside] += said
        count[outside] += 1
    return np.where(count[:, None] > 0, total / np.maximum(count, 1)[:, None], signal)


def _in_threads(work: Any, threads: int) -> Any:
    """Yield `work(0)`, `work(1)`, ... in this order, computed by so many threads (trees grow without the GIL)."""
    if threads == 1:
        yield from map(work, range(_TREES))
        return
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(threads) as pool:
        yield from pool.map(work, range(_TREES))
