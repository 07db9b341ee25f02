"""Algorithm 1 as the paper writes it, in plain torch: autograd differentiates it step by step."""

from __future__ import annotations

import torch
from torch import Tensor

from hardwood._typing import Float, Int


def group_value(rewards: Float[Tensor, " rewards"], n_nodes: int, penalty: float) -> Float[Tensor, ""]:
    """Return a group's common pruning value before it is clipped to 1 (Proposition 2); `rewards` are its q."""
    ordered = (rewards + 0.5).sort(descending=True).values
    for k in range(len(ordered) + 1):
        value = ordered[:k].sum() / (penalty * n_nodes + k)
        if k == len(ordered) or value >= ordered[k]:
            return value
    raise AssertionError("the last candidate is always taken")


def pruning_reference(
    q: Float[Tensor, "rows nodes"], parent: Int[Tensor, " nodes"], penalty: float
) -> Float[Tensor, " nodes"]:
    """Return a of Equation 4: pool the worst violator with its parent's group until none is left (Algorithm 1)."""
    above = parent.tolist()
    groups = {node: [node] for node in range(q.shape[1])}  # by the node at the top
    top = list(range(q.shape[1]))
    values = {node: group_value(q[:, node], 1, penalty).clamp(0, 1) for node in groups}
    while True:
        violators = [node for node in groups if node > 0 and values[node] > values[top[above[node]]]]
        if not violators:
            return torch.stack([values[top[node]] for node in range(q.shape[1])])
        worst = max(violators, key=lambda node: float(values[node].detach()))
        into = top[above[worst]]
        for node in groups[worst]:
            top[node] = into
        groups[into] += groups.pop(worst)
        values[into] = group_value(q[:, groups[into]].flatten(), len(groups[into]), penalty).clamp(0, 1)


def traversals_reference(
    q: Float[Tensor, "rows nodes"], a: Float[Tensor, " nodes"]
) -> Float[Tensor, "rows nodes"]:  # fmt: skip
    """Return z = Proj[0, a](q + 1/2) (Proposition 1)."""
    return torch.minimum((q + 0.5).clamp(min=0), a)


def path_minima_reference(
    splits: Float[Tensor, "rows splits"],
    parent: Int[Tensor, " nodes"],
    split: Int[Tensor, " nodes"],
    sign: Float[Tensor, " nodes"],
) -> Float[Tensor, "rows nodes"]:
    """Return q of Equation 1: 1 for the root, else the least of the signed splits on the way to a node."""
    columns = [splits.new_ones(len(splits))]
    for node, above in enumerate(parent.tolist()[1:], start=1):
        value = sign[node] * splits[:, int(split[node])]
        columns.append(torch.minimum(columns[above], value) if above > 0 else value)
    return torch.stack(columns, 1)
