"""The multimodal benchmark: its networks take missing cells, its tables say what was measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("pandas")

from benchmarks.multimodal import __main__ as command
from benchmarks.multimodal.models import mlp, resnet
from benchmarks.multimodal.sets import made_table, words


@pytest.mark.parametrize("make", [mlp, resnet])
def test_networks_for_tables_take_missing_cells(make: Any):
    x = torch.randn(6, 3, generator=torch.Generator().manual_seed(0))
    x[2, 1] = torch.nan
    model = make(3, 4).eval()
    assert model(x).isfinite().all()
    filled = x.clone()
    filled[2, 1] = 0.0
    # A missing cell is not the same as the 0 that stands in its place.
    assert not model(x)[2].equal(model(filled)[2])


def test_a_made_table_tells_something_about_the_classes_and_has_holes():
    y = np.arange(300) % 3
    table = made_table(y, np.random.default_rng(0))
    assert 0.05 < table.isna().to_numpy().mean() < 0.15
    means = table.groupby(y)["size0"].median()
    assert means.max() > 1.3 * means.min()


def test_the_made_sets_are_the_same_every_time(tmp_path: Path):
    first, second = words(tmp_path), words(tmp_path)
    assert first.X.equals(second.X)
    assert first.other_columns == ["text"]


def test_tables_show_means_and_spreads():
    lines = [
        {"set": "words", "method": "table: MLP", "seed": str(seed), "balanced_accuracy": str(score), "f1": "0.5",
         "roc_auc": "0.5", "accuracy": "0.5", "mape": "", "r2_log": "", "rmse_log": "", "seconds": "2.0"}
        for seed, score in enumerate((0.25, 0.75))
    ]  # fmt: skip
    text = command.render(lines)
    assert "| table: MLP | 0.500 +- 0.250 | 0.500 +- 0.000 | 0.500 +- 0.000 | 0.500 +- 0.000 | 2 | 2 |" in text
    assert "## digits" not in text
    assert "Table 5.14" in text
