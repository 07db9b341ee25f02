"""Adam and AdamW in one compiled pass over each parameter, for the CPU.

torch's fused step shares every parameter among all OpenMP threads, however small it is, and those wait for each other
by spinning: where other processes use the cores too, a step of small trees then takes tens of milliseconds. Here small
parameters stay on the calling thread, and large ones go to the pool that the routing kernels use.
"""

from __future__ import annotations

import math
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


def _step(optimizer: torch.optim.Optimizer, decoupled: bool) -> None:
    n_threads = torch.get_num_threads()
    for group in optimizer.param_groups:
        rate, (beta1, beta2), decay = group["lr"], group["betas"], group["weight_decay"]
        for parameter in group["params"]:
            if parameter.grad is None:
                continue
            state = optimizer.state[parameter]
            if not state:
                state["step"] = torch.zeros(())
                state["exp_avg"], state["exp_avg_sq"] = torch.zeros_like(parameter), torch.zeros_like(parameter)
            state["step"] += 1
            count = float(state["step"])
            number = np.float32 if parameter.dtype == torch.float32 else np.float64
            arrays = [
                tensor.detach().contiguous().view(-1).numpy()
                for tensor in (parameter, parameter.grad, state["exp_avg"], state["exp_avg_sq"])
            ]
            with np.errstate(over="ignore"):  # a step that is infinite is found by what it does to the parameters
                factors = [
                    number(factor)
                    for factor in (
                        1 - beta1, beta2, 1 - beta2, 1 - rate * decay if decoupled else 1.0,
                        0.0 if decoupled else decay, rate / (1 - beta1**count), 1 / math.sqrt(1 - beta2**count),
                        group["eps"],
                    )
                ]  # fmt: skip

            def move(start: int, stop: int, arrays: Any = arrays, factors: Any = factors) -> None:
                _move(*[array[start:stop] for array in arrays], *factors)

            run_chunks(move, parameter.numel(), n_threads, _WORTH_A_THREAD)


class CompiledAdam(torch.optim.Adam):
    """torch's Adam, with the same state, for contiguous parameters on the CPU."""

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]
        """Take one step."""
        _step(self, decoupled=False)


class CompiledAdamW(torch.optim.AdamW):
    """torch's AdamW, with the same state, for contiguous parameters on the CPU."""

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]
        """Take one step."""
        _step(self, decoupled=True)
