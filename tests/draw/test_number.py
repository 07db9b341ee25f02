"""Numbers are short, never alike when they differ, and near the truth."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardwood.draw._number import distinct, moment, number, percent

numbers = st.floats(allow_nan=False, allow_infinity=False)


@given(numbers)
def test_a_number_reads_back_nearly(value: float):
    assert math.isclose(float(number(value)), value, rel_tol=1e-5, abs_tol=0.0)


@given(numbers)
def test_seventeen_digits_read_back_exactly_unless_plain(value: float):
    assert math.isclose(float(number(value, 17)), value, rel_tol=2e-15, abs_tol=0.0)


@given(st.lists(st.one_of(numbers, st.integers(0, 30).map(lambda k: 1 + k * 2.0**-50))))
def test_different_numbers_read_differently(values: list[float]):
    written = distinct(values)
    assert set(written) == set(values)
    assert len(set(written.values())) == len(set(values))


def test_order_is_kept():
    values = [1.0, 1.0000004, 1.0000006, 5.0]
    texts = list(distinct(values).values())
    assert [float(text) for text in texts] == sorted(float(text) for text in texts)


@pytest.mark.parametrize(
    ("value", "expected"),
    [(0.1, "0.1"), (1e5, "100000"), (123456789.0, "123456789"), (1e20, "1e+20"), (-2.50, "-2.5"), (math.inf, "inf")],
)
def test_usual_numbers(value: float, expected: str):
    assert number(value) == expected


@given(st.floats(0, 1))
def test_percent_claims_certainty_only_where_there_is_some(share: float):
    assert (percent(share) == "100%") == (share == 1)
    assert (percent(share) == "0%") == (share == 0)


@given(st.floats(-6e10, 2e11))
def test_moments_are_in_order(seconds: float):
    earlier, later = moment(seconds), moment(seconds + 86_400)
    assert earlier < later
