"""Algorithm 2: every subtree is trained again on its own rows, and kept only where the hard loss improves.

The paper goes through the nodes in breadth-first order. Subtrees whose roots stand on one level have no rows and no
nodes in common, so they train together; the next level begins when the best of this one stand in the tree.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch

from hardwood._typing import Int
from hardwood.nn import ObliqueTrees
from hardwood.oblique._descent import descend
from hardwood.oblique._leaves import settle
from hardwood.oblique._run import Run
from hardwood.oblique._settings import GetSettings
from hardwood.oblique._starts import revive
from hardwood.oblique._task import Problems, Task


def polish(
    tree: ObliqueTrees, task: Task, settings: GetSettings, run: Run, key: str,
    watch: Callable[[ObliqueTrees], None] | None = None,
) -> float:  # fmt: skip
    """Improve a single tree in place, and return its hard loss; `watch` sees the tree after each level."""
    briefly = replace(settings, epochs=settings.polish_epochs, min_steps=settings.polish_min_steps)
    for level in range(min(tree.depth, settings.polish_levels)):
        if run.is_over():
            break
        stage = f"{key}/polish {level + 1}"
        found = subtrees(tree, task, level)
        if found is None:
            break
        problems, roots = found
        before = settle(problems, task, settings.leaf_shrinkage)
        best, best_losses = problems.trees.take(range(len(roots))), before.copy()
        parts = [problems.rows[a:b] for a, b in zip(problems.row_start, problems.row_start[1:], strict=False)]
        revive(problems.trees, task.x, parts, task.y)
        rng = np.random.default_rng([settings.random_state, zlib.crc32(stage.encode())])
        for number, span in enumerate(settings.scale_factors):
            drawn = rng.uniform(*span, len(roots))
            losses = descend(problems, task, briefly, drawn, f"{stage}.{number + 1}", run)
            better = losses < best_losses
            best_losses = np.where(better, losses, best_losses)
            chosen = torch.from_numpy(better)
            with torch.no_grad():
                for mine, other in zip(best.parameters(), problems.trees.parameters(), strict=True):
                    mine[chosen] = other[chosen]
            if run.is_over():
                break
        improved = np.flatnonzero(best_losses < before)
        for k in improved.tolist():
            _replant(tree, best, k, level, int(roots[k]))
        if watch is not None:
            watch(tree)
    return float(settle(Problems.on_all_rows(tree, task), task, settings.leaf_shrinkage)[0])


def subtrees(tree: ObliqueTrees, task: Task, level: int) -> tuple[Problems, Int[np.ndarray, " subtrees"]] | None:
    """Return the subtrees at one level of a single tree with their own rows, and their places in the level.

    Those with one row or none, or whose targets are all the same, have nothing to learn and are left out (line 6).
    """
    depth = tree.depth - level
    reached = Problems.on_all_rows(tree, task).leaves(task) >> depth
    order = np.argsort(reached, kind="stable")
    starts = np.searchsorted(reached[order], np.arange(2**level + 1))
    roots, parts = [], []
    for place in range(2**level):
        rows = order[starts[place] : starts[place + 1]]
        rows = rows[task.weight[rows] > 0]
        if len(rows) > 1 and (task.y[rows] != task.y[rows[0]]).any():
            roots.append(place)
            parts.append(rows)
    if not roots:
        return None
    below = ObliqueTrees(tree.n_features, tree.n_outputs, len(roots), depth, leaf=tree.leaf)
    with torch.no_grad():
        for k, place in enumerate(roots):
            nodes, leaves = _places(level, depth, place)
            below.split_weights[k] = tree.split_weights[0, nodes]
            below.thresholds[k] = tree.thresholds[0, nodes]
            below.leaf_values[k] = tree.leaf_values[0, leaves]
            if below.leaf_coef is not None and tree.leaf_coef is not None:
                below.leaf_coef[k] = tree.leaf_coef[0, leaves]
    row_start = np.concatenate([[0], np.cumsum([len(part) for part in parts])]).astype(np.int64)
    return Problems(below, np.concatenate(parts).astype(np.int64), row_start), np.array(roots)


def _places(level: int, depth: int, place: int) -> tuple[Int[np.ndarray, " nodes"], slice]:
    """Return where the nodes and the leaves of a subtree stand in the whole tree."""
    nodes = [2 ** (level + down) - 1 + place * 2**down + np.arange(2**down) for down in range(depth)]
    return np.concatenate(nodes), slice(place * 2**depth, (place + 1) * 2**depth)


def _replant(tree: ObliqueTrees, below: ObliqueTrees, k: int, level: int, place: int) -> None:
    nodes, leaves = _places(level, below.depth, place)
    with torch.no_grad():
        tree.split_weights[0, nodes] = below.split_weights[k]
        tree.thresholds[0, nodes] = below.thresholds[k]
        tree.leaf_values[0, leaves] = below.leaf_values[k]
        if tree.leaf_coef is not None and below.leaf_coef is not None:
            tree.leaf_coef[0, leaves] = below.leaf_coef[k]
