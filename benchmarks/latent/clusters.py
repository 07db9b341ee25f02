"""Dendrogram purity beside usual methods. Classes are for scoring alone: nothing is chosen by them.

The paper's protocol ("latent-paper"): refractive index and sodium of Glass, and the two distances to hydrology of
Covertype, are regressed from the other columns; 60% of the rows to learn from, 20% to stop and to choose
hyper-parameters by (the reconstruction error, over random draws of depth and lambda), 20% held out; splits start at
random directions. "latent" is what we advise: the largest of the paper's depths, principal directions to start from,
and splits that learn more slowly than the predictor; lambda is chosen as before. That was found on other sets. "start"
is the tree of principal directions before any training, to see what training adds.

Purity is given of all rows, as in the work that the paper's other figures come from, and of the held-out fifth.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.latent.sets import compute, load

TARGETS = {
    "glass": ["RI", "Na"],
    "covtype_subset": ["Horizontal_Distance_To_Hydrology", "Vertical_Distance_To_Hydrology"],
}
# What is fixed; the rest is drawn.
VARIANTS: dict[str, dict[str, Any]] = {
    "latent": {"max_depth": 6},
    "latent-paper": {"init": "random", "learning_rate": 0.001, "split_rate": 1.0},
    # Splits that do not move: what is judged is where training begins.
    "start": {"max_depth": 6, "split_rate": 1e-9, "penalty": 0.001, "max_iter": 1},
}
# All pairs of distances of more rows take too much memory.
MOST_ROWS_OF_PAIRS = 5000


def new_clustering(name: str, n_rows: int, seed: int, **options: Any) -> Any:
    """Return a hierarchy that is not learned yet."""
    from hardwood import LatentTreeClustering

    return LatentTreeClustering(
        target_features=TARGETS.get(name, "auto"), batch_size=8 if n_rows < 1000 else 512, random_state=seed, n_jobs=1,
        validation_fraction=0.25, n_iter_no_change=10, plateau_patience=3, **{"max_iter": 100, **options},
    )  # fmt: skip


def draw_options(rng: np.random.Generator) -> dict[str, Any]:
    """Draw hyper-parameters as the paper does."""
    return {"max_depth": int(rng.integers(2, 7)), "penalty": float(10 ** rng.uniform(-3, 3))}


def choose(name: str, rows: Any, seed: int, trials: int, **fixed: Any) -> Any:
    """Return the best of some hierarchies by the reconstruction error on their held-out rows."""
    rng = np.random.default_rng([seed, 11])
    best = None
    for _ in range(trials):
        model = new_clustering(name, len(rows), seed, **{**draw_options(rng), **fixed}).fit(rows)
        if best is None or model.best_loss_ < best.best_loss_:
            best = model
    return best


def hierarchical_kmeans(x: np.ndarray, seed: int, smallest: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Split every cluster in two by k-means until clusters are as small as that; return parents and rows' nodes."""
    from sklearn.cluster import KMeans

    parent, node_of, waiting = [-1], np.zeros(len(x), np.int64), [(0, np.arange(len(x)))]
    while waiting:
        node, rows = waiting.pop(0)
        node_of[rows] = node
        if len(rows) <= smallest or len(np.unique(x[rows], axis=0)) < 2:
            continue
        halves = KMeans(2, n_init=1, random_state=seed).fit(x[rows]).labels_
        for half in (0, 1):
            parent.append(node)
            waiting.append((len(parent) - 1, rows[halves == half]))
    return np.array(parent), node_of


def peer_tree(method: str, x: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the hierarchy of a usual method, on rows in an order drawn by the seed: parents, and each row's node."""
    from scipy.cluster.hierarchy import linkage
    from sklearn.cluster import Birch

    from hardwood.ops import parents_of_linkage

    order = np.random.default_rng(seed).permutation(len(x))
    node_of = np.empty(len(x), np.int64)
    if method == "hkmeans":
        parent, node_of[order] = hierarchical_kmeans(x[order], seed, smallest=1 if len(x) < 1000 else 50)
        return parent, node_of
    if method.startswith("agglomerative"):
        node_of[order] = 2 * (len(x) - 1) - np.arange(len(x))
        return parents_of_linkage(linkage(x[order], method.partition("-")[2])), node_of
    # BIRCH's own subclusters, joined by Ward's method as scikit-learn does in its last step.
    birch = Birch(threshold=0.5, n_clusters=None).fit(x[order])
    centres = birch.subcluster_centers_
    node_of[order] = 2 * (len(centres) - 1) - birch.labels_
    return parents_of_linkage(linkage(centres, "ward")), node_of


def line(name: str, method: str, seed: int, trials: int) -> dict[str, Any]:
    """Return one line: purity of all rows, and of a fifth that latent trees did not learn from."""
    from hardwood.ops import dendrogram_purity

    frame, y = load(name)
    rows = np.random.default_rng([seed, 3]).permutation(len(y))
    test, rest = rows[: len(y) // 5], rows[len(y) // 5 :]
    begin = time.perf_counter()
    found: dict[str, Any] = {"set": name, "method": method, "seed": seed}
    found |= dict.fromkeys(["purity", "purity_test", "seconds", "depth", "penalty", "nodes", "loss"], "")
    if method in VARIANTS:
        model = choose(name, frame.iloc[rest], seed, 1 if method == "start" else trials, **VARIANTS[method])
        purity = model.dendrogram_purity(y, frame)
        held_out = model.dendrogram_purity(y[test], frame.iloc[test])
        found |= {
            "depth": model.max_depth, "penalty": f"{model.penalty:.3g}", "nodes": model.tree_.n_nodes,
            "loss": round(model.best_loss_, 4),
        }  # fmt: skip
    else:
        x = frame.to_numpy(np.float64)
        deviation = x.std(axis=0)
        x = (x - x.mean(axis=0)) / np.where(deviation > 0, deviation, 1)
        pick = rows[: MOST_ROWS_OF_PAIRS if method.startswith("agglomerative") else len(x)]
        parent, node_of = peer_tree(method, x[pick], seed)
        purity = dendrogram_purity(parent, node_of, y[pick])
        held_out = dendrogram_purity(parent, node_of[: len(test)], y[pick][: len(test)])
    return {
        **found, "purity": round(purity, 4), "purity_test": round(held_out, 4),
        "seconds": round(time.perf_counter() - begin, 1),
    }  # fmt: skip


def run(
    sets: Sequence[str], methods: Sequence[str], trials: int, seeds: Sequence[int], workers: int, results: Path
) -> None:  # fmt: skip
    """Measure dendrogram purity, set by set, seed by seed, method by method."""
    keys = [(name, method, seed) for name in sets for seed in seeds for method in methods]
    compute(results / "latent_clusters.csv", keys, line, workers, trials)
