"""`hardwood fit`: from a table to a model's folder."""

from __future__ import annotations

from typing import Any

import click

_HELP = """Learn a tree or an ensemble from TABLE, and write it to a folder.

TABLE is a .csv, .tsv or .parquet file, or - for CSV from stdin. All columns but the target are learned from. Some rows
are held out, and the model is scored on them beside scikit-learn's greedy tree of the same depth.

\b
One tree, to be read:
  hardwood fit train.csv --target survived -o model/
An ensemble, often more accurate, harder to read:
  hardwood fit train.csv --target survived --model grande -o model/
Codes that look like numbers, columns to leave out, and rows that count more than others:
  hardwood fit train.parquet --target price --categorical zip --drop id --weight area -o model/
A long run that survives being killed: say the same again and it goes on where it was:
  hardwood fit train.csv --target y --checkpoint run.ckpt --resume -o model/

The folder holds forest.safetensors (which `hardwood.load` reads in Python), model.json and report.html. Ctrl-C ends
training with the best model so far; it is written as if training had ended by itself."""

_LOSSES = {
    "classification": ("cross_entropy", "focal", "poly"),
    "regression": ("squared_error", "absolute_error", "huber", "quantile", "poisson", "tweedie"),
}


@click.command("fit", help=_HELP, short_help="Learn a tree or an ensemble from a table.")
@click.argument("table")
@click.option("-t", "--target", required=True, metavar="COLUMN", help="The column to predict.")
@click.option(
    "-m",
    "--model",
    type=click.Choice(["gradtree", "grande"]),
    default="gradtree",
    show_default=True,
    help="gradtree: one tree. grande: an ensemble whose trees are weighed row by row.",
)
@click.option("-o", "--output", required=True, metavar="FOLDER", help="Where to write the model.")
@click.option("-f", "--force", is_flag=True, help="Replace a model, or a checkpoint, that is there already.")
@click.option(
    "--task",
    type=click.Choice(["auto", "classification", "regression"]),
    default="auto",
    show_default=True,
    help="auto: classes if the target is text, true or false, or at most 20 whole numbers.",
)
@click.option(
    "--categorical", multiple=True, metavar="COLUMN", help="Take a column as categories, as text is. Repeatable."
)
@click.option("--drop", multiple=True, metavar="COLUMN", help="Leave a column out. Repeatable.")
@click.option("--weight", metavar="COLUMN", help="A column that says how much each row counts; not learned from.")
@click.option("--skip-unlabelled", is_flag=True, help="Leave out rows without a target; else they are an error.")
@click.option(
    "--test-fraction",
    type=click.FloatRange(0, 1, max_open=True),
    default=0.2,
    show_default=True,
    help="Share of rows that are held out for scores. 0 learns from all rows.",
)
@click.option("--max-depth", type=click.IntRange(1, 16), help="Levels of splits. [gradtree: 8, grande: 5]")
@click.option("--n-estimators", type=click.IntRange(1), help="Trees of the ensemble (grande only).")
@click.option("--n-restarts", type=click.IntRange(1), help="Trees to train, of which the best is kept (gradtree only).")
@click.option(
    "--loss", type=click.Choice([name for names in _LOSSES.values() for name in names]), help="What to lower."
)
@click.option(
    "--class-weight",
    type=click.Choice(["sqrt_balanced", "balanced", "none"]),
    help="How much more rare classes count. [sqrt_balanced]",
)
@click.option(
    "--increasing", multiple=True, metavar="COLUMN", help="Predictions never fall with this column. Repeatable."
)
@click.option(
    "--decreasing", multiple=True, metavar="COLUMN", help="Predictions never rise with this column. Repeatable."
)
@click.option("--init", type=click.Choice(["greedy", "random"]), help="Where training starts. [greedy]")
@click.option("--max-iter", type=click.IntRange(1), help="Passes over the rows, at most.")
@click.option("--patience", type=click.IntRange(1), help="Evaluations without progress after which training stops.")
@click.option("--max-seconds", type=click.FloatRange(0, min_open=True), help="Stop training after this time.")
@click.option("--seed", type=click.IntRange(0, 2**32 - 1), default=0, show_default=True, help="The same seed and rows: "
              "the same model.")  # fmt: skip
@click.option("--device", metavar="NAME", help="auto, cpu, cuda or cuda:1. [auto]")
@click.option("--jobs", type=int, help="Threads; -1 for all cores. [as many as pay]")
@click.option("--checkpoint", metavar="FILE", help="Write the state of training here from time to time.")
@click.option("--resume", is_flag=True, help="Go on from the checkpoint, if there is one.")
@click.option("--lines", type=click.IntRange(0), default=24, show_default=True, help="Lines of the rules to print.")
@click.option("-q", "--quiet", is_flag=True, help="No progress bar and no report: warnings and errors only.")
def command(
    table: str,
    target: str,
    model: str,
    output: str,
    force: bool,
    task: str,
    categorical: tuple[str, ...],
    drop: tuple[str, ...],
    weight: str | None,
    skip_unlabelled: bool,
    test_fraction: float,
    max_depth: int | None,
    n_estimators: int | None,
    n_restarts: int | None,
    loss: str | None,
    class_weight: str | None,
    increasing: tuple[str, ...],
    decreasing: tuple[str, ...],
    init: str | None,
    max_iter: int | None,
    patience: int | None,
    max_seconds: float | None,
    seed: int,
    device: str | None,
    jobs: int | None,
    checkpoint: str | None,
    resume: bool,
    lines: int,
    quiet: bool,
) -> None:
    """Check what can be checked, learn, and write."""
    if model == "gradtree" and n_estimators is not None:
        raise click.UsageError("--n-estimators is for --model grande; gradtree is one tree (see --n-restarts)")
    if model == "grande" and n_restarts is not None:
        raise click.UsageError("--n-restarts is for --model gradtree; grande is one ensemble (see --n-estimators)")
    if resume and checkpoint is None:
        raise click.UsageError("--resume needs --checkpoint FILE, the file to go on from")

    from hardwood.cli._learn import Choices, learn
    from hardwood.cli._model import check_model_output

    check_model_output(output, force)
    _check_checkpoint(checkpoint, resume, force)
    given: dict[str, Any] = {
        "max_depth": max_depth,
        "n_estimators": n_estimators,
        "n_restarts": n_restarts,
        "loss": loss,
        "class_weight": class_weight,
        "init": init,
        "max_iter": max_iter,
        "n_iter_no_change": patience,
        "max_seconds": max_seconds,
        "device": device,
        "n_jobs": jobs,
    }
    learn(
        Choices(
            table=table,
            target=target,
            model=model,
            output=output,
            replace=force,
            task=task,
            categorical=categorical,
            drop=drop,
            weight=weight,
            skip_unlabelled=skip_unlabelled,
            test_fraction=test_fraction,
            parameters={name: value for name, value in given.items() if value is not None},
            losses=_LOSSES,
            increasing=increasing,
            decreasing=decreasing,
            seed=seed,
            checkpoint=checkpoint,
            resume=resume,
            lines=lines,
            quiet=quiet,
        )
    )


def _check_checkpoint(path: str | None, resume: bool, force: bool) -> None:
    """Refuse a checkpoint that cannot be written, or that would be lost."""
    import os

    from hardwood.cli._outputs import check_output
    from hardwood.errors import reject

    if path is None:
        return
    check_output(path, "--checkpoint")
    if os.path.exists(path) and not (resume or force):
        remedy = "add --resume to go on from it, or --force to begin anew and replace it"
        reject("--checkpoint", path, "is there already", remedy)
