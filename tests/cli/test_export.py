"""`hardwood export`: what it writes is the model, and what does not fit together is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hardwood import export
from hardwood.cli._tables import read_table
from helpers.command_line import load

Run = Callable[..., Any]


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


def test_onnx_predicts_what_the_model_predicts(tree: Path, folder: Path, out: Path, run: Run) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    forest = load(tree)
    X = read_table(str(folder / "new.csv")).raw(forest)
    for dtype, flags in (("float64", ()), ("float32", ("--float32",))):
        assert run("export", tree, "--to", "onnx", "-o", out, *flags).code == 0
        session = onnxruntime.InferenceSession(out.read_bytes(), providers=["CPUExecutionProvider"])
        label = session.run(["label"], {"X": X.astype(dtype)})[0]
        assert label.tolist() == forest.predict(X.astype(dtype)).tolist()


def test_treelite_reaches_the_leaves_of_the_model(tree: Path, folder: Path, out: Path, run: Run) -> None:
    treelite = pytest.importorskip("treelite")
    forest = load(tree)
    X = read_table(str(folder / "new.csv")).raw(forest)
    assert run("export", tree, "--to", "treelite", "-o", out).code == 0
    model = treelite.Model.deserialize(str(out))
    assert np.array_equal(treelite.gtil.predict_leaf(model, X, nthread=1), forest.apply(X))


def test_texts_are_those_of_the_exporters(ensemble: Path, out: Path, run: Run) -> None:
    forest = load(ensemble)
    wanted = {
        ("json",): export.to_json(forest),
        ("python",): export.to_python(forest),
        ("c",): export.to_c(forest),
        ("c", "--float32", "--name", "tree"): export.to_c(forest, dtype="float", name="tree"),
        ("sql", "--dialect", "sqlite", "--from", "t", "--keep", "id"): export.to_sql(
            forest, "sqlite", table="t", keep=["id"]
        ),
    }
    for arguments, text in wanted.items():
        assert run("export", ensemble, "--to", *arguments, "-o", out).code == 0
        assert out.read_text(encoding="utf-8").rstrip("\n") == text.rstrip("\n")
        assert run("export", ensemble, "--to", *arguments).out.rstrip("\n") == text.rstrip("\n")
    header = out.with_suffix(".h")
    assert run("export", ensemble, "--to", "c", "-o", header).code == 0
    assert header.read_text(encoding="utf-8") == export.to_c(forest, header=True)


def test_a_card_has_training_and_scores(tree: Path, folder: Path, run: Run) -> None:
    plain = run("export", tree, "--to", "card").out
    assert "# Model card: answer" in plain and "Learned by gradtree" in plain and "No scores" in plain
    scored = run("export", tree, "--to", "card", "--table", folder / "new.csv").out
    assert "| accuracy |" in scored and "| rows | 60 |" in scored


def test_what_does_not_fit_together_is_refused(tree: Path, ensemble: Path, folder: Path, out: Path, run: Run) -> None:
    assert "needs a file" in run("export", tree, "--to", "onnx").err
    assert "--dialect is for --to sql" in run("export", tree, "--to", "c", "--dialect", "sqlite").err
    assert "--table is for --to card" in run("export", tree, "--to", "json", "--table", folder / "new.csv").err
    assert run("export", tree, "--to", "pmml").code == 2
    refused = run("export", ensemble, "--to", "treelite", "-o", out)
    assert refused.code == 2 and "GRANDE's softmax" in refused.err and "'onnx'" in refused.err
    assert "is a folder" in run("export", tree, "--to", "json", "-o", folder).err
    assert not out.exists()
