"""The tree policy for Stable-Baselines3: its PPO and A2C train the same hard tree.

from stable_baselines3 import PPO
from hardwood.rl.stable_baselines import TreeActorCriticPolicy

model = PPO(TreeActorCriticPolicy, "CartPole-v1", policy_kwargs={"depth": 5}).learn(100_000)
forest = model.policy.to_forest()
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from hardwood._typing import Float
from hardwood.errors import reject
from hardwood.forest import Forest
from hardwood.rl._actions import actions_of
from hardwood.rl._encoders import NumberEncoder, encoder_of
from hardwood.rl._extra import optional
from hardwood.rl._policy import TreePolicy
from hardwood.rl._scale import Scale

if TYPE_CHECKING:
    _Base: Any = object
else:
    _Base = optional("stable_baselines3", "hardwood.rl.stable_baselines").common.policies.ActorCriticPolicy


class TreeActorCriticPolicy(_Base):  # type: ignore[misc]
    """An actor-critic policy of Stable-Baselines3 whose actor is one hard tree and whose critic is a network.

    For vectors of numbers as observations, and discrete or bounded actions. Give settings as `policy_kwargs`:

    Args:
        depth: levels of splits.
        scale: brings observations to a common scale for training; the exported tree splits on raw ones. Without it
            columns are taken as they are, or, where the space says their range, brought to -1 to 1.
        split_factor, threshold_factor, leaf_factor: the tree's learning rates, as multiples of the model's.
        weight_decay: decoupled, on split logits and leaf values.
        critic_arch: the widths of the critic's layers.
    """

    def __init__(
        self,
        observation_space: Any,
        action_space: Any,
        lr_schedule: Callable[[float], float],
        *args: Any,
        depth: int = 7,
        scale: Scale | None = None,
        split_factor: float = 30.0,
        threshold_factor: float = 3.0,
        leaf_factor: float = 30.0,
        weight_decay: float = 1e-4,
        critic_arch: tuple[int, ...] = (64, 64),
        **kwargs: Any,
    ) -> None:
        encoder = encoder_of(observation_space, "")
        if not isinstance(encoder, NumberEncoder):
            reject("observation_space", observation_space, "is no vector of numbers", "wrap it in FlattenObservation")
        if scale is None:
            bounded = np.isfinite(encoder.low) & np.isfinite(encoder.high) & (encoder.high - encoder.low < 1e6)
            middle = np.where(bounded, encoder.low / 2 + encoder.high / 2, 0.0)
            scale = Scale(middle, np.where(bounded, encoder.high / 2 - encoder.low / 2, 1.0))
        actions = actions_of(action_space, "")
        self._made = (actions, scale, depth)
        self._factors = (split_factor, threshold_factor, leaf_factor, weight_decay)
        kwargs |= {"net_arch": {"pi": [], "vf": list(critic_arch)}, "share_features_extractor": True}
        super().__init__(observation_space, action_space, lr_schedule, *args, **kwargs)

    def _build(self, lr_schedule: Callable[[float], float]) -> None:
        super()._build(lr_schedule)
        actions, scale, depth = self._made
        tree = TreePolicy(actions, scale, depth=depth)
        self.action_net = _Head(tree)
        split, threshold, leaf, decay = self._factors
        layer = tree.layer
        own = {id(parameter) for parameter in layer.parameters()}
        others = [parameter for parameter in self.parameters() if id(parameter) not in own]
        groups = [
            {"params": [layer.split_logits], "factor": split, "weight_decay": decay},
            {"params": [layer.thresholds], "factor": threshold},
            {"params": [layer.leaf_values], "factor": leaf, "weight_decay": decay},
            {"params": others, "factor": 1.0},
        ]
        self.optimizer = _FactorAdamW(groups, lr=lr_schedule(1), eps=1e-5, weight_decay=0.0)

    def to_forest(self, feature_names: tuple[str, ...] | None = None) -> Forest:
        """Return the tree that acts, pruned, on raw observations."""
        return self.action_net.tree.to_forest(feature_names)


class _Head(nn.Module):
    """The tree on raw observations, in float64 until they are scaled, as `Scale.transform` does it."""

    def __init__(self, tree: TreePolicy) -> None:
        super().__init__()
        self.tree = tree
        tree.log_std = None  # the library has its own
        actions, scale = tree.actions, tree.scale
        self.register_buffer("_mean", torch.from_numpy(scale.mean), persistent=False)
        self.register_buffer("_deviation", torch.from_numpy(scale.deviation), persistent=False)
        self._units = None if actions.is_discrete else (actions.middle, actions.half)

    def forward(self, features: Float[Tensor, "rows columns"]) -> Float[Tensor, "rows outputs"]:
        """Return logits, or means in the environment's units."""
        mean, deviation = self.get_buffer("_mean"), self.get_buffer("_deviation")
        scaled = ((features.double() / 2 - mean / 2) / (deviation / 2)).float()
        outputs = self.tree.outputs(scaled)
        if self._units is None:
            return outputs
        middle, half = (torch.from_numpy(each).to(outputs) for each in self._units)
        return middle + half * outputs


class _FactorAdamW(torch.optim.AdamW):
    """AdamW whose groups multiply the one learning rate that Stable-Baselines3 sets for all."""

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        """Take one step."""
        rates = [group["lr"] for group in self.param_groups]
        for group in self.param_groups:
            group["lr"] *= group["factor"]
        try:
            return super().step(closure)
        finally:
            for group, rate in zip(self.param_groups, rates, strict=True):
                group["lr"] = rate
