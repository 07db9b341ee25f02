"""What is to be learned, and trees that each learn it from rows of their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from hardwood._numba import run_chunks
from hardwood._typing import Bool, Float, Int
from hardwood.errors import reject
from hardwood.nn import ObliqueTrees
from hardwood.ops._oblique import LeafLoss


@dataclass(frozen=True)
class Task:
    """Rows on scaled columns, what their leaves should say, and how much each row counts."""

    x: Float[np.ndarray, "rows features"]  # float32
    y: Float[np.ndarray, "rows signals"]  # float32: numbers, or shares of classes or labels
    weight: Float[np.ndarray, " rows"]  # float32, 1 on average
    leaf_loss: LeafLoss = "squared_error"

    def __post_init__(self) -> None:
        for name in ("x", "y", "weight"):
            if not np.isfinite(getattr(self, name)).all():
                reject(name, "nan or inf", "is not finite", "fill in missing cells, and scale the columns")

    @classmethod
    def of(cls, x: np.ndarray, y: np.ndarray, weight: np.ndarray, leaf_loss: LeafLoss = "squared_error") -> Task:
        """Return a task of any arrays: in float32, with the weights' mean brought to 1."""
        if len(x) == 0 or len(x) != len(y) or len(x) != len(weight):
            problem = f"does not go with {len(y)} targets and {len(weight)} weights"
            reject("x", f"an array of shape {x.shape}", problem, "pass one target and weight for each row")
        columns = y.reshape(len(y), -1)
        mean = float(weight.mean()) if len(weight) else 1.0
        share = weight / mean if mean > 0 else weight
        arrays = [np.ascontiguousarray(each, np.float32) for each in (x, columns, share)]
        return cls(arrays[0], arrays[1], arrays[2], leaf_loss)

    def take(self, rows: Int[np.ndarray, " some"]) -> Task:
        """Return the task of some rows."""
        return Task.of(self.x[rows], self.y[rows], self.weight[rows], self.leaf_loss)


@dataclass(frozen=True)
class Problems:
    """Trees of one depth, tree `k` with the rows `rows[row_start[k]:row_start[k + 1]]` of a task.

    Training changes the trees' parameters in place.
    """

    trees: ObliqueTrees
    rows: Int[np.ndarray, " entries"]
    row_start: Int[np.ndarray, " starts"]

    @classmethod
    def on_all_rows(cls, trees: ObliqueTrees, task: Task) -> Problems:
        """Return trees that all learn from all rows."""
        count = trees.n_trees
        return cls(trees, np.tile(np.arange(len(task.x)), count), np.arange(count + 1) * len(task.x))

    def __len__(self) -> int:
        return self.trees.n_trees

    @property
    def tree_of(self) -> Int[np.ndarray, " entries"]:
        """The tree of each entry of `rows`."""
        return np.repeat(np.arange(len(self)), np.diff(self.row_start))

    def take(self, trees: Sequence[int]) -> Problems:
        """Return some of the trees, copied, with their rows."""
        parts = [self.rows[self.row_start[k] : self.row_start[k + 1]] for k in trees]
        starts = np.concatenate([[0], np.cumsum([len(part) for part in parts])]).astype(np.int64)
        return Problems(self.trees.take(trees), np.concatenate(parts), starts)

    def leaves(self, task: Task) -> Int[np.ndarray, " entries"]:
        """Return the leaf that each entry of `rows` reaches in its tree."""
        from hardwood.ops._cpu_oblique import own_leaves

        reached = np.empty(len(self.rows), np.int64)
        weights, thresholds = self.trees.split_weights.detach().numpy(), self.trees.thresholds.detach().numpy()

        def work(start: int, stop: int) -> None:
            own_leaves(start, stop, task.x, self.rows, self.row_start, weights, thresholds, self.trees.depth, reached)

        run_chunks(work, len(self), torch.get_num_threads())
        return reached

    def finite(self) -> Bool[np.ndarray, " trees"]:
        """Tell of each tree whether all its parameters are finite."""
        found = np.ones(len(self), bool)
        for parameter in self.trees.parameters():
            found &= parameter.detach().reshape(len(self), -1).isfinite().all(1).numpy()
        return found
