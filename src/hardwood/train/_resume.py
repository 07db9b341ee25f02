"""What a checkpoint of training holds, and how training goes on from one."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from hardwood.train._checkpoint import check_same, check_tensors, load_checkpoint, save_checkpoint
from hardwood.train._history import History
from hardwood.train._losses import CustomLoss, Loss

if TYPE_CHECKING:
    from hardwood.train._training import Training
else:
    Training = Any


def write(path: str | os.PathLike[str], training: Training) -> None:
    """Write everything that the next step depends on."""
    tensors = {
        **_prefixed("model", _model_tensors(training.model)),
        **_prefixed("optimizer", _optimizer_tensors(training.optimizer, training.parameters)),
        **_prefixed("schedule", training.schedule.tensors()),
        **_prefixed("average", training.average.tensors()),
        **_prefixed("best", training.best.tensors()),
        **_prefixed("batches", training.batches.tensors()),
        **_prefixed("generators", {"dropout": training.generators[1].get_state()}),
        **_prefixed("generators.model", {n: g.get_state() for n, g in _model_generators(training.model).items()}),
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
    check_tensors(path, of_model, _prefixed("model", _model_tensors(training.model)))

    with torch.no_grad():
        for name, place in _model_tensors(training.model).items():
            place.copy_(of_model[f"model.{name}"])
    _load_optimizer(training.optimizer, training.parameters, _part(tensors, "optimizer"))
    training.schedule.load_tensors(_part(tensors, "schedule"))
    training.average.load_tensors(_part(tensors, "average"))
    training.best.load_tensors(_part(tensors, "best"))
    training.batches.load_tensors(_part(tensors, "batches"))
    training.generators[1].set_state(tensors["generators.dropout"])
    for name, generator in _model_generators(training.model).items():
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
        "data": training.fingerprint,
        "n_trees": training.tables.n_trees,
        "generators of the model": sorted(_model_generators(training.model)),
        "trained parameters": [n for n, p in training.model.named_parameters() if p.requires_grad],
    }
    same: dict[str, Any] = json.loads(json.dumps(identity))  # as it will be read: tuples are lists there
    return same


def _name(loss: Loss) -> str:
    if isinstance(loss, CustomLoss):  # the address in a function's repr is another in each process
        return f"CustomLoss({getattr(loss.function, '__qualname__', type(loss.function).__qualname__)})"
    return repr(loss)


def _prefixed(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {f"{prefix}.{name}": tensor for name, tensor in tensors.items()}


def _part(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name[len(prefix) + 1 :]: tensor for name, tensor in tensors.items() if name.startswith(f"{prefix}.")}


def _model_tensors(model: nn.Module) -> dict[str, Tensor]:
    return {name: tensor for name, tensor in model.state_dict().items() if isinstance(tensor, Tensor)}


def _model_generators(model: nn.Module) -> dict[str, torch.Generator]:
    """Return the random generators that modules hold as attributes, such as that of Gumbel noise."""
    return {
        f"{place}.{name}": value
        for place, module in model.named_modules()
        for name, value in vars(module).items()
        if isinstance(value, torch.Generator)
    }


def _optimizer_tensors(optimizer: torch.optim.Optimizer, parameters: list[nn.Parameter]) -> dict[str, Tensor]:
    return {
        f"{index}.{name}": value
        for index, parameter in enumerate(parameters)
        for name, value in optimizer.state.get(parameter, {}).items()
    }


def _load_optimizer(
    optimizer: torch.optim.Optimizer, parameters: list[nn.Parameter], tensors: dict[str, Tensor]
) -> None:
    fused = {id(p): bool(group["fused"]) for group in optimizer.param_groups for p in group["params"]}
    for key, value in tensors.items():
        index, _, name = key.partition(".")
        parameter = parameters[int(index)]
        # torch counts steps on the CPU, unless the step is fused.
        on_device = name != "step" or fused[id(parameter)]
        optimizer.state[parameter][name] = value.to(parameter.device if on_device else "cpu", copy=True)
