"""The table branches that trees are compared with: an MLP, and the tabular ResNet of Gorishniy et al. (2021)."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Filled(nn.Module):
    """Puts 0, the middle of an encoded column, in the place of a missing cell, and says beside it that it was missing.

    Trees take missing cells as they are; these networks cannot.
    """

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x.nan_to_num(0.0), x.isnan().to(x.dtype)], 1)


def mlp(n_features: int, n_outputs: int, width: int = 128, dropout: float = 0.1) -> nn.Module:
    return nn.Sequential(
        Filled(), nn.Linear(2 * n_features, width), nn.ReLU(), nn.Dropout(dropout),
        nn.Linear(width, width), nn.ReLU(), nn.Dropout(dropout), nn.Linear(width, n_outputs),
    )  # fmt: skip


class Block(nn.Module):
    def __init__(self, width: int, dropout: float) -> None:
        super().__init__()
        self.add = nn.Sequential(
            nn.BatchNorm1d(width), nn.Linear(width, 2 * width), nn.ReLU(), nn.Dropout(dropout),
            nn.Linear(2 * width, width),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        return x + self.add(x)


def resnet(n_features: int, n_outputs: int, width: int = 96, n_blocks: int = 2, dropout: float = 0.1) -> nn.Module:
    blocks = [Block(width, dropout) for _ in range(n_blocks)]
    end = (nn.BatchNorm1d(width), nn.ReLU(), nn.Linear(width, n_outputs))
    return nn.Sequential(Filled(), nn.Linear(2 * n_features, width), *blocks, *end)
