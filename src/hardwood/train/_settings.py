"""`TrainingSettings`: everything about training that is not the model, the data or the loss."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from hardwood.errors import reject

Optimizer = Literal["adam", "adamw", "qhadam"]
Schedule = Literal["constant", "cosine", "plateau"]
Averaging = Literal["none", "ema", "checkpoints"]
OPTIMIZERS: tuple[Optimizer, ...] = ("adam", "adamw", "qhadam")
SCHEDULES: tuple[Schedule, ...] = ("constant", "cosine", "plateau")
AVERAGINGS: tuple[Averaging, ...] = ("none", "ema", "checkpoints")


@dataclass(frozen=True)
class TrainingSettings:
    """How a model is trained. One object serves many calls of `fit`.

    An evaluation takes place after every epoch, or every `evaluate_every` steps. Patience, plateaus, averaged
    checkpoints and callbacks count evaluations.

    Args:
        max_epochs: passes over the rows, at most.
        batch_size: rows a step; the last batch of an epoch takes what is left. All rows at once when they are no more.
        replace: draw the rows of an epoch with replacement.
        optimizer: "adam", "adamw" with decoupled weight decay, or "qhadam", Quasi-Hyperbolic Adam.
        learning_rate: of parameters that none of the next five names.
        split_logits_rate, thresholds_rate, leaf_values_rate, leaf_weights_rate, missing_logits_rate: learning rates of
            the parameters with these names; None takes `learning_rate`.
        part_rates: learning rates of parts of the model by the beginning of their parameters' names, such as
            `(("encoder", 1e-4),)`; they come before all other rates, the longest beginning first.
        betas: decay of Adam's two averages.
        nus: shares of the averages in a step of "qhadam".
        weight_decay: Adam's L2 penalty, or AdamW's decay.
        max_gradient_norm: longer gradients are scaled down to this; of each tree by itself when trees are restarts.
        schedule: "constant"; "cosine" falls to 0 at the last step; "plateau" lowers the rate when the validation loss
            has not improved for `plateau_patience` evaluations.
        warmup_epochs: the rate climbs linearly from near 0 over this many epochs first.
        plateau_patience, plateau_factor: of "plateau".
        averaging: the parameters that are evaluated and kept: "none", the last ones; "ema", an exponential moving
            average over steps; "checkpoints", the mean over the last `averaged_checkpoints` evaluations.
        ema_decay, averaged_checkpoints: of the averages.
        tree_dropout: share of trees that each step leaves out, drawn anew; the model must take a `tree_mask`.
        patience: stop when the validation loss has not improved for this many evaluations; None never does.
        tolerance: what it has to improve by, over these evaluations, to count. The best parameters are kept anyhow.
        evaluate_every: steps between evaluations; None evaluates after each epoch.
        max_seconds: stop, after an evaluation, when training has taken this long.
        checkpoint_seconds: time between checkpoints, at least; 0 writes one after every evaluation.
        random_state: seed of the shuffles and of dropout.
    """

    max_epochs: int = 1000
    batch_size: int = 256
    replace: bool = False
    optimizer: Optimizer = "adam"
    learning_rate: float = 0.01
    split_logits_rate: float | None = None
    thresholds_rate: float | None = None
    leaf_values_rate: float | None = None
    leaf_weights_rate: float | None = None
    missing_logits_rate: float | None = None
    part_rates: tuple[tuple[str, float], ...] = ()
    betas: tuple[float, float] = (0.9, 0.999)
    nus: tuple[float, float] = (0.7, 1.0)
    weight_decay: float = 0.0
    max_gradient_norm: float | None = None
    schedule: Schedule = "constant"
    warmup_epochs: float = 0.0
    plateau_patience: int = 10
    plateau_factor: float = 0.5
    averaging: Averaging = "none"
    ema_decay: float = 0.99
    averaged_checkpoints: int = 5
    tree_dropout: float = 0.0
    patience: int | None = None
    tolerance: float = 0.0
    evaluate_every: int | None = None
    max_seconds: float | None = None
    checkpoint_seconds: float = 30.0
    random_state: int = 0

    def __post_init__(self) -> None:
        for name, allowed in (("optimizer", OPTIMIZERS), ("schedule", SCHEDULES), ("averaging", AVERAGINGS)):
            if getattr(self, name) not in allowed:
                reject(name, getattr(self, name), "is not known", "choose one of " + ", ".join(map(repr, allowed)))
        for name in ("max_epochs", "batch_size", "plateau_patience", "averaged_checkpoints"):
            if getattr(self, name) < 1:
                reject(name, getattr(self, name), "must be at least 1", f"pass {name}=1 or more")
        for name in ("patience", "evaluate_every"):
            if getattr(self, name) is not None and getattr(self, name) < 1:
                reject(name, getattr(self, name), "must be at least 1", f"pass {name}=1 or more, or None")
        for name in ("max_gradient_norm", "max_seconds"):
            if getattr(self, name) is not None and not getattr(self, name) > 0:
                reject(name, getattr(self, name), "must be above 0", f"pass a larger {name}, or None for no limit")
        for name in (
            "learning_rate", "split_logits_rate", "thresholds_rate", "leaf_values_rate", "leaf_weights_rate",
            "missing_logits_rate", "weight_decay", "warmup_epochs", "checkpoint_seconds", "tolerance",
        ):  # fmt: skip
            value = getattr(self, name)
            if value is not None and not (0 <= value < math.inf):
                reject(name, value, "must be a number from 0 up", f"pass a finite {name} of 0 or more")
        for name, value in self.part_rates:
            if not (0 <= value < math.inf):
                reject("part_rates", (name, value), "must be a number from 0 up", "pass a finite rate of 0 or more")
        if len(self.betas) != 2 or not all(0 <= beta < 1 for beta in self.betas):
            reject("betas", self.betas, "must be two numbers from 0 up to, but not, 1", "try betas=(0.9, 0.999)")
        if len(self.nus) != 2 or not all(0 <= nu <= 1 for nu in self.nus):
            reject("nus", self.nus, "must be two numbers from 0 to 1", "try nus=(0.7, 1.0)")
        for name, suggestion in (("plateau_factor", 0.5), ("ema_decay", 0.99)):
            if not 0 < getattr(self, name) < 1:
                reject(name, getattr(self, name), "must lie between 0 and 1", f"try {name}={suggestion}")
        if not 0 <= self.tree_dropout < 1:
            reject("tree_dropout", self.tree_dropout, "must be at least 0 and below 1", "try tree_dropout=0.2")
        if not 0 <= self.random_state < 2**63:
            reject("random_state", self.random_state, "must be an integer from 0 to 2**63 - 1", "pass random_state=0")
