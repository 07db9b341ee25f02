"""The page's diagrams agree with scikit-learn."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics

from hardwood.draw._explorer_scores import performance
from hardwood.forest import Forest
from helpers.explorer import answers
from helpers.forests import complete_forest, forests, random_rows


@pytest.mark.parametrize("n_classes", [2, 4])
def test_curves_of_each_class(n_classes: int):
    rng = np.random.default_rng(n_classes)
    names = np.array(["d", "a", "c", "b"][:n_classes])
    forest = complete_forest(rng, 3, 3, 4, n_outputs=n_classes, combine="mean", link="softmax", classes=names)
    rows = rng.normal(size=(500, 4))
    truth = rng.choice(names, 500)
    shares = forest.predict_proba(rows)
    given_scores = performance(forest, rows, truth)
    assert given_scores["accuracy"] == metrics.accuracy_score(truth, forest.predict(rows))
    assert [curve["class"] for curve in given_scores["curves"]] == ([1] if n_classes == 2 else [0, 1, 2, 3])
    for curve in given_scores["curves"]:
        k = curve["class"]
        positive = truth == names[k]
        assert curve["auc"] == pytest.approx(metrics.roc_auc_score(positive, shares[:, k]))
        corners = np.array(curve["roc"])
        assert corners[0].tolist() == [0, 0] and corners[-1].tolist() == [1, 1]
        alarms, found, _ = metrics.roc_curve(positive, shares[:, k], drop_intermediate=False)
        there = set(zip(alarms.round(5).tolist(), found.round(5).tolist(), strict=True))
        assert {tuple(corner) for corner in corners.tolist()} <= there
        assert sum(rows for _, _, rows in curve["calibration"]) == 500
        mean = sum(predicted * rows for predicted, _, rows in curve["calibration"]) / 500
        assert mean == pytest.approx(shares[:, k].mean())
        assert sum(share * rows for _, share, rows in curve["calibration"]) == pytest.approx(positive.sum())


def test_residuals_of_each_output():
    rng = np.random.default_rng(0)
    forest = complete_forest(rng, 2, 3, 3, n_outputs=2)
    rows = rng.normal(size=(700, 3))
    truth = forest.predict(rows) + rng.normal(size=(700, 2))
    for k, scores in enumerate(performance(forest, rows, truth)["outputs"]):
        called = forest.predict(rows)[:, k]
        assert scores["r2"] == pytest.approx(metrics.r2_score(truth[:, k], called))
        assert scores["mae"] == pytest.approx(metrics.mean_absolute_error(truth[:, k], called))
        assert sum(scores["residuals"]["counts"]) == 700
        assert len(scores["points"]) == 400
        assert sum(tenth[2] for tenth in scores["calibration"]) == 700
        assert np.mean([tenth[1] for tenth in scores["calibration"]]) == pytest.approx(truth[:, k].mean())


@settings(max_examples=30)
@given(forests(), st.integers(0, 2**32 - 1))
def test_json_holds_the_scores_of_any_forest(forest: Forest, seed: int):
    rng = np.random.default_rng(seed)
    rows = random_rows(rng, forest, 30)
    if forest.leaf_coef is not None:
        rows = np.where(np.abs(rows) > 1e6, 2.0, rows)
    json.dumps(performance(forest, rows, answers(rng, forest, 30)), allow_nan=False)


def test_predictions_that_are_not_finite_are_left_out():
    forest = complete_forest(np.random.default_rng(0), 1, 1, 1)
    forest = replace(forest, leaf_values=np.array([[800.0], [1.0]]), link="exp")
    rows = np.array([[-50.0], [50.0]])
    (scores,) = performance(forest, rows, np.zeros(2))["outputs"]
    assert sum(scores["residuals"]["counts"]) == 1
    assert scores["rmse"] is None


@pytest.mark.parametrize("answers_of_leaves", [[1e17, 1e17 + 16], [5e-324, 0.0], [1e301, 2.0], [7.0, 7.0]])
def test_residuals_of_any_size_have_a_histogram(answers_of_leaves: list[float]):
    forest = complete_forest(np.random.default_rng(0), 1, 1, 1)
    forest = replace(forest, leaf_values=np.array(answers_of_leaves)[:, None])
    rows = np.random.default_rng(1).normal(size=(30, 1)) * 9
    with np.errstate(over="ignore"):
        (scores,) = performance(forest, rows, np.zeros(30))["outputs"]
    json.dumps(scores, allow_nan=False)
    counts, edges = scores["residuals"]["counts"], scores["residuals"]["edges"]
    assert sum(counts) == np.count_nonzero(forest.predict(rows) < 1e300)
    assert np.all(np.diff(edges) > 0)
