"""A tidy layout: nothing overlaps, children are in order, parents stand between them."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from hardwood.draw._layout import layout
from hardwood.forest import LEAF, Forest
from helpers.forests import forests


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
