"""Rules route as the tree does, say how well they do, and survive odd names."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hardwood import explain
from hardwood.draw._words import Words
from hardwood.errors import InvalidArgumentError
from hardwood.forest import LEAF, Forest
from helpers.forests import complete_forest, forests, random_forest, random_rows, reference_route, small_fields


@settings(max_examples=50)
@given(forests(), st.integers(0, 2**32 - 1))
def test_every_row_fulfils_just_the_rule_of_its_leaf(forest: Forest, seed: int):
    X = random_rows(np.random.default_rng(seed), forest, 25)
    leaves = np.array([reference_route(forest, row) for row in X.tolist()]) - forest.tree_start[:-1]
    for tree in range(forest.n_trees):
        rules = explain.rules(forest, tree)
        holds = np.array([rule.holds(X) for rule in rules])
        assert (holds.sum(axis=0) == 1).all()
        np.testing.assert_array_equal(np.array([rule.leaf for rule in rules])[holds.argmax(axis=0)], leaves[:, tree])


@settings(max_examples=50)
@given(forests(n_trees=1))
def test_rules_stand_from_left_to_right_and_answer_as_the_tree(forest: Forest):
    rules = explain.rules(forest)
    order = []
    waiting = [0]
    while waiting:
        node = waiting.pop()
        order.append(node)
        waiting += [] if forest.kind[node] == LEAF else [int(forest.right[node]), int(forest.left[node])]
    places = [order.index(rule.leaf) for rule in rules]
    assert places == sorted(places)
    words = Words(forest, 0)
    for rule in rules:
        leaf = int(forest._leaf_index[rule.leaf])
        assert rule.answer == words.leaf(leaf)
        assert rule.values == tuple(forest.leaf_values[leaf])
        assert str(rule).endswith(f": {rule.answer}")
        json.dumps(rule.to_dict(), allow_nan=False)


@settings(max_examples=20)
@given(forests(n_trees=2, task="classes", n_outputs=3), st.integers(0, 2**32 - 1))
def test_support_and_precision_count_rows(forest: Forest, seed: int):
    rng = np.random.default_rng(seed)
    X = random_rows(rng, forest, 30)
    y = rng.choice(forest.classes, 30)
    for tree in range(2):
        answer = forest[tree].predict(X)
        for rule in explain.rules(forest, tree, X, y):
            own = rule.holds(X)
            assert rule.support == own.sum()
            assert rule.error is None
            if own.any():
                assert rule.precision == pytest.approx(sum(answer[own] == y[own]) / sum(own), abs=1e-12)
            else:
                assert rule.precision is None
        assert sum(rule.support for rule in explain.rules(forest, tree, X)) == 30


def test_errors_of_a_regression():
    rng = np.random.default_rng(0)
    forest = complete_forest(rng, 1, 2, 2, n_outputs=2)
    X, y = rng.normal(size=(400, 2)), rng.normal(size=(400, 2))
    rules = explain.rules(forest, X=X, y=y)
    assert sum(rule.support for rule in rules) == 400
    for rule in (rule for rule in rules if rule.support):
        own = rule.holds(X)
        assert rule.precision is None
        assert rule.error == pytest.approx(np.sqrt(np.mean((y[own] - np.array(rule.values)) ** 2)))


def test_a_leaf_that_nothing_reaches_is_left_out():
    fields = small_fields()
    # The root sends sizes below 0.5 left; the split to its right asks again.
    fields |= {
        "tree_start": [0, 5, 8],
        "kind": np.array([1, 0, 1, 0, 0, 3, 0, 0]),
        "feature": [0, -1, 0, -1, -1, -1, -1, -1],
    }
    fields |= {"missing_left": [True] + [False] * 7, "category_start": None, "category_codes": None}
    assert [rule.leaf for rule in explain.rules(Forest(**fields))] == [1, 4]


def test_conditions_that_allow_missing_values_stand_in_brackets():
    forest = Forest(**{**small_fields(), "missing_left": [False, False, True, False, False, False, False, False]})
    assert str(explain.rules(forest)[1]) == "if (size >= 0.5 or missing) and (colour in {red, blue} or missing): +2"
    assert str(explain.rules(forest, 1)[0]) == "if 1*age - 0.5*size < 1.5: +10"


def test_names_cannot_break_a_rule():
    names = ("a:\nelse < 3", "\u202etxt", "age")
    rules = explain.rules(Forest(**{**small_fields(), "feature_names": names}))
    assert str(rules[0]) == 'if "a:\\nelse < 3" < 0.5 or missing: +1'
    assert "\u202e" not in "".join(map(str, rules))
    assert rules[0].conditions[0].names == (names[0],)


def test_a_tree_of_one_leaf_always_answers():
    forest = random_forest(np.random.default_rng(0), n_trees=1, max_splits=0, linear=False, task="regression")
    (rule,) = explain.rules(forest)
    assert str(rule) == f"always: {rule.answer}"
    assert rule.holds(np.zeros((3, forest.n_features))).all()


@settings(max_examples=40)
@given(forests(linear=False), st.integers(0, 2**32 - 1))
def test_the_answer_of_the_one_rule_that_holds_is_the_trees(forest: Forest, seed: int):
    X = random_rows(np.random.default_rng(seed), forest, 25)
    said = forest.tree_outputs(X)
    rules = forest.to_rules(None, X, order="support")
    for tree in range(forest.n_trees):
        own = [rule for rule in rules if rule.tree == tree]
        first = np.array([rule.holds(X) for rule in own]).argmax(axis=0)
        np.testing.assert_array_equal(np.array([own[k].values for k in first]), said[:, tree])


def test_a_column_is_asked_once_on_a_path():
    forest = complete_forest(np.random.default_rng(0), 1, 8, 2)
    for rule in explain.rules(forest):
        columns = [condition.columns for condition in rule.conditions]
        assert len(columns) == len(set(columns)) <= 2


@settings(max_examples=20)
@given(forests(task="classes", n_outputs=2), st.integers(0, 2**32 - 1))
def test_orders_hold_the_same_rules(forest: Forest, seed: int):
    rng = np.random.default_rng(seed)
    X = random_rows(rng, forest, 30)
    y = rng.choice(forest.classes, 30)
    plain = explain.rules(forest, None, X, y)
    assert [rule.tree for rule in plain] == sorted(rule.tree for rule in plain)
    by_support = explain.rules(forest, None, X, y, order="support")
    by_precision = explain.rules(forest, None, X, y, order="precision")
    assert set(plain) == set(by_support) == set(by_precision)
    support = [rule.support for rule in by_support]
    assert support == sorted(support, reverse=True)
    precision = [-1.0 if rule.precision is None else rule.precision for rule in by_precision]
    assert precision == sorted(precision, reverse=True)


def test_rules_as_text_table_and_frame():
    rng = np.random.default_rng(0)
    forest = complete_forest(rng, 1, 2, 2)
    rules = forest.to_rules(X=rng.normal(size=(50, 2)), y=rng.normal(size=50), order="precision")
    lines = str(rules).splitlines()
    assert len(lines) == len(rules) == 4
    for line, rule, record in zip(lines, rules, rules.to_table(), strict=True):
        assert line.startswith(f"if {rule.asked}: {rule.answer}  # {rule.support} row")
        assert record["if"] == rule.asked and record["then"] == rule.answer
        assert record["error"] == rule.error and record["share"] == rule.support / 50
        assert "precision" not in record
    errors = [rule.error for rule in rules if rule.error is not None]
    assert errors == sorted(errors)
    json.dumps(rules.to_dicts(), allow_nan=False)
    for library in ("pandas", "polars", "pyarrow"):
        frame = rules.to_frame(library)
        assert type(frame).__module__.split(".")[0] == library
        assert len(frame) == 4
    assert rules[1:] == explain.Rules(list(rules)[1:]) and rules[0] in rules
    assert repr(rules) == "Rules(4 rules)"


def test_rules_of_several_trees_say_which():
    rules = Forest(**small_fields()).to_rules(None)
    assert [line.split(":")[0] for line in str(rules).splitlines()] == ["tree 0"] * 3 + ["tree 1"] * 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"tree": 2}, "tree=2: the forest has 2 trees"),
        ({"y": [1.0]}, "y='an array': is given without X"),
        ({"order": "size"}, "order='size': is no order of rules"),
        ({"order": "support"}, "order='support': is not known without rows; pass rows as X"),
        ({"order": "precision", "X": np.zeros((1, 3))}, "their true answers as y"),
        ({"X": np.zeros((0, 3))}, "has no rows"),
        ({"X": np.zeros((2, 3)), "y": [1.0]}, "does not fit the 2 rows of X"),
    ],
)
def test_bad_arguments(arguments: dict[str, object], message: str):
    with pytest.raises(InvalidArgumentError, match=re.escape(message)):
        explain.rules(Forest(**small_fields()), **arguments)


def test_a_tree_with_many_leaves_has_many_rules_soon():
    forest = complete_forest(np.random.default_rng(0), 1, 10, 30)
    assert 0 < len(explain.rules(forest)) <= 1024
