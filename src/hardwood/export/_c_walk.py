"""The part of a C export that finds leaves: tests for small forests, tables of nodes for large ones.

Both give the leaf's row in the tables of leaves (`_row`) and its node number in the tree (`_leaf`). In the text `$p`
stands for the prefix of all names, `$real` for the type of a cell.
"""

from __future__ import annotations

import math

import numpy as np

from hardwood.export._c_numbers import Numbers
from hardwood.export._c_text import c_table, smallest_unsigned
from hardwood.export._source import Step, steps
from hardwood.forest import CATEGORIES, LEAF, OBLIQUE, THRESHOLD, Forest

PRODUCT = """
/* A product that is rounded before it is added to anything: no compiler may fuse it into a multiply-add. */
static inline double $p_product(double weight, double cell) {
    volatile double product = weight * cell;
    return product;
}
"""

_CATEGORY = """
/* 1 if the cell is one of the codes of a set, 0 if it is another code, -1 if it is no code: a missing value. */
static inline int $p_category($real cell, uint32_t first, uint32_t size) {
    uint32_t code;
    if (!(cell >= 0 && (double)cell < (double)size)) {
        return -1;
    }
    code = (uint32_t)cell;
    if (($real)code != cell) {
        return -1;
    }
    return ($p_sets[first + (code >> 3)] >> (code & 7)) & 1;
}
"""

_OBLIQUE = """
/* 1 if the weighted sum of cells is below the cut, 0 if it is not, -1 if one of the cells is missing. */
static inline int $p_oblique(const $real *x, uint32_t first, uint32_t last, double cut) {
    double total = 0;
    uint32_t k;
    for (k = first; k < last; k++) {
        double cell = x[$p_weight_columns[k]];
        if (cell != cell) {
            return -1;
        }
        total += $p_product($p_weights[k], cell);
    }
    return total < cut;
}
"""

_WALK_THRESHOLDS = """
static inline uint32_t $p_walk(const $real *x, int tree) {
    const $p_node *nodes = $p_nodes + $p_trees[tree].node;
    uint32_t at = 0;
    uint32_t level;
    for (level = $p_trees[tree].depth; level > 0; level--) {
        const $p_node *node = nodes + at;
        $real cell = x[node->column];
        $STOP
        at = node->child[$RIGHT];
    }
    return at;
}
"""
_STOP = "if (node->child[0] == at) {\n            break;\n        }"

_WALK_ALL = """
static inline uint32_t $p_walk(const $real *x, int tree) {
    const $p_node *nodes = $p_nodes + $p_trees[tree].node;
    uint32_t at = 0;
    for (;;) {
        const $p_node *node = nodes + at;
        int right;
        switch (node->kind) {
        $CASES
        default:
            return at;
        }
        at = node->child[right];
    }
}
"""
_CASES = {
    THRESHOLD: """case 1: {
            $real cell = x[node->column];
            right = $RIGHT;
            break;
        }""",
    CATEGORIES: """case 2: {
            int side = $p_category(x[node->column], node->first, node->last);
            right = side < 0 ? node->mark : !side;
            break;
        }""",
    OBLIQUE: """case 3: {
            int side = $p_oblique(x, node->first, node->last, node->cut);
            right = side < 0 ? node->mark : !side;
            break;
        }""",
}

_ROW_OF_TABLES = """
static inline uint32_t $p_row(const $real *x, int tree) {
    const uint32_t at = $p_walk(x, tree);
    return $p_trees[tree].leaf + $p_nodes[$p_trees[tree].node + at].mark;
}

$LEAF_DOC
$API int32_t $p_leaf(const $real *x, int tree) {
    return tree < 0 || tree >= $P_TREES ? -1 : (int32_t)$p_walk(x, tree);
}
"""

_ROW_OF_IFS = """
static inline uint32_t $p_row(const $real *x, int tree) {
    switch (tree) {
$BRANCHES
    }
}

$LEAF_DOC
$API int32_t $p_leaf(const $real *x, int tree) {
    return tree < 0 || tree >= $P_TREES ? -1 : (int32_t)$p_leaf_nodes[$p_row(x, tree)];
}
"""


def walk(forest: Forest, numbers: Numbers, layout: str) -> str:
    """Return the definitions of `$p_row` and `$p_leaf`, and what they need."""
    helpers = _sets(forest) + _weights(forest)
    return helpers + (_ifs(forest, numbers) if layout == "ifs" else _tables(forest, numbers))


# ---------------------------------------------------------------- what both need


def _sets(forest: Forest) -> str:
    """Write the category sets as bits, those of one node after those of another."""
    nodes = np.flatnonzero(forest.kind == CATEGORIES)
    if not len(nodes):
        return ""
    assert forest.category_start is not None and forest.category_codes is not None
    first = _first(forest)
    bits = np.zeros(sum(_set_bytes(forest, node) for node in nodes.tolist()), np.uint8)
    for node in nodes.tolist():
        codes = forest.category_codes[forest.category_start[node] : forest.category_start[node + 1]]
        np.bitwise_or.at(bits, first[node] + codes // 8, np.left_shift(1, codes % 8).astype(np.uint8))
    return c_table(f"uint8_t $p_sets[{max(1, len(bits))}]", map(str, bits.tolist() or [0])) + _CATEGORY


def _set_bytes(forest: Forest, node: int) -> int:
    return (len(forest.categories[int(forest.feature[node])]) + 7) // 8


def _first(forest: Forest) -> dict[int, int]:
    """Return where the bits of each category split and the weights of each oblique split begin."""
    first, at = {}, 0
    for node in np.flatnonzero(forest.kind == CATEGORIES).tolist():
        first[node] = at
        at += _set_bytes(forest, node)
    if forest.weight_start is not None:
        first |= {node: int(forest.weight_start[node]) for node in np.flatnonzero(forest.kind == OBLIQUE).tolist()}
    return first


def _last(forest: Forest, node: int) -> int:
    """Return where the weights of an oblique split end, or the size of the vocabulary of a category split."""
    if forest.kind[node] == CATEGORIES:
        return len(forest.categories[int(forest.feature[node])])
    assert forest.weight_start is not None
    return int(forest.weight_start[node + 1])


def _weights(forest: Forest) -> str:
    if not (forest.kind == OBLIQUE).any():
        return ""
    assert forest.weight_feature is not None and forest.weight_value is not None
    count = len(forest.weight_value)
    column_type = smallest_unsigned(forest.n_features - 1)
    columns = c_table(f"{column_type} $p_weight_columns[{count}]", map(str, forest.weight_feature.tolist()))
    weights = c_table(f"double $p_weights[{count}]", map(repr, forest.weight_value.tolist()))
    return columns + weights + _OBLIQUE


# ---------------------------------------------------------------- tests


def _ifs(forest: Forest, numbers: Numbers) -> str:
    first = _first(forest)
    leaf_type = smallest_unsigned(forest.n_leaves - 1)
    parts = []
    for tree in range(forest.n_trees):
        lines = [f"\nstatic inline {leaf_type} $p_tree_{tree}(const $real *x) {{"]
        if forest.depths[tree] == 0:
            lines.append("    (void)x;")
        for step in steps(forest, tree):
            indent = "    " * (step.level + 1)
            if step.what == "leaf":
                lines.append(f"{indent}return {forest._leaf_index[step.node]};")
            elif step.what == "end":
                lines.append(f"{indent}}}")
            else:
                lines.append(f"{indent}if ({_test(forest, numbers, step, first)}) {{")
        parts.append("\n".join([*lines, "}\n"]))
    branches = [f"    case {tree}:\n        return $p_tree_{tree}(x);" for tree in range(forest.n_trees - 1)]
    branches.append(f"    default:\n        return $p_tree_{forest.n_trees - 1}(x);")
    leaves = np.flatnonzero(forest.kind == LEAF)
    node = leaves - np.repeat(forest.tree_start[:-1], np.diff(np.searchsorted(leaves, forest.tree_start)))
    table = c_table(f"{smallest_unsigned(int(node.max()))} $p_leaf_nodes[{forest.n_leaves}]", map(str, node.tolist()))
    return "".join(parts) + table + _ROW_OF_IFS.replace("$BRANCHES", "\n".join(branches))


def _test(forest: Forest, numbers: Numbers, step: Step, first: dict[int, int]) -> str:
    """Write the test of a split, which asks for one of its sides."""
    node = step.node
    kind, column, missing_left = forest.kind[node], int(forest.feature[node]), bool(forest.missing_left[node])
    if kind == THRESHOLD:
        cell = f"x[{column}]"
        write = _fixed_test if numbers.fixed else _float_test
        return write(cell, numbers, node, step.left, missing_left)
    if kind == CATEGORIES:
        side = f"$p_category(x[{column}], {first[node]}, {_last(forest, node)})"
    else:
        cut = _double(float(forest.threshold[node]))
        side = f"$p_oblique(x, {first[node]}, {_last(forest, node)}, {cut})"
    if step.left:
        return f"{side} != 0" if missing_left else f"{side} > 0"
    return f"{side} == 0" if missing_left else f"{side} <= 0"


def _float_test(cell: str, numbers: Numbers, node: int, left: bool, missing_left: bool) -> str:
    """Write `cell < cut`, so that NaN, which fails every comparison, takes the side it should."""
    cut = numbers.constant(float(numbers.cut[node]))
    if missing_left:
        return f"!({cell} >= {cut})" if left else f"{cell} >= {cut}"
    return f"{cell} < {cut}" if left else f"!({cell} < {cut})"


def _fixed_test(cell: str, numbers: Numbers, node: int, left: bool, missing_left: bool) -> str:
    """Write `cell <= cut`; a missing value is the smallest number. Comparisons that hold for all are not written."""
    cut = int(numbers.cut[node])
    missing, constant = numbers.constant(numbers.smallest), numbers.constant(cut)
    if cut == numbers.largest:
        goes_left, goes_right = ("1", "0") if missing_left else (f"{cell} != {missing}", f"{cell} == {missing}")
    elif cut == numbers.smallest:
        goes_left, goes_right = (f"{cell} == {missing}", f"{cell} != {missing}") if missing_left else ("0", "1")
    elif missing_left:
        goes_left, goes_right = f"{cell} <= {constant}", f"{cell} > {constant}"
    else:
        goes_left = f"{cell} <= {constant} && {cell} != {missing}"
        goes_right = f"{cell} > {constant} || {cell} == {missing}"
    return goes_left if left else goes_right


def _double(value: float) -> str:
    return ("-" if value < 0 else "") + "HUGE_VAL" if math.isinf(value) else repr(value)


# ---------------------------------------------------------------- tables


def _tables(forest: Forest, numbers: Numbers) -> str:
    mixed = bool(np.isin(forest.kind, (CATEGORIES, OBLIQUE)).any())
    sizes = np.diff(forest.tree_start)
    start = np.repeat(forest.tree_start[:-1], sizes)
    number = np.arange(forest.node_count) - start
    leaf = forest.kind == LEAF
    # At a leaf every comparison leads back to it, and the mark is its number among the leaves of its tree.
    left = np.where(leaf, number, forest.left - start)
    right = np.where(leaf, number, forest.right - start)
    leaves_before = np.concatenate([[0], np.cumsum(leaf)])[forest.tree_start[:-1]]
    mark = np.where(leaf, forest._leaf_index - np.repeat(leaves_before, sizes), ~forest.missing_left)
    cut_type = "double" if (forest.kind == OBLIQUE).any() else "$real"
    fields = [
        f"{cut_type} cut;", f"{smallest_unsigned(int(sizes.max()) - 1)} child[2];",
        f"{smallest_unsigned(forest.n_features - 1)} column;", f"{smallest_unsigned(int(mark.max()))} mark;",
    ]  # fmt: skip
    first = _first(forest)
    if mixed:
        fields = ["uint32_t first;", "uint32_t last;", *fields, "uint8_t kind;"]
    rows = []
    for node in range(forest.node_count):
        cut = _double(float(forest.threshold[node])) if forest.kind[node] == OBLIQUE else _cut(numbers, node)
        entry = f"{cut}, {{{left[node]}, {right[node]}}}, {max(0, int(forest.feature[node]))}, {mark[node]}"
        if mixed:
            span = f"{first[node]}, {_last(forest, node)}" if node in first else "0, 0"
            entry = f"{span}, {entry}, {forest.kind[node]}"
        rows.append(f"{{{entry}}}")
    trees = zip(forest.tree_start.tolist(), leaves_before.tolist(), forest.depths.tolist(), strict=False)
    text = [
        "\ntypedef struct {\n" + "".join(f"    {each}\n" for each in fields) + "} $p_node;\n",
        c_table(f"$p_node $p_nodes[{forest.node_count}]", rows),
        "\ntypedef struct {\n    uint32_t node;\n    uint32_t leaf;\n    uint32_t depth;\n} $p_tree;\n",
        c_table(f"$p_tree $p_trees[{forest.n_trees}]", (f"{{{a}, {b}, {c}}}" for a, b, c in trees)),
    ]
    if mixed:
        kinds = [kind for kind in (THRESHOLD, CATEGORIES, OBLIQUE) if (forest.kind == kind).any()]
        body = _WALK_ALL.replace("$CASES", "\n        ".join(_CASES[kind] for kind in kinds))
    else:
        # Where a path is hardly longer than it must be, going on at the leaf costs less than looking for it.
        leaves = np.add.reduceat(leaf, forest.tree_start[:-1])
        bushy = bool((forest.depths <= 2 * np.ceil(np.log2(leaves)) + 2).all())
        body = _WALK_THRESHOLDS.replace("        $STOP\n", "" if bushy else f"        {_STOP}\n")
    missing = f"(cell == {numbers.constant(numbers.smallest)})" if numbers.fixed else "(cell != cell)"
    below = "(cell > node->cut)" if numbers.fixed else "(cell >= node->cut)"
    return "".join(text) + body.replace("$RIGHT", f"{below} | ({missing} & node->mark)") + _ROW_OF_TABLES


def _cut(numbers: Numbers, node: int) -> str:
    return numbers.constant(float(numbers.cut[node])) if not numbers.fixed else numbers.constant(int(numbers.cut[node]))
