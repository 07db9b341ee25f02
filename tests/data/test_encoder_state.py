"""An encoder that was taken apart and put together again encodes every row as before, bit by bit."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pandas as pd
import pytest

from hardwood.data import TableEncoder
from hardwood.data._encoder_state import encoder_from_state, encoder_state


@pytest.mark.parametrize("numeric", ["quantile", "standard", "identity"])
def test_all_kinds_of_columns_come_back(numeric: Any):
    rng = np.random.default_rng(0)
    n = 50
    X = pd.DataFrame({
        "number": rng.normal(size=n), "few": rng.choice(list("abc"), n), "many": [f"w{k}" for k in range(n)],
        "flag": rng.random(n) < 0.5, "day": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 99, n), "D"),
    })  # fmt: skip
    X.loc[3, "number"], X.loc[4, "few"] = np.nan, None
    encoder = TableEncoder(numeric=numeric, one_hot_max_size=3)
    encoder.fit_transform(X, rng.normal(size=n))
    document, arrays = encoder_state(encoder)
    again = encoder_from_state(json.loads(json.dumps(document)), arrays)
    assert np.array_equal(again.transform(X), encoder.transform(X), equal_nan=True)
    assert again.columns == encoder.columns
    assert again.encoded_names == encoder.encoded_names


def test_documents_of_another_kind_are_refused():
    encoder = TableEncoder()
    encoder.fit_transform([[1.0], [2.0]])
    document, arrays = encoder_state(encoder)
    with pytest.raises(ValueError, match="kind"):
        encoder_from_state({**document, "parts": [{"kind": "other"}]}, arrays)
    with pytest.raises(ValueError, match="equally many"):
        encoder_from_state({**document, "types": []}, arrays)
