"""A tree inside a network: between two linear layers, and on top of a small CNN that reads images of digits.

`LatentTree` is a layer like any other: gradients pass through its traversals and its pruning to whatever stands before
it. Here it replaces the hidden activation of a network, and then the head of a CNN. The same networks without a tree
stand beside it, with as many hidden cells as the tree has nodes.

Run it with `python examples/latent_layer.py`. It takes about twenty seconds.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn

from hardwood.nn import LatentTree
from hardwood.train import TrainingSettings, fit


class Digits(nn.Module):
    """A small CNN on 8 x 8 images that come as rows of 64 cells, with any head on its 32 features."""

    def __init__(self, head: nn.Module) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1), nn.ELU(), nn.MaxPool2d(2), nn.Conv2d(8, 16, 3, padding=1), nn.ELU(),
            nn.MaxPool2d(2), nn.Flatten(), nn.Linear(64, 32),
        )  # fmt: skip
        self.head = head

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """Return a score for each digit."""
        scores: torch.Tensor = self.head(self.body(rows.reshape(-1, 1, 8, 8)))
        return scores


def between_linears(depth: int, penalty: float) -> nn.Module:
    """A linear layer, a tree, a linear layer."""
    tree = LatentTree(16, depth, penalty=penalty)
    return nn.Sequential(nn.Linear(64, 16), tree, nn.Linear(tree.n_nodes, 10))


def without_tree(depth: int, penalty: float) -> nn.Module:
    """The same with a hidden layer in the place of the tree."""
    nodes = 2 ** (depth + 1) - 1
    return nn.Sequential(nn.Linear(64, 16), nn.Linear(16, nodes), nn.ELU(), nn.Linear(nodes, 10))


def on_a_cnn(depth: int, penalty: float) -> nn.Module:
    """A CNN with a tree and a linear layer as its head."""
    tree = LatentTree(32, depth, penalty=penalty)
    return Digits(nn.Sequential(tree, nn.Linear(tree.n_nodes, 10)))


def cnn_alone(depth: int, penalty: float) -> nn.Module:
    """A CNN with a hidden layer as its head."""
    nodes = 2 ** (depth + 1) - 1
    return Digits(nn.Sequential(nn.Linear(32, nodes), nn.ELU(), nn.Linear(nodes, 10)))


NETWORKS: dict[str, Callable[[int, float], nn.Module]] = {
    "linear, tree, linear": between_linears,
    "linear, ELU, linear": without_tree,
    "CNN with a tree": on_a_cnn,
    "CNN with ELU": cnn_alone,
}


def measure(make: Callable[[int, float], nn.Module], seed: int, depth: int, penalty: float, epochs: int) -> float:
    """Train a network on half of the digits, and return its accuracy on the others."""
    X, y = load_digits(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(X / 8 - 1, y, test_size=0.5, random_state=seed, stratify=y)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        net = make(depth, penalty)
    settings = TrainingSettings(max_epochs=epochs, batch_size=64, learning_rate=0.005, random_state=seed)
    rows = torch.from_numpy(X_train).float()
    fit(net, rows, torch.from_numpy(y_train), loss="cross_entropy", settings=settings)
    net.eval()
    with torch.no_grad():
        answers = net(torch.from_numpy(X_test).float()).argmax(1).numpy()
    return float((answers == y_test).mean())


def main() -> None:
    """Print mean accuracies."""
    parser = argparse.ArgumentParser(description="A latent tree as a layer.")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--depth", type=int, default=5)
    parser.add_argument("--penalty", type=float, default=1.0)
    parser.add_argument("--epochs", type=int, default=30)
    given = parser.parse_args()
    print(f"accuracy on held-out digits, mean and deviation of {given.seeds} seeds, trees of depth {given.depth}")
    for name, make in NETWORKS.items():
        found = [measure(make, seed, given.depth, given.penalty, given.epochs) for seed in range(given.seeds)]
        print(f"{name:<22} {np.mean(found):.3f} +- {np.std(found):.3f}")


if __name__ == "__main__":
    main()
