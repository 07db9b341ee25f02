"""The pruning solver against a generic convex solver, against Algorithm 1 step by step, and in its limits."""

from __future__ import annotations

from typing import Any

import cvxpy
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hardwood.errors import InvalidArgumentError
from hardwood.ops import Traversal, path_minima, prune_tree
from hardwood.ops._pruning import _Pruning
from hardwood.ops._tree_plan import plan_of


def draw(rows: int, depth: int, seed: int, ties: bool = False, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    """Rewards of a complete tree between -2 and 2; with ties, few different ones."""
    generator = torch.Generator().manual_seed(seed)
    q = torch.rand(rows, 2 ** (depth + 1) - 1, generator=generator, dtype=torch.float64) * 4 - 2
    return ((q * 2).round() / 2 if ties else q).to(dtype)


def complete(n_nodes: int) -> torch.Tensor:
    parent = (torch.arange(n_nodes) - 1) // 2
    parent[0] = -1
    return parent


def solve_generically(q: np.ndarray, penalty: float) -> tuple[np.ndarray, np.ndarray]:
    """Equation 3 as it stands, by cvxpy; rewards are scaled so that the solver's tolerance means the same for all."""
    rows, nodes = q.shape
    a, z = cvxpy.Variable(nodes), cvxpy.Variable((rows, nodes))
    scale = 1 / (1 + penalty)
    cost = scale * (penalty / 2 * cvxpy.sum_squares(a) + cvxpy.sum_squares(z - q - 0.5) / 2)
    above = (np.arange(1, nodes) - 1) // 2
    limits = [a[1:] <= a[above], z <= np.ones((rows, 1)) @ cvxpy.reshape(a, (1, nodes), "C"), z >= 0, a >= 0, a <= 1]
    exact = {"tol_gap_abs": 1e-14, "tol_gap_rel": 1e-14, "tol_feas": 1e-12}
    loosely = {"reduced_tol_gap_abs": 1e-12, "reduced_tol_gap_rel": 1e-12}
    cvxpy.Problem(cvxpy.Minimize(cost), limits).solve(solver=cvxpy.CLARABEL, **exact, **loosely)
    assert a.value is not None and z.value is not None
    return z.value, a.value


def cost_of(q: np.ndarray, penalty: float, z: np.ndarray, a: np.ndarray) -> float:
    return float(penalty / 2 * (a**2).sum() + ((z - q - 0.5) ** 2).sum() / 2)


def agrees_with_cvxpy(q: torch.Tensor, penalty: float) -> None:
    found = prune_tree(q, penalty)
    z, a = solve_generically(q.numpy(), penalty)
    np.testing.assert_allclose(found.a.numpy(), a, atol=1e-6)
    np.testing.assert_allclose(found.z.numpy(), z, atol=1e-6)


@settings(max_examples=12)
@given(
    st.integers(1, 20), st.integers(1, 4), st.floats(-3, 3).map(lambda power: 10**power), st.integers(0, 999),
    st.booleans(),
)  # fmt: skip
def test_agrees_with_a_generic_convex_solver(rows: int, depth: int, penalty: float, seed: int, ties: bool):
    agrees_with_cvxpy(draw(rows, depth, seed, ties), penalty)


@pytest.mark.parametrize(("rows", "depth", "penalty"), [(200, 2, 1e-3), (200, 5, 50.0), (37, 5, 1e3)])
def test_agrees_with_a_generic_convex_solver_at_larger_sizes(rows: int, depth: int, penalty: float):
    agrees_with_cvxpy(draw(rows, depth, seed=rows + depth, ties=depth == 5), penalty)


@settings(max_examples=60)
@given(
    st.integers(1, 12), st.integers(1, 4), st.floats(-3, 3).map(lambda power: 10**power), st.integers(0, 10**6),
    st.booleans(),
)  # fmt: skip
def test_values_are_those_of_algorithm_1(rows: int, depth: int, penalty: float, seed: int, ties: bool):
    q = draw(rows, depth, seed, ties)
    fast, slow = prune_tree(q, penalty), prune_tree(q, penalty, backend="reference")
    torch.testing.assert_close(fast.a, slow.a, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(fast.z, slow.z, rtol=1e-12, atol=1e-12)


@settings(max_examples=40)
@given(st.integers(1, 9), st.integers(1, 4), st.sampled_from([1e-3, 0.3, 4.0, 1e3]), st.integers(0, 10**6))
def test_gradients_are_those_of_algorithm_1(rows: int, depth: int, penalty: float, seed: int):
    q = draw(rows, depth, seed).requires_grad_()
    weights = draw(rows + 1, depth, seed + 1)

    def gradient(solution: Traversal) -> torch.Tensor:
        value = (solution.z * weights[1:]).sum() + (solution.a * weights[0]).sum()
        return torch.autograd.grad(value, q)[0]

    fast = gradient(prune_tree(q, penalty))
    torch.testing.assert_close(fast, gradient(prune_tree(q, penalty, backend="reference")), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("penalty", [0.01, 1.0, 30.0])
@pytest.mark.parametrize("part", ["z", "a"])
def test_gradients_are_finite_differences_away_from_kinks(penalty: float, part: str):
    q = draw(11, 3, seed=4)
    weights = draw(11, 3, seed=5) if part == "z" else draw(1, 3, seed=5)[0]

    def value(q: torch.Tensor) -> torch.Tensor:
        return (getattr(prune_tree(q, penalty), part) * weights).sum()

    (found,) = torch.autograd.grad(value(q.requires_grad_()), q)
    step, checked = 1e-7, 0
    for place in range(0, q.numel(), 3):
        moves = torch.zeros(q.numel(), dtype=q.dtype)
        moves[place] = step
        ahead, behind = (float(value((q + sign * moves.reshape(q.shape)).detach())) for sign in (1, -1))
        middle = float(value(q.detach()))
        forward, backward = (ahead - middle) / step, (middle - behind) / step
        if abs(forward - backward) < 1e-5:  # otherwise a kink lies between
            assert abs((forward + backward) / 2 - float(found.flatten()[place])) < 1e-5
            checked += 1
    assert checked > 40


@pytest.mark.parametrize("backend", ["auto", "reference"])
def test_a_small_penalty_leaves_each_reward_as_far_as_constraints_allow(backend: Any):
    q = draw(25, 3, seed=2)
    a = prune_tree(q, 1e-9, backend=backend).a
    wanted = torch.zeros(q.shape[1])
    # Activity costs nothing: a node is active in full where some row asks for it and for all nodes above.
    top = (q.max(0).values + 0.5).clamp(0, 1)
    for node in range(q.shape[1]):
        wanted[node] = top[node] if node == 0 else min(float(top[node]), float(wanted[(node - 1) // 2]))
    free = wanted == 1
    torch.testing.assert_close(a[free].float(), wanted[free], rtol=0, atol=1e-6)
    z, generic = solve_generically(q.numpy(), 1e-9)
    assert cost_of(q.numpy(), 0, prune_tree(q, 1e-9).z.numpy(), a.numpy()) <= cost_of(q.numpy(), 0, z, generic) + 1e-6


def test_a_large_penalty_prunes_everything():
    found = prune_tree(draw(50, 4, seed=1), 1e12)
    assert float(found.a.max()) < 1e-8
    assert float(found.z.max()) < 1e-8


def test_a_node_that_no_row_wants_is_pruned_to_zero():
    q = draw(30, 2, seed=3)
    q[:, 5] = -0.5 - q[:, 5].abs()
    found = prune_tree(q, 0.1)
    assert float(found.a[5]) == 0
    assert not found.z[:, 5].any()


@settings(max_examples=25)
@given(st.integers(0, 400), st.integers(1, 5), st.floats(0.001, 1000), st.integers(0, 10**6))
def test_the_solution_keeps_the_constraints(rows: int, depth: int, penalty: float, seed: int):
    q = draw(rows, depth, seed, dtype=torch.float32)
    z, a = prune_tree(q, penalty)
    parent = complete(q.shape[1])
    assert (a[1:] <= a[parent[1:]]).all() and (a >= 0).all() and (a <= 1).all()
    assert (z <= a).all() and (z >= 0).all()


def test_any_tree_will_do():
    """A chain, and a tree with three children of one node, solved by pooling."""
    for parent in ([-1, 0, 1, 2, 3], [-1, 0, 0, 0, 2, 2]):
        q = draw(13, 2, seed=8)[:, : len(parent)]
        above = torch.tensor(parent)
        fast, slow = prune_tree(q, 3.0, above), prune_tree(q, 3.0, above, backend="reference")
        torch.testing.assert_close(fast.a, slow.a, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_types_are_kept(dtype: torch.dtype):
    q = draw(6, 2, seed=1, dtype=dtype).requires_grad_()
    z, a = prune_tree(q, 1.0)
    assert z.dtype == a.dtype == dtype
    assert torch.autograd.grad(z.sum(), q)[0].dtype == dtype


def test_the_hybrid_for_other_devices_says_the_same():
    """Off the CPU only the pruning itself is solved there; the rest is torch, which runs here as well."""
    for seed in range(5):
        q = draw(40, 4, seed).requires_grad_()
        weights = draw(41, 4, seed + 50)
        answers = []
        for compiled in (True, False):
            z, a = _Pruning.apply(q, 5.0, plan_of(None, q.shape[1]), compiled)  # type: ignore[no-untyped-call]
            answers.append((z, a, *torch.autograd.grad((z * weights[1:]).sum() + (a * weights[0]).sum(), q)))
        for one, other in zip(*answers, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)


def test_the_random_state_and_the_input_stay(random_state_stays: None):
    q = draw(9, 3, seed=0)
    before = q.clone()
    prune_tree(q.requires_grad_(), 1.0).z.sum().backward()
    assert torch.equal(q.detach(), before)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"penalty": 0.0}, "penalty"),
        ({"penalty": float("inf")}, "penalty"),
        ({"q": torch.full((2, 3), float("nan"))}, "q=nan"),
        ({"parent": torch.tensor([-1, 2, 0])}, "parent"),
        ({"parent": torch.tensor([0, 0, 0])}, "parent"),
    ],
)
def test_bad_input_is_named(change: dict[str, Any], named: str):
    arguments: dict[str, Any] = {"q": torch.zeros(2, 3), "penalty": 1.0, **change}
    with pytest.raises(InvalidArgumentError, match=named):
        prune_tree(**arguments)


def complete_plan(depth: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    nodes = torch.arange(2 ** (depth + 1) - 1)
    return complete(len(nodes)), ((nodes - 1) // 2).clamp(min=0), torch.where(nodes % 2 == 1, -1.0, 1.0)


@settings(max_examples=30)
@given(st.integers(0, 9), st.integers(1, 5), st.integers(0, 10**6))
def test_path_minima_are_those_of_plain_torch(rows: int, depth: int, seed: int):
    splits = draw(rows, depth, seed)[:, : 2**depth - 1].clone().requires_grad_()
    weights = draw(rows, depth, seed + 1)
    found = [path_minima(splits, *complete_plan(depth), backend=backend) for backend in ("auto", "reference")]  # type: ignore[arg-type]
    assert torch.equal(*found)
    gradients = [torch.autograd.grad((q * weights).sum(), splits)[0] for q in found]
    torch.testing.assert_close(*gradients, rtol=1e-12, atol=1e-12)


def test_path_minima_are_rewards_of_the_way():
    """By hand: right at the root by 0.3, then left by 0.2."""
    q = path_minima(torch.tensor([[0.3, 9.0, -0.2]]), *complete_plan(2))
    torch.testing.assert_close(q, torch.tensor([[1.0, -0.3, 0.3, -9.0, -0.3, 0.2, -0.2]]))
