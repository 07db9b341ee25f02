"""shap's values of an exported forest are Shapley values: those of all coalitions, enumerated."""

from __future__ import annotations

import itertools
import math
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from hardwood.errors import InvalidArgumentError, MissingExtraError
from hardwood.export import shap_values, to_shap
from hardwood.forest import LEAF, THRESHOLD, Forest
from helpers.exports import assert_close, edge_rows, many_forests, rebuilt
from helpers.forests import complete_forest, small_fields

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of its own imports
    shap = pytest.importorskip("shap")

PLAIN = {"kinds": [THRESHOLD], "linear": False}
Worth = Callable[[tuple[bool, ...]], np.ndarray]


def shapley(worth: Worth, n_features: int) -> np.ndarray:
    """Return the Shapley values (features, outputs) of a game, from all its coalitions."""
    known = {coalition: worth(coalition) for coalition in itertools.product([False, True], repeat=n_features)}
    values = np.zeros((n_features, len(known[(False,) * n_features])))
    for coalition, before in known.items():
        size = sum(coalition)
        for player in range(n_features):
            if not coalition[player]:
                after = known[(*coalition[:player], True, *coalition[player + 1 :])]
                share = math.factorial(size) * math.factorial(n_features - size - 1) / math.factorial(n_features)
                values[player] += share * (after - before)
    return values


def interventional(forest: Forest, row: np.ndarray, background: np.ndarray) -> np.ndarray:
    """Columns outside the coalition take the values of the background's rows."""

    def worth(coalition: tuple[bool, ...]) -> np.ndarray:
        return forest.outputs(np.where(np.array(coalition), row, background)).mean(axis=0)

    return shapley(worth, forest.n_features)


def path_dependent(forest: Forest, row: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """At a split of a column outside the coalition, go both ways in the proportion of the rows that do."""
    passed = np.asarray(forest.decision_path(rows)[0].sum(axis=0)).ravel()

    def expected(node: int, coalition: tuple[bool, ...]) -> np.ndarray:
        if forest.kind[node] == LEAF:
            return forest.leaf_values[forest._leaf_index[node]]
        left, right = int(forest.left[node]), int(forest.right[node])
        column = int(forest.feature[node])
        if coalition[column]:
            missing = np.isnan(row[column])
            goes_left = forest.missing_left[node] if missing else row[column] < forest.threshold[node]
            return expected(left if goes_left else right, coalition)
        both = passed[left] * expected(left, coalition) + passed[right] * expected(right, coalition)
        return both / passed[node]

    def worth(coalition: tuple[bool, ...]) -> np.ndarray:
        total = sum((expected(int(root), coalition) for root in forest.tree_start[:-1]), np.zeros(forest.n_outputs))
        return total / (forest.n_trees if forest.combine == "mean" else 1)

    return shapley(worth, forest.n_features)


def some_forests(seeds: range) -> Any:
    for combine, named in (("sum", False), ("mean", True)):
        yield from many_forests(seeds, combine=combine, named=named, **PLAIN)


def close(found: Any, wanted: list[np.ndarray], tolerance: float) -> None:
    assert_close(np.asarray(found).reshape(np.shape(wanted)), wanted, tolerance)


@pytest.mark.usefixtures("random_state_stays")
def test_interventional_values_are_those_of_all_coalitions() -> None:
    for rng, forest in some_forests(range(10)):
        X, background = edge_rows(rng, forest, 3), edge_rows(rng, forest, 60)
        found = shap_values(forest, X, background)
        close(found.values, [interventional(forest, row, background) for row in X], 1e-5)
        close(found.base_values[0], [forest.outputs(background).mean(axis=0)], 1e-12)


def test_interventional_values_of_the_dictionary_for_float32_rows() -> None:
    for rng, forest in some_forests(range(10, 18)):
        X, background = edge_rows(rng, forest, 3, np.float32), edge_rows(rng, forest, 20, np.float32)
        found = shap.TreeExplainer(to_shap(forest), background).shap_values(X)
        close(found, [interventional(forest, row, background) for row in X], 1e-5)


def test_path_dependent_values_are_those_of_all_coalitions() -> None:
    for rng, forest in some_forests(range(20, 30)):
        X = edge_rows(rng, forest, 60)
        forest = forest.prune(X)
        found = shap_values(forest, X)
        close(found.values[:5], [path_dependent(forest, row, X) for row in X[:5]], 1e-10)
        assert_close(
            found.values.sum(axis=1) + found.base_values, forest.outputs(X).reshape(found.base_values.shape), 1e-9
        )


def test_path_dependent_values_of_the_dictionary_for_float32_rows() -> None:
    for rng, forest in some_forests(range(30, 38)):
        X = edge_rows(rng, forest, 60, np.float32)
        forest = forest.prune(X)
        found = shap.TreeExplainer(to_shap(forest, X)).shap_values(X[:4])
        close(found, [path_dependent(forest, row, X) for row in X[:4]], 1e-10)


def test_weights_count_rows_more_than_once() -> None:
    rng = np.random.default_rng(0)
    forest = complete_forest(rng, 2, 2, 3)
    X = rng.normal(size=(200, 3))
    forest, times = forest.prune(X), rng.integers(1, 4, 200)
    found = shap.TreeExplainer(to_shap(forest, X, times)).shap_values(X[:5])
    close(found, list(shap.TreeExplainer(to_shap(forest, np.repeat(X, times, axis=0))).shap_values(X[:5])), 1e-12)


def test_probabilities_of_a_sigmoid_forest_add_up() -> None:
    rng = np.random.default_rng(0)
    forest = complete_forest(rng, 3, 2, 3, link="sigmoid", classes=["no", "yes"])
    X, background = (rng.normal(size=(n, 3)).astype(np.float32) for n in (5, 20))
    explainer = shap.TreeExplainer(to_shap(forest), background, model_output="probability")
    total = explainer.shap_values(X).sum(axis=1) + explainer.expected_value
    assert_close(total, forest.predict_proba(X)[:, 1], 1e-5)


def test_an_explanation_knows_names_and_rows() -> None:
    rng = np.random.default_rng(0)
    forest = complete_forest(
        rng, 2, 2, 3, n_outputs=3, link="softmax", classes=["a", "b", "c"], feature_names=("x", "<y>", "z")
    )
    X = rng.normal(size=(100, 3))
    found = shap_values(forest, X[:4], X)
    assert found.feature_names == ["x", "<y>", "z"] and found.output_names == ["a", "b", "c"]
    assert found.values.shape == (4, 3, 3) and np.array_equal(found.data, X[:4])


def test_what_shap_cannot_explain_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match=r"category sets.*hardwood\.explain\.contributions"):
        to_shap(Forest(**small_fields()))
    rng = np.random.default_rng(0)
    forest = complete_forest(rng, 2, 3, 2)
    with pytest.raises(InvalidArgumentError, match="depends on all the others"):
        shap_values(rebuilt(forest, combine="softmax", leaf_weights=np.zeros(16)), rng.normal(size=(5, 2)))
    with pytest.raises(InvalidArgumentError, match=r"does not reach.*prune\(X\)"):
        to_shap(forest, rng.normal(size=(2, 2)))
    with pytest.raises(InvalidArgumentError, match=r"sample_weight.*pass X too"):
        to_shap(forest, sample_weight=[1.0])
    deep = complete_forest(rng, 1, 15, 2)
    with pytest.raises(InvalidArgumentError, match="65535 nodes"):
        to_shap(deep)


def test_without_the_package_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "shap", None)
    with pytest.raises(MissingExtraError, match=r"shap_values\(\) needs shap.*hardwood\[export\]"):
        shap_values(complete_forest(np.random.default_rng(0), 1, 1, 2), np.zeros((1, 2)))
