"""`Environments`: several copies of one environment that step together, from gymnasium or EnvPool."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from hardwood._typing import Bool, Float, Int, Shaped
from hardwood.errors import MissingExtraError, reject
from hardwood.rl._actions import Actions, actions_of
from hardwood.rl._encoders import Encoder, GridEncoder, encoder_of
from hardwood.rl._extra import is_installed, optional

BACKENDS = ("auto", "gymnasium", "envpool")
_PURPOSE = "hardwood.rl"


class Step(NamedTuple):
    """What one step of all environments brought."""

    rows: Float[np.ndarray, "envs columns"]  # the encoded observations to act on next
    rewards: Float[np.ndarray, " envs"]
    terminated: Bool[np.ndarray, " envs"]
    truncated: Bool[np.ndarray, " envs"]
    final: dict[int, Float[np.ndarray, " columns"]]  # of environments that were reset in this same step


class Environments:
    """Copies of an environment that step together; observations come as rows, actions go in as a policy chose them.

    An environment whose episode has ended is reset by itself. With `resets_later` (gymnasium's usual way, and
    EnvPool's) that takes a step of its own, which ignores the action: the row before it is the episode's true last one.

    Args:
        env: the id of an environment, a function that makes one, or a gymnasium vector environment.
        n_envs: how many copies; those of a vector environment are its own.
        seed: of the first episodes.
        backend: "envpool", "gymnasium", or "auto": gymnasium's own vectorised environment where there is one (it is
            the faster from about ten copies on), else EnvPool where it is installed and has the id, else gymnasium's
            environments one after another.
        encoder: turns observations into rows; by default chosen by the observation space.
        actions: the discrete actions that the policy may take; by default all, or MiniGrid's that matter.
    """

    def __init__(
        self,
        env: str | Callable[[], Any] | Any,
        n_envs: int = 8,
        seed: int = 0,
        *,
        backend: str = "auto",
        encoder: Encoder | None = None,
        actions: Sequence[int] | None = None,
    ) -> None:
        if backend not in BACKENDS:
            reject("backend", backend, "is not known", "choose one of " + ", ".join(map(repr, BACKENDS)))
        if n_envs < 1:
            reject("n_envs", n_envs, "must be at least 1", "try 8")
        gymnasium = optional("gymnasium", _PURPOSE)
        self.name = env_name(env)
        self._pool = False
        if isinstance(env, gymnasium.vector.VectorEnv):
            self._envs, n_envs = env, env.num_envs
            self.backend, spaces = "gymnasium", (env.single_observation_space, env.single_action_space)
        elif isinstance(env, str):
            single = make_single(env, **options_for(env, encoder))
            spaces = single.observation_space, single.action_space
            single.close()
            self.backend = _choose_backend(env, backend)
            self._pool = self.backend == "envpool"
            self._envs = _make_pool(env, n_envs, seed) if self._pool else _make_vector(env, n_envs, encoder)
        elif callable(env):
            if backend == "envpool":
                reject("backend", backend, "EnvPool has environments by id only", 'use backend="gymnasium"')
            self.backend, self._envs = "gymnasium", gymnasium.vector.SyncVectorEnv([env] * n_envs)
            spaces = self._envs.single_observation_space, self._envs.single_action_space
        else:
            reject("env", env, "is no id, no function and no vector environment", 'try env="CartPole-v1"')
        self.n_envs = n_envs
        # How many numbers an observation has, where it is a vector of them.
        shape = getattr(spaces[0], "shape", None)
        self.observation_size = None if shape is None else int(np.prod(shape))
        self.encoder = encoder or encoder_of(spaces[0], self.name)
        self.actions: Actions = actions_of(spaces[1], self.name, actions)
        mode = gymnasium.vector.AutoresetMode
        found = mode.NEXT_STEP if self._pool else self._envs.metadata.get("autoreset_mode", mode.NEXT_STEP)
        if found == mode.DISABLED:
            reject("env", env, "does not reset its environments by itself", "use autoreset_mode NEXT_STEP or SAME_STEP")
        self.resets_later = found == mode.NEXT_STEP
        self._seed: int | None = seed

    def reset(self) -> Float[np.ndarray, "envs columns"]:
        """Begin an episode everywhere; the first call uses the seed."""
        if self._pool:
            observations, _ = self._envs.reset()
        else:
            observations, _ = self._envs.reset(seed=self._seed)
        self._seed = None
        return self._rows(observations)

    def reseed(self, seed: int) -> None:
        """Let the next `reset` begin other episodes than those of the first seed."""
        self._seed = seed
        if self._pool:
            self._envs = _make_pool(self.name, self.n_envs, seed)

    def step(self, chosen: Int[np.ndarray, " envs"] | Float[np.ndarray, "envs numbers"]) -> Step:
        """Take one action everywhere."""
        taken: Shaped[np.ndarray, "..."] = self.actions.to_environment(chosen)
        if self._pool and self.actions.is_discrete:
            taken = taken.astype(np.int32)
        observations, rewards, terminated, truncated, infos = self._envs.step(taken)
        final: dict[int, Any] = {}
        if not self.resets_later and (terminated.any() or truncated.any()):
            for index in np.flatnonzero(infos["_final_obs"]).tolist():
                final[index] = self.encoder.encode_one(infos["final_obs"][index])[0]
        rewards = np.asarray(rewards, np.float64)
        return Step(self._rows(observations), rewards, np.asarray(terminated), np.asarray(truncated), final)

    def close(self) -> None:
        """Free what the environments hold."""
        if not self._pool:
            self._envs.close()

    def _rows(self, observations: Any) -> Float[np.ndarray, "envs columns"]:
        return self.encoder.encode(observations)


def env_name(env: Any) -> str:
    """Return what an environment is called."""
    if isinstance(env, str):
        return env
    spec = getattr(env, "spec", None)
    return str(getattr(spec, "id", None) or getattr(env, "__name__", type(env).__name__))


def make_single(env: str | Callable[..., Any], **options: Any) -> Any:
    """Make one gymnasium environment; an unknown one is refused with gymnasium's own suggestion."""
    gymnasium = optional("gymnasium", _PURPOSE)
    if not isinstance(env, str):
        return env(**options)
    if env.startswith(("MiniGrid-", "BabyAI-")):
        optional("minigrid", f"the environment {env!r}")
    try:
        return gymnasium.make(env, **options)
    except gymnasium.error.DependencyNotInstalled as error:
        raise MissingExtraError(f'the environment {env!r} cannot be made: {error}; or "hardwood[rl]"') from error
    except (gymnasium.error.UnregisteredEnv, gymnasium.error.DeprecatedEnv) as error:
        reject("env", env, f"gymnasium does not know it ({error})", 'pass an id such as "CartPole-v1", or a function')


def _choose_backend(env: str, backend: str) -> str:
    if backend == "gymnasium":
        return backend
    gymnasium = optional("gymnasium", _PURPOSE)
    if backend == "auto" and (gymnasium.spec(env).vector_entry_point is not None or not is_installed("envpool")):
        return "gymnasium"
    envpool = optional("envpool", 'backend="envpool"')
    if env in envpool.list_all_envs():
        return "envpool"
    if backend == "envpool":
        reject("env", env, "EnvPool does not have it", 'use backend="gymnasium"')
    return "gymnasium"


def _make_pool(env: str, n_envs: int, seed: int) -> Any:
    envpool = optional("envpool", 'backend="envpool"')
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about bounds of float64 that EnvPool rounds to float32
        pool = envpool.make_gymnasium(env, num_envs=n_envs, num_threads=1, seed=seed % 2**31)
        _ = pool.observation_space, pool.action_space  # made when they are first asked for
        return pool


def options_for(env: Any, encoder: Encoder | None) -> dict[str, Any]:
    """Let MiniGrid show no more than the 3 x 3 fields that are read (E.3): nearly three times as fast as its 7 x 7."""
    reads_three = encoder is None or isinstance(encoder, GridEncoder)
    return {"agent_view_size": 3} if isinstance(env, str) and env.startswith("MiniGrid-") and reads_three else {}


def _make_vector(env: str, n_envs: int, encoder: Encoder | None) -> Any:
    gymnasium = optional("gymnasium", _PURPOSE)
    mode = "vector_entry_point" if gymnasium.spec(env).vector_entry_point is not None else "sync"
    return gymnasium.make_vec(env, num_envs=n_envs, vectorization_mode=mode, **options_for(env, encoder))
