"""Splits of rows: parts, proportions, rare classes, seeds."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardwood.data import split_rows
from hardwood.errors import InvalidArgumentError

fractions = st.floats(0.01, 0.99)


@given(n_rows=st.integers(1, 60), fraction=fractions, seed=st.integers(0, 99))
def test_every_row_is_in_one_part(n_rows: int, fraction: float, seed: int) -> None:
    train, validation = split_rows(n_rows, fraction, seed)
    np.testing.assert_array_equal(np.sort(np.concatenate([train, validation])), np.arange(n_rows))
    assert (np.diff(train) > 0).all()
    assert (np.diff(validation) > 0).all()
    assert len(train) >= 1
    if n_rows > 1:
        assert len(validation) == min(max(round(fraction * n_rows), 1), n_rows - 1)


@given(labels=st.lists(st.integers(0, 4), min_size=1, max_size=60), fraction=fractions, seed=st.integers(0, 99))
def test_classes_are_spread_in_proportion(labels: list[int], fraction: float, seed: int) -> None:
    given = np.array(labels)
    train, validation = split_rows(len(given), fraction, seed, labels=given)
    np.testing.assert_array_equal(np.sort(np.concatenate([train, validation])), np.arange(len(given)))
    wanted = min(max(round(fraction * len(given)), 1), len(given) - 1)
    assert len(validation) <= wanted
    for label in np.unique(given):
        size = int((given == label).sum())
        share = Fraction(size * wanted, len(given))
        taken = int((given[validation] == label).sum())
        assert (given[train] == label).any()
        assert int(share) - (taken == size - 1) <= taken <= share.__ceil__()
    if np.bincount(given)[np.unique(given)].min() > 1 and fraction < 0.5:
        assert len(validation) == wanted


def test_the_seed_decides() -> None:
    labels = np.repeat(["a", "b"], 50)
    first, again, other = (split_rows(100, 0.2, seed, labels)[1] for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)
    assert [(labels[first] == label).sum() for label in "ab"] == [10, 10]


def test_a_class_with_one_row_is_trained_on() -> None:
    labels = np.array(["rare"] + ["often"] * 9)
    for seed in range(10):
        train, validation = split_rows(10, 0.3, seed, labels)
        assert 0 in train
        assert len(validation) == 3
    train, validation = split_rows(5, 0.5, 0, np.arange(5))
    assert len(validation) == 0


def test_ten_thousand_classes_cost_no_more_than_rows() -> None:
    labels = np.arange(30_000) % 10_000
    train, validation = split_rows(30_000, 0.2, 0, labels)
    assert len(validation) == 6_000
    assert len(np.unique(labels[train])) == 10_000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0,), "n_rows=0"),
        ((5, 0.0), "validation_fraction=0.0: must lie between 0 and 1"),
        ((5, 1.0), "validation_fraction=1.0"),
        ((5, 0.2, 0, [1, 2]), "labels=.*one label per row"),
        ((2, 0.2, 0, np.array(["a", 1], object)), "labels=.*mixes labels"),
    ],
)
def test_bad_arguments_are_refused(arguments: tuple[object, ...], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        split_rows(*arguments)  # type: ignore[arg-type]
