"""An explanation agrees with the forest it explains, and reads well."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hardwood import explain
from hardwood.errors import InvalidArgumentError
from hardwood.forest import Forest
from helpers.forests import (
    complete_forest,
    forests,
    random_rows,
    reference_route,
    reference_tree_outputs,
    reference_tree_weights,
    small_fields,
)


@settings(max_examples=40)
@given(forests(), st.integers(0, 2**32 - 1))
def test_an_explanation_agrees_with_the_forest(forest: Forest, seed: int):
    X = random_rows(np.random.default_rng(seed), forest, 3)
    predictions, outputs = forest.predict(X), forest.outputs(X)
    for k, found in enumerate(explain.rows(forest, X, n_trees=None)):
        np.testing.assert_array_equal(np.array(found.prediction), predictions[k])
        np.testing.assert_array_equal(found.outputs, outputs[k])
        if forest.classes is None:
            assert found.classes is None and found.probabilities is None
        else:
            assert found.classes == tuple(forest.classes.tolist())
            np.testing.assert_array_equal(found.probabilities, forest.predict_proba(X)[k])
        row = X[k].tolist()
        with np.errstate(invalid="ignore", over="ignore"):
            said = reference_tree_outputs(forest, row)
        weight, reach = reference_tree_weights(forest, row), reference_route(forest, row)
        assert sorted(reason.tree for reason in found.reasons) == list(range(forest.n_trees))
        shares = [reason.share for reason in found.reasons]
        assert shares == sorted(shares, reverse=True)
        assert sum(shares) == pytest.approx(1)
        for reason in found.reasons:
            np.testing.assert_allclose(reason.outputs, said[reason.tree])
            assert reason.weight == pytest.approx(weight[reason.tree])
            assert reason.leaf == reach[reason.tree] - forest.tree_start[reason.tree]
            assert all(condition.holds(X[k : k + 1])[0] for condition in reason.conditions)
        json.dumps(found.to_dict(), allow_nan=False)
        assert str(found).startswith("Prediction: ")


@settings(max_examples=40)
@given(forests(linear=False), st.integers(0, 2**32 - 1))
def test_what_trees_add_is_what_decides(forest: Forest, seed: int):
    """In favour of the predicted class, or to each output."""
    X = random_rows(np.random.default_rng(seed), forest, 2)
    base = np.zeros(forest.n_outputs) if forest.base is None else forest.base
    for k, found in enumerate(explain.rows(forest, X, n_trees=None)):
        total = np.sum([reason.adds for reason in found.reasons], axis=0)
        expected = forest.outputs(X)[k] - base
        if forest.classes is not None:
            at = forest.classes.tolist().index(found.prediction)
            expected = expected * (1 if at else -1) if forest.link == "sigmoid" else expected[[at]]
        np.testing.assert_allclose(total, expected, atol=1e-9)
        if forest.combine == "softmax":
            assert [reason.share for reason in found.reasons] == [reason.weight for reason in found.reasons]
        else:
            sizes = np.abs([reason.adds for reason in found.reasons]).sum(axis=1)
            np.testing.assert_allclose([reason.share for reason in found.reasons], sizes / sizes.sum(), atol=1e-12)


@settings(max_examples=40)
@given(forests(), st.integers(0, 2**32 - 1), st.integers(1, 5))
def test_fewer_trees_are_the_first_of_all(forest: Forest, seed: int, n_trees: int):
    x = random_rows(np.random.default_rng(seed), forest, 1)[0]
    some, every = explain.row(forest, x, n_trees), explain.row(forest, x, None)
    # Compared as JSON: a number that is none is not equal to itself.
    assert some.to_dict()["reasons"] == every.to_dict()["reasons"][:n_trees]
    assert every.rest == 0
    assert some.rest == pytest.approx(sum(reason.share for reason in every.reasons[n_trees:]), abs=1e-12)
    assert ("The other" in str(some)) == (n_trees < forest.n_trees)
    assert explain.row(forest, x[None], n_trees).to_dict() == some.to_dict()
    assert next(explain.rows(forest, x[None], n_trees)).to_dict() == some.to_dict()


def experts() -> Forest:
    """Three small trees; the leaf of the first that knows for sure outweighs the others."""
    return Forest(
        tree_start=[0, 5, 8, 9],
        kind=[1, 0, 1, 0, 0, 1, 0, 0, 0],
        left=[1, -1, 3, -1, -1, 6, -1, -1, -1],
        right=[2, -1, 4, -1, -1, 7, -1, -1, -1],
        feature=[0, -1, 1, -1, -1, 1, -1, -1, -1],
        threshold=[0.5, 0, 2.5, 0, 0, 7, 0, 0, 0],
        missing_left=[True] + [False] * 8,
        leaf_values=[[0.0], [2.0], [6.0], [1.0], [-1.0], [-0.5]],
        leaf_weights=[0.0, 0.0, 4.0, 0.5, 0.0, 0.5],
        combine="softmax",
        link="sigmoid",
        n_features=2,
        feature_names=("prefix_suffix", "links"),
        feature_types=("bool", "int"),
        classes=["legitimate", "phishing"],
    )


def test_one_small_tree_can_carry_a_prediction():
    assert str(explain.row(experts(), [1, 4])) == (
        "Prediction: phishing (99.7%; legitimate 0.3%)\n"
        "\n"
        "Tree 0 has 94.3% of the weight and says phishing 99.8%, legitimate 0.2%, because\n"
        "    prefix_suffix is true\n"
        "    links >= 3 (here 4)\n"
        "\n"
        "Tree 1 has 2.8% of the weight and says phishing 73.1%, legitimate 26.9%, because\n"
        "    links <= 6 (here 4)\n"
        "\n"
        "Tree 2 has 2.8% of the weight and says legitimate 62.2%, phishing 37.8%, whatever the row"
    )
    assert str(explain.row(experts(), [1, 4], n_trees=1)).endswith("(here 4)\n\nThe other 2 trees: 5.7% of the weight.")
    assert str(explain.row(experts(), [1, 4], n_trees=2)).endswith("(here 4)\n\nThe other tree: 2.8% of the weight.")


def test_trees_that_are_summed():
    fields = {
        name: getattr(experts(), name) for name in ("tree_start", "kind", "left", "right", "feature", "threshold")
    }
    fields |= {"missing_left": [False] * 9, "leaf_values": experts().leaf_values, "n_features": 2}
    forest = Forest(**fields, base=[-1.0])
    assert str(explain.row(forest, [1, 4], n_trees=2)) == (
        "Prediction: 5.5, where the sum starts at -1\n"
        "\n"
        "Tree 0 adds +6 (80% of what all trees add), because\n"
        "    x[0] >= 0.5 (here 1)\n"
        "    x[1] >= 2.5 (here 4)\n"
        "\n"
        "Tree 1 adds +1 (13.3% of what all trees add), because\n"
        "    x[1] < 7 (here 4)\n"
        "\n"
        "The other tree: 6.7% of what all trees add."
    )
    labelled = Forest(**fields, base=[-9.0], classes=[3, 7], link="sigmoid")
    text = str(explain.row(labelled, [1, 4], n_trees=1))
    assert text.startswith("Prediction: class 3 (92.4%; class 7 7.6%), where the sum starts at +9\n\n")
    assert "Tree 0 adds -6 for class 3 (80% of what all trees add), because" in text
    averaged = Forest(**fields, combine="mean", link="exp")
    assert "Tree 0 says 403.429 (80% of what all trees say), because" in str(explain.row(averaged, [1, 4]))


def test_many_classes_are_cut_short():
    forest = Forest(
        tree_start=[0, 1], kind=[0], left=[-1], right=[-1], feature=[-1], threshold=[0], missing_left=[False],
        leaf_values=[[0.4, 0.2, 0.1, 0.1, 0.1, 0.1]], n_features=1, classes=list("abcdef"),
    )  # fmt: skip
    assert str(explain.row(forest, [0])) == "Prediction: a (40%; b 20%, c 10%, 3 others less), whatever the row"


def test_linear_leaves_say_their_formula():
    fields: dict[str, Any] = {
        "tree_start": [0, 1], "kind": [0], "left": [-1], "right": [-1], "feature": [-1], "threshold": [0],
        "missing_left": [False], "leaf_values": [[1.0]], "leaf_coef": [[[0.5]]], "n_features": 1,
        "feature_names": ("age",),
    }  # fmt: skip
    assert str(explain.row(Forest(**fields), [4])) == "Prediction: 3, from 1 + 0.5*age, whatever the row"


def test_infinite_answers_leave_no_share_to_others():
    fields = small_fields()
    coef = np.zeros((5, 3, 1))
    coef[0, 0] = 1.0
    found = explain.row(Forest(**fields, leaf_coef=coef), [-np.inf, 0, 30])
    assert [reason.share for reason in found.reasons] == [1.0, 0.0]
    assert found.to_dict()["prediction"] == "-inf"


def test_trees_that_say_nothing_share_alike():
    forest = complete_forest(np.random.default_rng(0), 4, 1, 1)
    silent = Forest(**{**vars_of(forest), "leaf_values": np.zeros((8, 1))})
    assert [reason.share for reason in explain.row(silent, [0.0], None).reasons] == [0.25] * 4


def vars_of(forest: Forest) -> dict[str, Any]:
    names = ("tree_start", "kind", "left", "right", "feature", "threshold", "missing_left", "n_features")
    return {name: getattr(forest, name) for name in names}


def test_names_cannot_break_the_text():
    names = ("a:\nTree 9", "\u202etxt", "age")
    text = str(explain.row(Forest(**{**small_fields(), "feature_names": names}), [9, 0, 3]))
    assert '    "a:\\nTree 9" >= 0.5 (here 9)' in text
    assert "\u202e" not in text


@pytest.mark.parametrize("frames", ["pandas", "polars", "pyarrow"])
def test_a_row_may_be_a_frame(frames: str):
    module: Any = pytest.importorskip(frames)
    forest = Forest(**small_fields())
    frame = (module.table if frames == "pyarrow" else module.DataFrame)(
        {"age": [30], "colour": ["blue"], "size": [1.5]}
    )
    found = explain.row(forest, frame)
    assert found == explain.row(forest, [1.5, 2, 30])
    assert "    colour in {red, blue} (here blue)" in str(found)
    assert "    1*age - 0.5*size >= 1.5 (here 29.25)" in str(found)


def test_lists_and_shorter_floats_are_rows_too():
    forest = complete_forest(np.random.default_rng(0), 2, 3, 2)
    assert explain.row(forest, (0, 1)) == explain.row(forest, np.array([0, 1], np.float32))
    assert repr(explain.row(forest, [0, 1], 1)).endswith(", 1 of 2 trees)")
    assert list(explain.rows(forest, np.zeros((0, 2)))) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"x": np.zeros((2, 3))}, "x='2 rows': is not one row; pass one row, or call explain.rows"),
        ({"x": np.zeros(2)}, "has 2 column(s), but the forest was made for 3"),
        ({"x": 3.0}, "must have two dimensions"),
        ({"x": [0, 0, 0], "n_trees": 0}, "n_trees=0: must be an integer of at least 1"),
    ],
)
def test_bad_arguments(arguments: dict[str, Any], message: str):
    with pytest.raises(InvalidArgumentError, match=re.escape(message)):
        explain.row(Forest(**small_fields()), **arguments)


def test_rows_refuses_at_once():
    with pytest.raises(InvalidArgumentError, match="has 2 column"):
        explain.rows(Forest(**small_fields()), np.zeros((1, 2)))
