"""Depth, penalty, shrinkage and levels of polish by validation: what held-out rows like best."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from hardwood.nn import ObliqueTrees
from hardwood.nn._oblique_trees import Leaf
from hardwood.oblique._leaves import leaf_means, linear_nodes, losses_of
from hardwood.oblique._run import Run
from hardwood.oblique._search import load_arrays, search
from hardwood.oblique._settings import GetSettings
from hardwood.oblique._task import Task

# Trees after each level of polish, with their losses on held-out rows for each shrinkage.
_States = list[tuple[ObliqueTrees, np.ndarray]]


@dataclass(frozen=True)
class Choice:
    """What was chosen, its loss on held-out rows, and a tree that was judged."""

    depth: int
    l1: float
    shrinkage: float
    polish_levels: int
    loss: float
    tree: ObliqueTrees


def choose(
    parts: Sequence[tuple[Task, Task]], leaf: Leaf, settings: GetSettings, run: Run, *, depths: Sequence[int],
    penalties: Sequence[float], shrinkages: Sequence[float], patience: int, early_stop: bool = False, name: str = "",
) -> Choice:  # fmt: skip
    """Search at rising depths and with each penalty at the best depth; each tree is judged with every shrinkage.

    `parts` are pairs of training and held-out rows; with several, mean losses are compared. With `early_stop` trees
    are judged before polish and after each level of it, too. Depths end after `patience` of them in a row have not
    lowered the loss on held-out rows. `name` tells this choice from others of the same run.
    """
    best: Choice | None = None
    waited = 0
    for depth in depths:
        found = _judge(parts, leaf, settings, run, depth, penalties[0], shrinkages, early_stop, name)
        if best is None or found.loss < best.loss:
            best, waited = found, 0
        else:
            waited += 1
        if run.is_over() or waited >= patience:
            break
    assert best is not None
    for l1 in penalties[1:]:
        if run.is_over():
            break
        found = _judge(parts, leaf, settings, run, best.depth, l1, shrinkages, early_stop, name)
        best = found if found.loss < best.loss else best
    return best


def _judge(
    parts: Sequence[tuple[Task, Task]], leaf: Leaf, settings: GetSettings, run: Run, depth: int, l1: float,
    shrinkages: Sequence[float], early_stop: bool, name: str,
) -> Choice:  # fmt: skip
    key = f"{name}depth {depth}, l1 {l1:g}"
    kept = run.recall(key)
    if kept is not None:
        training, _ = parts[0]
        tree = ObliqueTrees(training.x.shape[1], training.y.shape[1], 1, depth, leaf=leaf)
        load_arrays(tree, kept)
        return Choice(depth, l1, float(kept["shrinkage"][0]), int(kept["levels"][0]), float(kept["loss"][0]), tree)
    followed: list[_States] = []
    for number, (training, validation) in enumerate(parts):
        states: _States = []

        def watch(
            tree: ObliqueTrees, states: _States = states, training: Task = training, validation: Task = validation
        ) -> None:
            losses = [validation_loss(tree, training, validation, each) for each in shrinkages]
            states.append((tree.take([0]), np.array(losses)))

        own = replace(settings, l1=l1)
        tree, _ = search(training, depth, leaf, own, run, f"{key}/search {number}", watch if early_stop else None)
        if not early_stop:
            watch(tree)
        followed.append(states)
        if run.is_over():
            break
    # A tree that had nothing left to polish stays as it is.
    length = max(len(states) for states in followed)
    losses = np.mean([[states[min(at, len(states) - 1)][1] for at in range(length)] for states in followed], axis=0)
    level, lowest = np.unravel_index(losses.argmin(), losses.shape)
    loss, shrinkage = float(losses[level, lowest]), shrinkages[lowest]
    tree = followed[0][min(int(level), len(followed[0]) - 1)][0]
    run.record(f"{key}/judged", losses[level], settings.scale_factors[-1][1], loss)
    levels = int(level) if early_stop else settings.polish_levels
    if not run.is_over():
        arrays = {name: parameter.detach().numpy() for name, parameter in tree.named_parameters()}
        rest = {"shrinkage": np.array([shrinkage]), "levels": np.array([levels]), "loss": np.array([loss])}
        run.note(key, {**arrays, **rest})
    return Choice(depth, l1, shrinkage, levels, loss, tree)


def validation_loss(tree: ObliqueTrees, training: Task, validation: Task, shrinkage: float) -> float:
    """Return the loss on held-out rows of a tree whose leaves are set from training rows, with such a shrinkage."""
    at, at_held = (tree.leaves(torch.from_numpy(task.x)).numpy()[:, 0] for task in (training, validation))
    y, held = training.y.astype(np.float64), validation.y.astype(np.float64)
    weight = training.weight.astype(np.float64)
    first = 2**tree.depth - 1
    if tree.leaf == "linear":
        parent = np.maximum((np.arange(2 * first + 1) - 1) // 2, 0)
        values, coef = linear_nodes(at + first, parent, training.x.astype(np.float64), y, weight, shrinkage)
        said = values[at_held + first] + np.einsum("rf,rfo->ro", validation.x.astype(np.float64), coef[at_held + first])
    else:
        said = leaf_means(at, y, weight, 1, tree.depth, shrinkage)[0, at_held]
    return float(np.average(losses_of(held, said, training.leaf_loss), weights=validation.weight))
