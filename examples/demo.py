"""Learn one hard tree of a real table by gradient descent, beside scikit-learn's greedy tree on the same rows.

Run it with `make demo`. It writes out/demo/report.html and out/demo/tree.svg.
"""

from __future__ import annotations

import csv
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from sklearn.metrics import balanced_accuracy_score
from sklearn.model_selection import train_test_split
from sklearn.tree import DecisionTreeClassifier

from hardwood import Forest, draw, nn
from hardwood.forest import CATEGORIES, THRESHOLD

HERE = Path(__file__).resolve().parent
TABLE = HERE / "data" / "titanic.csv"
OUT = HERE.parent / "out" / "demo"

WHOLE_COLUMNS = {"Pclass", "SibSp", "Parch"}
CATEGORY_COLUMNS = {"Sex": ("female", "male"), "Embarked": ("C", "Q", "S")}
CLASSES = np.array(["died", "survived"])
DEPTH = 5
RESTARTS = 16
BATCH = 128
EPOCHS = 400
PATIENCE = 60
SEEDS = range(10)


# ---------------------------------------------------------------- the table


def read_table() -> tuple[list[str], np.ndarray, np.ndarray]:
    """Return column names, cells as numbers (categories as codes, NaN where nothing is known), and labels."""
    with TABLE.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    names = [name for name in rows[0] if name != "target"]

    def cell(name: str, text: str) -> float:
        if text == "":
            return np.nan
        return float(CATEGORY_COLUMNS[name].index(text) if name in CATEGORY_COLUMNS else text)

    X = np.array([[cell(name, row[name]) for name in names] for row in rows])
    return names, X, CLASSES[[int(row["target"]) for row in rows]]


def column_type(name: str) -> Literal["category", "int", "float"]:
    """Return what kind of values a column holds."""
    if name in CATEGORY_COLUMNS:
        return "category"
    return "int" if name in WHOLE_COLUMNS else "float"


@dataclass(frozen=True)
class Encoded:
    """One column that the trees train on: a raw number, standardised, or 1 where a category is the given one."""

    source: int
    shift: float = 0.0
    scale: float = 1.0
    category: int | None = None

    def __call__(self, raw: np.ndarray) -> np.ndarray:
        """Encode raw cells; a missing one stays missing."""
        if self.category is None:
            return ((raw - self.shift) / self.scale).astype(np.float32)
        return np.where(np.isnan(raw), np.nan, raw == self.category).astype(np.float32)

    def raw_threshold(self, threshold: float) -> float:
        """Return the smallest raw number that is encoded as `threshold` or more.

        Encoding never changes the order of numbers, so a raw cell is below the result exactly when its code is below
        `threshold`: halving the interval down to two neighbouring floats loses nothing to rounding.
        """
        middle = threshold * self.scale + self.shift
        low, high = middle - self.scale, middle + self.scale
        while low < (middle := (low + high) / 2) < high:
            low, high = (low, middle) if self(np.array(middle)) >= threshold else (middle, high)
        return high


def plan_encoding(names: list[str], X: np.ndarray) -> list[Encoded]:
    """Choose the encoding of every column by looking at the training rows alone."""
    columns = []
    for source, name in enumerate(names):
        if name in CATEGORY_COLUMNS:
            codes = range(len(CATEGORY_COLUMNS[name]))
            columns += [Encoded(source, category=code) for code in codes[1 if len(codes) == 2 else 0 :]]
        else:
            columns.append(Encoded(source, float(np.nanmean(X[:, source])), float(np.nanstd(X[:, source]))))
    return columns


def encode(columns: list[Encoded], X: np.ndarray) -> np.ndarray:
    """Return the table that the trees train on."""
    return np.stack([column(X[:, column.source]) for column in columns], axis=1)


# ---------------------------------------------------------------- learning


def learn(x: torch.Tensor, y: torch.Tensor, x_valid: torch.Tensor, y_valid: torch.Tensor, seed: int) -> Forest:
    """Train many trees at once from different beginnings; return the one with the lowest validation loss."""
    generator = torch.Generator().manual_seed(seed)
    trees = nn.HardTrees(x.shape[1], len(CLASSES), RESTARTS, DEPTH, combine="none", generator=generator)
    optimizer = torch.optim.Adam(
        [
            {"params": [trees.split_logits, trees.missing_logits], "lr": 0.05},
            {"params": [trees.thresholds], "lr": 0.02},
            {"params": [trees.leaf_values], "lr": 0.02},
        ]
    )

    def losses(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """Return the loss of each tree."""
        logits = trees(x).movedim(2, 1)  # (rows, classes, trees)
        return torch.nn.functional.cross_entropy(logits, y[:, None].expand(-1, RESTARTS), reduction="none").mean(0)

    lowest = torch.full((RESTARTS,), torch.inf)
    best = {name: parameter.detach().clone() for name, parameter in trees.named_parameters()}
    since = 0
    for _ in range(EPOCHS):
        for rows in torch.randperm(len(x), generator=generator).split(BATCH):
            optimizer.zero_grad()
            losses(x[rows], y[rows]).sum().backward()
            optimizer.step()
        with torch.no_grad():
            now = losses(x_valid, y_valid)
        improved = now < lowest
        lowest = torch.where(improved, now, lowest)
        for name, parameter in trees.named_parameters():
            best[name][improved] = parameter.detach()[improved]
        since = 0 if improved.any() else since + 1
        if since == PATIENCE:
            break
    trees.load_state_dict(best, strict=False)
    return trees.to_forest([int(lowest.argmin())], classes=CLASSES, link="softmax")


def in_raw_units(forest: Forest, columns: list[Encoded], names: list[str]) -> Forest:
    """Return the forest that splits on the table's own columns and sends every row the same way."""
    kind, feature, threshold = forest.kind.copy(), forest.feature.copy(), forest.threshold.copy()
    codes: list[list[int]] = [[] for _ in kind]
    for node in np.flatnonzero(kind == THRESHOLD):
        column = columns[forest.feature[node]]
        feature[node] = column.source
        if column.category is None:
            threshold[node] = column.raw_threshold(forest.threshold[node])
        else:
            kind[node], threshold[node] = CATEGORIES, 0.0
            vocabulary = np.arange(len(CATEGORY_COLUMNS[names[column.source]]))
            codes[node] = np.flatnonzero(column(vocabulary) < forest.threshold[node]).tolist()
    return replace(
        forest,
        kind=kind,
        feature=feature,
        threshold=threshold,
        category_start=np.cumsum([0, *map(len, codes)]),
        category_codes=np.array([code for each in codes for code in each], np.int32),
        n_features=len(names),
        feature_names=tuple(names),
        feature_types=tuple(column_type(name) for name in names),
        categories={names.index(name): words for name, words in CATEGORY_COLUMNS.items()},
    )


@dataclass(frozen=True)
class Result:
    """What one split of the table gave."""

    forest: Forest
    test: np.ndarray
    learned: float
    greedy: float


def compare(names: list[str], X: np.ndarray, y: np.ndarray, seed: int) -> Result:
    """Learn a tree by gradient descent and a greedy one of the same depth; score both on the same held-out rows."""
    rest, test = train_test_split(np.arange(len(y)), test_size=0.25, random_state=seed, stratify=y)
    train, valid = train_test_split(rest, test_size=0.25, random_state=seed, stratify=y[rest])
    columns = plan_encoding(names, X[train])
    encoded = encode(columns, X)
    x, labels = torch.from_numpy(encoded), torch.from_numpy(np.searchsorted(CLASSES, y))

    forest = learn(x[train], labels[train], x[valid], labels[valid], seed)
    raw = in_raw_units(forest, columns, names)
    if not np.array_equal(raw.apply(X), forest.apply(encoded)):
        raise RuntimeError("the tree in raw units sends a row another way; this is a bug in the demo")
    raw = raw.prune(X[rest])

    # The greedy tree needs no validation rows, so it gets them to train on.
    greedy = DecisionTreeClassifier(max_depth=DEPTH, random_state=seed).fit(encoded[rest], y[rest])
    return Result(
        raw,
        test,
        balanced_accuracy_score(y[test], raw.predict(X[test])),
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
    print(f"Titanic: {len(y)} passengers, {len(names)} columns, {int(np.isnan(X).sum())} cells missing.")
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
    page = draw.report(first.forest, X[first.test], y[first.test], path=OUT / "report.html", title=title)
    picture = OUT / "tree.svg"
    picture.write_text(draw.svg(first.forest, X=X[first.test], title=title), encoding="utf-8")
    print(f"\n{time.perf_counter() - began:.0f} seconds. Open these in a browser:\n  {page}\n  {picture}")


if __name__ == "__main__":
    main()
