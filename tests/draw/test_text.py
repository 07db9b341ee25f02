"""Rules say what the forest does: a reader who follows them arrives at the leaf that the forest reaches."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hardwood import draw
from hardwood.draw._label import label
from hardwood.draw._words import Words, leaf_answers, leaf_numbers
from hardwood.errors import InvalidArgumentError
from hardwood.forest import LEAF, THRESHOLD, Forest
from helpers.forests import complete_forest, forests, random_forest, random_rows, reference_route

CONDITION = re.compile(r"(.*?) (<|>=|is not|is|not in|in) (.*?)( or missing)?")


def follow(rules: str, row: list[float], forest: Forest) -> str:
    """Read rules from the top as a person would and return the line of the leaf."""
    lines = [line for line in rules.splitlines() if not line.startswith("#")]
    at = 0
    while lines[at].strip().startswith("if "):
        indent = len(lines[at]) - len(lines[at].lstrip())
        otherwise = next(k for k in range(at + 1, len(lines)) if re.match(rf" {{{indent}}}else:", lines[k]) is not None)
        up = holds(lines[at].strip()[3:-1], row, forest)
        assert up != holds(lines[otherwise].partition("# ")[2], row, forest)
        at = at + 1 if up else otherwise + 1
    return lines[at].strip()


def holds(condition: str, row: list[float], forest: Forest) -> bool:
    match = CONDITION.fullmatch(condition)
    assert match is not None, condition
    subject, relation, right, missing = match.groups()
    columns = [int(found) for found in re.findall(r"x\[(\d+)\]", subject)]
    if any(math.isnan(row[column]) for column in columns):
        return missing is not None
    if relation in ("<", ">="):
        value = eval(subject, {"x": row})
        return (value < float(right)) == (relation == "<")
    if right in ("true", "false"):
        return bool(row[columns[0]]) == (right == "true")
    shown = right[1:-1].split(", ") if right.startswith("{") else [right]
    inside = label(forest.categories[columns[0]][int(row[columns[0]])]) in shown
    return inside != ("not" in relation)


def rows_of_known_codes(rng: np.random.Generator, forest: Forest) -> np.ndarray:
    X = random_rows(rng, forest, 20)
    X[np.isinf(X)] = 3.0
    for column, vocabulary in forest.categories.items():
        X[:, column] = rng.choice([*range(len(vocabulary)), math.nan], len(X))
    return X


@settings(max_examples=50)
@given(forests(named=False), st.integers(0, 2**32 - 1))
def test_following_the_rules_reaches_the_leaf(forest: Forest, seed: int):
    numbers = leaf_numbers(forest)
    for tree in range(forest.n_trees):
        rules = draw.text(forest, tree, exact=True)
        words = Words(forest, tree, exact=True)
        for row in rows_of_known_codes(np.random.default_rng(seed), forest).tolist():
            leaf = numbers[reference_route(forest, row)[tree]]
            assert follow(rules, row, forest) == words.leaf(leaf)


@settings(max_examples=50)
@given(forests(), st.integers(0, 4))
def test_cut_rules_begin_as_the_whole_ones_do(forest: Forest, max_depth: int):
    whole = draw.text(forest).splitlines()
    cut = draw.text(forest, max_depth=max_depth).splitlines()
    leaves_left_out = sum(int(found) for found in re.findall(r"\.\.\. (\d+) leaves", "\n".join(cut)))
    notes = sum(line.strip().startswith("...") for line in cut)
    own = slice(0, forest.tree_start[1])
    heading = sum(line.startswith("# ") for line in whole)
    splits_shown = sum(line.lstrip().startswith("if ") for line in cut)
    assert len(cut) == heading + 3 * splits_shown + 1
    assert np.count_nonzero(forest.kind[own] == LEAF) == splits_shown + 1 - notes + leaves_left_out


def stump(**changes: Any) -> Forest:
    fields: dict[str, Any] = {
        "tree_start": [0, 3],
        "kind": [THRESHOLD, LEAF, LEAF],
        "left": [1, -1, -1],
        "right": [2, -1, -1],
        "feature": [0, -1, -1],
        "threshold": [2.5, 0, 0],
        "missing_left": [True, False, False],
        "leaf_values": [[0.25, 0.75], [1.0, 0.0]],
        "n_features": 1,
        "classes": np.array(["no", "yes"]),
    }
    return Forest(**{**fields, **changes})


def test_a_classifier_shows_shares_in_order():
    assert draw.text(stump()) == ("if x[0] < 2.5 or missing:\n    yes 75%, no 25%\nelse:  # x[0] >= 2.5\n    no 100%")


def test_class_labels_that_are_numbers_are_told_from_values():
    assert "class 7 75%, class 3 25%" in draw.text(stump(classes=np.array([3, 7])))


@pytest.mark.parametrize(
    ("kind", "threshold", "left", "right"),
    [
        ("bool", 0.5, "is false", "is true"),
        ("bool", 2.0, "< 2", ">= 2"),
        ("datetime", 86_400.0, "< 1970-01-02", ">= 1970-01-02"),
        ("datetime", math.inf, "< inf", ">= inf"),
        ("int", 2.5, "<= 2", ">= 3"),
        ("int", 2.0, "<= 1", ">= 2"),
        ("int", 1e300, "< 1e+300", ">= 1e+300"),
    ],
)
def test_column_types_decide_the_words(kind: str, threshold: float, left: str, right: str):
    forest = stump(feature_types=(kind,), threshold=[threshold, 0, 0])
    words = Words(forest, 0)
    assert (words.relation(0, goes_left=True), words.relation(0, goes_left=False)) == (left, right)


def test_thresholds_that_differ_read_differently():
    forest = Forest(
        tree_start=[0, 5],
        kind=[THRESHOLD, LEAF, THRESHOLD, LEAF, LEAF],
        left=[1, -1, 3, -1, -1],
        right=[2, -1, 4, -1, -1],
        feature=[0, -1, 0, -1, -1],
        threshold=[1.0, 0, 1.0 + 2**-40, 0, 0],
        missing_left=[False] * 5,
        leaf_values=[[1.0], [2.0], [3.0]],
        n_features=1,
    )
    assert "< 1:" in draw.text(forest)
    assert "< 1.000000000001:" in draw.text(forest)


def test_trees_of_a_sum_say_what_they_add():
    rng = np.random.default_rng(0)
    forest = random_forest(rng, n_trees=3, max_splits=0, n_outputs=1, combine="sum", linear=False, task="regression")
    heading, *_, answer = draw.text(forest, 1).splitlines()
    assert heading == "# tree 1 of 3: what it adds to the sum of all trees"
    assert re.search(r"(^|: )[+-]", answer)


@settings(max_examples=50)
@given(forests(n_trees=1, linear=False))
def test_leaf_answers_are_the_forests_predictions(forest: Forest):
    """A leaf's answer is what the forest predicts for a row that reaches it."""
    answers = leaf_answers(forest)
    rows = random_rows(np.random.default_rng(0), forest, 20)
    numbers = leaf_numbers(forest)
    leaves = [numbers[int(node)] for node in forest.apply(rows)[:, 0]]
    if forest.is_classifier:
        expected = forest.predict_proba(rows)
        found = answers[leaves]
        found = np.hstack([1 - found, found]) if expected.shape[1] > found.shape[1] else found
    else:
        expected = np.asarray(forest.predict(rows)).reshape(len(rows), -1)
        found = answers[leaves]
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_linear_leaves_are_formulas():
    forest = stump(
        classes=None,
        leaf_values=[[1.0], [2.0]],
        leaf_coef=[[[0.5]], [[-0.25]]],
        feature_names=("age",),
    )
    assert "1 + 0.5*age" in draw.text(forest)
    assert "2 - 0.25*age" in draw.text(forest)


def test_a_name_cannot_break_the_rules():
    forest = stump(feature_names=("a:\nelse < 3",), classes=np.array(["x, y", "\u202etxt"]))
    rules = draw.text(forest)
    assert len(rules.splitlines()) == 4
    assert '"a:\\nelse < 3" < 2.5' in rules
    assert '"x, y" 25%' in rules
    assert "\u202e" not in rules


def test_remarks_count_the_rows_of_splits_and_leaves():
    rules = draw.text(stump(), X=[[1.0], [2.0], [np.nan], [9.0]], y=["yes", "yes", "no", "no"])
    assert rules.splitlines() == [
        "# 4 rows: no 50%, yes 50%",
        "if x[0] < 2.5 or missing:",
        "    yes 75%, no 25%  # 3 rows: yes 66.7%, no 33.3%",
        "else:  # x[0] >= 2.5",
        "    no 100%  # 1 row: no 100%",
    ]
    assert "# 4 rows\n" in draw.text(stump(), X=[[1.0], [2.0], [np.nan], [9.0]])


@settings(max_examples=50)
@given(forests(), st.integers(0, 2**32 - 1), st.sampled_from([None, 1, 3]))
def test_remarks_only_add_to_the_rules(forest: Forest, seed: int, max_depth: int | None):
    """Each node that is shown has one remark, and without the remarks the rules are the same."""
    X = random_rows(np.random.default_rng(seed), forest, 7)
    plain, remarked = (draw.text(forest, 0, max_depth, **given).splitlines() for given in ({}, {"X": X}))
    remark = re.compile(r"(  # |; |^# )[0-9]+ rows?$")
    cleaned = [remark.sub("", line) for line in remarked]
    root_is_split = forest.kind[0] != LEAF and max_depth != 0
    assert [line for line in cleaned if line] == plain
    splits = sum(line.lstrip().startswith("if ") for line in plain)
    assert sum(remark.search(line) is not None for line in remarked) == 2 * splits + 1
    assert ("" in cleaned) == root_is_split


@settings(max_examples=50)
@given(forests())
def test_printing_a_forest_shows_its_size_and_its_first_tree(forest: Forest):
    shown = str(forest).splitlines()
    assert shown[0] == repr(forest)
    assert len(shown) <= 66
    assert (f"# {forest.n_trees - 1} more tree" in shown[-1]) == (forest.n_trees > 1)


def test_large_forests_are_printed_short():
    forest = complete_forest(np.random.default_rng(0), 50, 9, 4, feature_names=("a" * 500, "b", "c", "d"))
    shown = str(forest)
    assert len(shown.splitlines()) < 66
    assert max(map(len, shown.splitlines())) < 200
    assert "... 32 leaves" in shown
    assert "# 49 more trees" in shown
    assert len(repr(forest)) < 100


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"tree": 1}, "tree=1: the forest has 1 trees; pass a number from 0 to 0"),
        ({"tree": -1}, "tree=-1"),
        ({"max_depth": -1}, "max_depth=-1: is negative"),
    ],
)
def test_bad_arguments(arguments: dict[str, int], message: str):
    with pytest.raises(InvalidArgumentError, match=re.escape(message)):
        draw.text(stump(), **arguments)
