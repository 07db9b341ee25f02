"""The columns that a model learns from, as numbers, and the target beside them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from hardwood._typing import Bool, Float, Int, Shaped
from hardwood.cli._cells import Word, codes_of
from hardwood.cli._tables import Table
from hardwood.errors import reject
from hardwood.forest import Forest
from hardwood.forest._forest import FeatureType

Task = Literal["classification", "regression"]
# A target of whole numbers has classes if there are no more of them than this, and amounts otherwise.
MOST_CLASSES_OF_NUMBERS = 20


@dataclass(frozen=True, eq=False)
class Features:
    """Columns in raw coding: categories are positions in a vocabulary, and NaN is missing.

    Estimators learn from the codes as if they were the categories; `described` puts the words back.
    """

    names: list[str]
    types: list[FeatureType]
    vocabularies: dict[int, tuple[Word, ...]]
    raw: Float[np.ndarray, "rows columns"]

    def take(self, rows: Int[np.ndarray, " some"] | Bool[np.ndarray, " rows"]) -> Features:
        """Return some of the rows."""
        return replace(self, raw=self.raw[rows])

    def described(self, forest: Forest) -> Forest:
        """Return a forest that was learned from `raw` as one that knows names, types and words."""
        words = {
            column: tuple(self.vocabularies[column][int(code)] for code in codes)
            for column, codes in forest.categories.items()
        }
        return replace(forest, feature_names=tuple(self.names), feature_types=tuple(self.types), categories=words)

    def all_different(self) -> list[str]:
        """Return the columns of categories that (nearly) name each row, from which there is little to learn."""
        few = 0.9 * len(self.raw)
        return [self.names[column] for column, words in self.vocabularies.items() if len(words) > max(few, 50)]

    def image_paths(self) -> list[str]:
        """Return the columns of texts that are all paths of images."""
        from hardwood.data._images import looks_like_image

        return [
            self.names[column]
            for column, words in self.vocabularies.items()
            if words and all(isinstance(word, str) and looks_like_image(word) for word in words)
        ]


def read_features(table: Table, names: Sequence[str], categorical: Collection[str]) -> Features:
    """Read columns, those named in `categorical` as categories whatever they hold."""
    raw = np.empty((table.n_rows, len(names)), np.float64)
    types: list[FeatureType] = []
    vocabularies: dict[int, tuple[Word, ...]] = {}
    for place, name in enumerate(names):
        column = table.column(name, name in categorical)
        types.append(column.kind)
        if column.words is None:
            assert column.numbers is not None
            raw[:, place] = column.numbers
            continue
        distinct = {word for word in column.words if word is not None}
        # Numbers in rising order, then texts: the order in which the estimators would put them.
        words = tuple(sorted(distinct, key=lambda word: (isinstance(word, str), word)))
        vocabularies[place] = words
        raw[:, place] = codes_of(column.words, words)
    return Features(list(names), types, vocabularies, raw)


@dataclass(frozen=True, eq=False)
class Answers:
    """The target: a label or a number for each row that has one."""

    task: Task
    values: Shaped[np.ndarray, " rows"]  # labels, or float64; anything where `known` is False
    known: Bool[np.ndarray, " rows"]


def read_answers(table: Table, name: str, task: Literal["auto", "classification", "regression"]) -> Answers:
    """Read the target, and decide what kind of task it poses."""
    column = table.column(name)
    if column.words is not None:
        if task == "regression":
            text = next(word for word in column.words if word is not None)
            reject("--target", name, f"holds text ({text!r}), not numbers", "use --task classification")
        known = np.array([word is not None for word in column.words], bool)
        labels = [word for word in column.words if word is not None]
        if len({isinstance(word, str) for word in labels}) > 1:
            reject("--target", name, "mixes text with other values", "make all of them text")
        fill = labels[0] if labels else ""
        return Answers("classification", np.array([fill if word is None else word for word in column.words]), known)
    assert column.numbers is not None
    numbers = column.numbers
    if column.kind == "datetime":
        reject("--target", name, "holds dates", "pass a column of numbers or of classes")
    known = ~np.isnan(numbers)
    distinct = np.unique(numbers[known])
    if task == "auto":
        whole = len(distinct) <= MOST_CLASSES_OF_NUMBERS and bool((distinct == np.floor(distinct)).all())
        task = "classification" if column.kind == "bool" or whole else "regression"
    if task == "regression":
        return Answers(task, numbers, known)
    if not (distinct == np.floor(distinct)).all():
        broken = distinct[distinct != np.floor(distinct)][0].item()
        reject("--target", name, f"holds numbers such as {broken!r}, which are no classes", "use --task regression")
    filled = np.where(known, numbers, distinct[0] if len(distinct) else 0.0)
    if column.kind == "bool":
        return Answers(task, filled.astype(np.bool_), known)
    if column.kind == "int" and (np.abs(filled) < 2**53).all():
        return Answers(task, filled.astype(np.int64), known)
    return Answers(task, filled, known)


def read_weights(table: Table, name: str) -> Float[np.ndarray, " rows"]:
    """Read a column that says how often each row counts."""
    column = table.column(name)
    if column.numbers is None or column.kind == "datetime":
        reject("--weight", name, f"holds {'dates' if column.words is None else 'text'}", "pass a column of numbers")
    bad = ~(np.isfinite(column.numbers) & (column.numbers >= 0))
    if bad.any():
        row = int(np.argmax(bad))
        problem = f"has {column.numbers[row]} in row {row}, which is no weight"
        reject("--weight", name, problem, "use finite numbers of at least 0, one in each row")
    if not column.numbers.any():
        reject("--weight", name, "is 0 in every row", "give some rows a weight above 0")
    return column.numbers


def truth_for(table: Table, forest: Forest, name: str) -> Answers:
    """Read the true answers for a model that is there: classes as the model has them, or numbers."""
    if forest.classes is None:
        answers = read_answers(table, name, "regression")
        if not np.isfinite(answers.values[answers.known]).all():
            reject(table.label(name), "inf", "is not finite", "leave those rows out")
        return answers
    classes: list[Word] = forest.classes.tolist()
    words = table.column(name, categorical=True).words or ()
    codes = codes_of(words, classes)
    unknown = [word for word, code in zip(words, codes.tolist(), strict=True) if word is not None and code != code]
    if unknown:
        shown = ", ".join(map(repr, classes[:10]))
        reject(
            table.label(name), unknown[0], "is no class of the model", f"leave such rows out; its classes are {shown}"
        )
    known = ~np.isnan(codes)
    return Answers("classification", forest.classes[np.where(known, codes, 0).astype(np.int64)], known)


def rows_and_truth(table: Table, forest: Forest, name: str) -> tuple[Float[np.ndarray, "rows features"], Any]:
    """Return the rows of a table as a forest takes them, with their answers.

    Where the table has no answers, that is all rows and None; else those rows whose answer is known.
    """
    raw = table.raw(forest)
    if name not in table.names:
        return raw, None
    answers = truth_for(table, forest, name)
    return (raw[answers.known], answers.values[answers.known]) if answers.known.any() else (raw, None)
