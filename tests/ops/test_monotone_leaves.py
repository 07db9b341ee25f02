"""Monotone leaves: the compiled form, the dense form, and the gradient of the formula written out."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from hardwood.ops._monotone_leaves import _bounds_op, monotone_leaves
from hardwood.ops._monotone_reference import dense_leaf_bounds, leaf_moves
from helpers.routing import make_problem


def drawn(seed: int, **options: Any) -> tuple[dict[str, Tensor], Tensor | None, Tensor]:
    """Parameters with ties between features, thresholds and values; a subset of columns or none; directions."""
    generator = torch.Generator().manual_seed(seed)

    def size(low: int, high: int) -> int:
        return int(torch.randint(low, high, (), generator=generator))

    features = size(2, 6)
    subset = size(1, features + 1) if seed % 3 == 0 else None
    problem = make_problem(
        1, size(1, 6), size(1, 6), features, size(1, 4), seed=seed, subset=subset, missing=seed % 4 > 0, **options
    )  # fmt: skip
    if seed % 5 == 0:
        problem.parameters["leaf_values"] = problem.parameters["leaf_values"].round()
    directions = torch.randint(-1, 2, (features,), generator=generator)
    return problem.parameters, problem.fixed.get("feature_subset"), directions


def bounds(form: Any, parameters: dict[str, Tensor], subset: Tensor | None, directions: Tensor) -> tuple[Tensor, ...]:
    names = ("split_logits", "thresholds", "missing_logits")
    splits = [parameters.get(name) for name in names]
    return tuple(form(*splits, subset, parameters["leaf_values"], directions, True))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("seed", range(40))
def test_the_compiled_form_is_the_dense_one(seed, dtype):
    problem = drawn(seed, dtype=dtype)
    for got, want in zip(bounds(_bounds_op, *problem), bounds(dense_leaf_bounds, *problem), strict=True):
        assert torch.equal(got, want)


def test_deep_trees_and_many_of_them():
    for trees, depth in ((3, 8), (300, 4)):
        problem = make_problem(1, trees, depth, 6, 1, seed=depth)
        given = (problem.parameters, None, torch.tensor([1, 0, -1, 0, 0, 1]))
        for got, want in zip(bounds(_bounds_op, *given), bounds(dense_leaf_bounds, *given), strict=True):
            assert torch.equal(got, want)


def written_out(parameters: dict[str, Tensor], subset: Tensor | None, directions: Tensor) -> tuple[Tensor, Tensor]:
    """The formulas, leaf by leaf, on matrices of which leaf comes before which; autograd does the rest."""
    selected = parameters["split_logits"].argmax(2, keepdim=True)
    column = selected[..., 0] if subset is None else subset.gather(1, selected[..., 0])
    threshold = parameters["thresholds"].gather(2, selected)[..., 0]
    missing_right = torch.zeros_like(threshold, dtype=torch.bool)
    if "missing_logits" in parameters:
        missing_right = parameters["missing_logits"].gather(2, selected)[..., 0] >= 0
    moves = leaf_moves(column, threshold, missing_right, directions)
    values, weights = [], []
    for tree, moves_here in enumerate(moves):
        leaves = len(moves_here)
        before = moves_here | torch.eye(leaves, dtype=torch.bool)
        connected = before | before.T
        for between in range(leaves):
            before = before | (before[:, between, None] & before[None, between, :])
            connected = connected | (connected[:, between, None] & connected[None, between, :])
        own = parameters["leaf_values"][tree]
        for leaf in range(leaves):
            largest, smallest = own[before[:, leaf]].max(0).values, own[before[leaf]].min(0).values
            values.append((largest + smallest) / 2)
            weights.append(parameters["leaf_weights"][tree][connected[leaf]].mean())
    shape = parameters["leaf_values"].shape
    return torch.stack(values).reshape(shape), torch.stack(weights).reshape(shape[:2])


@pytest.mark.parametrize("seed", [1, 2, 3, 4, 6, 7, 8, 9])
def test_values_and_gradients_are_those_of_the_formula(seed):
    parameters, subset, directions = drawn(seed)
    exact = {name: p.double().requires_grad_() for name, p in parameters.items()}
    learned = {name: p.clone().requires_grad_() for name, p in parameters.items()}
    missing = learned.get("missing_logits")
    got = monotone_leaves(
        learned["split_logits"], learned["thresholds"], learned["leaf_values"], directions,
        leaf_weights=learned["leaf_weights"], missing_logits=missing, feature_subset=subset,
    )  # fmt: skip
    want = written_out(exact, subset, directions)
    pulls = [torch.randn(each.shape, generator=torch.Generator().manual_seed(seed)) for each in got]
    for each, expected in zip(got, want, strict=True):
        torch.testing.assert_close(each.double(), expected, rtol=1e-6, atol=1e-6)
    sum((each * pull).sum() for each, pull in zip(got, pulls, strict=True)).backward()
    sum((each * pull.double()).sum() for each, pull in zip(want, pulls, strict=True)).backward()
    for name in ("leaf_values", "leaf_weights"):
        torch.testing.assert_close(learned[name].grad.double(), exact[name].grad, rtol=1e-5, atol=1e-5)
    assert learned["thresholds"].grad is None


def test_monotone_leaves_stay_and_keep_their_gradient():
    for seed in range(12):
        parameters, subset, directions = drawn(seed)
        splits = (parameters["split_logits"], parameters["thresholds"])
        options = {"missing_logits": parameters.get("missing_logits"), "feature_subset": subset}
        first = monotone_leaves(
            *splits, parameters["leaf_values"], directions, leaf_weights=parameters["leaf_weights"], **options
        )
        values, weights = first.values.requires_grad_(), first.weights.requires_grad_()
        again = monotone_leaves(*splits, values, directions, leaf_weights=weights, **options)
        assert torch.equal(again.values, values) and torch.equal(again.weights, weights)
        pull = torch.randn(values.shape, generator=torch.Generator().manual_seed(seed))
        (again.values * pull).sum().backward()
        torch.testing.assert_close(values.grad, pull, rtol=0, atol=0)


def test_without_weights_and_in_half_precision():
    parameters, _, directions = drawn(1)
    half = {name: p.bfloat16() for name, p in parameters.items()}
    args = ("split_logits", "thresholds", "leaf_values")
    got = monotone_leaves(*(half[name] for name in args), directions, missing_logits=half["missing_logits"])
    want = monotone_leaves(*(half[name].float() for name in args), directions, missing_logits=half["missing_logits"])
    assert got.weights is None and got.values.dtype == torch.float32
    assert torch.equal(got.values, want.values)


def test_values_that_are_not_finite_are_not_hidden():
    """The operator refuses them on the CPU; elsewhere they must come out, for routing to be refused or be NaN."""
    parameters, subset, directions = drawn(4)
    parameters["leaf_values"][0, 1] = torch.nan
    upper, lower, _ = bounds(dense_leaf_bounds, parameters, subset, directions)
    values = parameters["leaf_values"]
    assert ((values.gather(1, upper) + values.gather(1, lower))[0, 1]).isnan().all()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("seed", range(8))
def test_a_gpu_finds_the_same_bounds(seed):
    parameters, subset, directions = drawn(seed)
    there = {name: p.cuda() for name, p in parameters.items()}
    got = bounds(_bounds_op, there, None if subset is None else subset.cuda(), directions.cuda())
    for each, want in zip(got, bounds(_bounds_op, parameters, subset, directions), strict=True):
        assert torch.equal(each.cpu(), want)
