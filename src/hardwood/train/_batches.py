"""Which rows each step sees: shuffled indices, and the trees that see them."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from hardwood._typing import Bool, Int
from hardwood.errors import reject


def make_generators(random_state: int) -> tuple[torch.Generator, torch.Generator]:
    """Return the generators of shuffles and of dropout."""
    seeds = np.random.SeedSequence(random_state).generate_state(2, np.uint64) >> np.uint64(1)
    shuffles, dropout = (torch.Generator().manual_seed(int(seed)) for seed in seeds)
    return shuffles, dropout


def send(tensor: Tensor, device: torch.device) -> Tensor:
    """Return a tensor of the CPU on a device, without waiting for what a GPU has still to do."""
    if device.type != "cuda":
        return tensor.to(device)
    # A copy from memory that is not pinned begins only when the GPU is idle.
    pinned = tensor if tensor.is_pinned() else tensor.pin_memory()
    return pinned.to(device, non_blocking=True)


class Batches:
    """An endless sequence of batches of row indices; every epoch is a fresh shuffle.

    The last batch of an epoch is short rather than dropped. When all rows fit into one batch, `take` returns None, for
    all rows in their own order. The place in the sequence can be stored: the generator's state at the beginning of the
    epoch and the number of rows taken since then.
    """

    def __init__(
        self,
        n_rows: int,
        batch_size: int,
        generator: torch.Generator,
        *,
        replace: bool = False,
        device: torch.device | str = "cpu",
    ) -> None:
        if n_rows < 1:
            reject("rows", n_rows, "there are no rows to train on", "pass at least one row")
        self._n_rows, self._batch_size, self._replace = n_rows, batch_size, replace
        self._generator, self._device = generator, torch.device(device)
        self._whole = n_rows <= batch_size and not replace
        self.steps_per_epoch = -(-n_rows // batch_size)
        self.epoch = 0  # whole epochs taken
        self._taken = 0  # rows of the epoch at hand
        self._state = generator.get_state()
        self._order: Tensor | None = None

    def take(self) -> Int[Tensor, " batch"] | None:
        """Return the rows of the next batch, None meaning all."""
        if self._whole:
            self.epoch += 1
            return None
        if self._order is None:
            self._state = self._generator.get_state()
            self._order = self._draw()
        batch = self._order[self._taken : self._taken + self._batch_size]
        self._taken += len(batch)
        if self._taken == self._n_rows:
            self.epoch, self._taken, self._order = self.epoch + 1, 0, None
        return batch

    @property
    def at_epoch_end(self) -> bool:
        """Whether the batch taken last was the last of its epoch."""
        return self._taken == 0

    @property
    def progress(self) -> float:
        """Epochs taken, with the part of the one at hand."""
        return self.epoch + self._taken / self._n_rows

    def _draw(self) -> Tensor:
        # Drawn on the CPU, so that a seed means the same on every device.
        if self._replace:
            order = torch.randint(self._n_rows, (self._n_rows,), generator=self._generator)
        else:
            order = torch.randperm(self._n_rows, generator=self._generator)
        return order.to(self._device)

    def tensors(self) -> dict[str, Tensor]:
        """Return what a checkpoint has to hold."""
        state = self._generator.get_state() if self._order is None else self._state
        return {"generator": state, "place": torch.tensor([self.epoch, self._taken])}

    def load_tensors(self, tensors: dict[str, Tensor]) -> None:
        """Go on from a checkpoint."""
        self._generator.set_state(tensors["generator"])
        self._state = tensors["generator"]
        self.epoch, self._taken = (int(number) for number in tensors["place"])
        self._order = self._draw() if self._taken else None


class TreeDropout:
    """Draws for each step the trees that take part; at least one always does."""

    def __init__(self, n_trees: int, share: float, generator: torch.Generator, device: torch.device | str) -> None:
        self._n_trees, self._share, self._generator = n_trees, share, generator
        self._device = torch.device(device)

    def draw(self) -> Bool[Tensor, "1 trees"]:
        """Return which trees take part in the next step."""
        drawn = torch.rand(self._n_trees, generator=self._generator)
        kept = drawn >= self._share
        kept[drawn.argmax()] = True
        return send(kept[None], self._device)


def draw_tree_rows(
    n_rows: int, n_trees: int, share: float, generator: torch.Generator, *, replace: bool = False
) -> Bool[Tensor, "rows trees"]:
    """Draw for each tree the rows that it learns from: a share of all, with or without replacement.

    With replacement a row that is drawn twice counts once, so a tree sees fewer rows (63% when `share` is 1).

    >>> draw_tree_rows(10, 3, 0.5, torch.Generator().manual_seed(0)).sum(0)
    tensor([5, 5, 5])
    """
    if not 0 < share <= 1:
        reject("share", share, "must be above 0 and at most 1", "pass share=1.0 for all rows")
    count = max(1, round(share * n_rows))
    chosen = torch.zeros(n_rows, n_trees, dtype=torch.bool)
    for tree in range(n_trees):
        if replace:
            rows = torch.randint(n_rows, (count,), generator=generator)
        else:
            rows = torch.randperm(n_rows, generator=generator)[:count]
        chosen[rows, tree] = True
    return chosen
