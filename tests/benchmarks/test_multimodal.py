"""The multimodal benchmark: its networks take missing cells, its tables say what was measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("pandas")

from benchmarks.multimodal import __main__ as command
from benchmarks.multimodal import sets
from benchmarks.multimodal.made import made_table, scaled, softmax
from benchmarks.multimodal.models import mlp, resnet
from benchmarks.multimodal.render import render
from benchmarks.multimodal.sets import words


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


def test_a_made_table_says_what_it_promises_about_its_classes():
    X, y = made_table(3000, 5, np.random.default_rng(0))
    assert np.bincount(y).min() > 500
    assert 0.04 < X.isna().to_numpy().mean() < 0.12
    # "score" is missing for a whole category, beside the cells that are missing at random.
    assert X.loc[X["kind"] == "kind 3", "score"].isna().all()
    assert X.loc[X["kind"] == "kind 0", "score"].isna().mean() < 0.1


def test_the_scale_makes_so_much_knowable_and_the_classes_as_frequent():
    scores = np.random.default_rng(0).normal([3, 0, 0, 0], 1, (2000, 4))
    scale, intercepts = scaled(scores, 0.6)
    shares = softmax(scale * scores + intercepts)
    assert shares.max(axis=1).mean() == pytest.approx(0.6, abs=0.001)
    np.testing.assert_allclose(shares.mean(axis=0), 0.25, atol=0.001)


def test_no_digit_of_the_test_is_one_of_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sets, "TRAINING", 60)
    monkeypatch.setattr(sets, "TEST", 60)
    from sklearn.datasets import load_digits

    shown: list[np.ndarray] = []

    class Images(np.ndarray):
        def __getitem__(self, chosen: Any) -> Any:
            shown.append(chosen)
            return np.asarray(self)[chosen]

    data = load_digits()
    data.images = data.images.view(Images)
    monkeypatch.setattr("sklearn.datasets.load_digits", lambda: data)
    made = sets.independent(tmp_path, 0)
    (chosen,) = shown
    assert len(made.training) == len(made.test) == 60
    assert not set(chosen[made.training]) & set(chosen[made.test])
    assert (data.target[chosen] == made.y).all()


def test_a_seed_is_always_the_same_set_and_another_is_not(tmp_path: Path):
    first, second, third = (words(tmp_path, seed) for seed in (3, 3, 4))
    assert first.X.equals(second.X)
    assert not first.X.equals(third.X)
    assert first.other_columns == ["text"]


def test_tables_show_means_spreads_and_who_is_ahead():
    def line(method: str, seed: int, score: float) -> dict[str, str]:
        return {"set": "words", "method": method, "seed": str(seed), "balanced_accuracy": str(score), "f1": "0.5",
                "roc_auc": "0.5", "log_loss": str(1 - score), "mape": "", "r2_log": "", "rmse_log": "",
                "seconds": "2.0"}  # fmt: skip

    lines = [line("table: MLP", 0, 0.25), line("table: MLP", 1, 0.75), line("table: GRANDE", 1, 0.8)]
    text = render(lines, [])
    assert "| table: MLP | 0.500 +- 0.250 | 0.500 +- 0.000 | 0.500 +- 0.000 | 0.500 +- 0.250 | 2 | 2 |" in text
    ahead = "+0.050 (1 of 1) | +0.000 (0 of 1) | +0.000 (0 of 1) | -0.050 (1 of 1)"
    assert f"| table: GRANDE - table: MLP | {ahead} |" in text
    assert "## digits" not in text
    assert "Table 5.14" in text


def test_lines_of_several_processes_end_in_one_table(tmp_path: Path):
    def line(method: str, seed: int) -> dict[str, Any]:
        return {"set": "words", "method": method, "seed": seed}

    command.write(tmp_path / "one.csv", [line("table: MLP", 1)])
    command.write(tmp_path / "two.csv", [line("table: GRANDE", 0), line("table: MLP", 1)])
    command.gather(tmp_path / "all.csv", [tmp_path / "one.csv", tmp_path / "two.csv"])
    found = [(each["method"], each["seed"]) for each in command.read(tmp_path / "all.csv")]
    assert found == [("table: GRANDE", "0"), ("table: MLP", "1")]
    assert [command.claimed(tmp_path / "claims", ("words", "table: MLP", seed)) for seed in (0, 1, 0)] == [
        False, False, True,
    ]  # fmt: skip
