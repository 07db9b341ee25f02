"""Leaves from hard splits: means, or ridge regressions, of the rows that arrive (appendix E of the paper).

Both may be drawn towards the nodes above (hierarchical shrinkage), so that a leaf of few rows says little of its own.
A linear leaf has, beside its rows, `shrinkage` rows' worth of the answer of the node above it, which makes it stable
for collinear columns and for fewer rows than columns; the root's node above is the constant mean.
"""

from __future__ import annotations

import numpy as np
import torch

from hardwood._typing import Float, Int
from hardwood.oblique._task import Problems, Task

# A linear leaf without any shrinkage is still given this part of a row of the node above, else it may be undefined.
_LEAST_SHRINKAGE = 1e-4


def settle(problems: Problems, task: Task, shrinkage: float = 0.0) -> Float[np.ndarray, " trees"]:
    """Set the leaves of each tree from its own rows, and return each tree's hard loss, the mean over its rows.

    Constant leaves take plain means, as logits for cross-entropies; a leaf without rows takes that of the nearest node
    above it with some. Linear leaves take ridge regressions with `shrinkage`.
    """
    trees = problems.trees
    leaf, tree = problems.leaves(task), problems.tree_of
    weight = task.weight[problems.rows].astype(np.float64)
    y = task.y[problems.rows].astype(np.float64)
    if trees.leaf_coef is None:
        means = leaf_means(leaf + tree * 2**trees.depth, y, weight, len(problems), trees.depth)
        losses = losses_of(y, means.reshape(-1, y.shape[1])[leaf + tree * 2**trees.depth], task.leaf_loss)
        values = as_outputs(means, task.leaf_loss)
        with torch.no_grad():
            trees.leaf_values.copy_(torch.from_numpy(values))
    else:
        answers = np.zeros_like(y)
        parent = (np.arange(2 ** (trees.depth + 1) - 1) - 1) // 2
        for k in range(len(problems)):
            own = slice(problems.row_start[k], problems.row_start[k + 1])
            x = task.x[problems.rows[own]].astype(np.float64)
            values, coef = linear_nodes(leaf[own] + 2**trees.depth - 1, parent, x, y[own], weight[own], shrinkage)
            values, coef = values[2**trees.depth - 1 :], coef[2**trees.depth - 1 :]
            answers[own] = values[leaf[own]] + np.einsum("rf,rfo->ro", x, coef[leaf[own]])
            with torch.no_grad():
                trees.leaf_values[k] = torch.from_numpy(values)
                trees.leaf_coef[k] = torch.from_numpy(coef.transpose(0, 2, 1).copy())
        losses = ((y - answers) ** 2).sum(axis=1)
    total = np.bincount(tree, weight * losses, minlength=len(problems))
    return total / np.maximum(np.bincount(tree, weight, minlength=len(problems)), 1e-300)


def leaf_means(
    at: Int[np.ndarray, " entries"], y: Float[np.ndarray, "entries signals"], weight: Float[np.ndarray, " entries"],
    n_trees: int, depth: int, shrinkage: float = 0.0,
) -> Float[np.ndarray, "trees leaves signals"]:  # fmt: skip
    """Return the mean of each leaf of some complete trees; that of the node above for a leaf without rows.

    Shrinkage is that of `hardwood.forest._leaf_means`.
    """
    count = n_trees * 2**depth
    mass = np.bincount(at, weight, minlength=count).reshape(n_trees, -1).astype(np.float64)
    sums = np.stack([np.bincount(at, weight * column, minlength=count) for column in y.T], axis=-1)
    sums = sums.reshape(n_trees, -1, y.shape[1])
    levels = [(mass, sums)]
    for _ in range(depth):
        mass, sums = mass[:, ::2] + mass[:, 1::2], sums[:, ::2] + sums[:, 1::2]
        levels.append((mass, sums))
    root, sums = levels[-1]
    means = sums / np.maximum(root, 1e-300)[..., None]
    shrunken = means
    for number in range(len(levels) - 2, -1, -1):
        mass, sums = levels[number]
        above = np.repeat(means, 2, axis=1)
        means = np.where(mass[..., None] > 0, sums / np.maximum(mass, 1e-300)[..., None], above)
        doubt = shrinkage / np.maximum(np.repeat(levels[number + 1][0], 2, axis=1), 1e-300)
        if shrinkage > 0:
            doubt = doubt + 1 / np.maximum(mass, 1e-300)
        step = (means - above) / (1 + doubt)[..., None]
        shrunken = np.repeat(shrunken, 2, axis=1) + np.where(mass[..., None] > 0, step, 0.0)
    return shrunken if shrinkage > 0 else means


def as_outputs(means: Float[np.ndarray, "..."], leaf_loss: str) -> Float[np.ndarray, "..."]:
    """Return what a leaf has to hold to say such means: themselves, or logits that are not endless."""
    if leaf_loss == "squared_error":
        return means
    sure = np.clip(means, 1e-3, 1 - 1e-3)
    return np.log(sure) if leaf_loss == "cross_entropy" else np.log(sure) - np.log1p(-sure)


def losses_of(
    y: Float[np.ndarray, "rows signals"], said: Float[np.ndarray, "rows signals"], leaf_loss: str
) -> Float[np.ndarray, " rows"]:
    """Return the loss of each row; shares of 0 count as one in a thousand, since a row may be of any class."""
    if leaf_loss == "squared_error":
        return ((y - said) ** 2).sum(axis=1)
    loss = -(y * np.log(np.clip(said, 1e-3, 1.0))).sum(axis=1)
    if leaf_loss == "binary_cross_entropy":
        loss -= ((1 - y) * np.log(np.clip(1 - said, 1e-3, 1.0))).sum(axis=1)
    return loss


def linear_nodes(
    at: Int[np.ndarray, " rows"],
    parent: Int[np.ndarray, " nodes"],
    x: Float[np.ndarray, "rows features"],
    y: Float[np.ndarray, "rows outputs"],
    weight: Float[np.ndarray, " rows"],
    shrinkage: float,
) -> tuple[Float[np.ndarray, "nodes outputs"], Float[np.ndarray, "nodes features outputs"]]:
    """Return intercept and coefficients of every node of a tree, from the node `at` which each row arrives.

    A node minimises the squared error of its rows plus, `shrinkage` times, the mean squared difference of its answer to
    that of the node above, over all rows as if the columns were independent. Memory: nodes x features squared.
    """
    nodes, features = len(parent), x.shape[1]
    # Columns that differ by more than a tiny part of their size, brought to deviation 1 and mean 0.
    share = weight / weight.sum()
    centre = share @ x
    spread = np.sqrt(share @ (x - centre) ** 2)
    moves = spread > 1e-9 * (1 + np.abs(centre))
    z = np.where(moves, (x - centre) / np.where(moves, spread, 1.0), 0.0)
    design = np.concatenate([z, np.ones((len(z), 1))], axis=1)
    gram = np.zeros((nodes, features + 1, features + 1))
    moment = np.zeros((nodes, features + 1, y.shape[1]))
    order = np.argsort(at, kind="stable")
    reached, starts = np.unique(at[order], return_index=True)
    for node, rows in zip(reached.tolist(), np.split(order, starts[1:]), strict=True):
        weighted = design[rows].T * weight[rows]
        gram[node], moment[node] = weighted @ design[rows], weighted @ y[rows]
    for node in range(nodes - 1, 0, -1):
        gram[parent[node]] += gram[node]
        moment[parent[node]] += moment[node]
    depth = np.zeros(nodes, np.int64)
    for node in range(1, nodes):
        depth[node] = depth[parent[node]] + 1

    strength = max(shrinkage, _LEAST_SHRINKAGE)
    solution = np.zeros((nodes, features + 1, y.shape[1]))
    start = np.zeros((1, features + 1, y.shape[1]))
    start[0, -1] = share @ y
    for level in range(int(depth.max()) + 1):
        here = np.flatnonzero(depth == level)
        above = start if level == 0 else solution[parent[here]]
        # With the node above as origin, a node without rows repeats it exactly.
        rest = moment[here] - gram[here] @ above
        solution[here] = above + np.linalg.solve(gram[here] + strength * np.eye(features + 1), rest)
    coef = solution[:, :-1] / np.where(moves, spread, 1.0)[:, None]
    coef[:, ~moves] = 0.0
    return solution[:, -1] - np.einsum("f,nfo->no", centre, coef), coef
