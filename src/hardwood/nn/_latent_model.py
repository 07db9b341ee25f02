"""`LatentModel`: a latent tree with a predictor on top."""

from __future__ import annotations

import copy
from typing import Literal

import torch
from torch import Tensor, nn

from hardwood._typing import Float
from hardwood.errors import reject
from hardwood.nn._latent_tree import LatentTree, SplitName, seeded_linear

PredictorName = Literal["linear", "mlp"]
PREDICTORS: tuple[PredictorName, ...] = ("linear", "mlp")


class SeededDropout(nn.Module):
    """Dropout whose draws come from a generator of its own, so that the process's stays untouched."""

    def __init__(self, share: float, generator: torch.Generator | None = None) -> None:
        super().__init__()
        self.share, self.generator = share, generator

    def forward(self, x: Float[Tensor, "rows cells"]) -> Float[Tensor, "rows cells"]:
        """Set a share of the cells to 0 while training, and scale the others up."""
        if not self.training or self.share == 0:
            return x
        kept = torch.rand(x.shape, generator=self.generator).to(x.device) >= self.share
        return x * kept.to(x.dtype) / (1 - self.share)


class LatentModel(nn.Module):
    """A latent tree, and a predictor f(z, x) that reads its traversals, and the row itself if it may.

    >>> model = LatentModel(n_features=4, n_outputs=2, depth=3)
    >>> model(torch.randn(5, 4)).shape
    torch.Size([5, 2])

    Args:
        n_features: columns of the input.
        n_outputs: columns of the output.
        depth, split, penalty: of the `LatentTree`.
        predictor: "linear", or "mlp": hidden layers with ELU and dropout.
        sees_rows: whether the predictor reads x beside z.
        n_hidden, hidden_size, dropout: of "mlp".
        generator: source of the random first weights, and of dropout; torch's own by default.
    """

    def __init__(
        self,
        n_features: int,
        n_outputs: int,
        depth: int = 4,
        *,
        split: SplitName | nn.Module = "linear",
        penalty: float = 1.0,
        predictor: PredictorName = "linear",
        sees_rows: bool = True,
        n_hidden: int = 2,
        hidden_size: int = 64,
        dropout: float = 0.0,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        if predictor not in PREDICTORS:
            reject("predictor", predictor, "is not known", "choose one of " + ", ".join(map(repr, PREDICTORS)))
        self.tree = LatentTree(n_features, depth, split=split, penalty=penalty, generator=generator)
        self.sees_rows = sees_rows
        width = self.tree.n_nodes + n_features * sees_rows
        layers: list[nn.Module] = []
        if predictor == "mlp":
            for _ in range(n_hidden):
                layers += [seeded_linear(width, hidden_size, True, generator), nn.ELU()]
                layers += [SeededDropout(dropout, generator)]
                width = hidden_size
        layers.append(seeded_linear(width, n_outputs, True, generator))
        self.predictor = nn.Sequential(*layers)

    def forward(self, x: Float[Tensor, "rows features"]) -> Float[Tensor, "rows outputs"]:
        """Return the prediction, before any link."""
        return self.predict_from(self.tree(x), x)

    def predict_from(
        self, z: Float[Tensor, "rows nodes"], x: Float[Tensor, "rows features"]
    ) -> Float[Tensor, "rows outputs"]:
        """Return what the predictor makes of traversals, soft or hard."""
        answer: Tensor = self.predictor(torch.cat([z, x], 1) if self.sees_rows else z)
        return answer

    @property
    def linears(self) -> list[nn.Linear]:
        """The predictor's linear layers in order."""
        return [layer for layer in self.predictor if isinstance(layer, nn.Linear)]

    @torch.no_grad()
    def start_at(
        self,
        x: Float[Tensor, "rows features"],
        base: Float[Tensor, " outputs"],
        along: Literal["random", "principal"] = "random",
    ) -> LatentModel:
        """Spread the rows over the leaves, and begin with a constant answer for what no input explains."""
        self.tree.spread(x, along)
        self.linears[-1].bias.copy_(base)
        return self

    @torch.no_grad()
    def pruned(self) -> LatentModel:
        """Return a copy in which pruned nodes are gone from the tree and from the predictor."""
        small = copy.copy(self)
        small._modules = dict(self._modules)
        small.tree = self.tree.pruned()
        keep = self.tree.active.clone()
        keep[0] = True
        if self.sees_rows:
            keep = torch.cat([keep, torch.ones(self.tree.n_features, dtype=torch.bool, device=keep.device)])
        small.predictor = copy.deepcopy(self.predictor)
        first = small.linears[0]
        first.weight = nn.Parameter(first.weight[:, keep].clone())
        first.in_features = first.weight.shape[1]
        return small
