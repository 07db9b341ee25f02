"""How leaves become outputs, and outputs become predictions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hardwood._typing import Float, Int

if TYPE_CHECKING:
    from hardwood.forest._forest import Forest, Link

# Up to here exp(weight), times any sensible leaf value, is far from overflow and keeps its full precision.
_LARGEST_WEIGHT = 300.0


def has_large_weights(forest: Forest) -> bool:
    """Tell whether leaf weights are so large that their softmax has to be taken row by row."""
    return forest.leaf_weights is not None and bool(np.abs(forest.leaf_weights).max() > _LARGEST_WEIGHT)


def summands(
    forest: Forest,
) -> tuple[Float[np.ndarray, "leaves summands"], Float[np.ndarray, "leaves features summands"] | None]:
    """Return what each leaf adds to a row's sums over trees: constants, and coefficients of linear leaves.

    A softmax over trees is a quotient of two such sums: the last column is then exp(weight), taken once per leaf here
    instead of once per row and tree, and the other columns are weighed by it. It is not taken relative to the largest
    weight of all, so that a leaf adds the same in a forest of which other leaves were pruned away.
    """
    if forest.combine != "softmax" or has_large_weights(forest):
        return forest.leaf_values, forest.leaf_coef
    assert forest.leaf_weights is not None
    weight = np.exp(forest.leaf_weights)[:, None]
    values = np.concatenate([forest.leaf_values * weight, weight], axis=1)
    if forest.leaf_coef is None:
        coef = None
    else:
        weighed = forest.leaf_coef * weight[:, :, None]
        coef = np.concatenate([weighed, np.zeros((*weighed.shape[:2], 1))], axis=2)
    return values, coef


def start_sums(forest: Forest, rows: int, summands: int) -> Float[np.ndarray, "rows summands"]:
    """Return where the sums over trees start: a plain sum from `base`, as boosting adds its trees to a first guess."""
    sums = np.zeros((rows, summands))
    if forest.combine == "sum" and forest.base is not None:
        sums += forest.base
    return sums


def finish_sums(forest: Forest, sums: Float[np.ndarray, "rows summands"]) -> Float[np.ndarray, "rows outputs"]:
    """Turn the sums over trees into outputs, `base` included."""
    if forest.combine == "mean":
        sums /= forest.n_trees
    elif forest.combine == "softmax":
        sums = sums[:, :-1] / sums[:, -1:]
    if forest.combine != "sum" and forest.base is not None:
        sums += forest.base
    return sums


def chosen_classes(forest: Forest, outputs: Float[np.ndarray, "rows outputs"]) -> Int[np.ndarray, " rows"]:
    """Return the position of the most probable class, the first on ties.

    Links keep the order of outputs, and outputs tell apart what probabilities round to the same number.
    """
    if forest.link == "sigmoid":
        return (outputs[:, 0] > 0).astype(np.int64)
    return outputs.argmax(axis=1)


def softmax(scores: Float[np.ndarray, "rows entries"]) -> Float[np.ndarray, "rows entries"]:
    """Return the softmax along the last axis."""
    with np.errstate(invalid="ignore"):
        raised = np.exp(scores - scores.max(axis=1, keepdims=True))
        return raised / raised.sum(axis=1, keepdims=True)


def sigmoid(scores: Float[np.ndarray, "rows entries"]) -> Float[np.ndarray, "rows entries"]:
    """Return 1 / (1 + exp(-score)), without overflow."""
    small = np.exp(-np.abs(scores))
    return np.where(scores >= 0, 1.0, small) / (1.0 + small)


def apply_link(link: Link, outputs: Float[np.ndarray, "rows outputs"]) -> Float[np.ndarray, "rows outputs"]:
    """Turn outputs into predictions."""
    if link == "sigmoid":
        return sigmoid(outputs)
    if link == "softmax":
        return softmax(outputs)
    if link == "exp":
        with np.errstate(over="ignore"):
            return np.exp(outputs)
    return outputs


def probabilities(forest: Forest, outputs: Float[np.ndarray, "rows outputs"]) -> Float[np.ndarray, "rows classes"]:
    """Turn a classifier's outputs into one probability per class."""
    linked = apply_link(forest.link, outputs)
    if forest.link == "sigmoid":
        return np.concatenate([1.0 - linked, linked], axis=1)
    return linked
