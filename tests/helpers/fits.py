"""Estimators that fit in a moment, and small tables with something to learn in them."""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import torch

from hardwood import GradTreeClassifier, GradTreeRegressor, GrandeClassifier, GrandeRegressor
from hardwood.train import Callback, TrainingState

CLASSIFIERS = [GradTreeClassifier, GrandeClassifier]
REGRESSORS = [GradTreeRegressor, GrandeRegressor]
ALL = [*CLASSIFIERS, *REGRESSORS]
GRADTREES = [GradTreeClassifier, GradTreeRegressor]
GRANDES = [GrandeClassifier, GrandeRegressor]


def tiny(kind: Any, **given: Any) -> Any:
    """Make an estimator of few, small trees and few epochs."""
    size = {"n_restarts": 2} if kind in GRADTREES else {"n_estimators": 6}
    return kind(**{"max_depth": 3, "max_iter": 3, "random_state": 0, **size, **given})


def numbers(rows: int = 90, *, seed: int = 0) -> np.ndarray:
    """Draw rows of four columns of numbers."""
    return np.random.default_rng(seed).normal(size=(rows, 4))


def target_for(kind: Any, X: np.ndarray) -> np.ndarray:
    """Return what there is to learn: two classes that are no tree's, or numbers from 0 up."""
    signal = X[:, 0] + np.abs(X[:, 1])
    return (signal > 0.7).astype(int) if kind in CLASSIFIERS else np.exp(0.5 * signal)


def table(kind: Any, rows: int = 90, *, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return rows and their target."""
    X = numbers(rows, seed=seed)
    return X, target_for(kind, X)


def mixed(rows: int = 120, *, seed: int = 0) -> dict[str, list[Any]]:
    """Draw a table of every type of column, with missing cells: few and many categories among them."""
    rng = np.random.default_rng(seed)

    def holed(cells: list[Any]) -> list[Any]:
        return [None if hole else cell for cell, hole in zip(cells, rng.random(rows) < 0.1, strict=True)]

    day = [dt.datetime(2024, 1, 1) + dt.timedelta(hours=int(hours)) for hours in rng.integers(0, 9000, rows)]
    return {
        "size": holed(rng.normal(size=rows).tolist()),
        "count": rng.integers(0, 6, rows).tolist(),
        "flag": (rng.random(rows) < 0.5).tolist(),
        "colour": holed([("red", "green", "blue")[code] for code in rng.integers(0, 3, rows)]),
        "city": holed([f"city {code:02d}" for code in rng.integers(0, 14, rows)]),
        "day": holed(day),
    }


def mixed_target(kind: Any, columns: dict[str, list[Any]]) -> np.ndarray:
    """Return a target that depends on columns of every type."""
    signal = np.array([
        (0 if size is None else size) + 0.4 * count + flag + (colour == "red") + (city or "")[-1:].count("3")
        for size, count, flag, colour, city in zip(
            *(columns[name] for name in ("size", "count", "flag", "colour", "city")), strict=True
        )
    ])  # fmt: skip
    return np.where(signal > 1.8, "yes", "no") if kind in CLASSIFIERS else signal


def layer_of(model: Any) -> dict[str, torch.Tensor]:
    """Return a copy of the parameters of the layer that an estimator trains."""
    return {name: tensor.clone() for name, tensor in model._session.model.state_dict().items()}


def answers(model: Any, X: Any) -> np.ndarray:
    """Return all that a model says about some rows: probabilities, or numbers."""
    return np.asarray(model.predict_proba(X) if hasattr(model, "predict_proba") else model.predict(X))


class Interrupt(Callback):
    """Presses Ctrl-C after some evaluations."""

    def __init__(self, after: int = 1) -> None:
        self.after = after

    def on_epoch_end(self, state: TrainingState) -> bool | None:
        if len(state.history) == self.after:
            raise KeyboardInterrupt
        return None

    def on_fit_end(self, state: TrainingState) -> None:
        pass
