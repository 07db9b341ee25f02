"""`Actions`: what a policy may do, read off an action space."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hardwood._typing import Float, Shaped
from hardwood.errors import reject

# What the actions of well-known environments are called; the thesis uses of MiniGrid's only those that matter.
_NAMES = {
    "CartPole": ("push left", "push right"),
    "Acrobot": ("torque -1", "torque 0", "torque +1"),
    "MountainCar-": ("push left", "do not push", "push right"),
    "LunarLander-": ("do nothing", "fire left engine", "fire main engine", "fire right engine"),
}
_OUTPUTS = {"MountainCarContinuous": ("force",), "Pendulum": ("torque",)}
_MINIGRID = ("turn left", "turn right", "move forward", "pick up", "drop", "toggle", "done")
_WALKING, _WITH_DOORS = (0, 1, 2), (0, 1, 2, 3, 5)


@dataclass(frozen=True)
class Actions:
    """The actions that a policy chooses from (discrete), or the numbers that it sets (continuous).

    A discrete action is handled as its place among `codes`, which are what the environment takes.
    """

    names: tuple[str, ...]
    codes: tuple[int, ...] = ()  # empty for continuous actions
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()

    @property
    def is_discrete(self) -> bool:
        """Whether one of several actions is chosen."""
        return bool(self.codes)

    @property
    def n_outputs(self) -> int:
        """How many numbers a policy gives for a state: one for each action, or for each number to set."""
        return len(self.names)

    @property
    def middle(self) -> Float[np.ndarray, " numbers"]:
        """The middle of the range of each continuous action."""
        return (np.array(self.low) + np.array(self.high)) / 2

    @property
    def half(self) -> Float[np.ndarray, " numbers"]:
        """Half the range of each continuous action."""
        return (np.array(self.high) - np.array(self.low)) / 2

    def to_environment(self, chosen: Shaped[np.ndarray, "..."]) -> Shaped[np.ndarray, "..."]:
        """Turn chosen actions (places, or numbers in the environment's own units) into what it takes."""
        if self.is_discrete:
            return np.asarray(self.codes, np.int64)[chosen]
        return np.clip(chosen, self.low, self.high).astype(np.float32)

    def describe(self) -> dict[str, Any]:
        """Return the actions as JSON."""
        return {"names": list(self.names), "codes": list(self.codes), "low": list(self.low), "high": list(self.high)}

    @classmethod
    def from_description(cls, document: dict[str, Any]) -> Actions:
        """Return what `describe` described."""
        low, high = (tuple(float(each) for each in document[name]) for name in ("low", "high"))
        return cls(tuple(document["names"]), tuple(int(code) for code in document["codes"]), low, high)


def actions_of(space: Any, env_name: str, available: Sequence[int] | None = None) -> Actions:
    """Read the actions off an action space; `available` names the discrete ones that the policy may take."""
    from hardwood.rl._extra import optional

    spaces = optional("gymnasium", "hardwood.rl").spaces
    if isinstance(space, spaces.Discrete):
        every = [int(space.start) + number for number in range(int(space.n))]
        codes = every if available is None else [int(code) for code in available]
        if available is None and env_name.startswith("MiniGrid-"):
            codes = list(_WITH_DOORS if "Door" in env_name or "Key" in env_name else _WALKING)
        if not codes or len(set(codes)) < len(codes) or not set(codes) <= set(every):
            reject("actions", available, f"must be some of the environment's actions {every}", "leave it out for all")
        return Actions(tuple(_discrete_names(env_name, every)[every.index(code)] for code in codes), tuple(codes))
    if not isinstance(space, spaces.Box):
        problem = f"{type(space).__name__} actions are not supported"
        reject("action_space", space, problem, "use an environment with Discrete or Box actions")
    if available is not None:
        reject("actions", available, "the environment's actions are numbers, not choices", "leave it out")
    if len(space.shape) != 1:
        reject("action_space.shape", space.shape, "is not one-dimensional", "flatten it with a wrapper")
    if not (np.isfinite(space.low).all() and np.isfinite(space.high).all()):
        reject("action_space", space, "has no bounds", "wrap the environment in RescaleAction or ClipAction")
    known = next((names for start, names in _OUTPUTS.items() if env_name.startswith(start)), None)
    names = known or tuple(f"action {number}" for number in range(space.shape[0]))
    return Actions(names, (), tuple(map(float, space.low)), tuple(map(float, space.high)))


def _discrete_names(env_name: str, every: Sequence[int]) -> tuple[str, ...]:
    if env_name.startswith("MiniGrid-") and len(every) == len(_MINIGRID):
        return _MINIGRID
    known = next((names for start, names in _NAMES.items() if env_name.startswith(start)), ())
    return known if len(known) == len(every) else tuple(f"action {code}" for code in every)
