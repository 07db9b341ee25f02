"""From a `HardTrees` layer to a `Forest` and back.

Both compare `x >= threshold` to go right, and a float32 threshold is exactly a float64 one, so routing cannot differ.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from hardwood._typing import Float, Int
from hardwood.errors import reject
from hardwood.forest import LEAF, THRESHOLD, Forest

if TYPE_CHECKING:
    from hardwood.nn._hard_trees import HardTrees


def lower(layer: HardTrees, trees: Sequence[int] | None, **description: Any) -> Forest:
    """Return the layer's trees (all, or those named) as a `Forest`."""
    chosen = _chosen_trees(layer, trees)
    combine: Any = "sum" if layer.combine == "none" else layer.combine
    nodes = 2**layer.depth - 1

    def array(parameter: torch.Tensor) -> np.ndarray:
        return parameter.detach().double().cpu().numpy()[chosen]

    logits, thresholds, values = (array(p) for p in (layer.split_logits, layer.thresholds, layer.leaf_values))
    for name, parameter in (("split_logits", logits), ("thresholds", thresholds), ("leaf_values", values)):
        if not np.isfinite(parameter).all():
            reject(
                name, "nan or inf", "is not finite: there is no tree to read off", "go back to an earlier checkpoint"
            )
    with torch.no_grad():
        leaf_values, leaf_weights = layer._leaves(layer.split_logits)
    selected = logits.argmax(2)[:, :, None]
    column = selected
    if layer.feature_subset is not None:
        column = np.take_along_axis(layer.feature_subset.cpu().numpy()[chosen][:, None, :], selected, 2)
    missing_left = np.ones((len(chosen), nodes), bool)
    if layer.missing_logits is not None:
        missing_left = np.take_along_axis(array(layer.missing_logits), selected, 2)[:, :, 0] < 0

    def with_leaves(at_nodes: np.ndarray, at_leaves: Any) -> np.ndarray:
        return np.pad(at_nodes.reshape(len(chosen), nodes), ((0, 0), (0, nodes + 1)), constant_values=at_leaves).ravel()

    size = 2 * nodes + 1
    first = np.arange(len(chosen))[:, None] * size
    heap = np.arange(nodes)[None, :]
    options: dict[str, Any] = {name: value for name, value in description.items() if value is not None}
    for name in ("feature_names", "feature_types", "output_names"):
        if name in options:
            options[name] = tuple(options[name])
    if "classes" in options:
        options["classes"] = np.asarray(options["classes"])
    if "categories" in options:
        options["categories"] = {key: tuple(values) for key, values in options["categories"].items()}
    weights = None
    if combine == "softmax":
        assert leaf_weights is not None
        weights = array(leaf_weights).ravel()
    return Forest(
        tree_start=np.arange(len(chosen) + 1) * size,
        kind=with_leaves(np.full((len(chosen), nodes), THRESHOLD), LEAF),
        left=with_leaves(first + 2 * heap + 1, -1),
        right=with_leaves(first + 2 * heap + 2, -1),
        feature=with_leaves(column, -1),
        threshold=with_leaves(np.take_along_axis(thresholds, selected, 2), 0.0),
        missing_left=with_leaves(missing_left, False),
        leaf_values=array(leaf_values).reshape(-1, layer.n_outputs),
        n_features=layer.n_features,
        leaf_weights=weights,
        combine=combine,
        **options,
    )


def _chosen_trees(layer: HardTrees, trees: Sequence[int] | None) -> Int[np.ndarray, " trees"]:
    if trees is None:
        if layer.combine == "none" and layer.n_trees > 1:
            reject("trees", None, 'trees with combine="none" are not one model', "name one, as in to_forest(trees=[0])")
        return np.arange(layer.n_trees)
    chosen = np.asarray(trees, dtype=np.int64).reshape(-1)
    if len(chosen) == 0 or chosen.min() < 0 or chosen.max() >= layer.n_trees:
        reject("trees", trees, f"the layer has {layer.n_trees} trees", "use numbers from 0")
    if layer.combine == "none" and len(chosen) > 1:
        reject("trees", trees, 'trees with combine="none" are not one model', "name one at a time")
    return chosen


def lift(
    cls: type[HardTrees], forest: Forest, depth: int | None, strength: float, options: Mapping[str, Any]
) -> HardTrees:
    """Return a layer that starts as `forest`."""
    if not np.isin(forest.kind, (LEAF, THRESHOLD)).all():
        reject("forest", forest, "has category or oblique splits", "train on encoded columns, or use an oblique layer")
    if forest.leaf_coef is not None:
        reject("forest", forest, "has linear leaves", "use a forest with constant leaves")
    if not np.isfinite(forest.threshold).all():
        reject("forest", forest, "has an infinite threshold", "call forest.prune() first")
    if not strength > 0:
        reject("strength", strength, "must be above 0", "use 1.0")
    if options.get("dtype") not in (None, torch.float32, torch.float64):
        reject("dtype", options["dtype"], "cannot hold thresholds exactly", "start in float32, convert later")
    depth = max(1, forest.depth) if depth is None else depth
    if depth < forest.depth:
        reject("depth", depth, f"the forest is {forest.depth} levels deep", f"pass depth={forest.depth} or more")
    layer = cls(
        forest.n_features, forest.n_outputs, forest.n_trees, depth, **{"combine": forest.combine, **options}
    )  # fmt: skip
    if layer.combine not in (forest.combine, "none"):
        reject("combine", layer.combine, f"the forest combines by {forest.combine!r}", 'leave it out, or pass "none"')
    if layer.feature_subset is not None:
        layer.feature_subset.copy_(_subsets_with_splits(forest, layer.feature_subset))
    at = _embed(forest, depth)
    _fill(layer, forest, at, strength)
    return layer


def _subsets_with_splits(forest: Forest, drawn: torch.Tensor) -> torch.Tensor:
    """Return each tree's columns: those it splits on, and as many of the drawn ones as there is room for."""
    size = drawn.shape[1]
    subsets = []
    for tree, others in enumerate(drawn.cpu().numpy()):
        nodes = slice(int(forest.tree_start[tree]), int(forest.tree_start[tree + 1]))
        used = np.unique(forest.feature[nodes][forest.kind[nodes] == THRESHOLD])
        if len(used) > size:
            problem = f"tree {tree} of the forest splits on {len(used)} columns"
            reject("features_per_tree", size, problem, f"pass {len(used)} or more, or leave it out")
        rest = others[~np.isin(others, used)]
        subsets.append(np.sort(np.concatenate([used, rest[: size - len(used)]])))
    return torch.from_numpy(np.stack(subsets).astype(np.int64))


def _embed(forest: Forest, depth: int) -> Int[np.ndarray, "trees places"]:
    """Return the forest's node at each place of complete trees; below a leaf, that leaf again."""
    places = 2 ** (depth + 1) - 1
    at = np.zeros((forest.n_trees, places), np.int64)
    at[:, 0] = forest.tree_start[:-1]
    for place in range(2**depth - 1):
        node = at[:, place]
        inner = forest.kind[node] != LEAF
        at[:, 2 * place + 1] = np.where(inner, forest.left[node], node)
        at[:, 2 * place + 2] = np.where(inner, forest.right[node], node)
    return at


def _fill(layer: HardTrees, forest: Forest, at: np.ndarray, strength: float) -> None:
    nodes = 2**layer.depth - 1
    inner_at, leaf_at = at[:, :nodes], at[:, nodes:]
    splits = forest.kind[inner_at] != LEAF
    subset = np.arange(forest.n_features)[None, :].repeat(forest.n_trees, 0)
    if layer.feature_subset is not None:
        subset = layer.feature_subset.cpu().numpy()
    column = np.where(splits, forest.feature[inner_at], subset[:, :1])
    # Where each split's column stands among its tree's columns.
    feature = np.stack([np.searchsorted(own, wanted) for own, wanted in zip(subset, column, strict=True)])[:, :, None]
    # A feature that a node does not use starts at the mean of its thresholds elsewhere.
    used = forest.kind == THRESHOLD
    count = np.bincount(forest.feature[used], minlength=forest.n_features)
    total = np.bincount(forest.feature[used], forest.threshold[used], minlength=forest.n_features)
    usual = (total / np.maximum(count, 1))[subset]
    thresholds = np.repeat(usual[:, None, :], nodes, axis=1)
    own = np.where(
        splits[:, :, None], forest.threshold[inner_at][:, :, None], np.take_along_axis(thresholds, feature, 2)
    )
    np.put_along_axis(thresholds, feature, own, 2)
    logits = np.zeros_like(thresholds)
    np.put_along_axis(logits, feature, np.where(splits, strength, 0.0)[:, :, None], 2)

    leaf_number = np.cumsum(forest.kind == LEAF) - 1
    values = forest.leaf_values[leaf_number[leaf_at]]
    if forest.base is not None:
        values = values + (forest.base / forest.n_trees if forest.combine == "sum" else forest.base)
    with torch.no_grad():
        layer.split_logits.copy_(torch.from_numpy(logits))
        layer.thresholds.copy_(_round_up(thresholds, layer.thresholds.dtype))
        layer.leaf_values.copy_(torch.from_numpy(values))
        if layer.leaf_weights is not None:
            assert forest.leaf_weights is not None
            layer.leaf_weights.copy_(torch.from_numpy(forest.leaf_weights[leaf_number[leaf_at]]))
        if layer.missing_logits is not None:
            direction = np.where(forest.missing_left[inner_at], -strength, strength)[:, :, None]
            layer.missing_logits.copy_(torch.from_numpy(np.broadcast_to(direction, logits.shape).copy()))
        elif not forest.missing_left[inner_at][splits].all():
            reject("learn_missing", False, "some node sends missing values right", "use learn_missing=True")


def _round_up(thresholds: Float[np.ndarray, "..."], dtype: torch.dtype) -> torch.Tensor:
    """Return the smallest number of the narrower type that is no smaller.

    A row in that type is below the one exactly when it is below the other: `x < t` keeps its meaning.
    """
    exact = torch.from_numpy(thresholds)
    near = exact.to(dtype)
    above = torch.nextafter(near, torch.full_like(near, torch.inf))
    return torch.where(near.double() < exact, above, near)
