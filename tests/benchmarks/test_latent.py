"""The latent trees' benchmarks: gates say what they should, peers' hierarchies are trees, pictures are SVG."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import numpy as np
import pytest
import torch
from benchmarks.latent.clusters import hierarchical_kmeans, peer_tree
from benchmarks.latent.gates import GatedTrees
from benchmarks.latent.glass import curves

from hardwood.ops import dendrogram_purity


def gated(combine: str) -> GatedTrees:
    trees = GatedTrees(4, 2, 3, 3, combine=combine, generator=torch.Generator().manual_seed(0))  # type: ignore[arg-type]
    return trees.arm(0.1)


@pytest.mark.parametrize("combine", ["none", "softmax"])
def test_open_gates_change_nothing_and_closed_ones_cut(combine: str):
    trees = gated(combine)
    plain = trees.leaf_values.detach().clone()
    torch.testing.assert_close(trees._leaves(trees.split_logits)[0], plain)
    with torch.no_grad():
        trees.gates.leaf_values[0, 2] = -0.2  # the root's right child, and all below
    found = trees._leaves(trees.split_logits)[0].detach()
    torch.testing.assert_close(found[1:], plain[1:])
    torch.testing.assert_close(found[0, :4], plain[0, :4])
    torch.testing.assert_close(found[0, 4:], plain[0, 4:].mean(0).expand(4, 2))
    x = torch.randn(20, 4, generator=torch.Generator().manual_seed(1))
    before = trees(x).detach()
    trees.settle()
    if combine == "none":
        torch.testing.assert_close(trees(x).detach(), before)
    assert trees.to_forest([0]).prune().n_leaves <= 5


def test_the_penalty_pulls_open_gates_alone():
    trees = gated("none")
    with torch.no_grad():
        trees.gates.leaf_values[1, 3] = -1
    (trees._leaves(trees.split_logits)[0].sum() * 0).backward()
    wanted = torch.full((3, 7), 0.1)
    wanted[1, 3] = 0
    torch.testing.assert_close(trees.gates.leaf_values.grad, wanted)


@pytest.mark.parametrize("method", ["hkmeans", "birch", "agglomerative-ward"])
def test_peers_are_hierarchies_of_all_rows(method: str):
    x = np.random.default_rng(0).normal(size=(40, 3))
    parent, node_of = peer_tree(method, x, 0)
    assert parent[0] == -1 and (parent[1:] < np.arange(1, len(parent))).all()
    assert node_of.shape == (40,) and node_of.min() >= 0 and node_of.max() < len(parent)
    assert dendrogram_purity(parent, node_of, np.zeros(40)) == pytest.approx(1.0)


def test_kmeans_splits_down_to_single_rows():
    parent, node_of = hierarchical_kmeans(np.arange(6.0)[:, None], 0)
    assert len(np.unique(node_of)) == 6 and len(parent) == 11


def test_the_curve_is_a_picture():
    rng = np.random.default_rng(0)
    root = ET.fromstring(curves({1.0: rng.random((2, 5)), 10.0: rng.random((2, 5))}))
    assert sum(each.tag.endswith("polyline") for each in root.iter()) == 2
