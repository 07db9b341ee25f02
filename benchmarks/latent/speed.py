"""Speed: the pruning solver beside a generic convex layer, and training beside an MLP."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn

from hardwood.nn import LatentModel
from hardwood.ops import prune_tree


def seconds_of(step: Callable[[], object], at_least: float = 0.2, most: int = 200) -> float:
    """Return the median time of a step."""
    step()
    times: list[float] = []
    while sum(times) < at_least and len(times) < most:
        begin = time.perf_counter()
        step()
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def rewards(rows: int, depth: int, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    """Rewards of rows that went through random splits."""
    generator = torch.Generator().manual_seed(rows + depth)
    model = LatentModel(8, 1, depth, generator=generator)
    x = torch.randn(rows, 8, generator=generator)
    model.tree.spread(x)
    return model.tree.rewards(x).detach().to(dtype)


def generic_layer(rows: int, nodes: int, penalty: float) -> Any:
    """Equation 3 as a differentiable convex layer."""
    import cvxpy
    from cvxpylayers.torch import CvxpyLayer

    q, a, z = cvxpy.Parameter((rows, nodes)), cvxpy.Variable(nodes), cvxpy.Variable((rows, nodes))
    above = (np.arange(1, nodes) - 1) // 2
    limits = [a[1:] <= a[above], z <= np.ones((rows, 1)) @ cvxpy.reshape(a, (1, nodes), "C"), z >= 0, a >= 0, a <= 1]
    cost = penalty / 2 * cvxpy.sum_squares(a) + cvxpy.sum_squares(z - q - 0.5) / 2
    return CvxpyLayer(cvxpy.Problem(cvxpy.Minimize(cost), limits), parameters=[q], variables=[z, a])


def solver(sizes: list[int], depth: int = 3, penalty: float = 1.0) -> None:
    """Print the ratio to cvxpylayers for each number of rows."""
    print(f"forward and backward, depth {depth}, lambda {penalty:g}, float64")
    print(f"{'rows':>6}  {'hardwood ms':>12}  {'cvxpylayers ms':>15}  {'ratio':>8}  {'apart':>8}")
    for rows in sizes:
        q = rewards(rows, depth).requires_grad_()
        weights = torch.randn(q.shape, dtype=q.dtype, generator=torch.Generator().manual_seed(0))
        generic = generic_layer(rows, q.shape[1], penalty)

        def ours(q: torch.Tensor = q, weights: torch.Tensor = weights) -> Any:
            z, a = prune_tree(q, penalty)
            return a, torch.autograd.grad((z * weights).sum() + a.sum(), q)

        def theirs(q: torch.Tensor = q, weights: torch.Tensor = weights, generic: Any = generic) -> Any:
            z, a = generic(q)
            return a, torch.autograd.grad((z * weights).sum() + a.sum(), q)

        begin = time.perf_counter()
        apart = float((theirs()[0] - ours()[0]).abs().max().detach())
        first = time.perf_counter() - begin
        slow = first if first > 5 else seconds_of(theirs, 0.5, 5)
        fast = seconds_of(ours)
        print(f"{rows:>6}  {fast * 1e3:>12.4f}  {slow * 1e3:>15.1f}  {slow / fast:>8.0f}  {apart:>8.1e}", flush=True)


def growth() -> None:
    """Print how the time of forward and backward grows with rows, and with depth."""

    def measure(rows: int, depth: int) -> float:
        q = rewards(rows, depth, torch.float32).requires_grad_()

        def step() -> None:
            z, a = prune_tree(q, rows / 100)
            torch.autograd.grad(z.sum() + a.sum(), q)

        return seconds_of(step, 0.1, 20)

    for title, sizes in (
        ("rows, at depth 3", [(rows, 3) for rows in (100, 1_000, 10_000, 100_000)]),
        ("depth, at 512 rows", [(512, depth) for depth in (3, 6, 9, 12)]),
    ):
        print(f"growth with {title}: milliseconds, and nanoseconds for each of n|T| log2(n|T|)")
        for rows, depth in sizes:
            taken, size = measure(rows, depth), rows * (2 ** (depth + 1) - 1)
            print(f"  n={rows:<7} depth={depth:<3} {taken * 1e3:9.3f} ms  {taken * 1e9 / size / math.log2(size):6.3f}")


def epoch(rows: int = 8192, features: int = 28, depth: int = 6, batch: int = 512) -> None:
    """Print a training epoch of a latent tree beside that of an MLP of as many parameters."""
    from hardwood.train import TrainingSettings, fit

    generator = torch.Generator().manual_seed(0)
    x = torch.randn(rows, features, generator=generator)
    y = (x[:, 0] * x[:, 1] > 0).long()
    for predictor in ("linear", "mlp"):
        model = LatentModel(features, 1, depth, predictor=predictor, generator=generator)  # type: ignore[arg-type]
        model.tree.spread(x)
        count = sum(p.numel() for p in model.parameters())
        # Two hidden layers: width^2 + (features + 3) width + 1 = count.
        width = round((-(features + 3) + math.sqrt((features + 3) ** 2 + 4 * (count - 1))) / 2)
        mlp = nn.Sequential(
            nn.Linear(features, width), nn.ELU(), nn.Linear(width, width), nn.ELU(), nn.Linear(width, 1)
        )
        times: dict[str, list[float]] = {"tree": [], "mlp": []}
        for _ in range(5):
            for name, each in (("tree", model), ("mlp", mlp)):
                settings = TrainingSettings(max_epochs=3, batch_size=batch, optimizer="qhadam", learning_rate=1e-3)
                times[name].append(fit(each, x, y, loss="cross_entropy", settings=settings).seconds / 3)
        ours, theirs = (statistics.median(times[name][1:]) for name in ("tree", "mlp"))
        size = sum(p.numel() for p in mlp.parameters())
        print(
            f"{predictor} predictor, depth {depth}, {rows} rows, batch {batch}: {ours * 1e3:.1f} ms "
            f"({count} parameters); MLP {theirs * 1e3:.1f} ms ({size} parameters); ratio {ours / theirs:.2f}",
            flush=True,
        )


def cuda() -> None:
    """Print forward and backward on a GPU, with and without its kernels, beside the CPU; and a training step."""
    from hardwood.ops import _pruning as module
    from hardwood.ops._tree_plan import plan_of

    if not torch.cuda.is_available():
        print("torch sees no GPU")
        return

    def timed(step: Callable[[], object]) -> float:
        def whole() -> None:
            step()
            torch.cuda.synchronize()

        for _ in range(3):
            whole()
        return seconds_of(whole, 0.2, 50)

    print(
        f"forward and backward in milliseconds, {torch.cuda.get_device_name()}; CPU: {torch.get_num_threads()} threads"
    )
    print(f"{'rows':>7} {'depth':>5} {'kernels':>9} {'hybrid':>9} {'CPU':>9} {'apart':>8}")
    for rows, depth in ((128, 4), (512, 6), (512, 9), (4096, 6), (65536, 6), (512, 12), (100_000, 3)):
        q = rewards(rows, depth, torch.float32)
        there, here = q.cuda().requires_grad_(), q.clone().requires_grad_()
        plan, penalty = plan_of(None, q.shape[1]), rows / 50

        def step(q: torch.Tensor, answer: Callable[[torch.Tensor], Any]) -> torch.Tensor:
            z, a = answer(q)
            torch.autograd.grad(z.sum() + a.sum(), q)
            return a.detach().cpu()

        def solve(q: torch.Tensor, penalty: float = penalty) -> Any:
            return prune_tree(q, penalty)

        def hybrid(q: torch.Tensor, penalty: float = penalty, plan: Any = plan) -> Any:
            return module._Pruning.apply(q, penalty, plan, False)  # type: ignore[no-untyped-call]

        apart = float((step(there, solve) - step(here, solve)).abs().max())
        times = [
            timed(lambda q=q, answer=answer: step(q, answer)) * 1e3  # type: ignore[misc]
            for q, answer in ((there, solve), (there, hybrid), (here, solve))
        ]
        print(f"{rows:>7} {depth:>5} " + " ".join(f"{each:>9.3f}" for each in times) + f" {apart:>8.1e}", flush=True)
    print("a training step (forward, loss, backward), linear predictor, 28 columns: milliseconds on GPU and CPU")
    for rows, depth in ((512, 6), (4096, 6), (4096, 9), (65536, 8)):
        x = torch.randn(rows, 28, generator=torch.Generator().manual_seed(0))
        found = []
        for device in ("cuda", "cpu"):
            model = LatentModel(28, 1, depth, generator=torch.Generator().manual_seed(0))
            model.tree.spread(x[:4096])
            model, given = model.to(device), x.to(device)

            def train(model: nn.Module = model, given: torch.Tensor = given) -> None:
                model.zero_grad()
                model(given).square().mean().backward()

            found.append(timed(train) * 1e3)
        print(f"{rows:>7} {depth:>5} " + " ".join(f"{each:>9.3f}" for each in found), flush=True)
