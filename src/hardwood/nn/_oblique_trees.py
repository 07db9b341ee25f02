"""`ObliqueTrees`: complete trees whose splits are hyperplanes, trained by a relaxed loss and read off as hard trees."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from hardwood._numba import run_chunks
from hardwood._typing import Float, Int
from hardwood.errors import reject
from hardwood.forest import LEAF, OBLIQUE, THRESHOLD, Forest
from hardwood.ops import MAX_DEPTH
from hardwood.ops._oblique import LeafLoss, Relaxation, relaxed_oblique_loss

Leaf = Literal["constant", "linear"]


class ObliqueTrees(nn.Module):
    """Oblique trees side by side. A row goes left at a node where `split_weights @ x < threshold`, on a tie right.

    `forward` gives hard answers, and has gradients for the leaves only; `relaxed_loss` is what splits learn from. The
    hard route sums up in float64, in column order and without weights of zero, as a `Forest` does, so `to_forest` sends
    every row to the same leaf.

    >>> trees = ObliqueTrees(n_features=3, n_outputs=1, n_trees=2, depth=2)
    >>> trees(torch.zeros(5, 3)).shape
    torch.Size([5, 2, 1])

    Args:
        n_features: columns.
        n_outputs: numbers that a leaf answers.
        n_trees: trees side by side.
        depth: levels of splits.
        leaf: "constant", or "linear" for leaves with a coefficient for each column and output.
        generator: of the first parameters: directions drawn evenly, thresholds and leaves 0.
        dtype: of the parameters.
    """

    leaf_coef: nn.Parameter | None

    def __init__(
        self,
        n_features: int,
        n_outputs: int,
        n_trees: int,
        depth: int,
        *,
        leaf: Leaf = "constant",
        generator: torch.Generator | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        for name, value in (("n_features", n_features), ("n_outputs", n_outputs), ("n_trees", n_trees)):
            if value < 1:
                reject(name, value, "must be at least 1", f"pass {name}=1 or more")
        if not 1 <= depth <= MAX_DEPTH:
            reject("depth", depth, f"must be from 1 to {MAX_DEPTH}", "pass depth=8 or less")
        if leaf not in ("constant", "linear"):
            reject("leaf", leaf, "is not known", "choose 'constant' or 'linear'")
        self.n_features, self.n_outputs, self.n_trees, self.depth = n_features, n_outputs, n_trees, depth
        self.leaf: Leaf = leaf
        nodes, leaves = 2**depth - 1, 2**depth
        directions = torch.randn(n_trees, nodes, n_features, generator=generator, dtype=dtype)
        self.split_weights = nn.Parameter(directions / directions.norm(dim=2, keepdim=True).clamp_min(1e-12))
        self.thresholds = nn.Parameter(torch.zeros(n_trees, nodes, dtype=dtype))
        self.leaf_values = nn.Parameter(torch.zeros(n_trees, leaves, n_outputs, dtype=dtype))
        if leaf == "linear":
            self.leaf_coef = nn.Parameter(torch.zeros(n_trees, leaves, n_outputs, n_features, dtype=dtype))
        else:
            self.register_parameter("leaf_coef", None)

    def leaves(self, x: Float[Tensor, "rows features"]) -> Int[Tensor, "rows trees"]:
        """Return the leaf, counted from the left, that each row reaches in each tree."""
        from hardwood.ops._cpu_oblique import hard_leaves

        if x.shape[1] != self.n_features:
            reject("x.shape[1]", x.shape[1], f"must be {self.n_features}", "pass the columns of training")
        rows = x.detach().cpu().contiguous().numpy()
        weights = self.split_weights.detach().cpu().contiguous().numpy()
        thresholds = self.thresholds.detach().cpu().contiguous().numpy()
        reached = np.empty((len(rows), self.n_trees), np.int64)

        def work(start: int, stop: int) -> None:
            hard_leaves(start, stop, rows, weights, thresholds, self.depth, reached)

        run_chunks(work, len(rows), torch.get_num_threads(), smallest=1024)
        return torch.from_numpy(reached).to(x.device)

    def forward(self, x: Float[Tensor, "rows features"]) -> Float[Tensor, "rows trees outputs"]:
        """Return what each hard tree answers."""
        reached = self.leaves(x)
        tree = torch.arange(self.n_trees, device=x.device)
        answers = self.leaf_values[tree, reached]
        if self.leaf_coef is not None:
            answers = answers + torch.einsum("rf,rtof->rto", x.to(answers.dtype), self.leaf_coef[tree, reached])
        return answers

    def relaxed_loss(
        self,
        x: Float[Tensor, "rows features"],
        y: Float[Tensor, "rows outputs"],
        *,
        scale: float,
        relaxation: Relaxation = "sigmoid",
        leaf_loss: LeafLoss = "squared_error",
        skip: float = 0.0,
    ) -> Float[Tensor, "rows trees"]:
        """Return the loss that splits and leaves learn from; `hardwood.ops.relaxed_oblique_loss` says what it is."""
        parameters = (self.split_weights, self.thresholds, self.leaf_values, self.leaf_coef)
        return relaxed_oblique_loss(
            x, y, *parameters, scale=scale, relaxation=relaxation, leaf_loss=leaf_loss, skip=skip
        )

    def take(self, trees: Sequence[int]) -> ObliqueTrees:
        """Return a copy of some of the trees."""
        chosen = torch.as_tensor(list(trees), dtype=torch.long)
        dtype = self.thresholds.dtype
        copy = ObliqueTrees(self.n_features, self.n_outputs, len(chosen), self.depth, leaf=self.leaf, dtype=dtype)
        with torch.no_grad():
            for mine, other in zip(copy.parameters(), self.parameters(), strict=True):
                mine.copy_(other[chosen])
        return copy

    # ---------------------------------------------------------------- forests

    def to_forest(self, tree: int = 0, **description: Any) -> Forest:
        """Return one tree as a `Forest` on the columns of `x`, whose further fields `description` gives."""
        if not 0 <= tree < self.n_trees:
            reject("tree", tree, f"the layer has {self.n_trees} trees", "count from 0")
        arrays = [
            each.detach().double().cpu().numpy()[tree]
            for each in (self.split_weights, self.thresholds, self.leaf_values)
        ]
        coef = None if self.leaf_coef is None else self.leaf_coef[tree].detach().double().cpu().numpy()
        linear = None if coef is None else coef.transpose(0, 2, 1)
        return oblique_forest(arrays[0], arrays[1], arrays[2], linear, **description)

    @classmethod
    def from_forest(cls, forest: Forest, *, depth: int | None = None, leaf: Leaf = "constant") -> ObliqueTrees:
        """Return a layer that starts as the trees of a forest, each at the same answers.

        A leaf above the last level becomes a split that sends all rows left, with the same answer everywhere below.
        Splits by category are refused, and linear leaves need `leaf="linear"`.
        """
        depth = max(1, forest.depth) if depth is None else depth
        if depth < forest.depth:
            reject("depth", depth, f"the forest is {forest.depth} levels deep", f"pass depth={forest.depth} or more")
        if not np.isin(forest.kind, (LEAF, THRESHOLD, OBLIQUE)).all():
            reject("forest", forest, "has splits by category", "encode the categories as columns of numbers")
        if forest.leaf_coef is not None and leaf == "constant":
            reject("leaf", leaf, "cannot hold the forest's linear leaves", "pass leaf='linear'")
        if forest.n_trees > 1 and (forest.combine == "softmax" or forest.base is not None):
            reject(
                "forest", forest, "combines its trees by more than a sum or a mean", "pass one tree, as in forest[0]"
            )
        layer = cls(forest.n_features, forest.n_outputs, forest.n_trees, depth, leaf=leaf, dtype=torch.float64)
        nodes = 2**depth - 1
        at = np.zeros((forest.n_trees, 2 * nodes + 1), np.int64)
        at[:, 0] = forest.tree_start[:-1]
        for place in range(nodes):
            inner = forest.kind[at[:, place]] != LEAF
            at[:, 2 * place + 1] = np.where(inner, forest.left[at[:, place]], at[:, place])
            at[:, 2 * place + 2] = np.where(inner, forest.right[at[:, place]], at[:, place])
        weights = np.zeros((forest.n_trees, nodes, forest.n_features))
        thresholds = np.full((forest.n_trees, nodes), np.finfo(np.float32).max, np.float64)
        for tree, place in np.ndindex(forest.n_trees, nodes):
            node = at[tree, place]
            if forest.kind[node] == LEAF:
                continue
            thresholds[tree, place] = forest.threshold[node]
            if forest.kind[node] == THRESHOLD:
                weights[tree, place, forest.feature[node]] = 1.0
            else:
                assert forest.weight_start is not None and forest.weight_feature is not None
                assert forest.weight_value is not None
                own = slice(forest.weight_start[node], forest.weight_start[node + 1])
                weights[tree, place, forest.weight_feature[own]] = forest.weight_value[own]
        number = forest._leaf_index[at[:, nodes:]]
        values = forest.leaf_values[number]
        if forest.base is not None:
            values = values + forest.base
        with torch.no_grad():
            layer.split_weights.copy_(torch.from_numpy(weights))
            layer.thresholds.copy_(torch.from_numpy(thresholds))
            layer.leaf_values.copy_(torch.from_numpy(values))
            if layer.leaf_coef is not None and forest.leaf_coef is not None:
                layer.leaf_coef.copy_(torch.from_numpy(forest.leaf_coef[number].transpose(0, 1, 3, 2).copy()))
        return layer


def oblique_forest(
    split_weights: Float[np.ndarray, "nodes features"],
    thresholds: Float[np.ndarray, " nodes"],
    leaf_values: Float[np.ndarray, "leaves outputs"],
    leaf_coef: Float[np.ndarray, "leaves features outputs"] | None = None,
    *,
    missing_left: np.ndarray | None = None,
    **description: Any,
) -> Forest:
    """Return a complete oblique tree in heap order as a `Forest`; weights of zero are not stored."""
    nodes = len(thresholds)
    for name, values in (("split_weights", split_weights), ("thresholds", thresholds), ("leaf_values", leaf_values)):
        if not np.isfinite(values).all():
            reject(name, "nan or inf", "is not finite: there is no tree to read off", "train with a lower rate")
    heap = np.arange(nodes)

    def with_leaves(at_nodes: np.ndarray, at_leaves: Any) -> np.ndarray:
        return np.pad(at_nodes, (0, nodes + 1), constant_values=at_leaves)

    used = split_weights != 0
    # A split needs a weight, even if it looks at nothing.
    used[~used.any(axis=1), 0] = True
    counts = np.concatenate([used.sum(axis=1), np.zeros(nodes + 1, np.int64)])
    return Forest(
        tree_start=np.array([0, 2 * nodes + 1]),
        kind=with_leaves(np.full(nodes, OBLIQUE), LEAF),
        left=with_leaves(2 * heap + 1, -1),
        right=with_leaves(2 * heap + 2, -1),
        feature=np.full(2 * nodes + 1, -1),
        threshold=with_leaves(thresholds, 0.0),
        missing_left=with_leaves(np.zeros(nodes, bool) if missing_left is None else missing_left, False),
        leaf_values=leaf_values,
        leaf_coef=leaf_coef,
        n_features=split_weights.shape[1],
        weight_start=np.concatenate([[0], np.cumsum(counts)]),
        weight_feature=np.nonzero(used)[1],
        weight_value=split_weights[used],
        **description,
    )
