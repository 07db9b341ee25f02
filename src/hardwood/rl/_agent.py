"""`Agent`: a trained policy with all that is needed to act in its environment, and the tree that it is."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from hardwood import __version__
from hardwood._typing import Float, Shaped
from hardwood.errors import ForestFileError, reject
from hardwood.forest import Forest, load
from hardwood.rl._acting import Actor, ForestActor
from hardwood.rl._actions import Actions
from hardwood.rl._encoders import Encoder, NumberEncoder, encoder_from
from hardwood.rl._environments import Environments
from hardwood.rl._evaluate import cohens_d, episode_returns
from hardwood.rl._policy import MLPPolicy, Policy, SoftTreePolicy, TreePolicy
from hardwood.rl._readable import readable_forest
from hardwood.rl._scale import Scale

FOREST, POLICY, DESCRIPTION = "forest.safetensors", "policy.safetensors", "agent.json"
_FORMAT, _VERSION = "hardwood agent", 1


@dataclass(frozen=True)
class InformationLoss:
    """What became of a trained policy on the way to what is used in its place."""

    trained: Float[np.ndarray, " episodes"]  # rewards of the policy as it was trained
    applied: Float[np.ndarray, " episodes"]  # rewards of the forest that is exported
    decisions: int
    different: int  # of them, where the two would not have done the same

    @property
    def cohens_d(self) -> float:
        """How many deviations lie between the two (Table 6.3)."""
        return cohens_d(self.trained, self.applied)


@dataclass
class Agent:
    """A policy, the environment that it is for, and how it came about. `hardwood.rl.train` makes them.

    `kind` is "tree", "mlp", "soft-tree", or a tree made from one of the others: "d-sdt", "sa-dt", "viper". `forest` is
    the hard tree on raw observations, pruned; None for networks and soft trees. `policy` is what was trained.
    """

    kind: str
    env: str
    encoder: Encoder
    actions: Actions
    forest: Forest | None
    policy: Policy | None
    settings: dict[str, Any] = field(default_factory=dict)
    history: list[dict[str, Any]] = field(default_factory=list)
    about: dict[str, Any] = field(default_factory=dict)  # seed, algorithm, steps, seconds and where they went

    @property
    def actor(self) -> Actor:
        """What acts: the exported forest where there is one."""
        if self.forest is not None:
            return ForestActor(self.actions, self.forest)
        assert self.policy is not None
        return self.policy.actor()

    def act(self, observation: Any) -> Any:
        """Return the best action for one observation of the environment, as the environment takes it."""
        chosen: Shaped[np.ndarray, "..."] = self.actor.greedy(self.encoder.encode_one(observation))
        taken = self.actions.to_environment(chosen)[0]
        return int(taken) if self.actions.is_discrete else taken

    def evaluate(
        self, episodes: int = 25, *, seed: int = 0, env: Any = None, backend: str = "gymnasium"
    ) -> Float[np.ndarray, " episodes"]:
        """Return the undiscounted reward of each of some episodes, which differ from those of training."""
        environments = self._environments(episodes, seed, env, backend)
        try:
            return episode_returns(environments, self.actor)[0]
        finally:
            environments.close()

    def information_loss(
        self, episodes: int = 25, *, seed: int = 0, env: Any = None, backend: str = "gymnasium"
    ) -> InformationLoss:
        """Compare the trained policy with the exported forest: rewards, and decisions one by one.

        Both begin the same episodes. A tree policy is its forest: no decision differs.
        """
        if self.policy is None or self.forest is None:
            missing = "forest" if self.forest is None else "policy"
            reject(
                "agent", self.kind, f"has no {missing} to compare", "take the agent that `train` returned, of a tree"
            )
        results = []
        for actor, other in ((self.policy.actor(), self.actor), (self.actor, None)):
            environments = self._environments(episodes, seed, env, backend)
            results.append(episode_returns(environments, actor, other))
            environments.close()
        return InformationLoss(results[0][0], results[1][0], results[0][1], results[0][2])

    def _environments(self, episodes: int, seed: int, env: Any, backend: str) -> Environments:
        if episodes < 1:
            reject("episodes", episodes, "must be at least 1", "try 25")
        # Far from the seeds of training and validation, whatever those are.
        far = int(np.random.SeedSequence([seed, 0x7E57]).generate_state(1)[0]) % 2**30
        codes = self.actions.codes or None
        made = Environments(
            self.env if env is None else env, episodes, far, backend=backend, encoder=self.encoder, actions=codes
        )  # fmt: skip
        self.check_environments(made)
        return made

    def check_environments(self, environments: Environments, argument: str = "env") -> None:
        """Refuse environments whose spaces are not those that the policy was trained in."""
        check_spaces(self.actions, self.encoder, environments, argument)

    # ------------------------------------------------------------------ files

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a folder: `agent.json`, `policy.safetensors` and, where there is a tree, `forest.safetensors`.

        `hardwood.load` reads the forest alone. The folder must be new, or hold an agent, which is then replaced.
        """
        from hardwood.train._checkpoint import save_checkpoint

        folder = Path(os.path.realpath(path))
        check_folder(folder)
        fresh = folder.with_name(f".{folder.name}.{os.getpid()}.tmp")
        fresh.mkdir()
        try:
            text = json.dumps(self._document(), indent=2) + "\n"
            (fresh / DESCRIPTION).write_text(text, encoding="utf-8")
            if self.policy is not None:
                digest = hashlib.sha256(text.encode()).hexdigest()
                save_checkpoint(fresh / POLICY, dict(self.policy.state_dict()), {"agent": digest})
            if self.forest is not None:
                self.forest.save(fresh / FOREST)
            if folder.exists():
                shutil.rmtree(folder)
            fresh.rename(folder)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)

    def _document(self) -> dict[str, Any]:
        return {
            "format": _FORMAT, "format_version": _VERSION, "hardwood": __version__, "kind": self.kind, "env": self.env,
            "encoder": self.encoder.describe(), "actions": self.actions.describe(),
            "policy": None if self.policy is None else self.policy.kind,
            "scale": None if self.policy is None else self.policy.scale.describe(),
            "settings": self.settings, "history": self.history, "about": self.about,
        }  # fmt: skip


def check_folder(folder: Path) -> None:
    """Refuse a place where no agent can be written."""
    if not folder.parent.is_dir():
        reject("path", str(folder), "lies in a folder that does not exist", "create that folder first")
    if folder.exists() and not folder.is_dir():
        reject("path", str(folder), "is a file", "pass the name of a folder")
    if folder.exists():
        others = {entry.name for entry in folder.iterdir()} - {FOREST, POLICY, DESCRIPTION}
        if others:
            reject("path", str(folder), f"holds other files, such as {sorted(others)[0]!r}", "pass a new folder")


def check_spaces(actions: Actions, encoder: Encoder, environments: Environments, argument: str) -> None:
    """Refuse environments that do not fit actions and columns."""
    name = environments.name
    if environments.actions.is_discrete != actions.is_discrete or (
        environments.actions.codes, environments.actions.low, environments.actions.high
    ) != (actions.codes, actions.low, actions.high):  # fmt: skip
        was, now = actions.describe(), environments.actions.describe()
        reject(argument, name, f"its actions are {now}, and the policy's are {was}", "use the environment of training")
    if environments.encoder.names != encoder.names:
        was_columns, now_columns = len(encoder.names), len(environments.encoder.names)
        problem = f"its observations have {now_columns} columns, and the policy was trained on {was_columns}"
        if was_columns == now_columns:
            problem = "the columns of its observations have other names than those of training"
        reject(argument, name, problem, "use the environment of training")
    if type(encoder) is NumberEncoder and environments.observation_size not in (None, len(encoder.names)):
        problem = f"its observations have {environments.observation_size} numbers, not {len(encoder.names)}"
        reject(argument, name, problem, "use the environment of training")


def make_policy(
    kind: str, actions: Actions, scale: Scale, settings: dict[str, Any], generator: Any = None
) -> Policy:  # fmt: skip
    """Return an untrained policy."""
    if kind == "tree":
        return TreePolicy(
            actions, scale, depth=settings["depth"], log_std=settings["log_std"], generator=generator
        )  # fmt: skip
    if kind == "mlp":
        return MLPPolicy(
            actions, scale, width=settings["width"], n_layers=settings["n_layers"], log_std=settings["log_std"],
            generator=generator,
        )  # fmt: skip
    return SoftTreePolicy(
        actions, scale, depth=settings["depth"], temperature=settings["temperature"], log_std=settings["log_std"],
        generator=generator,
    )  # fmt: skip


def load_agent(path: str | os.PathLike[str], *, encoder: Encoder | None = None) -> Agent:
    """Read an agent's folder. Nothing in it is executed; what does not fit together ends in `ForestFileError`.

    `encoder` is needed if the agent was trained with an encoder of one's own.
    """
    import torch

    from hardwood.train import CheckpointError
    from hardwood.train._checkpoint import load_checkpoint

    folder = Path(path)
    if not (folder / DESCRIPTION).is_file():
        reject("path", os.fspath(path), f"holds no {DESCRIPTION}", "pass a folder that `hardwood rl train` wrote")
    text = (folder / DESCRIPTION).read_text(encoding="utf-8")
    try:
        document = json.loads(text)
        if document["format"] != _FORMAT:
            raise ForestFileError(f"{str(folder)!r} describes no hardwood agent")
        if document["format_version"] != _VERSION:
            version = document["format_version"]
            raise ForestFileError(f"{str(folder)!r} has format version {version!r}; upgrade hardwood")
        actions = Actions.from_description(document["actions"])
        columns = encoder or encoder_from(document["encoder"])
        policy = None
        if document["policy"] is not None:
            tensors, stored = load_checkpoint(folder / POLICY)
            if stored["agent"] != hashlib.sha256(text.encode()).hexdigest():
                raise ForestFileError(f"{str(folder)!r} cannot be read: {DESCRIPTION} was altered; train again")
            generator = torch.Generator().manual_seed(0)
            scale = Scale.from_description(document["scale"])
            policy = make_policy(document["policy"], actions, scale, document["settings"], generator)
            policy.load_state_dict(tensors)
        forest = load(folder / FOREST) if (folder / FOREST).is_file() else None
        agent = Agent(
            document["kind"], document["env"], columns, actions, forest, policy, document["settings"],
            document["history"], document["about"],
        )  # fmt: skip
    except (KeyError, TypeError, AttributeError, ValueError, RuntimeError, CheckpointError) as error:
        if isinstance(error, (ForestFileError,)):
            raise
        problem = f"{str(folder)!r} cannot be read: {error}; train again with `hardwood rl train`"
        raise ForestFileError(problem) from None
    if forest is None and (policy is None or agent.kind not in ("mlp", "soft-tree")):
        raise ForestFileError(f"{str(folder)!r} cannot be read: {FOREST} is missing; train again")
    if isinstance(policy, TreePolicy) and readable_forest(policy, columns) != forest:
        raise ForestFileError(f"{str(folder)!r} cannot be read: its forest is not its policy; train again")
    return agent
