"""What is said about an estimator's forest is said about the rows as that forest takes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from hardwood import GetClassifier, GradTreeClassifier, LatentTreeClassifier, LatentTreeRegressor, draw, export

ESTIMATORS = [
    GradTreeClassifier(max_depth=2, n_restarts=1, max_iter=2, random_state=0, device="cpu"),
    GetClassifier(max_depth=2, epochs=2, random_state=0),
    LatentTreeClassifier(max_depth=2, max_iter=2, random_state=0),
    LatentTreeRegressor(max_depth=2, max_iter=2, random_state=0),
]


@pytest.fixture(scope="module")
def table() -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"size": 100 + 9 * rng.normal(size=80), "colour": rng.choice(["red", "green", "blue"], 80)})
    X.loc[::9, "size"] = np.nan
    return X, ((X["size"] > 100) ^ (X["colour"] == "red")).to_numpy().astype(int)


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda each: type(each).__name__)
def test_a_page_and_a_card_of_an_estimator_are_those_of_its_forest(
    estimator: Any, table: tuple[pd.DataFrame, np.ndarray], tmp_path: Path
) -> None:
    X, y = table
    model = estimator.fit(X, y)
    forest, rows = model.forest_, model.forest_rows(X)
    assert rows.shape == (len(X), forest.n_features)
    pages = [
        draw.explain_page(*given, y, path=tmp_path / f"{k}.html").read_text()
        for k, given in enumerate([(model, X), (forest, rows)])
    ]
    assert pages[0] == pages[1]
    its, own = (export.model_card(*given, y, title="Card").splitlines() for given in [(model, X), (forest, rows)])
    same = np.isclose(np.asarray(model.predict(X), float), np.asarray(forest.predict(rows), float), rtol=1e-6)
    noted = [line for line in its if line not in own and not line.startswith("| kind |")]
    count = f"{(~same).sum()} row{'s' if (~same).sum() != 1 else ''}"
    expected = f"- All that is said here is about the forest. The model itself answers otherwise for {count}."
    assert noted == ([] if same.all() else [expected])
