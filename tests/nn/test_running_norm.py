"""`RunningNorm` is a slow standardisation that no batch can be seen in."""

from __future__ import annotations

import pytest
import torch

from hardwood.errors import InvalidArgumentError
from hardwood.nn import RunningNorm


def test_the_first_batches_give_plain_statistics():
    torch.manual_seed(0)
    x = torch.randn(40, 3) * torch.tensor([1.0, 5.0, 0.1]) + torch.tensor([0.0, 3.0, -7.0])
    norm = RunningNorm(3, momentum=0.01, epsilon=1e-9)
    for part in x.split(10):
        norm(part)
    torch.testing.assert_close(norm.mean, x.mean(0))
    torch.testing.assert_close(norm.variance, x.var(0, correction=0))
    norm.eval()
    torch.testing.assert_close(norm(x).std(0, correction=0), torch.ones(3))


def test_missing_numbers_count_nowhere_and_stay_missing():
    x = torch.tensor([[1.0, torch.nan], [3.0, 4.0], [torch.nan, 8.0]])
    norm = RunningNorm(2)
    assert norm(x).isnan().equal(x.isnan())
    torch.testing.assert_close(norm.mean, torch.tensor([2.0, 6.0]))
    before = norm.mean.clone(), norm.variance.clone()
    norm(torch.full((4, 2), torch.nan))
    assert norm.mean.equal(before[0])
    assert norm.variance.equal(before[1])


def test_in_eval_mode_nothing_moves_and_rows_are_alone():
    norm = RunningNorm(2)
    norm(torch.randn(9, 2, generator=torch.Generator().manual_seed(1)))
    norm.eval()
    held = {name: each.clone() for name, each in norm.state_dict().items()}
    x = torch.randn(5, 2, generator=torch.Generator().manual_seed(2)) * 9
    assert norm(x)[2:3].equal(norm(x[2:3]))
    assert all(each.equal(held[name]) for name, each in norm.state_dict().items())


def test_the_gradient_takes_statistics_as_constants():
    norm = RunningNorm(2)
    x = torch.randn(6, 2, generator=torch.Generator().manual_seed(0)).requires_grad_()
    norm(x).sum().backward()
    assert x.grad is not None
    torch.testing.assert_close(x.grad, norm.scale.expand(6, 2))


@pytest.mark.parametrize(("name", "value"), [("momentum", 0.0), ("momentum", 2.0), ("epsilon", 0.0)])
def test_settings_that_mean_nothing_are_refused(name: str, value: float):
    with pytest.raises(InvalidArgumentError, match=name):
        RunningNorm(2, **{name: value})
