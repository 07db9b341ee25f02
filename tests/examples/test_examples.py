"""The examples run, and do what they say."""

from __future__ import annotations

import importlib.util
import sys
from functools import partial
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def load_example(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def test_a_cost_of_ones_own_is_what_gets_lower(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    example = load_example("asymmetric_cost", monkeypatch)
    plain, _, own = example.compare(seed=0, n_estimators=8, max_iter=40)
    assert own < plain
    monkeypatch.setattr(sys, "argv", ["asymmetric_cost.py", "--seeds", "1", "--trees", "4", "--max-iter", "3"])
    example.main()
    assert "against the plain model" in capsys.readouterr().out


def test_fine_tuning_makes_a_forest_surer(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    example = load_example("fine_tune", monkeypatch)
    monkeypatch.setattr(sys, "argv", ["fine_tune.py", "--seeds", "1", "--trees", "8", "--max-iter", "10"])
    example.main()
    lines = [line for line in capsys.readouterr().out.splitlines() if line.strip().startswith(("a random", "the same"))]
    before, after = (float(line.split()[-1]) for line in lines[1:])
    assert after < before


def test_the_demo_says_what_it_measured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    demo = load_example("demo", monkeypatch)
    splits, compare = [], demo.compare
    monkeypatch.setattr(demo, "compare", lambda *given: splits.append(compare(*given)) or splits[-1])
    for name, value in {"SEEDS": range(2), "TREES": 4, "DEPTH": 2, "OUT": tmp_path / "demo"}.items():
        monkeypatch.setattr(demo, name, value)
    for name in ("GradTreeClassifier", "GrandeClassifier"):
        monkeypatch.setattr(demo, name, partial(getattr(demo, name), max_iter=5))
    demo.main()
    said = capsys.readouterr().out
    scores = np.array([split.scores for split in splits])
    for place, method in enumerate(demo.METHODS):
        line = next(line for line in said.splitlines() if line.strip().startswith(f"{method} ") and "+-" in line)
        assert line.split()[1] == f"{scores[:, place, 0].mean():.3f}"
    assert "of the weight and says" in said
    assert "<svg" in (tmp_path / "demo" / "report.html").read_text(encoding="utf-8")
    assert (tmp_path / "demo" / "tree.svg").read_text(encoding="utf-8").startswith("<svg")


def test_pictures_and_a_table_together_make_a_page(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    example = load_example("pictures", monkeypatch)
    options = ["--rows", "120", "--trees", "4", "--epochs", "3", "--out", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", ["pictures.py", *options])
    example.main()
    said = capsys.readouterr().out
    assert said.count("balanced accuracy of") == 3
    assert "% from table" in said and "% from picture" in said
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert page.count("data:image/png") == 12
    assert "<svg" in page


def test_a_tree_in_a_network_learns_digits(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    example = load_example("latent_layer", monkeypatch)
    arguments = ["latent_layer.py", "--seeds", "1", "--epochs", "15", "--depth", "4"]
    monkeypatch.setattr(sys, "argv", arguments)
    example.main()
    lines = capsys.readouterr().out.splitlines()[1:]
    found = {line[:22].strip(): float(line[22:].split()[0]) for line in lines}
    assert set(found) == set(example.NETWORKS)
    # One in ten is chance.
    assert found["linear, tree, linear"] > 0.5 and found["CNN with a tree"] > 0.5


def test_a_goal_that_is_moved_about(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    example = load_example("goal_misgeneralisation", monkeypatch)
    words = ["x.py", "--steps", "3000", "--more-steps", "1000", "--episodes", "2", "--out", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", words)
    example.main()
    said = capsys.readouterr().out
    assert said.count("looks for the goal") == 2
    assert said.count("all moved about: reaches it in") == 2
    assert {file.name for file in tmp_path.iterdir()} == {"trained.png", "moved_about.png", "retrained.png"}
    # The lava and the goal do move, and the agent's own field stays free.
    env = example.moved_about()
    goals = set()
    for seed in range(20):
        env.reset(seed=seed)
        assert env.grid.get(*env.agent_pos) is None
        places = [(x, y) for x in range(env.width) for y in range(env.height)]
        kinds = {place: env.grid.get(*place).type for place in places if env.grid.get(*place) is not None}
        goals |= {place for place, kind in kinds.items() if kind == "goal"}
        assert sum(kind == "lava" for kind in kinds.values()) >= 2
    assert len(goals) > 5
