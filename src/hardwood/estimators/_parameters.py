"""What each parameter of an estimator may be: checked under the user's own names, before anything is read or lost."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np

from hardwood.errors import reject
from hardwood.ops._contract import MAX_DEPTH, SPLITS
from hardwood.train import Callback
from hardwood.train._settings import AVERAGINGS, OPTIMIZERS, SCHEDULES


@dataclass(frozen=True)
class _Whole:
    """An integer."""

    least: int
    most: float = math.inf

    def check(self, name: str, value: Any) -> None:
        if is_whole(value) and self.least <= value <= self.most:
            return
        allowed = f"of at least {self.least}" if math.isinf(self.most) else f"from {self.least} to {self.most:g}"
        reject(name, value, f"must be an integer {allowed}", f"pass {name}={self.least} or more")


@dataclass(frozen=True)
class _Number:
    """A finite number."""

    least: float
    most: float = math.inf
    open_below: bool = False
    open_above: bool = False
    or_none: bool = False
    example: Any = None

    def check(self, name: str, value: Any) -> None:
        if value is None and self.or_none:
            return
        number = _as_float(value)
        if math.isfinite(number):
            above = number > self.least if self.open_below else number >= self.least
            below = number < self.most if self.open_above else number <= self.most
            if above and below:
                return
        bounds = f"{'above' if self.open_below else 'at least'} {self.least:g}"
        if not math.isinf(self.most):
            bounds += f" and {'below' if self.open_above else 'at most'} {self.most:g}"
        none = " or None" if self.or_none else ""
        reject(name, value, f"must be a finite number {bounds}{none}", f"try {name}={self.example}")


def _as_float(value: Any) -> float:
    """Return a number of Python's or NumPy's as a float, and NaN for anything else."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, Real):
        return math.nan
    return float(value)


@dataclass(frozen=True)
class _Choice:
    """One of some names."""

    names: tuple[str, ...]

    def check(self, name: str, value: Any) -> None:
        if not (isinstance(value, str) and value in self.names):
            reject(name, value, "is not known", "choose one of " + ", ".join(map(repr, self.names)))


class _Flag:
    """True or False."""

    def check(self, name: str, value: Any) -> None:
        if not isinstance(value, (bool, np.bool_)):
            reject(name, value, "must be True or False", f"pass {name}=True or {name}=False")


_RATE = _Number(0, or_none=True, example=0.01)
_RULES: dict[str, _Whole | _Number | _Choice | _Flag] = {
    "max_depth": _Whole(1, MAX_DEPTH),
    "n_restarts": _Whole(1),
    "n_estimators": _Whole(1),
    "max_iter": _Whole(1),
    "n_iter_no_change": _Whole(1),
    "one_hot_max_size": _Whole(0),
    "verbose": _Whole(0),
    "split_logits_rate": _RATE,
    "thresholds_rate": _RATE,
    "leaf_values_rate": _RATE,
    "leaf_weights_rate": _RATE,
    "weight_decay": _Number(0, example=0.0),
    "warmup": _Number(0, example=0.0),
    "tol": _Number(0, example=1e-4),
    "leaf_shrinkage": _Number(0, example=25.0),
    "dropout": _Number(0, 1, open_above=True, example=0.2),
    "max_samples": _Number(0, 1, open_below=True, example=1.0),
    "max_features": _Number(0, open_below=True, or_none=True, example=0.8),
    "validation_fraction": _Number(0, 1, open_below=True, open_above=True, example=0.2),
    "max_seconds": _Number(0, open_below=True, or_none=True, example=60),
    "temperature": _Number(0, open_below=True, example=1.0),
    "optimizer": _Choice(OPTIMIZERS),
    "schedule": _Choice(SCHEDULES),
    "averaging": _Choice(AVERAGINGS),
    "selection": _Choice(("entmax", "softmax", "gumbel", "annealed")),
    "split": _Choice(tuple(SPLITS)),
    "numeric": _Choice(("quantile", "standard", "identity")),
    "penalty": _Number(0, open_below=True, example=1.0),
    "learning_rate": _Number(0, open_below=True, example=0.01),
    "split_rate": _Number(0, open_below=True, example=1.0),
    "plateau_patience": _Whole(1),
    "plateau_factor": _Number(0, 1, open_below=True, open_above=True, example=0.1),
    "n_hidden": _Whole(1),
    "hidden_size": _Whole(1),
    "predictor": _Choice(("linear", "mlp")),
    "split_function": _Choice(("linear", "elu")),
    "routing": _Choice(("relaxed", "hard")),
    "sees_rows": _Flag(),
    "fine_tune": _Choice(("tree", "predictor", "none")),
    "early_stopping": _Flag(),
    "bootstrap": _Flag(),
    "prune": _Flag(),
    "warm_start": _Flag(),
}


def is_whole(value: Any) -> bool:
    """Tell whether a value is an integer, Python's or NumPy's, and not a boolean."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def check_parameters(given: dict[str, Any]) -> None:
    """Refuse parameters of an estimator that have no meaning, as far as that can be told without a table."""
    for name, rule in _RULES.items():
        if name in given:
            rule.check(name, given[name])
    batch_size = given["batch_size"]
    if not (isinstance(batch_size, str) and batch_size == "auto") and not (is_whole(batch_size) and batch_size >= 1):
        reject("batch_size", batch_size, "must be 'auto' or an integer of at least 1", "pass batch_size='auto'")
    share = given.get("max_features")
    if share is not None and not is_whole(share) and share > 1:
        reject("max_features", share, "is a share above 1", "pass an integer for a number of columns")
    if given["schedule"] == "plateau" and not given["early_stopping"]:
        remedy = "pass early_stopping=True, or schedule='cosine'"
        reject("schedule", "plateau", "needs held-out rows, and early_stopping is False", remedy)
    if given["resume_from"] is not None and not os.path.isfile(given["resume_from"]):
        reject("resume_from", given["resume_from"], "is no file", "pass one that checkpoint= wrote, or None")
    if not isinstance(given["loss"], str) and not callable(given["loss"]):
        reject("loss", given["loss"], "is neither a name nor a function", "leave it out for the default")
    check_callbacks(given["callbacks"])


def check_callbacks(given: Any) -> None:
    """Refuse what is no list of callbacks."""
    remedy = "pass a list of objects that derive from hardwood.train.Callback"
    if given is None:
        return
    if not isinstance(given, (list, tuple)):
        reject("callbacks", given, "is no list of callbacks", remedy)
    for number, callback in enumerate(given):
        if isinstance(callback, type) or not isinstance(callback, Callback):
            reject(f"callbacks[{number}]", callback, "is no callback", remedy)
