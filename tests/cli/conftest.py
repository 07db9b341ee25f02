"""Small tables, and models learned from them once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from helpers.command_line import CLASSES, NAMES, NUMBERS, TINY, Result, make_rows, run_command, write_csv


@pytest.fixture(scope="session")
def run() -> Callable[..., Result]:
    return run_command


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `train.csv` and `new.csv`."""
    place = tmp_path_factory.mktemp("tables")
    write_csv(place / "train.csv", NAMES, make_rows(240, 0))
    rows = make_rows(60, 1)
    for row in rows[::9]:
        row[4], row[5], row[3] = "violet", "nowhere", "7777"  # categories that training does not show
    write_csv(place / "new.csv", NAMES, rows)
    return place


@pytest.fixture(scope="session")
def tree(folder: Path) -> Path:
    """A GradTree model of three classes."""
    model = folder / "tree"
    assert run_command("fit", folder / "train.csv", *CLASSES, *TINY, "-o", model).code == 0
    return model


@pytest.fixture(scope="session")
def ensemble(folder: Path) -> Path:
    """A GRANDE model of numbers."""
    model = folder / "ensemble"
    done = run_command(
        "fit", folder / "train.csv", *NUMBERS, *TINY, "--model", "grande", "--n-estimators", "8", "-o", model
    )
    assert done.code == 0, done.err
    return model
