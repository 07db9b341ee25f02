"""`dendrogram_purity`: how pure the least common ancestors of rows of the same class are."""

from __future__ import annotations

from typing import Any

import numpy as np

from hardwood._typing import Float, Int
from hardwood.errors import reject


def dendrogram_purity(
    parent: Int[np.ndarray, " nodes"],
    node_of: Int[np.ndarray, " rows"],
    classes: Any,
    *,
    n_pairs: int | None = None,
    random_state: int = 0,
) -> float:
    """Return the expected share of a class below the least common ancestor of two of its rows.

    All pairs of different rows of the same class count alike. Rows at the same node have that node as their least
    common ancestor. The exact number takes O(nodes x classes + rows), whatever the number of pairs.

    >>> tree = np.array([-1, 0, 0])
    >>> dendrogram_purity(tree, np.array([1, 1, 2, 2]), ["a", "a", "b", "b"])
    1.0

    Args:
        parent: the parent of each node, which stands before it; -1 for the root. `parents_of_linkage` makes it of
            SciPy's linkage matrix.
        node_of: the node at which each row ends.
        classes: the true class of each row.
        n_pairs: take so many pairs drawn at random instead of all; None is exact.
        random_state: seed of the draw.
    """
    parent, node_of = np.asarray(parent, np.int64), np.asarray(node_of, np.int64)
    n_nodes = len(parent)
    if n_nodes == 0 or parent[0] != -1 or (parent[1:] < 0).any() or (parent[1:] >= np.arange(1, n_nodes)).any():
        reject("parent", parent.tolist(), "has a node before its parent, or not one root", "number from the root down")
    _, codes = np.unique(np.asarray(classes), return_inverse=True)
    if codes.shape != node_of.shape:
        reject("classes", f"{len(codes)} of them", f"but node_of has {len(node_of)} rows", "pass one for each row")
    if len(node_of) and (node_of.min() < 0 or node_of.max() >= n_nodes):
        reject("node_of", int(node_of.max()), f"the tree has {n_nodes} nodes", "use numbers from 0")
    own = np.zeros((n_nodes, int(codes.max(initial=0)) + 1))
    np.add.at(own, (node_of, codes), 1.0)
    below = own.copy()
    for node in range(n_nodes - 1, 0, -1):
        below[parent[node]] += below[node]
    if not (below[0] >= 2).any():
        reject("classes", np.asarray(classes).tolist(), "have no two rows of the same class", "pass more rows")
    purity = below / np.maximum(below.sum(axis=1, keepdims=True), 1.0)
    if n_pairs is not None:
        return _sampled(parent, node_of, codes, purity, n_pairs, np.random.default_rng(random_state))
    pairs = below * (below - 1) / 2
    met: Float[np.ndarray, "nodes classes"] = pairs.copy()  # whose least common ancestor is this node
    np.subtract.at(met, parent[1:], pairs[1:])
    return float((met * purity).sum() / met.sum())


def _sampled(
    parent: Int[np.ndarray, " nodes"],
    node_of: Int[np.ndarray, " rows"],
    codes: Int[np.ndarray, " rows"],
    purity: Float[np.ndarray, "nodes classes"],
    n_pairs: int,
    rng: np.random.Generator,
) -> float:
    if n_pairs < 1:
        reject("n_pairs", n_pairs, "must be at least 1", "pass 100000, or None for all pairs")
    order = np.argsort(codes, kind="stable")
    counts = np.bincount(codes)
    first = np.concatenate([[0], np.cumsum(counts)[:-1]])
    weight = counts * (counts - 1.0)
    drawn = rng.choice(len(counts), n_pairs, p=weight / weight.sum())
    one = rng.integers(counts[drawn])
    other = rng.integers(counts[drawn] - 1)
    other += other >= one
    here, there = node_of[order[first[drawn] + one]], node_of[order[first[drawn] + other]]
    # Numbers rise from the root down: the larger of two different nodes is not the ancestor.
    while (apart := here != there).any():
        lower = here > there
        here = np.where(apart & lower, parent[here], here)
        there = np.where(apart & ~lower, parent[there], there)
    return float(purity[here, drawn].mean())


def parents_of_linkage(linkage: Float[np.ndarray, "merges 4"]) -> Int[np.ndarray, " nodes"]:
    """Return the tree of SciPy's linkage matrix as parents, root first; row i of n ends at node `2 (n - 1) - i`."""
    merges = np.asarray(linkage)[:, :2].astype(np.int64)
    n_rows = len(merges) + 1
    last = 2 * n_rows - 2
    parent = np.full(last + 1, -1)
    for number, pair in enumerate(merges):
        parent[last - pair] = last - (n_rows + number)
    return parent
