"""Learn one tree, and an ensemble, of a real table by gradient descent, beside scikit-learn's greedy tree.

Run it with `make demo`. It writes out/demo/report.html and out/demo/tree.svg.
"""

from __future__ import annotations

import csv
import time
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from sklearn.metrics import balanced_accuracy_score, f1_score
from sklearn.model_selection import train_test_split
from sklearn.tree import DecisionTreeClassifier

from hardwood import Forest, GradTreeClassifier, GrandeClassifier, draw, explain
from hardwood.data import TableEncoder

HERE = Path(__file__).resolve().parent
TABLE = HERE / "data" / "titanic.csv"
OUT = HERE.parent / "out" / "demo"

CLASSES = np.array(["died", "survived"])
DEPTH = 5
TREES = 64
SEEDS = range(6)
METHODS = ("GradTree", "GRANDE", "greedy")


def read_table() -> tuple[list[str], np.ndarray, np.ndarray]:
    """Return column names, cells as numbers or text (None where nothing is known), and labels."""
    with TABLE.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    names = [name for name in rows[0] if name != "target"]
    X = np.array([[cell(row[name]) for name in names] for row in rows], object)
    return names, X, CLASSES[[int(row["target"]) for row in rows]]


def cell(text: str) -> str | int | float | None:
    """Return what a cell of the file stands for."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text or None


@dataclass(frozen=True)
class Split:
    """What one split of the table gave: two scores for each method, and the models."""

    scores: np.ndarray  # methods x (balanced accuracy, macro F1)
    tree: Forest
    is_greedy: bool
    ensemble: Forest
    held_out: np.ndarray  # rows as the forests read them
    answers: np.ndarray


def compare(names: list[str], X: np.ndarray, y: np.ndarray, seed: int) -> Split:
    """Learn from three quarters of the rows, and score on the others. All methods get the same rows."""
    rest, test = train_test_split(np.arange(len(y)), test_size=0.25, random_state=seed, stratify=y)
    tree = GradTreeClassifier(max_depth=DEPTH, random_state=seed).fit(X[rest], y[rest])
    ensemble = GrandeClassifier(TREES, max_depth=DEPTH, random_state=seed).fit(X[rest], y[rest])

    encoder = TableEncoder(numeric="identity", task="classification", seed=seed)
    greedy = DecisionTreeClassifier(max_depth=DEPTH, random_state=seed)
    greedy.fit(encoder.fit_transform(X[rest], y[rest]), y[rest])

    answers = [tree.predict(X[test]), ensemble.predict(X[test]), greedy.predict(encoder.transform(X[test]))]
    scores = [(balanced_accuracy_score(y[test], said), f1_score(y[test], said, average="macro")) for said in answers]
    # An array has no column names. A data frame has, and would be read by itself; the demo does without pandas.
    mine, ours = (replace(model.forest_, feature_names=tuple(names)) for model in (tree, ensemble))
    return Split(np.array(scores), mine, tree.is_greedy_, ours, tree.columns_.to_raw(X[test]), y[test])


def print_scores(splits: list[Split]) -> None:
    """Print means with their spread, and what the differences from the greedy tree are worth."""
    scores = np.array([split.scores for split in splits])
    n = len(splits)
    print("\n                   balanced accuracy    macro F1   (mean +- standard deviation over the splits)")
    for place, method in enumerate(METHODS):
        mean, spread = scores[:, place].mean(axis=0), scores[:, place].std(axis=0, ddof=1)
        print(f"  {method:10}  {mean[0]:17.3f} +- {spread[0]:.3f}  {mean[1]:.3f} +- {spread[1]:.3f}")
    print("  The same splits, minus the greedy tree (mean +- standard error):")
    for place, method in enumerate(METHODS[:-1]):
        gap = scores[:, place] - scores[:, -1]
        mean, error = gap.mean(axis=0), gap.std(axis=0, ddof=1) / n**0.5
        print(f"  {method:10}  {mean[0]:+17.3f} +- {error[0]:.3f}  {mean[1]:+.3f} +- {error[1]:.3f}")
    print("  A difference of less than two standard errors may well be chance.\n")


def print_explanation(splits: list[Split]) -> None:
    """Explain the held-out row, of all splits, in which a single tree of the ensemble counts most."""
    largest = [split.ensemble.tree_weights(split.held_out).max(axis=1) for split in splits]
    place = int(np.argmax([each.max() for each in largest]))
    split, row = splits[place], int(largest[place].argmax())
    print(f"GRANDE weighs its {TREES} trees anew for each row; equal shares would be {1 / TREES:.1%}.")
    print("Of all held-out passengers, the one below has the tree with the largest share.")
    print(f"It is of split {SEEDS[place]}; in truth, the passenger {split.answers[row]}.\n")
    print(explain.row(split.ensemble, split.held_out[row], n_trees=2))


def main() -> None:
    """Run the demo."""
    if not TABLE.exists():
        raise SystemExit(f"{TABLE} is missing; restore it from the repository (git checkout -- examples/data)")
    began = time.perf_counter()
    names, X, y = read_table()
    missing = sum(each is None for each in X.ravel())
    print(f"Titanic: {len(y)} passengers, {len(names)} columns, {missing} cells missing.")
    print(f"GradTree: one tree, depth {DEPTH}. GRANDE: {TREES} such trees. Greedy: scikit-learn's tree, same depth.\n")
    print("Balanced accuracy on a held-out quarter")
    print("  split    " + "".join(f"{method:>10}" for method in METHODS))
    splits = []
    for seed in SEEDS:
        splits.append(compare(names, X, y, seed))
        print(f"  {seed:5}    " + "".join(f"{score:10.3f}" for score in splits[-1].scores[:, 0]), flush=True)
    print_scores(splits)

    first = splits[0]
    print(f"GradTree's tree of split {SEEDS[0]}, in raw units.")
    gained = "no more than chance: it is that greedy tree, grown on all rows" if first.is_greedy else "more than chance"
    print(f"It began at a greedy tree, over which training gained {gained}.")
    print()
    print(draw.text(first.tree))
    print()
    print_explanation(splits)

    title = "Who survived the Titanic?"
    OUT.mkdir(parents=True, exist_ok=True)
    page = draw.report(first.tree, first.held_out, first.answers, path=OUT / "report.html", title=title)
    picture = OUT / "tree.svg"
    picture.write_text(draw.svg(first.tree, X=first.held_out, title=title), encoding="utf-8")
    print(f"\n{time.perf_counter() - began:.0f} seconds. Open these in a browser:\n  {page}\n  {picture}")


if __name__ == "__main__":
    main()
