"""`Run`: one training as it goes: policy, critic, optimiser, environments, validation, checkpoints."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from hardwood._typing import Float, Shaped
from hardwood.rl._environments import Environments
from hardwood.rl._evaluate import episode_returns
from hardwood.rl._policy import Policy, TreePolicy, perceptron
from hardwood.rl._rollout import Collector, RewardScale, advantages_of
from hardwood.rl._schedule import Plateau, halve_rates
from hardwood.rl._settings import Settings
from hardwood.train import TrainingDivergedError
from hardwood.train._adam import CompiledAdamW
from hardwood.train._optimizers import clip_gradients


class Experience(NamedTuple):
    """A rollout ready to learn from: the steps of all environments as rows."""

    scaled: Float[Tensor, "rows columns"]
    chosen: Shaped[Tensor, "..."]
    log_probs: Float[Tensor, " rows"]
    advantages: Float[Tensor, " rows"]
    returns: Float[Tensor, " rows"]


@dataclass(frozen=True)
class Progress:
    """How far a training is. Rewards are sums over episodes."""

    steps: int
    total_steps: int
    episodes: int
    reward: float | None  # mean of the last 100 training episodes
    validation: float | None  # of the last validation
    best: float | None  # best validation so far
    steps_per_second: float
    seconds_left: float
    validated: bool  # whether the validation is new


class Run:
    """Everything that the algorithms share; `ppo` and `a2c` say in which order it happens."""

    def __init__(
        self,
        policy: Policy,
        settings: Settings,
        environments: Environments,
        validation: Environments,
        rng: np.random.Generator,
        generator: torch.Generator,
        *,
        target: float | None = None,
        on_progress: Callable[[Progress], None] | None = None,
        on_validation: Callable[[Run], None] | None = None,
    ) -> None:
        self.policy, self.settings, self.rng = policy, settings, rng
        self.critic: nn.Sequential = perceptron(
            len(policy.scale.mean), 1, settings.critic_width, settings.critic_layers, 1.0, generator
        )
        self.optimizer = CompiledAdamW(parameter_groups(policy, self.critic, settings))
        self.collector = Collector(environments, rng, settings.hold_noise)
        self.reward_scale = RewardScale(settings.gamma)
        self.plateau = Plateau(settings.patience)
        self.validation_environments = validation
        self.target, self.on_progress, self.on_validation = target, on_progress, on_validation
        self.steps_done = 0
        self.update_seconds = self.validation_seconds = 0.0
        self.seconds_before = 0.0  # of the parts of this training before it was resumed
        self.history: list[dict[str, Any]] = []
        self.best: dict[str, Tensor] = {}
        self.best_reward = -math.inf
        self._started, self._steps_before = time.perf_counter(), 0
        self._reached = False
        self._rate_share = 1.0

    # ------------------------------------------------------------------ what the algorithms call

    @property
    def is_over(self) -> bool:
        """Whether the steps are used up, or the target is reached."""
        return self._reached or self.steps_done >= self.settings.steps

    @property
    def entropy_weight(self) -> float:
        """The weight of the entropy bonus now."""
        first, last = self.settings.entropy, self.settings.entropy_end
        return first if last is None else first + (last - first) * self._done

    @property
    def hold_noise(self) -> int:
        """For how many steps a leaf keeps its draw of exploration now."""
        first, last = self.settings.hold_noise, self.settings.hold_noise_end
        return first if last is None else round(first * (last / first) ** self._done)

    @property
    def _done(self) -> float:
        return min(1.0, self.steps_done / self.settings.steps)

    def collect(self, steps: int) -> Experience:
        """Act for `steps` steps everywhere, and compare what came of it with what the critic expected."""
        settings, envs = self.settings, self.collector.environments
        self.collector.hold_noise = self.hold_noise
        left = -(-(settings.steps - self.steps_done) // envs.n_envs)
        rollout = self.collector.collect(self.policy.actor(), max(1, min(steps, left)))
        self.steps_done += rollout.rewards.size
        with self.updating():
            n_columns = rollout.rows.shape[2]
            scaled = self.policy.scale.transform(rollout.rows.reshape(-1, n_columns))
            values = self._values(scaled).reshape(rollout.rows.shape[:2])
            final_values = np.zeros(rollout.rewards.shape)
            if rollout.final:
                last = self.policy.scale.transform(np.stack(list(rollout.final.values())))
                for place, value in zip(rollout.final, self._values(last), strict=True):
                    final_values[place] = value
            unit = self.reward_scale.update(rollout) if settings.scale_rewards else 1.0
            advantages = advantages_of(
                rollout, values, final_values, rollout.rewards / unit, envs.resets_later, settings.gamma,
                settings.gae_lambda,
            )  # fmt: skip
            keep = np.flatnonzero(rollout.valid)
            chosen = rollout.chosen.reshape(rollout.rewards.size, *rollout.chosen.shape[2:])[keep]
            numbers = [rollout.log_probs, advantages, advantages + values[:-1]]
            return Experience(
                torch.from_numpy(scaled[: rollout.rewards.size][keep]),
                torch.from_numpy(chosen if chosen.ndim == 1 else chosen.astype(np.float32)),
                *(torch.from_numpy(each.reshape(-1)[keep].astype(np.float32)) for each in numbers),
            )

    def step(self, loss: Float[Tensor, ""]) -> None:
        """Move all parameters along their gradients."""
        if not math.isfinite(loss.item()):
            self.restore_best()
            raise TrainingDivergedError(
                f"the loss became {loss.item()} after {self.steps_done:,} steps; lower the learning rates or set "
                "max_grad_norm=0.5"
            )
        if self.settings.max_grad_norm is not None:
            for module in (self.policy, self.critic):
                clip_gradients(list(module.parameters()), self.settings.max_grad_norm, by_tree=False)
        self.optimizer.step()

    @contextlib.contextmanager
    def updating(self) -> Iterator[None]:
        """Count the time inside as time of the update."""
        start = time.perf_counter()
        yield
        self.update_seconds += time.perf_counter() - start

    def finish_iteration(self) -> None:
        """Lower the rates as far as they are to come down by now, validate when it is time, and report."""
        share = 1 + (self.settings.rate_end - 1) * self._done
        if share != self._rate_share:
            for group in self.optimizer.param_groups:
                group["lr"] *= share / self._rate_share
            self._rate_share = share
        due = len(self.history) * self.settings.steps // self.settings.validations
        validated = self.steps_done >= due or self.steps_done >= self.settings.steps
        if validated:
            self._validate()
        if self.on_progress is not None:
            self.on_progress(self._progress(validated))
        if validated and self.on_validation is not None:
            self.on_validation(self)

    # ------------------------------------------------------------------ validation

    def _validate(self) -> None:
        start = time.perf_counter()
        returns, _, _ = episode_returns(self.validation_environments, self.policy.actor())
        reward = float(returns.mean())
        if reward >= self.best_reward:  # of equals the later one, which has seen more
            self.best_reward = reward
            self.best = {name: value.detach().clone() for name, value in self.policy.state_dict().items()}
        if self.plateau.step(reward) and self.settings.reduce_rate:
            halve_rates(self.optimizer)
        self._reached = self.target is not None and reward >= self.target
        recent = self.collector.episode_returns[-100:]
        self.history.append(
            {
                "steps": self.steps_done, "reward": float(np.mean(recent)) if recent else None, "validation": reward,
                "seconds": self.seconds,
            }
        )  # fmt: skip
        self.validation_seconds += time.perf_counter() - start

    def restore_best(self) -> None:
        """Go back to the parameters of the best validation."""
        if self.best:
            self.policy.load_state_dict(self.best)

    # ------------------------------------------------------------------ time

    @property
    def seconds(self) -> float:
        """Seconds of training, those before a resumption included."""
        return self.seconds_before + time.perf_counter() - self._started

    @property
    def split(self) -> dict[str, float]:
        """Where the seconds of this process went."""
        collector = self.collector
        return {
            "environment": collector.environment_seconds, "policy": collector.policy_seconds,
            "update": self.update_seconds, "validation": self.validation_seconds,
        }  # fmt: skip

    def _progress(self, validated: bool) -> Progress:
        now = time.perf_counter() - self._started
        speed = (self.steps_done - self._steps_before) / max(now, 1e-9)
        recent = self.collector.episode_returns[-100:]
        return Progress(
            self.steps_done, self.settings.steps, len(self.collector.episode_returns),
            float(np.mean(recent)) if recent else None,
            self.history[-1]["validation"] if self.history else None,
            self.best_reward if self.history else None,
            speed, (self.settings.steps - self.steps_done) / max(speed, 1e-9), validated,
        )  # fmt: skip

    def _values(self, scaled: Float[np.ndarray, "rows columns"]) -> Float[np.ndarray, " rows"]:
        with torch.no_grad():
            rows = torch.from_numpy(scaled)
            parts = [rows[at : at + 16_384] for at in range(0, len(rows), 16_384)]
            return torch.cat([self.critic(part)[:, 0] for part in parts]).double().numpy()

    # ------------------------------------------------------------------ checkpoints

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Return what a checkpoint holds."""
        tensors = {f"policy.{name}": value for name, value in self.policy.state_dict().items()}
        tensors |= {f"critic.{name}": value for name, value in self.critic.state_dict().items()}
        tensors |= {f"best.{name}": value for name, value in self.best.items()}
        stored = self.optimizer.state_dict()
        for index, entries in stored["state"].items():
            tensors |= {f"optimizer.{index}.{name}": value for name, value in entries.items()}
        document = {
            "steps_done": self.steps_done, "history": self.history, "plateau": asdict(self.plateau),
            "best_reward": None if math.isinf(self.best_reward) else self.best_reward,
            "rates": [group["lr"] for group in self.optimizer.param_groups],
            "rate_share": self._rate_share,
            "rng": self.rng.bit_generator.state, "seconds": self.seconds,
            "reward_scale": [self.reward_scale.count, self.reward_scale.mean, self.reward_scale.square],
            "episode_returns": self.collector.episode_returns[-100:],
        }  # fmt: skip
        return tensors, document

    def restore(self, tensors: dict[str, Tensor], document: dict[str, Any]) -> None:
        """Go on from a checkpoint. Episodes that were running then are not part of it: new ones begin."""

        def part(name: str) -> dict[str, Tensor]:
            return {key[len(name) :]: value for key, value in tensors.items() if key.startswith(name)}

        self.policy.load_state_dict(part("policy."))
        self.critic.load_state_dict(part("critic."))
        self.best = part("best.")
        stored = self.optimizer.state_dict()
        for name, value in part("optimizer.").items():
            index, _, entry = name.partition(".")
            stored["state"].setdefault(int(index), {})[entry] = value
        self.optimizer.load_state_dict(stored)
        for group, rate in zip(self.optimizer.param_groups, document["rates"], strict=True):
            group["lr"] = rate
        self.steps_done = self._steps_before = document["steps_done"]
        self._rate_share = document["rate_share"]
        self.history, self.plateau = document["history"], Plateau(**document["plateau"])
        best = document["best_reward"]
        self.best_reward = -math.inf if best is None else best
        self.rng.bit_generator.state = document["rng"]
        self.seconds_before = document["seconds"]
        self.reward_scale.count, self.reward_scale.mean, self.reward_scale.square = document["reward_scale"]
        self.collector.episode_returns = list(document["episode_returns"])


def parameter_groups(policy: Policy, critic: nn.Module, settings: Settings) -> list[dict[str, Any]]:
    """Return the optimiser's groups: a rate for each kind of parameter, and decay on all of a tree but thresholds."""
    groups: list[dict[str, Any]] = []

    def add(parameters: list[nn.Parameter], rate: float, decay: float) -> None:
        groups.append({"params": parameters, "lr": rate, "weight_decay": decay})

    if isinstance(policy, TreePolicy):
        layer = policy.layer
        add([layer.split_logits], settings.split_rate, settings.weight_decay)
        add([layer.thresholds], 0.0 if policy.scale.is_of_flags else settings.threshold_rate, 0.0)
        add([layer.leaf_values], settings.leaf_rate, settings.weight_decay)
    else:
        own = [parameter for name, parameter in policy.named_parameters() if name != "log_std"]
        add(own, settings.learning_rate, 0.0)
    if policy.log_std is not None:
        add([policy.log_std], settings.log_std_rate, settings.weight_decay)
    add(list(critic.parameters()), settings.critic_rate, 0.0)
    return groups
