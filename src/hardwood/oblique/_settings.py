"""`GetSettings`: how an oblique tree is searched for, with the paper's values and our faster ones by name."""

from __future__ import annotations

import math
from dataclasses import dataclass

from hardwood.errors import reject
from hardwood.ops import MAX_DEPTH
from hardwood.ops._oblique import RELAXATIONS, Relaxation

Range = tuple[float, float]


@dataclass(frozen=True)
class GetSettings:
    """How Algorithm 1 and Algorithm 2 of the paper are run. One object serves many searches.

    Args:
        relaxation: "sigmoid" (GET) or "softmin" (the ReLU+Argmin relaxation); see `ops.relaxed_oblique_loss`.
        scale_factors: ranges, in the order of use. Each start draws a factor from each.
        n_starts: how many trees begin at once.
        n_greedy: how many of these begin at a greedy tree, the others at random.
        keep: share of the starts that go on to the next factor: those with the lowest hard loss.
        epochs: passes over the rows for each factor.
        min_steps: a problem of few rows passes over them more often, until it has taken so many steps for each factor.
        batch_size: rows of a step.
        learning_rate: Adam's, which falls to 0 along a cosine.
        restarts: how often it does so for each factor (cosine warm restarts).
        skip: paths of a smaller weight are left out of a step.
        l1: penalty on split weights (equation 5), for a mean loss.
        polish: train every subtree again on its own rows (Algorithm 2).
        polish_levels: how many levels of subtrees are, from the whole tree downwards.
        polish_epochs, polish_min_steps: as `epochs` and `min_steps`, for subtrees.
        leaf_shrinkage: strength with which linear leaves are drawn to the nodes above them while trees are compared.
        random_state: seed of starts, factors and shuffles.
        device: "cpu", or that of a GPU, on which no path is skipped: where steps are taken.
    """

    relaxation: Relaxation = "sigmoid"
    scale_factors: tuple[Range, ...] = ((5.0, 25.0), (50.0, 150.0))
    n_starts: int = 10
    n_greedy: int = 0
    keep: float = 1.0
    epochs: int = 3000
    min_steps: int = 1
    batch_size: int = 2**31 - 1
    learning_rate: float = 0.01
    restarts: int = 1
    skip: float = 0.0
    l1: float = 0.0
    polish: bool = True
    polish_levels: int = MAX_DEPTH
    polish_epochs: int = 3000
    polish_min_steps: int = 1
    leaf_shrinkage: float = 0.0
    random_state: int = 0
    device: str = "cpu"

    def __post_init__(self) -> None:
        if self.relaxation not in RELAXATIONS:
            reject("relaxation", self.relaxation, "is not known", "choose 'sigmoid' or 'softmin'")
        if len(self.scale_factors) == 0:
            reject("scale_factors", self.scale_factors, "is empty", "pass ((5, 25), (50, 150))")
        for low, high in self.scale_factors:
            if not 0 < low <= high < math.inf:
                reject("scale_factors", (low, high), "is no range of numbers above 0", "pass ((5, 25), (50, 150))")
        for name in (
            "n_starts", "epochs", "min_steps", "batch_size", "restarts", "polish_epochs", "polish_min_steps"
        ):  # fmt: skip
            if getattr(self, name) < 1:
                reject(name, getattr(self, name), "must be at least 1", f"pass {name}=1 or more")
        if not 0 <= self.n_greedy <= self.n_starts:
            reject("n_greedy", self.n_greedy, f"must be from 0 to n_starts={self.n_starts}", "pass n_greedy=0")
        if self.polish_levels < 0:
            reject("polish_levels", self.polish_levels, "must be at least 0", "pass polish_levels=16 for all of them")
        if not 0 < self.keep <= 1:
            reject("keep", self.keep, "must be above 0 and at most 1", "pass keep=1 to keep all starts")
        if not 0 <= self.skip < 0.5:
            reject("skip", self.skip, "must be at least 0 and below 0.5", "pass skip=0.001")
        for name in ("learning_rate", "l1", "leaf_shrinkage"):
            if not 0 <= getattr(self, name) < math.inf:
                reject(name, getattr(self, name), "must be a finite number from 0 up", f"pass {name}=0.01")
