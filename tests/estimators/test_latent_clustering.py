"""`LatentTreeClustering`: levels of one hierarchy, as labels, as a linkage matrix, and for rows it has not seen."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from scipy.cluster.hierarchy import dendrogram, fcluster, is_valid_linkage

from hardwood import LatentTreeClustering
from hardwood.errors import InvalidArgumentError
from hardwood.ops import dendrogram_purity, parents_of_linkage

QUICK: dict[str, Any] = {"max_depth": 3, "max_iter": 30, "random_state": 0, "learning_rate": 0.03}


@pytest.fixture(scope="module")
def blobs() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    centres = np.array([[0, 0, 0, 0], [6, 10, 0, 0], [0, 0, 7, 6], [6, 10, 7, 6]])
    y = np.repeat(np.arange(4), 30)
    return centres[y] + rng.normal(size=(120, 4)), y


@pytest.fixture(scope="module")
def on_blobs(blobs: Any) -> LatentTreeClustering:
    return LatentTreeClustering(target_features=[0, 3], **QUICK).fit(blobs[0])


def test_levels_are_nested_and_the_finest_are_the_labels(on_blobs: LatentTreeClustering):
    levels = [on_blobs.labels_at(depth) for depth in range(4)]
    assert set(levels[0]) == {0}
    for coarse, fine in itertools.pairwise(levels):
        for cluster in np.unique(fine):
            assert len(np.unique(coarse[fine == cluster])) == 1
    for label in np.unique(on_blobs.labels_):
        assert len(np.unique(levels[3][on_blobs.labels_ == label])) == 1
    assert len(np.unique(levels[3])) == len(np.unique(on_blobs.labels_))


def test_rows_of_fit_are_predicted_as_they_were_labelled(blobs: Any, on_blobs: LatentTreeClustering):
    X, _ = blobs
    assert np.array_equal(on_blobs.predict(X), on_blobs.labels_)
    assert np.array_equal(on_blobs.labels_at(2, X), on_blobs.labels_at(2))
    alone = [on_blobs.predict(X[i : i + 1])[0] for i in range(20)]
    assert alone == on_blobs.labels_[:20].tolist()
    assert np.array_equal(LatentTreeClustering(target_features=[0, 3], **QUICK).fit_predict(X), on_blobs.labels_)


def test_groups_that_explain_the_targets_are_found(blobs: Any, on_blobs: LatentTreeClustering):
    options: dict[str, Any] = {**QUICK, "max_depth": 2, "max_iter": 150, "split_rate": 1.0}
    model = LatentTreeClustering(target_features=[0, 3], **options).fit(blobs[0])
    # Of the root alone it would be 1/4.
    assert model.dendrogram_purity(blobs[1]) > 0.6
    sampled = on_blobs.dendrogram_purity(blobs[1], n_pairs=5000)
    assert sampled == pytest.approx(on_blobs.dendrogram_purity(blobs[1]), abs=0.03)


def test_the_linkage_matrix_is_the_hierarchy(blobs: Any, on_blobs: LatentTreeClustering):
    merges = on_blobs.linkage_matrix()
    assert is_valid_linkage(merges)
    assert sorted(dendrogram(merges, no_plot=True)["leaves"]) == list(range(120))
    # Cut between two levels, it gives the clusters of that level.
    deepest = int(merges[-1, 2])
    for depth in range(1, deepest + 1):
        cut = fcluster(merges, deepest - depth + 0.5, "distance")
        level = on_blobs.labels_at(depth)
        together = {(int(a), int(b)) for a, b in zip(cut, level, strict=True)}
        assert len(together) == len(np.unique(cut)) == len(np.unique(level))
    # Leaves are joined pair by pair there, which can only be purer.
    fine = dendrogram_purity(parents_of_linkage(merges), 238 - np.arange(120), blobs[1])
    assert fine >= on_blobs.dendrogram_purity(blobs[1]) - 1e-9


def test_targets_are_chosen_by_what_the_others_explain(blobs: Any):
    rng = np.random.default_rng(1)
    noise = rng.normal(size=(120, 2))
    X = np.column_stack([noise[:, 0], blobs[0][:, 1], blobs[0][:, 1] + 0.01 * noise[:, 1], noise[:, 1]])
    model = LatentTreeClustering(**{**QUICK, "max_iter": 3}).fit(X)
    assert model.target_features_.tolist() == [1, 2]


def test_slow_splits_stay_near_their_start(blobs: Any):
    options: dict[str, Any] = {**QUICK, "target_features": [0, 3], "early_stopping": False, "schedule": "constant"}
    start, slow, fast = (
        LatentTreeClustering(split_rate=rate, **{**options, "max_iter": 20}).fit(blobs[0]) for rate in (1e-9, 0.01, 1.0)
    )
    moved = [np.abs(each.tree_.split_weight - start.tree_.split_weight).max() for each in (slow, fast)]
    assert 0 < moved[0] < moved[1] / 10
    # The predictor learns all the same.
    weights = [each.tree_.layers[0][0] for each in (start, slow)]
    assert np.abs(weights[0] - weights[1]).max() < np.abs(weights[0]).max()


def test_names_of_columns_work(blobs: Any):
    import pandas as pd

    frame = pd.DataFrame(blobs[0], columns=list("abcd"))
    model = LatentTreeClustering(target_features=["d", "a"], **{**QUICK, "max_iter": 3}).fit(frame)
    assert model.target_features_.tolist() == [0, 3]


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"target_features": "a"}, "target_features"),
        ({"target_features": [4]}, "target_features"),
        ({"target_features": [0, 1, 2, 3]}, "target_features"),
        ({"n_targets": 0}, "n_targets"),
        ({"init": "kmeans"}, "init"),
        ({"split_rate": 0}, "split_rate"),
        ({"penalty": -1.0}, "penalty"),
    ],
)
def test_bad_parameters_are_named(blobs: Any, change: dict[str, Any], named: str):
    with pytest.raises(InvalidArgumentError, match=named):
        LatentTreeClustering(**change).fit(blobs[0])


def test_a_depth_that_is_none_is_named(on_blobs: LatentTreeClustering):
    with pytest.raises(InvalidArgumentError, match="depth"):
        on_blobs.labels_at(-1)
