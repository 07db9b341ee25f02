"""Random parameters for hard routing, and the comparison of a backend with the float64 reference."""

from typing import Any, NamedTuple

import torch

from hardwood.ops import hard_trees


class Problem(NamedTuple):
    """Arguments of `hard_trees`: the rows, what is learned, and what is not."""

    x: torch.Tensor
    parameters: dict[str, torch.Tensor]
    fixed: dict[str, torch.Tensor]


def make_problem(
    rows: int,
    trees: int,
    depth: int,
    features: int,
    outputs: int,
    *,
    seed: int = 0,
    odd_cells: bool = False,
    missing: bool = True,
    subset: int | None = None,
    mask: bool = False,
    spread: float = 1.0,
    dtype: torch.dtype = torch.float32,
    device: str = "cpu",
) -> Problem:
    """Draw a problem that has ties at thresholds; with `odd_cells` also NaN, infinities and a constant column."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator)

    nodes, seen = 2**depth - 1, features if subset is None else subset
    x = normal(rows, features)
    parameters = {
        "split_logits": normal(trees, nodes, seen) * spread,
        "thresholds": normal(trees, nodes, seen),
        "leaf_values": normal(trees, nodes + 1, outputs),
        "leaf_weights": normal(trees, nodes + 1),
    }
    if missing:
        parameters["missing_logits"] = normal(trees, nodes, seen)
        parameters["missing_logits"][:, ::3] = 0  # a tie: missing goes right
    parameters["split_logits"][:, ::4] = parameters["split_logits"][:, ::4].round()  # ties between features
    # Ties at thresholds: numbers from a short list, in the rows and in the trees.
    x = torch.where(torch.rand(x.shape, generator=generator) < 0.3, x.round(), x)
    parameters["thresholds"] = torch.where(
        torch.rand(parameters["thresholds"].shape, generator=generator) < 0.3,
        parameters["thresholds"].round(),
        parameters["thresholds"],
    )
    if odd_cells:
        draw = torch.rand(x.shape, generator=generator)
        x[draw < 0.15] = torch.nan
        x[(draw > 0.15) & (draw < 0.2)] = torch.inf
        x[(draw > 0.2) & (draw < 0.25)] = -torch.inf
        x[:, -1] = 1.0
    fixed = {}
    if subset is not None:
        fixed["feature_subset"] = torch.stack(
            [torch.randperm(features, generator=generator)[:subset] for _ in range(trees)]
        )
    if mask:
        fixed["tree_mask"] = torch.rand(rows, trees, generator=generator) < 0.7
    return Problem(
        x.to(device, dtype),
        {name: p.to(device, dtype) for name, p in parameters.items()},
        {name: p.to(device) for name, p in fixed.items()},
    )


def evaluate(problem: Problem, dtype: torch.dtype, **options: Any) -> tuple[Any, dict[str, torch.Tensor]]:
    """Return the outputs and the gradient, for a fixed random loss, of the input and of every parameter."""
    x = problem.x.to(dtype).requires_grad_()
    parameters = {name: p.to(dtype).requires_grad_() for name, p in problem.parameters.items()}
    result = hard_trees(x, **parameters, **problem.fixed, **options)
    generator = torch.Generator().manual_seed(7)

    def pull(tensor: torch.Tensor) -> torch.Tensor:
        return torch.randn(tensor.shape, generator=generator, dtype=torch.float64).to(tensor)

    loss = (result.output * pull(result.output)).sum()
    if options.get("combine") == "none" and result.weights is not None:
        loss = loss + (result.weights * pull(result.weights)).sum()
    leaves = {"x": x, **parameters}
    found = torch.autograd.grad(loss, list(leaves.values()), allow_unused=True)
    grads = {
        name: torch.zeros_like(leaf) if grad is None else grad
        for (name, leaf), grad in zip(leaves.items(), found, strict=True)
    }
    return result, grads


def assert_close_to_reference(problem: Problem, **options: Any) -> None:
    """Check leaves exactly, outputs and gradients to 1e-4 relative, against the dense formula in float64."""
    got, got_grads = evaluate(problem, problem.x.dtype, **options)
    want, want_grads = evaluate(problem, torch.float64, backend="reference", **options)
    assert torch.equal(got.leaf_index, want.leaf_index)
    torch.testing.assert_close(got.output.double(), want.output, rtol=1e-4, atol=1e-5)
    if want.weights is not None:
        assert got.weights is not None
        torch.testing.assert_close(got.weights.double(), want.weights, rtol=1e-4, atol=1e-6)
    for name, expected in want_grads.items():
        scale = expected.abs().max().item()
        difference = (got_grads[name].double() - expected).norm() / max(expected.norm().item(), 1e-12)
        assert difference < 1e-4 or scale < 1e-12, f"{name}: relative error {difference:.2e}"
        torch.testing.assert_close(
            got_grads[name].double(), expected, rtol=1e-3, atol=1e-5 * max(scale, 0.1), msg=f"gradient of {name}"
        )
