"""Every structural mistake is refused with an error that names the field."""

from __future__ import annotations

import dataclasses
import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardwood.errors import InvalidArgumentError
from hardwood.forest import LEAF, Forest
from helpers.forests import forests, small_fields
from helpers.stored import stump


def _with(name: str, index: int, value: Any) -> dict[str, Any]:
    fields = small_fields()
    fields[name] = fields[name].copy()
    fields[name][index] = value
    return {name: fields[name]}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        # lengths
        ({"tree_start": np.array([0])}, "tree_start=.*describes no tree"),
        ({"kind": np.zeros(0, int)}, "tree_start=.*describes no tree"),
        ({"left": np.array([1, -1])}, "left=.*must have length 8"),
        ({"tree_start": np.array([0, 5])}, "tree_start='0..5'.*number of nodes"),
        ({"tree_start": np.array([1, 5, 8])}, "tree_start='1..8'.*number of nodes"),
        ({"tree_start": np.array([0, 9, 5, 8])}, r"tree_start\[1\]=5: is smaller than the entry before"),
        ({"tree_start": np.array([0, 5, 5, 8])}, r"tree_start\[1\]=5: begins a tree without nodes"),
        ({"leaf_values": np.zeros((4, 1))}, "leaf_values=.*length 4.*must have length 5"),
        ({"leaf_values": np.zeros((5, 0))}, "leaf_values=.*has no outputs"),
        # nodes
        (_with("kind", 0, 4), r"kind\[0\]=4: is no node kind"),
        (_with("feature", 0, 3), r"feature\[0\]=3: is no column of the 3"),
        (_with("feature", 0, -1), r"feature\[0\]=-1: is no column"),
        (_with("feature", 1, 0), r"feature\[1\]=0: belongs to a leaf"),
        (_with("feature", 5, 0), r"feature\[5\]=0: belongs to a leaf or an oblique split"),
        (_with("threshold", 0, np.nan), r"threshold\[0\]=nan: is not a number"),
        (_with("threshold", 2, 1.0), r"threshold\[2\]=1.0: belongs to a leaf or a category split"),
        (_with("missing_left", 1, True), r"missing_left\[1\]=True: belongs to a leaf"),
        # links
        (_with("left", 1, 3), r"left\[1\]=3: belongs to a leaf"),
        (_with("left", 0, 0), r"left\[0\]=0: does not stand after its parent"),
        (_with("right", 2, 1), r"right\[2\]=1: does not stand after its parent"),
        (_with("right", 2, 6), r"right\[2\]=6: lies outside its parent's tree"),
        (_with("right", 2, 99), r"right\[2\]=99: lies outside its parent's tree"),
        (_with("left", 2, -1), r"left\[2\]=-1: does not stand after its parent"),
        (_with("right", 2, 3), r"parents\[3\]=2: is the number of parents"),
        (_with("right", 0, 3), r"parents\[2\]=0: is the number of parents"),
        # categories
        ({"categories": {}, "feature_types": None}, r"feature\[2\]=1: is split by category but has no vocabulary"),
        ({"categories": {1: "abc", 5: ("a",)}}, "categories"),
        ({"categories": {1: ("a", "b", "c"), 5: ("a",)}}, "categories=5: is no column"),
        ({"categories": {1: (1, True, 2)}}, r"categories\[1\]=.*names a category twice"),
        ({"category_start": None}, "category_start=None: is needed with category_codes"),
        ({"category_codes": None}, "category_codes=None: is needed with category_start"),
        ({"category_codes": None, "category_start": None}, "category_start=None: is needed: node 2 is a category"),
        ({"category_start": np.array([0, 2])}, "category_start=.*must have length 9"),
        ({"category_codes": np.array([0, 1, 2])}, "category_start='0..2'.*entries of category_codes"),
        ({"category_codes": np.array([0, 3])}, r"category_codes\[1\]=3: is no code"),
        ({"category_codes": np.array([-1, 2])}, r"category_codes\[0\]=-1: is no code"),
        ({"category_codes": np.array([2, 0])}, r"category_codes\[1\]=0: does not rise"),
        ({"category_codes": np.array([2, 2])}, r"category_codes\[1\]=2: does not rise"),
        ({"category_start": np.array([0, 1, 1, 2, 2, 2, 2, 2, 2])}, "begins a range at a node that is not a category"),
        # oblique
        ({"weight_start": None, "weight_feature": None, "weight_value": None}, "weight_start=None: is needed: node 5"),
        ({"weight_value": None}, "weight_value=None: is needed with weight_start"),
        ({"weight_value": np.array([1.0])}, "weight_value=.*must have length 2"),
        ({"weight_value": np.array([1.0, np.inf])}, r"weight_value\[1\]=inf: is not finite"),
        ({"weight_feature": np.array([0, 3])}, r"weight_feature\[1\]=3: is no column"),
        ({"weight_feature": np.array([2, 2])}, r"weight_feature\[1\]=2: has two weights in one split"),
        (
            {"weight_start": np.zeros(9, int), "weight_feature": np.zeros(0, int), "weight_value": np.zeros(0)},
            r"weight_start\[5\]=0: begins an oblique split without weights",
        ),
        # leaves
        (_with("leaf_values", 1, np.nan), r"leaf_values\[1, 0\]=nan: is not finite"),
        ({"leaf_coef": np.zeros((5, 2, 1))}, r"leaf_coef=.*must have shape \(5, 3, 1\)"),
        ({"leaf_coef": np.full((5, 3, 1), np.inf)}, r"leaf_coef\[0, 0, 0\]=inf: is not finite"),
        ({"base": np.zeros(2)}, "base=.*must have length 1"),
        ({"combine": "max"}, "combine='max': is no way to combine"),
        ({"combine": "softmax"}, "leaf_weights=None: is needed by combine='softmax'"),
        ({"leaf_weights": np.zeros(5)}, "leaf_weights=.*not used by combine='sum'"),
        ({"leaf_weights": np.zeros(4), "combine": "softmax"}, "leaf_weights=.*must have length 5"),
        # names
        ({"feature_names": ("a", "b")}, "feature_names=.*has 2 entries for 3"),
        ({"feature_names": ("a", "b", "a")}, "feature_names='a': occurs twice"),
        ({"output_names": ("a", "b")}, "output_names=.*has 2 entries for 1"),
        ({"feature_types": ("float", "category", "text")}, r"feature_types\[2\]='text': is no column type"),
        ({"feature_types": ("float", "int", "int")}, r"feature_types\[1\]='int'.*which has this column"),
        ({"feature_types": ("category", "category", "int")}, r"feature_types\[0\]='category'.*which lacks this column"),
        # outcome
        ({"link": "probit"}, "link='probit': is no link"),
        ({"classes": [1, 1]}, "classes=.*must be distinct"),
        ({"classes": []}, "classes="),
        ({"classes": [0.5, np.nan], "link": "sigmoid"}, "classes=.*must be distinct"),
        ({"classes": [1, 2], "link": "exp"}, "link='exp': gives no probabilities"),
        ({"classes": [1, 2, 3], "link": "sigmoid"}, "link='sigmoid': tells two classes apart"),
        ({"classes": [1, 2], "link": "softmax"}, "leaf_values=.*1 output.*2 classes needs 2"),
    ],
)
def test_a_mistake_is_named(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        Forest(**{**small_fields(), **change})


@given(forests(), st.integers(0, 10**6))
def test_a_wrong_link_never_passes(forest: Forest, seed: int) -> None:
    """Any child changed to another node breaks the rule that every node has exactly one parent."""
    rng = np.random.default_rng(seed)
    inner = np.flatnonzero(forest.kind != LEAF)
    if not len(inner):
        return
    name = str(rng.choice(["left", "right"]))
    links = getattr(forest, name).copy()
    node = rng.choice(inner)
    links[node] = rng.choice(np.delete(np.arange(-2, forest.node_count + 2), links[node] + 2))
    with pytest.raises(InvalidArgumentError):
        dataclasses.replace(forest, **{name: links})


def test_a_claim_of_many_columns_takes_no_memory() -> None:
    tracemalloc.start()
    forest = stump(n_features=2**31 - 1, categories={7: ("a", "b")})
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert forest.n_features == 2**31 - 1 and peak < 2**22
    with pytest.raises(InvalidArgumentError, match=r"n_features=2147483648.*at most 2147483647"):
        stump(n_features=2**31)
