"""entmax-1.5 against a readable solution by sorting, its Jacobian against autograd, and its promises on odd input."""

import inspect

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from hardwood.ops import entmax15
from helpers.processes import run_python


def sorted_entmax15(logits: np.ndarray) -> np.ndarray:
    """Try every support size, largest logits first, in float64 (Peters, Niculae and Martins, 2019, Algorithm 2)."""
    z = np.asarray(logits, np.float64) / 2
    z = z - z.max()
    ranked = np.sort(z)[::-1]
    for k in range(1, len(z) + 1):
        mean = ranked[:k].mean()
        spread = ((ranked[:k] - mean) ** 2).sum()
        if spread > 1:
            continue
        tau = mean - np.sqrt((1 - spread) / k)
        if ranked[k - 1] >= tau and (k == len(z) or ranked[k] <= tau):
            return np.maximum(z - tau, 0) ** 2
    raise AssertionError("no support size fits")


@given(
    hnp.arrays(
        np.float64,
        st.integers(1, 60),
        elements=st.one_of(st.floats(-1e3, 1e3), st.floats(-3, 3), st.sampled_from([0.0, 1.0, -1.0, 2.0])),
    )
)
def test_agrees_with_sorting(logits):
    p = entmax15(torch.from_numpy(logits)).numpy()
    np.testing.assert_allclose(p, sorted_entmax15(logits), atol=1e-9)
    assert abs(p.sum() - 1) < 1e-9


@pytest.mark.parametrize("size", [2, 100, 5000])
@pytest.mark.parametrize("scale", [0.0, 0.01, 1.0, 30.0])
def test_agrees_on_long_rows(size, scale):
    logits = torch.randn(7, size, dtype=torch.float64, generator=torch.Generator().manual_seed(size)) * scale
    for row, p in zip(logits, entmax15(logits), strict=True):
        np.testing.assert_allclose(p, sorted_entmax15(row.numpy()), atol=1e-10)


def test_hard_case_of_many_logits_just_outside_the_support():
    logits = torch.full((1001,), -1.8, dtype=torch.float64)
    logits[0] = 0.0
    np.testing.assert_allclose(entmax15(logits), sorted_entmax15(logits.numpy()), atol=1e-10)


def test_gradient_is_exact():
    logits = torch.randn(4, 9, dtype=torch.float64, requires_grad=True) * 3
    assert torch.autograd.gradcheck(entmax15, (logits.detach().requires_grad_(),), eps=1e-7, atol=1e-5)


def test_outside_the_support_nothing_flows():
    logits = torch.tensor([5.0, 4.8, -9.0], requires_grad=True)
    p = entmax15(logits)
    (p[0] * 3).backward()
    assert p[2] == 0 and logits.grad[2] == 0 and logits.grad[0] > 0


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_any_dimension(dim):
    logits = torch.randn(5, 6, 2)
    moved = entmax15(logits.movedim(dim, -1)).movedim(-1, dim)
    torch.testing.assert_close(entmax15(logits, dim), moved)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_float32(dtype):
    logits = torch.randn(3, 200).to(dtype)
    p = entmax15(logits)
    assert p.dtype == dtype
    torch.testing.assert_close(p, entmax15(logits.float()).to(dtype))


def test_nan_stays_in_its_own_row_and_minus_infinity_is_never_chosen():
    logits = torch.tensor([[0.0, torch.nan], [1.0, 1.0], [0.0, -torch.inf]])
    p = entmax15(logits)
    assert p[0].isnan().all()
    torch.testing.assert_close(p[1:], torch.tensor([[0.5, 0.5], [1.0, 0.0]]))


def test_vmap_sees_the_same_function():
    logits = torch.randn(6, 11)
    torch.testing.assert_close(torch.vmap(inspect.unwrap(entmax15))(logits), entmax15(logits))


def test_compile_sees_the_same_function():
    run_python(
        """
        import torch
        from hardwood.ops import entmax15

        logits, weights = torch.randn(6, 11, requires_grad=True), torch.randn(6, 11)
        compiled = torch.compile(entmax15, fullgraph=True, backend="aot_eager")
        torch.testing.assert_close(compiled(logits), entmax15(logits))
        (wanted,) = torch.autograd.grad((entmax15(logits) * weights).sum(), logits)
        (got,) = torch.autograd.grad((compiled(logits) * weights).sum(), logits)
        torch.testing.assert_close(got, wanted)
        """
    )
