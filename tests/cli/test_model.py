"""A model's folder: whole or not there, and damage is told."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hardwood.cli._model import check_model_output, read_model, write_model
from hardwood.errors import ForestFileError, InvalidArgumentError


@pytest.fixture
def model(tree: Path, tmp_path: Path) -> Path:
    """A copy of a model, to be damaged."""
    return Path(shutil.copytree(tree, tmp_path / "model"))


def test_what_is_written_is_read(model: Path, tmp_path: Path):
    forest, description = read_model(str(model))
    write_model(str(tmp_path / "copy"), forest, description, lambda page: page.write_text("page"), replace=False)
    assert read_model(str(tmp_path / "copy")) == (forest, description)
    assert sorted(entry.name for entry in (tmp_path / "copy").iterdir()) == [
        "forest.safetensors", "model.json", "report.html",
    ]  # fmt: skip


def test_a_failure_leaves_the_old_model(model: Path):
    forest, description = read_model(str(model))
    before = {entry.name: entry.read_bytes() for entry in model.iterdir()}

    def fail(page: Path) -> None:
        raise RuntimeError

    with pytest.raises(RuntimeError):
        write_model(str(model), forest, description, fail, replace=True)
    assert {entry.name: entry.read_bytes() for entry in model.iterdir()} == before
    assert list(model.parent.iterdir()) == [model]


def test_taken_places_are_refused(model: Path, tmp_path: Path):
    with pytest.raises(InvalidArgumentError, match="holds a model already; add --force"):
        check_model_output(str(model), replace=False)
    check_model_output(str(model), replace=True)
    (model / "notes.txt").write_text("mine")
    with pytest.raises(InvalidArgumentError, match=r"holds a model and also 'notes.txt'"):
        check_model_output(str(model), replace=True)
    with pytest.raises(InvalidArgumentError, match="other files and no model"):
        check_model_output(str(tmp_path), replace=True)
    with pytest.raises(InvalidArgumentError, match="is a file"):
        check_model_output(str(model / "model.json"), replace=True)
    with pytest.raises(InvalidArgumentError, match="is no folder"):
        check_model_output(str(tmp_path / "none" / "model"), replace=False)
    (tmp_path / "empty").mkdir()
    check_model_output(str(tmp_path / "empty"), replace=False)


def edited(**changes: Any) -> Callable[[Path], None]:
    def edit(model: Path) -> None:
        file = model / "model.json"
        document = {**json.loads(file.read_text()), **changes}
        file.write_text(json.dumps({name: value for name, value in document.items() if value is not None}))

    return edit


def cut_forest(model: Path) -> None:
    file = model / "forest.safetensors"
    file.write_bytes(file.read_bytes()[:-9])


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (cut_forest, "ends before the end of its arrays"),
        (lambda model: (model / "model.json").write_text("{"), "it is no JSON"),
        (lambda model: (model / "model.json").write_text("[" * 100_000), "it is no JSON"),
        (lambda model: (model / "model.json").write_text("[]"), "describes no hardwood model"),
        (edited(format="something else"), "describes no hardwood model"),
        (edited(format_version=2), "has format version 2; upgrade hardwood"),
        (edited(rows="many"), "the entry 'rows' has another type"),
        (edited(scores={"accuracy": "high"}), "the entry 'scores' has another type"),
        (edited(target=None), "the entry 'target' is missing"),
        (edited(more=1), "the entry 'more' is unknown"),
        (edited(columns=["a"]), "its columns are not those of the forest"),
        (edited(task="regression"), "its task is not that of the forest"),
        (edited(importances=[1.0]), "its importances are not those of its columns"),
    ],
)
def test_damage_is_told(model: Path, damage: Callable[[Path], None], message: str, run: Callable[..., Any]):
    damage(model)
    with pytest.raises(ForestFileError, match=message):
        read_model(str(model))
    result = run("show", model)
    assert result.code == 2
    assert message in result.err
    assert "Traceback" not in result.err


def test_what_is_no_model_is_refused(tmp_path: Path):
    with pytest.raises(InvalidArgumentError, match="is no folder"):
        read_model(str(tmp_path / "none"))
    with pytest.raises(InvalidArgumentError, match=r"holds no model.json and forest.safetensors"):
        read_model(str(tmp_path))
