"""Learn with a cost of your own: a prediction that is too low costs five times as much as one that is too high.

Run it with `python examples/asymmetric_cost.py`. It takes about ten seconds.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import torch
from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split
from torch import Tensor

from hardwood import GrandeRegressor

TOO_LOW, TOO_HIGH = 5.0, 1.0


def cost(prediction: Tensor, target: Tensor, weight: Tensor) -> Tensor:
    """Return the cost of each row, in any way that torch can differentiate.

    All three have one entry a row; predictions and targets are in the units of `y`. The mean over rows is taken
    outside, with the rows' weights; a cost that returns one number for all rows has to honour them itself.
    """
    return torch.where(target > prediction, TOO_LOW * (target - prediction), TOO_HIGH * (prediction - target))


def mean_cost(truth: np.ndarray, predicted: np.ndarray) -> float:
    """Return the mean cost of predictions."""
    return float(np.maximum(TOO_LOW * (truth - predicted), TOO_HIGH * (predicted - truth)).mean())


def compare(seed: int, n_estimators: int, max_iter: int) -> tuple[float, float, float]:
    """Return the held-out cost of the plain model, of it with the best constant added, and of one trained with it."""
    X, y = load_diabetes(return_X_y=True)
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.25, random_state=seed)
    options = {"n_estimators": n_estimators, "max_iter": max_iter, "random_state": seed}
    plain = GrandeRegressor(**options).fit(X, y)
    own = GrandeRegressor(**options, loss=cost).fit(X, y)

    said = plain.predict(X_test)
    # What one would do without the cost in training: predict higher by as much as was best on the training rows.
    steps = np.linspace(-100, 100, 401)
    added = steps[int(np.argmin([mean_cost(y, plain.predict(X) + step) for step in steps]))]
    return mean_cost(y_test, said), mean_cost(y_test, said + added), mean_cost(y_test, own.predict(X_test))


def main() -> None:
    """Compare over a few splits of the rows."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--trees", type=int, default=64)
    parser.add_argument("--max-iter", type=int, default=250)
    chosen = parser.parse_args()
    began = time.perf_counter()
    names = ("squared error", "and a constant", "own cost")
    print("Mean cost on held-out rows; the lower, the better.")
    print(f"  {'split':5}" + "".join(f"{name:>18}" for name in names))
    costs = np.array([compare(seed, chosen.trees, chosen.max_iter) for seed in range(chosen.seeds)])
    for seed, row in enumerate(costs):
        print(f"  {seed:5}" + "".join(f"{each:18.1f}" for each in row))
    print(f"  {'mean':5}" + "".join(f"{each:18.1f}" for each in costs.mean(axis=0)))
    change = costs[:, 2].mean() / costs[:, :2].mean(axis=0) - 1
    print(
        f"\nTraining with the cost itself: {change[0]:+.0%} against the plain model, {change[1]:+.0%} against the same"
    )
    print(
        f"model with the constant added that was best on the training rows. {time.perf_counter() - began:.0f} seconds."
    )


if __name__ == "__main__":
    main()
