"""The sets: photographs of houses, and four whose images or texts are made, drawn anew for each seed."""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from benchmarks.multimodal.made import independent_table, made_table

from hardwood.estimators import ImageBranch, TextBranch

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
VIEWS = ("bathroom", "bedroom", "frontal", "kitchen")
# Few rows to learn from, as in PAD-UFES-20, and many to tell methods apart.
TRAINING, TEST = 1600, 2400


@dataclass(frozen=True)
class Set:
    """A frame, its target, the branch that is no table, and the rows to learn from; the others are for the test."""

    X: pd.DataFrame
    y: np.ndarray
    branch: ImageBranch | TextBranch
    training: np.ndarray
    regression: bool = False

    @property
    def test(self) -> np.ndarray:
        return np.setdiff1d(np.arange(len(self.y)), self.training)

    @property
    def other_columns(self) -> list[str]:
        columns = self.branch.columns
        return [columns] if isinstance(columns, str) else list(columns)


def pictures(y: np.ndarray, training: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return a handwritten digit for each row's class, behind noise and a stripe of its own.

    A digit stands for several rows. Those of the test come from other digits than those of training.
    """
    from sklearn.datasets import load_digits

    data = load_digits()
    for_training = rng.random(len(data.target)) < 0.7
    is_training = np.isin(np.arange(len(y)), training)
    chosen = np.empty(len(y), np.int64)
    for label in np.unique(y):
        for part in (False, True):
            rows = np.flatnonzero((y == label) & (is_training == part))
            chosen[rows] = rng.choice(np.flatnonzero((data.target == label) & (for_training == part)), len(rows))
    images = data.images[chosen] / 16 * 255
    for image, row, upright in zip(images, rng.integers(0, 6, len(images)), rng.random(len(images)) < 0.5, strict=True):
        stripe = image[:, row : row + 3] if upright else image[row : row + 3]
        stripe[:] = 0
    return np.clip(images + 60 * rng.normal(size=images.shape), 0, 255).astype(np.uint8)


def with_pictures(X: pd.DataFrame, y: np.ndarray, folder: Path, rng: np.random.Generator) -> Set:
    training = np.sort(rng.permutation(len(y))[:TRAINING])
    X = X.assign(image=store(pictures(y, training, rng), folder))
    return Set(X, y, ImageBranch("image", size=8, channels=1, augment=("shift",)), training)


def digits(folder: Path, seed: int) -> Set:
    """handwritten digits behind noise, and a made table from which it follows which digit it is."""
    rng = np.random.default_rng([7, seed])
    X, y = made_table(TRAINING + TEST, 10, rng)
    return with_pictures(X, y, folder / f"digits{seed}", rng)


def independent(folder: Path, seed: int) -> Set:
    """the same digits, with a made table whose columns are independent given the class."""
    rng = np.random.default_rng([8, seed])
    y = rng.integers(0, 10, TRAINING + TEST)
    return with_pictures(independent_table(y, rng), y, folder / f"independent{seed}", rng)


def cover(folder: Path, seed: int) -> Set:
    """rows of Covertype, a real table; the made picture of each is a digit for its class, behind noise."""
    rng = np.random.default_rng([9, seed])
    with gzip.open(DATA / "covtype_subset.csv.gz", "rt") as file:
        table = pd.read_csv(file)
    table = table.groupby("target").sample((TRAINING + TEST) // 7, random_state=seed).reset_index(drop=True)
    y = np.unique(table["target"], return_inverse=True)[1]
    return with_pictures(table.drop(columns="target"), y, folder / f"cover{seed}", rng)


def words(folder: Path, seed: int) -> Set:
    """made texts, each word one of the class's or any, and a made table like that of `digits`."""
    rng = np.random.default_rng([10, seed])
    X, y = made_table(TRAINING + TEST, 10, rng)
    vocabulary = np.array([f"word{number}" for number in range(400)], dtype=object)
    own = [rng.choice(vocabulary, 20, replace=False) for _ in range(10)]
    texts = []
    for label in y:
        n = int(rng.integers(6, 16))
        drawn = np.where(rng.random(n) < 0.12, rng.choice(own[label], n), rng.choice(vocabulary, n))
        texts.append(" ".join(drawn))
    training = np.sort(rng.permutation(len(y))[:TRAINING])
    return Set(X.assign(text=texts), y, TextBranch("text", n_buckets=1024, n_grams=1), training)


def houses(folder: Path, seed: int) -> Set:
    """535 houses (Ahmed and Moustafa, 2016): four photographs each, four columns; the target is the price's log."""
    with gzip.open(DATA / "houses.csv.gz", "rt") as file:
        table = pd.read_csv(file)
    images = np.load(DATA / "houses_images.npz")["images"]
    X = table.drop(columns="target")
    X["zipcode"] = X["zipcode"].astype(str).astype("category")
    for number, view in enumerate(VIEWS):
        X[view] = store(images[:, number], folder / view)
    branch = ImageBranch(VIEWS, size=32, augment=("flip", "shift", "colour"), views="mean")
    training = np.sort(np.random.default_rng([11, seed]).permutation(len(X))[: round(0.7 * len(X))])
    return Set(X, np.log(table["target"].to_numpy(float)), branch, training, regression=True)


def store(images: np.ndarray, folder: Path) -> list[str]:
    """Write images as files, so that they stream from disk as users' do; return their paths."""
    from PIL import Image

    folder.mkdir(parents=True, exist_ok=True)
    paths = [str(folder / f"{number}.png") for number in range(len(images))]
    for image, path in zip(images, paths, strict=True):
        if not Path(path).is_file():
            Image.fromarray(image).save(path)
    return paths


SETS = {"houses": houses, "digits": digits, "words": words, "cover": cover, "independent": independent}
