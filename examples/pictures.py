"""Learn from pictures and a table at once, and see which of the two each prediction came from.

    python examples/pictures.py

The set is made: scikit-learn's handwritten digits behind dirt, each with a small table. It needs pandas and Pillow
(`pip install "hardwood[image]" pandas`), runs for less than a minute on two cores, and writes out/pictures/page.html.
"""

from __future__ import annotations

import argparse
import base64
import html
import time
from pathlib import Path

import numpy as np
import pandas as pd
from PIL import Image
from sklearn.datasets import load_digits
from sklearn.metrics import balanced_accuracy_score
from sklearn.model_selection import train_test_split

from hardwood import MultimodalClassifier, draw
from hardwood.estimators import ImageBranch, MultimodalExplanation

OUT = Path(__file__).resolve().parents[1] / "out" / "pictures"
SHELVES = {"cold store": (0, 1, 2), "hall": (3, 4, 5, 6), "yard": (7, 8, 9)}


def make(folder: Path, n: int, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    """Return pictures of shelf numbers, what was weighed and where, and the shelves; the pictures lie in `folder`."""
    rng = np.random.default_rng(seed)
    data = load_digits()
    rows = rng.permutation(len(data.target))[:n]
    y = data.target[rows]
    images = data.images[rows] / 16 * 255
    for image, place in zip(images, rng.integers(0, 5, n), strict=True):
        image[place : place + 3] = 0  # a stripe of dirt
    images = np.clip(images + 45 * rng.normal(size=images.shape), 0, 255).astype(np.uint8)
    folder.mkdir(parents=True, exist_ok=True)
    names = [f"{number}.png" for number in range(n)]
    for image, name in zip(images, names, strict=True):
        Image.fromarray(image).save(folder / name)
    part = np.array([next(key for key, digits in SHELVES.items() if label in digits) for label in y], dtype=object)
    part[rng.random(n) < 0.15] = None
    heavy = np.isin(y, (1, 4, 7))
    weight = np.exp(rng.normal(np.where(heavy, 3.0, 1.5), 0.5))
    return pd.DataFrame({"picture": names, "where": part, "weight": weight}), y


def fit(
    columns: list[str], X: pd.DataFrame, y: np.ndarray, folder: Path, trees: int, epochs: int
) -> MultimodalClassifier:
    """Return a model of some columns."""
    image = ImageBranch("picture", size=8, channels=1, folder=folder, augment=("shift",))
    branches = [image] if "picture" in columns else []
    model = MultimodalClassifier(branches, n_estimators=trees, max_depth=4, max_iter=epochs, random_state=0)
    return model.fit(X[columns], y)


def page(model: MultimodalClassifier, X: pd.DataFrame, y: np.ndarray, folder: Path) -> str:
    """Return a page with rows of the table, their pictures, and where each prediction came from."""
    shown = [
        block(row, truth, why, model.classes_.tolist().index(why.prediction), folder)
        for (_, row), truth, why in zip(X.iterrows(), y, model.explain(X, n_trees=1), strict=True)
    ]
    assert model.forest_ is not None
    tree = draw.svg(model.forest_, title="One of the table's trees: what it adds to each shelf's score")
    style = "body{font:16px sans-serif;max-width:60em;margin:2em auto}img{image-rendering:pixelated;width:96px}"
    style += ".row{display:flex;align-items:flex-start;gap:1.5em;border-top:1px solid #ccc;padding:1em 0}"
    style += ".bar{box-sizing:border-box;background:#cde;white-space:nowrap;margin:2px 0;padding:2px 4px}"
    style += "p{margin:.5em 0}"
    title = "Which shelf? A picture and a table, one model"
    return (
        f"<!doctype html><meta charset=utf-8><title>{title}</title><style>{style}</style><h1>{title}</h1>"
        + "".join(shown)
        + f"<div style='overflow-x:auto'>{tree}</div>"
    )


def block(row: pd.Series, truth: int, why: MultimodalExplanation, place: int, folder: Path) -> str:
    """Return one row of the page; `place` is that of the predicted class among the classes."""
    picture = base64.b64encode((folder / row["picture"]).read_bytes()).decode()
    bars = "".join(
        # What a part says for this class, beside what it says for all.
        f"<div class=bar style='width:{why.shares[part]:.0%}'>"
        f"{why.shares[part]:.0%} {html.escape(part)}: {says[place] - np.mean(says):+.1f}</div>"
        for part, says in why.contributions.items()
    )
    where = "missing" if pd.isna(row["where"]) else row["where"]
    cells = f"where: {where}, weight: {row['weight']:.1f}"
    assert why.rules is not None
    reason = why.rules.reasons[0]
    rule = " and ".join(condition.text for condition in reason.conditions)
    rule = f"Tree {reason.tree}, with {reason.share:.0%} of the trees' weight, asks: {rule}."
    verdict = "right" if why.prediction == truth else f"wrong: it is {truth}"
    return (
        f"<div class=row><img alt='' src='data:image/png;base64,{picture}'><div style='flex:1'>"
        f"<b>{why.prediction}</b> ({verdict}) &middot; {html.escape(cells)}{bars}<p>{html.escape(rule)}</p></div></div>"
    )


def main() -> None:
    """Run the example."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1200)
    parser.add_argument("--trees", type=int, default=48)
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args()
    began, folder = time.perf_counter(), given.out / "images"
    X, y = make(folder, given.rows)
    training, test = train_test_split(np.arange(len(y)), test_size=0.3, random_state=0, stratify=y)
    print(f"{len(y)} rows: a picture of a shelf's number behind dirt, where it was taken, and a weight\n")
    for title, columns in (
        ("the table alone", ["where", "weight"]),
        ("the pictures alone", ["picture"]),
        ("both", ["picture", "where", "weight"]),
    ):
        model = fit(columns, X.iloc[training], y[training], folder, given.trees, given.epochs)
        score = balanced_accuracy_score(y[test], model.predict(X.iloc[test]))
        print(f"  balanced accuracy of {title:20}{score:.3f}", flush=True)
    few = test[:12]
    print(f"\nThe first row that is held out:\n{model.explain(X.iloc[few[:1]], n_trees=1)[0]}\n")
    path = given.out / "page.html"
    path.write_text(page(model, X.iloc[few], y[few], folder), encoding="utf-8")
    print(f"{time.perf_counter() - began:.0f} seconds. Open this in a browser:\n  {path}")


if __name__ == "__main__":
    main()
