"""One self-contained page about a forest: its size, pictures, rules, and how good it is on given rows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hardwood._typing import Int
from hardwood.draw._checks import check_labels, check_tree, rows_per_node
from hardwood.draw._label import visible, xml
from hardwood.draw._number import number, percent
from hardwood.draw._page import bars, cards, confusion_table, histogram, page, section, shown
from hardwood.draw._scores import ClassScores, ValueScores, score
from hardwood.draw._svg import picture_in_page
from hardwood.draw._text import text
from hardwood.errors import reject
from hardwood.forest import LEAF, OBLIQUE, Forest

_MOST_FEATURES = 40
_MOST_CLASSES = 30


def report(
    forest: Forest,
    X: Any = None,
    y: Any = None,
    *,
    path: str | Path,
    title: str = "A decision forest",
    trees: Sequence[int] | None = None,
) -> Path:
    """Write one HTML page about a forest and return its path.

    With `X` the page says how many rows take each branch, and with `y` as well how good the predictions are; pass rows
    that the forest was not trained on. `trees` are the trees to draw, by default the first three. The page holds no
    script and fetches nothing; it follows the reader's light or dark theme.
    """
    chosen = list(range(min(3, forest.n_trees))) if trees is None and isinstance(forest, Forest) else list(trees or [])
    for tree in chosen or [0]:
        check_tree(forest, tree)
    if X is None and y is not None:
        reject("y", "an array", "is given without X", "pass the rows as X, or leave y out")
    leaves = None if X is None else forest.apply(X)
    if leaves is not None and not len(leaves):
        reject("X", "an array of 0 rows", "has nothing to count", "pass rows, or leave X and y out")
    scores = None
    if y is not None and leaves is not None:
        scores = score(forest, X, check_labels(forest, y, len(leaves)))

    parts = [
        f'<header>\n<h1>{shown(title)}</h1>\n<p class="muted">{shown(_subtitle(forest, leaves))}</p>\n</header>',
        cards([*_size_cards(forest), *_score_cards(scores)]),
        *(_tree_section(forest, tree, X, y) for tree in chosen),
        section("Features", _features(forest, leaves)),
        *([] if scores is None else [section("On the given rows", _scores(forest, scores))]),
    ]
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(page(title, "\n".join(parts)), encoding="utf-8")
    return target


def _subtitle(forest: Forest, leaves: Int[np.ndarray, "rows trees"] | None) -> str:
    counted = "" if leaves is None else f"; seen on {len(leaves):,} rows"
    if forest.classes is None:
        kind = "Regression"
    else:
        names = [visible(str(each)) for each in forest.classes[:6].tolist()]
        more = f" and {len(forest.classes) - 6} more" if len(forest.classes) > 6 else ""
        kind = f"Classification into {', '.join(names)}{more}"
    return f"{kind}{counted}."


def _size_cards(forest: Forest) -> list[tuple[str, str]]:
    used = np.count_nonzero(_splits_per_feature(forest))
    return [
        (f"{forest.n_trees:,}", "tree" if forest.n_trees == 1 else "trees"),
        (str(forest.depth), "splits on the longest path"),
        (f"{forest.n_leaves:,}", "leaves"),
        (f"{used} of {forest.n_features}", "features used"),
    ]


def _score_cards(scores: ClassScores | ValueScores | None) -> list[tuple[str, str]]:
    if isinstance(scores, ClassScores):
        return [
            (f"{scores.accuracy:.3f}", f"accuracy (most common class: {scores.majority:.3f})"),
            (f"{scores.balanced_accuracy:.3f}", "balanced accuracy"),
        ]
    if isinstance(scores, ValueScores):
        return [
            (f"{scores.r2:.3f}", "R\N{SUPERSCRIPT TWO}"),
            (number(scores.rmse, 4), f"root mean squared error (constant answer: {number(scores.spread, 4)})"),
        ]
    return []


def _tree_section(forest: Forest, tree: int, X: Any, y: Any) -> str:
    heading = "The tree" if forest.n_trees == 1 else f"Tree {tree}"
    picture = f'<div class="scroll picture">{picture_in_page(forest, tree, X, y)}</div>'
    rules = f"<details><summary>Rules</summary><pre>{xml(text(forest, tree, X=X, y=y))}</pre></details>"
    return section(heading, f"{picture}\n{rules}")


def _splits_per_feature(forest: Forest) -> Int[np.ndarray, " features"]:
    """Count the splits that look at each feature; an oblique split counts for each of its columns."""
    counts = np.bincount(forest.feature[forest.feature >= 0], minlength=forest.n_features)
    if forest.weight_feature is not None:
        counts = counts + np.bincount(forest.weight_feature, minlength=forest.n_features)
    return counts


def _visits_per_feature(forest: Forest, leaves: Int[np.ndarray, "rows trees"]) -> Int[np.ndarray, " features"]:
    """Count how often a row of `X` meets a split on each feature, over all trees."""
    visits = np.zeros(forest.n_features, np.int64)
    for tree in range(forest.n_trees):
        counts = rows_per_node(forest, leaves[:, tree], tree)
        for node, count in enumerate(counts.tolist(), start=int(forest.tree_start[tree])):
            if forest.kind[node] == OBLIQUE:
                assert forest.weight_start is not None
                assert forest.weight_feature is not None
                own = slice(int(forest.weight_start[node]), int(forest.weight_start[node + 1]))
                visits[forest.weight_feature[own]] += count
            elif forest.kind[node] != LEAF:
                visits[forest.feature[node]] += count
    return visits


def _features(forest: Forest, leaves: Int[np.ndarray, "rows trees"] | None) -> str:
    splits = _splits_per_feature(forest)
    visits = None if leaves is None else _visits_per_feature(forest, leaves)
    weight = splits if visits is None else visits
    names = forest.feature_names or tuple(f"x[{column}]" for column in range(forest.n_features))
    order = sorted(np.flatnonzero(splits).tolist(), key=lambda column: (-weight[column], -splits[column], column))
    if not order:
        return "<p>No split looks at any feature: the answer is always the same.</p>"
    longest = max(int(weight[order[0]]), 1)
    entries = []
    for column in order[:_MOST_FEATURES]:
        cells = [f"{splits[column]:,}"]
        if visits is not None and leaves is not None:
            cells.append(f"{visits[column] / leaves.size:.2f}")
        entries.append((names[column], cells, float(weight[column]) / longest))
    heads = ["feature", "splits"] if visits is None else ["feature", "splits", "looks per row and tree"]
    unused = forest.n_features - len(order)
    notes = []
    if len(order) > _MOST_FEATURES:
        notes.append(f"{len(order) - _MOST_FEATURES} more features are used less.")
    if unused:
        notes.append(f"{unused} of {forest.n_features} features are never looked at.")
    return bars(heads, entries) + "".join(f'<p class="muted">{shown(note)}</p>' for note in notes)


def _scores(forest: Forest, scores: ClassScores | ValueScores) -> str:
    if isinstance(scores, ValueScores):
        marks = np.quantile(scores.residuals, [0.05, 0.25, 0.5, 0.75, 0.95]).tolist()
        words = ["5%", "25%", "half", "75%", "95%"]
        listed = "; ".join(f"{word} below {number(mark, 4)}" for word, mark in zip(words, marks, strict=True))
        return f"<p>Mean absolute error {number(scores.mae, 4)}. Truth minus prediction: {listed}.</p>\n" + histogram(
            scores.residuals, "Histogram of truth minus prediction"
        )
    assert forest.classes is not None
    area = "" if scores.auc is None else f", area under the ROC curve {scores.auc:.3f}"
    constant = f"always answering the most common class is right in {percent(scores.majority)} of the rows"
    sentence = f"<p>Log loss {scores.log_loss:.3f}{area}; {constant}.</p>"
    if len(forest.classes) > _MOST_CLASSES:
        return sentence
    names = [str(each) for each in forest.classes.tolist()]
    return f'{sentence}\n<div class="scroll">{confusion_table(names, scores.confusion)}</div>'
