"""The value: shape, equality, copies, sub-forests and its text."""

from __future__ import annotations

import copy
import dataclasses
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardwood.errors import InvalidArgumentError
from hardwood.forest import LEAF, Forest
from helpers.forests import complete_forest, forests, random_forest, random_rows, small_fields


def test_it_knows_its_shape() -> None:
    forest = Forest(**small_fields())
    assert (forest.n_trees, forest.n_outputs, forest.n_leaves, forest.node_count) == (2, 1, 5, 8)
    assert forest.depth == 2
    np.testing.assert_array_equal(forest.depths, [2, 1])
    assert len(forest) == 2
    assert not forest.is_classifier


def test_one_leaf_has_depth_zero() -> None:
    forest = complete_forest(np.random.default_rng(0), 1, 0, 3)
    assert (forest.depth, forest.node_count, forest.n_leaves) == (0, 1, 1)
    np.testing.assert_array_equal(forest.apply(np.zeros((2, 3))), [[0], [0]])


def test_repr_is_short() -> None:
    fields = small_fields()
    assert repr(Forest(**fields)) == "Forest(2 trees, depth 2, 8 nodes, 3 features -> 1 output)"
    classifier = Forest(**{**fields, "link": "sigmoid", "classes": ["no", "yes"]})
    assert repr(classifier) == "Forest(2 trees, depth 2, 8 nodes, 3 features -> 2 classes)"
    assert repr(classifier[0]) == "Forest(1 tree, depth 2, 5 nodes, 3 features -> 2 classes)"


def test_arrays_are_copied_and_read_only() -> None:
    fields = small_fields()
    forest = Forest(**fields)
    fields["threshold"][0] = 99.0
    assert forest.threshold[0] == 0.5
    for each in dataclasses.fields(forest):
        value = getattr(forest, each.name)
        if isinstance(value, np.ndarray):
            with pytest.raises(ValueError, match="read-only"):
                value[...] = 0
    with pytest.raises(ValueError, match="read-only"):
        forest.depths[0] = 7
    with pytest.raises(dataclasses.FrozenInstanceError):
        forest.n_features = 4  # type: ignore[misc]
    with pytest.raises(TypeError):
        forest.categories[0] = ("a",)  # type: ignore[index]


@given(forests())
def test_equal_to_its_copies(forest: Forest) -> None:
    forest.predict(np.zeros((1, forest.n_features)))  # a cached plan is no part of the value
    for twin in (pickle.loads(pickle.dumps(forest)), copy.deepcopy(forest), dataclasses.replace(forest)):
        assert twin == forest
        assert hash(twin) == hash(forest)
        assert not twin.leaf_values.flags.writeable
    assert forest != "a forest"


@pytest.mark.parametrize(
    "change",
    [
        {"threshold": np.array([0.25, 0, 0, 0, 0, 1.5, 0, 0])},
        {"threshold": np.array([0.5, 0, 0, 0, 0, np.inf, 0, 0])},
        {"leaf_values": np.array([[1.0], [2.0], [3.0], [10.0], [20.5]])},
        {"missing_left": np.zeros(8, bool)},
        {"category_codes": np.array([0, 1])},
        {"combine": "mean"},
        {"link": "exp"},
        {"base": np.array([0.0])},
        {"n_features": 3, "feature_names": None},
        {"feature_names": ("size", "colour", "Age")},
        {"categories": {1: ("red", "green", "grey")}},
        {"output_names": ("y",)},
        {"classes": np.array([0, 1]), "link": "sigmoid"},
    ],
)
def test_unequal_when_a_field_differs(change: dict) -> None:
    assert Forest(**{**small_fields(), **change}) != Forest(**small_fields())


def test_category_types_count_in_equality() -> None:
    fields = small_fields()
    number, boolean = ({**fields, "categories": {1: (0, first, 2)}} for first in (1, True))
    assert Forest(**number) != Forest(**boolean)


@given(st.integers(0, 10**6), st.integers(1, 5))
def test_select_keeps_the_chosen_trees(seed: int, n_trees: int) -> None:
    rng = np.random.default_rng(seed)
    forest = random_forest(rng, n_trees=n_trees)
    X = random_rows(rng, forest, 5)
    chosen = rng.integers(-n_trees, n_trees, int(rng.integers(1, 4)))
    part = forest.select(chosen)
    np.testing.assert_array_equal(part.apply(X), forest.apply(X)[:, chosen])
    np.testing.assert_array_equal(part.tree_outputs(X), forest.tree_outputs(X)[:, chosen])
    assert forest.select(slice(None)) == forest == forest.select(np.ones(n_trees, bool))


def test_indexing_and_iteration_give_forests() -> None:
    forest = Forest(**small_fields())
    first, second = forest
    assert first == forest[0] == forest[-2] == forest[:1] == forest.select([True, False])
    assert second.node_count == 3
    assert second.category_codes is not None
    assert len(second.category_codes) == 0
    with pytest.raises(IndexError, match="tree 2 of a forest of 2"):
        forest[2]


@pytest.mark.parametrize(
    ("trees", "message"),
    [
        ([], "chooses no tree"),
        (slice(5, 6), "chooses no tree"),
        ([2], "outside 0..1"),
        ([-3], "outside 0..1"),
        ([True], "1 entries for 2 trees"),
        ([0.5], "does not choose trees"),
        ([[0]], "does not choose trees"),
    ],
)
def test_select_refuses_what_names_no_tree(trees: object, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        Forest(**small_fields()).select(trees)


@given(forests())
def test_derived_arrays_agree_with_a_walk(forest: Forest) -> None:
    for node in range(forest.node_count):
        above = int(forest._parent[node])
        if above < 0:
            assert node in forest.tree_start
            assert forest._node_depth[node] == 0
        else:
            assert node in (forest.left[above], forest.right[above])
            assert forest._node_depth[node] == forest._node_depth[above] + 1
    leaves = np.flatnonzero(forest.kind == LEAF)
    np.testing.assert_array_equal(forest._leaf_index[leaves], np.arange(forest.n_leaves))
