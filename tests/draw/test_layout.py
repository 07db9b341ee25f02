"""A tidy layout: nothing overlaps, children are in order, parents stand between them."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hardwood.draw._checks import rows_per_node
from hardwood.draw._layout import layout
from hardwood.forest import LEAF, Forest
from helpers.forests import forests, random_rows, reference_paths


@given(forests(), st.one_of(st.none(), st.integers(0, 6)))
def test_layout_is_tidy(forest: Forest, max_depth: int | None):
    for tree in range(forest.n_trees):
        places = {place.node: place for place in layout(forest, tree, max_depth)}
        assert min(place.row for place in places.values()) == 0

        levels: dict[int, list[float]] = {}
        for place in places.values():
            levels.setdefault(place.depth, []).append(place.row)
            assert max_depth is None or place.depth <= max_depth
            if place.parent >= 0:
                parent = places[place.parent]
                assert place.depth == parent.depth + 1
                assert place.goes_left == (place.row < parent.row)
            if forest.kind[place.node] != LEAF and not place.folded:
                below = [places[int(child[place.node])].row for child in (forest.left, forest.right)]
                assert abs(sum(below) / 2 - place.row) < 1e-9
        for rows in levels.values():
            assert all(b - a >= 1 - 1e-9 for a, b in itertools.pairwise(sorted(rows)))


@given(forests())
def test_equal_shapes_are_drawn_equally(forest: Forest):
    """A subtree is drawn the same wherever it stands."""
    places = {place.node: place for place in layout(forest, 0)}
    for node, place in places.items():
        if forest.kind[node] != LEAF:
            left, right = places[int(forest.left[node])], places[int(forest.right[node])]
            if forest.kind[left.node] == forest.kind[right.node] == LEAF:
                assert abs(right.row - left.row - 1) < 1e-9
            assert place.row - left.row == right.row - place.row


@given(forests(), st.integers(0, 3))
def test_folded_nodes_account_for_every_leaf(forest: Forest, max_depth: int):
    places = layout(forest, 0, max_depth)
    shown = sum(forest.kind[place.node] == LEAF for place in places)
    folded = sum(place.folded for place in places)
    assert shown + folded == (forest.kind[: forest.tree_start[1]] == LEAF).sum()


@given(forests(), st.integers(1, 30), st.booleans())
def test_a_budget_folds_where_the_fewest_rows_go(forest: Forest, max_nodes: int, with_rows: bool):
    rows = None
    if with_rows:
        X = random_rows(np.random.default_rng(0), forest, 30)
        rows = rows_per_node(forest, forest.apply(X)[:, 0])
    places = layout(forest, 0, max_nodes=max_nodes, rows=rows)
    assert len(places) <= max(max_nodes, 1)
    shown = sum(forest.kind[place.node] == LEAF for place in places)
    assert shown + sum(place.folded for place in places) == (forest.kind[: forest.tree_start[1]] == LEAF).sum()
    folded = [place.node for place in places if place.folded]
    opened = {place.parent for place in places[1:]}
    if folded:
        assert len(places) >= max_nodes - 1
    if rows is not None and folded and opened:
        assert max(rows[folded]) <= min(rows[list(opened)])


@given(forests(), st.integers(0, 2**32 - 1))
def test_a_path_stays_open(forest: Forest, seed: int):
    row = random_rows(np.random.default_rng(seed), forest, 1)[0].tolist()
    path = reference_paths(forest, row)[0]
    drawn = {place.node: place for place in layout(forest, 0, 0, max_nodes=1, path=path)}
    assert set(path) <= set(drawn)
    assert not any(drawn[node].folded for node in path)
    assert len(drawn) == 2 * len(path) - 1
