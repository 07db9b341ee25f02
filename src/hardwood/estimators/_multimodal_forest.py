"""The trees of a multimodal network as a `Forest` on raw columns and, where they see them, raw embeddings."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hardwood._typing import Float
from hardwood.data import Columns, Identity, Monotone, TableEncoder
from hardwood.data._lower import lower
from hardwood.estimators._target import Target
from hardwood.forest import Forest
from hardwood.nn import HardTrees, MultimodalTrees, RunningNorm


@dataclass(frozen=True)
class RunningScale(Monotone):
    """What `RunningNorm` does to one number, in the same float32 steps, so that thresholds on it move back exactly."""

    mean: float
    scale: float

    def _finite(self, x: Float[np.ndarray, " rows"]) -> Float[np.ndarray, " rows"]:
        # A difference of two float32 numbers, rounded, times a third above 0, rounded: neither step ever falls.
        single = np.clip(x, -np.finfo(np.float32).max, np.finfo(np.float32).max).astype(np.float32)
        made: Any = (single - np.float32(self.mean)) * np.float32(self.scale)
        return made.astype(np.float64)


def lowered(network: MultimodalTrees, encoder: TableEncoder | None, target: Target) -> Forest | None:
    """Return the network's trees in the target's units; None where it has none, or its table is another module.

    Under "trees" that is the whole model, on the table's raw columns and then on the embeddings before normalisation.
    Else it is what the table's trees add to the outputs before the link, the gate aside.
    """
    trees = network.table
    if not isinstance(trees, HardTrees):
        return None
    whole = network.fusion == "trees"
    forest = trees.to_forest()
    base = network.bias.detach().cpu().double().numpy() * target.scale
    forest = replace(
        forest,
        leaf_values=forest.leaf_values * target.scale + (target.shift if whole else 0.0),
        base=np.broadcast_to(base, forest.n_outputs).copy() if whole else None,
        classes=target.classes if whole else None,
        link=target.link if whole else "identity",
        output_names=None if whole else _names_of(target),
    )
    names: list[str] = []
    types: list[Any] = []
    vocabularies: list[Any] = []
    parts: list[Any] = []
    if encoder is not None:
        columns, own = encoder._fitted()
        names, types, vocabularies = list(columns.labels), list(columns.types), list(columns.vocabularies)
        parts = list(own)
    if whole:
        for name in network.branches:
            norm: Any = network.branches[name].norm
            for number in range(network.branches[name].width):
                label = f"{name}[{number}]"
                while label in names:  # a column of the table may be called so
                    label += "'"
                names.append(label)
                types.append("float")
                vocabularies.append(None)
                running = isinstance(norm, RunningNorm)
                parts.append(
                    RunningScale(float(norm.mean[number]), float(norm.scale[number])) if running else Identity()
                )
    return lower(forest, Columns(tuple(names), tuple(types), tuple(vocabularies)), parts)


def _names_of(target: Target) -> tuple[str, ...] | None:
    """Return what outputs before the link are about: the classes they speak for."""
    if target.classes is None:
        return None
    return tuple(str(label) for label in target.classes[-target.n_outputs :])
