"""Batches: every row once an epoch, and a place that can be stored."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hardwood.errors import InvalidArgumentError
from hardwood.train import Batches, draw_tree_rows
from hardwood.train._batches import TreeDropout


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@given(st.integers(2, 60), st.integers(1, 59), st.integers(0, 9))
def test_an_epoch_takes_every_row_once(n_rows, batch_size, seed):
    batch_size = min(batch_size, n_rows - 1)
    batches = Batches(n_rows, batch_size, seeded(seed))
    for epoch in range(2):
        taken = [batches.take() for _ in range(batches.steps_per_epoch)]
        assert torch.cat(taken).sort().values.tolist() == list(range(n_rows))
        assert [len(batch) for batch in taken[:-1]] == [batch_size] * (len(taken) - 1)
        assert batches.at_epoch_end and batches.epoch == batches.progress == epoch + 1


def test_epochs_differ_and_seeds_repeat():
    one, two = Batches(100, 10, seeded()), Batches(100, 10, seeded())
    first, second = (torch.cat([one.take() for _ in range(10)]) for _ in range(2))
    assert not torch.equal(first, second)
    assert torch.equal(first, torch.cat([two.take() for _ in range(10)]))


def test_all_rows_fit():
    batches = Batches(7, 7, seeded())
    assert batches.take() is None and batches.at_epoch_end and batches.steps_per_epoch == 1


def test_with_replacement():
    batches = Batches(50, 100, seeded(), replace=True)
    taken = batches.take()
    assert len(taken) == 50 and len(taken.unique()) < 50


@pytest.mark.parametrize("steps", [0, 3, 5, 8])
def test_a_stored_place_goes_on_the_same(steps):
    batches = Batches(23, 5, seeded(1))
    for _ in range(steps):
        batches.take()
    other = Batches(23, 5, seeded(2))
    other.load_tensors({name: tensor.clone() for name, tensor in batches.tensors().items()})
    for _ in range(12):
        assert torch.equal(batches.take(), other.take())
    assert batches.progress == other.progress


def test_dropout_leaves_out_its_share_and_never_all():
    dropout = TreeDropout(1000, 0.2, seeded(), "cpu")
    assert float(dropout.draw().float().mean()) == pytest.approx(0.8, abs=0.05)
    alone = TreeDropout(2, 0.99, seeded(), "cpu")
    assert all(alone.draw().any() for _ in range(50))


def test_rows_of_trees():
    drawn = draw_tree_rows(100, 8, 0.3, seeded())
    assert drawn.sum(0).tolist() == [30] * 8
    assert not torch.equal(drawn[:, 0], drawn[:, 1])
    again = draw_tree_rows(1000, 4, 1.0, seeded(), replace=True).float().mean(0)
    torch.testing.assert_close(again, torch.full((4,), 0.632), atol=0.05, rtol=0)


def test_no_rows():
    with pytest.raises(InvalidArgumentError, match="there are no rows"):
        Batches(0, 5, seeded())
    with pytest.raises(InvalidArgumentError, match="share=0"):
        draw_tree_rows(5, 2, 0.0, seeded())
