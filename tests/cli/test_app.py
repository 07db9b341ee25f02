"""The app: light to start, help that helps, and an exit code for everything that can go wrong."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest

import hardwood
from hardwood.cli import _app, main
from hardwood.errors import MissingExtraError
from hardwood.train import TrainingDivergedError
from helpers.command_line import Result
from helpers.processes import run_python

Run = Callable[..., Result]
HEAVY = ("torch", "numpy", "numba", "sklearn", "scipy", "pandas", "polars", "narwhals", "rich", "safetensors")


def test_help_loads_nothing_heavy():
    out = run_python("""
        import sys
        from hardwood.cli import main
        for words in (["--help"], [], ["--version"], ["fit", "--help"], ["predict", "--help"], ["explain", "-h"]):
            assert main(words) == 0
        print("loaded:", *sorted({name.partition(".")[0] for name in sys.modules}))
    """)
    loaded = set(out.rpartition("loaded:")[2].split())
    assert not loaded & set(HEAVY)


def test_reading_a_model_needs_no_torch(tree: Path, folder: Path):
    out = run_python(f"""
        import sys
        from hardwood.cli import main
        model, table = {str(tree)!r}, {str(folder / "new.csv")!r}
        for words in (["predict", model, table], ["explain", model, table], ["show", model], ["score", model, table]):
            assert main(words) == 0
        print("loaded:", *sorted({{name.partition(".")[0] for name in sys.modules}}))
    """)
    loaded = set(out.rpartition("loaded:")[2].split())
    assert not loaded & {"torch", "sklearn", "pandas", "polars"}


def test_help_lists_the_commands(run: Run):
    listed = run("--help")
    assert listed.code == 0
    assert run().out == listed.out
    for name, (_, line) in _app.COMMANDS.items():
        assert f"  {name} " in listed.out
        assert line in listed.out


@pytest.mark.parametrize("name", list(_app.COMMANDS))
def test_every_command_explains_itself_with_examples(name: str, run: Run):
    said = run(name, "--help")
    assert said.code == 0
    assert f"  hardwood {name} " in said.out
    command = _app.app.get_command(click.Context(_app.app), name)
    assert command is not None
    assert command.short_help == _app.COMMANDS[name][1]
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            assert parameter.help, parameter.name


def test_version(run: Run):
    assert run("--version").out == f"hardwood {hardwood.__version__}\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["fitt"], "No such command 'fitt'"),
        (["--nothing"], "--nothing"),
        (["fit"], "Missing argument 'TABLE'; see `hardwood fit --help`"),
        (["fit", "t.csv", "--target", "y"], "'--output'; see `hardwood fit --help`"),
        (["fit", "t.csv", "--model", "forest"], "'forest' is not one of 'gradtree', 'grande'"),
        (["show", "a", "b"], "unexpected extra argument"),
    ],
)
def test_wrong_usage_is_told_in_a_line(words: list[str], message: str, run: Run):
    done = run(*words)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("error: ")
    assert message in done.err
    assert done.err.count("\n") == 1


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (MissingExtraError("install it"), 1, "install it"),
        (TrainingDivergedError("the loss became nan"), 1, "the loss became nan"),
        (OSError(28, "No space left on device", "/out"), 1, "No space left on device: '/out'"),
        (MemoryError(), 1, "there is not enough memory"),
        (
            ZeroDivisionError("by zero"),
            1,
            "ZeroDivisionError: by zero; this is a fault of hardwood: HARDWOOD_TRACEBACK=1",
        ),
        (KeyboardInterrupt(), 130, "interrupted; nothing was written"),
    ],
)
def test_every_error_has_a_code_and_a_line(
    error: BaseException, code: int, message: str, run: Run, monkeypatch: pytest.MonkeyPatch
):
    def fail(path: str) -> None:
        raise error

    monkeypatch.setattr("hardwood.cli._model.read_model", fail)
    done = run("show", "model")
    assert (done.code, done.out) == (code, "")
    assert done.err.strip().startswith("error: ")
    assert message in done.err
    assert "Traceback" not in done.err
    if isinstance(error, Exception):
        monkeypatch.setenv("HARDWOOD_TRACEBACK", "1")
        with pytest.raises(type(error)):
            main(["show", "model"])


@pytest.mark.skipif(sys.platform == "win32", reason="pipes of POSIX")
def test_a_reader_that_has_seen_enough_is_no_error(tree: Path):
    """As in `hardwood show model/ | head -1`."""
    environment = {**os.environ, "PYTHONPATH": str(Path(hardwood.__file__).parents[1])}
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as closed:
        done = subprocess.run(
            [sys.executable, "-m", "hardwood", "show", str(tree)],
            stdout=closed, stderr=subprocess.PIPE, env=environment, timeout=300, check=False,
        )  # fmt: skip
    assert (done.returncode, done.stderr) == (1, b"")


def test_the_module_is_the_command():
    environment = {**os.environ, "PYTHONPATH": str(Path(hardwood.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-m", "hardwood", "fitt"], capture_output=True, env=environment, timeout=300, check=False
    )
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.startswith(b"error: No such command")
