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
The explorer, a page on which a reader walks through the trees with the rows of TABLE:
  hardwood explain model/ test.csv --page page.html

Of an ensemble the trees with the largest share in the prediction are shown, with the share and the path in each.

--importances prints how much the answer changes at splits on each column along the rows' paths (all shares sum to 1);
if TABLE holds the answers, also how much worse predictions get when the column is shuffled among the rows.

--page writes one HTML file that works without a network. It shows every tree, sends rows through them as their cells
are changed, and says what each column does; if TABLE holds the answers, also how good the model is on them. Whoever
gets the page can read the rows in it: --page-rows 0 keeps them out."""


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
@click.option("--page", metavar="FILE", help="Write the explorer, an HTML page about the model and TABLE.")
@click.option("--page-rows", type=click.IntRange(0), default=500, show_default=True, help="Rows that the page holds.")
@click.option("-o", "--output", default="-", metavar="FILE", help="Where to write; - for stdout.")
def command(
    model: str,
    table: str | None,
    rows: tuple[int, ...],
    trees: int,
    as_json: bool,
    importances: bool,
    page: str | None,
    page_rows: int,
    output: str,
) -> None:
    """Read both, explain, and write."""
    if page is not None:
        if rows or as_json or importances or output != "-":
            raise click.UsageError("--page is about all rows: leave --row, --json, --importances and --output out")
        _write_page(model, table, page, page_rows)
        return
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


def _write_page(model: str, table: str | None, page: str, sample_rows: int) -> None:
    """Write the explorer about a model and the rows of a table."""
    from hardwood import draw
    from hardwood.cli._features import rows_and_truth
    from hardwood.cli._model import read_model
    from hardwood.cli._outputs import check_output, replace_file
    from hardwood.cli._tables import read_table
    from hardwood.errors import reject

    if table is None:
        raise click.UsageError("TABLE is missing: the rows that the page shows")
    if page == "-":
        raise click.UsageError("--page needs a file name")
    check_output(page, "--page", [table])
    forest, description = read_model(model)
    read = read_table(table)
    if read.n_rows == 0:
        reject("TABLE", table, "has no rows", "pass a table with rows")
    raw, truth = rows_and_truth(read, forest, description.target)
    title = f"{description.target}, learned by {description.model}"
    replace_file(
        page, lambda place: draw.explain_page(forest, raw, truth, path=place, title=title, sample_rows=sample_rows)
    )


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
