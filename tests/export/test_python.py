"""An exported Python module takes every row to the forest's leaf and predicts what it predicts."""

from __future__ import annotations

import ast
import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hardwood.errors import InvalidArgumentError
from hardwood.export import to_python
from hardwood.export._python import python_literal
from hardwood.export._source import comment
from hardwood.forest import LEAF, THRESHOLD, Forest
from helpers.exports import assert_close, edge_rows, extreme_forest, many_forests, rebuilt
from helpers.forests import complete_forest, random_forest, small_fields
from helpers.names import EVIL_NAMES, names
from helpers.runtimes import PythonForest, in_words, without_unknown_codes


def compare(module: PythonForest, forest: Forest, X: np.ndarray, rng: np.random.Generator) -> None:
    """Compare everything; outputs before the link agree to the last bit."""
    X = without_unknown_codes(forest, X)
    rows = in_words(forest, X, rng)
    assert np.array_equal(module("leaf", rows), forest.apply(X))
    with np.errstate(all="ignore"):
        outputs = forest.outputs(X)
        if forest._large_weights:
            assert_close(module("outputs", rows), outputs, 1e-14)
        else:
            np.testing.assert_array_equal(module("outputs", rows), outputs)
        if forest.classes is None:
            assert_close(module("predict", rows), forest.predict(X), 1e-14)
        else:
            assert_close(module("predict_proba", rows), forest.predict_proba(X), 1e-14)
            assert np.array_equal(module("predict", rows), forest.predict(X))


@pytest.mark.parametrize("layout", ["ifs", "tables"])
def test_forests_of_every_kind_agree(layout: str) -> None:
    for rng, forest in many_forests(range(60)):
        compare(PythonForest(to_python(forest, layout=layout)), forest, edge_rows(rng, forest, 15), rng)


@pytest.mark.parametrize("layout", ["ifs", "tables"])
def test_thresholds_of_every_magnitude_route_alike(layout: str) -> None:
    rng = np.random.default_rng(0)
    forest = extreme_forest(rng, 3, 6)
    compare(PythonForest(to_python(forest, layout=layout)), forest, edge_rows(rng, forest, 200), rng)


def test_leaf_weights_beyond_the_range_of_exp() -> None:
    rng = np.random.default_rng(0)
    for _ in range(10):
        forest = random_forest(rng, n_trees=4, combine="softmax", task="regression")
        huge = rebuilt(forest, leaf_weights=np.asarray(forest.leaf_weights) * 400)
        compare(PythonForest(to_python(huge)), huge, edge_rows(rng, huge, 15), rng)


def test_a_chain_of_thousands_of_splits() -> None:
    nodes = 2 * 3000 + 1
    split = (np.arange(nodes) % 2 == 0) & (np.arange(nodes) < nodes - 1)
    forest = Forest(
        tree_start=[0, nodes],
        kind=np.where(split, THRESHOLD, LEAF),
        left=np.where(split, np.arange(nodes) + 2, -1),
        right=np.where(split, np.arange(nodes) + 1, -1),
        feature=np.where(split, 0, -1),
        threshold=np.where(split, 3000 - np.arange(nodes) / 2.0, 0.0),
        missing_left=split,
        leaf_values=np.arange(3001.0)[:, None],
        n_features=1,
    )
    rng = np.random.default_rng(0)
    for layout in ("ifs", "tables"):
        rows = np.array([[-1.0], [0.0], [1499.5], [2999.0], [1e9], [np.nan]])
        compare(PythonForest(to_python(forest, layout=layout)), forest, rows, rng)


def test_a_module_runs_alone_on_rows_by_position_and_by_name(tmp_path: Path) -> None:
    forest = Forest(**small_fields())
    (tmp_path / "scorer.py").write_text(to_python(forest), encoding="ascii")
    script = """
import json, sys
import scorer
rows = [[0.25, "green", 3], {"age": None, "colour": "violet", "size": 1}, [1, "blue", float("nan")]]
print(json.dumps([[scorer.leaf(row), scorer.predict(row)] for row in rows]))
assert not {"numpy", "hardwood"} & set(sys.modules)
"""
    command = [sys.executable, "-I", "-c", f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n{script}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    X = np.array([[0.25, 1, 3], [1, np.nan, np.nan], [1, 2, np.nan]])
    expected = [[leaf, said] for leaf, said in zip(forest.apply(X).tolist(), forest.predict(X).tolist(), strict=True)]
    assert json.loads(done.stdout) == expected


def test_rows_that_do_not_fit_are_refused() -> None:
    named, bare = Forest(**small_fields()), complete_forest(np.random.default_rng(0), 1, 1, 2)
    module = PythonForest(to_python(named)).names
    with pytest.raises(ValueError, match="a row has 3 cells, not 2"):
        module["predict"]([1, "red"])
    with pytest.raises(TypeError, match="cell 0 must be a number, not '1'"):
        module["predict"](["1", "red", 2])
    with pytest.raises(KeyError, match="age"):
        module["predict"]({"size": 1, "colour": "red"})
    with pytest.raises(TypeError, match="columns have no names"):
        PythonForest(to_python(bare)).names["predict"]({"a": 1})
    with pytest.raises(InvalidArgumentError, match="layout='trees': is no layout"):
        to_python(bare, layout="trees")


def test_names_arrive_as_they_are() -> None:
    count = len(EVIL_NAMES)
    forest = complete_forest(np.random.default_rng(0), 1, 2, count, count, feature_names=EVIL_NAMES, classes=EVIL_NAMES)
    forest = rebuilt(forest, categories={1: EVIL_NAMES}, output_names=EVIL_NAMES)
    for layout in ("ifs", "tables"):
        module = PythonForest(to_python(forest, layout=layout)).names
        assert module["FEATURES"] == module["CLASSES"] == module["OUTPUTS"] == module["CATEGORIES"][1] == EVIL_NAMES
        assert module["predict"](dict.fromkeys(EVIL_NAMES, 0.0) | {EVIL_NAMES[1]: EVIL_NAMES[2]}) in EVIL_NAMES


@settings(max_examples=50)
@given(st.lists(names(), min_size=1, max_size=8, unique=True))
def test_random_names_arrive_as_they_are(words: list[str]) -> None:
    forest = complete_forest(np.random.default_rng(0), 1, 1, len(words), feature_names=words, categories={0: words})
    text = to_python(forest)
    assert text.isascii()
    module = PythonForest(text).names
    assert module["FEATURES"] == module["CATEGORIES"][0] == tuple(words)


@given(names() | st.floats(allow_nan=False) | st.integers() | st.booleans())
def test_literals_and_comments_stay_inside(value: object) -> None:
    text = python_literal(value)
    assert text.isascii() and text.isprintable()
    assert eval(text, {"math": math, "__builtins__": {}}) == value
    if isinstance(value, str):
        assert ast.literal_eval(text) == value
    line = comment(value)
    assert line.isascii() and line.isprintable()
