"""The best parameters so far, and when to stop waiting for better ones. Restarts are judged tree by tree."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from hardwood._typing import Bool, Float
from hardwood.train._optimizers import TREE_PARAMETERS


class BestParameters:
    """Keeps a copy of the model at its lowest validation loss; of each tree at its own, if trees are restarts.

    A tree that has waited longer than `patience` is done: what it does later does not count, as if it had been trained
    alone and stopped. Parameters that are not finite are never kept.
    """

    def __init__(self, model: nn.Module, n_trees: int | None, patience: int | None, tolerance: float = 0.0) -> None:
        self._live = {name: tensor for name, tensor in model.state_dict().items() if isinstance(tensor, Tensor)}
        self._kept = {name: tensor.clone() for name, tensor in self._live.items()}
        self._names = {id(parameter): name for name, parameter in model.named_parameters()}
        trained = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
        self._trained = [name for name in self._live if name in trained]
        self._by_tree = set() if n_trees is None else set(self._trained)
        self._patience, self._tolerance = patience, tolerance
        size = n_trees or 1
        self.losses = torch.full((size,), math.inf, dtype=torch.float64)
        self.epochs = torch.zeros(size, dtype=torch.int64)
        self.failed = torch.zeros(size, dtype=torch.bool)
        self._waited = torch.zeros(size, dtype=torch.int64)
        self._beaten = torch.full((size,), math.inf, dtype=torch.float64)  # the losses from which waiting began

    @property
    def done(self) -> Bool[Tensor, " losses"]:
        """Which trees have failed, or have waited long enough."""
        return self.failed if self._patience is None else self.failed | (self._waited >= self._patience)

    def observe(self, losses: Float[Tensor, " losses"], epoch: int) -> None:
        """Keep the parameters as they are now wherever the validation loss is the lowest so far."""
        better = (losses < self.losses) & ~self.done
        if bool(better.any()):
            better &= self.finite()
        enough = better & (losses < self._beaten - self._tolerance)
        self._waited = torch.where(enough, 0, self._waited + 1)
        self._beaten = torch.where(enough, losses, self._beaten)
        self.losses = torch.where(better, losses, self.losses)
        self._keep(better, epoch)

    def keep_latest(self, epoch: int) -> None:
        """Keep the parameters as they are now: without validation rows the last are the best known."""
        self._keep(self.finite() & ~self.failed, epoch)

    def restore(self) -> None:
        """Put the kept parameters into the model."""
        with torch.no_grad():
            for name, place in self._live.items():
                place.copy_(self._kept[name])

    def kept(self, parameters: list[nn.Parameter]) -> list[Tensor]:
        """Return the kept copies of some parameters."""
        return [self._kept[self._names[id(parameter)]] for parameter in parameters]

    def _keep(self, which: Tensor, epoch: int) -> None:
        if not bool(which.any()):
            return
        self.epochs = torch.where(which, epoch, self.epochs)
        with torch.no_grad():
            for name, live in self._live.items():
                kept = self._kept[name]
                if name not in self._by_tree or bool(which.all()):
                    kept.copy_(live)
                else:
                    chosen = which.to(live.device).reshape(-1, *[1] * (live.ndim - 1))
                    kept.copy_(torch.where(chosen, live, kept))

    def finite(self) -> Bool[Tensor, " losses"]:
        """Tell whether the parameters as they are now are all finite; of each tree, if trees are restarts."""
        finite = torch.ones_like(self.failed)
        for name in self._trained:
            cells = self._live[name].isfinite()
            finite &= (cells.flatten(1).all(1) if self._by_tree else cells.all().reshape(1)).cpu()
        return finite

    def tensors(self) -> dict[str, Tensor]:
        """Return what a checkpoint has to hold."""
        kept = {f"kept.{name}": tensor for name, tensor in self._kept.items()}
        marks = {"losses": self.losses, "epochs": self.epochs, "failed": self.failed, "waited": self._waited}
        marks["beaten"] = self._beaten
        return {**kept, **marks}

    def load_tensors(self, tensors: dict[str, Tensor]) -> None:
        """Go on from a checkpoint."""
        for name, kept in self._kept.items():
            kept.copy_(tensors[f"kept.{name}"])
        self.losses, self.epochs, self.failed = tensors["losses"], tensors["epochs"], tensors["failed"]
        self._waited, self._beaten = tensors["waited"], tensors["beaten"]


def shared_parameters(model: nn.Module, n_trees: int) -> list[str]:
    """Return the names of the trainable parameters that several trees share."""
    return [
        name
        for name, parameter in model.named_parameters()
        if parameter.requires_grad
        and (name.rpartition(".")[2] not in TREE_PARAMETERS or parameter.shape[0] != n_trees)
    ]  # fmt: skip
