"""`Settings`: how a policy is trained, with the values that suit well-known environments."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from hardwood.errors import reject

KINDS = ("tree", "mlp", "soft-tree")
ALGORITHMS = ("ppo", "a2c")


@dataclass(frozen=True)
class Settings:
    """How a policy is trained. The names of most are the thesis's (Tables E.10 to E.18); the values are for trees.

    Small batches move a tree's few parameters with too much noise, and splits that change fast leave the leaves below
    them behind; so batches are large, and rates of splits are small.

    Args:
        steps: steps of all environments together.
        n_envs: copies of the environment that step together.
        rollout_steps: steps of each copy between two updates, at first.
        growth: by which the rollout, and with it the batch, is larger at the end of training (Equation 6.7).
        batch_size: rows of an optimiser step, at first (PPO; A2C takes the whole rollout).
        accumulate: the most rows in memory at once; a larger batch adds up the gradients of its parts.
        epochs: how often PPO goes through a rollout.
        gamma, gae_lambda: the discount, and that of generalised advantage estimation.
        clip: how far PPO follows the ratio of new to old probabilities.
        target_kl: go through a rollout no more when the policy has moved this far in a pass; None for all epochs.
        entropy: weight of the entropy bonus.
        entropy_end: its weight at the end of training; it moves there in a straight line. None: as at the beginning.
        value_weight: weight of the critic's loss.
        normalise_advantages: bring each batch's advantages to mean 0 and deviation 1.
        scale_rewards: divide rewards by the running deviation of their discounted sums, for training only.
        learning_rate: of networks and soft trees that act.
        threshold_rate, split_rate, leaf_rate: of a tree's thresholds, split logits and leaf values.
        log_std_rate: of the deviation of continuous actions.
        critic_rate: of the critic.
        weight_decay: decoupled, on split logits, leaf values and the deviation, never on thresholds.
        max_grad_norm: the longest gradient, of policy and critic each; None for any.
        rate_end: what the rates have come down to at the end of training, in a straight line, as a share of the first.
        reduce_rate: halve all rates when `patience` validations in a row bring no better reward.
        depth: of a tree or soft tree.
        width, n_layers: of a network that acts.
        critic_width, critic_layers: of the critic.
        temperature: of a soft tree's splits.
        log_std: the first deviation's logarithm, in units of half the action's range.
        hold_noise: for how many steps of an episode a tree's leaf keeps its draw of exploration, at first.
        hold_noise_end: the same at the end of training; it grows there by equal factors. None: as at the beginning.
        validations: how often the greedy policy is tried during training, at even distances.
        validation_episodes: on how many episodes each time.
    """

    steps: int = 1_000_000
    n_envs: int = 16
    rollout_steps: int = 128
    growth: int = 4
    batch_size: int = 512
    accumulate: int = 4096
    epochs: int = 10
    gamma: float = 0.99
    gae_lambda: float = 0.95
    clip: float = 0.2
    target_kl: float | None = 0.02
    entropy: float = 0.01
    entropy_end: float | None = 0.0
    value_weight: float = 0.5
    normalise_advantages: bool = True
    scale_rewards: bool = True
    learning_rate: float = 1e-3
    threshold_rate: float = 3e-3
    split_rate: float = 3e-4
    leaf_rate: float = 0.02
    log_std_rate: float = 1e-3
    critic_rate: float = 1e-3
    weight_decay: float = 1e-4
    max_grad_norm: float | None = None
    rate_end: float = 0.1
    reduce_rate: bool = False
    patience: int = 5
    depth: int = 7
    width: int = 64
    n_layers: int = 2
    critic_width: int = 64
    critic_layers: int = 2
    temperature: float = 1.0
    log_std: float = 0.0
    hold_noise: int = 1
    hold_noise_end: int | None = None
    validations: int = 50
    validation_episodes: int = 20

    def __post_init__(self) -> None:
        for name in (
            "steps", "n_envs", "rollout_steps", "growth", "batch_size", "accumulate", "epochs", "patience", "depth",
            "width", "n_layers", "critic_width", "critic_layers", "hold_noise", "validations", "validation_episodes",
        ):  # fmt: skip
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                reject(name, value, "must be a whole number of at least 1", f"leave it out for {getattr(_CLASS, name)}")
        if self.hold_noise_end is not None and self.hold_noise_end < 1:
            reject("hold_noise_end", self.hold_noise_end, "must be at least 1", "leave it out")
        for name in ("gamma", "gae_lambda"):
            if not 0 <= getattr(self, name) <= 1:
                reject(name, getattr(self, name), "must be from 0 to 1", f"leave it out for {getattr(_CLASS, name)}")
        if not 0 < self.rate_end <= 1:
            reject("rate_end", self.rate_end, "must be above 0 and at most 1", "use 0.1, or leave it out for 1")
        for name in ("clip", "temperature"):
            if not 0 < getattr(self, name) < math.inf:
                reject(name, getattr(self, name), "must be above 0", f"leave it out for {getattr(_CLASS, name)}")
        for name in (
            "entropy", "value_weight", "weight_decay", "learning_rate", "threshold_rate", "split_rate", "leaf_rate",
            "log_std_rate", "critic_rate", "entropy_end", "max_grad_norm", "target_kl",
        ):  # fmt: skip
            value = getattr(self, name)
            if value is not None and not 0 <= value < math.inf:
                reject(name, value, "must be a number of at least 0", f"leave it out for {getattr(_CLASS, name)}")
        if self.growth & (self.growth - 1):
            reject("growth", self.growth, "must be a power of 2", "use 4, or 1 for rollouts that stay as they are")

    def as_dict(self) -> dict[str, Any]:
        """Return all settings by name."""
        return asdict(self)


_CLASS = Settings

# Names are the beginnings of ids. What an environment asks for, whatever acts:
_ENVIRONMENTS: dict[str, dict[str, Any]] = {
    "CartPole": {"steps": 300_000},
    "Acrobot": {"steps": 500_000},
    "MountainCarContinuous": {"steps": 400_000, "gamma": 0.999, "entropy": 0.0},
    "Pendulum": {"gamma": 0.95, "entropy": 0.0, "log_std": -0.5, "log_std_rate": 0.003},
    "MiniGrid": {"steps": 150_000, "entropy": 0.05},
    "MiniGrid-DoorKey": {"steps": 400_000},
    "MiniGrid-LavaGapS7": {"steps": 1_000_000},
    "MiniGrid-DistShift": {"steps": 100_000},
}
# What a tree asks for there. Found on training seeds that the benchmark does not report.
_TREE: dict[str, dict[str, Any]] = {
    "CartPole": {"depth": 5, "batch_size": 256, "target_kl": None, "validation_episodes": 100},
    "Acrobot": {"validation_episodes": 50},
    # The goal is found only by swinging: noise that leans one way at a leaf swings, noise that changes does not.
    "MountainCarContinuous": {
        "depth": 4, "hold_noise": 20, "rollout_steps": 256, "growth": 2, "split_rate": 5e-4, "threshold_rate": 5e-3,
        "rate_end": 0.3, "log_std_rate": 0.003, "critic_rate": 0.003, "target_kl": None,
        "validation_episodes": 50,
    },
    "Pendulum": {
        "hold_noise": 4, "target_kl": 0.03, "split_rate": 1e-3, "threshold_rate": 5e-3, "validation_episodes": 50,
    },
    "LunarLander": {
        "growth": 1, "epochs": 8, "target_kl": None, "split_rate": 1e-3, "threshold_rate": 5e-3, "hold_noise": 3,
        "hold_noise_end": 10, "validation_episodes": 30,
    },
    # Much looks the same to the agent: what two actions by turns get it out of, one alone may not. Leaves that hold
    # their draw longer and longer let it learn what a tree that does not draw can rely on.
    "MiniGrid": {
        "rollout_steps": 64, "batch_size": 64, "epochs": 7, "target_kl": None, "split_rate": 2e-3, "leaf_rate": 0.01,
        "hold_noise_end": 10,
    },
    "MiniGrid-DoorKey": {
        "rollout_steps": 256, "growth": 2, "batch_size": 1024, "epochs": 10, "hold_noise_end": 30,
        "validation_episodes": 30,
    },
    "MiniGrid-LavaGapS7": {
        "rollout_steps": 256, "growth": 2, "batch_size": 1024, "epochs": 10, "hold_noise": 2, "hold_noise_end": 60,
        "split_rate": 1e-3, "leaf_rate": 0.02, "entropy": 0.1, "entropy_end": 0.01, "validation_episodes": 50,
    },
}  # fmt: skip
_OTHERS: dict[str, Any] = {"growth": 1, "batch_size": 256, "epochs": 7, "target_kl": None, "validation_episodes": 5}
# A2C takes one step a rollout: rollouts are short, and rates are higher.
_A2C: dict[str, Any] = {"rollout_steps": 8, "growth": 1, "n_envs": 16}


def settings_for(env_name: str, kind: str, algorithm: str, given: dict[str, Any]) -> Settings:
    """Return what suits an environment, with what is given in its place."""
    if kind not in KINDS:
        reject("policy", kind, "is not known", "choose one of " + ", ".join(map(repr, KINDS)))
    if algorithm not in ALGORITHMS:
        reject("algorithm", algorithm, "is not known", "choose one of " + ", ".join(map(repr, ALGORITHMS)))
    names = {field.name for field in fields(Settings)}
    for name, value in given.items():
        if name not in names:
            reject(name, value, "is no setting of hardwood.rl", "see hardwood.rl.Settings")
    start = Settings() if kind == "tree" else replace(Settings(), **_OTHERS)
    for presets in (_ENVIRONMENTS, _TREE if kind == "tree" else {}):
        for name, values in presets.items():
            if env_name.startswith(name):
                start = replace(start, **values)
    if algorithm == "a2c":
        start = replace(start, **_A2C)
    return replace(start, **given)
