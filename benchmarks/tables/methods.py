"""The registry of methods: a name, the tasks it can do, and a function that makes a model."""

from __future__ import annotations

import importlib.metadata
import importlib.util
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple, NoReturn, Protocol

import numpy as np
from benchmarks.tables.sets import TASKS, Task

from hardwood.errors import MissingExtraError, reject


class Size(NamedTuple):
    """How large a model is: leaves of all trees together, and the depth of the deepest."""

    leaves: int
    depth: int


class Setting(NamedTuple):
    """What a method is told beside the table."""

    task: Task
    seed: int
    depth: int  # for the methods with `uses_depth`
    threads: int


class Model(Protocol):
    """What a cell needs of a model. `X` is the frame as read; classes are numbered 0, 1, ..., all of them in `fit`."""

    def fit(self, X: Any, y: np.ndarray) -> object: ...

    def predict(self, X: Any) -> np.ndarray: ...

    def predict_proba(self, X: Any) -> np.ndarray: ...

    def size(self) -> Size | None: ...


@dataclass(frozen=True)
class Method:
    """One method of the benchmark."""

    name: str
    make: Callable[[Setting], Model]
    packages: tuple[str, ...]  # modules that it needs; their versions are recorded
    tasks: tuple[Task, ...] = TASKS
    uses_depth: bool = False
    paper_name: str = ""  # what the papers' tables call it

    def require(self) -> None:
        """Refuse the method where a package that it needs is not installed."""
        missing = [package for package in self.packages if importlib.util.find_spec(package) is None]
        if missing:
            self._refuse(missing)

    def _refuse(self, missing: list[str]) -> NoReturn:
        remedy = "pip install 'hardwood[bench]'"
        raise MissingExtraError(f"methods={self.name!r}: needs {', '.join(missing)}; {remedy}")

    def versions(self) -> str:
        """Return the versions of the packages that the method needs, as text."""
        return "; ".join(f"{package} {_version(package)}" for package in self.packages)


# The name of a package on the index where it is not that of the module.
_DISTRIBUTIONS = {"sklearn": ("scikit-learn",), "xgboost": ("xgboost", "xgboost-cpu")}


def _version(package: str) -> str:
    for name in _DISTRIBUTIONS.get(package, (package,)):
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return "unknown"


def _registry() -> dict[str, Method]:
    from benchmarks.tables import ours, peers

    methods = (*peers.METHODS, *ours.METHODS)
    assert len({method.name for method in methods}) == len(methods), "two methods have the same name"
    return {method.name: method for method in methods}


def all_methods() -> dict[str, Method]:
    """Return every method by name."""
    return _registry()


def find_methods(names: Iterable[str]) -> list[Method]:
    """Return methods by name, each once, after checking that their packages are there."""
    registry = _registry()
    chosen = []
    for name in dict.fromkeys(names):
        if name not in registry:
            reject("methods", name, "is not known", f"choose from {', '.join(registry)}")
        registry[name].require()
        chosen.append(registry[name])
    if not chosen:
        reject("methods", [], "names no method", f"choose from {', '.join(registry)}")
    return chosen
