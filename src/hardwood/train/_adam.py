"""Adam, AdamW and Quasi-Hyperbolic Adam in one compiled pass over each parameter, for the CPU.

torch's fused step shares every parameter among all OpenMP threads, however small it is, and those wait for each other
by spinning: where other processes use the cores too, a step of small trees then takes tens of milliseconds. Here small
parameters stay on the calling thread, and large ones go to the pool that the routing kernels use.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from hardwood._numba import kernel, run_chunks

_WORTH_A_THREAD = 1 << 17  # numbers


@kernel
def _move(
    parameter: Any, gradient: Any, first: Any, second: Any, new1: Any, beta2: Any, new2: Any, keep: Any, penalty: Any,
    size: Any, root: Any, epsilon: Any,
) -> None:  # fmt: skip
    """Take one step: `keep` is what AdamW's decay leaves of a parameter, `penalty` is Adam's L2 penalty.

    All numbers have the parameter's own type: one that is wider would make the whole loop wider and slower.
    """
    for i in range(len(parameter)):
        slope = gradient[i] + penalty * parameter[i]
        first[i] += (slope - first[i]) * new1
        second[i] = beta2 * second[i] + new2 * slope * slope
        parameter[i] = keep * parameter[i] - size * first[i] / (np.sqrt(second[i]) * root + epsilon)


@kernel
def move_quasi_hyperbolic(
    parameter: Any, gradient: Any, first: Any, second: Any, new1: Any, beta2: Any, new2: Any, fresh1: Any, kept1: Any,
    fresh2: Any, kept2: Any, decay: Any, rate: Any, epsilon: Any,
) -> None:  # fmt: skip
    """Take one step of Quasi-Hyperbolic Adam: `fresh` are the shares of the gradient itself, `kept` of its averages."""
    for i in range(len(parameter)):
        slope = gradient[i] + decay * parameter[i]
        first[i] += (slope - first[i]) * new1
        second[i] = beta2 * second[i] + new2 * slope * slope
        size = np.sqrt(fresh2 * slope * slope + kept2 * second[i]) + epsilon
        parameter[i] -= rate * (fresh1 * slope + kept1 * first[i]) / size


Group = dict[str, Any]


def step_compiled(
    optimizer: torch.optim.Optimizer, move: Callable[..., None], factors_of: Callable[[Group, float], Sequence[float]]
) -> None:
    """Take one step of each parameter that has a gradient.

    `move` is compiled, and is given a parameter, its gradient, its two averages, and what `factors_of` makes of a group
    and the number of the step.
    """
    n_threads = torch.get_num_threads()
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            if parameter.grad is None:
                continue
            state = state_of(optimizer, parameter)
            number = np.float32 if parameter.dtype == torch.float32 else np.float64
            arrays = [
                tensor.detach().contiguous().view(-1).numpy()
                for tensor in (parameter, parameter.grad, state["exp_avg"], state["exp_avg_sq"])
            ]
            with np.errstate(over="ignore"):  # a step that is infinite is found by what it does to the parameters
                factors = [number(factor) for factor in factors_of(group, float(state["step"]))]

            def part(start: int, stop: int, arrays: Any = arrays, factors: Any = factors) -> None:
                move(*[array[start:stop] for array in arrays], *factors)

            run_chunks(part, parameter.numel(), n_threads, _WORTH_A_THREAD)


def state_of(optimizer: torch.optim.Optimizer, parameter: torch.Tensor) -> dict[str, torch.Tensor]:
    """Return a parameter's step, counted up, and its averages, which begin at 0."""
    state: dict[str, torch.Tensor] = optimizer.state[parameter]
    if not state:
        state["step"] = torch.zeros(())
        state["exp_avg"], state["exp_avg_sq"] = torch.zeros_like(parameter), torch.zeros_like(parameter)
    state["step"] += 1
    return state


def _factors(group: Group, count: float, decoupled: bool) -> Sequence[float]:
    rate, (beta1, beta2), decay = group["lr"], group["betas"], group["weight_decay"]
    return (
        1 - beta1, beta2, 1 - beta2, 1 - rate * decay if decoupled else 1.0, 0.0 if decoupled else decay,
        rate / (1 - beta1**count), 1 / math.sqrt(1 - beta2**count), group["eps"],
    )  # fmt: skip


class CompiledAdam(torch.optim.Adam):
    """torch's Adam, with the same state, for contiguous parameters on the CPU."""

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]
        """Take one step."""
        step_compiled(self, _move, lambda group, count: _factors(group, count, False))


class CompiledAdamW(torch.optim.AdamW):
    """torch's AdamW, with the same state, for contiguous parameters on the CPU."""

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]
        """Take one step."""
        step_compiled(self, _move, lambda group, count: _factors(group, count, True))
