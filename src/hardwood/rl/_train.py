"""`train`: from an environment to an agent."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from hardwood._typing import Float
from hardwood.errors import reject
from hardwood.rl._a2c import a2c
from hardwood.rl._agent import Agent, check_spaces, make_policy
from hardwood.rl._distil import DERIVED, derive
from hardwood.rl._encoders import Encoder
from hardwood.rl._environments import Environments
from hardwood.rl._policy import TreePolicy
from hardwood.rl._ppo import ppo
from hardwood.rl._readable import readable_forest
from hardwood.rl._run import Progress, Run
from hardwood.rl._scale import Scale
from hardwood.rl._settings import Settings, settings_for
from hardwood.train._checkpoint import check_path, check_same, check_tensors, load_checkpoint, save_checkpoint

_PROBE_STEPS = 2_000  # of random actions, from which the scale of observations is learned


def train(
    env: str | Callable[[], Any] | Any,
    *,
    policy: str = "tree",
    algorithm: str = "ppo",
    seed: int = 0,
    target: float | None = None,
    backend: str = "auto",
    encoder: Encoder | None = None,
    actions: Sequence[int] | None = None,
    validation_env: str | Callable[[], Any] | Any = None,
    checkpoint: str | os.PathLike[str] | None = None,
    resume: bool = False,
    on_progress: Callable[[Progress], None] | None = None,
    **settings: Any,
) -> Agent:
    """Train a policy in an environment, and return the agent with the best validation reward.

    Args:
        env: the id of a gymnasium environment, a function that makes one, or a gymnasium vector environment.
        policy: "tree" (SYMPOL), "mlp", "soft-tree"; or a tree made from a trained network or soft tree: "sa-dt"
            (imitation of the network by a greedy tree of `depth` 5, 8, ...), "viper" (the same by Q-DAgger), "d-sdt"
            (the discretised soft tree).
        algorithm: "ppo" or "a2c".
        seed: of everything that is drawn. The same seed gives the same agent on the same machine.
        target: stop as soon as a validation reaches this mean reward.
        backend: see `Environments`.
        encoder: turns observations into rows; needed for images and dictionaries.
        actions: the discrete actions that the policy may take.
        validation_env: for validation, if not `env`; needed with a vector environment.
        checkpoint: a file that is written at every validation.
        resume: go on from that file. Spaces and settings must be those of before, but for `steps`.
        on_progress: called after every iteration.
        settings: see `Settings`; what is not given is what suits the environment.
    """
    distilled = policy if policy in DERIVED else None
    trained_depth = settings.pop("depth", None) if distilled in ("sa-dt", "viper") else None
    kind: Any = policy if distilled is None else DERIVED[distilled]
    sequence = np.random.SeedSequence([seed])
    draws = [int(number) % 2**30 for number in sequence.generate_state(4)]
    chosen = settings_for(_name(env), kind, algorithm, settings)
    environments = Environments(env, chosen.n_envs, draws[0], backend=backend, encoder=encoder, actions=actions)
    if distilled == "viper" and not environments.actions.is_discrete:
        reject("policy", policy, "VIPER is for discrete actions", 'use policy="sa-dt"')
    if validation_env is None and not isinstance(env, str) and not callable(env):
        reject("validation_env", None, "a vector environment trains only", "pass an id or a function to validate with")
    validation = Environments(
        env if validation_env is None else validation_env, chosen.validation_episodes, draws[1], backend=backend,
        encoder=environments.encoder, actions=actions,
    )  # fmt: skip
    check_spaces(environments.actions, environments.encoder, validation, "validation_env")
    rng, generator = np.random.default_rng(draws[2]), torch.Generator().manual_seed(draws[3])
    saved = None
    if checkpoint is not None:
        check_path("checkpoint", checkpoint)
        saved = load_checkpoint(checkpoint) if resume and os.path.exists(checkpoint) else None
    elif resume:
        reject("resume", resume, "there is no checkpoint to go on from", "pass checkpoint='run.safetensors' too")
    identity = _identity(environments, kind, algorithm, seed, chosen)
    if saved is None:
        scale = _learn_scale(environments, rng)
    else:
        _check_resumed(checkpoint, saved[1], identity, environments)
        scale = Scale.from_description(saved[1]["scale"])
    made = make_policy(kind, environments.actions, scale, chosen.as_dict(), generator)

    def write(run: Run) -> None:
        assert checkpoint is not None
        tensors, document = run.state()
        save_checkpoint(checkpoint, tensors, {"run": identity, "scale": scale.describe(), **document})

    run = Run(
        made, chosen, environments, validation, rng, generator, target=target, on_progress=on_progress,
        on_validation=None if checkpoint is None else write,
    )  # fmt: skip
    if saved is not None:
        check_tensors(os.fspath(checkpoint or ""), _parameters(saved[0]), _parameters(run.state()[0]))
        run.restore(*saved)
        # The random numbers go on; the environments cannot, and must not repeat their first episodes.
        environments.reseed((draws[0] + run.steps_done) % 2**30)
    interrupted = False
    try:
        (ppo if algorithm == "ppo" else a2c)(run)
    except KeyboardInterrupt:
        interrupted = True
    finally:
        if isinstance(env, str) or callable(env):
            environments.close()
    run.restore_best()
    encoder = environments.encoder
    about = {
        "algorithm": algorithm, "seed": seed, "steps": run.steps_done, "seconds": run.seconds, "split": run.split,
        "episodes": len(run.collector.episode_returns), "backend": environments.backend, "interrupted": interrupted,
        "best_validation": None if not run.history else run.best_reward,
    }  # fmt: skip
    forest = readable_forest(made, encoder) if isinstance(made, TreePolicy) else None
    agent = Agent(
        kind, environments.name, encoder, environments.actions, forest, made, chosen.as_dict(), run.history, about
    )  # fmt: skip
    if distilled is not None:
        agent = derive(agent, distilled, trained_depth, seed=draws[1], env=env, backend=backend)
    validation.close()
    return agent


def _name(env: Any) -> str:
    from hardwood.rl._environments import env_name

    return env_name(env)


def _learn_scale(environments: Environments, rng: np.random.Generator) -> Scale:
    """Look at what random actions lead to. Flags need no look."""
    if environments.encoder.is_flag:
        return Scale.of_flags(len(environments.encoder.names))
    rows = [environments.reset()]
    steps = max(1, _PROBE_STEPS // environments.n_envs)
    rows.extend(environments.step(random_actions(environments, rng)).rows for _ in range(steps))
    seen = np.concatenate(rows)
    return Scale.fit(seen[np.isfinite(seen).all(1)])


def random_actions(environments: Environments, rng: np.random.Generator) -> Float[np.ndarray, "..."] | Any:
    """Draw actions from all that there are."""
    actions, n = environments.actions, environments.n_envs
    if actions.is_discrete:
        return rng.integers(0, actions.n_outputs, n)
    return rng.uniform(actions.low, actions.high, (n, actions.n_outputs))


def _identity(
    environments: Environments, kind: str, algorithm: str, seed: int, settings: Settings
) -> dict[str, Any]:  # fmt: skip
    """Return what must be the same for a training to go on."""
    stay = {name: value for name, value in settings.as_dict().items() if name not in ("steps", "validations")}
    return {
        "env": environments.name, "policy": kind, "algorithm": algorithm, "seed": seed,
        "actions": environments.actions.describe(), "columns": list(environments.encoder.names), **stay,
    }  # fmt: skip


def _check_resumed(path: Any, stored: dict[str, Any], identity: dict[str, Any], environments: Environments) -> None:
    if "run" not in stored:
        from hardwood.train._checkpoint import refuse

        refuse(path, "it is no checkpoint of hardwood.rl", "start anew without resume")
    check_same(path, stored["run"], identity)


def _parameters(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: value for name, value in tensors.items() if name.startswith(("policy.", "critic."))}
