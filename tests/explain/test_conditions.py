"""Merged conditions hold for just the rows that go the path's way, and read as a person would write them."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hardwood import explain
from hardwood.explain._conditions import conditions, path_asks
from hardwood.explain._words import PathWords
from hardwood.forest import CATEGORIES, LEAF, OBLIQUE, THRESHOLD, Forest
from helpers.forests import forests, random_rows, reference_paths


def chain(splits: list[tuple[Any, bool, bool]], **changes: Any) -> Forest:
    """Make one tree that is a chain: each split is a threshold or a list of codes, whether missing values go left, and
    whether the chain goes on to the left."""
    size = 2 * len(splits) + 1
    fields: dict[str, Any] = {
        name: [-1 if name != "threshold" else 0.0] * size for name in ("left", "right", "feature", "threshold")
    }
    kind, missing_left, codes = [LEAF] * size, [False] * size, [[] for _ in range(size)]
    node = 0
    for number, (cut, missing, goes_left) in enumerate(splits):
        fields["left"][node], fields["right"][node] = 2 * number + 1, 2 * number + 2
        fields["feature"][node], missing_left[node] = 0, missing
        if isinstance(cut, list):
            kind[node], codes[node] = CATEGORIES, cut
        else:
            kind[node], fields["threshold"][node] = THRESHOLD, cut
        node = 2 * number + (1 if goes_left else 2)
    if any(codes):
        fields["category_start"] = np.cumsum([0, *map(len, codes)])
        fields["category_codes"] = np.array([code for each in codes for code in each], np.int32)
    return Forest(
        **{
            "tree_start": [0, size], "kind": kind, "missing_left": missing_left, "n_features": 1,
            "leaf_values": np.arange(len(splits) + 1.0)[:, None], "feature_names": ("age",), **fields, **changes,
        }
    )  # fmt: skip


@settings(max_examples=50)
@given(forests(), st.integers(0, 2**32 - 1))
def test_conditions_of_a_path_hold_for_just_its_rows(forest: Forest, seed: int):
    X = random_rows(np.random.default_rng(seed), forest, 25)
    paths = [reference_paths(forest, row) for row in X.tolist()]
    for tree in range(forest.n_trees):
        words = PathWords(forest, tree)
        reach = np.array([path[tree][-1] for path in paths])
        own = range(int(forest.tree_start[tree]), int(forest.tree_start[tree + 1]))
        for leaf in (node for node in own if forest.kind[node] == LEAF):
            found = conditions(words, path_asks(forest, leaf))
            holds = np.logical_and.reduce([np.ones(len(X), bool), *(each.holds(X) for each in found)])
            np.testing.assert_array_equal(holds, reach == leaf)
            subjects = [(each.columns, each.weights) for each in found]
            assert len(set(subjects)) == len(subjects), "each subject is asked about once"
            json.dumps([each.to_dict() for each in found], allow_nan=False)


@settings(max_examples=50)
@given(forests(), st.integers(0, 2**32 - 1))
def test_a_rows_conditions_differ_from_the_rules_in_their_words_only(forest: Forest, seed: int):
    X = random_rows(np.random.default_rng(seed), forest, 4)
    for row, paths in zip(X, (reference_paths(forest, row) for row in X.tolist()), strict=True):
        for tree, path in enumerate(paths):
            words, asked = PathWords(forest, tree), path_asks(forest, path[-1])
            general, own = conditions(words, asked), conditions(words, asked, row[None])
            for a, b in zip(general, own, strict=True):
                assert {**vars(a), "text": ""} == {**vars(b), "text": ""}
                assert b.holds(row[None]).all()
                assert ("(here missing)" in b.text or "is missing" in b.text) >= bool(
                    np.isnan(row[list(b.columns)]).any()
                )


@pytest.mark.parametrize(
    ("kind", "splits", "expected"),
    [
        ("float", [(25.0, False, False), (40.0, False, True)], "25 <= age < 40"),
        ("float", [(40.0, True, True), (25.0, True, True), (60.0, True, True)], "age < 25 or missing"),
        ("float", [(25.0, False, False), (40.0, False, False)], "age >= 40 or missing"),
        ("float", [(1.0, False, False), (1 + 2**-40, False, True)], "1 <= age < 1.000000000001"),
        ("float", [(math.inf, False, True)], "age < inf"),
        ("float", [(-math.inf, True, False)], "age is not missing"),
        ("float", [(-math.inf, True, True)], "age is missing"),
        ("float", [(2.0, False, False), (1.0, False, True)], None),
        ("int", [(24.5, False, False), (39.5, False, True)], "25 <= age <= 39"),
        ("int", [(24.5, False, False), (25.5, False, True)], "age is 25"),
        ("int", [(24.2, False, False), (24.7, False, True)], "24.2 <= age < 24.7"),
        ("int", [(24.5, False, True)], "age <= 24"),
        ("int", [(25.0, False, False)], "age >= 25 or missing"),
        ("int", [(2.0**60, False, False)], "age >= 1.15292e+18 or missing"),
        ("int", [(math.inf, False, True)], "age < inf"),
        ("bool", [(0.5, True, False)], "age is true"),
        ("bool", [(0.5, True, True), (1.0, True, True)], "age is false or missing"),
        ("bool", [(2.0, True, False)], "age >= 2"),
        ("datetime", [(0.0, True, False), (86_400.0, True, True)], "1970-01-01 <= age < 1970-01-02"),
        ("category", [([0, 1], True, True), ([1, 2], True, True)], "age is green or missing"),
        ("category", [([0, 1], True, True), ([1, 2], False, False)], "age is red or missing"),
        ("category", [([0], True, False)], "age is not red"),
        ("category", [([0], True, True), ([1], True, True)], "age is missing"),
        ("category", [([0, 1, 2, 3], False, True)], "age is not missing"),
        ("category", [([0, 1], True, False)], 'age in {blue, "x, y"}'),
        ("category", [(1.5, True, False)], 'age in {blue, "x, y"}'),
        ("category", [(7.0, False, True)], "age is not missing"),
        ("category", [(7.0, True, True)], "age is any category or missing"),
        ("category", [(7.0, True, False)], "age is none of its categories"),
    ],
)  # fmt: skip
def test_words(kind: str, splits: list[tuple[Any, bool, bool]], expected: str | None):
    changes: dict[str, Any] = {"feature_types": (kind,)}
    if kind == "category":
        changes["categories"] = {0: ("red", "green", "blue", "x, y")}
    forest = chain(splits, **changes)
    last = [node for node in np.flatnonzero(forest.kind == LEAF) if forest._node_depth[node] == forest.depth]
    leaf = int(last[0] if splits[-1][2] else last[1])
    found = [rule for rule in explain.rules(forest) if rule.leaf == leaf]
    if expected is None:
        assert not found
    else:
        assert [str(each) for each in found[0].conditions] == [expected]


@pytest.mark.parametrize(
    ("kind", "cell", "expected"),
    [
        ("float", 31.0, "25 <= age < 40 (here 31)"),
        ("float", math.nextafter(40.0, 0.0), "25 <= age < 40 (here 39.99999999999999)"),
        ("float", math.nan, "age is missing"),
        ("int", 31.0, "25 <= age <= 39 (here 31)"),
        ("int", 31.5, "25 <= age <= 39 (here 31.5)"),
        ("datetime", 31.0, "1970-01-01 00:00:25 <= age < 1970-01-01 00:00:40 (here 1970-01-01 00:00:31)"),
    ],
)
def test_a_row_is_told_with_its_value(kind: str, cell: float, expected: str):
    forest = chain([(25.0, False, False), (40.0, math.isnan(cell), True)], feature_types=(kind,))
    if math.isnan(cell):
        forest = chain([(-math.inf, True, True)], feature_types=(kind,))
    assert str(explain.row(forest, [cell])).splitlines()[1:] == [f"    {expected}"]


def test_missing_is_said_where_it_took_the_branch():
    forest = chain([(40.0, True, True)])
    assert str(explain.row(forest, [30.0])).endswith("    age < 40 (here 30)")
    assert str(explain.row(forest, [math.nan])).endswith("    age < 40 or missing (here missing)")


@pytest.mark.parametrize(
    ("codes", "cell", "expected"),
    [
        ([0], 0.0, "age is red"),
        ([0, 1], 1.0, "age in {red, green} (here green)"),
        ([0, 1, 2], 1.0, "age is not \"x, y\" (here green)"),
        ([0, 1], math.nan, "age in {red, green} or missing (here missing)"),
        ([0, 1], 17.0, "age in {red, green} or missing (here missing)"),
    ],
)  # fmt: skip
def test_a_row_is_told_with_its_category(codes: list[int], cell: float, expected: str):
    forest = chain([(codes, True, True)], categories={0: ("red", "green", "blue", "x, y")})
    assert str(explain.row(forest, [cell])).endswith(f"    {expected}")


def test_oblique_splits_with_the_same_weights_are_one_range():
    forest = Forest(
        tree_start=[0, 5],
        kind=[OBLIQUE, LEAF, OBLIQUE, LEAF, LEAF],
        left=[1, -1, 3, -1, -1],
        right=[2, -1, 4, -1, -1],
        feature=[-1] * 5,
        threshold=[1.5, 0, 3.0, 0, 0],
        missing_left=[False] * 5,
        leaf_values=[[1.0], [2.0], [3.0]],
        n_features=2,
        feature_names=("a", "b:c"),
        weight_start=[0, 2, 2, 4, 4, 4],
        weight_feature=[0, 1, 0, 1],
        weight_value=[2.0, -0.5, 2.0, -0.5],
    )
    assert [str(rule) for rule in explain.rules(forest)] == [
        'if 2*a - 0.5*"b:c" < 1.5: 1',
        'if 1.5 <= 2*a - 0.5*"b:c" < 3: 2',
        'if 2*a - 0.5*"b:c" >= 3 or missing: 3',
    ]
    assert str(explain.row(forest, [1.0, 0.0])).endswith('1.5 <= 2*a - 0.5*"b:c" < 3 (here 2)')
    # Infinity minus infinity is not below anything, and it is not missing.
    assert str(explain.row(forest, [math.inf, math.inf])).endswith('2*a - 0.5*"b:c" >= 3 (here not a number)')
    assert str(explain.row(forest, [math.inf, math.nan])).endswith(">= 3 or missing (here missing)")


def test_conditions_for_machines():
    forest = chain([(25.0, False, False), (40.0, False, True)])
    (condition,) = explain.row(forest, [31]).reasons[0].conditions
    assert condition.to_dict() == {
        "columns": [0],
        "names": ["age"],
        "low": 25.0,
        "high": 40.0,
        "missing": False,
        "text": "25 <= age < 40 (here 31)",
    }
    named = chain([([1, 3], True, True)], categories={0: ("red", "green", math.inf, "x")})
    (condition,) = explain.rules(named)[0].conditions
    assert condition.to_dict()["categories"] == ["green", "x"]
    (condition,) = explain.rules(named)[1].conditions
    assert condition.to_dict()["categories"] == ["red", "inf"]


def test_bounds_and_values_that_differ_read_differently():
    """Also bounds that six digits would not tell from the row's value, or from another bound of the tree."""
    near = 40.0000004
    forest = chain([(near, False, True), (1.0, False, False)])
    assert str(explain.row(forest, [40.0000001])).endswith("1 <= age < 40.0000004 (here 40.0000001)")
    assert str(explain.row(forest, [1.0])).endswith("1 <= age < 40 (here 1)")
    twice = chain([(near, False, False), (40.0000006, False, False)])
    assert str(explain.row(twice, [50.0])).endswith("age >= 40.000001 (here 50)")
