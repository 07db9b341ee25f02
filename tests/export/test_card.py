"""A model card says what the forest and the rows are, and nothing in a name becomes markup."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_diabetes, load_iris
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.metrics import accuracy_score, log_loss, mean_absolute_error, r2_score

import hardwood
from hardwood.errors import InvalidArgumentError
from hardwood.export import model_card
from hardwood.forest import Forest
from helpers.exports import edge_rows, many_forests, rebuilt
from helpers.forests import complete_forest, random_forest, small_fields


def cell(card: str, row: str, column: int = 1) -> str:
    """Return a cell of the first table row that begins with a word."""
    cells = next(line for line in card.splitlines() if line.startswith(f"| {row} |"))
    return cells.strip("| ").split(" | ")[column]


def test_scores_of_a_classifier_are_those_of_scikit_learn() -> None:
    iris = load_iris(as_frame=True)
    model = RandomForestClassifier(5, max_depth=2, random_state=0).fit(iris.data[::2], iris.target[::2])
    X, y = iris.data[1::2], iris.target[1::2]
    card = model_card(model, X, y)
    assert cell(card, "accuracy") == f"{accuracy_score(y, model.predict(X)):.1%}".replace(".0%", "%")
    assert float(cell(card, "log loss")) == pytest.approx(log_loss(y, model.predict_proba(X)), rel=1e-3)
    assert cell(card, "rows") == "75" and cell(card, "trees") == "5"
    counts = [int(cell(card, str(k), column)) for k in range(3) for column in (1, 2, 3)]
    assert sum(counts) == 75
    assert "# Model card: RandomForestClassifier" in card


def test_scores_of_a_regression_are_those_of_scikit_learn() -> None:
    data = load_diabetes()
    model = RandomForestRegressor(5, max_depth=3, random_state=0).fit(data.data[::2], data.target[::2])
    X, y = data.data[1::2], data.target[1::2]
    card = model_card(hardwood.forest_of(model), X, y)
    assert float(cell(card, "R²")) == pytest.approx(r2_score(y, model.predict(X)), rel=1e-3)
    assert float(cell(card, "mean absolute error")) == pytest.approx(mean_absolute_error(y, model.predict(X)), rel=1e-3)


def test_sizes_are_those_of_the_forest() -> None:
    for _, forest in many_forests(range(40)):
        card = model_card(forest)
        assert cell(card, "trees") == str(forest.n_trees)
        assert cell(card, "leaves").split(";")[0] == f"{forest.n_leaves:,}"
        splits = sum(int(number) for number in re.findall(r"\d+", cell(card, "splits")))
        assert splits == forest.node_count - forest.n_leaves
        assert cell(card, "link") == forest.link
        assert "No scores" in card and "## Scores" not in card


def test_every_forest_has_a_card_with_rows() -> None:
    for rng, forest in many_forests(range(40), linear=False):
        X = edge_rows(rng, forest, 20)
        y: Any = (
            rng.normal(size=(len(X), forest.n_outputs))
            if forest.classes is None
            else rng.choice(forest.classes, len(X))
        )
        card = model_card(forest, X, y)
        assert "## Scores" in card
        widths = [line.count(" | ") for line in card.splitlines() if line.startswith("|")]
        assert all(widths)


def test_columns_say_their_type_thresholds_words_and_holes() -> None:
    X = np.array([[0.0, 0, 1], [0.5, 7, 2], [np.nan, np.nan, 3], [4.0, 0, 4]])
    card = model_card(Forest(**small_fields()), X)
    assert cell(card, "size", 1) == "float" and cell(card, "size", 2) == "2"
    assert cell(card, "size", 4) == "25%" and cell(card, "size", 5) == "0 to 4, median 0.5"
    assert cell(card, "colour", 3) == "red, green, blue"
    assert cell(card, "colour", 4) == "50%" and cell(card, "colour", 5).endswith("most often red")


def test_limits_name_idle_columns_unreached_leaves_and_refused_formats() -> None:
    forest = complete_forest(np.random.default_rng(0), 2, 2, 2)
    forest = rebuilt(
        forest, n_features=3, combine="softmax", leaf_weights=np.zeros(8), feature_names=("a", "b", "idle")
    )
    card = model_card(forest, np.zeros((1, 3)), limits=["Not for children."])
    limits = card.split("## Limits")[1]
    assert "never used: idle." in limits
    assert "75% of the leaves (6)" in limits
    assert "Cannot be exported to SHAP" in limits
    assert "- Not for children." in limits


def test_nothing_in_a_name_becomes_markup() -> None:
    evil = "<script>alert(1)</script>|**x**\n# top `[a](b)`"
    rng = np.random.default_rng(0)
    forest = random_forest(rng, n_features=1, task="binary", named=False, combine="sum", kinds=[1])
    forest = rebuilt(forest, classes=["ok", evil], feature_names=(evil,))
    card = model_card(forest, np.zeros((2, 1)), ["ok", evil], title=evil)
    assert "<script" not in card and "\n# top" not in card
    assert not re.search(r"(?<!\\)(\*\*|`\[)", card)
    rows = [line for line in card.splitlines() if "script" in line and line.startswith("|")]
    assert len(rows) >= 3
    assert all(re.search(r"\\\|\\\*\\\*x\\\*\\\*", line) for line in rows if "…" not in line)


def test_wrong_arguments_are_refused() -> None:
    forest = complete_forest(np.random.default_rng(0), 1, 1, 2)
    with pytest.raises(InvalidArgumentError, match=r"y='answers'.*pass X too"):
        model_card(forest, y=[1.0])
    with pytest.raises(InvalidArgumentError, match=r"limits.*list of texts"):
        model_card(forest, limits="none")
    with pytest.raises(InvalidArgumentError, match="has no forest"):
        model_card("a model")
    with pytest.raises(InvalidArgumentError, match="does not fit"):
        model_card(forest, np.zeros((2, 2)), [1.0])
