"""Edited forests differ from the first in what was edited, and in nothing else."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hardwood.errors import InvalidArgumentError
from hardwood.forest import CATEGORIES, LEAF, Forest
from helpers.forests import complete_forest, forests, random_forest, random_rows, reference_paths, small_fields

SEEDS = st.integers(0, 2**32 - 1)


def any_node(rng: np.random.Generator, forest: Forest) -> tuple[int, int]:
    tree = int(rng.integers(forest.n_trees))
    return tree, int(rng.integers(forest.tree_start[tree + 1] - forest.tree_start[tree]))


def passing(forest: Forest, X: np.ndarray, tree: int, node: int) -> np.ndarray:
    place = int(forest.tree_start[tree]) + node
    return np.array([place in reference_paths(forest, row)[tree] for row in X.tolist()], bool)


@settings(max_examples=30)
@given(forests(), SEEDS)
def test_merged_leaves_take_just_the_rows_of_the_node(forest: Forest, seed: int):
    rng = np.random.default_rng(seed)
    tree, node = any_node(rng, forest)
    X = random_rows(rng, forest, 40)
    values = rng.normal(size=forest.n_outputs)
    merged = forest.merge_leaves(node, tree=tree, values=values)
    here = passing(forest, X, tree, node)
    said, says = forest.tree_outputs(X), merged.tree_outputs(X)
    np.testing.assert_array_equal(says[here, tree], np.tile(values, (here.sum(), 1)))
    said[here, tree] = says[here, tree]
    np.testing.assert_array_equal(said, says)
    # The leaf has the node's number, and nodes before it keep theirs.
    place = int(forest.tree_start[tree]) + node
    assert merged.kind[place] == LEAF
    assert merged.kind[:place].tolist() == forest.kind[:place].tolist()
    assert (merged.apply(X)[here, tree] == node).all()


@settings(max_examples=30)
@given(forests(linear=False), SEEDS)
def test_merged_leaves_say_the_mean_of_their_rows(forest: Forest, seed: int):
    rng = np.random.default_rng(seed)
    tree, node = any_node(rng, forest)
    X, weight = random_rows(rng, forest, 40), rng.random(40)
    here = passing(forest, X, tree, node)
    merged = forest.merge_leaves(node, tree=tree, X=X, sample_weight=weight)
    if here.any():
        np.testing.assert_allclose(
            merged.tree_outputs(X)[here, tree],
            np.tile(np.average(forest.tree_outputs(X)[here, tree], axis=0, weights=weight[here]), (here.sum(), 1)),
            rtol=1e-12, atol=1e-12,
        )  # fmt: skip
    whole = forest.merge_leaves(0, tree=tree, X=X)
    if forest.n_trees == 1:
        assert np.allclose(whole.leaf_values, forest.truncate(0, X).leaf_values, atol=1e-12)
    else:
        assert whole.depths[tree] == 0


def test_without_rows_it_is_the_plain_mean_also_of_leaf_weights():
    forest = complete_forest(np.random.default_rng(0), 2, 2, 3, combine="softmax", leaf_weights=np.arange(8.0))
    merged = forest.merge_leaves(1, tree=1)
    assert merged.n_leaves == 7
    assert merged.leaf_values[4, 0] == pytest.approx(forest.leaf_values[4:6].mean())
    assert merged.leaf_weights is not None
    assert merged.leaf_weights.tolist() == [0, 1, 2, 3, 4.5, 6, 7]


@settings(max_examples=30)
@given(forests(), SEEDS)
def test_a_cut_branch_leaves_its_rows_to_the_other_one(forest: Forest, seed: int):
    rng = np.random.default_rng(seed)
    tree, node = any_node(rng, forest)
    if node == 0:
        with pytest.raises(InvalidArgumentError, match="node=0: is the root"):
            forest.cut(0, tree=tree)
        return
    X = random_rows(rng, forest, 40)
    pruned = forest.cut(node, tree=tree)
    here = passing(forest, X, tree, node)
    said, says = forest.tree_outputs(X), pruned.tree_outputs(X)
    said[here, tree] = says[here, tree]
    np.testing.assert_array_equal(said, says)
    place = int(forest.tree_start[tree]) + node
    assert forest.node_count - pruned.node_count == 1 + subtree(forest, place)
    parent = int(forest._parent[place])
    if forest.left[parent] == place and forest.kind[parent] != CATEGORIES:
        # Nothing is below -inf: with that threshold all rows go right.
        root = int(forest.tree_start[tree])
        closed = forest.replace_threshold(parent - root, -np.inf, tree=tree, missing_left=False)
        np.testing.assert_array_equal(pruned.outputs(X), closed.outputs(X))


def subtree(forest: Forest, node: int) -> int:
    if forest.kind[node] == LEAF:
        return 1
    return 1 + subtree(forest, int(forest.left[node])) + subtree(forest, int(forest.right[node]))


def test_rows_of_a_cut_branch_go_through_its_sibling():
    fields = small_fields()
    forest = Forest(**fields)[0]
    without = forest.cut(1)
    assert without.predict([[0.0, 0, 0]]).tolist() == [2.0]
    assert without.predict([[0.0, 1, 0]]).tolist() == [3.0]
    assert forest.cut(2).node_count == 1


@settings(max_examples=30)
@given(forests(), SEEDS)
def test_another_threshold_moves_the_rows_between(forest: Forest, seed: int):
    rng = np.random.default_rng(seed)
    tree, node = any_node(rng, forest)
    place = int(forest.tree_start[tree]) + node
    if forest.kind[place] in (LEAF, CATEGORIES):
        with pytest.raises(InvalidArgumentError, match=f"node={node}"):
            forest.replace_threshold(node, 1.0, tree=tree)
        return
    X = random_rows(rng, forest, 40)
    moved = forest.replace_threshold(node, 0.5, tree=tree, missing_left=True)
    assert moved.threshold[place] == 0.5 and bool(moved.missing_left[place])
    threshold, missing_left = forest.threshold.copy(), forest.missing_left.copy()
    threshold[place], missing_left[place] = 0.5, True
    assert moved == replace(forest, threshold=threshold, missing_left=missing_left)
    here = passing(forest, X, tree, node)
    np.testing.assert_array_equal(moved.apply(X)[~here], forest.apply(X)[~here])
    back = moved.replace_threshold(
        node, float(forest.threshold[place]), tree=tree, missing_left=bool(forest.missing_left[place])
    )
    assert back == forest


def test_other_categories_go_left():
    forest = Forest(**small_fields())
    edited = forest.replace_categories(2, ["green"])
    X = np.array([[1.0, code, 0.0] for code in (0, 1, 2)])
    assert forest.apply(X)[:, 0].tolist() == [3, 4, 3]
    assert edited.apply(X)[:, 0].tolist() == [4, 3, 4]
    assert edited.replace_categories(2, {"blue", "red"}) == forest
    assert edited.replace_categories(2, []).apply(X)[:, 0].tolist() == [4, 4, 4]
    missing = np.array([[1.0, np.nan, 0.0]])
    assert forest.replace_categories(2, ["red"], missing_left=False).apply(missing)[0, 0] == 4


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda f: f.cut(8), "node=8: the tree has 5 nodes; pass a number from 0 to 4"),
        (lambda f: f.cut(1, tree=2), "tree=2: the forest has 2 trees"),
        (lambda f: f.cut(True), "node=True"),
        (lambda f: f.replace_threshold(1, 0.5), "node=1: is a leaf"),
        (lambda f: f.replace_threshold(2, 0.5), "node=2: splits by category and has no threshold"),
        (lambda f: f.replace_threshold(0, float("nan")), "threshold=nan: is no number"),
        (lambda f: f.replace_categories(0, ["red"]), "node=0: does not split by category"),
        (lambda f: f.replace_categories(2, ["pink"]), "categories='pink': is none of the column's categories"),
        (lambda f: f.replace_categories(2, "red"), "categories='red': is no collection of categories"),
        (lambda f: f.merge_leaves(0, values=[1.0, 2.0]), "values=[1.0, 2.0]: is not 1 finite number(s)"),
        (lambda f: f.merge_leaves(0, values=[np.inf]), "values=[inf]: is not 1 finite"),
        (lambda f: f.merge_leaves(0, values=[1.0], X=np.zeros((1, 3))), "is given together with X"),
        (lambda f: f.merge_leaves(0, sample_weight=[1.0]), "sample_weight='an array': is given without X"),
    ],
)
def test_bad_edits(edit: Any, message: str):
    with pytest.raises(InvalidArgumentError, match=re.escape(message)):
        edit(Forest(**small_fields()))


def test_linear_leaves_need_the_value_of_the_new_one():
    forest = random_forest(np.random.default_rng(1), linear=True, task="regression", n_outputs=1, max_splits=4)
    with pytest.raises(InvalidArgumentError, match="has linear leaves"):
        forest.merge_leaves(0)
    assert forest.merge_leaves(0, values=3.0).tree_outputs(np.ones((1, forest.n_features)))[0, 0].tolist() == [3.0]
