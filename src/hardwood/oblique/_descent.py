"""One stage of training: all problems at one scale factor each, then leaves from hard splits."""

from __future__ import annotations

import time
import zlib

import numpy as np
import torch

from hardwood._numba import run_chunks
from hardwood._typing import Float
from hardwood.oblique._batched_descent import BatchedDescent
from hardwood.oblique._leaves import settle
from hardwood.oblique._run import Arrays, Run
from hardwood.oblique._settings import GetSettings
from hardwood.oblique._task import Problems, Task
from hardwood.ops._oblique import LEAF_LOSSES, RELAXATIONS
from hardwood.train import TrainingDivergedError

# Between two looks at the clock, the keyboard and the losses.
_SECONDS = 0.3


class Descent:
    """Adam on the relaxed loss of some problems; each has its own moments, order of rows and random numbers."""

    def __init__(
        self, problems: Problems, task: Task, settings: GetSettings, scale: Float[np.ndarray, " trees"],
        seed: list[int], keep_zeros: bool = False,
    ) -> None:  # fmt: skip
        self._keep_zeros = keep_zeros
        self._problems, self._task, self._settings = problems, task, settings
        trees = problems.trees
        self._parameters = [
            each.detach().numpy() for each in (trees.split_weights, trees.thresholds, trees.leaf_values)
        ]
        if trees.leaf_coef is None:
            self._parameters.append(np.zeros((len(problems), 0, trees.n_outputs, trees.n_features), np.float32))
        else:
            self._parameters.append(trees.leaf_coef.detach().numpy())
        self._moments = [np.zeros_like(each) for each in self._parameters for _ in range(2)]
        self._order = np.arange(len(problems.rows))
        self._random = np.random.default_rng(seed).integers(1, 2**63 - 1, len(problems)).astype(np.uint64)
        self._steps = np.zeros(len(problems), np.int64)
        self._scale = scale.astype(np.float32)
        self._rate = np.full(len(problems), settings.learning_rate, np.float32)
        rows = np.diff(problems.row_start)
        batches = np.maximum(1, -(-rows // settings.batch_size))
        self._epochs = np.maximum(settings.epochs, -(-settings.min_steps // batches))
        self._cycle = np.maximum(1, self._epochs * batches // settings.restarts)
        self.losses = np.zeros(len(problems))
        self.done = np.zeros(len(problems), np.int64)
        self._pace = 0.0  # seconds that the whole stage takes, as far as is known

    @property
    def progress(self) -> float:
        """The share of the stage that is done."""
        return float((self.done / self._epochs).min(initial=1.0))

    def advance(self) -> int:
        """Train for a moment; return the most epochs of any problem."""
        from hardwood.ops._cpu_oblique import train_epochs

        longest = int(self._epochs.max(initial=1))
        share = 1 / longest if self._pace == 0 else max(1 / longest, min(1.0, _SECONDS / self._pace))
        wanted = np.minimum(self._epochs, np.ceil((self.progress + share) * self._epochs - 1e-6).astype(np.int64))
        epochs = np.maximum(wanted - self.done, 0)
        settings, problems, task = self._settings, self._problems, self._task
        relaxation, leaf_loss = RELAXATIONS.index(settings.relaxation), LEAF_LOSSES.index(task.leaf_loss)
        began = time.perf_counter()

        def work(start: int, stop: int) -> None:
            train_epochs(
                start, stop, task.x, task.y, task.weight, problems.rows, problems.row_start, *self._parameters,
                *self._moments, self._order, self._random, self._steps, self._scale, self._rate, relaxation, leaf_loss,
                np.float32(settings.skip), np.float32(settings.l1), self._keep_zeros, problems.trees.depth,
                settings.batch_size, epochs,
                self._cycle, self.losses,
            )  # fmt: skip

        run_chunks(work, len(problems), torch.get_num_threads())
        self.done = self.done + epochs
        part = float((epochs / self._epochs).max(initial=0.0))
        self._pace = (time.perf_counter() - began) / max(part, 1e-9)
        return int(epochs.max(initial=0))

    def arrays(self) -> dict[str, np.ndarray]:
        """Return all that the next step depends on."""
        parameters = {f"parameter{i}": each for i, each in enumerate(self._parameters)}
        moments = {f"moment{i}": each for i, each in enumerate(self._moments)}
        rest = {"order": self._order, "random": self._random.view(np.int64), "steps": self._steps, "done": self.done}
        return {**parameters, **moments, **rest}

    def load(self, arrays: Arrays) -> None:
        """Go on from such arrays."""
        for i, each in enumerate(self._parameters):
            each[...] = arrays[f"parameter{i}"]
        for i, each in enumerate(self._moments):
            each[...] = arrays[f"moment{i}"]
        self._order, self._steps = arrays["order"].copy(), arrays["steps"].copy()
        self._random, self.done = arrays["random"].view(np.uint64).copy(), arrays["done"].copy()


def descend(
    problems: Problems, task: Task, settings: GetSettings, scale: Float[np.ndarray, " trees"], key: str, run: Run,
    keep_zeros: bool = False,
) -> Float[np.ndarray, " trees"]:  # fmt: skip
    """Train all problems at one scale factor each, set their leaves from hard splits, and return their hard losses.

    With `keep_zeros` split weights of zero stay zero.

    A problem whose parameters are not finite any more has an infinite loss; if that is all of them, training stops.
    """
    names = [name for name, _ in problems.trees.named_parameters()]
    kept = run.recall(key)
    if kept is not None:
        with torch.no_grad():
            for name, parameter in problems.trees.named_parameters():
                parameter.copy_(torch.from_numpy(kept[name]))
        return kept["losses"].copy()
    run.begin(problems.trees)
    seed = [settings.random_state, zlib.crc32(key.encode())]
    kind = Descent if settings.device == "cpu" else BatchedDescent
    descent = kind(problems, task, settings, scale, seed, keep_zeros)
    begun = run.recall(key + "~")
    if begun is not None:
        descent.load(begun)
    while descent.progress < 1 and not run.is_over():
        try:
            passed = descent.advance()
            run.tick(key, descent.progress, float(descent.losses.min(initial=np.inf)), passed)
            run.note(key, descent.arrays(), last=False)
        except KeyboardInterrupt:
            run.interrupt()
    finite = problems.finite()
    if not finite.any():
        raise TrainingDivergedError(
            f"all {len(problems)} trees had parameters that are infinite or NaN at scale factor {scale.max():.4g} "
            f"({key}); lower learning_rate, or the factors"
        )
    with torch.no_grad():
        for parameter in problems.trees.parameters():
            parameter[torch.from_numpy(~finite)] = 0.0
    losses = np.where(finite, settle(problems, task, settings.leaf_shrinkage), np.inf)
    complete = not run.is_over()
    run.record(key, losses, float(scale.mean()), complete=complete)
    if complete:
        arrays = dict(zip(names, (each.detach().numpy() for each in problems.trees.parameters()), strict=True))
        run.note(key, {**arrays, "losses": losses})
    return losses
