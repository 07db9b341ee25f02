"""What each format can hold: one table, which the exporters ask, and which `docs/exports.md` shows.

A feature of a forest is either exact in a format or refused with a reason; nothing is approximated in silence. Exact
means that every row reaches the same leaf, and that outputs agree as far as the format's numbers go. Some cells are
exact on a condition, which is then a note under the table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hardwood.errors import reject
from hardwood.forest import CATEGORIES, OBLIQUE, Forest

# Feature -> what it is called in the table. The first four are there whatever the forest, and never refused.
FEATURES: dict[str, str] = {
    "numeric": "numeric thresholds, ties and infinities",
    "float64": "float64 inputs",
    "float32": "float32 inputs",
    "missing": "missing values, with a direction a split",
    "categories": "category sets",
    "oblique": "oblique splits",
    "linear": "linear leaves",
    "outputs": "several outputs",
    "sum": "trees summed",
    "mean": "trees averaged",
    "softmax_trees": "trees weighed by GRANDE's softmax",
    "base": "base",
    "identity": "link identity",
    "sigmoid": "link sigmoid",
    "softmax": "link softmax",
    "exp": "link exp",
    "classes": "class labels",
}


@dataclass(frozen=True)
class Format:
    """One format: what it is run by, what it refuses, and on what conditions it is exact."""

    title: str
    function: str
    runtime: str
    outputs: str  # the precision of outputs
    refused: Mapping[str, str] = field(default_factory=dict)  # feature -> reason
    notes: Mapping[str, str] = field(default_factory=dict)  # feature -> on what condition it is exact
    remedy: str = "export to 'onnx', 'c', 'sql', 'python' or 'json', which hold it"


_NO_SETS = "its splits compare a column with a number, and a set would take copies of whole branches"
_ONE_COLUMN = "its splits look at one column each"
_CONSTANT_LEAVES = "its leaves hold constants"
_NO_ROW_WEIGHTS = "it adds trees up, and has no weight for a tree that depends on the row"
_NO_FRACTIONS = "a product with a cell would have to be rounded, and take another side or value"
_FIXED_INPUTS = "inputs are integers, scaled by a power of two"
_NO_LINKS = "outputs before the link, and the class, are computed"

FORMATS: dict[str, Format] = {
    "sklearn": Format(
        title="scikit-learn",
        function="to_sklearn",
        runtime="scikit-learn",
        outputs="float64",
        refused={
            "categories": _NO_SETS,
            "oblique": _ONE_COLUMN,
            "linear": _CONSTANT_LEAVES,
            "softmax_trees": _NO_ROW_WEIGHTS,
        },
        notes={
            "float64": "scikit-learn rounds inputs to float32 before it compares: a float64 row goes where the forest "
            "sends that row rounded to float32, and a number beyond float32 is refused by scikit-learn",
            "numeric": "scikit-learn refuses rows with infinite cells",
        },
    ),
    "onnx": Format(
        title="ONNX",
        function="to_onnx",
        runtime="onnxruntime",
        outputs='float64; float32 with dtype="float32"',
        notes={"float64": 'with dtype="float32" the model takes float32 rows only'},
    ),
    "treelite": Format(
        title="treelite",
        function="to_treelite",
        runtime="treelite.gtil, FIL",
        outputs="float64; link softmax in float32",
        refused={
            "oblique": _ONE_COLUMN,
            "linear": _CONSTANT_LEAVES,
            "softmax_trees": _NO_ROW_WEIGHTS,
        },
        notes={
            "categories": "treelite cuts a code with a fraction, such as 1.5, to the whole number below",
        },
    ),
    "shap": Format(
        title="SHAP",
        function="to_shap",
        runtime="shap.TreeExplainer",
        outputs="float64; interventional values in float32",
        refused={
            "categories": _NO_SETS,
            "oblique": "a split of several columns has no share for each of them in TreeSHAP",
            "linear": _CONSTANT_LEAVES,
            "softmax_trees": "TreeSHAP adds up trees, and the weight of a tree here depends on all the others",
        },
        notes={
            "float64": "the dictionary is for float32 rows; shap_values takes float64 rows as they are",
            "sigmoid": "what is explained are outputs before the link",
            "softmax": "what is explained are outputs before the link",
            "exp": "what is explained are outputs before the link",
        },
        remedy="call hardwood.explain.contributions, which takes every forest",
    ),
    "c": Format(
        title="C",
        function="to_c",
        runtime="a C99 or C++11 compiler",
        outputs='float64, before links to the last bit; float32 with dtype="float"',
        notes={"float64": 'with dtype="float" inputs are float32'},
    ),
    "c_fixed": Format(
        title="C, fixed point",
        function="to_c",
        runtime="a C99 or C++11 compiler",
        outputs="integers, off by no more than the text says",
        refused={
            "oblique": _NO_FRACTIONS,
            "linear": _NO_FRACTIONS,
            "softmax_trees": "a quotient of exponentials does not go into integers",
        },
        notes={
            "float64": _FIXED_INPUTS,
            "float32": _FIXED_INPUTS,
            "numeric": "there are no infinite cells",
            "missing": "the smallest integer is a missing value",
            "sigmoid": _NO_LINKS,
            "softmax": _NO_LINKS,
            "exp": _NO_LINKS,
            "classes": "classes whose outputs differ by less than rounding may change places",
        },
        remedy="leave fixed_point out, which holds it",
    ),
    "sql": Format(
        title="SQL",
        function="to_sql",
        runtime="DuckDB, SQLite, PostgreSQL",
        outputs="float64, before links to the last bit",
        notes={
            "numeric": "SQLite stores NaN as NULL, DuckDB and PostgreSQL have it: missing in all three",
            "oblique": "PostgreSQL raises an error where a sum or product overflows",
            "linear": "PostgreSQL raises an error where a sum or product overflows",
            "softmax_trees": "leaf weights beyond 300 are refused",
            "categories": "columns hold words, not codes; a column's words are all text or all numbers",
        },
    ),
    "python": Format(
        title="Python", function="to_python", runtime="CPython, no packages", outputs="every bit before links"
    ),
    "json": Format(title="JSON", function="to_json", runtime="from_json", outputs="every bit"),
}


def features_of(forest: Forest) -> tuple[str, ...]:
    """Return the features that a forest makes use of, in the order of `FEATURES`.

    One tree alone has the weight 1 under every way to combine trees, and coefficients that are all 0 are none.
    """
    used = {"numeric", "float64", "float32", "missing", forest.link}
    if (forest.kind == CATEGORIES).any():
        used.add("categories")
    if (forest.kind == OBLIQUE).any():
        used.add("oblique")
    if has_linear_leaves(forest):
        used.add("linear")
    if forest.n_outputs > 1:
        used.add("outputs")
    used.add({"sum": "sum", "mean": "mean", "softmax": "softmax_trees"}[combination(forest)])
    if forest.base is not None:
        used.add("base")
    if forest.classes is not None:
        used.add("classes")
    return tuple(name for name in FEATURES if name in used)


def combination(forest: Forest) -> str:
    """Return how trees are put together; one tree alone is its own sum."""
    return "sum" if forest.n_trees == 1 else forest.combine


def has_linear_leaves(forest: Forest) -> bool:
    """Tell whether a coefficient of a linear leaf is not 0."""
    return forest.leaf_coef is not None and bool(np.any(forest.leaf_coef != 0))


def check(forest: Any, format: str) -> None:  # noqa: A002, the word that users know
    """Raise `InvalidArgumentError`, with the reason, where a format cannot hold a forest exactly."""
    if format not in FORMATS:
        reject("format", format, "is no format", f"use one of {', '.join(map(repr, FORMATS))}")
    if not isinstance(forest, Forest):
        remedy = "pass a Forest; hardwood.forest_of(model) makes one of most tree models"
        reject("forest", forest, "is no Forest", remedy)
    if forest.classes is not None and forest.classes.dtype.kind == "f" and forest.classes.dtype.itemsize > 8:
        reject("forest.classes", forest.classes.dtype, "is wider than float64", "convert the labels to float64")
    target = FORMATS[format]
    for feature in features_of(forest):
        if feature in target.refused:
            problem = (
                f"has {_in_words(feature)}, and {target.title} cannot hold that exactly: {target.refused[feature]}"
            )
            reject("forest", forest, problem, target.remedy)


def _in_words(feature: str) -> str:
    return f"the {FEATURES[feature]}" if feature in ("identity", "sigmoid", "softmax", "exp") else FEATURES[feature]


def supported() -> dict[str, dict[str, str]]:
    """Return the whole table: format -> feature -> "exact", "exact: on what condition", or "refused: why"."""
    return {name: {feature: _cell(each, feature) for feature in FEATURES} for name, each in FORMATS.items()}


def _cell(target: Format, feature: str) -> str:
    if feature in target.refused:
        return f"refused: {target.refused[feature]}"
    return f"exact: {target.notes[feature]}" if feature in target.notes else "exact"


def markdown() -> str:
    """Return the table as Markdown, reasons and conditions as notes below it."""
    notes: list[str] = []

    def mark(text: str) -> str:
        if text not in notes:
            notes.append(text)
        return f"[{notes.index(text) + 1}]"

    targets = list(FORMATS.values())
    lines = [_line("", *(each.title for each in targets)), _line(*["---"] * (len(targets) + 1))]
    lines.append(_line("function", *(f"`{each.function}`" for each in targets)))
    lines.append(_line("run by", *(each.runtime for each in targets)))
    lines.append(_line("outputs agree in", *(each.outputs for each in targets)))
    table = supported()
    for feature, words in FEATURES.items():
        cells = []
        for name in FORMATS:
            verdict, _, why = table[name][feature].partition(": ")
            cells.append(verdict + (f" {mark(why)}" if why else ""))
        lines.append(_line(words, *cells))
    lines += ["", *(f"{number}. {text[0].upper()}{text[1:]}." for number, text in enumerate(notes, 1))]
    return "\n".join(lines) + "\n"


def _line(*cells: str) -> str:
    return "| " + " | ".join(cells) + " |"
