"""Weights of rows and classes."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.utils.class_weight import compute_class_weight

from hardwood.errors import InvalidArgumentError
from hardwood.train._weights import check_weight, class_factors, weighted_mean, weighted_quantile

WHOLE = st.lists(st.tuples(st.integers(-5, 5), st.integers(0, 3)), min_size=1, max_size=12)


@given(WHOLE, st.floats(0.01, 0.99))
def test_a_whole_weight_is_that_many_rows(rows, level):
    values = torch.tensor([[float(value)] for value, _ in rows], dtype=torch.float64)
    counts = torch.tensor([count for _, count in rows])
    if counts.sum() == 0:
        return
    repeated, weight = values.repeat_interleave(counts, 0), counts.double()
    torch.testing.assert_close(weighted_mean(values, weight), weighted_mean(repeated, None))
    assert weighted_quantile(values, weight, level) == weighted_quantile(repeated, None, level)


def test_a_quantile_is_numpys_inverted_cdf():
    values = torch.randn(37, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    for level in (0.1, 0.5, 0.75):
        expected = np.quantile(values.numpy(), level, axis=0, method="inverted_cdf")
        np.testing.assert_array_equal(weighted_quantile(values, None, level).numpy(), expected)


def test_a_mean_over_no_weight_is_zero():
    values = torch.ones(3, 2, requires_grad=True)
    weight = torch.tensor([[1.0, 0], [1, 0], [0, 0]])
    mean = weighted_mean(values, weight)
    mean.sum().backward()
    assert mean.tolist() == [1, 0]
    assert values.grad[:, 1].tolist() == [0, 0, 0]


def test_balanced_classes():
    target = torch.tensor([0, 0, 0, 1, 2, 2])
    expected = compute_class_weight("balanced", classes=np.arange(3), y=target.numpy())
    np.testing.assert_allclose(class_factors(target, "balanced", None, 3).numpy(), expected)
    weight = torch.tensor([1.0, 1, 1, 3, 1, 2])
    factors = class_factors(target, "balanced", weight, 3)
    assert [float((factors[target] * weight)[target == code].sum()) for code in range(3)] == pytest.approx([3, 3, 3])


def test_given_class_weights():
    target = torch.tensor([0, 1, 2])
    assert class_factors(target, {1: 5.0}, None, 3).tolist() == [1, 5, 1]
    assert class_factors(target, [1.0, 2.0, 3.0], None, 3).tolist() == [1, 2, 3]
    for wrong, message in (
        ({7: 1.0}, "7 is not one of the 3 classes"),
        ([1.0], "has 1 numbers for 3 classes"),
        ([1.0, -1.0, 1.0], "negative"),
    ):
        with pytest.raises(InvalidArgumentError, match=message):
            class_factors(target, wrong, None, 3)


@pytest.mark.parametrize("weight", [[1.0], [1.0, -1.0], [0.0, 0.0], [1.0, float("nan")], [1.0, float("inf")]])
def test_weights_that_cannot_work(weight):
    with pytest.raises(InvalidArgumentError, match="sample_weight"):
        check_weight("sample_weight", torch.tensor(weight), 2)
