"""A forest comes back from its JSON equal in every bit; any other text ends in an error."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest

from hardwood.errors import ForestFileError, InvalidArgumentError
from hardwood.export import from_json, to_json
from hardwood.forest import THRESHOLD, Forest
from helpers.exports import extreme_forest, many_forests, rebuilt, without_empty_arrays
from helpers.forests import complete_forest, small_fields


def test_every_forest_comes_back_equal() -> None:
    for _, forest in many_forests(range(150)):
        assert from_json(to_json(forest)) == without_empty_arrays(forest)


def test_numbers_of_every_magnitude_come_back_to_the_last_bit() -> None:
    rng = np.random.default_rng(0)
    forest = extreme_forest(rng, 5, 6, base=[-0.0])
    values = rng.choice([-1.0, 1.0], forest.leaf_values.shape) * 10.0 ** rng.uniform(
        -323, 308, forest.leaf_values.shape
    )
    coef = rng.choice([0.0, -0.0, 5e-324, 1.7976931348623157e308, 0.1], (forest.n_leaves, 6, 1))
    forest = rebuilt(forest, leaf_values=values, leaf_coef=coef)
    assert from_json(to_json(forest)) == forest


@pytest.mark.parametrize(
    "classes",
    [
        np.array(["no", 'y"es\n<b>', "\ud800", "日本"], "U40"), np.array([True, False]), np.array([0.1, np.inf]),
        np.array([1.5, -np.inf], np.float32), np.array([0, 255], np.uint8), np.array([2**64 - 1, 0], np.uint64),
        np.array([-(2**63), 2**63 - 1]),
    ],
)  # fmt: skip
def test_labels_keep_their_type(classes: np.ndarray) -> None:
    forest = complete_forest(np.random.default_rng(0), 1, 1, 1, n_outputs=len(classes), link="softmax", classes=classes)
    again = from_json(to_json(forest))
    assert again == forest and again.classes.dtype == classes.dtype


def test_categories_of_every_type_come_back() -> None:
    words = ("inf", math.inf, -math.inf, 0, 1.5, "<script>", "", "\u202e")
    fields = {**small_fields(), "categories": {1: words}, "category_codes": np.array([0, 1])}
    assert from_json(to_json(Forest(**fields))) == Forest(**fields)
    fields["categories"] = {1: (10**700, "red", "green")}
    with pytest.raises(InvalidArgumentError, match="hundreds of digits"):
        to_json(Forest(**fields))


def test_the_text_is_plain_json_that_names_columns_and_categories() -> None:
    document = json.loads(to_json(Forest(**small_fields())))
    root = document["trees"][0]
    assert root["feature"] == "size" and root["below"] == 0.5 and root["missing"] == "left"
    assert root["right"]["in"] == ["red", "blue"]
    assert document["trees"][1]["weights"] == [["age", 1.0], ["size", -0.5]]
    assert document["features"][1] == {"name": "colour", "type": "category", "categories": ["red", "green", "blue"]}
    assert to_json(Forest(**small_fields())).isascii()


def chain(length: int) -> Forest:
    """Make a tree of which every left child is a leaf."""
    inner = 2 * np.arange(length)
    left, right = (np.full(2 * length + 1, -1) for _ in range(2))
    left[inner], right[inner] = inner + 1, inner + 2
    split = left >= 0
    return Forest(
        tree_start=[0, 2 * length + 1],
        kind=np.where(split, THRESHOLD, 0),
        left=left,
        right=right,
        feature=np.where(split, 0, -1),
        threshold=np.where(split, np.arange(2 * length + 1), 0),
        missing_left=np.zeros(2 * length + 1, bool),
        leaf_values=np.arange(length + 1.0)[:, None],
        n_features=1,
    )


def test_long_chains_come_back_and_endless_ones_are_refused() -> None:
    assert from_json(to_json(chain(400))) == chain(400)
    with pytest.raises(InvalidArgumentError, match=r"401 levels.*Forest\.save"):
        to_json(chain(401))


def changed(*path: Any, to: Any = "gone") -> str:
    """Return the JSON of a small forest with one value replaced, or left out."""
    document = json.loads(to_json(rebuilt(Forest(**small_fields()), link="identity")))
    at = document
    for key in path[:-1]:
        at = at[key]
    if to == "gone":
        del at[path[-1]]
    else:
        at[path[-1]] = to
    return json.dumps(document)


ROOT = ("trees", 0)
LEAF = ("trees", 0, "left")
WRONG = [
    ("", "no JSON"), ("{", "no JSON"), ("[]", "something else"), ("{}", "something else"), ("NaN", "constant"),
    ('{"format": 1, "format": 2}', "twice"), ("[" * 100_000, "deep"),
    (changed("version", to=2), "upgrade"), (changed("version", to=True), "version"),
    (changed("trees"), "'trees' is missing"),
    (changed("extra", to=1), "'extra' is unknown"), (changed("trees", to=[]), ""), (changed("trees", to={}), "no list"),
    (changed("combine", to="product"), "combine"), (changed("link", to=3), "link"),
    (changed("base", to=[1, 2]), "base"),
    (changed("outputs", "count", to=0), "outputs"), (changed("outputs", "count", to=2), "stand for 2"),
    (changed("outputs", "names", to=[1]), "name of an output"), (changed("features", 0, "name"), "only some"),
    (changed("features", 0, to=1), "no object"), (changed("features", 1, "categories", 0, to=None), "no text"),
    (changed("features", 0, "name", to="age"), "'size'"), (changed("features", 0, "type", to="colour"), "type"),
    (changed("features", to=[]), ""), (changed(*ROOT, "feature", to="weight"), "'weight'"),
    (changed(*ROOT, "feature", to=0), "feature 0"), (changed(*ROOT, "below", to="much"), "no number"),
    (changed(*ROOT, "below", to=True), "no number"), (changed(*ROOT, "below", to="nan"), "no number"),
    (changed(*ROOT, "below", to=10**400), ""), (changed(*ROOT, "missing", to="up"), "missing"),
    (changed(*ROOT, "left"), "number"), (changed(*ROOT, "node", to=1), "twice"),
    (changed(*ROOT, "node", to=-1), "number"),
    (changed(*LEAF, "node", to=9), "numbered"), (changed(*ROOT, "right", "in", to=["pink"]), "'pink'"),
    (changed(*ROOT, "right", "in", to=["blue", "red"]), "rise"),
    (changed(*ROOT, "right", "in", to=[["red"]]), "no text"),
    (changed(*LEAF, "values", to=[]), "0 numbers"), (changed(*LEAF, "values", to=["inf"]), "finite"),
    (changed(*LEAF, "weight", to=1.0), "only some"), (changed(*LEAF, "code", to="import os"), "unknown"),
    (changed("trees", 1, "weights", to=[]), "weight"), (changed("trees", 1, "weights", 0, to=["age"]), "instead of"),
    (changed("trees", 1, "weights", 0, to=["size", 1.0]), "two weights"),
    (changed("classes", to={"dtype": "O", "labels": [1]}), "type of labels"),
    (changed("classes", to={"dtype": "U1", "labels": ["long"]}), "U1"),
    (changed("classes", to={"dtype": "i1", "labels": [300]}), ""), (changed("classes", to={"dtype": "i8"}), "missing"),
    (changed("classes", to={"dtype": "i8", "labels": [True]}), "i8"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "reason"), WRONG, ids=range(len(WRONG)))
def test_anything_else_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ForestFileError, match=r"the JSON cannot be read: .*; \w") as raised:
        from_json(text)
    assert reason in str(raised.value) or reason == "no JSON"


def test_bytes_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="is no text"):
        from_json(to_json(Forest(**small_fields())).encode())
