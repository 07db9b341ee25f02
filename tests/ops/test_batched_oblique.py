from __future__ import annotations

from typing import Any

import pytest
import torch

from hardwood.ops import _batched_oblique, dense_oblique_loss
from hardwood.ops._oblique import LEAF_LOSSES, RELAXATIONS

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU"))]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("relaxation", RELAXATIONS)
@pytest.mark.parametrize("leaf_loss", [*LEAF_LOSSES, "linear"])
@pytest.mark.parametrize(
    ("depth", "features", "outputs", "trees", "rows"), [(1, 1, 1, 1, 1), (3, 7, 2, 2, 9), (5, 13, 3, 3, 17)]
)
def test_losses_and_gradients_are_those_of_the_formulas(
    device: str, relaxation: Any, leaf_loss: Any, depth: int, features: int, outputs: int, trees: int, rows: int,
    monkeypatch: pytest.MonkeyPatch,
):  # fmt: skip
    monkeypatch.setattr(_batched_oblique, "_MOST", 5 * 2**depth * trees)  # a few rows at a time
    linear, leaf_loss = leaf_loss == "linear", "squared_error" if leaf_loss == "linear" else leaf_loss
    generator = torch.Generator().manual_seed(depth)
    nodes = 2**depth - 1
    shapes = [(trees, nodes, features), (trees, nodes), (trees, nodes + 1, outputs)]
    if linear:
        shapes.append((trees, nodes + 1, outputs, features))
    parameters = [torch.randn(shape, generator=generator).to(device).requires_grad_() for shape in shapes]
    x = torch.randn((trees, rows, features), generator=generator).to(device)
    y = torch.rand((trees, rows, outputs), generator=generator).to(device)
    if leaf_loss == "cross_entropy":
        y = y / y.sum(2, keepdim=True)
    weight = torch.rand((trees, rows), generator=generator).to(device)
    scale = torch.linspace(1.0, 3.0, trees, device=device)

    wanted = torch.stack([
        dense_oblique_loss(
            x[k], y[k], *(each[k : k + 1] for each in parameters), scale=float(scale[k]), relaxation=relaxation,
            leaf_loss=leaf_loss,
        )[:, 0]
        for k in range(trees)
    ])  # fmt: skip
    gradients = torch.autograd.grad((wanted * weight).sum(), parameters)
    with torch.no_grad():
        got = _batched_oblique.batched_gradients(x, y, weight, parameters, scale, relaxation, leaf_loss)
    torch.testing.assert_close(got[0], wanted.detach(), rtol=1e-4, atol=1e-5)
    for mine, other in zip(got[1], gradients, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-3, atol=1e-4)


def test_no_tensor_is_larger_than_a_level_of_some_rows(monkeypatch: pytest.MonkeyPatch):
    from torch.utils._python_dispatch import TorchDispatchMode

    class Largest(TorchDispatchMode):
        numbers = 0

        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            out = function(*args, **(kwargs or {}))
            for each in out if isinstance(out, (tuple, list)) else (out,):
                if isinstance(each, torch.Tensor):
                    self.numbers = max(self.numbers, each.numel())
            return out

    trees, rows, depth = 2, 1000, 6
    monkeypatch.setattr(_batched_oblique, "_MOST", 64 * trees * 2**depth)  # 64 rows at a time
    parameters = [torch.randn(trees, 63, 3), torch.randn(trees, 63), torch.randn(trees, 64, 1)]
    with Largest() as largest:
        _batched_oblique.batched_gradients(
            torch.randn(trees, rows, 3), torch.rand(trees, rows, 1), torch.ones(trees, rows), parameters,
            torch.ones(trees), "sigmoid", "squared_error",
        )  # fmt: skip
    assert trees * 2**depth * 60 < largest.numbers <= trees * 2**depth * 64
