"""The fixed text of an exported Python module."""

from __future__ import annotations

TOP = '''"""$ABOUT, written by hardwood.

A row is a sequence of cells in the order of the columns, or a mapping from the names in FEATURES. The cell of a column
in CATEGORIES is one of its words. None, NaN and unknown words are missing values.
"""

import base64
import math
import struct


def _unpack(code, text):
    data = base64.b64decode(text)
    return struct.unpack(f"<{len(data) // struct.calcsize(code)}{code}", data)


def _cells(row):
    if hasattr(row, "keys"):
        if FEATURES is None:
            raise TypeError("the columns have no names: pass a sequence of cells")
        row = [row[name] for name in FEATURES]
    if len(row) != N_FEATURES:
        raise ValueError(f"a row has {N_FEATURES} cells, not {len(row)}")
    cells = []
    for column, cell in enumerate(row):
        codes = _CODES.get(column)
        if codes is not None:
            cells.append(codes.get(cell, math.nan))
        elif cell is None:
            cells.append(math.nan)
        elif isinstance(cell, (str, bytes)):
            raise TypeError(f"cell {column} must be a number, not {cell!r}")
        else:
            cells.append(float(cell))
    return cells


def _exp(power):
    try:
        return math.exp(power)
    except OverflowError:
        return math.inf

'''

BELOW = '''
def _below(x, columns, weights, cut):
    """Return 1 if the weighted sum is below the cut, 0 if it is not, -1 if a cell is missing."""
    total = 0.0
    for column, weight in zip(columns, weights):
        if x[column] != x[column]:
            return -1
        total += weight * x[column]
    return 1 if total < cut else 0
'''

ROW_OF_IFS = """
def _row(x, tree):
    return _TREES[tree](x)
"""

ROW_OF_TABLES = """
def _row(x, tree):
    node = _START[tree]
    while _KIND[node]:
        kind = _KIND[node]
        if kind == 1:
            cell = x[_COLUMN[node]]
            side = 1 if cell < _CUT[node] else 0 if cell == cell else -1
        elif kind == 2:
            cell = x[_COLUMN[node]]
            side = -1 if cell != cell else int(int(cell) in _SETS[node])
        else:
            span = slice(_WEIGHT_START[node], _WEIGHT_START[node + 1])
            side = _below(x, _WEIGHT_COLUMN[span], _WEIGHT[span], _CUT[node])
        if side < 0:
            side = _MISSING_LEFT[node]
        node = _LEFT[node] if side else _RIGHT[node]
    return _LEFT[node]
"""

LEAF = '''
def leaf(row):
    """Return the leaf that a row reaches in each tree, as the number of its node; the root is node 0."""
    x = _cells(row)
    return [_LEAF_NODE[_row(x, tree)] for tree in range(N_TREES)]
'''

SAYS = {
    False: """
def _says(x, at, k):
    return _VALUES[at * N_SUMS + k]
""",
    True: """
def _says(x, at, k):
    total = _VALUES[at * N_SUMS + k]
    for i in range(_COEF_START[at], _COEF_START[at + 1]):
        slope, cell = _COEF[i * N_SUMS + k], x[_COEF_COLUMN[i]]
        if slope != 0 and cell == cell:
            total += slope * cell
    return total
""",
}

SUMS = '''
def outputs(row):
    """Return the combined outputs of the trees, before the link."""
    x = _cells(row)
    sums = $START
    for tree in range(N_TREES):
        at = _row(x, tree)
        for k in range(N_SUMS):
            sums[k] += _says(x, at, k)
    return $FINISH
'''

SUMS_BY_ROW = '''
def outputs(row):
    """Return the combined outputs of the trees, before the link."""
    x = _cells(row)
    reached = [_row(x, tree) for tree in range(N_TREES)]
    top = max(_WEIGHTS[at] for at in reached)
    raised = [math.exp(_WEIGHTS[at] - top) for at in reached]
    whole = sum(raised)
    sums = [0.0] * N_SUMS
    for at, each in zip(reached, raised):
        for k in range(N_SUMS):
            sums[k] += each / whole * _says(x, at, k)
    return $FINISH
'''

LINKS = {
    "identity": """
def _link(values):
    return values
""",
    "exp": """
def _link(values):
    return [_exp(value) for value in values]
""",
    "sigmoid": """
def _sigmoid(value):
    small = _exp(-abs(value))
    return (1.0 if value >= 0 else small) / (1.0 + small)


def _link(values):
    return [_sigmoid(value) for value in values]
""",
    "classes of sigmoid": """
def _link(values):
    small = _exp(-abs(values[0]))
    second = (1.0 if values[0] >= 0 else small) / (1.0 + small)
    return [1.0 - second, second]
""",
    "softmax": """
def _link(values):
    top = max(values)
    raised = [_exp(value - top) for value in values]
    whole = sum(raised)
    return [each / whole for each in raised]
""",
}

REGRESSOR = '''
def predict(row):
    """Return the prediction for a row."""
    return _link(outputs(row))[0]
'''

SEVERAL = '''
def predict(row):
    """Return the predictions for a row."""
    return _link(outputs(row))
'''

PROBABILITIES = '''
def predict_proba(row):
    """Return the probability of each class, in the order of CLASSES."""
    return _link(outputs(row))

'''

CLASSIFIER_OF_ONE_OUTPUT = (
    PROBABILITIES
    + '''
def predict(row):
    """Return the most probable class of a row."""
    return CLASSES[1 if outputs(row)[0] > 0 else 0]
'''
)

CLASSIFIER = (
    PROBABILITIES
    + '''
def predict(row):
    """Return the most probable class of a row, the first on a tie."""
    values = outputs(row)
    best = 0
    for k in range(1, len(values)):
        if values[best] == values[best] and not values[k] <= values[best]:
            best = k
    return CLASSES[best]
'''
)
