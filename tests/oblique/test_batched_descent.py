from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from hardwood.oblique import GetSettings, Problems, Run, Task, search
from hardwood.oblique import _run as runs
from hardwood.oblique._batched_descent import BatchedDescent
from hardwood.oblique._descent import Descent, descend
from hardwood.oblique._starts import draw_starts
from hardwood.ops._oblique import RELAXATIONS

GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
DEVICES = ["cpu", pytest.param("cuda", marks=GPU)]


def task(rows: int = 90, loss: Any = "squared_error") -> Task:
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (rows, 3))
    y = (x[:, 0] + x[:, 1] > 0.2) + (x[:, 0] - x[:, 2] > 0)
    return Task.of(x, np.eye(3)[y.astype(int)] if loss == "cross_entropy" else y, rng.uniform(0.5, 1.5, rows), loss)


def subtrees_of(given: Task, leaf: Any, depth: int = 3) -> Problems:
    """Three trees with different rows, of different numbers."""
    trees = draw_starts(given, depth, 3, 0, leaf, [1])
    parts = [np.arange(len(given.x)), np.arange(5, 40), np.arange(30, 50)]
    return Problems(trees, np.concatenate(parts), np.concatenate([[0], np.cumsum([len(part) for part in parts])]))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("relaxation", RELAXATIONS)
@pytest.mark.parametrize(
    ("leaf", "loss"), [("constant", "squared_error"), ("linear", "squared_error"), ("constant", "cross_entropy")]
)
def test_without_batches_it_is_the_other_descent(device: str, relaxation: Any, leaf: Any, loss: Any):
    given = task(loss=loss)
    settings = GetSettings(relaxation=relaxation, epochs=12, restarts=2, l1=1e-3, learning_rate=0.02, device=device)
    scale = np.array([1.0, 2.0, 3.0])
    found = []
    for kind in (Descent, BatchedDescent):
        problems = subtrees_of(given, leaf)
        with torch.no_grad():
            problems.trees.split_weights[:, :, 1] = 0.0
            # Equal leaves give splits gradients of 0 but for rounding, which Adam would blow up.
            problems.trees.leaf_values += torch.linspace(-1, 1, 8)[:, None] * torch.arange(1, given.y.shape[1] + 1)
        descent: Any = kind(problems, given, settings, scale, [0], keep_zeros=True)
        while descent.progress < 1:
            descent.advance()
        found.append((descent.losses, [each.detach().numpy().copy() for each in problems.trees.parameters()]))
    np.testing.assert_allclose(found[1][0], found[0][0], rtol=1e-3)
    for mine, other in zip(found[1][1], found[0][1], strict=True):
        np.testing.assert_allclose(mine, other, rtol=5e-3, atol=5e-3)
    assert (found[1][1][0][:, :, 1] == 0).all()


@pytest.mark.parametrize("device", DEVICES)
def test_an_epoch_takes_every_row_once(device: str):
    given = task()
    problems = subtrees_of(given, "constant")
    descent = BatchedDescent(problems, given, GetSettings(epochs=2, batch_size=16, device=device), np.ones(3), [0])
    orders = []
    while descent.progress < 1:
        descent._shuffle()
        orders.append(descent._order.cpu().numpy().copy())
        descent._take_step()
        descent._taken += 1
    assert len(orders) == 2 * 6
    for order in orders:
        for first, last in zip(problems.row_start, problems.row_start[1:], strict=False):
            assert sorted(order[first:last]) == list(range(first, last))
    assert (orders[0][:90] != orders[6][:90]).any() and (orders[0][:90] == orders[5][:90]).all()
    assert (orders[0][90:125] != orders[3][90:125]).any() and (orders[0][125:] != orders[2][125:]).any()


@pytest.mark.parametrize("device", DEVICES)
def test_it_learns_as_well(device: str):
    given = task(1000)
    settings = GetSettings(n_starts=3, epochs=15, min_steps=200, polish_epochs=10, batch_size=64)
    losses = []
    for where in ("cpu", device if device != "cpu" else "cpu:0"):
        _, loss = search(given, 2, "constant", dataclasses.replace(settings, device=where), Run(), "a")
        losses.append(loss)
    assert losses[1] < 0.3 * given.y.var() and losses[1] < 1.5 * losses[0] + 0.01


def test_resuming_in_the_middle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(runs, "_CHECKPOINT_SECONDS", 0.0)
    monkeypatch.setattr("hardwood.oblique._batched_descent._SECONDS", 0.0)  # a look after every step
    given, scale = task(), np.ones(3)
    settings = GetSettings(epochs=20, batch_size=16, device="cpu:0")
    whole = subtrees_of(given, "constant")
    descend(whole, given, settings, scale, "a", Run())
    path = tmp_path / "state.safetensors"

    class Cut(Run):
        def tick(self, *given: Any) -> None:
            super().tick(*given)
            if given[1] > 0.5:
                raise RuntimeError("the power went out")

    with pytest.raises(RuntimeError, match="power"):
        descend(subtrees_of(given, "constant"), given, settings, scale, "a", Cut(checkpoint=path))
    resumed = subtrees_of(given, "constant")
    descend(resumed, given, settings, scale, "a", Run(resume_from=path))
    for mine, other in zip(resumed.trees.parameters(), whole.trees.parameters(), strict=True):
        assert torch.equal(mine, other)
