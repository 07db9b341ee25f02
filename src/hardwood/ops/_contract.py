"""What every backend of hard routing takes and returns.

Symbols in shapes: rows R, trees T, depth d, nodes N = 2^d - 1 in breadth-first order, leaves L = 2^d, columns F of `x`,
features S that a tree may choose from (S = F unless it has a subset), outputs C.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from torch import Tensor

from hardwood._typing import Float, Int

Combine = Literal["softmax", "mean", "sum", "none"]
Selection = Literal["entmax", "softmax"]
Split = Literal["sigmoid", "softsign", "entmoid"]

COMBINES: tuple[Combine, ...] = ("softmax", "mean", "sum", "none")
SELECTIONS: tuple[Selection, ...] = ("entmax", "softmax")
SPLITS: tuple[Split, ...] = ("sigmoid", "softsign", "entmoid")

# Beyond this depth the dense representation (2^depth leaves a tree) stops being a sensible thing to train.
MAX_DEPTH = 16


class Forward(NamedTuple):
    """What a forward pass leaves behind for the caller and for the backward pass."""

    output: Float[Tensor, "..."]  # (R, C); (R, T, C) when trees are not combined
    leaf_index: Int[Tensor, "rows trees"]  # int32, 0..L-1 from left to right
    attention: Float[Tensor, "..."]  # (R, T): softmax over trees, or the raw leaf weights for "none"; else empty
    selected: Int[Tensor, "trees nodes"]  # int32, the chosen one of a tree's S features at each node
