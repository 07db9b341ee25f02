"""`hardwood explain`: why rows are predicted as they are, and which columns matter."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from hardwood.cli._model import Description
    from hardwood.cli._tables import Table
    from hardwood.forest import Forest
else:
    Description = Forest = Table = Any

_HELP = """Say why MODEL predicts the rows of TABLE as it does.

\b
One row (rows are counted from 0), its path through the tree in words:
  hardwood explain model/ new.csv --row 17
All rows, one JSON object in each line:
  hardwood explain model/ new.csv --json -o reasons.jsonl
Which columns matter, by the rows of training, or by those of a table:
  hardwood explain model/ --importances
  hardwood explain model/ test.csv --importances

Of an ensemble the trees with the largest share in the prediction are shown, with the share and the path in each.

--importances prints how much the answer changes at splits on each column along the rows' paths (all shares sum to 1);
if TABLE holds the answers, also how much worse predictions get when the column is shuffled among the rows."""


@click.command("explain", help=_HELP, short_help="Say why rows are predicted as they are.")
@click.argument("model")
@click.argument("table", required=False)
@click.option(
    "-r", "--row", "rows", type=click.IntRange(0), multiple=True, help="The row to explain. Repeatable. [all]"
)
@click.option(
    "-k", "--trees", type=click.IntRange(1), default=3, show_default=True, help="Trees to show of an ensemble."
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object a row instead of text.")
@click.option("--importances", is_flag=True, help="Which columns matter, instead of single rows.")
@click.option("-o", "--output", default="-", metavar="FILE", help="Where to write; - for stdout.")
def command(
    model: str, table: str | None, rows: tuple[int, ...], trees: int, as_json: bool, importances: bool, output: str
) -> None:
    """Read both, explain, and write."""
    if table is None and not importances:
        raise click.UsageError("TABLE is missing: the rows to explain (or pass --importances)")
    if importances and (rows or as_json):
        raise click.UsageError("--importances is about all rows, as text: leave --row and --json out")

    from hardwood.cli._model import read_model
    from hardwood.cli._outputs import check_output, write_text
    from hardwood.cli._tables import read_table

    check_output(output, inputs=[] if table is None else [table])
    forest, description = read_model(model)
    read = None if table is None else read_table(table)
    if importances:
        text = _importances(forest, description, read)
    else:
        assert read is not None
        text = _rows(forest, read, rows, trees, as_json)
    write_text(output, text)


def _rows(forest: Forest, table: Table, chosen: tuple[int, ...], n_trees: int, as_json: bool) -> str:
    """Return the explanations of some rows, or of all."""
    import json

    from hardwood import explain
    from hardwood.errors import reject

    for row in chosen:
        if row >= table.n_rows:
            remedy = f"pass a number from 0 to {table.n_rows - 1}" if table.n_rows else "pass a table with rows"
            reject("--row", row, f"{table.name!r} has {table.n_rows} row(s), counted from 0", remedy)
    raw = table.raw(forest)
    numbers = list(chosen) or list(range(table.n_rows))
    found = zip(numbers, explain.rows(forest, raw[numbers], n_trees), strict=True)
    if as_json:
        documents = ({"row": row, **each.to_dict()} for row, each in found)
        return "".join(f"{json.dumps(document, ensure_ascii=False)}\n" for document in documents)
    return "\n".join(f"Row {row}\n{each}\n" for row, each in found)


def _importances(forest: Forest, description: Description, table: Table | None) -> str:
    """Return the importances of the columns as text, the largest first."""
    import numpy as np

    from hardwood import explain
    from hardwood.cli._features import truth_for
    from hardwood.cli._say import aligned, count
    from hardwood.errors import reject

    by_path, shuffled = np.array(description.importances), None
    about = f"along the paths of {count(description.rows, 'row')} of training"
    if table is not None:
        if table.n_rows == 0:
            reject("TABLE", table.name, "has no rows", "pass rows, or leave TABLE out")
        raw = table.raw(forest)
        by_path, about = explain.importances(forest, raw), f"along the paths of {count(table.n_rows, 'row')}"
        if description.target in table.names:
            truth = truth_for(table, forest, description.target)
            if truth.known.any():
                loss = "log loss" if forest.is_classifier else "mean squared error"
                about += f"; shuffled: how much the {loss} rises (+- standard deviation)"
                shuffled = explain.permutation_importances(forest, raw[truth.known], truth.values[truth.known])
    lines = [["column", "share", *(["shuffled", "+-"] if shuffled is not None else [])]]
    for place in np.argsort(-by_path, kind="stable").tolist():
        line = [description.columns[place], f"{by_path[place]:.3f}"]
        if shuffled is not None:
            line += [f"{shuffled.means[place]:.4g}", f"{shuffled.deviations[place]:.2g}"]
        lines.append(line)
    return f"{aligned(lines)}\n\nshare: how much the answer changes at splits on the column, {about}.\n"
