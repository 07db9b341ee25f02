"""A pruned forest says the same, is as small as claimed, and pruning again changes nothing."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hardwood.errors import InvalidArgumentError
from hardwood.forest import CATEGORIES, LEAF, OBLIQUE, THRESHOLD, Forest
from helpers.forests import complete_forest, forests, random_rows, reference_route, small_fields

SEEDS = st.integers(0, 2**32 - 1)


def _telling_rows(rng: np.random.Generator, forest: Forest, rows: int) -> np.ndarray:
    """Rows of which many have valid category codes."""
    X = random_rows(rng, forest, rows)
    for column in forest.categories:
        codes = rng.random(rows) < 0.7
        X[codes, column] = rng.integers(-1, 6, int(codes.sum()))
    return X


@given(forests(max_splits=20), SEEDS)
def test_the_same_for_every_row(forest: Forest, seed: int) -> None:
    X = _telling_rows(np.random.default_rng(seed), forest, 50)
    pruned = forest.prune()
    np.testing.assert_array_equal(pruned.tree_outputs(X), forest.tree_outputs(X))
    np.testing.assert_array_equal(pruned.outputs(X), forest.outputs(X))
    assert pruned.node_count <= forest.node_count
    assert pruned.prune() == pruned


@given(forests(max_splits=20), SEEDS, st.integers(1, 30))
def test_the_same_for_the_given_rows(forest: Forest, seed: int, rows: int) -> None:
    X = _telling_rows(np.random.default_rng(seed), forest, rows)
    pruned = forest.prune(X)
    np.testing.assert_array_equal(pruned.tree_outputs(X), forest.tree_outputs(X))
    np.testing.assert_array_equal(pruned.outputs(X), forest.outputs(X))
    assert pruned.node_count <= forest.prune().node_count
    assert pruned.prune(X) == pruned
    reached = {node for row in X for node in reference_route(pruned, row)}
    assert reached == set(np.flatnonzero(pruned.kind == LEAF))


@settings(max_examples=40)
@given(forests(max_splits=12, kinds=(THRESHOLD, CATEGORIES), n_features=2, n_trees=1))
def test_every_leaf_that_is_left_can_be_reached(forest: Forest) -> None:
    """One value from between any two thresholds, each threshold, each code and NaN, in all combinations."""
    pruned = forest.prune()
    cuts = np.unique(np.append(forest.threshold[np.isfinite(forest.threshold)], [0, 1, 2, 3, 4]))
    between = (cuts[1:] + cuts[:-1]) / 2
    values = [*cuts, *between, cuts[0] - 1, cuts[-1] + 1.5, np.inf, -np.inf, np.nan]
    X = np.array(list(itertools.product(values, values)))
    reached = set(pruned.apply(X)[:, 0])
    assert reached == set(np.flatnonzero(pruned.kind == LEAF))


def _chain(splits: list[dict], n_features: int = 2, **fields: object) -> Forest:
    """A tree whose splits each have a leaf on one side and the next split on the other; leaf values count up."""
    kind, left, right, feature, threshold, missing_left = [], [], [], [], [], []
    for position, split in enumerate(splits):
        node = 2 * position
        go_on, stop = node + 2, node + 1
        kind += [split.get("kind", THRESHOLD), LEAF]
        on_left = split.get("side", "left") == "left"
        left += [go_on if on_left else stop, -1]
        right += [stop if on_left else go_on, -1]
        feature += [split.get("feature", 0), -1]
        threshold += [split.get("threshold", 0.0), 0.0]
        missing_left += [split.get("missing_left", False), False]
    return Forest(
        tree_start=[0, 2 * len(splits) + 1],
        kind=[*kind, LEAF],
        left=[*left, -1],
        right=[*right, -1],
        feature=[*feature, -1],
        threshold=[*threshold, 0.0],
        missing_left=np.array([*missing_left, False]),
        leaf_values=np.arange(len(splits) + 1.0)[:, None],
        n_features=n_features,
        **fields,  # type: ignore[arg-type]
    )


@pytest.mark.parametrize(
    ("splits", "left_over"),
    [
        # x < 3, then x < 5: always, unless a missing value came along and turns off there
        ([{"threshold": 3.0}, {"threshold": 5.0}], 1),
        ([{"threshold": 3.0, "missing_left": True}, {"threshold": 5.0}], 2),
        ([{"threshold": 3.0, "missing_left": True}, {"threshold": 5.0, "missing_left": True}], 1),
        ([{"threshold": 3.0}, {"threshold": 5.0, "missing_left": True}], 1),
        ([{"threshold": 3.0}, {"threshold": 5.0, "feature": 1}], 2),
        ([{"threshold": 5.0}, {"threshold": 3.0}], 2),
        ([{"threshold": 3.0, "side": "right"}, {"threshold": 3.0, "side": "right"}], 1),
        ([{"threshold": 3.0, "side": "right"}, {"threshold": 3.0, "side": "right", "missing_left": True}], 2),
        ([{"threshold": 3.0, "side": "right", "missing_left": True}, {"threshold": 3.0, "side": "right"}], 1),
        # nothing is below minus infinity, and only infinity itself is not below infinity
        ([{"threshold": -np.inf, "side": "right"}], 0),
        ([{"threshold": -np.inf, "missing_left": True}], 1),
        ([{"threshold": np.inf}], 1),
        ([{"threshold": np.inf, "missing_left": True}, {"threshold": np.inf, "missing_left": True}], 1),
        # x < 3 and x >= 2.5 leaves code 2 never, for a column without vocabulary a lot
        ([{"threshold": 3.0}, {"threshold": 2.5, "side": "right"}], 2),
        # only missing values are left after the first split: the second decides nothing
        ([{"threshold": -np.inf, "missing_left": True}, {"threshold": 7.0}], 1),
    ],
)
def test_conditions_on_the_way_decide(splits: list[dict], left_over: int) -> None:
    pruned = _chain(splits).prune()
    assert int((pruned.kind != LEAF).sum()) == left_over


def test_category_sets_shrink_on_the_way() -> None:
    both = [{"kind": CATEGORIES}, {"kind": CATEGORIES}, {"kind": CATEGORIES, "side": "right"}]
    forest = _chain(
        both,
        categories={0: ("a", "b", "c", "d")},
        category_start=[0, 2, 2, 5, 5, 6, 6, 6],
        category_codes=[0, 1, 0, 1, 3, 1],
    )
    # {a, b}, then {a, b, d}: always; then {b}: splits a from b.
    pruned = forest.prune()
    assert pruned.node_count == 5
    X = np.array([[-1.0, 0], [0, 0], [1, 0], [2, 0], [3, 0], [9, 0], [0.5, 0], [np.nan, 0]])
    np.testing.assert_array_equal(pruned.predict(X), forest.predict(X))
    assert pruned.category_codes is not None
    np.testing.assert_array_equal(pruned.category_codes, [0, 1, 1])


def test_equal_sides_merge_all_the_way_up() -> None:
    rng = np.random.default_rng(0)
    forest = complete_forest(rng, 2, 4, 3)
    same = replace(forest, leaf_values=np.repeat([[1.0], [2.0]], 16, axis=0))
    assert same.prune().node_count == 2
    np.testing.assert_array_equal(same.prune().predict(rng.normal(size=(3, 3))), [3.0, 3.0, 3.0])


def test_equal_subtrees_merge() -> None:
    """x1 < 0 splits two equal subtrees, of a split on x0 each."""
    forest = Forest(
        tree_start=[0, 7],
        kind=[1, 1, 0, 0, 1, 0, 0],
        left=[1, 2, -1, -1, 5, -1, -1],
        right=[4, 3, -1, -1, 6, -1, -1],
        feature=[1, 0, -1, -1, 0, -1, -1],
        threshold=[0.0, 2.0, 0, 0, 2.0, 0, 0],
        missing_left=np.zeros(7, bool),
        leaf_values=[[1.0], [2.0], [1.0], [2.0]],
        n_features=2,
    )
    assert forest.prune().node_count == 3
    different = [True] + [False] * 6
    different[4] = True
    assert replace(forest, missing_left=np.array(different)).prune().node_count == 7


def test_leaf_weights_and_coefficients_keep_leaves_apart() -> None:
    fields = small_fields()
    fields["leaf_values"] = np.ones((5, 1))
    assert Forest(**fields).prune().node_count == 2
    weighted = Forest(**fields, leaf_weights=np.arange(5.0), combine="softmax")
    assert weighted.prune().node_count == 8
    coef = np.zeros((5, 3, 1))
    coef[0, 1, 0] = 1.0
    assert Forest(**fields, leaf_coef=coef).prune().node_count == 4


def test_a_repeated_oblique_split_decides_nothing() -> None:
    fields: dict[str, Any] = {
        "tree_start": [0, 5],
        "kind": [OBLIQUE, OBLIQUE, LEAF, LEAF, LEAF],
        "left": [1, 2, -1, -1, -1],
        "right": [4, 3, -1, -1, -1],
        "feature": [-1] * 5,
        "threshold": [1.0, 1.5, 0, 0, 0],
        "missing_left": np.zeros(5, bool),
        "leaf_values": [[1.0], [2.0], [3.0]],
        "n_features": 2,
        "weight_start": [0, 2, 4, 4, 4, 4],
        "weight_feature": [0, 1, 0, 1],
    }
    wider = Forest(**fields, weight_value=[1.0, 2.0, 1.0, 2.0])
    assert wider.prune().node_count == 3
    other = Forest(**fields, weight_value=[1.0, 2.0, 1.0, 2.5])
    assert other.prune().node_count == 5


def test_a_deep_chain_needs_no_recursion() -> None:
    forest = _chain([{"threshold": float(-k)} for k in range(3000)])
    assert forest.depth == 3000
    assert forest.prune() == forest


def test_names_and_classes_stay() -> None:
    forest = Forest(**small_fields(), link="sigmoid", classes=["no", "yes"], base=[0.5])
    pruned = forest.prune(np.zeros((1, 3)))
    assert pruned.node_count == 2
    for name in ("feature_names", "feature_types", "categories", "link", "n_features"):
        assert getattr(pruned, name) == getattr(forest, name)
    np.testing.assert_array_equal(pruned.predict_proba(np.zeros((1, 3))), forest.predict_proba(np.zeros((1, 3))))


def test_no_rows_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="has no rows"):
        Forest(**small_fields()).prune(np.zeros((0, 3)))
