"""Start from a fitted random forest, train all of it jointly, and distil it into one tree.

A greedy forest fixes each split before it knows the others. Here its trees are the beginning: splits, thresholds,
leaves and the trees' weights then move together. Labels are few, and rows without labels many: the ensemble answers
for these, and one tree learns from its answers.

Run it with `python examples/fine_tune.py`. It takes about twenty seconds.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.tree import DecisionTreeClassifier

from hardwood import GradTreeClassifier, GrandeClassifier

STEPS = (
    "a greedy tree (scikit-learn)",
    "  the same, fine-tuned (GradTree)",
    "a random forest (scikit-learn)",
    "  the same, fine-tuned jointly (GRANDE)",
    "one tree from the labels (GradTree)",
    "  one that imitates the fine-tuned forest",
)


def compare(seed: int, n_trees: int, max_iter: int) -> list[tuple[float, float]]:
    """Return accuracy and log loss on held-out rows for each of `STEPS`."""
    X, y = load_digits(return_X_y=True)
    X_all, X_test, y_all, y_test = train_test_split(X, y, test_size=0.3, random_state=seed, stratify=y)
    X, _, y, _ = train_test_split(X_all, y_all, train_size=0.4, random_state=seed, stratify=y_all)
    options: dict[str, Any] = {"max_iter": max_iter, "random_state": seed}

    tree = DecisionTreeClassifier(max_depth=7, min_samples_leaf=2, random_state=seed).fit(X, y)
    tuned_tree = GradTreeClassifier(max_depth=7, init=tree, **options).fit(X, y)

    forest = RandomForestClassifier(n_trees, max_depth=5, random_state=seed).fit(X, y)
    tuned = GrandeClassifier(n_trees, max_depth=5, init=forest, **options).fit(X, y)

    alone = GradTreeClassifier(max_depth=7, **options).fit(X, y)
    # The teacher's probabilities take the place of labels, so rows without one can be used too.
    pupil = GradTreeClassifier(max_depth=7, **options).distill(tuned, X_all)

    models = (tree, tuned_tree, forest, tuned, alone, pupil)
    return [(model.score(X_test, y_test), log_loss(y_test, model.predict_proba(X_test))) for model in models]


def main() -> None:
    """Print the means over a few splits of the rows."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--trees", type=int, default=32)
    parser.add_argument("--max-iter", type=int, default=60)
    chosen = parser.parse_args()
    began = time.perf_counter()
    print("Handwritten digits: 502 images with labels to learn from, 755 without, 540 held out for these scores,")
    print(f"means over {chosen.seeds} splits.\n")
    scores = np.array([compare(seed, chosen.trees, chosen.max_iter) for seed in range(chosen.seeds)])
    print(f"  {'':42}{'accuracy':>9}{'log loss':>10}")
    for step, (accuracy, loss) in zip(STEPS, scores.mean(axis=0), strict=True):
        print(f"  {step:42}{accuracy:9.3f}{loss:10.3f}")
    print(f"\n{time.perf_counter() - began:.0f} seconds.")


if __name__ == "__main__":
    main()
