"""The soft tree against its definition, node by node."""

from __future__ import annotations

import pytest
import torch

from hardwood.nn import SoftTree


def test_the_output_is_the_mean_of_leaves_by_the_products_of_shares():
    tree = SoftTree(3, 2, depth=3, temperature=0.5, generator=torch.Generator().manual_seed(0))
    x = torch.randn(7, 3)
    for row, output in zip(x, tree(x), strict=True):
        expected = torch.zeros(2)
        for leaf in range(8):
            share, node = torch.ones(()), 0
            for level in reversed(range(3)):
                right = torch.sigmoid((row @ tree.split_weights[:, node] + tree.split_bias[node]) / 0.5)
                goes_right = leaf >> level & 1
                share = share * (right if goes_right else 1 - right)
                node = 2 * node + 1 + goes_right
            expected = expected + share * tree.leaf_values[leaf]
        torch.testing.assert_close(output, expected)


def test_hard_splits_are_where_the_strongest_feature_alone_is_even():
    tree = SoftTree(4, 1, depth=2, generator=torch.Generator().manual_seed(1))
    feature, threshold, goes_left = tree.hard_splits()
    weights, bias = tree.split_weights.detach(), tree.split_bias.detach()
    for node in range(3):
        strongest = int(weights[:, node].abs().argmax())
        assert feature[node] == strongest
        assert weights[strongest, node] * threshold[node] + bias[node] == pytest.approx(0, abs=1e-6)
        assert goes_left[node] == (weights[strongest, node] < 0)


@pytest.mark.parametrize(("given", "message"), [({"depth": 0}, "depth=0"), ({"temperature": 0.0}, "temperature=0")])
def test_what_cannot_be_is_refused(given: dict, message: str):
    with pytest.raises(ValueError, match=message):
        SoftTree(2, 1, **given)
