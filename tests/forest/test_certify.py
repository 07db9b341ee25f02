"""What is certified is true: it agrees with a look at every combination of cells, and its rows show what it says."""

from __future__ import annotations

import itertools
import math
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_diabetes
from sklearn.ensemble import GradientBoostingRegressor

from hardwood.errors import InvalidArgumentError
from hardwood.forest import CATEGORIES, LEAF, THRESHOLD, Forest, from_sklearn
from helpers.forests import complete_forest, forests, random_forest, small_fields

SEEDS = st.integers(0, 2**32 - 1)
CONSTANT: dict[str, Any] = {"kinds": (THRESHOLD, CATEGORIES), "linear": False}
FEW = {**CONSTANT, "n_features": 3}


def choices(forest: Forest, column: int, said: Any, missing: bool) -> list[float]:
    """Return a value of every kind that a column can have, missing ones last."""
    kind = "float" if forest.feature_types is None else forest.feature_types[column]
    if column in forest.categories:
        words = forest.categories[column]
        found = [float(code) for code in range(len(words)) if said is None or words[code] in said]
    elif isinstance(said, set):
        found = sorted(said)
    else:
        low, high = (-math.inf if said is None or said[0] is None else said[0]), (
            math.inf if said is None or said[1] is None else said[1])  # fmt: skip
        cuts = forest.threshold[(forest.kind == THRESHOLD) & (forest.feature == column)]
        cuts = np.concatenate([cuts, [0.0, *(each for each in (low, high) if math.isfinite(each))]])
        near = {0.0, 1.0} if kind == "bool" else {*np.floor(cuts), *np.ceil(cuts), *(np.floor(cuts) - 1)}
        if kind not in ("bool", "int"):
            near |= {*cuts, *np.nextafter(cuts, -math.inf), -math.inf, math.inf}
        found = sorted(each for each in near if low <= each <= high and (kind != "int" or math.isfinite(each)))
    return [*found, math.nan] if missing and said is None else found


def random_region(rng: np.random.Generator, forest: Forest) -> dict[int, Any]:
    within: dict[int, Any] = {}
    for column in range(forest.n_features):
        if rng.random() < 0.6:
            continue
        if column in forest.categories:
            words = forest.categories[column]
            within[column] = set(
                rng.choice(np.array(words, object), int(rng.integers(1, len(words) + 1)), replace=False)
            )
        elif forest.feature_types is not None and forest.feature_types[column] == "bool":
            within[column] = {float(rng.integers(0, 2))}
        else:
            low, high = np.sort(rng.integers(-2, 4, 2)).tolist()
            within[column] = [(low, high), (None, high), (low, None), {float(low), float(high)}][rng.integers(4)]
    return within


def grid(forest: Forest, within: dict[int, Any], missing: bool) -> tuple[list[list[float]], np.ndarray]:
    values = [choices(forest, column, within.get(column), missing) for column in range(forest.n_features)]
    return values, np.array(list(itertools.product(*values)))


def told(forest: Forest, rows: np.ndarray) -> np.ndarray:
    """Predictions as (rows, what `of` can name)."""
    return (
        forest.predict_proba(rows) if forest.is_classifier else np.asarray(forest.predict(rows)).reshape(len(rows), -1)
    )


def names(forest: Forest) -> list[Any]:
    return forest.classes.tolist() if forest.classes is not None else list(range(forest.n_outputs))


def is_rounded(forest: Forest) -> bool:
    """Whether predictions pass a softmax, over trees or over classes."""
    return forest.combine == "softmax" or forest.link == "softmax"


def assert_in_region(forest: Forest, row: np.ndarray, within: dict[int, Any], missing: bool) -> None:
    for column, value in enumerate(row.tolist()):
        said = within.get(column)
        if math.isnan(value):
            assert missing and said is None
        elif column in forest.categories:
            assert value in range(len(forest.categories[column]))
            assert said is None or forest.categories[column][int(value)] in said
        elif isinstance(said, set):
            assert value in said
        elif said is not None:
            assert (said[0] is None or said[0] <= value) and (said[1] is None or value <= said[1])
        kind = "float" if forest.feature_types is None else forest.feature_types[column]
        if kind in ("int", "bool") and not math.isnan(value):
            assert value == math.floor(value)


@settings(max_examples=50)
@given(forests(**FEW), SEEDS, st.booleans())
def test_ranges_and_classes_are_those_of_all_combinations(forest: Forest, seed: int, missing: bool):
    within = random_region(np.random.default_rng(seed), forest)
    _, rows = grid(forest, within, missing)
    if len(rows) == 0:  # an interval without a whole number, say
        with pytest.raises(InvalidArgumentError, match="can have no value"):
            forest.certify(within, missing=missing)
        return
    sure = forest.certify(within, missing=missing)
    said = told(forest, rows)
    for output, name in enumerate(names(forest)):
        found = sure.range(name)
        ends = said[:, output].min(), said[:, output].max()
        if is_rounded(forest):
            np.testing.assert_allclose((found.low, found.high), ends, rtol=1e-9, atol=1e-12)
        else:
            assert (found.low, found.high) == ends
        for row, value in ((found.lowest, found.low), (found.highest, found.high)):
            assert told(forest, row[None])[0, output] == value
            assert_in_region(forest, row, within, missing)
    if forest.is_classifier:
        possible = sure.classes()
        assert set(possible) == set(forest.predict(rows).tolist())
        for label, row in possible.items():
            assert forest.predict(row[None])[0] == label
            assert_in_region(forest, row, within, missing)


@settings(max_examples=50)
@given(forests(**FEW), SEEDS, st.booleans())
def test_rules_hold_or_are_broken_by_the_rows_that_are_shown(forest: Forest, seed: int, lowers: bool):
    rng = np.random.default_rng(seed)
    column = int(rng.integers(3))
    within = random_region(rng, forest)
    by_set = column in forest.categories
    if by_set:
        within.pop(column, None)
        words = list(forest.categories[column])
        first, then = ({words[k] for k in rng.integers(0, len(words), 2)} for _ in range(2))
    else:
        first, then = [(None, None), ((None, 1), (1, None)), ({0.0, 1.0}, (1, 2.5))][rng.integers(3)]
    values, rows = grid(forest, within, True)
    if len(rows) == 0:
        return
    sure = forest.certify(within)
    rule = sure.never_lowers if lowers else sure.never_raises
    output = int(rng.integers(len(names(forest))))
    of = names(forest)[output]

    # Every pair of values of the column, with all others equal.
    sides = [values[column] if each is None else choices(forest, column, each, False) for each in (first, then)]
    if first is not None and not by_set:
        inside = [{v for v in side if v in values[column] or admits(forest, column, within, v)} for side in sides]
        sides = [sorted(each) for each in inside]
    else:
        sides = [[v for v in side if v in values[column]] for side in sides]
    if not all(len([v for v in side if not math.isnan(v)]) for side in sides):
        return
    others = np.unique(np.delete(rows, column, axis=1), axis=0)

    def said(value: float) -> np.ndarray:
        return told(forest, np.insert(others, column, value, axis=1))[:, output]

    change = [
        (said(b) - said(a)) * (1 if lowers else -1)
        for a in sides[0]
        for b in sides[1]
        if not (math.isnan(a) or math.isnan(b)) and (first is not None or a < b)
    ]
    worst = min((float(each.min()) for each in change), default=0.0)
    verdict = rule(column, first, then, of=of)
    if is_rounded(forest) and abs(worst) < 1e-9:
        worst = 0.0 if verdict.holds else worst
    assert verdict.holds == bool(verdict) == (worst >= 0)
    if verdict.holds:
        assert verdict.rows is None and str(verdict).startswith("holds: ")
        return
    assert verdict.rows is not None and verdict.predictions is not None
    before, after = verdict.rows
    assert told(forest, verdict.rows)[:, output].tolist() == list(verdict.predictions)
    assert (verdict.predictions[1] < verdict.predictions[0]) == lowers
    same = (before == after) | (np.isnan(before) & np.isnan(after))
    assert [each for each in range(3) if not same[each]] == [column]
    assert first is not None or before[column] < after[column]
    for row in verdict.rows:
        assert_in_region(forest, row, within, True)


def admits(forest: Forest, column: int, within: dict[int, Any], value: float) -> bool:
    said = within.get(column)
    kind = "float" if forest.feature_types is None else forest.feature_types[column]
    if kind in ("int", "bool") and (value != math.floor(value) or not math.isfinite(value)):
        return False
    if kind == "bool" and value not in (0, 1):
        return False
    if isinstance(said, set):
        return value in said
    return said is None or ((said[0] is None or said[0] <= value) and (said[1] is None or value <= said[1]))


@settings(max_examples=20)
@given(forests(kinds=(THRESHOLD,), linear=False, task="regression", named=False), SEEDS)
def test_a_monotone_forest_never_lowers(forest: Forest, seed: int):
    column = int(np.random.default_rng(seed).integers(forest.n_features))
    if forest.n_outputs > 1 and forest.link == "softmax":
        return
    monotone = forest.make_monotone({column: 1})
    assert all(monotone.certify().never_lowers(column, of=output) for output in range(forest.n_outputs))


def test_a_sum_keeps_a_rule_that_its_trees_break():
    """One tree falls by 1 where the other rises by 2: `is_monotone` looks at trees, a certificate at their sum."""
    stump = {"kind": [1, 0, 0], "left": [1, -1, -1], "right": [2, -1, -1], "feature": [0, -1, -1]}
    forest = Forest(
        tree_start=[0, 3, 6], kind=stump["kind"] * 2, left=[1, -1, -1, 4, -1, -1], right=[2, -1, -1, 5, -1, -1],
        feature=stump["feature"] * 2, threshold=[1.0, 0, 0, 1.0, 0, 0], missing_left=[False] * 6,
        leaf_values=[[1.0], [0.0], [0.0], [2.0]], n_features=1,
    )  # fmt: skip
    assert not forest.is_monotone([1])
    assert forest.certify().never_lowers(0)
    verdict = forest.certify().never_raises(0)
    assert not verdict and verdict.predictions == (1.0, 2.0)
    assert forest.certify().never_raises(0, tolerance=1.0)
    assert not forest.certify().never_raises(0, tolerance=0.5)


def ages() -> Forest:
    """Risk by age and sex: it falls beyond 60 for women only, and between whole years."""
    return Forest(
        tree_start=[0, 7], kind=[THRESHOLD, LEAF, CATEGORIES, THRESHOLD, LEAF, LEAF, LEAF],
        left=[1, -1, 3, 4, -1, -1, -1], right=[2, -1, 6, 5, -1, -1, -1], feature=[0, -1, 1, 0, -1, -1, -1],
        threshold=[60, 0, 0, 60.5, 0, 0, 0], missing_left=[False] * 7, n_features=2,
        category_start=[0, 0, 0, 1, 1, 1, 1, 1], category_codes=[0], categories={1: ("female", "male")},
        leaf_values=[[0.3], [0.1], [0.4], [0.5]], feature_names=("age", "sex"), feature_types=("float", "category"),
    )  # fmt: skip


def test_a_rule_about_an_age():
    forest = ages()
    verdict = forest.certify().never_lowers("age", first=(None, 59), then=(60, None))
    assert not verdict
    assert verdict.predictions == (0.3, 0.1)
    assert "age from at most 59 to at least 60 never lowers the prediction" in str(verdict)
    assert "sex = female" in str(verdict)
    assert forest.certify({"sex": "male"}).never_lowers("age")
    assert forest.certify().never_lowers("sex", first={"female"}, then={"male"})
    # Nobody is 60.2 years old where ages are whole.
    whole = replace(forest, feature_types=("int", "category"), leaf_values=[[0.3], [0.1], [0.3], [0.5]])
    assert not whole.certify().never_lowers("age")
    later = replace(whole, threshold=[60.2, 0, 0, 60.8, 0, 0, 0])
    assert later.certify().never_lowers("age")
    assert not replace(later, feature_types=("float", "category")).certify().never_lowers("age")


def test_missing_values_are_possible_where_they_are_allowed():
    forest = replace(ages(), leaf_values=[[0.3], [0.1], [0.9], [0.5]])
    assert forest.certify({"age": (0, 20)}).range().high == 0.3
    assert forest.certify({"age": (0, 20)}, missing=["age"]).range().high == 0.9
    only = forest.certify({"age": None}, missing=False).range()
    assert (only.low, only.high) == (0.5, 0.9) and math.isnan(only.lowest[0])
    assert forest.certify({"age": {10, None}}).range().high == 0.9
    verdict = forest.certify().never_lowers("age", first={None}, then=(70, None))
    assert not forest.certify().never_raises("age", first=(None, 20), then={None})
    assert verdict.holds


def test_names_cannot_break_what_is_said():
    forest = replace(ages(), feature_names=("age:\nholds: all", "\u202esex"))
    text = str(forest.certify().never_lowers(0))
    assert len(text.splitlines()) == 1 and "\u202e" not in text
    assert text.startswith('does not hold: a larger "age:\\nholds: all" never lowers the prediction; ')


def test_a_policy_has_actions_in_a_region():
    rng = np.random.default_rng(0)
    policy = complete_forest(
        rng, 1, 5, 4, n_outputs=3, classes=["left", "stay", "right"], link="softmax",
        feature_names=("position", "velocity", "angle", "spin"),
    )  # fmt: skip
    everywhere = policy.certify().classes()
    assert set(everywhere) == {"left", "stay", "right"}
    safe = {"position": (-0.1, 0.1), "velocity": (0.0, 0.2), "angle": (0.1, 0.2), "spin": (0, 0.1)}
    possible = policy.certify(safe, missing=False).classes()
    X = np.column_stack([rng.uniform(*bounds, 2000) for bounds in safe.values()])
    assert set(policy.predict(X).tolist()) <= set(possible) < set(everywhere)


def test_ensembles_are_searched_not_listed():
    """Ten trees of eight leaves have 10^9 combinations; the range is that of a long random search, or beyond."""
    X, y = load_diabetes(return_X_y=True)
    model = GradientBoostingRegressor(n_estimators=10, max_depth=3, random_state=0).fit(X, y)
    forest = from_sklearn(model)
    found = forest.certify(missing=False).range()
    rng = np.random.default_rng(0)
    random = forest.predict(rng.uniform(-0.2, 0.2, (20_000, 10)))
    assert found.low <= random.min() and random.max() <= found.high
    said = forest.predict(X)
    assert found.low <= said.min() and said.max() <= found.high


def test_the_search_is_given_up_where_it_was_told_to():
    forest = complete_forest(np.random.default_rng(0), 12, 5, 3)
    with pytest.raises(
        InvalidArgumentError, match=r"max_boxes=5: is too few to settle the range of the prediction; raise"
    ):
        forest.certify(max_boxes=5).range()


@pytest.mark.parametrize(
    ("within", "options", "message"),
    [
        ({"length": (0, 1)}, {}, "within='length': is no column's name"),
        ({3: (0, 1)}, {}, "within=3: is no column of the 3"),
        ({0: (0, 1), "size": 1}, {}, "within='size': is a column that is given twice"),
        ({"size": (2, 1)}, {}, "within['size']=(2, 1): ends before it begins"),
        ({"size": "large"}, {}, "within['size']='large': is no number"),
        ({"colour": {"pink"}}, {}, "within['colour']='pink': is none of the column's categories"),
        ({"age": (0.2, 0.8)}, {}, "within='age': can have no value in this region"),
        ({}, {"missing": "age"}, "missing='age': does not say which columns"),
        ({}, {"missing": ["weight"]}, "missing='weight': is no column's name"),
        ({}, {"max_boxes": 0}, "max_boxes=0: is no number of boxes"),
    ],
)
def test_bad_regions(within: dict[Any, Any], options: dict[str, Any], message: str):
    forest = Forest(**small_fields())[0]
    with pytest.raises(InvalidArgumentError, match=re.escape(message)):
        forest.certify(within, **options)


@pytest.mark.parametrize(
    ("question", "message"),
    [
        (lambda sure: sure.classes(), "has no classes"),
        (lambda sure: sure.range("weight"), "of='weight': is no output of the forest"),
        (lambda sure: sure.range(1), "of=1: is no output of the forest"),
        (lambda sure: sure.never_lowers("colour"), "column='colour': has categories, which have no order"),
        (lambda sure: sure.never_lowers("size", first=(0, 1)), "then=None: is left out"),
        (lambda sure: sure.never_lowers("size", tolerance=-1), "tolerance=-1: is no allowance"),
        (lambda sure: sure.never_lowers("colour", first={"pink"}, then={"red"}), "first='pink': is none"),
        (lambda sure: sure.never_lowers("colour", first={None}, then={"red"}), "first={None}: leaves no value"),
    ],
)
def test_bad_questions(question: Any, message: str):
    sure = Forest(**small_fields())[0].certify(missing=False)
    with pytest.raises(InvalidArgumentError, match=re.escape(message)):
        question(sure)


def test_what_cannot_be_certified_is_refused():
    with pytest.raises(InvalidArgumentError, match="has oblique splits"):
        Forest(**small_fields()).certify()
    linear = random_forest(np.random.default_rng(0), kinds=(THRESHOLD,), linear=True, task="regression")
    with pytest.raises(InvalidArgumentError, match="has linear leaves"):
        linear.certify()
    several = complete_forest(np.random.default_rng(0), 1, 1, 1, n_outputs=2)
    with pytest.raises(
        InvalidArgumentError, match=r"of=None: does not say which output is meant; pass one of \[0, 1\]"
    ):
        several.certify().range()
    classes = complete_forest(np.random.default_rng(0), 1, 1, 1, n_outputs=3, classes=[1, 2, 3], link="softmax")
    with pytest.raises(InvalidArgumentError, match="does not say which class is meant"):
        classes.certify().range()
    with pytest.raises(InvalidArgumentError, match="of=4: is none of the forest's classes"):
        classes.certify().range(4)
