"""A model card: what a forest is, what it reads, how good it was on given rows, and where it ends, as Markdown."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from hardwood._typing import Float, Shaped
from hardwood.draw._checks import check_labels
from hardwood.draw._label import visible
from hardwood.draw._number import moment, number, percent
from hardwood.draw._scores import ClassScores, score
from hardwood.errors import reject
from hardwood.explain._checks import check_rows
from hardwood.export._support import FORMATS, combination, features_of, has_linear_leaves
from hardwood.forest import CATEGORIES, LEAF, OBLIQUE, THRESHOLD, Forest, forest_of
from hardwood.forest._foreign import rows_of

_MOST_LISTED = 12  # classes and categories that are named one by one
_LONGEST_NAME = 60
_MARKS = re.compile(r"([\\`*_\[\]#|~$])")


def model_card(
    model: Any,
    X: Any = None,
    y: Any = None,
    *,
    title: str | None = None,
    about: str | None = None,
    limits: Sequence[str] = (),
) -> str:
    """Return a model card in Markdown for a forest, an estimator of ours, or a tree model of another library.

    With `X` it summarises these rows, and with their true answers `y` too it states scores. They say something about
    new rows only if the model has not learned from them, which a card cannot know: pass rows that were held out.
    `about` says what the model is for, and `limits` are further limits, beside those that the forest shows by itself;
    both are taken as Markdown. Names and labels are escaped.
    """
    forest = forest_of(model)
    if y is not None and X is None:
        reject("y", "answers", "have no rows that they belong to", "pass X too")
    if isinstance(limits, str):
        reject("limits", limits, "is one text", "pass a list of texts")
    table = None if X is None else check_rows(forest, rows_of(model, X))
    truth = None if y is None or table is None else check_labels(forest, y, len(table))
    name = type(model).__name__
    blocks = [f"# {markdown_text(title or f'Model card: {name}')}"]
    if about is not None:
        blocks.append(about)
    blocks += ["## Model", _table(["", ""], _model_rows(forest, name))]
    blocks += ["## Columns", _table(*_column_table(forest, table))]
    if table is not None:
        blocks += ["## Data", _table(["", ""], _data_rows(forest, table, truth))]
    if table is not None and truth is not None:
        blocks += ["## Scores", f"On these {_count(len(table), 'row')}.", *_scores(forest, table, truth)]
    noted = [*_other_answers(model, forest, X, table), *_own_limits(forest, table, truth), *limits]
    blocks += ["## Limits", "\n".join(f"- {limit}" for limit in noted)]
    return "\n\n".join(blocks) + "\n"


# ---------------------------------------------------------------- Markdown


def markdown_text(value: object, limit: int | None = None) -> str:
    """Return a text of one line that Markdown, and HTML in it, leave as it is."""
    shown = visible(str(value))
    if limit is not None and len(shown) > limit:
        shown = shown[: limit - 1] + "…"
    marked = _MARKS.sub(r"\\\1", shown)
    return marked.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;") or '""'


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def _count(count: int, one: str, many: str | None = None) -> str:
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def _listed(values: Sequence[object]) -> str:
    shown = [markdown_text(value, _LONGEST_NAME) for value in values[:_MOST_LISTED]]
    rest = len(values) - len(shown)
    return ", ".join(shown) + (f" and {rest:,} more" if rest else "")


def _range(values: Float[np.ndarray, " values"]) -> str:
    low, middle, high = (float(each) for each in (values.min(), np.median(values), values.max()))
    if low == high:
        return number(low)
    return f"{number(low)} to {number(high)}, median {number(middle)}"


# ---------------------------------------------------------------- the forest


def _model_rows(forest: Forest, name: str) -> list[list[str]]:
    from hardwood import __version__

    if forest.classes is not None:
        task = (
            f"classification into {_count(len(forest.classes), 'class', 'classes')}: {_listed(forest.classes.tolist())}"
        )
    else:
        task = f"regression of {_count(forest.n_outputs, 'output')}"
        task += f": {_listed(forest.output_names)}" if forest.output_names else ""
    splits = {"numeric": THRESHOLD, "by category": CATEGORIES, "oblique": OBLIQUE}
    counts = [
        f"{int((forest.kind == kind).sum()):,} {word}" for word, kind in splits.items() if (forest.kind == kind).any()
    ]
    leaves = np.add.reduceat(forest.kind == LEAF, forest.tree_start[:-1], dtype=np.float64)
    a_tree = " a tree" if forest.n_trees > 1 else ""
    how = {"sum": "summed", "mean": "averaged", "softmax": "weighed by the softmax of the reached leaves' weights"}
    rows = [["kind", markdown_text(name)], ["task", task], ["trees", f"{forest.n_trees:,}"]]
    if forest.n_trees > 1:
        rows.append(["trees are", how[combination(forest)]])
    rows += [
        ["depth", _range(forest.depths.astype(np.float64)) + a_tree],
        ["leaves", f"{forest.n_leaves:,}" + (f"; {_range(leaves)}{a_tree}" if a_tree else "")],
        ["splits", ", ".join(counts) or "none"],
        ["leaves say", "a linear formula" if has_linear_leaves(forest) else "a constant"],
        ["link", forest.link],
        ["fingerprint", f"`{forest._digest.hex()[:32]}`"],
        ["hardwood", __version__],
    ]
    return rows


def _splits_by_column(forest: Forest) -> Any:
    """Count the splits that each column takes part in."""
    counts = np.bincount(forest.feature[forest.feature >= 0], minlength=forest.n_features)
    if forest.weight_feature is not None:
        counts += np.bincount(forest.weight_feature, minlength=forest.n_features)
    return counts


def _used(forest: Forest) -> Any:
    """Tell which columns can change a prediction: by splits, or by linear leaves."""
    used = _splits_by_column(forest) > 0
    if forest.leaf_coef is not None:
        used |= (forest.leaf_coef != 0).any(axis=(0, 2))
    return used


# ---------------------------------------------------------------- columns and rows


def _column_table(
    forest: Forest, table: Float[np.ndarray, "rows features"] | None
) -> tuple[list[str], list[list[str]]]:
    head = ["column", "type", "splits", "categories, or thresholds"]
    head += [] if table is None else ["missing", "in the data"]
    splits = _splits_by_column(forest)
    rows = []
    for column in range(forest.n_features):
        kind = "number" if forest.feature_types is None else forest.feature_types[column]
        words = forest.categories.get(column)
        kind = "category" if words is not None else kind
        cuts = forest.threshold[(forest.kind == THRESHOLD) & (forest.feature == column)]
        cuts = np.unique(cuts[np.isfinite(cuts)])
        if words is not None:
            told = _listed(words)
        elif len(cuts):
            told = _ends(cuts, kind)
        else:
            told = "-"
        cells = [_column_name(forest, column), kind, f"{splits[column]:,}", told]
        if table is not None:
            cells += _described(table[:, column], kind, words)
        rows.append(cells)
    return head, rows


def _column_name(forest: Forest, column: int) -> str:
    names = forest.feature_names
    return f"column {column}" if names is None else markdown_text(names[column], _LONGEST_NAME)


def _value(value: float, kind: str) -> str:
    return moment(value) if kind == "datetime" else number(value)


def _ends(values: Float[np.ndarray, " values"], kind: str) -> str:
    low, high = _value(float(values[0]), kind), _value(float(values[-1]), kind)
    return low if len(values) == 1 else f"{low} to {high}"


def _described(cells: Float[np.ndarray, " rows"], kind: str, words: Sequence[object] | None) -> list[str]:
    """Return the share of missing cells, and what the others are like."""
    known = cells[~np.isnan(cells)].astype(np.float64)
    if words is not None:
        known = known[np.isin(known, np.arange(len(words)))]
    missing = percent(1 - len(known) / len(cells))
    if len(known) == 0:
        return [missing, "-"]
    if words is not None:
        counts = np.bincount(known.astype(np.int64), minlength=len(words))
        top = int(counts.argmax())
        return [missing, f"{int((counts > 0).sum()):,} of them; most often {markdown_text(words[top], _LONGEST_NAME)}"]
    low, middle, high = (_value(float(np.quantile(known, q, method="lower")), kind) for q in (0, 0.5, 1))
    return [missing, low if low == high else f"{low} to {high}, median {middle}"]


def _data_rows(forest: Forest, table: Float[np.ndarray, "rows features"], truth: Any) -> list[list[str]]:
    rows = [["rows", f"{len(table):,}"], ["missing cells", percent(float(np.isnan(table).mean()))]]
    if truth is None:
        return rows
    if forest.classes is not None:
        shares = [(label, float((truth == label).mean())) for label in forest.classes.tolist()]
        return rows + [[f"share of {markdown_text(label, _LONGEST_NAME)}", percent(share)] for label, share in shares]
    for output, values in enumerate(truth.reshape(len(table), -1).T):
        name = "answers" if forest.n_outputs == 1 else f"output {output}"
        if forest.output_names is not None:
            name = markdown_text(forest.output_names[output], _LONGEST_NAME)
        mean, spread = number(float(values.mean())), number(float(values.std()))
        rows.append([name, f"{_range(values)}, mean {mean}, standard deviation {spread}"])
    return rows


# ---------------------------------------------------------------- scores


def _scores(
    forest: Forest, table: Float[np.ndarray, "rows features"], truth: Shaped[np.ndarray, "rows ..."]
) -> list[str]:
    found = score(forest, table, truth)
    if isinstance(found, ClassScores):
        assert forest.classes is not None
        rows = [
            ["accuracy", percent(found.accuracy)],
            ["accuracy of always saying the most common class", percent(found.majority)],
            ["balanced accuracy", percent(found.balanced_accuracy)],
            ["log loss", number(found.log_loss, 4)],
        ]
        rows += [] if found.auc is None else [["area under the ROC curve", number(found.auc, 4)]]
        tables = [_table(["score", "value"], rows)]
        if len(forest.classes) <= _MOST_LISTED:
            names = [markdown_text(label, _LONGEST_NAME) for label in forest.classes.tolist()]
            counts = [
                [name, *(f"{n:,}" for n in row)] for name, row in zip(names, found.confusion.tolist(), strict=True)
            ]
            tables += ["Rows of each class (down), by the class that was said (across):", _table(["", *names], counts)]
        return tables
    rows = [
        ["R²", number(found.r2, 4)],
        ["root mean squared error", number(found.rmse, 4)],
        ["of always saying the mean", number(found.spread, 4)],
        ["mean absolute error", number(found.mae, 4)],
    ]
    return [_table(["score", "value"], rows)]


# ---------------------------------------------------------------- limits


def _other_answers(model: Any, forest: Forest, X: Any, table: Float[np.ndarray, "rows features"] | None) -> list[str]:
    """Say so where an estimator predicts otherwise than its forest, as one with relaxed routing does."""
    if table is None or not (hasattr(model, "forest_rows") and hasattr(model, "predict")):
        return []
    its, own = (np.asarray(said).reshape(len(table), -1) for said in (model.predict(X), forest.predict(table)))
    same = its == own if forest.is_classifier else np.isclose(its, own, rtol=1e-6, equal_nan=True)
    others = int((~same.all(axis=1)).sum())
    if not others:
        return []
    return [
        f"All that is said here is about the forest. The model itself answers otherwise for {_count(others, 'row')}."
    ]


def _own_limits(forest: Forest, table: Any, truth: Any) -> list[str]:
    """Return the limits that the forest, and the rows, show by themselves."""
    found = []
    if truth is None:
        found.append("No scores: this card was written without rows whose answers are known.")
    else:
        found.append("The scores hold for rows like those above, and only if the model has not learned from them.")
    idle = [_column_name(forest, column) for column in np.flatnonzero(~_used(forest)).tolist()]
    if idle:
        more = f" and {len(idle) - _MOST_LISTED:,} more" if len(idle) > _MOST_LISTED else ""
        found.append(f"Read but never used: {', '.join(idle[:_MOST_LISTED])}{more}.")
    if not has_linear_leaves(forest):
        found.append("Predictions are constant between thresholds: beyond the outermost ones nothing changes.")
    found.append("A missing value takes the direction that each split has for it.")
    if forest.categories:
        found.append("A category that a column's vocabulary does not have is treated as missing.")
    if table is not None:
        found += _seen(forest, table)
    refused = {
        target.title: [target.refused[feature] for feature in features_of(forest) if feature in target.refused]
        for target in FORMATS.values()
    }
    for title, reasons in refused.items():
        if reasons:
            found.append(f"Cannot be exported to {title}: {'; '.join(dict.fromkeys(reasons))}.")
    return found


def _seen(forest: Forest, table: Any) -> list[str]:
    """Return what the rows do not cover."""
    from hardwood.explain._expected import reached

    seen = np.zeros(forest.n_leaves, bool)
    for _, leaf in reached(forest, table):
        seen[leaf.ravel()] = True
    idle = int((~seen).sum())
    if idle == 0:
        return []
    return [f"{percent(idle / forest.n_leaves)} of the leaves ({idle:,}) are reached by none of the rows above."]
