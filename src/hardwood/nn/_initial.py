"""How the papers draw the first parameters of a hard tree."""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor

from hardwood._typing import Float, Int

Init = Literal["glorot", "normal"]
INITS = ("glorot", "normal")


def draw(
    shape: tuple[int, ...], init: Init, generator: torch.Generator | None, dtype: torch.dtype, device: torch.device
) -> Float[Tensor, "..."]:
    """Draw parameters: "glorot" uniform within each tree (GradTree's experiments) or "normal" with deviation 0.05."""
    # A generator belongs to one device; numbers drawn on the CPU are the same whatever device the layer lives on.
    where = torch.device("cpu") if generator is None else generator.device
    if init == "glorot":
        limit = math.sqrt(6 / sum(shape[1:])) if len(shape) > 2 else math.sqrt(6 / (shape[1] + 1))
        drawn = (torch.rand(shape, generator=generator, dtype=torch.float64, device=where) * 2 - 1) * limit
    else:
        drawn = torch.randn(shape, generator=generator, dtype=torch.float64, device=where) * 0.05
    return drawn.to(device, dtype)


def draw_subsets(
    n_trees: int, n_features: int, n_chosen: int, generator: torch.Generator | None, device: torch.device
) -> Int[Tensor, "trees features"]:
    """Draw for each tree the columns it may split on, without repetition, ascending."""
    where = torch.device("cpu") if generator is None else generator.device
    order = torch.rand(n_trees, n_features, generator=generator, device=where).argsort(1)
    return order[:, :n_chosen].sort(1).values.to(device)
