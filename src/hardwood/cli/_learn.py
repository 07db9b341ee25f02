"""What `hardwood fit` does: read, hold rows out, train, score beside a greedy tree, and write."""

from __future__ import annotations

import os
import signal
import threading
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hardwood import __version__, draw
from hardwood._typing import Bool, Float, Int
from hardwood.cli._features import Answers, Features, read_answers, read_features, read_weights
from hardwood.cli._model import DESCRIPTION, FOREST, PAGE, Description, write_model
from hardwood.cli._say import aligned, count, cut, remark, say
from hardwood.cli._scoring import Scores, score_forest, score_greedy
from hardwood.cli._tables import Table, read_table
from hardwood.draw._number import percent
from hardwood.errors import reject
from hardwood.forest import Forest

# Rows that tell which trees count most.
_ROWS_FOR_WEIGHTS = 2_000
_DRAWN_TREES = 3


@dataclass(frozen=True)
class Choices:
    """What the options of `hardwood fit` say."""

    table: str
    target: str
    model: str
    output: str
    replace: bool
    task: Any
    categorical: tuple[str, ...]
    drop: tuple[str, ...]
    weight: str | None
    skip_unlabelled: bool
    test_fraction: float
    parameters: Mapping[str, Any]  # of the estimator, those that were given
    losses: Mapping[str, tuple[str, ...]]  # of each task
    increasing: tuple[str, ...]
    decreasing: tuple[str, ...]
    seed: int
    checkpoint: str | None
    resume: bool
    lines: int
    quiet: bool


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows that count: their features, answers and weights, and their place in the table."""

    place: Int[np.ndarray, " rows"]
    features: Features
    answers: Answers
    weight: Float[np.ndarray, " rows"]

    def take(self, rows: Int[np.ndarray, " some"]) -> Rows:
        """Return some of the rows."""
        answers = Answers(self.answers.task, self.answers.values[rows], self.answers.known[rows])
        return Rows(self.place[rows], self.features.take(rows), answers, self.weight[rows])

    def __len__(self) -> int:
        return len(self.place)


def learn(choices: Choices) -> None:
    """Do it all."""
    table = read_table(choices.table)
    rows = _read(choices, table)
    task = rows.answers.task
    _check_loss(choices, task)
    estimator = _estimator(choices, rows.features, task)
    training, held_out = _split(choices, rows)
    greedy: Scores = {}
    if len(held_out):
        # Before training: what comes after it has to be short.
        greedy = _greedy(choices, estimator.max_depth, training, held_out)
    interrupted = _train(estimator, training)
    with _shielded():
        _keep(choices, table, training, held_out, estimator, greedy, interrupted)


def _keep(
    choices: Choices, table: Table, training: Rows, held_out: Rows, estimator: Any, greedy: Scores, interrupted: bool
) -> None:
    """Score the trained model, write it, and say what it is."""
    forest = training.features.described(estimator.forest_)
    raw = table.raw(forest)
    seen = held_out if len(held_out) else training
    scores = score_forest(forest, raw[held_out.place], held_out.answers.values, held_out.weight) if greedy else {}
    trees = _weightiest(forest, raw[seen.place])
    description = Description(
        model=choices.model,
        task=training.answers.task,
        target=choices.target,
        columns=list(training.features.names),
        parameters=_parameters(choices),
        rows=len(training),
        held_out_rows=len(held_out),
        scores=scores,
        greedy_scores=greedy,
        importances=estimator.feature_importances_.tolist(),
        interrupted=interrupted,
        hardwood=__version__,
    )

    def write_page(path: Path) -> None:
        # Answers of rows that were learned from would say nothing about new ones.
        truth = held_out.answers.values if len(held_out) else None
        source = "stdin" if choices.table == "-" else os.path.basename(choices.table)
        title = f"{choices.target}, learned from {source}"
        try:
            draw.report(forest, raw[seen.place], truth, path=path, title=title, trees=trees)
        except Exception as error:  # a model that took hours is not given up for a page
            path.unlink(missing_ok=True)
            remark(f"{PAGE} could not be written ({error}); `hardwood show --html` makes one")

    write_model(choices.output, forest, description, write_page, choices.replace)
    if interrupted:
        remark(f"interrupted; the best model so far is kept, and written to {choices.output}")
    if not choices.quiet:
        _report(choices, forest, description, trees, estimator.max_depth)


@contextmanager
def _shielded() -> Iterator[None]:
    """Hold Ctrl-C off: whoever has ended training with it, and presses it again, must not lose the model."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


# ---------------------------------------------------------------- rows


def _read(choices: Choices, table: Table) -> Rows:
    """Return the rows to learn from and to hold out, after checking everything about them."""
    target = table.require("--target", choices.target)
    for argument, named in (("--drop", choices.drop), ("--categorical", choices.categorical)):
        for name in named:
            table.require(argument, name)
    if table.n_rows == 0:
        reject("TABLE", table.name, "has no rows", "pass a table with rows to learn from")
    aside = {target, *choices.drop, *([choices.weight] if choices.weight else [])}
    if target in choices.drop or target == choices.weight:
        reject("--target", target, "is also named by --drop or --weight", "name another column")
    names = [name for name in table.names if name not in aside]
    if not names:
        reject("TABLE", table.name, "has no column to learn from", "pass columns beside the target")
    for name in choices.categorical:
        if name not in names:
            reject("--categorical", name, "is not learned from", "leave it out here")
    answers = read_answers(table, target, choices.task)
    if choices.weight is None:
        weight = np.ones(table.n_rows)
    else:
        weight = read_weights(table, table.require("--weight", choices.weight))
    place = np.flatnonzero(_counted(choices, answers, weight))
    _check_answers(choices, answers, place)
    features = read_features(table, names, set(choices.categorical))
    for name in features.image_paths():
        if name not in choices.categorical:
            remedy = "pass --drop, or learn from images in Python, with hardwood.MultimodalClassifier or ...Regressor"
            reject("TABLE", name, "is a column of image paths, and `hardwood fit` looks at no images", remedy)
    for name in features.all_different():
        advice = "--drop it if it only names the row; hardwood.MultimodalClassifier in Python learns from texts"
        remark(f"nearly every row has another text in {name!r}; {advice}")
    return Rows(np.arange(table.n_rows), features, answers, weight).take(place)


def _counted(choices: Choices, answers: Answers, weight: Float[np.ndarray, " rows"]) -> Bool[np.ndarray, " rows"]:
    """Return which rows count."""
    missing = int((~answers.known).sum())
    if missing == len(answers.known):
        reject("--target", choices.target, "is empty in every row", "pass a column with answers")
    if missing and not choices.skip_unlabelled:
        row = int(np.argmin(answers.known))
        problem = f"is empty in {count(missing, 'row')} (the first is row {row})"
        reject("--target", choices.target, problem, "fill them in, or add --skip-unlabelled to leave those rows out")
    counted = answers.known & (weight > 0)
    if not counted.any():
        reject("--weight", choices.weight, "is 0 in every row that has a target", "give some rows a weight above 0")
    return counted


def _check_answers(choices: Choices, answers: Answers, place: Int[np.ndarray, " rows"]) -> None:
    values = answers.values[place]
    if answers.task == "regression" and not np.isfinite(values).all():
        row = int(place[np.argmax(~np.isfinite(values))])
        reject("--target", choices.target, f"is infinite in row {row}", "correct it, or leave that row out")
    distinct = np.unique(values)
    if len(distinct) == 1:
        problem = f"is {distinct[0].item()!r} in every row, so there is nothing to learn"
        reject("--target", choices.target, problem, "pass rows with different answers")
    if choices.task == "auto" and answers.task == "classification" and values.dtype.kind in "if" and len(distinct) > 2:
        remark(f"the {len(distinct)} numbers in {choices.target!r} are taken as classes; see --task regression")
    if answers.task == "classification" and len(distinct) > max(2, len(values) // 2):
        problem = f"has {len(distinct):,} classes in {len(values):,} rows"
        reject("--target", choices.target, problem, "use --task regression, or pass another column")


def _check_loss(choices: Choices, task: str) -> None:
    loss = choices.parameters.get("loss")
    if loss is not None and loss not in choices.losses[task]:
        known = ", ".join(choices.losses[task])
        reject("--loss", loss, f"is not for {task}, the task at hand", f"choose one of {known}, or another --task")
    if task == "regression" and choices.parameters.get("class_weight") is not None:
        reject("--class-weight", choices.parameters["class_weight"], "is for classification", "leave it out")


def _split(choices: Choices, rows: Rows) -> tuple[Rows, Rows]:
    """Return the rows to learn from and those held out, which may be none."""
    from hardwood.data import split_rows

    none = rows.take(np.zeros(0, np.int64))
    if choices.test_fraction == 0:
        return rows, none
    labels = rows.answers.values if rows.answers.task == "classification" else None
    training, held_out = split_rows(len(rows), choices.test_fraction, choices.seed, labels)
    if len(held_out) == 0:
        remark("the classes are too rare for rows to be held out, so there are no scores")
        return rows, none
    if labels is None and np.ptp(rows.answers.values[training]) == 0:
        problem = "leaves only rows with the same target to learn from"
        reject("--test-fraction", choices.test_fraction, problem, "pass a smaller one, or more rows")
    return rows.take(training), rows.take(held_out)


# ---------------------------------------------------------------- training


def _estimator(choices: Choices, features: Features, task: str) -> Any:
    from hardwood import estimators

    kinds: dict[tuple[str, str], Any] = {
        ("gradtree", "classification"): estimators.GradTreeClassifier,
        ("gradtree", "regression"): estimators.GradTreeRegressor,
        ("grande", "classification"): estimators.GrandeClassifier,
        ("grande", "regression"): estimators.GrandeRegressor,
    }
    given = dict(choices.parameters)
    if given.get("class_weight") == "none":
        given["class_weight"] = None
    directions = _directions(choices, features)
    if directions is not None:
        given["monotonic_cst"] = directions
    resume = choices.resume and choices.checkpoint is not None and os.path.exists(choices.checkpoint)
    return kinds[choices.model, task](
        **given,
        categorical_features=list(features.vocabularies) or "from_dtype",
        random_state=choices.seed,
        checkpoint=choices.checkpoint,
        resume_from=choices.checkpoint if resume else None,
        verbose=0 if choices.quiet else 1,
    )


def _directions(choices: Choices, features: Features) -> list[int] | None:
    """Return 1, -1 or 0 for each column, or None without a constraint."""
    directions = [0] * len(features.names)
    for argument, named, direction in (
        ("--increasing", choices.increasing, 1),
        ("--decreasing", choices.decreasing, -1),
    ):
        for name in named:
            if name not in features.names:
                reject(argument, name, "is no column that is learned from", "pass the name of one")
            place = features.names.index(name)
            if place in features.vocabularies:
                reject(argument, name, "holds categories, which have no order", "leave it out")
            if directions[place] == -direction:
                reject(argument, name, "is named by --increasing and --decreasing", "name it once")
            directions[place] = direction
    return directions if any(directions) else None


def _train(estimator: Any, rows: Rows) -> bool:
    """Fit, with warnings as remarks; return whether it was interrupted."""
    from hardwood.train import TrainingWarning

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        estimator.fit(rows.features.raw, rows.answers.values, sample_weight=rows.weight)
    interrupted = False
    for message in dict.fromkeys(str(each.message) for each in caught if issubclass(each.category, UserWarning)):
        remark(message)
    for each in caught:
        interrupted |= issubclass(each.category, TrainingWarning) and "was interrupted" in str(each.message)
    return interrupted


def _greedy(choices: Choices, depth: int, training: Rows, held_out: Rows) -> Scores:
    sides = [(rows.features, rows.answers.values, rows.weight) for rows in (training, held_out)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the model that matters gives its own
        return score_greedy(depth, training.answers.task, sides[0], sides[1], choices.seed)


def _weightiest(forest: Forest, raw: Float[np.ndarray, "rows features"]) -> list[int]:
    """Return the trees that count most on some rows."""
    if forest.combine != "softmax":
        return list(range(min(_DRAWN_TREES, forest.n_trees)))
    weights = forest.tree_weights(raw[:_ROWS_FOR_WEIGHTS]).mean(axis=0)
    return np.argsort(-weights, kind="stable")[:_DRAWN_TREES].tolist()


def _parameters(choices: Choices) -> dict[str, Any]:
    """Return what was chosen, for `model.json`."""
    more: dict[str, Any] = {
        "categorical": list(choices.categorical),
        "drop": list(choices.drop),
        "weight": choices.weight,
        "increasing": list(choices.increasing),
        "decreasing": list(choices.decreasing),
    }
    named = {name: value for name, value in more.items() if value}
    return {**choices.parameters, **named, "test_fraction": choices.test_fraction, "seed": choices.seed}


# ---------------------------------------------------------------- what is said


def _report(choices: Choices, forest: Forest, description: Description, trees: list[int], depth: int) -> None:
    what = description.task if forest.classes is None else f"classification into {len(forest.classes)} classes"
    size = f"{count(forest.n_trees, 'tree')}, {count(forest.n_leaves, 'leaf', 'leaves')}"
    say(f"{choices.target}: {what} by {choices.model} ({size}), from {count(forest.n_features, 'column')}.")
    learned_from = f"{count(description.rows, 'row')} to learn from"
    if description.scores:
        say(f"{learned_from}, {description.held_out_rows:,} held out for these scores:\n")
        say(score_table(choices.model, description))
        say(f"\ngreedy: scikit-learn's decision tree of depth {depth}, on the same rows.")
    else:
        say(f"{learned_from}, none held out: there are no scores.")
    if choices.lines:
        say()
        if forest.n_trees > 1:
            equal = percent(1 / forest.n_trees)
            say(f"The tree with the largest weight on average (equal shares would be {equal} each):")
        say(cut(draw.text(forest, trees[0]), choices.lines, f"hardwood show {choices.output} --tree {trees[0]}"))
    say(f"\nwrote {os.path.join(choices.output, FOREST)}, {DESCRIPTION} and {PAGE}")


def score_table(model: str, description: Description) -> str:
    """Return the scores of a model beside those of the greedy tree."""
    lines = [["", model, "greedy"]]
    for name, value in description.scores.items():
        greedy = description.greedy_scores.get(name)
        lines.append([name, f"{value:.4g}", "" if greedy is None else f"{greedy:.4g}"])
    return aligned(lines)
