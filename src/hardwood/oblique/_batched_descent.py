"""The same stage of training on a GPU: every problem takes its next step in one replayed list of kernels."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import numpy as np
import torch

from hardwood._typing import Float
from hardwood.oblique._run import Arrays
from hardwood.oblique._settings import GetSettings
from hardwood.oblique._task import Problems, Task
from hardwood.ops._batched_oblique import batched_gradients

# Between two looks at the clock, the keyboard and the losses.
_SECONDS = 0.3
_BETAS, _EPSILON = (0.9, 0.999), 1e-8


class BatchedDescent:
    """Adam as `Descent` has it, for all problems at once: a step takes a batch of each, padded with rows of weight 0.

    Problems of few rows are done earlier than others: their rate is then 0. The random order of rows is another than
    on the CPU, so results differ as those of two seeds do.
    """

    def __init__(
        self, problems: Problems, task: Task, settings: GetSettings, scale: Float[np.ndarray, " trees"],
        seed: list[int], keep_zeros: bool = False,
    ) -> None:  # fmt: skip
        device = torch.device(settings.device)
        self._device, self._problems, self._task, self._settings = device, problems, task, settings
        self._own = list(problems.trees.parameters())
        self._parameters = [each.detach().to(device, copy=True) for each in self._own]
        self._moments = [torch.zeros_like(each) for each in self._parameters for _ in range(2)]
        self._keep = (self._parameters[0] != 0).float() if keep_zeros else None
        self._scale = torch.from_numpy(scale.astype(np.float32)).to(device)
        self._x, self._y, self._weight = (
            torch.from_numpy(np.concatenate([each, np.zeros_like(each[:1])])).to(device)
            for each in (task.x, task.y, task.weight)
        )
        counts = np.diff(problems.row_start)
        self._entries = torch.from_numpy(problems.rows).to(device)
        self._tree_of = torch.from_numpy(problems.tree_of).to(device)
        self._order = torch.arange(len(problems.rows), device=device)
        batches = np.maximum(1, -(-counts // settings.batch_size))
        self._epochs = np.maximum(settings.epochs, -(-settings.min_steps // batches))
        self._batches = batches
        self._n_steps = self._epochs * batches
        self._longest = int(self._n_steps.max(initial=0))
        cycle = np.maximum(1, self._n_steps // settings.restarts)
        self._size = int(min(settings.batch_size, counts.max(initial=1)))
        self._first, self._count, self._parts, self._cycle, self._ends = (
            torch.from_numpy(np.asarray(each, np.int64)).to(device)
            for each in (problems.row_start[:-1], counts, batches, cycle, self._n_steps)
        )
        self._step = torch.zeros((), dtype=torch.int64, device=device)
        self._sums = torch.zeros(len(problems), dtype=torch.float64, device=device)
        self._generator = torch.Generator(device).manual_seed(_one_seed(seed))
        self._taken = 0
        self._pace = 0.0
        self._replay: Callable[[], object] | None = None
        self.losses = np.zeros(len(problems))

    @property
    def progress(self) -> float:
        """The share of the stage that is done."""
        return self._taken / self._longest if self._longest else 1.0

    def advance(self) -> int:
        """Train for a moment; return the most epochs of any problem."""
        steps = 16 if self._pace == 0 else max(1, int(_SECONDS / self._pace))
        steps = min(steps, self._longest - self._taken)
        began = time.perf_counter()
        before = self._taken
        for _ in range(steps):
            self._shuffle()
            if self._device.type == "cuda" and self._taken >= 3:
                if self._replay is None:
                    self._replay = self._captured()
                self._replay()
            else:
                self._take_step()
            self._taken += 1
        self.losses = self._sums.cpu().numpy()  # waits for the device
        self._pace = (time.perf_counter() - began) / max(1, steps)
        with torch.no_grad():
            for mine, theirs in zip(self._own, self._parameters, strict=True):
                mine.copy_(theirs)
        return int(((np.minimum(self._taken, self._n_steps) - before) // self._batches).max(initial=1))

    def _shuffle(self) -> None:
        """Draw the order of rows anew in the problems that begin an epoch."""
        begins = (self._taken % self._batches == 0) & (self._batches > 1) & (self._taken < self._n_steps)
        if not begins.any():
            return
        keys = torch.rand(len(self._order), generator=self._generator, device=self._device, dtype=torch.float64)
        drawn = torch.argsort(keys + self._tree_of)
        if begins.all():
            self._order.copy_(drawn)
        else:
            anew = torch.from_numpy(begins).to(self._device)[self._tree_of]
            self._order.copy_(torch.where(anew, drawn, self._order))

    def _captured(self) -> Callable[[], object]:
        """Record a step, which does not change anything yet, as a CUDA graph."""
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self._take_step()
        return graph.replay

    def _take_step(self) -> None:
        """Take one step of all problems. Nothing here waits for the device, or depends on the step but by tensors."""
        # Batches differ by at most one row.
        part = self._step % self._parts
        begin, end = self._count * part // self._parts, self._count * (part + 1) // self._parts
        place = begin[:, None] + torch.arange(self._size, device=self._device)
        there = place < end[:, None]
        entry = self._order[(self._first[:, None] + place) * there]
        rows = self._entries[entry].masked_fill(~there, len(self._x) - 1)
        weight = self._weight[rows]
        share = weight / (end - begin).clamp_min(1)[:, None]
        found, gradients = batched_gradients(
            self._x[rows], self._y[rows], share, self._parameters, self._scale, self._settings.relaxation,
            self._task.leaf_loss,
        )  # fmt: skip
        self._sums *= part != 0
        self._sums += (found * weight).double().sum(1) / self._count.clamp_min(1)
        if self._keep is not None:
            gradients[0] *= self._keep
        if self._settings.l1 > 0:
            gradients[0] += self._settings.l1 * self._parameters[0].sign()
        progress = (self._step % self._cycle) / self._cycle
        rate = 0.5 * self._settings.learning_rate * (1 + torch.cos(math.pi * progress)) * (self._step < self._ends)
        self._step += 1
        powers = [1 - torch.pow(torch.full((), beta, device=self._device, dtype=torch.float64), self._step)
                  for beta in _BETAS]  # fmt: skip
        for i, (values, gradient) in enumerate(zip(self._parameters, gradients, strict=True)):
            first, second = self._moments[2 * i], self._moments[2 * i + 1]
            first.mul_(_BETAS[0]).add_(gradient, alpha=1 - _BETAS[0])
            second.mul_(_BETAS[1]).addcmul_(gradient, gradient, value=1 - _BETAS[1])
            size = (second / powers[1].float()).sqrt_().add_(_EPSILON)
            own_rate = rate.float().reshape(-1, *[1] * (values.dim() - 1))
            values.sub_(own_rate * (first / powers[0].float()) / size)

    def arrays(self) -> dict[str, np.ndarray]:
        """Return all that the next step depends on."""
        named = {
            **{f"parameter{i}": each for i, each in enumerate(self._parameters)},
            **{f"moment{i}": each for i, each in enumerate(self._moments)},
            "order": self._order,
            "sums": self._sums,
            "generator": self._generator.get_state(),
        }
        return {name: each.cpu().numpy().copy() for name, each in named.items()} | {"taken": np.array([self._taken])}

    def load(self, arrays: Arrays) -> None:
        """Go on from such arrays."""
        for name, tensors in (("parameter", self._parameters), ("moment", self._moments)):
            for i, each in enumerate(tensors):
                each.copy_(torch.from_numpy(arrays[f"{name}{i}"]))
        self._order.copy_(torch.from_numpy(arrays["order"]))
        self._sums.copy_(torch.from_numpy(arrays["sums"]))
        self._generator.set_state(torch.from_numpy(arrays["generator"].copy()))
        self._taken = int(arrays["taken"][0])
        self._step.fill_(self._taken)


def _one_seed(seed: list[int]) -> int:
    return int(np.random.default_rng(seed).integers(2**62))
