"""What a checkpoint of training holds, and how training goes on from one."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from hardwood.train._checkpoint import check_same, check_tensors, load_checkpoint, save_checkpoint
from hardwood.train._history import History
from hardwood.train._losses import CustomLoss, Loss
from hardwood.train._tensors import (
    load_model,
    load_optimizer,
    model_generators,
    model_tensors,
    optimizer_tensors,
    part,
    prefixed,
)

if TYPE_CHECKING:
    from hardwood.train._training import Training
else:
    Training = Any


def write(path: str | os.PathLike[str], training: Training) -> None:
    """Write everything that the next step depends on."""
    tensors = {
        **prefixed("model", model_tensors(training.model)),
        **prefixed("optimizer", optimizer_tensors(training.stepper.optimizer, training.stepper.parameters)),
        **prefixed("schedule", training.schedule.tensors()),
        **prefixed("average", training.average.tensors()),
        **prefixed("best", training.best.tensors()),
        **prefixed("batches", training.feed.tensors()),
        **prefixed("generators", {"dropout": training.dropout.get_state()}),
        **prefixed("generators.model", {n: g.get_state() for n, g in model_generators(training.model).items()}),
    }
    state = training.state
    document = {
        "training": _identity(training),
        "step": state.step,
        "epoch": state.epoch,
        "best_loss": state.best_loss,
        "best_epoch": state.best_epoch,
        "seconds": training.seconds,
        "history": state.history.to_json(),
    }
    save_checkpoint(path, tensors, document)


def resume(path: str | os.PathLike[str], training: Training) -> None:
    """Bring a fresh training to where a checkpoint was written, or raise `CheckpointError` and change nothing."""
    tensors, document = load_checkpoint(path)
    check_same(path, document["training"], _identity(training))
    of_model = {name: tensor for name, tensor in tensors.items() if name.startswith("model.")}
    check_tensors(path, of_model, prefixed("model", model_tensors(training.model)))

    # First, because a stream may turn out to be another one.
    training.feed.load_tensors(part(tensors, "batches"))
    load_model(training.model, part(tensors, "model"))
    load_optimizer(training.stepper.optimizer, training.stepper.parameters, part(tensors, "optimizer"))
    training.schedule.load_tensors(part(tensors, "schedule"))
    training.average.load_tensors(part(tensors, "average"))
    training.best.load_tensors(part(tensors, "best"))
    training.dropout.set_state(tensors["generators.dropout"])
    for name, generator in model_generators(training.model).items():
        generator.set_state(tensors[f"generators.model.{name}"])
    state = training.state
    state.step, state.epoch = document["step"], document["epoch"]
    state.best_loss, state.best_epoch = document["best_loss"], document["best_epoch"]
    state.history.records[:] = History.from_json(document["history"]).records
    state.seconds = document["seconds"]
    training.go_on_from(document["seconds"])


def _identity(training: Training) -> dict[str, Any]:
    """Return what must be the same when training goes on. Limits may change, unless the rates depend on them."""
    settings = asdict(training.settings)
    free = {"max_seconds", "checkpoint_seconds"} | (set() if settings["schedule"] == "cosine" else {"max_epochs"})
    fixed = {name: value for name, value in settings.items() if name not in free}
    identity = {
        **fixed,
        "loss": _name(training.loss),
        **training.identity,
        "n_trees": training.terms.n_trees,
        "generators of the model": sorted(model_generators(training.model)),
        "trained parameters": [n for n, p in training.model.named_parameters() if p.requires_grad],
    }
    same: dict[str, Any] = json.loads(json.dumps(identity))  # as it will be read: tuples are lists there
    return same


def _name(loss: Loss) -> str:
    if isinstance(loss, CustomLoss):  # the address in a function's repr is another in each process
        return f"CustomLoss({getattr(loss.function, '__qualname__', type(loss.function).__qualname__)})"
    return repr(loss)
