"""The part of a C export that turns leaves into outputs, predictions and classes; `$out` is the type of sums.

Sums are those of the forest: trees one after another, a product rounded before it is added.
"""

from __future__ import annotations

import numpy as np

from hardwood.export._c_numbers import Numbers
from hardwood.export._c_text import c_table, smallest_unsigned
from hardwood.export._support import has_linear_leaves
from hardwood.forest import Forest

# The most sums of a block of rows; they lie on the stack.
_MOST_SUMS, _MOST_ROWS = 2048, 64

_ADD_CONSTANTS = """
static inline void $p_add(uint32_t row, $out *sums) {
    int k;
    for (k = 0; k < $SUMS; k++) {
        sums[k] += $p_values[row][k];
    }
}
"""

_SAYS = """
/* What a leaf says: its constant, and its terms in the order of the columns. */
static inline double $p_says(const $real *x, uint32_t row, int k) {
    double total = $p_values[row][k];
    uint32_t i;
    for (i = $p_coef_start[row]; i < $p_coef_start[row + 1]; i++) {
        const double slope = $p_coef[i][k];
        const double cell = x[$p_coef_columns[i]];
        if (slope != 0 && cell == cell) {
            total += $p_product(slope, cell);
        }
    }
    return total;
}
"""

_ADD_LINEAR = """
static inline void $p_add(const $real *x, uint32_t row, $out *sums) {
    int k;
    for (k = 0; k < $SUMS; k++) {
        sums[k] += $p_says(x, row, k);
    }
}
"""

_START = """
static inline void $p_start($out *sums) {
    int k;
    for (k = 0; k < $SUMS; k++) {
        sums[k] = $START;
    }
}
"""

_FINISH = """
static inline void $p_finish($out *sums) {
    int k;
    for (k = 0; k < $P_OUTPUTS; k++) {
        $BODY
    }
}
"""

_NO_FINISH = """
static inline void $p_finish($out *sums) {
    (void)sums;
}
"""

_SUM = """
static inline void $p_sum(const $real *x, $out *sums) {
    int tree;
    $p_start(sums);
    for (tree = 0; tree < $P_TREES; tree++) {
        $p_add($X$p_row(x, tree), sums);
    }
    $p_finish(sums);
}
"""

_SUM_WEIGHED = """
/* The leaf weights are too large for sums of their exponentials: each row takes them relative to its largest. */
static inline void $p_sum(const $real *x, $out *sums) {
    double top = -HUGE_VAL;
    double whole = 0;
    double total[$P_OUTPUTS];
    int tree, k;
    for (tree = 0; tree < $P_TREES; tree++) {
        const double weight = $p_leaf_weights[$p_row(x, tree)];
        top = weight > top ? weight : top;
    }
    for (tree = 0; tree < $P_TREES; tree++) {
        whole += exp($p_leaf_weights[$p_row(x, tree)] - top);
    }
    for (k = 0; k < $P_OUTPUTS; k++) {
        total[k] = 0;
    }
    for (tree = 0; tree < $P_TREES; tree++) {
        const uint32_t row = $p_row(x, tree);
        const double share = exp($p_leaf_weights[row] - top) / whole;
        for (k = 0; k < $P_OUTPUTS; k++) {
            total[k] += $p_product(share, $SAID);
        }
    }
    for (k = 0; k < $P_OUTPUTS; k++) {
        sums[k] = ($out)(total[k]$BASE);
    }
}
"""

_OUTPUTS = """
$API void $p_outputs(const $real *x, $out *out) {
    $out sums[$SUMS];
    int k;
    $p_sum(x, sums);
    for (k = 0; k < $P_OUTPUTS; k++) {
        out[k] = sums[k];
    }
}
"""

_LINKS = {
    "identity": """
static inline void $p_link(const $out *sums, $out *out) {
    int k;
    for (k = 0; k < $P_OUTPUTS; k++) {
        out[k] = sums[k];
    }
}
""",
    "exp": """
static inline void $p_link(const $out *sums, $out *out) {
    int k;
    for (k = 0; k < $P_OUTPUTS; k++) {
        out[k] = $exp(sums[k]);
    }
}
""",
    "sigmoid": """
static inline void $p_link(const $out *sums, $out *out) {
    int k;
    for (k = 0; k < $P_OUTPUTS; k++) {
        const $out small = $exp(sums[k] >= 0 ? -sums[k] : sums[k]);
        out[k] = (sums[k] >= 0 ? 1 : small) / (1 + small);
    }
}
""",
    "classes of sigmoid": """
static inline void $p_link(const $out *sums, $out *out) {
    const $out small = $exp(sums[0] >= 0 ? -sums[0] : sums[0]);
    out[1] = (sums[0] >= 0 ? 1 : small) / (1 + small);
    out[0] = 1 - out[1];
}
""",
    "softmax": """
static inline void $p_link(const $out *sums, $out *out) {
    $out top = sums[0];
    $out whole = 0;
    int k;
    for (k = 1; k < $P_OUTPUTS; k++) {
        top = sums[k] > top ? sums[k] : top;
    }
    for (k = 0; k < $P_OUTPUTS; k++) {
        out[k] = $exp(sums[k] - top);
        whole += out[k];
    }
    for (k = 0; k < $P_OUTPUTS; k++) {
        out[k] /= whole;
    }
}
""",
}

_PREDICT = """
$API void $p_predict(const $real *x, $out *out) {
    $out sums[$SUMS];
    $p_sum(x, sums);
    $p_link(sums, out);
}
"""

_PREDICT_ROWS = """
$API void $p_predict_rows(const $real *x, size_t rows, $out *out) {
    $out sums[$BLOCK][$SUMS];
    size_t first, r;
    int tree;
    for (first = 0; first < rows; first += $BLOCK) {
        const size_t count = rows - first < $BLOCK ? rows - first : $BLOCK;
        const $real *block = x + first * $P_FEATURES;
        for (r = 0; r < count; r++) {
            $p_start(sums[r]);
        }
        for (tree = 0; tree < $P_TREES; tree++) {
            for (r = 0; r < count; r++) {
                const $real *cells = block + r * $P_FEATURES;
                $p_add($CELLS$p_row(cells, tree), sums[r]);
            }
        }
        for (r = 0; r < count; r++) {
            $p_finish(sums[r]);
            $p_link(sums[r], out + (first + r) * $P_PREDICTIONS);
        }
    }
}
"""

_PREDICT_ROWS_ONE_BY_ONE = """
$API void $p_predict_rows(const $real *x, size_t rows, $out *out) {
    size_t r;
    for (r = 0; r < rows; r++) {
        $p_predict(x + r * $P_FEATURES, out + r * $P_PREDICTIONS);
    }
}
"""

_CLASS = """
$API int32_t $p_class(const $real *x) {
    $out sums[$SUMS];
    $p_sum(x, sums);
    $CHOICE
}
"""
_CHOICES = {
    "sigmoid": "return sums[0] > 0;",
    "largest": """{
        int32_t best = 0;
        int32_t k;
        for (k = 1; k < $P_OUTPUTS; k++) {
            if ($KNOWN!(sums[k] <= sums[best])) {
                best = k;
            }
        }
        return best;
    }""",
}


def predictions(forest: Forest) -> int:
    """Return how many numbers a prediction has."""
    return forest.n_outputs if forest.classes is None else len(forest.classes)


def has_predict(forest: Forest, numbers: Numbers) -> bool:
    """Tell whether predictions can be computed: there is no exponential in integers."""
    return not numbers.fixed or forest.link == "identity"


def needs_math(forest: Forest, numbers: Numbers) -> bool:
    """Tell whether exponentials are computed when a row is predicted."""
    return numbers.weights is not None or (not numbers.fixed and forest.link != "identity")


def tables(forest: Forest, numbers: Numbers) -> str:
    """Return the tables of what leaves say."""
    sums = numbers.values.shape[1]
    values = (f"{{{', '.join(map(numbers.out_constant, row))}}}" for row in numbers.values.tolist())
    text = c_table(f"$out $p_values[{forest.n_leaves}][{sums}]", values)
    if numbers.weights is not None:
        text += c_table(f"double $p_leaf_weights[{forest.n_leaves}]", map(repr, numbers.weights.tolist()))
    if numbers.base is not None:
        text += c_table(f"$out $p_base[{forest.n_outputs}]", map(numbers.out_constant, numbers.base.tolist()))
    if has_linear_leaves(forest):
        assert numbers.coef is not None
        leaf, column = np.nonzero((numbers.coef != 0).any(axis=2))
        start = np.searchsorted(leaf, np.arange(forest.n_leaves + 1))
        text += c_table(f"uint32_t $p_coef_start[{len(start)}]", map(str, start.tolist()))
        text += c_table(f"{smallest_unsigned(forest.n_features - 1)} $p_coef_columns[{len(leaf)}]", map(str, column))
        rows = (f"{{{', '.join(map(repr, row))}}}" for row in numbers.coef[leaf, column].tolist())
        text += c_table(f"double $p_coef[{len(leaf)}][{sums}]", rows)
    return text


def sums(forest: Forest, numbers: Numbers) -> str:
    """Return the functions that add up leaves: `$p_sum` leaves the outputs, before the link, in its argument."""
    linear = has_linear_leaves(forest)
    says = _SAYS if linear else ""
    if numbers.weights is not None:
        text = says + _SUM_WEIGHED.replace("$SAID", "$p_says(x, row, k)" if linear else "$p_values[row][k]")
        return text.replace("$BASE", "" if numbers.base is None else " + $p_base[k]")
    start, finish = "0", _NO_FINISH
    base = "" if numbers.base is None else " + $p_base[k]"
    if numbers.combine == "sum":
        start = "$p_base[k]" if base else "0"
    else:
        divisor = "sums[$P_OUTPUTS]" if numbers.combine == "softmax" else "$P_TREES"
        finish = _FINISH.replace("$BODY", f"sums[k] = sums[k] / {divisor}{base};")
    add = _ADD_LINEAR if linear else _ADD_CONSTANTS
    return says + add + _START.replace("$START", start) + finish + _SUM.replace("$X", "x, " if linear else "")


def public(forest: Forest, numbers: Numbers) -> list[str]:
    """Return the public functions, each with a comment that says what it does."""
    parts = [_documented("The combined outputs of the trees, before the link: $P_OUTPUTS numbers.", _OUTPUTS)]
    if has_predict(forest, numbers):
        what = "The probability of each class" if forest.classes is not None else "The prediction"
        link = "classes of sigmoid" if forest.classes is not None and forest.link == "sigmoid" else forest.link
        parts.append(_documented(f"{what}: $P_PREDICTIONS numbers.", _LINKS[link] + _PREDICT))
        if numbers.weights is not None:
            many = _PREDICT_ROWS_ONE_BY_ONE
        else:
            block = max(1, min(_MOST_ROWS, _MOST_SUMS // numbers.values.shape[1]))
            many = _PREDICT_ROWS.replace("$BLOCK", str(block))
            many = many.replace("$CELLS", "cells, " if has_linear_leaves(forest) else "")
        parts.append(_documented("The same for many rows, which stand one after another.", many))
    if forest.classes is not None:
        near = (
            f" Outputs may change places that differ by {2 * numbers.output_error:.3g} or less."
            if numbers.output_error
            else ""
        )
        choice = _CHOICES["sigmoid" if forest.link == "sigmoid" else "largest"]
        choice = choice.replace("$KNOWN", "" if numbers.fixed else "sums[best] == sums[best] && ")
        text = _CLASS.replace("$CHOICE", choice)
        parts.append(_documented(f"The number of the most probable class, the first on a tie.{near}", text))
    return parts


def _documented(note: str, text: str) -> str:
    return text.replace("$API", f"/* {note} */\n$API", 1)
