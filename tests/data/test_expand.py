from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from hardwood.data import learn_expanded
from hardwood.errors import InvalidArgumentError


def frame() -> pd.DataFrame:
    return pd.DataFrame({
        "age": [20.0, np.nan, 40.0, 60.0],
        "colour": ["red", "blue", "red", "green"],
        "flag": ["yes", "no", "no", "yes"],
        "city": pd.Categorical(["a", "b", "a", None]),
        "rooms": [1, 2, 3, 4],
    })  # fmt: skip


def test_columns_a_weighted_sum_can_use():
    columns, x = learn_expanded(frame(), np.arange(4.0))
    assert columns.names == (
        "age", "age missing", "colour=blue", "colour=green", "colour=red", "flag=yes", "city=b", "city missing",
        "rooms",
    )  # fmt: skip
    assert columns.source == (0, 0, 1, 1, 1, 2, 3, 3, 4)
    assert columns.types[0] == "float" and columns.types[1] == "bool" and columns.types[-1] == "int"
    assert x[1].tolist() == [40.0, 1, 1, 0, 0, 0, 1, 0, 2]
    assert x[3].tolist() == [60.0, 0, 0, 1, 0, 1, 0, 1, 4]
    assert np.array_equal(columns.to_raw(frame()), x)


def test_what_training_did_not_have():
    columns, _ = learn_expanded(frame(), np.arange(4.0))
    new = frame().iloc[:1].assign(colour="pink", rooms=np.nan)
    row = columns.to_raw(new)[0]
    assert row[2:5].tolist() == [0, 0, 0]
    assert np.isnan(row[-1])


def test_a_table_of_numbers_stays_as_it_is():
    X = np.random.default_rng(0).normal(size=(5, 3))
    columns, x = learn_expanded(X, np.arange(5.0))
    assert columns.names is None and len(columns) == 3
    assert np.array_equal(x, X)


def test_many_categories_become_mean_targets_without_their_own():
    rng = np.random.default_rng(0)
    words = rng.integers(0, 20, 400)
    y = words + rng.normal(size=400)
    X = pd.DataFrame({"city": [f"c{word:02d}" for word in words]})
    columns, x = learn_expanded(X, y)
    assert columns.names == ("city~y",)
    later = columns.to_raw(X)
    assert np.corrcoef(later[:, 0], words)[0, 1] > 0.95
    changed = y.copy()
    changed[0] += 1000.0
    assert learn_expanded(X, changed)[1][0, 0] == x[0, 0]
    assert columns.to_raw(pd.DataFrame({"city": ["nowhere"]}))[0, 0] == pytest.approx(y.mean())


def test_weights_are_repetitions():
    X = pd.DataFrame({"a": [1.0, np.nan, 3.0], "b": ["x", "y", "y"]})
    weighted = learn_expanded(X, np.arange(3.0), [2.0, 1.0, 1.0])[0].to_raw(X)
    twice = X.iloc[[0, 0, 1, 2]].reset_index(drop=True)
    assert np.array_equal(learn_expanded(twice, np.arange(4.0))[0].to_raw(X), weighted)


def test_infinite_cells_are_refused():
    with pytest.raises(InvalidArgumentError, match=r"X\['a'\]\[1\].*infinite"):
        learn_expanded(pd.DataFrame({"a": [1.0, np.inf]}), [0.0, 1.0])
