from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from hardwood.errors import InvalidArgumentError
from hardwood.ops import dense_oblique_loss, relaxed_oblique_loss
from hardwood.ops._cpu_oblique import train_epochs
from hardwood.ops._oblique import LEAF_LOSSES, RELAXATIONS, leaf_shares


def draw(
    depth: int, features: int, outputs: int, trees: int, *, linear: bool = False, rows: int = 9, seed: int = 0
) -> Any:
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator)

    nodes = 2**depth - 1
    shapes = [(trees, nodes, features), (trees, nodes), (trees, nodes + 1, outputs)]
    if linear:
        shapes.append((trees, nodes + 1, outputs, features))
    parameters = [normal(*shape).requires_grad_() for shape in shapes]
    y = torch.rand((rows, outputs), generator=generator)
    return normal(rows, features), y, parameters


@pytest.mark.parametrize("relaxation", RELAXATIONS)
@pytest.mark.parametrize("leaf_loss", LEAF_LOSSES)
@pytest.mark.parametrize(("depth", "features", "outputs", "trees"), [(1, 1, 1, 1), (3, 7, 2, 2), (5, 13, 3, 1)])
def test_kernels_agree_with_the_formulas(
    relaxation: Any, leaf_loss: Any, depth: int, features: int, outputs: int, trees: int
):
    for linear in (False, True) if leaf_loss == "squared_error" else (False,):
        x, y, parameters = draw(depth, features, outputs, trees, linear=linear)
        if leaf_loss == "cross_entropy":
            y = y / y.sum(1, keepdim=True)
        weight = torch.rand(len(x), trees, generator=torch.Generator().manual_seed(1))
        found = {}
        for backend in ("reference", "cpu"):
            options: Any = {"relaxation": relaxation, "leaf_loss": leaf_loss, "backend": backend}
            loss = relaxed_oblique_loss(x, y, *parameters, scale=2.5, **options)
            found[backend] = loss, torch.autograd.grad((loss * weight).sum(), parameters)
        torch.testing.assert_close(found["cpu"][0], found["reference"][0], rtol=1e-4, atol=1e-5)
        for mine, wanted in zip(found["cpu"][1], found["reference"][1], strict=True):
            torch.testing.assert_close(mine, wanted, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("relaxation", RELAXATIONS)
@pytest.mark.parametrize("skip", [1e-3, 1e-2, 0.1])
def test_skipping_costs_no_more_than_stated(relaxation: Any, skip: float):
    depth = 5
    x, y, parameters = draw(depth, 4, 1, 2, rows=200, seed=3)
    exact = dense_oblique_loss(x, y, *parameters, scale=4.0, relaxation=relaxation, leaf_loss="squared_error")
    quick = relaxed_oblique_loss(x, y, *parameters, scale=4.0, relaxation=relaxation, skip=skip, backend="cpu")
    largest = (y[:, None, :] - parameters[2].detach().reshape(1, -1, 1)).square().max()
    bound = (2**depth - 1) * skip * largest
    gap = (exact - quick).detach()
    assert gap.abs().max() <= bound + 1e-4
    assert gap.abs().max() > 1e-6  # something was skipped
    if relaxation == "sigmoid":
        assert gap.min() >= -1e-4


@pytest.mark.parametrize("relaxation", RELAXATIONS)
def test_shares_sum_to_one_and_sharpen_to_the_hard_leaf(relaxation: Any):
    x, _, (weights, thresholds, _) = draw(4, 3, 1, 2, rows=50)
    margins = (thresholds - torch.einsum("rf,tnf->rtn", x, weights)).double()
    soft = leaf_shares(margins, 1.0, relaxation)
    torch.testing.assert_close(soft.sum(-1), torch.ones(50, 2, dtype=torch.float64))
    sharp = leaf_shares(margins, 1e6, relaxation)
    place = torch.zeros(50, 2, dtype=torch.long)
    for _ in range(4):
        left = margins.gather(2, place[..., None])[..., 0] > 0
        place = 2 * place + torch.where(left, 1, 2)
    torch.testing.assert_close(sharp.argmax(-1), place - 15)
    assert sharp.max(-1).values.min() > 0.99


def test_a_row_does_not_depend_on_its_neighbours():
    x, y, parameters = draw(4, 5, 2, 3)
    together = relaxed_oblique_loss(x, y, *parameters, scale=3.0, skip=1e-2)
    alone = torch.cat(
        [relaxed_oblique_loss(x[i : i + 1], y[i : i + 1], *parameters, scale=3.0, skip=1e-2) for i in range(9)]
    )
    assert torch.equal(together, alone)


@pytest.mark.parametrize("leaf_loss", LEAF_LOSSES)
def test_epochs_are_those_of_torch_adam(leaf_loss: Any):
    linear = leaf_loss == "squared_error"
    x, y, parameters = draw(3, 4, 2, 2, linear=linear, rows=30)
    if leaf_loss == "cross_entropy":
        y = y / y.sum(1, keepdim=True)
    row_weight = torch.rand(30, generator=torch.Generator().manual_seed(5))
    own = [each.detach().clone().numpy() for each in parameters]
    if not linear:
        own.append(np.zeros((2, 0, 2, 4), np.float32))
    moments = [np.zeros_like(each) for each in own for _ in range(2)]
    losses, epochs = np.zeros(2), 7
    train_epochs(
        0, 2, x.numpy(), y.numpy(), row_weight.numpy(), np.tile(np.arange(30), 2), np.array([0, 30, 60]), *own,
        *moments, np.tile(np.arange(30), 2), np.ones(2, np.uint64), np.zeros(2, np.int64), np.full(2, 2.0, np.float32),
        np.full(2, 0.05, np.float32), 0, LEAF_LOSSES.index(leaf_loss), np.float32(0), np.float32(0.01), False, 3, 64,
        np.full(2, epochs), np.full(2, 5), losses,
    )  # fmt: skip
    optimizer = torch.optim.Adam(parameters, lr=0.05)
    schedule = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, 5)
    value = torch.zeros(2)
    for _ in range(epochs):
        optimizer.zero_grad()
        loss = dense_oblique_loss(x, y, *parameters, scale=2.0, relaxation="sigmoid", leaf_loss=leaf_loss)
        value = (loss * row_weight[:, None]).mean(0)
        (value.sum() + 0.01 * parameters[0].abs().sum()).backward()
        optimizer.step()
        schedule.step()
    np.testing.assert_allclose(losses, value.detach().numpy(), rtol=1e-4)
    for mine, wanted in zip(own, parameters, strict=False):
        np.testing.assert_allclose(mine, wanted.detach().numpy(), rtol=2e-3, atol=2e-3)


def test_batches_cover_all_rows_and_zeros_may_stay():
    x, y, parameters = draw(2, 3, 1, 1, rows=23)
    own = [each.detach().clone().numpy() for each in parameters] + [np.zeros((1, 0, 1, 3), np.float32)]
    own[0][:, :, 1] = 0.0
    before = own[0].copy()
    moments = [np.zeros_like(each) for each in own for _ in range(2)]
    order, steps = np.arange(23), np.zeros(1, np.int64)
    train_epochs(
        0, 1, x.numpy(), y.numpy(), np.ones(23, np.float32), np.arange(23), np.array([0, 23]), *own, *moments, order,
        np.ones(1, np.uint64), steps, np.full(1, 2.0, np.float32), np.full(1, 0.05, np.float32), 0, 0, np.float32(0),
        np.float32(0), True, 2, 5, np.array([3]), np.array([15]), np.zeros(1),
    )  # fmt: skip
    assert steps[0] == 3 * 5
    assert sorted(order.tolist()) == list(range(23)) and (order != np.arange(23)).any()
    assert (own[0][:, :, 1] == 0).all() and (own[0][:, :, [0, 2]] != before[:, :, [0, 2]]).all()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"skip": 1.0}, "skip"),
        ({"skip": -0.1}, "skip"),
    ],
)
def test_bad_options(given: dict[str, Any], message: str):
    x, y, parameters = draw(2, 3, 1, 1)
    with pytest.raises(InvalidArgumentError, match=message):
        relaxed_oblique_loss(x, y, *parameters, **given)


def test_bad_shapes():
    x, y, (weights, thresholds, values) = draw(2, 3, 1, 1)
    with pytest.raises(InvalidArgumentError, match="complete tree"):
        relaxed_oblique_loss(x, y, weights[:, :2], thresholds[:, :2], values)
    with pytest.raises(InvalidArgumentError, match="leaf_values"):
        relaxed_oblique_loss(x, y, weights, thresholds, values[:, :2])
    with pytest.raises(InvalidArgumentError, match="squared error"):
        relaxed_oblique_loss(x, y, weights, thresholds, values, torch.zeros(1, 4, 1, 3), leaf_loss="cross_entropy")
