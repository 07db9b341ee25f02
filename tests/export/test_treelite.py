"""treelite's GTIL takes every row to the forest's leaf and predicts what the forest does, also after a round trip."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

from hardwood.errors import InvalidArgumentError, MissingExtraError
from hardwood.export import to_treelite
from hardwood.forest import CATEGORIES, THRESHOLD, Forest
from helpers.exports import assert_close, edge_rows, extreme_forest, many_forests, rebuilt
from helpers.forests import complete_forest, small_fields

treelite = pytest.importorskip("treelite")

PLAIN = {"kinds": [THRESHOLD, CATEGORIES], "linear": False}


def compare(forest: Forest, X: np.ndarray, model: Any = None) -> None:
    model = to_treelite(forest) if model is None else model
    assert np.array_equal(treelite.gtil.predict_leaf(model, X, nthread=1), forest.apply(X))
    found = treelite.gtil.predict(model, X, nthread=1)
    exact = X.dtype == np.float64 and forest.link != "softmax"  # treelite takes a softmax in float32
    if forest.classes is None:
        assert_close(found.reshape(len(X), -1), forest.predict(X).reshape(len(X), -1), 1e-13 if exact else 1e-5)
        return
    wanted = forest.predict_proba(X)[:, 1:] if forest.link == "sigmoid" else forest.predict_proba(X)
    assert_close(found[:, 0], wanted, 1e-13 if exact else 1e-5)


def whole_codes(forest: Forest, X: np.ndarray) -> np.ndarray:
    """Cut fractions off codes, which treelite does by itself."""
    X = X.copy()
    for column in forest.categories:
        X[:, column] = np.floor(X[:, column])
    return X


@pytest.mark.parametrize("combine", ["sum", "mean"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_forests_of_every_kind_agree(dtype: type, combine: str) -> None:
    for rng, forest in many_forests(range(60), combine=combine, **PLAIN):
        compare(forest, whole_codes(forest, edge_rows(rng, forest, 25, dtype)))


def test_one_tree_alone_may_have_a_leaf_weight() -> None:
    for rng, forest in many_forests(range(10), combine="softmax", n_trees=1, **PLAIN):
        compare(forest, whole_codes(forest, edge_rows(rng, forest, 20)))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("n_trees", "depth"), [(1, 1), (50, 3), (2, 12)])
def test_thresholds_of_every_magnitude_route_alike(n_trees: int, depth: int, dtype: type) -> None:
    rng = np.random.default_rng(depth)
    forest = extreme_forest(rng, n_trees, depth)
    compare(forest, edge_rows(rng, forest, 150, dtype))


def test_a_stored_model_is_the_same() -> None:
    for rng, forest in many_forests(range(10), combine="mean", **PLAIN):
        stored = treelite.Model.deserialize_bytes(to_treelite(forest).serialize_bytes())
        compare(forest, whole_codes(forest, edge_rows(rng, forest, 20)), stored)


def test_rows_are_counted_at_every_node() -> None:
    rng = np.random.default_rng(0)
    forest = complete_forest(rng, 1, 1, 1)
    X = rng.normal(size=(50, 1))
    left = int((forest.apply(X)[:, 0] == 1).sum())
    accessor = to_treelite(forest, X).get_tree_accessor(0)
    assert accessor.get_field("data_count").tolist() == [50, left, 50 - left]
    assert accessor.get_field("sum_hess").tolist() == [50, left, 50 - left]


def test_names_and_labels_are_in_the_attributes() -> None:
    forest = complete_forest(
        np.random.default_rng(0), 1, 1, 2, link="sigmoid", classes=["no", 'y"es'], feature_names=("a", "<b>\n")
    )
    text = to_treelite(forest).get_header_accessor().get_field("attributes")
    assert '"no"' in text and "<b>\\n" in text and 'y\\"es' in text


def test_what_treelite_cannot_hold_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match=r"oblique splits.*treelite.*one column"):
        to_treelite(Forest(**small_fields()))
    forest = complete_forest(np.random.default_rng(0), 2, 1, 2)
    with pytest.raises(InvalidArgumentError, match="GRANDE"):
        to_treelite(rebuilt(forest, combine="softmax", leaf_weights=np.zeros(4)))
    with pytest.raises(InvalidArgumentError, match="linear leaves"):
        to_treelite(rebuilt(forest, leaf_coef=np.ones((4, 2, 1))))
    assert to_treelite(rebuilt(forest, leaf_coef=np.zeros((4, 2, 1)))).num_tree == 2


def test_without_the_package_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "treelite.model_builder", None)
    with pytest.raises(MissingExtraError, match=r"to_treelite\(\) needs treelite.*hardwood\[export\]"):
        to_treelite(complete_forest(np.random.default_rng(0), 1, 1, 2))
