"""`hardwood export`: a model in the formats of others, and its card."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from hardwood.cli._model import Description
    from hardwood.forest import Forest
else:
    Description = Forest = Any

_HELP = """Write MODEL, a folder that `hardwood fit` wrote, in another format.

\b
For onnxruntime, and for treelite or FIL:
  hardwood export model/ --to onnx -o model.onnx
  hardwood export model/ --to treelite -o model.tl
As source text, without dependencies:
  hardwood export model/ --to c -o model.h
  hardwood export model/ --to python -o model.py
  hardwood export model/ --to sql --dialect postgresql --from patients --keep id -o predict.sql
To read:
  hardwood export model/ --to json -o model.json
  hardwood export model/ --to card --table test.csv -o MODEL_CARD.md

Every row takes the same way in each format as in the model, ties and missing values included; what a format cannot hold
exactly is refused with a reason. In Python, `hardwood.export` has more formats and settings."""

_SUFFIXES = {"onnx": ".onnx", "treelite": ".tl"}


@click.command("export", help=_HELP, short_help="Write a model as ONNX, C, SQL, Python, JSON or a model card.")
@click.argument("model")
@click.option(
    "--to",
    "target",
    required=True,
    type=click.Choice(["onnx", "treelite", "c", "sql", "python", "json", "card"]),
    help="The format.",
)
@click.option("-o", "--output", default="-", metavar="FILE", help="Where to; - for stdout, for formats that are text.")
@click.option("--float32", is_flag=True, help="onnx, c: cells and results are float32.")
@click.option("--name", metavar="NAME", help="c: what all names begin with. [forest]")
@click.option("--dialect", type=click.Choice(["duckdb", "sqlite", "postgresql"]), help="sql: for which. [duckdb]")
@click.option("--from", "source", metavar="TABLE", help="sql: the name of the table in the database. [data]")
@click.option("--keep", multiple=True, metavar="COLUMN", help="sql: carry a column of that table over. Repeat.")
@click.option("--table", metavar="TABLE", help="card: rows to describe, and to score where the answers are among them.")
def command(
    model: str,
    target: str,
    output: str,
    float32: bool,
    name: str | None,
    dialect: str | None,
    source: str | None,
    keep: tuple[str, ...],
    table: str | None,
) -> None:
    """Read the model, and write it."""
    given = {
        "--float32": (float32, ("onnx", "c")),
        "--name": (name, ("c",)),
        "--dialect": (dialect, ("sql",)),
        "--from": (source, ("sql",)),
        "--keep": (keep, ("sql",)),
        "--table": (table, ("card",)),
    }
    for option, (value, formats) in given.items():
        if value and target not in formats:
            raise click.UsageError(f"{option} is for --to {' and --to '.join(formats)}")
    if output == "-" and target in _SUFFIXES:
        raise click.UsageError(f"--to {target} needs a file: -o model{_SUFFIXES[target]}")

    from hardwood import export
    from hardwood.cli._model import read_model
    from hardwood.cli._outputs import check_output, replace_file, write_text

    check_output(output, inputs=[] if table is None else [table])
    forest, description = read_model(model)
    if target == "onnx":
        content = export.to_onnx(forest, dtype="float32" if float32 else "float64").SerializeToString()
        replace_file(output, _writer(content))
    elif target == "treelite":
        replace_file(output, _writer(export.to_treelite(forest).serialize_bytes()))
    elif target == "c":
        real = "float" if float32 else "double"
        write_text(output, export.to_c(forest, name=name or "forest", dtype=real, header=output.endswith(".h")))
    elif target == "sql":
        query = export.to_sql(forest, dialect or "duckdb", table=source or "data", keep=keep)
        write_text(output, query if query.endswith("\n") else query + "\n")
    elif target == "python":
        write_text(output, export.to_python(forest))
    elif target == "json":
        write_text(output, export.to_json(forest))
    else:
        write_text(output, _card(forest, description, table))


def _writer(content: bytes) -> Callable[[str], object]:
    from pathlib import Path

    return lambda place: Path(place).write_bytes(content)


def _card(forest: Forest, description: Description, table: str | None) -> str:
    """Return the model card, with what is known of the training."""
    from hardwood import export
    from hardwood.cli._features import truth_for
    from hardwood.cli._say import count
    from hardwood.cli._tables import read_table
    from hardwood.errors import reject
    from hardwood.export._card import markdown_text

    raw = truth = None
    if table is not None:
        rows = read_table(table)
        raw = rows.raw(forest)
        if len(raw) == 0:
            reject("--table", table, "has no rows", "pass a table with rows, or leave it out")
        if description.target in rows.names:
            answers = truth_for(rows, forest, description.target)
            if answers.known.any():
                raw, truth = raw[answers.known], answers.values[answers.known]
    target = markdown_text(description.target)
    about = [f"Predicts {target}. Learned by {description.model} from {count(description.rows, 'row')}."]
    if description.interrupted:
        about.append("Training was interrupted.")
    if description.scores:
        scores = ", ".join(f"{name} {value:.4g}" for name, value in description.scores.items())
        about.append(f"On {count(description.held_out_rows, 'row')} held out from it: {scores}.")
    title = f"Model card: {description.target}"
    return export.model_card(forest, raw, truth, title=title, about=" ".join(about))
