"""Encoders: observations as rows of numbers that a tree can split on, with a name for each."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Any

import numpy as np

from hardwood._typing import Float
from hardwood.errors import reject

_NAMES = {
    "CartPole": ("cart position", "cart velocity", "pole angle", "pole velocity"),
    "Acrobot": ("cos angle 1", "sin angle 1", "cos angle 2", "sin angle 2", "velocity 1", "velocity 2"),
    "MountainCar": ("position", "velocity"),
    "Pendulum": ("cos angle", "sin angle", "angular velocity"),
    "LunarLander": (
        "x", "y", "x velocity", "y velocity", "angle", "angular velocity", "left leg touches", "right leg touches",
    ),
}  # fmt: skip


class Encoder(abc.ABC):
    """Turns a batch of observations into rows of float64; `names` are those of the columns."""

    names: tuple[str, ...]
    low: Float[np.ndarray, " columns"]  # what a column is never below, as far as that is known
    high: Float[np.ndarray, " columns"]
    is_flag: bool = False  # every column is 0 or 1
    exclusive: tuple[int, ...] | None = None  # a number for each flag: of those with the same one at most one is 1

    @abc.abstractmethod
    def encode(self, observations: Any) -> Float[np.ndarray, "rows columns"]:
        """Return one row for each observation of a batch."""

    @abc.abstractmethod
    def encode_one(self, observation: Any) -> Float[np.ndarray, "1 columns"]:
        """Return the row of a single observation."""

    @abc.abstractmethod
    def describe(self) -> dict[str, Any]:
        """Return the encoder as JSON."""


class NumberEncoder(Encoder):
    """A vector of numbers, as it is."""

    def __init__(self, low: Any, high: Any, names: Sequence[str]) -> None:
        self.low, self.high = np.asarray(low, np.float64), np.asarray(high, np.float64)
        self.names = tuple(names)

    def encode(self, observations: Any) -> Float[np.ndarray, "rows columns"]:
        """Return the numbers of each observation."""
        rows: Any = np.asarray(observations, np.float64)
        return rows.reshape(len(rows), -1)

    def encode_one(self, observation: Any) -> Float[np.ndarray, "1 columns"]:
        """Return the numbers of one observation."""
        return np.asarray(observation, np.float64).reshape(1, -1)

    def describe(self) -> dict[str, Any]:
        """Return the encoder as JSON, without infinite numbers."""
        bounds = [[None if abs(b) == np.inf else float(b) for b in side] for side in (self.low, self.high)]
        return {"kind": "numbers", "names": list(self.names), "low": bounds[0], "high": bounds[1]}


class FlagEncoder(Encoder):
    """Discrete states: a flag for each value of each of them."""

    is_flag = True

    def __init__(self, sizes: Sequence[int], starts: Sequence[int]) -> None:
        self.sizes, self.starts = tuple(map(int, sizes)), tuple(map(int, starts))
        several = len(self.sizes) > 1
        self.names = tuple(
            (f"state {place} = " if several else "state = ") + str(start + value)
            for place, (size, start) in enumerate(zip(self.sizes, self.starts, strict=True))
            for value in range(size)
        )
        self.exclusive = tuple(place for place, size in enumerate(self.sizes) for _ in range(size))
        self.low, self.high = np.zeros(len(self.names)), np.ones(len(self.names))

    def encode(self, observations: Any) -> Float[np.ndarray, "rows columns"]:
        """Return flags: 1 where a state has the column's value."""
        states = np.asarray(observations).reshape(-1, len(self.sizes)) - np.asarray(self.starts)
        parts = [states[:, [place]] == np.arange(size) for place, size in enumerate(self.sizes)]
        return np.concatenate(parts, 1).astype(np.float64)

    def encode_one(self, observation: Any) -> Float[np.ndarray, "1 columns"]:
        """Return the flags of one observation."""
        return self.encode([observation])

    def describe(self) -> dict[str, Any]:
        """Return the encoder as JSON."""
        return {"kind": "flags", "sizes": list(self.sizes), "starts": list(self.starts)}


class GridEncoder(Encoder):
    """MiniGrid's view as the thesis takes it (E.3): a flag for each object at each of 3 x 3 fields before the agent.

    The fields are the nearest of whatever the agent sees; its own field shows what it carries. `objects` are the kinds
    to tell apart, of "empty", "wall", "floor", "key", "ball", "box", "goal", "lava", "open door", "closed door" and
    "locked door".
    """

    is_flag = True
    _KINDS = (
        "unseen", "empty", "wall", "floor", "door", "key", "ball", "box", "goal", "lava", "agent",
        "open door", "closed door", "locked door",
    )  # fmt: skip
    _CARRIED = ("key", "ball", "box")
    # Columns of the view from left to right, rows from far to near.
    _PLACES = (
        ("2 ahead 1 left", "1 ahead 1 left", "left"), ("2 ahead", "ahead", "carried"),
        ("2 ahead 1 right", "1 ahead 1 right", "right"),
    )  # fmt: skip

    def __init__(self, objects: Sequence[str] = ("empty", "wall", "goal", "lava")) -> None:
        unknown = [name for name in objects if name not in self._KINDS]
        if unknown or not objects:
            reject("objects", tuple(objects), "must name kinds of MiniGrid's objects", f"use some of {self._KINDS[1:]}")
        self.objects = tuple(objects)
        wanted = [
            (x, y, name)
            for x in range(3)
            for y in range(3)
            for name in self.objects
            if (x, y) != (1, 2) or name in self._CARRIED
        ]
        self.names = tuple(f"{name} {self._PLACES[x][y]}" for x, y, name in wanted)
        self._x, self._y = (np.array([each[axis] for each in wanted]) for axis in (0, 1))
        self.exclusive = tuple(3 * x + y for x, y, _ in wanted)
        self._kind = np.array([self._KINDS.index(name) for _, _, name in wanted])
        self.low, self.high = np.zeros(len(self.names)), np.ones(len(self.names))

    def encode(self, observations: Any) -> Float[np.ndarray, "rows columns"]:
        """Return the flags of each view."""
        image = np.asarray(observations["image"])
        middle, nearest = image.shape[1] // 2, image.shape[2]
        view = image[:, middle - 1 : middle + 2, nearest - 3 :]
        # A door is told apart by its state, which stands in the third channel.
        kind = np.where(view[..., 0] == 4, 11 + view[..., 2], view[..., 0])
        return (kind[:, self._x, self._y] == self._kind).astype(np.float64)

    def encode_one(self, observation: Any) -> Float[np.ndarray, "1 columns"]:
        """Return the flags of one view."""
        return self.encode({"image": np.asarray(observation["image"])[None]})

    def describe(self) -> dict[str, Any]:
        """Return the encoder as JSON."""
        return {"kind": "grid", "objects": list(self.objects)}


def encoder_of(space: Any, env_name: str) -> Encoder:
    """Return the encoder for an observation space, or say why there is none."""
    from hardwood.rl._extra import optional

    spaces = optional("gymnasium", "hardwood.rl").spaces
    if isinstance(space, spaces.Box):
        if len(space.shape) > 1:
            reject(
                "observation_space", space, "observations are images or tables, and a tree splits on columns",
                "pass encoder=, an rl.Encoder that turns a batch of them into rows of named numbers",
            )  # fmt: skip
        size = int(np.prod(space.shape))
        known = next((names for start, names in _NAMES.items() if env_name.startswith(start)), ())
        names = known if len(known) == size else tuple(f"x{column}" for column in range(size))
        return NumberEncoder(space.low.reshape(-1), space.high.reshape(-1), names)
    if isinstance(space, spaces.Discrete):
        return FlagEncoder([int(space.n)], [int(space.start)])
    if isinstance(space, spaces.MultiDiscrete) and space.nvec.ndim == 1:
        return FlagEncoder(space.nvec.tolist(), space.start.tolist())
    if isinstance(space, spaces.MultiBinary) and isinstance(space.n, (int, np.integer)):
        return FlagEncoder([2] * int(space.n), [0] * int(space.n))
    if not isinstance(space, spaces.Dict) or not {"image", "direction", "mission"} <= set(space.spaces):
        kind = type(space).__name__
        remedy = (
            "wrap the environment in FlattenObservation, or pass encoder=, an rl.Encoder that makes rows of numbers"
        )
        reject("observation_space", space, f"{kind} observations have no columns to split on", remedy)
    return GridEncoder(_grid_objects(env_name))


def _grid_objects(env_name: str) -> tuple[str, ...]:
    """Return the objects that an environment has, by its documentation."""
    if env_name.startswith("MiniGrid-Empty"):
        return ("empty", "wall", "goal")
    if env_name.startswith(("MiniGrid-Lava", "MiniGrid-DistShift")):
        return ("empty", "wall", "goal", "lava")
    if env_name.startswith("MiniGrid-DoorKey"):
        return ("empty", "wall", "goal", "key", "open door", "closed door", "locked door")
    return tuple(name for name in GridEncoder._KINDS if name not in ("unseen", "door", "agent"))


def encoder_from(document: dict[str, Any]) -> Encoder:
    """Return the encoder that `describe` described."""
    kind = document.get("kind")
    if kind == "numbers":
        low = [-np.inf if bound is None else bound for bound in document["low"]]
        high = [np.inf if bound is None else bound for bound in document["high"]]
        return NumberEncoder(low, high, document["names"])
    if kind == "flags":
        return FlagEncoder(document["sizes"], document["starts"])
    if kind != "grid":
        remedy = "pass encoder=, the one that the policy was trained with"
        reject("encoder", document, "is of a kind that hardwood does not know", remedy)
    return GridEncoder(document["objects"])
