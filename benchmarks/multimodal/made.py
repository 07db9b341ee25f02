"""Tables that are made: classes that follow from columns as they do in practice, and what goes with them.

The classes are drawn from the table, as a diagnosis follows from a patient, and not the table from the classes. Each
class has a score, a sum of four terms of the same size, of kinds that tables are known for. The first suits a linear
model, the second trees; the others neither by itself:

- a linear one in the numbers (their logarithms where they are skewed);
- steps: what changes where a number passes a limit, three limits;
- interactions: a number's direction where a category is one of some, and whether two numbers lie on the same side;
- categories: an effect of each value, one column having 24 values of very different frequency.

The scores' scale is such that who knew them would be right for 70% of the rows, and each class is as frequent as the
others. Beside these columns there are three that say nothing. 4% of all cells are missing at random; "score" is missing
for whole categories, and "amount" more often where it is large.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

KNOWABLE = 0.7
REGIONS, MAKERS = 6, 24


def made_table(n: int, n_classes: int, rng: np.random.Generator) -> tuple[pd.DataFrame, np.ndarray]:
    """Return a table and the class of each row."""
    latent = rng.normal(size=n)  # what makes columns go together
    numbers = {
        "age": np.clip(np.round(45 + 14 * (0.6 * latent + 0.8 * rng.normal(size=n))), 1, 99),
        "amount": np.exp(4 + 0.7 * latent + 0.8 * rng.normal(size=n)),
        "count": rng.poisson(3, n).astype(float),
        "score": np.round(100 * rng.beta(4, 2, n), 1),
        "width": np.round(20 + 5 * rng.normal(size=n), 1),
    }
    frequency = 1 / np.arange(1, MAKERS + 1)
    codes = {
        "region": rng.integers(0, REGIONS, n),
        "kind": rng.choice(4, n, p=[0.5, 0.25, 0.15, 0.1]),
        "maker": rng.choice(MAKERS, n, p=frequency / frequency.sum()),
    }
    scores = scores_of(numbers, codes, n_classes, rng)
    scale, intercepts = scaled(scores, KNOWABLE)
    shares = softmax(scale * scores + intercepts)
    y = (shares.cumsum(axis=1) > rng.random(n)[:, None]).argmax(axis=1)
    return frame_of(numbers, codes, rng), y


def scores_of(
    numbers: dict[str, np.ndarray], codes: dict[str, np.ndarray], n_classes: int, rng: np.random.Generator
) -> np.ndarray:
    """Return each class's score in each row: four terms of deviation 1."""
    straight = {name: np.log(x) if name == "amount" else x for name, x in numbers.items()}
    z = {name: (x - x.mean()) / x.std() for name, x in straight.items()}
    names = list(z)

    def weighed(columns: list[np.ndarray]) -> np.ndarray:
        effects = rng.normal(size=(len(columns), n_classes))
        made = np.stack([(c - c.mean()) / c.std() for c in columns], axis=1) @ effects
        return (made - made.mean(axis=0)) / made.std()

    steps = [z[name] > np.quantile(z[name], rng.uniform(0.2, 0.8)) for name in rng.choice(names, 3, replace=False)]
    first, second, third, fourth = rng.choice(names, 4, replace=False)
    interactions = [
        z[first] * np.isin(codes["region"], rng.choice(REGIONS, 3, replace=False)),
        z[second] * np.isin(codes["kind"], [0, 2]),
        np.sign(z[third] * z[fourth]),
    ]
    categories = [rng.normal(size=code.max() + 1)[code] for code in codes.values() for _ in range(3)]
    return (
        weighed(list(z.values())) + weighed([each.astype(float) for each in steps])
        + weighed(interactions) + weighed(categories)
    )  # fmt: skip


def scaled(scores: np.ndarray, knowable: float) -> tuple[float, np.ndarray]:
    """Return the scale, and intercepts that make classes as frequent as each other, for so much knowable."""
    low, high = 0.0, 50.0
    intercepts = np.zeros(scores.shape[1])
    for _ in range(40):
        scale = (low + high) / 2
        for _ in range(20):
            intercepts -= np.log(softmax(scale * scores + intercepts).mean(axis=0) * scores.shape[1])
        if softmax(scale * scores + intercepts).max(axis=1).mean() < knowable:
            low = scale
        else:
            high = scale
    return scale, intercepts


def softmax(scores: np.ndarray) -> np.ndarray:
    shares = np.exp(scores - scores.max(axis=1, keepdims=True))
    return shares / shares.sum(axis=1, keepdims=True)


def frame_of(
    numbers: dict[str, np.ndarray], codes: dict[str, np.ndarray], rng: np.random.Generator
) -> pd.DataFrame:  # fmt: skip
    """Return the table as people have it: words for categories, columns that say nothing, and holes."""
    n = len(codes["kind"])
    columns: dict[str, np.ndarray] = dict(numbers)
    columns["nothing0"], columns["nothing1"] = rng.exponential(size=n), np.round(rng.normal(size=n), 1)
    for name, code in codes.items():
        columns[name] = np.array([f"{name} {each}" for each in code], dtype=object)
    columns["nothing2"] = np.array([f"shift {each}" for each in rng.integers(0, 3, n)], dtype=object)
    frame = pd.DataFrame(columns)
    holes = pd.DataFrame(rng.random(frame.shape) < 0.04, columns=frame.columns)
    holes["score"] |= codes["kind"] == 3
    holes["amount"] |= rng.random(n) < 0.3 * (numbers["amount"] > np.quantile(numbers["amount"], 0.8))
    return frame.mask(holes)


def independent_table(y: np.ndarray, rng: np.random.Generator) -> pd.DataFrame:
    """Return a table whose columns are independent given the class: what a linear model on log odds is made for.

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
