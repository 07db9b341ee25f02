"""The presets of GET's estimators, and what each of their parameters may be."""

from __future__ import annotations

import os
from typing import Any

from hardwood.errors import reject
from hardwood.estimators._parameters import _Choice, _Flag, _Number, _Whole, check_callbacks, is_whole
from hardwood.ops import MAX_DEPTH
from hardwood.ops._oblique import RELAXATIONS

_FAST: dict[str, Any] = {
    "relaxation": "sigmoid", "scale_factors": ((5.0, 25.0), (50.0, 150.0)), "n_starts": 4, "n_greedy": 2, "keep": 0.5,
    "epochs": 30, "min_steps": 1000, "batch_size": 256, "learning_rate": 0.01, "skip": 1e-2, "polish": True,
    "polish_epochs": 10, "polish_min_steps": 200,
}  # fmt: skip
_PAPER: dict[str, Any] = {
    "relaxation": "sigmoid", "scale_factors": ((5.0, 25.0), (50.0, 150.0)), "n_starts": 10, "n_greedy": 0, "keep": 1.0,
    "epochs": 3000, "min_steps": 1, "batch_size": 2**31 - 1, "learning_rate": 0.01, "restarts": 3, "skip": 0.0,
    "polish": True, "polish_epochs": 3000, "polish_min_steps": 1,
}  # fmt: skip
PRESETS: dict[str, dict[str, Any]] = {
    "fast": {
        "constant": _FAST,
        "linear": {**_FAST, "n_greedy": 0, "polish": False},
        "scaling": {"constant": "balance", "linear": "standard"},
        "depths": {"constant": (1, 2, 4, 6, 8, 10, 12), "linear": (1, 2, 3, 4, 5, 6, 8, 10, 12)},
        "depth_patience": {"constant": 1, "linear": 2},
        "early_stop": True,
    },
    "paper": {
        "constant": _PAPER,
        "linear": {**_PAPER, "polish": False},
        "scaling": {"constant": "range", "linear": "range"},
        "depths": {"constant": tuple(range(1, 13)), "linear": tuple(range(1, 13))},
        "depth_patience": {"constant": 12, "linear": 12},
        "early_stop": False,
    },
}

_RULES: dict[str, _Whole | _Number | _Choice | _Flag] = {
    "preset": _Choice(tuple(PRESETS)),
    "leaf": _Choice(("constant", "linear")),
    "min_weight": _Number(0, 1, open_above=True, example=0.1),
    "validation_fraction": _Number(0, 1, open_below=True, open_above=True, example=0.25),
    "max_seconds": _Number(0, open_below=True, or_none=True, example=60),
    "one_hot_max_size": _Whole(0),
    "prune": _Flag(),
    "verbose": _Whole(0),
}
# What None leaves to the preset.
_OF_PRESET: dict[str, _Whole | _Number | _Choice | _Flag] = {
    "relaxation": _Choice(RELAXATIONS),
    "n_starts": _Whole(1),
    "n_greedy": _Whole(0),
    "keep": _Number(0, 1, open_below=True, example=0.5),
    "epochs": _Whole(1),
    "min_steps": _Whole(1),
    "batch_size": _Whole(1),
    "learning_rate": _Number(0, open_below=True, example=0.01),
    "skip": _Number(0, 0.5, open_above=True, example=0.001),
    "polish_epochs": _Whole(1),
    "polish_min_steps": _Whole(1),
    "validation_splits": _Whole(1),
    "scaling": _Choice(("standard", "range", "balance")),
}
_OR_AUTO: dict[str, _Whole | _Number] = {
    "max_depth": _Whole(1, MAX_DEPTH),
    "l1": _Number(0, example=1e-5),
    "leaf_shrinkage": _Number(0, example=5.0),
}


def check_parameters(given: dict[str, Any]) -> None:
    """Refuse parameters that have no meaning, as far as that can be told without a table."""
    for name, rule in _RULES.items():
        if name in given:
            rule.check(name, given[name])
    for name, rule in _OF_PRESET.items():
        if given[name] is not None:
            rule.check(name, given[name])
    for name, bound in _OR_AUTO.items():
        if isinstance(given[name], str):
            if given[name] != "auto":
                reject(name, given[name], "is not known", f"pass {name}='auto' or a number")
        else:
            bound.check(name, given[name])
    if given["teacher"] is not None:
        _Choice(("ensemble",)).check("teacher", given["teacher"])
    polish = given["polish"]
    if not (polish is None or isinstance(polish, bool) or (isinstance(polish, str) and polish == "auto")):
        reject("polish", polish, "is not known", "pass True, False, 'auto', or None for the preset's")
    _check_factors(given["scale_factors"])
    if given["n_greedy"] is not None and given["n_starts"] is not None and given["n_greedy"] > given["n_starts"]:
        reject(
            "n_greedy", given["n_greedy"], f"is more than n_starts={given['n_starts']}", "pass no more than n_starts"
        )
    if given["resume_from"] is not None and not os.path.isfile(given["resume_from"]):
        reject("resume_from", given["resume_from"], "is no file", "pass one that checkpoint= wrote, or None")
    check_callbacks(given["callbacks"])


def _check_factors(given: Any) -> None:
    if given is None:
        return
    remedy = "pass pairs of numbers above 0, from small to large, such as ((5, 25), (50, 150))"
    try:
        pairs = [(float(low), float(high)) for low, high in given]
    except (TypeError, ValueError):
        reject("scale_factors", given, "is no list of ranges", remedy)
    if not pairs or not all(0 < low <= high < float("inf") for low, high in pairs):
        reject("scale_factors", given, "has a range that is none", remedy)


def depths_of(max_depth: int | str, preset: str, leaf: str, n_rows: int) -> tuple[int, ...]:
    """Return the depths that are tried: the one that is given, or those whose leaves could all have a row."""
    if is_whole(max_depth):
        return (int(max_depth),)
    depths: tuple[int, ...] = PRESETS[preset]["depths"][leaf]
    return tuple(depth for depth in depths if 2**depth <= n_rows) or depths[:1]
