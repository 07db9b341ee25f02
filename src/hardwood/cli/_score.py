"""`hardwood score`: how good a model is on rows whose answers are known."""

from __future__ import annotations

import click

_HELP = """Compare the predictions of MODEL for TABLE with the answers that TABLE has.

\b
  hardwood score model/ test.csv
  hardwood score model/ test.csv --target outcome --weight area --json

Rows without an answer are left out. Use rows that the model did not learn from: the scores say nothing else about new
ones."""


@click.command("score", help=_HELP, short_help="Compare predictions with known answers.")
@click.argument("model")
@click.argument("table")
@click.option("-t", "--target", metavar="COLUMN", help="The column of answers. [that of training]")
@click.option("--weight", metavar="COLUMN", help="A column that says how much each row counts.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of a table.")
def command(model: str, table: str, target: str | None, weight: str | None, as_json: bool) -> None:
    """Read both, predict, and compare."""
    import json

    import numpy as np

    from hardwood.cli._features import read_weights, truth_for
    from hardwood.cli._model import read_model
    from hardwood.cli._say import aligned, count, remark, say
    from hardwood.cli._scoring import score_forest
    from hardwood.cli._tables import read_table
    from hardwood.errors import reject

    forest, description = read_model(model)
    rows = read_table(table)
    name = rows.require("--target", description.target if target is None else target)
    counts = np.ones(rows.n_rows) if weight is None else read_weights(rows, rows.require("--weight", weight))
    truth = truth_for(rows, forest, name)
    counted = truth.known & (counts > 0)
    if not counted.any():
        reject("TABLE", table, f"has no row with an answer in {name!r} that counts", "pass rows with known answers")
    scores = score_forest(forest, rows.raw(forest)[counted], truth.values[counted], counts[counted])
    if as_json:
        say(json.dumps({"rows": int(counted.sum()), **scores}))
        return
    if not truth.known.all():
        remark(f"left out {count(int((~truth.known).sum()), 'row')} without an answer")
    say(f"{count(int(counted.sum()), 'row')} of {table}, answers in {name}:\n")
    say(aligned([[label, f"{value:.4g}"] for label, value in scores.items()]))
