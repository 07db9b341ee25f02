"""Dendrogram purity against its definition, pair by pair."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.cluster.hierarchy import linkage

from hardwood.errors import InvalidArgumentError
from hardwood.ops import dendrogram_purity, parents_of_linkage


def ancestors(parent: np.ndarray, node: int) -> list[int]:
    way = [node]
    while parent[way[-1]] >= 0:
        way.append(int(parent[way[-1]]))
    return way


def by_definition(parent: np.ndarray, node_of: np.ndarray, classes: np.ndarray) -> float:
    values = []
    for i, j in itertools.combinations(range(len(classes)), 2):
        if classes[i] != classes[j]:
            continue
        met = next(node for node in ancestors(parent, node_of[i]) if node in ancestors(parent, node_of[j]))
        below = [row for row in range(len(classes)) if met in ancestors(parent, node_of[row])]
        values.append(np.mean([classes[row] == classes[i] for row in below]))
    return float(np.mean(values))


def random_tree(seed: int, n_nodes: int, n_rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    parent = np.array([-1, *(rng.integers(node) for node in range(1, n_nodes))])
    return parent, rng.integers(n_nodes, size=n_rows), np.append(rng.integers(3, size=n_rows - 2), [0, 0])


@settings(max_examples=30)
@given(st.integers(0, 10**6), st.integers(1, 12), st.integers(3, 16))
def test_exact_is_the_definition(seed: int, n_nodes: int, n_rows: int):
    tree = random_tree(seed, n_nodes, n_rows)
    assert dendrogram_purity(*tree) == pytest.approx(by_definition(*tree), abs=1e-12)


def test_sampled_comes_near_exact():
    tree = random_tree(3, 30, 400)
    assert dendrogram_purity(*tree, n_pairs=40_000) == pytest.approx(dendrogram_purity(*tree), abs=0.01)
    assert dendrogram_purity(*tree, n_pairs=50, random_state=1) == dendrogram_purity(*tree, n_pairs=50, random_state=1)


def test_a_linkage_matrix_is_a_tree():
    """Two far groups whose classes are the groups: every common ancestor is pure."""
    x = np.array([[0.0], [0.1], [0.3], [9.0], [9.2], [9.3]])
    parent = parents_of_linkage(linkage(x, "average"))
    rows = 10 - np.arange(6)
    assert dendrogram_purity(parent, rows, [0, 0, 0, 1, 1, 1]) == 1.0
    mixed = np.array([0, 1, 0, 1, 0, 1])
    assert dendrogram_purity(parent, rows, mixed) == pytest.approx(by_definition(parent, rows, mixed))


@pytest.mark.parametrize(
    ("parent", "rows", "classes", "named"),
    [
        ([-1, 2, 0], [0, 0], [1, 1], "parent"),
        ([-1, 0], [0, 2], [1, 1], "node_of"),
        ([-1, 0], [0, 1], [1, 2], "classes"),
        ([-1, 0], [0, 1], [1], "classes"),
    ],
)
def test_bad_input_is_named(parent: list[int], rows: list[int], classes: list[int], named: str):
    with pytest.raises(InvalidArgumentError, match=named):
        dendrogram_purity(np.array(parent), np.array(rows), classes)
