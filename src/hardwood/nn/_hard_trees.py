"""`HardTrees`: hard, axis-aligned trees as a PyTorch layer."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn

from hardwood._typing import Bool, Float, Int
from hardwood.errors import reject
from hardwood.forest import Forest
from hardwood.nn._initial import INITS, Init, draw, draw_subsets
from hardwood.ops import TreeOutputs, hard_trees
from hardwood.ops._contract import COMBINES, MAX_DEPTH, SPLITS, Combine, Split

LayerSelection = Literal["entmax", "softmax", "gumbel", "annealed"]
_SELECTIONS = ("entmax", "softmax", "gumbel", "annealed")


class HardTrees(nn.Module):
    """Trees in the papers' dense representation: hard in every forward pass, trained by straight-through gradients.

    Called on `(rows, n_features)` it returns `(rows, n_outputs)`; NaN is a missing value. It can stand anywhere in a
    network: gradients reach its input too. `to_forest()` gives the same trees as a `Forest` at any time.

    >>> layer = HardTrees(n_features=4, n_outputs=3, n_trees=8, depth=3)
    >>> layer(torch.randn(5, 4)).shape
    torch.Size([5, 3])

    Args:
        n_features: columns of the input.
        n_outputs: columns of the output.
        n_trees: trees side by side.
        depth: levels of splits of each tree, 1 to 16; a tree has `2**depth` leaves.
        combine: "softmax" weighs trees by the weights of the leaves that the row reaches (GRANDE; the default for more
            than one tree), "mean", "sum", or "none": the output is then `(rows, n_trees, n_outputs)`.
        selection: how a node's choice of feature passes gradients: "entmax" or "softmax", straight-through; "gumbel",
            with Gumbel noise at `temperature` while training; "annealed", with no straight-through step: while
            training, a node splits on the entmax mixture of features at `temperature`. In eval mode a node splits on
            its strongest feature, whatever the selection.
        split: "sigmoid" (GradTree), "softsign" (GRANDE) or "entmoid": how the pull on a split falls with distance.
        learn_missing: learn where a missing value goes, at each node for each feature. Otherwise it goes left.
        features_per_tree: how many columns, drawn at random, each tree may split on; all by default.
        monotone: 1, -1 or 0 for every column: outputs never fall, or never rise, while a row moves along it from number
            to number. Holds to the last bit, at every step of training, for every output and before any link; with
            "annealed" selection, in eval mode. Leaves get the middle of the values that bound them, and under "softmax"
            those between which a row can so move share their mean weight (`ops._monotone_leaves`).
        init: "glorot" or "normal", the papers' two ways to draw first parameters.
        temperature: of "gumbel" and "annealed"; a plain attribute to lower during training.
        generator: source of the random first parameters, feature subsets and Gumbel noise; torch's own by default.
    """

    leaf_weights: nn.Parameter | None
    missing_logits: nn.Parameter | None
    feature_subset: Tensor | None
    _direction: Tensor | None

    def __init__(
        self,
        n_features: int,
        n_outputs: int,
        n_trees: int = 1,
        depth: int = 5,
        *,
        combine: Combine | None = None,
        selection: LayerSelection = "entmax",
        split: Split = "sigmoid",
        learn_missing: bool = True,
        features_per_tree: int | None = None,
        monotone: Sequence[int] | None = None,
        init: Init = "glorot",
        temperature: float = 1.0,
        generator: torch.Generator | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        dtype = dtype or torch.get_default_dtype()
        device = torch.device(device) if device is not None else torch.get_default_device()
        for name, size in (("n_features", n_features), ("n_outputs", n_outputs), ("n_trees", n_trees)):
            if size < 1:
                reject(name, size, "must be at least 1", f"pass {name}=1 or more")
        combine = combine or ("softmax" if n_trees > 1 else "mean")
        for name, value, allowed in (
            ("combine", combine, COMBINES), ("selection", selection, _SELECTIONS), ("split", split, SPLITS),
            ("init", init, INITS),
        ):  # fmt: skip
            if value not in allowed:
                reject(name, value, "is not known", "choose one of " + ", ".join(map(repr, allowed)))
        if not temperature > 0:
            reject("temperature", temperature, "must be above 0", "use 1.0, and lower it while training")
        chosen = n_features if features_per_tree is None else features_per_tree
        if not 1 <= chosen <= n_features:
            reject("features_per_tree", chosen, f"must be 1 to {n_features}", "leave it out to use all features")
        _check_depth(depth, n_trees, chosen, n_outputs, dtype, device)
        if monotone is not None:
            _check_directions(monotone, n_features)

        self.n_features, self.n_outputs, self.n_trees, self.depth = n_features, n_outputs, n_trees, depth
        self.combine, self.selection, self.split = combine, selection, split
        self.temperature = temperature
        self.monotone = None if monotone is None else tuple(int(each) for each in monotone)
        self._generator = generator
        nodes, leaves = 2**depth - 1, 2**depth

        def parameter(*shape: int) -> nn.Parameter:
            return nn.Parameter(draw(shape, init, generator, dtype, device))

        self.split_logits = parameter(n_trees, nodes, chosen)
        self.thresholds = parameter(n_trees, nodes, chosen)
        self.leaf_values = parameter(n_trees, leaves, n_outputs)
        self.register_parameter("leaf_weights", parameter(n_trees, leaves) if combine == "softmax" else None)
        self.register_parameter("missing_logits", parameter(n_trees, nodes, chosen) if learn_missing else None)
        subset = None if chosen == n_features else draw_subsets(n_trees, n_features, chosen, generator, device)
        self.register_buffer("feature_subset", subset)
        # A setting, not a state: parameters of a layer without constraints can be loaded.
        direction = torch.tensor(self.monotone, device=device) if any(self.monotone or ()) else None
        self.register_buffer("_direction", direction, persistent=False)

    def forward(
        self, x: Float[Tensor, "rows features"], tree_mask: Bool[Tensor, "rows_or_1 trees"] | None = None
    ) -> Float[Tensor, "..."]:
        """Return the trees' combined output; `tree_mask` leaves trees out (dropout, data subsets)."""
        return self._evaluate(x, self.combine, tree_mask).output

    def tree_outputs(self, x: Float[Tensor, "rows features"]) -> TreeOutputs:
        """Return every tree's own output, its leaf, and the weight of that leaf (None without leaf weights)."""
        return self._evaluate(x, "none", None)

    def leaf_index(self, x: Float[Tensor, "rows features"]) -> Int[Tensor, "rows trees"]:
        """Return which leaf each row reaches in each tree, counted from the left."""
        with torch.no_grad():
            return self._evaluate(x, "none", None).leaf_index

    def _evaluate(self, x: Tensor, combine: Combine, tree_mask: Tensor | None) -> TreeOutputs:
        logits: Tensor = self.split_logits
        softened = False
        selection: Any = self.selection
        if selection == "gumbel":
            selection = "softmax"
            if self.training:
                uniform = torch.rand(logits.shape, generator=self._generator, dtype=logits.dtype, device=logits.device)
                noise = -torch.log(-torch.log(uniform.clamp(min=torch.finfo(logits.dtype).tiny)))
                logits = (logits + noise) / self.temperature
        elif selection == "annealed":
            selection = "entmax"
            if self.training:
                logits, softened = logits / self.temperature, True
        values, weights = self._leaves(logits)
        return hard_trees(
            x,
            logits,
            self.thresholds,
            values,
            leaf_weights=weights,
            missing_logits=self.missing_logits,
            feature_subset=self.feature_subset,
            tree_mask=tree_mask,
            combine=combine,
            selection=selection,
            split=self.split,
            soft_selection=softened,
        )

    def _leaves(self, split_logits: Tensor) -> tuple[Tensor, Tensor | None]:
        """Return the leaf values and leaf weights that count: the parameters, or what `monotone` makes of them."""
        if self._direction is None:
            return self.leaf_values, self.leaf_weights
        from hardwood.ops._monotone_leaves import monotone_leaves

        return monotone_leaves(
            split_logits,
            self.thresholds,
            self.leaf_values,
            self._direction,
            leaf_weights=self.leaf_weights,
            missing_logits=self.missing_logits,
            feature_subset=self.feature_subset,
        )

    def to_forest(
        self,
        trees: Sequence[int] | None = None,
        *,
        feature_names: Iterable[str] | None = None,
        feature_types: Sequence[str] | None = None,
        categories: Mapping[int, Sequence[Any]] | None = None,
        classes: Any = None,
        output_names: Sequence[str] | None = None,
        link: str = "identity",
    ) -> Forest:
        """Return the trees as they are now, as a `Forest` that sends every row the same way.

        With `combine="none"` the trees are not one model: name in `trees` the one that you want.
        The other arguments describe the columns and the output; the forest keeps them.
        """
        from hardwood.nn._lowering import lower

        return lower(
            self,
            trees,
            feature_names=feature_names,
            feature_types=feature_types,
            categories=categories,
            classes=classes,
            output_names=output_names,
            link=link,
        )

    @classmethod
    def from_forest(
        cls, forest: Forest, *, depth: int | None = None, strength: float = 1.0, **options: Any
    ) -> HardTrees:
        """Return a layer that starts as `forest`, which may come from any library; its splits must be axis-aligned.

        Args:
            forest: the trees to start from. Its link is not part of the layer.
            depth: levels of the layer's trees; by default those of the deepest tree.
            strength: the split logit of each node's own feature, the others having 0. Under entmax a node with 2 or
                more never changes its feature; with less, training may.
            options: passed on to `HardTrees`, such as `split`, `device` or `dtype`. With `combine="none"` the trees go
                their own ways; with `features_per_tree` each keeps the columns it splits on, and draws the rest. With
                `monotone` the layer starts as the forest if that keeps it, and otherwise with leaves moved.
        """
        from hardwood.nn._lowering import lift

        return lift(cls, forest, depth, strength, options)

    def extra_repr(self) -> str:
        """Return the layer's settings, for `print`."""
        shown = f"n_features={self.n_features}, n_outputs={self.n_outputs}, n_trees={self.n_trees}, depth={self.depth}"
        monotone = "" if self.monotone is None else f", monotone={self.monotone}"
        return f"{shown}, combine={self.combine!r}, selection={self.selection!r}, split={self.split!r}{monotone}"


def _check_depth(
    depth: int, n_trees: int, n_features: int, n_outputs: int, dtype: torch.dtype, device: torch.device
) -> None:
    if not 1 <= depth <= MAX_DEPTH:
        reject("depth", depth, f"must be 1 to {MAX_DEPTH}", "a complete tree doubles with every level; try 5")
    numbers = n_trees * 2**depth * (3 * n_features + n_outputs + 1)
    # Parameters, their gradients, and Adam's two averages.
    needed = 4 * numbers * dtype.itemsize
    if device.type == "cuda":
        available = torch.cuda.get_device_properties(device).total_memory
    elif hasattr(os, "sysconf"):
        available = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    else:
        return
    if needed > available:
        reject(
            "depth", depth, f"training {n_trees} such trees takes {needed / 2**30:.0f} GiB, more than this machine has",
            "use a smaller depth, fewer trees, or features_per_tree",
        )  # fmt: skip


def _check_directions(monotone: Sequence[int], n_features: int) -> None:
    if len(monotone) != n_features:
        problem = f"has {len(monotone)} entries for {n_features} columns"
        reject("monotone", monotone, problem, "pass one for each column")
    for column, each in enumerate(monotone):
        if each not in (-1, 0, 1):
            reject(f"monotone[{column}]", each, "is no direction", "use 1 (never falls), -1 (never rises) or 0")
