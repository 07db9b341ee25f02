"""`plan_of`: what the kernels of latent trees need to know of a tree's shape, worked out once."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

from hardwood._typing import Int
from hardwood.errors import reject


class PlanOnDevice(NamedTuple):
    """A tree's shape for a GPU. A place is a position in preorder: all that is below a node stands right after it."""

    order: Int[Tensor, " places"]  # the node at each place
    place: Int[Tensor, " nodes"]
    size: Int[Tensor, " places"]  # of each place, with all below
    parent: Int[Tensor, " nodes"]
    levels: tuple[Int[Tensor, " of_level"], ...]  # places, the deepest first


@dataclass(frozen=True)
class TreePlan:
    """A tree's shape."""

    parent: Int[np.ndarray, " nodes"]
    _there: dict[torch.device, PlanOnDevice] = field(default_factory=dict, repr=False)

    def on(self, device: torch.device) -> PlanOnDevice:
        """Return the plan for a GPU, copied there the first time."""
        if device not in self._there:
            self._there[device] = self._copy_to(device)
        return self._there[device]

    def _copy_to(self, device: torch.device) -> PlanOnDevice:
        n_nodes = len(self.parent)
        level, size = np.zeros(n_nodes, np.int64), np.ones(n_nodes, np.int64)
        for node in range(1, n_nodes):
            level[node] = level[self.parent[node]] + 1
        for node in range(n_nodes - 1, 0, -1):
            size[self.parent[node]] += size[node]
        place, room = np.zeros(n_nodes, np.int64), np.ones(n_nodes, np.int64)
        for node in range(1, n_nodes):
            above = self.parent[node]
            place[node] = place[above] + room[above]
            room[above] += size[node]
        order = np.argsort(place)

        def there(array: np.ndarray) -> Tensor:
            return torch.from_numpy(np.ascontiguousarray(array)).to(device)

        levels = tuple(there(place[level == each]) for each in range(int(level.max()), -1, -1))
        return PlanOnDevice(there(order), there(place), there(size[order]), there(self.parent), levels)


_plans: WeakIdKeyDictionary = WeakIdKeyDictionary()


def plan_of(parent: Int[Tensor, " nodes"] | None, n_nodes: int) -> TreePlan:
    """Return the plan of a tree, by default of a complete one; a tensor that is not written to is looked at once."""
    if parent is None:
        return _complete(n_nodes)
    known: tuple[int, TreePlan] | None = _plans.get(parent)  # type: ignore[no-untyped-call]
    if known is None or known[0] != parent._version or len(known[1].parent) != n_nodes:
        known = parent._version, TreePlan(_checked(parent, n_nodes))
        _plans[parent] = known
    return known[1]


@functools.lru_cache(maxsize=32)
def _complete(n_nodes: int) -> TreePlan:
    parent = (np.arange(n_nodes) - 1) // 2
    parent[0] = -1
    return TreePlan(parent)


def _checked(parent: Tensor, n_nodes: int) -> Int[np.ndarray, " nodes"]:
    remedy = "number the nodes from the root down, which has -1"
    if tuple(parent.shape) != (n_nodes,) or parent.is_floating_point():
        reject("parent", f"{parent.dtype} of shape {tuple(parent.shape)}", f"does not name {n_nodes} parents", remedy)
    above = parent.detach().cpu().numpy().astype(np.int64)
    if above[0] != -1 or (above[1:] < 0).any() or (above[1:] >= np.arange(1, n_nodes)).any():
        reject("parent", above.tolist(), "has a node before its parent, or not one root", remedy)
    return above
