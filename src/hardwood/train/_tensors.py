"""What models, optimisers and random generators hold, as plain tensors by name."""

from __future__ import annotations

import torch
from torch import Tensor, nn


def prefixed(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return tensors under longer names."""
    return {f"{prefix}.{name}": tensor for name, tensor in tensors.items()}


def part(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Return the tensors that `prefixed` gave their names, under the names they had before."""
    return {name[len(prefix) + 1 :]: tensor for name, tensor in tensors.items() if name.startswith(f"{prefix}.")}


def model_tensors(model: nn.Module) -> dict[str, Tensor]:
    """Return a model's parameters and buffers, not copied."""
    return {name: tensor for name, tensor in model.state_dict().items() if isinstance(tensor, Tensor)}


def load_model(model: nn.Module, tensors: dict[str, Tensor]) -> None:
    """Put parameters and buffers in the place of a model's own."""
    with torch.no_grad():
        for name, place in model_tensors(model).items():
            place.copy_(tensors[name])


def model_generators(model: nn.Module) -> dict[str, torch.Generator]:
    """Return the random generators that modules hold as attributes, such as that of Gumbel noise."""
    return {
        f"{place}.{name}": value
        for place, module in model.named_modules()
        for name, value in vars(module).items()
        if isinstance(value, torch.Generator)
    }


def optimizer_tensors(optimizer: torch.optim.Optimizer, parameters: list[nn.Parameter]) -> dict[str, Tensor]:
    """Return the state of every parameter, not copied."""
    return {
        f"{index}.{name}": value
        for index, parameter in enumerate(parameters)
        for name, value in optimizer.state.get(parameter, {}).items()
    }


def load_optimizer(
    optimizer: torch.optim.Optimizer, parameters: list[nn.Parameter], tensors: dict[str, Tensor]
) -> None:
    """Put copies of stored states in the place of the optimiser's own."""
    fused = {id(p): bool(group["fused"]) for group in optimizer.param_groups for p in group["params"]}
    optimizer.state.clear()
    for key, value in tensors.items():
        index, _, name = key.partition(".")
        parameter = parameters[int(index)]
        # torch counts steps on the CPU, unless the step is fused.
        on_device = name != "step" or fused[id(parameter)]
        optimizer.state[parameter][name] = value.to(parameter.device if on_device else "cpu", copy=True)
