"""`hardwood show`: a model as rules, as a picture, as a page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from hardwood.cli._model import Description
    from hardwood.forest import Forest
else:
    Description = Forest = Any

_HELP = """Show what MODEL, a folder that `hardwood fit` wrote, has learned.

\b
What it is, and its rules in raw units:
  hardwood show model/
Another tree of an ensemble, its first three levels:
  hardwood show model/ --tree 12 --max-depth 3
A picture, and a page with the counts and scores for some rows:
  hardwood show model/ --svg tree.svg
  hardwood show model/ --html page.html --table test.csv

In Python, `hardwood.load("model/forest.safetensors")` is the same model."""


@click.command("show", help=_HELP, short_help="Show a model: rules, a picture, a page.")
@click.argument("model")
@click.option("--tree", type=click.IntRange(0), default=0, show_default=True, help="Which tree, counted from 0.")
@click.option("--max-depth", type=click.IntRange(0), help="Cut the rules, or the picture, below so many splits.")
@click.option("--exact", is_flag=True, help="Write all digits of thresholds.")
@click.option("--rules", is_flag=True, help="One line for each leaf, instead of indented branches.")
@click.option("--svg", metavar="FILE", help="Write a picture of the tree; - for stdout.")
@click.option("--html", metavar="FILE", help="Write a page about the model.")
@click.option("--table", metavar="TABLE", help="Rows whose way through the tree the picture or page shows.")
def command(
    model: str,
    tree: int,
    max_depth: int | None,
    exact: bool,
    rules: bool,
    svg: str | None,
    html: str | None,
    table: str | None,
) -> None:
    """Read the model, and write what is asked for."""
    if table is not None and svg is None and html is None:
        raise click.UsageError("--table is for --svg and --html")
    if rules and (exact or max_depth is not None):
        raise click.UsageError("--rules go without --exact and --max-depth")
    if html == "-":
        raise click.UsageError("--html needs a file name")

    from hardwood import draw
    from hardwood.cli._model import read_model
    from hardwood.cli._outputs import check_output, replace_file, write_text
    from hardwood.cli._say import say
    from hardwood.cli._tables import read_table
    from hardwood.errors import reject

    inputs = [] if table is None else [table]
    for argument, path in (("--svg", svg), ("--html", html)):
        if path is not None:
            check_output(path, argument, inputs)
    forest, description = read_model(model)
    if tree >= forest.n_trees:
        reject(
            "--tree", tree, f"the model has {forest.n_trees} tree(s)", f"pass a number from 0 to {forest.n_trees - 1}"
        )
    if svg is None and html is None:
        say(f"{_summary(forest, description)}\n\n{_rules(forest, tree, max_depth, exact, rules)}")
        return
    raw = truth = None
    if table is not None:
        from hardwood.cli._features import rows_and_truth

        rows = read_table(table)
        if rows.n_rows == 0:
            reject("--table", table, "has no rows", "pass a table with rows, or leave it out")
        raw, truth = rows_and_truth(rows, forest, description.target)
    if svg is not None:
        depth = {} if max_depth is None else {"max_depth": max_depth}
        picture = draw.svg(forest, tree, X=raw, title=description.target.strip() or None, **depth)
        write_text(svg, picture + "\n")
    if html is not None:
        title, trees = f"{description.target}, learned by {description.model}", [tree]
        replace_file(html, lambda place: draw.report(forest, raw, truth, path=place, title=title, trees=trees))


def _summary(forest: Forest, description: Description) -> str:
    """Say what the model is and how good it was."""
    from hardwood.cli._learn import score_table
    from hardwood.cli._say import count
    from hardwood.draw._label import label, visible

    what = description.task
    if forest.classes is not None:
        names = [label(each) for each in forest.classes[:8].tolist()]
        what += f" into {', '.join(names)}{', ...' if len(forest.classes) > 8 else ''}"
    size = (
        f"{count(forest.n_trees, 'tree')} of depth {forest.depth} at most, {count(forest.n_leaves, 'leaf', 'leaves')}"
    )
    learned = f"learned from {count(description.rows, 'row')}{' (interrupted)' if description.interrupted else ''}"
    parts = [
        f"{visible(description.target)}: {what}",
        f"{description.model}: {size}, {count(forest.n_features, 'column')}, {learned}",
    ]
    if description.scores:
        parts.append(f"on {count(description.held_out_rows, 'row')} held out:\n")
        parts.append(score_table(description.model, description))
    return "\n".join(parts)


def _rules(forest: Forest, tree: int, max_depth: int | None, exact: bool, as_list: bool) -> str:
    from hardwood import draw, explain

    if as_list:
        return "\n".join(map(str, explain.rules(forest, tree)))
    return draw.text(forest, tree, max_depth, exact=exact)
