"""A forest as plain C99 (and C++11): no dependencies, no allocation, no state."""

from __future__ import annotations

from typing import Any

from hardwood.errors import reject
from hardwood.export import _c_outputs, _support
from hardwood.export._c_numbers import Numbers, fixed_point, floating
from hardwood.export._c_text import c_comment, c_string
from hardwood.export._c_walk import PRODUCT, walk
from hardwood.export._source import chosen_layout, column_notes, identifier, outcome_notes
from hardwood.forest import OBLIQUE, Forest

# So many nodes as tests are compiled in about a second.
_MOST_NODES_AS_IFS = 2000

_LEAF_DOC = (
    "/* The leaf that a row reaches in a tree: the number of its node, where the root is 0;\n"
    "   -1 if there is no such tree. */"
)


def to_c(
    forest: Forest,
    *,
    name: str = "forest",
    dtype: str | None = None,
    layout: str = "auto",
    header: bool = False,
    fixed_point: Any = None,
    output_bits: int | None = None,
) -> str:
    """Return C99 source text that routes every row as the forest does, and predicts.

    `name` begins all names: `<name>_leaf(x, tree)`, `<name>_outputs(x, out)` before the link, `<name>_predict(x, out)`
    (a classifier's probabilities), `<name>_predict_rows(x, rows, out)`, for a classifier `<name>_class(x)`, and the
    strings `<name>_class_names`, `<name>_feature_names` and `<name>_output_names`; `<NAME>_FEATURES`, `_TREES`,
    `_OUTPUTS`, `_PREDICTIONS` count. `x` has a cell for each column; NaN is missing; a category is its code. With
    `header`, the text is a header to include wherever it is needed, all of it `static inline`.

    `dtype` is that of cells and outputs. With "double" (the default) outputs are the forest's to the last bit; where
    predictions need an exponential, they are as good as `exp` of the C library. With "float" thresholds are moved to
    the next float, so that a row of floats reaches the forest's leaf, and leaves are added up in float. The link
    sigmoid, softmax or exp, and leaf weights beyond 300 (30 for "float"), need `math.h`.

    `fixed_point` makes cells and outputs integers, for processors that have no others: `dtype` is then "int32" (the
    default) or "int16". A cell q stands for q / 2**fixed_point (an integer, or one a column; codes of categories are
    whole), and the smallest integer for a missing one; a row of such numbers reaches exactly the leaf that the forest
    finds for it. Leaves are rounded to multiples of 2**-output_bits, by default the finest with which 32-bit sums
    cannot overflow; the text says how far a sum may be off. Oblique splits, linear leaves and GRANDE's softmax over
    trees are refused then, and of links only outputs before them and the class are computed.

    `layout` is "ifs" (tests, one function a tree), "tables" (nodes as data, and a loop), or "auto", by size.
    """
    _support.check(forest, "c" if fixed_point is None else "c_fixed")
    prefix = identifier(name, "name")
    written = chosen_layout(forest, layout, _MOST_NODES_AS_IFS)
    numbers = _numbers(forest, dtype, fixed_point, output_bits)
    functions = _c_outputs.public(forest, numbers)
    parts = [_c_outputs.tables(forest, numbers)]
    if (forest.kind == OBLIQUE).any() or _support.has_linear_leaves(forest) or numbers.weights is not None:
        parts.append(PRODUCT)
    parts += [walk(forest, numbers, written), _c_outputs.sums(forest, numbers), *functions]
    body = "".join(parts)
    for mark, meaning in {
        "$LEAF_DOC": _LEAF_DOC,
        "$API ": "static inline " if header else "",
        "$SUMS": str(numbers.values.shape[1]),
        "$real": numbers.real,
        "$out": numbers.out,
        "$exp": "expf" if numbers.dtype == "float" else "exp",
        "$p": prefix,
        "$P": prefix.upper(),
    }.items():
        body = body.replace(mark, meaning)
    # Names come last, when no mark is looked for any more.
    opening = _opening(forest, numbers, prefix, header, "HUGE_VAL" in body or _c_outputs.needs_math(forest, numbers))
    return f"{opening}{body}{_names(forest, prefix, header)}" + ("\n#endif\n" if header else "")


def _numbers(forest: Forest, dtype: Any, bits: Any, output_bits: Any) -> Numbers:
    """Check what the caller asked for and return the arithmetic."""
    allowed = ("double", "float") if bits is None else ("int32", "int16")
    if dtype is not None and dtype not in allowed:
        other = "with fixed_point" if bits is None else "without fixed_point"
        reject("dtype", dtype, f"is not one of {allowed}", f"pass one of them (others go {other})")
    if bits is not None:
        return fixed_point(forest, dtype or allowed[0], bits, output_bits)
    if output_bits is not None:
        reject("output_bits", output_bits, "belongs to fixed_point", "pass fixed_point too")
    return floating(forest, dtype or allowed[0])


def _opening(forest: Forest, numbers: Numbers, prefix: str, header: bool, math: bool) -> str:
    """Return what stands before the tables: a comment, constants, and declarations."""
    top = prefix.upper()
    lines = ["/*", f" * {c_comment(repr(forest))}, written by hardwood.", " *"]
    lines += [f" * {line}" for line in _about(numbers, top)]
    for title, notes in (("Columns", column_notes(forest)), ("Outputs", outcome_notes(forest))):
        if notes:
            title = "Classes" if title == "Outputs" and forest.classes is not None else title
            lines += [" *", f" * {title}:", *(f" *   {c_comment(note)}" for note in notes)]
    lines += [" */"]
    if header:
        lines += [f"#ifndef {top}_H", f"#define {top}_H"]
    lines += ["", "#include <stddef.h>", "#include <stdint.h>", *(["#include <math.h>"] if math else [])]
    if not numbers.fixed:
        lines += ["", "#if defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__"]
        lines += ['#error "missing values are NaN: compile without -ffast-math and -ffinite-math-only"', "#endif"]
    constants = {"FEATURES": forest.n_features, "TREES": forest.n_trees, "OUTPUTS": forest.n_outputs}
    if _c_outputs.has_predict(forest, numbers):
        constants["PREDICTIONS"] = _c_outputs.predictions(forest)
    if forest.classes is not None:
        constants["CLASSES"] = len(forest.classes)
    lines += ["", *(f"#define {top}_{key} {value}" for key, value in constants.items())]
    if numbers.fixed:
        assert numbers.input_bits is not None
        lines += [
            f"#define {top}_MISSING {numbers.dtype.upper()}_MIN",
            f"#define {top}_OUTPUT_BITS {numbers.output_bits}",
        ]
        lines += [f"#define {top}_INPUT_BITS_{column} {bits}" for column, bits in enumerate(numbers.input_bits)]
    if not header:
        lines += ["", "/* What a caller declares. */", *_declarations(forest, numbers, prefix)]
    return "\n".join(lines) + "\n"


def _about(numbers: Numbers, top: str) -> list[str]:
    """Say what a row is."""
    if not numbers.fixed:
        return [
            f"A row x has {top}_FEATURES cells of type {numbers.real}; NaN is a missing value.",
            "Nothing is allocated, and no state is kept.",
        ]
    return [
        f"A row x has {top}_FEATURES cells of type {numbers.real}: cell q of column i stands for the number",
        f"q / 2^{top}_INPUT_BITS_i, and {top}_MISSING for a missing value. Routing is exact for such numbers.",
        f"An output is an integer, to be divided by 2^{top}_OUTPUT_BITS; each is off by at most",
        f"{numbers.output_error:.3g}, because leaves are rounded. Nothing is allocated, and no state is kept.",
    ]


def _declarations(forest: Forest, numbers: Numbers, prefix: str) -> list[str]:
    row = f"const {numbers.real} *x"
    lines = [f"int32_t {prefix}_leaf({row}, int tree);", f"void {prefix}_outputs({row}, {numbers.out} *out);"]
    if _c_outputs.has_predict(forest, numbers):
        lines.append(f"void {prefix}_predict({row}, {numbers.out} *out);")
        lines.append(f"void {prefix}_predict_rows({row}, size_t rows, {numbers.out} *out);")
    if forest.classes is not None:
        lines.append(f"int32_t {prefix}_class({row});")
    return lines + [f"extern const char *const {prefix}_{of}[{len(each)}];" for of, each in _name_tables(forest)]


def _names(forest: Forest, prefix: str, header: bool) -> str:
    static = "static " if header else ""
    return "".join(
        f"\n{static}const char *const {prefix}_{of}[{len(entries)}] = {{\n    "
        + ",\n    ".join(map(c_string, entries))
        + "\n};\n"
        for of, entries in _name_tables(forest)
    )


def _name_tables(forest: Forest) -> list[tuple[str, tuple[object, ...]]]:
    """Return the tables of names: what each is called and what is in it."""
    classes = None if forest.classes is None else tuple(forest.classes.tolist())
    tables = {"class_names": classes, "feature_names": forest.feature_names, "output_names": forest.output_names}
    return [(of, entries) for of, entries in tables.items() if entries is not None]
