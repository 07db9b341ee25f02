"""`Session`: what training needs to go on where it stopped, in another `fit` or in `partial_fit`."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch

from hardwood._typing import Float
from hardwood.data import TableEncoder
from hardwood.errors import reject
from hardwood.estimators._rows import Rows
from hardwood.estimators._target import Target
from hardwood.nn import HardTrees
from hardwood.train import TrainingResult

# What the encoder and the layer are made of: it cannot change while training goes on.
_STRUCTURE = (
    "max_depth", "n_restarts", "n_estimators", "max_features", "selection", "split", "numeric",
    "categorical_features", "one_hot_max_size", "monotonic_cst",
)  # fmt: skip


@dataclass(frozen=True)
class Session:
    """The encoder, the layer, what the target means, and what all of it was made with."""

    encoder: TableEncoder
    model: HardTrees
    target: Target
    base: torch.Tensor | None
    made_with: dict[str, Any]
    counted: Float[np.ndarray, " classes"] | None = None  # the weight of each class so far

    def check(self, parameters: dict[str, Any], loss_too: bool = False) -> None:
        """Refuse parameters of the trees or the columns, or the loss, that are not those of the beginning."""
        for name, before in self.made_with.items():
            if (loss_too or name != "loss") and not _same(before, parameters[name]):
                remedy = f"set {name}={before!r} again, or start anew: fit without warm_start, or a clone"
                reject(name, parameters[name], f"was {before!r} when the trees were made", remedy)

    def again(self, target: Target, temperature: float) -> tuple[HardTrees, torch.Tensor | None]:
        """Return a copy of the layer, and the base, that say in a new target's units what they said before."""
        mine = self.target
        remedy = "pass warm_start=False to start anew"
        if not np.array_equal(
            np.array([] if mine.classes is None else mine.classes),
            np.array([] if target.classes is None else target.classes),
        ):
            reject("y", target.classes, f"are not the classes of the fit before, {mine.classes}", remedy)
        if (mine.n_outputs, mine.link) != (target.n_outputs, target.link):
            problem = f"needs {target.n_outputs} output(s) and the link {target.link!r}, and the fit before had "
            reject("y", "an array", f"{problem}{mine.n_outputs} and {mine.link!r}", remedy)
        model = copy.deepcopy(self.model)
        model.temperature = temperature
        ratio = np.broadcast_to(np.asarray(mine.scale / target.scale, np.float64), mine.n_outputs)
        step = np.broadcast_to(np.asarray((mine.shift - target.shift) / target.scale, np.float64), mine.n_outputs)
        base = None if self.base is None else self.base * torch.from_numpy(ratio.copy()).to(self.base.dtype)
        if (ratio != 1).any() or (step != 0).any():
            with torch.no_grad():
                values = model.leaf_values.double() * torch.from_numpy(ratio.copy()) + torch.from_numpy(step.copy())
                model.leaf_values.copy_(values)
        return model, base


@dataclass(frozen=True)
class Trained:
    """How a training went, what came of it, where it began, and on which rows."""

    result: TrainingResult
    session: Session
    start: HardTrees | None
    begun: bool  # not gone on with
    training: Rows
    validation: Rows | None


class Chosen(NamedTuple):
    """The layer that is the result; if its trees are restarts, which of them, and their validation losses."""

    session: Session
    best_tree: int | None
    tree_losses: tuple[float, ...] | None


def structure_of(parameters: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters that the encoder and the layer are made of, and the loss."""
    fixed = {name: copy.deepcopy(parameters[name]) for name in _STRUCTURE if name in parameters}
    return {**fixed, "loss": parameters["loss"]}


def _same(before: Any, now: Any) -> bool:
    return type(before) is type(now) and bool(np.array_equal(np.asarray(before, object), np.asarray(now, object)))
