"""Split functions: how far from a threshold a row still pulls on it (thesis, section 4.1.4).

In the forward pass only the side of the threshold counts; these give the straight-through gradient.
Each maps `z = x - threshold` to the share that goes right.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from hardwood._typing import Float


def softsign(z: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """Return the softsign scaled to (0, 1): steep at the threshold, and never quite flat far from it (Equation 4.8)."""
    return (z / (1 + z.abs()) + 1) / 2


def entmoid(z: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """Return the two-class entmax-1.5 of (z, 0): exactly 0 or 1 beyond a distance of 2."""
    size = torch.where(z >= 0, z, -z).clamp(max=2)  # unlike abs, it has a slope at 0
    tau = (size + (8 - size * size).sqrt()) / 2
    smaller = (tau - size) ** 2 / 4
    return torch.where(z >= 0, 1 - smaller, smaller)


SPLIT_FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "sigmoid": torch.sigmoid,
    "softsign": softsign,
    "entmoid": entmoid,
}
