"""The page: complete by itself, nothing runs or is fetched, and its numbers are right."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics

from hardwood import draw
from hardwood.draw._scores import ClassScores, ValueScores, score
from hardwood.errors import InvalidArgumentError
from hardwood.forest import LEAF, THRESHOLD, Forest
from helpers.forests import forests, random_forest, random_rows

VOID = {"meta", "br", "rect", "path"}


class Page(HTMLParser):
    """Collects the tags and the text of a page, and checks that tags are closed in order."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.words = ""
        self.open: list[str] = []
        self.feed(page)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] != "style":
            self.words += data


def rows_and_truth(forest: Forest, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    rows = random_rows(rng, forest, 40)
    rows[np.isinf(rows) | (np.abs(rows) > 1e6)] = 2.0
    if forest.classes is not None:
        return rows, rng.choice(forest.classes, len(rows))
    shape = (len(rows),) if forest.n_outputs == 1 else (len(rows), forest.n_outputs)
    return rows, rng.normal(size=shape)


@settings(max_examples=40)
@given(forests(), st.integers(0, 2**32 - 1), st.sampled_from(["alone", "rows", "truth"]))
def test_the_page_is_whole_for_every_forest(tmp_path_factory: Any, forest: Forest, seed: int, given_rows: str):
    rows, truth = rows_and_truth(forest, seed)
    given_data = {"alone": {}, "rows": {"X": rows}, "truth": {"X": rows, "y": truth}}[given_rows]
    path = tmp_path_factory.mktemp("page") / "new folder" / "report.html"
    assert draw.report(forest, **given_data, path=path) == path
    text = path.read_text(encoding="utf-8")
    page = Page(text)
    assert not page.tags & {"script", "link", "img", "iframe", "object", "base"}
    assert not page.attributes & {"src", "href", "onclick", "onload"}
    assert set(re.findall(r"https?://[^\"' )<]*", text)) <= {"http://www.w3.org/2000/svg"}
    assert f"{forest.n_leaves}leaves" in page.words
    assert draw.text(forest, **given_data) in page.words
    assert ("On the given rows" in page.words) == (given_rows == "truth")


@given(forests(task="classes", n_outputs=3), st.integers(0, 2**32 - 1))
def test_class_scores_agree_with_scikit_learn(forest: Forest, seed: int):
    rows, truth = rows_and_truth(forest, seed)
    scores = score(forest, rows, truth)
    assert isinstance(scores, ClassScores)
    assert forest.classes is not None
    # scikit-learn takes labels such as 0.5 for measurements, so it gets their numbers.
    true, called = ((labels[:, None] == forest.classes).argmax(axis=1) for labels in (truth, forest.predict(rows)))
    assert scores.accuracy == pytest.approx(metrics.accuracy_score(true, called))
    confusion = metrics.confusion_matrix(true, called, labels=range(3))
    np.testing.assert_array_equal(scores.confusion, confusion)
    present = np.flatnonzero(confusion.sum(axis=1))
    assert scores.balanced_accuracy == pytest.approx(
        metrics.recall_score(true, called, labels=present, average="macro", zero_division=0)
    )


@pytest.mark.parametrize("seed", range(5))
def test_binary_scores_agree_with_scikit_learn(seed: int):
    forest = random_forest(np.random.default_rng(seed), task="binary", n_features=3, max_splits=9, linear=False)
    rows, truth = rows_and_truth(forest, seed)
    scores = score(forest, rows, truth)
    assert isinstance(scores, ClassScores)
    assert forest.classes is not None
    chance = forest.predict_proba(rows)
    assert scores.auc == pytest.approx(metrics.roc_auc_score(truth == forest.classes[1], chance[:, 1]))
    assert scores.log_loss == pytest.approx(metrics.log_loss(truth, chance, labels=forest.classes), rel=1e-6)


@given(forests(task="regression", linear=False), st.integers(0, 2**32 - 1))
def test_regression_scores_agree_with_scikit_learn(forest: Forest, seed: int):
    rows, truth = rows_and_truth(forest, seed)
    scores = score(forest, rows, truth)
    assert isinstance(scores, ValueScores)
    predicted = forest.predict(rows)
    assert scores.r2 == pytest.approx(metrics.r2_score(truth, predicted))
    assert scores.rmse == pytest.approx(metrics.root_mean_squared_error(truth, predicted))
    assert scores.mae == pytest.approx(metrics.mean_absolute_error(truth, predicted))


def test_a_name_from_the_data_is_shown_and_not_executed(tmp_path: Path):
    evil = '<img src=x onerror="alert(1)">'
    forest = Forest(
        tree_start=[0, 3],
        kind=[THRESHOLD, LEAF, LEAF],
        left=[1, -1, -1],
        right=[2, -1, -1],
        feature=[0, -1, -1],
        threshold=[0.5, 0, 0],
        missing_left=[False] * 3,
        leaf_values=[[1.0, 0.0], [0.0, 1.0]],
        n_features=1,
        feature_names=(evil,),
        classes=np.array(["<script>", "\u202eyes"]),
    )
    X, y = np.array([[0.0], [1.0]]), np.array(["<script>", "\u202eyes"])
    text = draw.report(forest, X, y, path=tmp_path / "page.html", title="</title><script>").read_text(encoding="utf-8")
    page = Page(text)
    assert not page.tags & {"script", "img"}
    assert evil in page.words
    assert "\u202e" not in text
    assert "1.000accuracy" in page.words


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"X": None}, "y='an array': is given without X"),
        ({"X": np.zeros((0, 2)), "y": np.zeros(0)}, "X='an array of 0 rows'"),
        ({"y": np.zeros(3)}, "does not fit the 2 rows of X"),
        ({"y": np.array([1.0, np.nan])}, "has missing or infinite entries"),
        ({"y": np.array(["a", "b"])}, "is not numeric"),
        ({"trees": [5]}, "tree=5"),
    ],
)
def test_bad_arguments(tmp_path: Path, changes: dict[str, Any], message: str):
    forest = random_forest(np.random.default_rng(1), n_features=2, n_outputs=1, task="regression", named=False)
    arguments = {"X": np.zeros((2, 2)), "y": np.zeros(2), **changes}
    with pytest.raises(InvalidArgumentError, match=re.escape(message)):
        draw.report(forest, **arguments, path=tmp_path / "page.html")


def test_labels_that_the_forest_does_not_know(tmp_path: Path):
    forest = random_forest(np.random.default_rng(1), n_features=1, task="binary", named=False)
    with pytest.raises(InvalidArgumentError, match="are not among the forest's classes"):
        draw.report(forest, np.zeros((1, 1)), np.array(["neither"]), path=tmp_path / "page.html")
