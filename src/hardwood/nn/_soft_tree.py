"""`SoftTree`: the soft decision tree that hard trees are compared with."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor, nn

from hardwood._typing import Float, Int
from hardwood.errors import reject


class SoftTree(nn.Module):
    """A complete tree whose nodes send a row both ways: right by `sigmoid((weights @ x + bias) / temperature)`.

    The output is the mean of all leaves, weighted by the products of those shares along their paths. It is not a tree
    that a person can follow; `hard_splits` reads the nearest axis-aligned one off it, which acts differently.

    >>> SoftTree(n_features=4, n_outputs=2, depth=3)(torch.randn(5, 4)).shape
    torch.Size([5, 2])
    """

    def __init__(
        self,
        n_features: int,
        n_outputs: int,
        depth: int = 5,
        *,
        temperature: float = 1.0,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        if not 1 <= depth <= 12:
            reject("depth", depth, "must be 1 to 12", "every row visits every leaf; try 6")
        if not temperature > 0:
            reject("temperature", temperature, "must be above 0", "use 1.0")
        self.depth, self.temperature = depth, temperature
        nodes, leaves = 2**depth - 1, 2**depth
        limit = 1 / math.sqrt(n_features)

        def drawn(*shape: int) -> nn.Parameter:
            return nn.Parameter((torch.rand(shape, generator=generator) * 2 - 1) * limit)

        self.split_weights, self.split_bias = drawn(n_features, nodes), drawn(nodes)
        self.leaf_values = nn.Parameter((torch.rand(leaves, n_outputs, generator=generator) * 2 - 1) * 0.1)

    def forward(self, x: Float[Tensor, "rows features"]) -> Float[Tensor, "rows outputs"]:
        """Return the weighted mean of the leaves."""
        right = torch.sigmoid((x @ self.split_weights + self.split_bias) / self.temperature)
        shares = x.new_ones(len(x), 1)
        for level in range(self.depth):
            here = right[:, 2**level - 1 : 2 ** (level + 1) - 1]
            shares = torch.stack([shares * (1 - here), shares * here], 2).flatten(1)
        return shares @ self.leaf_values

    @torch.no_grad()
    def hard_splits(
        self,
    ) -> tuple[Int[np.ndarray, " nodes"], Float[np.ndarray, " nodes"], np.ndarray]:
        """Discretise each node (Silva et al., 2020): its strongest feature, the threshold at which that alone is even.

        Returns the features, the thresholds, and whether a value of at least the threshold goes left instead of right,
        as it does where the feature's weight is negative.
        """
        weights, bias = self.split_weights.double().numpy(), self.split_bias.double().numpy()
        feature = np.abs(weights).argmax(0)
        strongest = weights[feature, np.arange(len(bias))]
        safe = np.where(np.abs(strongest) > 1e-12, strongest, 1e-12)
        return feature, -bias / safe, safe < 0
