"""The sets: photographs of houses and two that are made, of digits' images and of words, each with a table."""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from hardwood.estimators import ImageBranch, TextBranch

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
VIEWS = ("bathroom", "bedroom", "frontal", "kitchen")


@dataclass(frozen=True)
class Set:
    """A frame, its target, and the branch that is no table."""

    X: pd.DataFrame
    y: np.ndarray
    branch: ImageBranch | TextBranch
    regression: bool = False

    @property
    def other_columns(self) -> list[str]:
        columns = self.branch.columns
        return [columns] if isinstance(columns, str) else list(columns)


def made_table(y: np.ndarray, rng: np.random.Generator) -> pd.DataFrame:
    """A made table that tells something about each class, of the kind that tables are.

    Four skewed numbers whose typical size depends on the class, three columns of categories whose frequencies do, four
    columns that say nothing, and a tenth of all cells missing.
    """
    n, classes = len(y), int(y.max()) + 1
    columns: dict[str, np.ndarray] = {}
    for number in range(4):
        typical = rng.normal(size=classes)
        columns[f"size{number}"] = np.exp(typical[y] + 0.9 * rng.normal(size=n))
    for number in range(3):
        words = np.array(list("abcdef"))
        share = rng.dirichlet(np.full(len(words), 0.7), size=classes)
        columns[f"kind{number}"] = np.array([rng.choice(words, p=share[label]) for label in y], dtype=object)
    for number in range(4):
        columns[f"nothing{number}"] = rng.exponential(size=n)
    frame = pd.DataFrame(columns)
    return frame.mask(pd.DataFrame(rng.random(frame.shape) < 0.1, columns=frame.columns))


def hidden_digits(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return scikit-learn's handwritten digits, each behind noise and a stripe, and which digits they are."""
    from sklearn.datasets import load_digits

    data = load_digits()
    images = data.images / 16 * 255
    for image, row, upright in zip(images, rng.integers(0, 6, len(images)), rng.random(len(images)) < 0.5, strict=True):
        stripe = image[:, row : row + 3] if upright else image[row : row + 3]
        stripe[:] = 0
    return np.clip(images + 60 * rng.normal(size=images.shape), 0, 255).astype(np.uint8), data.target


def digits(folder: Path) -> Set:
    """1,797 handwritten digits behind noise, with a made table whose columns are independent given the class."""
    rng = np.random.default_rng(7)
    images, y = hidden_digits(rng)
    X = made_table(y, rng)
    X["image"] = store(images, folder / "digits")
    return Set(X, y, ImageBranch("image", size=8, channels=1, augment=("shift",)))


def cover(folder: Path) -> Set:
    """1,750 rows of Covertype, a real table; the made picture of each is a digit for its class, behind noise."""
    rng = np.random.default_rng(9)
    with gzip.open(DATA / "covtype_subset.csv.gz", "rt") as file:
        table = pd.read_csv(file)
    table = table.groupby("target").sample(250, random_state=9).reset_index(drop=True)
    X, y = table.drop(columns="target"), np.unique(table["target"], return_inverse=True)[1]
    images, which = hidden_digits(rng)
    chosen = np.array([rng.choice(np.flatnonzero(which == label)) for label in y])
    # Some digits stand for several rows, which may be on both sides of the split: so each has noise of its own.
    noisy = np.clip(images[chosen] + 40 * rng.normal(size=(len(y), 8, 8)), 0, 255).astype(np.uint8)
    X["image"] = store(noisy, folder / "cover")
    return Set(X, y, ImageBranch("image", size=8, channels=1, augment=("shift",)))


def words(folder: Path) -> Set:
    """1,800 made texts of 10 classes with a made table: each word is drawn from its class's words, or from all."""
    rng = np.random.default_rng(8)
    y = rng.integers(0, 10, 1800)
    vocabulary = np.array([f"word{number}" for number in range(400)], dtype=object)
    own = [rng.choice(vocabulary, 20, replace=False) for _ in range(10)]
    texts = []
    for label in y:
        n = int(rng.integers(6, 16))
        drawn = np.where(rng.random(n) < 0.12, rng.choice(own[label], n), rng.choice(vocabulary, n))
        texts.append(" ".join(drawn))
    X = made_table(y, rng)
    X["text"] = texts
    return Set(X, y, TextBranch("text", n_buckets=1024, n_grams=1))


def houses(folder: Path) -> Set:
    """535 houses (Ahmed and Moustafa, 2016): four photographs each, four columns; the target is the price's log."""
    with gzip.open(DATA / "houses.csv.gz", "rt") as file:
        table = pd.read_csv(file)
    images = np.load(DATA / "houses_images.npz")["images"]
    X = table.drop(columns="target")
    X["zipcode"] = X["zipcode"].astype(str).astype("category")
    for number, view in enumerate(VIEWS):
        X[view] = store(images[:, number], folder / view)
    branch = ImageBranch(VIEWS, size=32, augment=("flip", "shift", "colour"), views="mean")
    return Set(X, np.log(table["target"].to_numpy(float)), branch, regression=True)


def store(images: np.ndarray, folder: Path) -> list[str]:
    """Write images as files, so that they stream from disk as users' do; return their paths."""
    from PIL import Image

    folder.mkdir(parents=True, exist_ok=True)
    paths = [str(folder / f"{number}.png") for number in range(len(images))]
    for image, path in zip(images, paths, strict=True):
        if not Path(path).is_file():
            Image.fromarray(image).save(path)
    return paths


SETS = {"digits": digits, "cover": cover, "houses": houses, "words": words}
