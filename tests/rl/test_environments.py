"""Environments: every way to name them, the same rows and rewards, and clear words for what cannot work."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from hardwood import rl
from hardwood.errors import InvalidArgumentError
from helpers.environments import needs_envpool


class Own(gymnasium.Env):
    """An environment of given spaces, whose episodes end after three steps."""

    def __init__(self, observation_space: Any, action_space: Any) -> None:
        self.observation_space, self.action_space, self._left = observation_space, action_space, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self._left = 3
        self.observation_space.seed(seed or 0)
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> Any:
        assert self.action_space.contains(action), action
        self._left -= 1
        return self.observation_space.sample(), 1.0, False, self._left == 0, {}


BOX = gymnasium.spaces.Box(-1, 1, (2,), np.float32)
TWO = gymnasium.spaces.Discrete(2)


@pytest.mark.parametrize(
    ("env", "options", "message"),
    [
        ("CartPol-v1", {}, r"env='CartPol-v1': gymnasium does not know it .*CartPole.*"),
        ("CartPole-v1", {"backend": "envpol"}, "backend='envpol': is not known"),
        ("CartPole-v1", {"n_envs": 0}, "n_envs=0"),
        (3, {}, "env=3: is no id, no function"),
        ("CartPole-v1", {"actions": [0, 5]}, r"actions=\[0, 5\]: must be some of"),
        ("Pendulum-v1", {"actions": [0]}, r"actions=\[0\]: the environment's actions are numbers"),
        (
            lambda: Own(gymnasium.spaces.Box(0, 255, (8, 8, 3), np.uint8), TWO),
            {},
            "are images or tables.*pass encoder=",
        ),
        (lambda: Own(gymnasium.spaces.Dict({"a": BOX, "b": TWO}), TWO), {}, "Dict observations.*FlattenObservation"),
        (lambda: Own(gymnasium.spaces.Tuple((BOX, TWO)), TWO), {}, "Tuple observations"),
        (lambda: Own(BOX, gymnasium.spaces.MultiDiscrete([2, 3])), {}, "MultiDiscrete actions are not supported"),
        (lambda: Own(BOX, gymnasium.spaces.Box(-np.inf, np.inf, (1,))), {}, "has no bounds.*RescaleAction"),
        (lambda: Own(BOX, gymnasium.spaces.Box(-1, 1, (1, 2))), {}, "is not one-dimensional"),
        (lambda: Own(BOX, TWO), {"backend": "envpool"}, "by id only"),
    ],
)
def test_what_cannot_work_is_refused(env: Any, options: dict[str, Any], message: str):
    with pytest.raises(InvalidArgumentError, match=message):
        rl.Environments(env, **{"n_envs": 2, **options})


def test_a_vector_environment_that_does_not_reset_is_refused():
    vector = SyncVectorEnv([lambda: Own(BOX, TWO)], autoreset_mode=AutoresetMode.DISABLED)
    with pytest.raises(InvalidArgumentError, match="does not reset its environments"):
        rl.Environments(vector)


def test_both_ways_to_reset_give_the_same_experience():
    """With next-step and same-step resets, episodes have the same lengths and true last rows."""
    found = {}
    for mode in (AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP):
        vector = SyncVectorEnv([lambda: Own(BOX, TWO)] * 2, autoreset_mode=mode)
        envs = rl.Environments(vector)
        envs.reset()
        lasts = []
        for _ in range(9):
            step = envs.step(np.array([0, 1]))
            lasts += [
                step.rows[env] if envs.resets_later else step.final[env]
                for env in np.flatnonzero(step.truncated).tolist()
            ]
        found[mode] = (len(lasts), lasts[0])
    assert found[AutoresetMode.NEXT_STEP][0] == 4 and found[AutoresetMode.SAME_STEP][0] == 6
    np.testing.assert_array_equal(found[AutoresetMode.NEXT_STEP][1], found[AutoresetMode.SAME_STEP][1])


@pytest.mark.parametrize(
    ("space", "names", "one", "row"),
    [
        (gymnasium.spaces.Discrete(3, start=5), ("state = 5", "state = 6", "state = 7"), 6, [0, 1, 0]),
        (
            gymnasium.spaces.MultiDiscrete([2, 2]),
            ("state 0 = 0", "state 0 = 1", "state 1 = 0", "state 1 = 1"),
            np.array([1, 0]),
            [0, 1, 1, 0],
        ),
        (gymnasium.spaces.MultiBinary(1), ("state = 0", "state = 1"), np.array([1], np.int8), [0, 1]),
        (BOX, ("x0", "x1"), np.array([0.5, -0.25], np.float32), [0.5, -0.25]),
    ],
)
def test_observations_become_named_columns(space: Any, names: tuple[str, ...], one: Any, row: list[float]):
    envs = rl.Environments(lambda: Own(space, TWO), 3)
    assert envs.encoder.names == names
    assert envs.reset().shape == (3, len(names))
    np.testing.assert_array_equal(envs.encoder.encode_one(one), [row])
    from hardwood.rl._encoders import encoder_from

    again = encoder_from(envs.encoder.describe())
    assert again.names == names
    np.testing.assert_array_equal(again.encode_one(one), [row])


def test_actions_go_in_as_the_environment_takes_them():
    envs = rl.Environments(lambda: Own(BOX, gymnasium.spaces.Discrete(3, start=4)), 2, actions=[6, 4])
    assert envs.actions.names == ("action 6", "action 4")
    np.testing.assert_array_equal(envs.actions.to_environment(np.array([0, 1])), [6, 4])
    envs.reset()
    envs.step(np.array([0, 1]))
    box = rl.Environments(lambda: Own(BOX, gymnasium.spaces.Box(-2, 3, (1,))), 2)
    np.testing.assert_array_equal(box.actions.to_environment(np.array([[-9.0], [0.5]])), [[-2.0], [0.5]])
    assert (box.actions.middle, box.actions.half) == (0.5, 2.5)


@needs_envpool
def test_minigrid_as_envpool_and_as_minigrid_show_it():
    """The same names, the same flags for the same view; a door is told apart by its state."""
    pool = rl.Environments("MiniGrid-DoorKey-5x5-v0", 4, 0, backend="envpool")
    own = rl.Environments("MiniGrid-DoorKey-5x5-v0", 4, 0, backend="gymnasium")
    assert pool.encoder.names == own.encoder.names
    assert pool.actions.names == ("turn left", "turn right", "move forward", "pick up", "toggle")
    assert len(pool.encoder.names) == 8 * 7 + 1
    for envs in (pool, own):
        rows = [envs.reset()]
        rng = np.random.default_rng(0)
        rows += [envs.step(rng.integers(0, 5, 4)).rows for _ in range(300)]
        seen = dict(zip(envs.encoder.names, np.concatenate(rows).mean(0), strict=True))
        for name in ("wall ahead", "empty left", "locked door ahead", "key ahead", "key carried"):
            assert 0 < seen[name] < 1, (envs.backend, name)


def test_the_grid_encoder_reads_minigrids_view():
    import minigrid  # noqa: F401

    env = gymnasium.make("MiniGrid-DistShift1-v0")
    observation, _ = env.reset(seed=0)
    encoder = rl.GridEncoder(("empty", "wall", "goal", "lava"))
    true = {name for name, flag in zip(encoder.names, encoder.encode_one(observation)[0], strict=True) if flag}
    # The agent starts in the corner, looking east along the wall.
    assert true == {
        "wall left", "wall 1 ahead 1 left", "wall 2 ahead 1 left", "empty ahead", "lava 2 ahead", "empty right",
        "empty 1 ahead 1 right", "lava 2 ahead 1 right",
    }  # fmt: skip
    with pytest.raises(InvalidArgumentError, match=r"objects=.*lavva"):
        rl.GridEncoder(["lavva"])
