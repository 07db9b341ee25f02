"""Learn one hard tree of a real table by gradient descent, beside scikit-learn's greedy tree on the same rows.

Run it with `make demo`. It writes out/demo/report.html and out/demo/tree.svg.
"""

from __future__ import annotations

import csv
import time
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from sklearn.metrics import balanced_accuracy_score
from sklearn.model_selection import train_test_split
from sklearn.tree import DecisionTreeClassifier

from hardwood import Forest, draw, nn, train
from hardwood.data import TableEncoder, split_rows

HERE = Path(__file__).resolve().parent
TABLE = HERE / "data" / "titanic.csv"
OUT = HERE.parent / "out" / "demo"

TEXT_COLUMNS = {"Sex", "Embarked"}
CLASSES = np.array(["died", "survived"])
DEPTH = 5
RESTARTS = 16
SETTINGS = train.TrainingSettings(
    max_epochs=400, patience=60, batch_size=128, learning_rate=0.02, split_logits_rate=0.05, missing_logits_rate=0.05
)
SEEDS = range(10)


def read_table() -> tuple[list[str], np.ndarray, np.ndarray]:
    """Return column names, cells as numbers or text (None where nothing is known), and labels."""
    with TABLE.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    names = [name for name in rows[0] if name != "target"]

    def cell(name: str, text: str) -> str | float | None:
        if text == "":
            return None
        return text if name in TEXT_COLUMNS else float(text)

    X = np.array([[cell(name, row[name]) for name in names] for row in rows], object)
    return names, X, CLASSES[[int(row["target"]) for row in rows]]


def learn(X: np.ndarray, y: np.ndarray, seed: int) -> tuple[Forest, TableEncoder]:
    """Train many trees at once from different beginnings; return the one with the lowest validation loss."""
    labels = np.searchsorted(CLASSES, y)
    training, validation = split_rows(len(y), 0.25, seed, labels)
    encoder = TableEncoder(numeric="standard", task="classification", seed=seed)
    rows = torch.from_numpy(encoder.fit_transform(X[training], labels[training]))
    kept = torch.from_numpy(encoder.transform(X[validation]))
    target = torch.from_numpy(labels)

    generator = torch.Generator().manual_seed(seed)
    trees = nn.HardTrees(
        rows.shape[1], len(CLASSES), RESTARTS, DEPTH, combine="none", split="softsign", init="normal",
        generator=generator,
    )  # fmt: skip
    result = train.fit(
        trees, rows, target[training], loss=train.CrossEntropy(), validation=(kept, target[validation]),
        settings=replace(SETTINGS, random_state=seed),
    )  # fmt: skip
    assert result.best_tree is not None
    encoded = trees.to_forest([result.best_tree], classes=CLASSES, link="softmax")
    return encoder.lower(encoded), encoder


@dataclass(frozen=True)
class Result:
    """What one split of the table gave."""

    forest: Forest
    X_test: np.ndarray
    y_test: np.ndarray
    learned: float
    greedy: float


def compare(names: list[str], X: np.ndarray, y: np.ndarray, seed: int) -> Result:
    """Learn a tree by gradient descent and a greedy one of the same depth; score both on the same held-out rows."""
    rest, test = train_test_split(np.arange(len(y)), test_size=0.25, random_state=seed, stratify=y)
    forest, encoder = learn(X[rest], y[rest], seed)
    raw = encoder.to_raw(X)
    forest = replace(forest, feature_names=tuple(names)).prune(raw[rest])

    # The greedy tree needs no validation rows, so it gets them to train on.
    encoded = encoder.transform(X)
    greedy = DecisionTreeClassifier(max_depth=DEPTH, random_state=seed).fit(encoded[rest], y[rest])
    return Result(
        forest,
        raw[test],
        y[test],
        balanced_accuracy_score(y[test], forest.predict(raw[test])),
        balanced_accuracy_score(y[test], greedy.predict(encoded[test])),
    )


def main() -> None:
    """Run the demo."""
    if not TABLE.exists():
        raise SystemExit(f"{TABLE} is missing; restore it from the repository (git checkout -- examples/data)")
    began = time.perf_counter()
    # Batches are small: a second thread gains nothing here, and on a busy machine the first would spin waiting for it.
    torch.set_num_threads(1)
    names, X, y = read_table()
    print(
        f"Titanic: {len(y)} passengers, {len(names)} columns, {sum(cell is None for cell in X.ravel())} cells missing."
    )
    print(f"{RESTARTS} trees of depth {DEPTH} are trained together from different beginnings; validation picks one.\n")
    print("balanced accuracy on the held-out quarter")
    print("  seed  gradient descent  greedy (scikit-learn)")
    results = []
    for seed in SEEDS:
        results.append(compare(names, X, y, seed))
        print(f"  {seed:4}  {results[-1].learned:16.3f}  {results[-1].greedy:21.3f}")
    learned, greedy = (np.array([getattr(each, name) for each in results]) for name in ("learned", "greedy"))
    print(f"  mean  {learned.mean():16.3f}  {greedy.mean():21.3f}")
    gap = learned - greedy
    print(f"  The difference is {gap.mean():+.3f} +/- {gap.std(ddof=1) / len(gap) ** 0.5:.3f} (standard error).\n")

    first = results[0]
    print(f"The tree of seed {SEEDS[0]} in raw units, without the branches that no row it learned from takes:\n")
    print(draw.text(first.forest))
    title = "Who survived the Titanic?"
    OUT.mkdir(parents=True, exist_ok=True)
    page = draw.report(first.forest, first.X_test, first.y_test, path=OUT / "report.html", title=title)
    picture = OUT / "tree.svg"
    picture.write_text(draw.svg(first.forest, X=first.X_test, title=title), encoding="utf-8")
    print(f"\n{time.perf_counter() - began:.0f} seconds. Open these in a browser:\n  {page}\n  {picture}")


if __name__ == "__main__":
    main()
