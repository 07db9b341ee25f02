"""The benchmark's scores and their summary, against definitions written out."""

from __future__ import annotations

import math

import numpy as np
import pytest
from benchmarks.tables.scores import classification_scores, regression_scores
from benchmarks.tables.summary import label_records, make_grid
from sklearn import metrics

from hardwood.errors import InvalidArgumentError


def macro_f1(y: np.ndarray, predicted: np.ndarray) -> float:
    each = []
    for k in set(y) | set(predicted):
        hits = ((y == k) & (predicted == k)).sum()
        each.append(2 * hits / ((y == k).sum() + (predicted == k).sum()))
    return float(np.mean(each))


def area(positive: np.ndarray, score: np.ndarray) -> float:
    """Count the pairs of a positive and a negative row in the right order, a tie as a half."""
    gaps = score[positive][:, None] - score[~positive][None, :]
    return float(((gaps > 0) + 0.5 * (gaps == 0)).mean())


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_classification_scores_are_their_definitions(n_classes: int, seed: int):
    rng = np.random.default_rng(seed)
    # Coarse scores, so that they tie; class 4 is predicted and never true.
    y = rng.integers(0, min(n_classes, 4), 37)
    chance = rng.integers(1, 5, (37, n_classes)).astype(np.float32)
    chance /= chance.sum(axis=1, keepdims=True)
    predicted = chance.argmax(axis=1)
    found = classification_scores(y, predicted, chance)
    assert found["macro_f1"] == pytest.approx(macro_f1(y, predicted))
    assert found["accuracy"] == pytest.approx(np.mean(y == predicted))
    assert found["balanced_accuracy"] == pytest.approx(np.mean([np.mean(predicted[y == k] == k) for k in set(y)]))
    exact = chance.astype(np.float64) / chance.sum(axis=1, keepdims=True, dtype=np.float64)
    assert found["log_loss"] == pytest.approx(metrics.log_loss(y, exact, labels=range(n_classes)))
    classes = [1] if n_classes == 2 else sorted(set(y))
    assert found["roc_auc"] == pytest.approx(np.mean([area(y == k, chance[:, k]) for k in classes]))


def test_scores_of_one_class_and_of_certain_mistakes():
    y = np.zeros(4, int)
    certain = np.tile([0.0, 1.0], (4, 1))
    found = classification_scores(y, np.ones(4, int), certain)
    assert math.isnan(found["roc_auc"])
    assert found["macro_f1"] == found["accuracy"] == 0
    assert found["log_loss"] == pytest.approx(metrics.log_loss(y, certain, labels=[0, 1]))


@pytest.mark.parametrize("seed", range(3))
def test_regression_scores_are_scikit_learns(seed: int):
    rng = np.random.default_rng(seed)
    y, predicted = rng.normal(size=(2, 23))
    found = regression_scores(y, predicted)
    assert found["r2"] == pytest.approx(metrics.r2_score(y, predicted))
    assert found["rmse"] == pytest.approx(metrics.root_mean_squared_error(y, predicted))
    assert found["mae"] == pytest.approx(metrics.mean_absolute_error(y, predicted))
    assert math.isnan(regression_scores(np.ones(3), np.ones(3))["r2"])


def record(name: str, method: str, seed: int, score: float | None, **more: str) -> dict[str, str]:
    empty = {"depth_limit": "", "split": f"{name} {seed}", "log_loss": "", "macro_f1": "", "label": method}
    shown = {} if score is None else {"macro_f1": repr(score), "log_loss": repr(score)}
    key = {"set": name, "method": method, "seed": str(seed)}
    return empty | key | {"status": "failed" if score is None else "ok"} | shown | more


def records_of(table: dict[tuple[str, str], list[float | None]]) -> list[dict[str, str]]:
    return [record(*key, seed, score) for key, scores in table.items() for seed, score in enumerate(scores)]


TABLE: dict[tuple[str, str], list[float | None]] = {
    ("one", "a"): [0.5, 0.7],
    ("one", "b"): [0.6, 0.9],
    ("two", "a"): [0.8, 0.8],
    ("two", "b"): [0.8, 0.8],
    ("three", "a"): [0.4, 0.5],
    ("three", "b"): [None, 0.2],
    ("four", "a"): [0.1, 0.1],
}
SETS = ("one", "two", "three", "four")


def test_a_method_is_compared_seed_by_seed():
    grid = make_grid(records_of(TABLE), SETS, ("a", "b"), "macro_f1")
    paired = grid.against("b", "a")
    assert paired is not None
    assert paired.by_set["one"].mean == pytest.approx(0.15)
    # Differences 0.1 and 0.2: standard deviation 0.1 / sqrt(2), standard error half of 0.1.
    assert paired.by_set["one"].error == pytest.approx(0.05)
    assert paired.by_set["three"].n == 1
    assert math.isnan(paired.by_set["three"].error)
    assert set(paired.by_set) == {"one", "two", "three"}
    gaps = np.array([0.15, 0.0, -0.3])
    assert paired.overall.mean == pytest.approx(gaps.mean())
    assert paired.overall.error == pytest.approx(gaps.std(ddof=1) / 3**0.5)
    assert (paired.better, paired.equal, paired.worse) == (1, 1, 1)
    other = grid.against("a", "b")
    assert other is not None
    assert other.overall.mean == -paired.overall.mean


def test_means_and_wins_are_over_sets_that_all_methods_have():
    grid = make_grid(records_of(TABLE), SETS, ("a", "b"), "macro_f1")
    assert grid.common_sets == ["one", "two"]
    assert grid.overall("a", grid.common_sets).mean == pytest.approx((0.6 + 0.8) / 2)
    assert grid.wins(grid.common_sets) == {"a": 1, "b": 2}  # a tie counts for both
    assert grid.cell("four", "b") is None
    assert make_grid(records_of(TABLE), SETS, ("a",), "macro_f1").common_sets == list(SETS)


def test_lower_is_better_turns_wins_and_differences_round():
    grid = make_grid(records_of(TABLE), SETS, ("a", "b"), "log_loss")
    assert grid.best("one") == {"a"}
    paired = grid.against("b", "a")
    assert paired is not None
    assert paired.by_set["one"].mean == pytest.approx(-0.15)


def test_scores_on_different_rows_are_not_compared():
    records = [record("one", "a", 0, 0.5), record("one", "b", 0, 0.5, split="other")]
    with pytest.raises(InvalidArgumentError, match="two different splits of one, seed 0"):
        make_grid(records, ["one"], ["a", "b"], "macro_f1")
    with pytest.raises(InvalidArgumentError, match="metric='speed': is not known"):
        make_grid(records, ["one"], ["a"], "speed")


def test_depth_limits_are_told_apart_where_there_are_several():
    records = [record("one", "a", 0, 0.5, depth_limit=depth) for depth in ("8", "10")] + [record("one", "b", 0, 0.5)]
    assert [each["label"] for each in label_records(records)] == ["a (depth 8)", "a (depth 10)", "b"]
    assert [each["label"] for each in label_records(records[1:])] == ["a", "b"]
