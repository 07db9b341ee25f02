"""From a forest of oblique splits and linear leaves on encoded columns to the same on raw columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from hardwood._typing import Float
from hardwood.data._categories import CategoryCells
from hardwood.data._columns import Columns
from hardwood.data._monotone import Identity, Monotone, Standard
from hardwood.errors import reject
from hardwood.forest import LEAF, OBLIQUE, Forest


def linear_maps(
    parts: Sequence[Monotone | CategoryCells],
) -> tuple[Float[np.ndarray, " columns"], Float[np.ndarray, " columns"]] | None:
    """Return mean and scale of each column if each is encoded as `(x - mean) / scale`, else None."""
    if not all(isinstance(part, (Identity, Standard)) for part in parts):
        return None
    pairs = [(part.mean, part.scale) if isinstance(part, Standard) else (0.0, 1.0) for part in parts]
    mean, scale = np.array(pairs, np.float64).reshape(-1, 2).T
    return mean.copy(), scale.copy()


def lower_oblique(forest: Forest, columns: Columns, parts: Sequence[Monotone | CategoryCells]) -> Forest:
    """Return a forest of oblique splits and linear leaves in raw units; every column must be encoded linearly.

    Both say the same, but for what rounding does to rows that lie on a split: encoding rounds to float32. Cells must
    be there: a missing one sends a row to the same side, but in linear leaves counts as 0 in the units it is read in.
    """
    maps = linear_maps(parts)
    if maps is None:
        remedy = "encode by numeric='standard' or 'identity' and without categories, or lower axis-aligned splits only"
        reject(
            "forest", forest, "has oblique splits or linear leaves, and not all columns are encoded linearly", remedy
        )
    if not np.isin(forest.kind, (LEAF, OBLIQUE)).all():
        reject("forest", forest, "has splits on one column beside oblique ones", "lower forests of one kind of split")
    mean, scale = maps
    if forest.n_features != len(scale):
        problem = f"has {forest.n_features} column(s), but the encoder makes {len(scale)}"
        reject("forest", forest, problem, "pass a forest on this encoder's columns")
    threshold, values, weights = forest.threshold.copy(), forest.leaf_values, forest.weight_value
    if forest.weight_start is not None and forest.weight_feature is not None and weights is not None:
        weights = weights / scale[forest.weight_feature]
        node_of = np.repeat(np.arange(forest.node_count), np.diff(forest.weight_start))
        shift = np.bincount(node_of, weights * mean[forest.weight_feature], minlength=forest.node_count)
        threshold = np.where(forest.kind == OBLIQUE, threshold + shift, threshold)
    coef = forest.leaf_coef
    if coef is not None:
        coef = coef / scale[:, None]
        values = values - np.einsum("lfo,f->lo", coef, mean)
    return replace(
        forest,
        threshold=threshold,
        weight_value=weights,
        leaf_values=values,
        leaf_coef=coef,
        feature_names=columns.names,
        feature_types=columns.types,
        categories=columns.categories,
    )
