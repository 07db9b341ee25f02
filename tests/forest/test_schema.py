"""A file whose checksum is right but whose content is no forest is refused by a check, whatever was changed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hardwood.forest import load
from helpers.forests import random_forest, random_rows
from helpers.stored import Edit, forest_to_forge, forge, loaded_or_refused, refuse, stump


def array(name: str, *, at: Any = ..., to: Any) -> Edit:
    def edit(document: dict[str, Any], arrays: dict[str, Any]) -> None:
        arrays[name][at] = to

    return edit


def whole_array(name: str, change: Callable[[np.ndarray], Any]) -> Edit:
    def edit(document: dict[str, Any], arrays: dict[str, Any]) -> None:
        arrays[name] = np.ascontiguousarray(change(arrays[name]))

    return edit


def without(*names: str) -> Edit:
    def edit(document: dict[str, Any], arrays: dict[str, Any]) -> None:
        for name in names:
            del arrays[name], document["arrays"][name]

    return edit


def stored(name: str, to: Any) -> Edit:
    def edit(document: dict[str, Any], arrays: dict[str, Any]) -> None:
        document["forest"][name] = to

    return edit


def top(name: str, to: Any) -> Edit:
    def edit(document: dict[str, Any], arrays: dict[str, Any]) -> None:
        document[name] = to

    return edit


def an_array_more(document: dict[str, Any], arrays: dict[str, Any]) -> None:
    arrays["extra"] = np.zeros(3)


def an_array_unlisted(document: dict[str, Any], arrays: dict[str, Any]) -> None:
    document["arrays"]["base"] = "keep"


def an_array_listed_but_absent(document: dict[str, Any], arrays: dict[str, Any]) -> None:
    del arrays["base"]


def a_key_less(document: dict[str, Any], arrays: dict[str, Any]) -> None:
    del document["forest"]["link"]


def number_labels_as_text(document: dict[str, Any], arrays: dict[str, Any]) -> None:
    arrays["classes"] = np.array([1, 2], np.uint32)


FORGERIES: dict[str, Edit] = {
    "a child that is its own parent": array("left", at=0, to=0),
    "a cycle": array("left", at=1, to=0),
    "a cycle below": array("right", at=4, to=1),
    "two parents": array("right", at=1, to=2),
    "a child in another tree": array("right", at=4, to=7),
    "a child far outside": array("left", at=0, to=2**31 - 1),
    "a child below zero": array("left", at=0, to=-7),
    "a leaf with a child": array("left", at=2, to=3),
    "a column outside": array("feature", at=0, to=3),
    "a column below zero": array("feature", at=0, to=-1),
    "a kind that is none": array("kind", at=0, to=4),
    "a kind below zero": array("kind", at=0, to=-1),
    "another number of leaves": array("kind", at=4, to=0),
    "a NaN threshold": array("threshold", at=0, to=np.nan),
    "a NaN leaf": array("leaf_values", at=0, to=np.nan),
    "an infinite leaf": array("leaf_values", at=0, to=np.inf),
    "a NaN weight": array("weight_value", at=0, to=np.nan),
    "a NaN leaf weight": array("leaf_weights", at=0, to=np.nan),
    "a NaN coefficient": array("leaf_coef", at=0, to=np.nan),
    "a NaN base": array("base", at=0, to=np.nan),
    "a tree that begins late": array("tree_start", at=0, to=1),
    "a tree that ends late": array("tree_start", at=2, to=2**62),
    "a tree of negative size": array("tree_start", at=1, to=-(2**62)),
    "an empty tree": array("tree_start", at=1, to=8),
    "category ranges that fall": array("category_start", at=1, to=5),
    "category ranges too long": array("category_start", at=8, to=2**62),
    "a code outside the vocabulary": array("category_codes", at=1, to=3),
    "a code below zero": array("category_codes", at=0, to=-1),
    "codes that fall": array("category_codes", at=0, to=2),
    "weight ranges that fall": array("weight_start", at=1, to=-3),
    "a weight's column outside": array("weight_feature", at=0, to=3),
    "a weight's column twice": array("weight_feature", at=1, to=0),
    "float32 thresholds": whole_array("threshold", lambda x: x.astype(np.float32)),
    "float children": whole_array("left", lambda x: x.astype(np.float64)),
    "wide children": whole_array("left", lambda x: x.astype(np.int64)),
    "integer directions": whole_array("missing_left", lambda x: x.astype(np.int8)),
    "thresholds on two axes": whole_array("threshold", lambda x: x[None]),
    "thresholds too short": whole_array("threshold", lambda x: x[:-1]),
    "no thresholds": whole_array("threshold", lambda x: x[:0]),
    "no trees": whole_array("tree_start", lambda x: x[:1]),
    "no tree starts": whole_array("tree_start", lambda x: x[:0]),
    "leaves too few": whole_array("leaf_values", lambda x: x[:-1]),
    "no outputs": whole_array("leaf_values", lambda x: x[:, :0]),
    "three outputs": whole_array("leaf_values", lambda x: np.repeat(x, 2, axis=1)),
    "coefficients of another shape": whole_array("leaf_coef", lambda x: x.transpose(0, 2, 1)),
    "no category starts": whole_array("category_start", lambda x: x[:0]),
    "no ranges": without("category_start"),
    "no codes": without("category_codes"),
    "no leaf weights": without("leaf_weights"),
    "no thresholds at all": without("threshold"),
    "no labels": without("classes"),
    "half the labels": whole_array("classes", lambda x: x[:1]),
    "labels without width": whole_array("classes", lambda x: x[:, :0]),
    "labels beyond Unicode": array("classes", at=(0, 0), to=0x110000),
    "labels far beyond Unicode": array("classes", at=(0, 0), to=2**32 - 1),
    "labels twice": array("classes", to=65),
    "labels of another dtype": whole_array("classes", lambda x: x.astype(np.int32)),
    "labels on one axis": number_labels_as_text,
    "labels as numbers": stored("classes", "numbers"),
    "labels as a list": stored("classes", ["no", "yes"]),
    "no kind of labels": stored("classes", None),
    "an array more": an_array_more,
    "an array unlisted": an_array_unlisted,
    "an array listed but absent": an_array_listed_but_absent,
    "a key less": a_key_less,
    "a key more": stored("module", "os"),
    "a key more at the top": top("callable", "os.system"),
    "arrays as a list": top("arrays", []),
    "forest as a list": top("forest", []),
    "no forest": top("forest", None),
    "columns as text": stored("n_features", "3"),
    "columns as a float": stored("n_features", 3.0),
    "columns as a boolean": stored("n_features", True),
    "no columns": stored("n_features", 0),
    "columns below zero": stored("n_features", -3),
    "columns beyond int32": stored("n_features", 2**31),
    "columns beyond int64": stored("n_features", 2**64),
    "columns too few": stored("n_features", 2),
    "combine unknown": stored("combine", "median"),
    "combine as a list": stored("combine", ["sum"]),
    "combine as nothing": stored("combine", None),
    "combine without weights": stored("combine", "sum"),
    "link unknown": stored("link", "os.system"),
    "link as an object": stored("link", {}),
    "link of regression": stored("link", "exp"),
    "names too few": stored("feature_names", ["a"]),
    "names twice": stored("feature_names", ["a", "a", "b"]),
    "names as numbers": stored("feature_names", [1, 2, 3]),
    "names as a text": stored("feature_names", "abc"),
    "names as an object": stored("feature_names", {"a": 1, "b": 2, "c": 3}),
    "output names too many": stored("output_names", ["a", "b", "c"]),
    "types unknown": stored("feature_types", ["float", "category", "complex"]),
    "types of another column": stored("feature_types", ["category", "float", "int"]),
    "types as lists": stored("feature_types", [["float"], ["category"], ["int"]]),
    "no vocabulary": stored("categories", []),
    "vocabulary too small": stored("categories", [[1, ["x", 2]]]),
    "vocabulary of no column": stored("categories", [[1, ["x", 2, 3.5]], [3, ["x"]]]),
    "vocabulary of a huge column": stored("categories", [[1, ["x", 2, 3.5]], [10**30, ["x"]]]),
    "vocabulary of a text column": stored("categories", [["1", ["x", 2, 3.5]]]),
    "vocabulary of column True": stored("categories", [[True, ["x", 2, 3.5]]]),
    "vocabulary twice": stored("categories", [[1, ["x", 2, 3.5]], [1, ["x", 2, 3.5]]]),
    "vocabulary with a value twice": stored("categories", [[1, ["x", 1, 1.0]]]),
    "vocabulary with a list": stored("categories", [[1, ["x", 2, []]]]),
    "vocabulary with nothing": stored("categories", [[1, ["x", 2, None]]]),
    "vocabulary with NaN": stored("categories", [[1, ["x", 2, {"float": "nan"}]]]),
    "vocabulary with an object": stored("categories", [[1, ["x", 2, {"float": 1.0}]]]),
    "vocabulary as a text": stored("categories", [[1, "xyz"]]),
    "vocabularies as an object": stored("categories", {"1": ["x", 2, 3.5]}),
    "vocabularies as numbers": stored("categories", [1]),
    "version as a text": top("schema_version", "1"),
    "version as a boolean": top("schema_version", True),
    "version as a float": top("schema_version", 1.0),
    "version zero": top("schema_version", 0),
}


@pytest.mark.parametrize("what", FORGERIES)
def test_forged_file(tmp_path: Path, what: str) -> None:
    forge(forest_to_forge(), tmp_path / "forest", FORGERIES[what])
    assert "checksum" not in refuse(tmp_path / "forest")


def test_forging_itself_changes_nothing(tmp_path: Path) -> None:
    forge(forest_to_forge(), tmp_path / "forest", lambda document, arrays: None)
    assert load(tmp_path / "forest") == forest_to_forge()


@pytest.mark.parametrize("part", range(4))
def test_forged_numbers_are_refused_or_safe(tmp_path: Path, part: int) -> None:
    """Random numbers anywhere in the arrays: what still loads is a valid forest, and each row ends in a leaf of it."""
    path = tmp_path / "forest"
    for number in range(50 * part, 50 * part + 50):
        rng = np.random.default_rng(number)

        def edit(document: dict[str, Any], arrays: dict[str, Any], rng: np.random.Generator = rng) -> None:
            filled = [name for name in sorted(arrays) if arrays[name].size]
            chosen = arrays[filled[rng.integers(len(filled))]]
            values: list[Any] = [-1, 0, 1, 2, 3, 5, 100]
            values += [np.nan, np.inf, -np.inf, 1e300] if chosen.dtype.kind == "f" else []
            values = [0, 1] if chosen.dtype.kind == "b" else values
            values = [0, 65, 0x10FFFF] if chosen.dtype.kind == "u" else values
            chosen.flat[rng.integers(chosen.size)] = rng.choice(values)

        forge(random_forest(np.random.default_rng(number), max_splits=5), path, edit)
        loaded = loaded_or_refused(path)
        if loaded is not None:
            leaves = loaded.apply(random_rows(rng, loaded, 20)) + loaded.tree_start[:-1]
            assert (loaded.kind[leaves] == 0).all()


def test_newer_version_says_what_to_do(tmp_path: Path) -> None:
    forge(stump(), tmp_path / "forest", top("schema_version", 2))
    message = refuse(tmp_path / "forest")
    assert "its schema version is 2" in message
    assert message.endswith("upgrade hardwood (pip install --upgrade hardwood)")
