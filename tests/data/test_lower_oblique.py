"""Oblique splits and linear leaves, lowered to raw units."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hardwood.data import TableEncoder
from hardwood.errors import InvalidArgumentError
from hardwood.forest import LEAF, OBLIQUE, THRESHOLD, Forest


def oblique(n_features: int, depth: int, seed: int) -> Forest:
    """A complete tree of random oblique splits with linear leaves, preorder numbers."""
    rng = np.random.default_rng(seed)
    kind, left, right = [], [], []

    def add(level: int) -> int:
        at = len(kind)
        kind.append(OBLIQUE if level else LEAF)
        left.append(-1)
        right.append(-1)
        if level:
            left[at] = add(level - 1)
            right[at] = add(level - 1)
        return at

    add(depth)
    inner = np.array(kind) == OBLIQUE
    n_leaves = int((~inner).sum())
    return Forest(
        tree_start=np.array([0, len(kind)]), kind=np.array(kind), left=np.array(left), right=np.array(right),
        feature=np.full(len(kind), -1), threshold=np.where(inner, rng.normal(size=len(kind)), 0.0),
        missing_left=np.zeros(len(kind), bool), leaf_values=rng.normal(size=(n_leaves, 2)), n_features=n_features,
        weight_start=np.concatenate([[0], np.cumsum(np.where(inner, n_features, 0))]),
        weight_feature=np.tile(np.arange(n_features), int(inner.sum())),
        weight_value=rng.normal(size=n_features * int(inner.sum())),
        leaf_coef=rng.normal(size=(n_leaves, n_features, 2)),
    )  # fmt: skip


@pytest.mark.parametrize("numeric", ["standard", "identity"])
@pytest.mark.parametrize("depth", [0, 1, 4])
def test_raw_rows_are_answered_as_encoded_ones(numeric: str, depth: int):
    rng = np.random.default_rng(depth)
    X = (rng.normal(size=(400, 3)) * [1.0, 20.0, 0.1] + [1.0, -4.0, 0.3]).astype(np.float32).astype(np.float64)
    encoder = TableEncoder(numeric=numeric)  # type: ignore[arg-type]
    encoded = encoder.fit_transform(X).astype(np.float64)
    assert encoder.is_linear
    forest = oblique(3, depth, seed=1)
    lowered = encoder.lower(forest)
    same = lowered.apply(X)[:, 0] == forest.apply(encoded)[:, 0]
    assert same.mean() > 0.99  # encoding rounds
    np.testing.assert_allclose(lowered.outputs(X)[same], forest.outputs(encoded)[same], rtol=1e-4, atol=1e-4)
    assert lowered.feature_names == encoder.columns.names


def test_what_has_no_raw_units_is_refused():
    X = np.random.default_rng(0).normal(size=(50, 3))
    encoder = TableEncoder()
    encoder.fit_transform(X)
    assert not encoder.is_linear
    with pytest.raises(InvalidArgumentError, match="not all columns are encoded linearly"):
        encoder.lower(oblique(3, 1, 0))
    encoder = TableEncoder(numeric="standard")
    encoder.fit_transform(X)
    with pytest.raises(InvalidArgumentError, match=r"makes 3"):
        encoder.lower(oblique(4, 1, 0))
    mixed = oblique(3, 2, 0)
    kind = mixed.kind.copy()
    kind[1], feature, counts = THRESHOLD, mixed.feature.copy(), np.diff(mixed.weight_start)
    feature[1], counts[1] = 0, 0
    first, last = mixed.weight_start[1], mixed.weight_start[2]
    keep = np.r_[0:first, last : len(mixed.weight_feature)]
    mixed = replace(
        mixed, kind=kind, feature=feature, weight_start=np.concatenate([[0], np.cumsum(counts)]),
        weight_feature=mixed.weight_feature[keep], weight_value=mixed.weight_value[keep],
    )  # fmt: skip
    with pytest.raises(InvalidArgumentError, match="beside oblique ones"):
        encoder.lower(mixed)
