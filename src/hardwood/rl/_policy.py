"""Policies: the hard tree, and the network and the soft tree that it is compared with."""

from __future__ import annotations

import abc
import math
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from hardwood._typing import Float, Shaped
from hardwood.forest import LEAF, THRESHOLD, Forest
from hardwood.nn import HardTrees
from hardwood.nn._soft_tree import SoftTree
from hardwood.rl._acting import HardTree, NetworkActor, TreeActor
from hardwood.rl._actions import Actions
from hardwood.rl._scale import Scale

_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


class Policy(nn.Module, abc.ABC):
    """A distribution over actions for each state: categorical, or normal with one deviation for all states.

    In training, continuous actions are in units of half their range around its middle. A network of any kind gives
    the outputs; `kind` names it.
    """

    kind: str
    log_std: nn.Parameter | None

    def __init__(self, actions: Actions, scale: Scale, log_std: float = 0.0) -> None:
        super().__init__()
        self.actions, self.scale = actions, scale
        deviation = None if actions.is_discrete else nn.Parameter(torch.full((actions.n_outputs,), log_std))
        self.register_parameter("log_std", deviation)

    @abc.abstractmethod
    def outputs(self, scaled: Float[Tensor, "rows columns"]) -> Float[Tensor, "rows outputs"]:
        """Return logits, or means."""

    @abc.abstractmethod
    def actor(self) -> TreeActor | NetworkActor:
        """Return the policy as it is now, for acting."""

    def evaluate(
        self, scaled: Float[Tensor, "rows columns"], chosen: Shaped[Tensor, "..."]
    ) -> tuple[Float[Tensor, " rows"], Float[Tensor, ""]]:
        """Return the log probability of each chosen action, and the mean entropy."""
        outputs = self.outputs(scaled)
        if self.log_std is None:
            log_probs = torch.log_softmax(outputs, 1)
            entropy = -(log_probs.exp() * log_probs).sum(1).mean()
            return log_probs.gather(1, chosen[:, None])[:, 0], entropy
        deviations = (chosen - outputs) * torch.exp(-self.log_std)
        log_prob = (-0.5 * deviations.square() - self.log_std - _HALF_LOG_2PI).sum(1)
        return log_prob, (self.log_std + 0.5 + _HALF_LOG_2PI).sum()

    def _log_std_now(self) -> Float[np.ndarray, " numbers"] | None:
        return None if self.log_std is None else self.log_std.detach().double().numpy().copy()


class TreePolicy(Policy):
    """SYMPOL's policy: one hard, axis-aligned tree, which is trained as it is and exported as it is.

    The tree is a `HardTrees` layer on scaled observations. `hard_tree` is the same tree on raw ones: its thresholds
    are exact images, so that every observation reaches the same leaf, and `to_forest` is made of those very arrays.
    """

    kind = "tree"

    def __init__(
        self,
        actions: Actions,
        scale: Scale,
        *,
        depth: int = 7,
        log_std: float = 0.0,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__(actions, scale, log_std)
        self.layer = HardTrees(
            len(scale.mean), actions.n_outputs, depth=depth, learn_missing=False, generator=generator,
            dtype=torch.float32, device="cpu",
        )  # fmt: skip
        with torch.no_grad():
            _spread_splits(self.layer, scale.is_of_flags, generator)
            # Leaves begin close to indifferent.
            self.layer.leaf_values.mul_(0.1)

    def outputs(self, scaled: Float[Tensor, "rows columns"]) -> Float[Tensor, "rows outputs"]:
        """Return what the reached leaves say."""
        return self.layer.forward(scaled)

    def hard_tree(self) -> HardTree:
        """Return the tree as it is now, on raw columns."""
        n_nodes = 2**self.layer.depth - 1
        feature = self.layer.split_logits.detach().numpy()[0].argmax(1)
        thresholds = self.layer.thresholds.detach().numpy()[0][np.arange(n_nodes), feature]
        raw = self.scale.raw_thresholds(feature, thresholds)
        left = 2 * np.arange(n_nodes) + 1
        right = left + 1
        # What no number reaches sends all left: children exchanged, all numbers (but no missing value) go "right".
        unreached = raw == np.inf
        left, right = np.where(unreached, right, left), np.where(unreached, left, right)
        outputs = self.layer.leaf_values.detach().numpy()[0].astype(np.float64)
        return HardTree(feature, np.where(unreached, -np.inf, raw), left, right, outputs)

    def actor(self) -> TreeActor:
        """Return the tree as it is now, for acting."""
        return TreeActor(self.actions, self.hard_tree(), self._log_std_now())

    def to_forest(self, feature_names: tuple[str, ...] | None = None, flags: bool = False) -> Forest:
        """Return the tree as a pruned `Forest` on raw observations; `flags` says that every column is 0 or 1.

        Its prediction is the best action: its name, or the numbers to set, within their range.
        """
        names = feature_names or tuple(f"x{column}" for column in range(len(self.scale.mean)))
        return forest_of_tree(self.hard_tree(), self.actions, names, flags)


def _spread_splits(layer: HardTrees, flags: bool, generator: torch.Generator | None) -> None:
    """Let each node of a new tree split the part of the scaled observations that reaches it.

    Drawn blindly, most nodes of a deep tree would have nothing left to tell apart: their thresholds lie beyond those
    above them. So each node begins with one of the columns that were split the least on the way to it, and all its
    thresholds, those of columns that it may turn to later too, lie somewhere about the middle of what is left there;
    flags are split at the middle between their two values.
    """
    logits, thresholds = layer.split_logits[0].numpy(), layer.thresholds[0].numpy()
    n_nodes, n_columns = logits.shape
    thresholds[:] = 0.0
    places = 0.3 + 0.4 * torch.rand(thresholds.shape, generator=generator).numpy()
    low, high = np.full((2 * n_nodes + 1, n_columns), -2.0), np.full((2 * n_nodes + 1, n_columns), 2.0)
    splits = np.zeros((2 * n_nodes + 1, n_columns), np.int64)
    for node in range(n_nodes):
        fresh = np.flatnonzero(splits[node] == splits[node].min())
        column, largest = fresh[logits[node, fresh].argmax()], logits[node].argmax()
        logits[node, [column, largest]] = logits[node, [largest, column]]
        if not flags:
            thresholds[node] = low[node] + places[node] * (high[node] - low[node])
        for child in (2 * node + 1, 2 * node + 2):
            low[child], high[child], splits[child] = low[node], high[node], splits[node]
            splits[child, column] += 1
        high[2 * node + 1, column] = low[2 * node + 2, column] = thresholds[node, column]


def forest_of_tree(tree: HardTree, actions: Actions, feature_names: tuple[str, ...], flags: bool = False) -> Forest:
    """Return a complete tree as a pruned forest."""
    n_nodes, n_leaves = len(tree.feature), len(tree.outputs)
    threshold = tree.threshold.copy()
    left, right = tree.left.copy(), tree.right.copy()
    missing_left = np.ones(n_nodes, bool)
    if flags:
        # Flags are never missing, and every threshold above 0 and up to 1 is the same.
        never, always = threshold > 1, threshold <= 0
        left, right = np.where(never, right, left), np.where(never, left, right)
        threshold = np.where(never | always, -np.inf, 0.5)
        missing_left[never | always] = False
    classes: Any = None
    if actions.is_discrete:
        values, classes = tree.outputs, np.array(actions.names)
    else:
        values = np.clip(actions.middle + actions.half * tree.outputs, actions.low, actions.high)
    pad = np.full(n_leaves, -1)
    types: Any = ("bool",) * len(feature_names) if flags else None
    forest = Forest(
        tree_start=np.array([0, n_nodes + n_leaves]),
        kind=np.concatenate([np.full(n_nodes, THRESHOLD), np.full(n_leaves, LEAF)]),
        left=np.concatenate([left, pad]),
        right=np.concatenate([right, pad]),
        feature=np.concatenate([tree.feature, pad]),
        threshold=np.concatenate([threshold, np.zeros(n_leaves)]),
        missing_left=np.concatenate([missing_left, np.zeros(n_leaves, bool)]),
        leaf_values=values,
        n_features=len(feature_names),
        link="softmax" if actions.is_discrete else "identity",
        feature_names=feature_names,
        feature_types=types,
        classes=classes,
        output_names=None if actions.is_discrete else actions.names,
    )
    return forest.prune()


class MLPPolicy(Policy):
    """A multilayer perceptron with tanh, as most policies are."""

    kind = "mlp"

    def __init__(
        self,
        actions: Actions,
        scale: Scale,
        *,
        width: int = 64,
        n_layers: int = 2,
        log_std: float = 0.0,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__(actions, scale, log_std)
        self.network = perceptron(len(scale.mean), actions.n_outputs, width, n_layers, 0.01, generator)

    def outputs(self, scaled: Float[Tensor, "rows columns"]) -> Float[Tensor, "rows outputs"]:
        """Return the last layer."""
        return self.network(scaled)

    def actor(self) -> NetworkActor:
        """Return the network as it is now, for acting."""
        layers = [
            (layer.weight.detach().numpy().T.copy(), layer.bias.detach().numpy().copy())
            for layer in self.network
            if isinstance(layer, nn.Linear)
        ]
        scale = self.scale

        def compute(rows: Any) -> Any:
            value = scale.transform(rows)
            for weight, bias in layers[:-1]:
                value = np.tanh(value @ weight + bias)
            return value @ layers[-1][0] + layers[-1][1]

        return NetworkActor(self.actions, compute, self._log_std_now())


class SoftTreePolicy(Policy):
    """A soft decision tree (SDT): trained as it is, but no tree that one can follow."""

    kind = "soft-tree"

    def __init__(
        self,
        actions: Actions,
        scale: Scale,
        *,
        depth: int = 6,
        temperature: float = 1.0,
        log_std: float = 0.0,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__(actions, scale, log_std)
        self.tree = SoftTree(
            len(scale.mean), actions.n_outputs, depth, temperature=temperature, generator=generator
        )  # fmt: skip

    def outputs(self, scaled: Float[Tensor, "rows columns"]) -> Float[Tensor, "rows outputs"]:
        """Return the weighted mean of the leaves."""
        return self.tree(scaled)

    def actor(self) -> NetworkActor:
        """Return the soft tree as it is now, for acting."""
        tree = self.tree
        weights, bias, leaves = (
            p.detach().numpy().copy() for p in (tree.split_weights, tree.split_bias, tree.leaf_values)
        )
        scale, depth, temperature = self.scale, tree.depth, tree.temperature

        def compute(rows: Any) -> Any:
            right = 1 / (1 + np.exp(-np.clip((scale.transform(rows) @ weights + bias) / temperature, -80, 80)))
            shares = np.ones((len(right), 1), np.float32)
            for level in range(depth):
                here = right[:, 2**level - 1 : 2 ** (level + 1) - 1]
                shares = np.stack([shares * (1 - here), shares * here], 2).reshape(len(right), -1)
            return shares @ leaves

        return NetworkActor(self.actions, compute, self._log_std_now())

    def discretised(self) -> HardTree:
        """Return the discretised soft tree (D-SDT) on raw columns."""
        feature, scaled, goes_left = self.tree.hard_splits()
        raw = scaled * self.scale.deviation[feature] + self.scale.mean[feature]
        below = 2 * np.arange(len(feature)) + 1
        left, right = np.where(goes_left, below + 1, below), np.where(goes_left, below, below + 1)
        return HardTree(feature, raw, left, right, self.tree.leaf_values.detach().numpy().astype(np.float64))


def perceptron(
    n_inputs: int, n_outputs: int, width: int, n_layers: int, gain: float, generator: torch.Generator | None
) -> nn.Sequential:
    """Return a perceptron with orthogonal first weights, as is usual for policies and critics; `gain` is the last's."""
    layers: list[nn.Module] = []
    size = n_inputs
    for _ in range(n_layers):
        layers += [_linear(size, width, math.sqrt(2), generator), nn.Tanh()]
        size = width
    return nn.Sequential(*layers, _linear(size, n_outputs, gain, generator))


def _linear(n_inputs: int, n_outputs: int, gain: float, generator: torch.Generator | None) -> nn.Linear:
    # torch's own first weights would be drawn from the process-wide generator.
    with torch.device("meta"):
        layer = nn.Linear(n_inputs, n_outputs)
    layer.to_empty(device="cpu")
    with torch.no_grad():
        nn.init.orthogonal_(layer.weight, gain, generator=generator)
        layer.bias.zero_()
    return layer
