"""Latent trees on a GPU: the same as on the CPU, values and gradients, without waiting for the GPU."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
import torch
from sklearn.datasets import load_iris

from hardwood import LatentTreeClassifier, LatentTreeClustering
from hardwood.nn import FrozenLatentTree, LatentModel, LatentTree
from hardwood.ops import path_minima, prune_tree

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")

# Complete trees of depth 1, 3, 6, 9; a chain; one with many children of a node; only a root.
PARENTS = [
    *[[(node - 1) // 2 if node else -1 for node in range(2 ** (depth + 1) - 1)] for depth in (1, 3, 6, 9)],
    [-1, 0, 1, 2, 3, 4], [-1, 0, 0, 0, 2, 2, 2, 5, 1, 1], [-1],
]  # fmt: skip


def draw(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) * 4 - 2


@contextmanager
def no_waiting() -> Iterator[None]:
    """Fail where the CPU waits for the GPU."""
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize("parents", PARENTS)
@pytest.mark.parametrize("rows", [1, 2, 33, 700])
@pytest.mark.parametrize("penalty", [0.001, 3.0, 500.0])
def test_the_solver_says_the_same(parents: list[int], rows: int, penalty: float):
    parent = torch.tensor(parents)
    q, weights = draw(rows, len(parents), seed=rows), draw(rows + 1, len(parents), seed=rows + 1)
    if rows == 33:
        q = (q * 2).round() / 2  # ties
    answers = []
    for device in ("cpu", "cuda"):
        given = q.to(device).requires_grad_()
        z, a = prune_tree(given, penalty, parent)
        value = (z * weights[1:].to(device)).sum() + (a * weights[0].to(device)).sum()
        answers.append([each.detach().cpu() for each in (z, a, *torch.autograd.grad(value, given))])
    for one, other in zip(*answers, strict=True):
        if rows == 33 and one is answers[0][2]:
            continue  # at kinks any generalised gradient will do
        torch.testing.assert_close(one, other, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_types_are_kept_and_nothing_waits(dtype: torch.dtype):
    q = draw(50, 15).to("cuda", dtype).requires_grad_()
    prune_tree(q, 2.0)
    with no_waiting():
        z, a = prune_tree(q, 2.0)
        (grad,) = torch.autograd.grad(z.sum() + a.sum(), q)
    assert z.dtype == a.dtype == grad.dtype == dtype
    torch.testing.assert_close(z.cpu(), prune_tree(q.detach().cpu(), 2.0).z)


def test_what_is_not_finite_comes_through():
    q = draw(20, 7).cuda()
    q[3, 4] = torch.nan
    assert bool(prune_tree(q, 1.0).z[3, 4].isnan())


def test_answers_are_the_same_every_time():
    q = draw(3000, 127).float().cuda().requires_grad_()
    weights = draw(3000, 127, seed=1).float().cuda()

    def run() -> list[torch.Tensor]:
        z, a = prune_tree(q, 20.0)
        return [z, a, *torch.autograd.grad((z * weights).sum(), q)]

    first = run()
    for _ in range(5):
        assert all(torch.equal(one, other) for one, other in zip(first, run(), strict=True))


@pytest.mark.parametrize("parents", PARENTS[:-1])
@pytest.mark.parametrize("rows", [1, 45, 600])
def test_path_minima_say_the_same(parents: list[int], rows: int):
    parent = torch.tensor(parents)
    nodes = torch.arange(len(parents))
    sign = torch.where(nodes % 2 == 1, -1.0, 1.0)
    split = parent.clamp(min=0)
    splits, weights = draw(rows, len(parents), seed=rows), draw(rows, len(parents), seed=9)
    if rows == 45:
        splits = splits.round()  # ties
    answers = []
    for device in ("cpu", "cuda"):
        given = splits.to(device).requires_grad_()
        q = path_minima(given, parent.to(device), split.to(device), sign.to(device))
        answers.append((q.detach().cpu(), torch.autograd.grad((q * weights.to(device)).sum(), given)[0].cpu()))
    assert torch.equal(answers[0][0], answers[1][0])
    torch.testing.assert_close(answers[0][1], answers[1][1], rtol=1e-11, atol=1e-11)


def test_the_layer_trains_there_as_here():
    x = draw(300, 6).float()
    here = LatentTree(6, 5, penalty=10.0, generator=torch.Generator().manual_seed(0)).spread(x)
    there = LatentTree(6, 5, penalty=10.0, generator=torch.Generator().manual_seed(0)).spread(x).cuda()
    weights = draw(300, 63, seed=3).float()
    for _ in range(3):
        (here(x) * weights).sum().backward()
        (there(x.cuda()) * weights.cuda()).sum().backward()
    torch.testing.assert_close(there.pruning.cpu(), here.pruning, rtol=1e-4, atol=1e-5)
    for one, other in zip(here.parameters(), there.parameters(), strict=True):
        torch.testing.assert_close(other.grad.cpu(), one.grad, rtol=1e-3, atol=1e-3)
    ones = torch.ones(4, 6, device="cuda")
    with no_waiting():
        there(ones).sum().backward()
    torch.testing.assert_close(there.eval()(x.cuda()).cpu(), there.cpu()(x), rtol=1e-4, atol=1e-5)


def test_a_layer_made_there_is_pruned_and_frozen():
    model = LatentModel(4, 2, 4, generator=torch.Generator().manual_seed(0)).cuda()
    x = draw(100, 4).float().cuda()
    with torch.no_grad():
        model.tree.split_bias[[1, 5]] += 50.0
    for _ in range(60):
        model(x)
    model.eval()
    small = model.pruned()
    assert small.tree.n_nodes < model.tree.n_nodes
    torch.testing.assert_close(small(x), model(x), rtol=1e-4, atol=1e-5)
    frozen = FrozenLatentTree.of(model)
    np.testing.assert_allclose(frozen.outputs(x.double().cpu().numpy()), model(x).detach().cpu(), rtol=1e-3, atol=1e-3)
    direct = LatentTree(4, 3, device="cuda")
    assert {each.device.type for each in [*direct.buffers(), *direct.parameters()]} == {"cuda"}
    direct(x).sum().backward()
    direct.pruned()


@pytest.mark.parametrize("options", [{}, {"predictor": "mlp", "dropout": 0.2}, {"routing": "hard", "sees_rows": False}])
def test_estimators_learn_there(options):
    X, y = load_iris(return_X_y=True)
    model = LatentTreeClassifier(3, device="cuda", max_iter=60, random_state=0, **options).fit(X, y)
    assert model.score(X, y) > 0.85
    again = LatentTreeClassifier(3, device="cuda", max_iter=60, random_state=0, **options).fit(X, y)
    assert np.array_equal(model.predict_proba(X), again.predict_proba(X))


def test_clustering_learns_there():
    X, y = load_iris(return_X_y=True)
    here, there = (
        LatentTreeClustering(3, device=device, max_iter=30, random_state=0).fit(X) for device in ("cpu", "cuda")
    )
    assert abs(here.dendrogram_purity(y) - there.dendrogram_purity(y)) < 0.1
