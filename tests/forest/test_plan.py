"""The packed layout: thresholds rounded for float32 without changing a decision, crowns cut at the right nodes."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hardwood.forest import LEAF, THRESHOLD, Forest
from hardwood.forest._crown import BLOCK, UNIT
from hardwood.forest._plan import _unit_places, round_up
from helpers.forests import complete_forest, forests

FLOATS = st.floats(allow_nan=False)


@given(FLOATS, st.floats(width=32, allow_nan=False))
def test_a_rounded_threshold_decides_the_same(threshold: float, cell: float) -> None:
    rounded = round_up(np.array([threshold]))
    assert rounded.dtype == np.float32
    with np.errstate(over="ignore"):
        below = np.nextafter(rounded[0], np.float32(-np.inf))
    for value in (np.float32(cell), rounded[0], below):
        assert (value < rounded[0]) == (np.float64(value) < threshold)


def test_units_hold_each_place_of_a_crown_once() -> None:
    for depth in (3, 4, 5, 6):
        units = _unit_places(depth)
        assert [position for position, _ in units] == list(range(len(units)))
        places = np.concatenate([places for _, places in units])
        np.testing.assert_array_equal(np.sort(places), np.arange(2**depth - 1))
    assert _unit_places(0) == []


@given(forests())
def test_every_exit_is_a_leaf_or_a_node_to_go_on_from(forest: Forest) -> None:
    plan = forest._plan
    crowns = plan.crowns64
    for tree in range(forest.n_trees):
        depth = int(crowns.depth[tree])
        exits = crowns.exit[crowns.first_exit[tree] : crowns.first_exit[tree] + 2**depth]
        nodes = set(exits.tolist())
        assert all(forest.tree_start[tree] <= node < forest.tree_start[tree + 1] for node in nodes)
        assert crowns.closed[tree] == (forest.kind[exits] == LEAF).all()
        # Above the exits stand threshold splits only.
        for node in nodes:
            while (node := int(forest._parent[node])) >= 0:
                assert forest.kind[node] == THRESHOLD
    for crown in (plan.crowns32, plan.crowns64):
        assert all(not array.flags.writeable for array in crown)
        assert (crown.column % BLOCK == 0).all()
        assert len(crown.column) % UNIT == 0


def test_deeper_trees_go_on_below_their_crown() -> None:
    rng = np.random.default_rng(0)
    assert complete_forest(rng, 2, 6, 4)._plan.crowns64.closed.all()
    deep = complete_forest(rng, 2, 8, 4)._plan.crowns64
    assert not deep.closed.any()
    assert (deep.depth == 6).all()
    np.testing.assert_array_equal(complete_forest(rng, 2, 1, 4)._plan.crowns64.depth, [3, 3])
