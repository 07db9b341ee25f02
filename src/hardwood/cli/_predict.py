"""`hardwood predict`: a table in, a table of predictions out."""

from __future__ import annotations

from typing import Any

import click

_HELP = """Predict the rows of TABLE with MODEL, a folder that `hardwood fit` wrote.

\b
To a file, or to stdout as CSV:
  hardwood predict model/ new.csv -o predictions.csv
  hardwood predict model/ new.csv | head
With the chance of each class, and the columns that say which row is which:
  hardwood predict model/ new.parquet --probabilities --columns id -o predictions.parquet

The result has a row for each row of TABLE, in the same order: the column `prediction` (a class or a number), and with
--probabilities a column `probability of CLASS` for each class. Columns of TABLE that the model does not know play no
part. A category that the model did not see while it learned is taken as missing."""


@click.command("predict", help=_HELP, short_help="Predict the rows of a table.")
@click.argument("model")
@click.argument("table")
@click.option("-o", "--output", default="-", metavar="FILE", help="A .csv, .tsv or .parquet file; - for CSV to stdout.")
@click.option("-p", "--probabilities", is_flag=True, help="Add the probability of each class.")
@click.option("-c", "--columns", multiple=True, metavar="COLUMN", help="Carry a column of TABLE over. Repeatable.")
def command(model: str, table: str, output: str, probabilities: bool, columns: tuple[str, ...]) -> None:
    """Read both, predict, and write."""
    from hardwood.cli._model import read_model
    from hardwood.cli._outputs import check_table_output, write_table
    from hardwood.cli._tables import read_table
    from hardwood.errors import reject

    check_table_output(output, inputs=[table])
    forest, description = read_model(model)
    if probabilities and forest.classes is None:
        reject(
            "--probabilities", True, f"needs classes, and the model predicts numbers ({description.target})", "drop it"
        )
    rows = read_table(table)
    carried = list(dict.fromkeys(rows.require("--columns", name) for name in columns))
    raw = rows.raw(forest)
    made: dict[str, list[Any]] = {"prediction": forest.predict(raw).tolist()}
    if probabilities and forest.classes is not None:
        shares = forest.predict_proba(raw)
        for label, share in zip(forest.classes.tolist(), shares.T, strict=True):
            made[f"probability of {label}"] = share.tolist()
    for name in carried:
        if name in made:
            reject("--columns", name, "is the name of a column of predictions", "rename it in the table")
    write_table(output, rows, carried, made)
