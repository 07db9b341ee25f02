"""`main`: finds the command that is asked for, runs it, and turns what goes wrong into a line and an exit code."""

from __future__ import annotations

import errno
import importlib
import os
import sys
from collections.abc import Sequence

import click

from hardwood import __version__
from hardwood.errors import HardwoodError

# Command -> the module that holds it as `command`, and what the list of commands says of it. A module is imported when
# its command is run: the list itself needs none of them, and a command may be a group of its own.
COMMANDS: dict[str, tuple[str, str]] = {
    "fit": ("hardwood.cli._fit", "Learn a tree or an ensemble from a table."),
    "predict": ("hardwood.cli._predict", "Predict the rows of a table."),
    "score": ("hardwood.cli._score", "Compare predictions with known answers."),
    "explain": ("hardwood.cli._explain", "Say why rows are predicted as they are."),
    "show": ("hardwood.cli._show", "Show a model: rules, a picture, a page."),
    "export": ("hardwood.cli._export", "Write a model as ONNX, C, SQL, Python, JSON or a model card."),
    "rl": ("hardwood.cli._rl", "Learn a tree policy for a gymnasium environment."),
}
OK, FAILED, WRONG, INTERRUPTED = 0, 1, 2, 130
_TRACEBACK = "HARDWOOD_TRACEBACK"

_HELP = """Decision trees learned by gradient descent, from tables to rules.

\b
Learn a tree from a table, and look at what it is:
  hardwood fit train.csv --target survived --model gradtree -o model/
  hardwood show model/
Use it:
  hardwood predict model/ new.csv -o predictions.csv
  hardwood explain model/ new.csv --row 0

Tables are CSV files with a line of column names, or Parquet files. Columns of text are categories, empty cells are
missing values, dates are understood; nothing has to be prepared.

Exit codes: 0 all well, 2 wrong usage or bad input, 130 interrupted, 1 anything else."""


class LazyGroup(click.Group):
    """A group of commands whose modules are imported when they are needed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Name the commands, in the order of use."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command."""
        if cmd_name not in COMMANDS:
            return None
        command = importlib.import_module(COMMANDS[cmd_name][0]).command
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])


@click.group(
    cls=LazyGroup,
    help=_HELP,
    epilog="`hardwood COMMAND --help` says what a command does, with examples.",
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, "--version", prog_name="hardwood", message="%(prog)s %(version)s")
@click.pass_context
def app(ctx: click.Context) -> None:
    """Show the help where no command is named."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code. `HARDWOOD_TRACEBACK=1` lets errors through as they are."""
    try:
        result = app.main(arguments if arguments is None else list(arguments), "hardwood", standalone_mode=False)
        sys.stdout.flush()
    except click.exceptions.Abort:
        return _fail("interrupted; nothing was written", INTERRUPTED)
    except (click.ClickException, Exception) as error:
        if os.environ.get(_TRACEBACK):
            raise
        return _explain(error)
    return result if isinstance(result, int) else OK


def _explain(error: Exception) -> int:
    """Write what went wrong to stderr and return the exit code."""
    if isinstance(error, click.ClickException):
        context = getattr(error, "ctx", None)
        hint = "" if context is None else f"; see `{context.command_path} --help`"
        return _fail(f"{error.format_message().rstrip('.')}{hint}", error.exit_code)
    if isinstance(error, OSError):
        if error.errno == errno.EPIPE:
            # The reader of our output has seen enough, as `head` does; what Python flushes at exit goes nowhere.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return FAILED
        place = "" if error.filename is None else f": {error.filename!r}"
        return _fail(f"{error.strerror or error}{place}", FAILED)
    if isinstance(error, HardwoodError):
        # Wrong values, damaged models and checkpoints; not a missing package, or training that diverged.
        return _fail(str(error), WRONG if isinstance(error, ValueError) else FAILED)
    if isinstance(error, MemoryError):
        return _fail("there is not enough memory", FAILED)
    shown = f"{type(error).__name__}: {error}".strip().rstrip(":")
    return _fail(f"{shown}; this is a fault of hardwood: {_TRACEBACK}=1 shows where", FAILED)


def _fail(message: str, code: int) -> int:
    from hardwood.cli._say import complain

    complain(message)
    return code
