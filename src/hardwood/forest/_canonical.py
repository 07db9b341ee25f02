"""The canonical form of a forest's fields: one dtype each, C-contiguous, read-only, and nothing changed silently."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from hardwood.errors import reject

if TYPE_CHECKING:
    from hardwood.forest._forest import Forest

# Field -> (dtype, number of dimensions).
ARRAYS: dict[str, tuple[type[np.generic], int]] = {
    "tree_start": (np.int64, 1),
    "kind": (np.int8, 1),
    "left": (np.int32, 1),
    "right": (np.int32, 1),
    "feature": (np.int32, 1),
    "threshold": (np.float64, 1),
    "missing_left": (np.bool_, 1),
    "leaf_values": (np.float64, 2),
    "category_start": (np.int64, 1),
    "category_codes": (np.int32, 1),
    "weight_start": (np.int64, 1),
    "weight_feature": (np.int32, 1),
    "weight_value": (np.float64, 1),
    "leaf_weights": (np.float64, 1),
    "leaf_coef": (np.float64, 3),
    "base": (np.float64, 1),
}
OPTIONAL = frozenset(ARRAYS) - {
    "tree_start", "kind", "left", "right", "feature", "threshold", "missing_left", "leaf_values"
}  # fmt: skip


_MOST_FEATURES = 2**31 - 1


def canonical(forest: Forest) -> dict[str, Any]:
    """Return the canonical value of every field; raise where a value does not fit its field."""
    values: dict[str, Any] = {}
    for name, (dtype, ndim) in ARRAYS.items():
        value = getattr(forest, name)
        values[name] = None if value is None and name in OPTIONAL else _array(name, value, dtype, ndim)
    values["n_features"] = _count(forest.n_features)
    values["classes"] = None if forest.classes is None else _labels(forest.classes)
    for name in ("feature_names", "feature_types", "output_names"):
        value = getattr(forest, name)
        values[name] = None if value is None else _strings(name, value)
    values["categories"] = _vocabularies(forest.categories)
    return values


def _array(name: str, value: Any, dtype: type[np.generic], ndim: int) -> np.ndarray:
    """Copy an array-like into a read-only array of `dtype`; no number may change on the way."""
    try:
        given = np.asarray(value)
    except ValueError:
        reject(name, value, "is not a rectangular array", f"pass a {ndim}-dimensional array")
    if given.ndim != ndim:
        remedy = f"pass a {ndim}-dimensional array" + (" (leaves, outputs)" if name == "leaf_values" else "")
        reject(name, f"an array of shape {given.shape}", f"must have {ndim} dimension(s)", remedy)
    allowed = {"f": "fiub", "i": "iub", "b": "b"}[np.dtype(dtype).kind]
    if given.size and given.dtype.kind not in allowed:
        wanted = {"f": "numbers", "i": "integers", "b": "booleans"}[np.dtype(dtype).kind]
        reject(name, f"an array of {given.dtype}", f"must hold {wanted}", f"convert it with astype({np.dtype(dtype)})")
    if given.size and np.dtype(dtype).kind == "i":
        limits = np.iinfo(np.dtype(dtype))
        if int(given.min()) < limits.min or int(given.max()) > limits.max:
            worst = int(given.max()) if int(given.max()) > limits.max else int(given.min())
            reject(name, worst, f"does not fit {np.dtype(dtype)}", f"keep values in {limits.min}..{limits.max}")
    result = np.array(given, dtype=dtype, order="C", copy=True)
    result.setflags(write=False)
    return result


def _count(value: Any) -> int:
    """Return `n_features` as a Python integer."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)) or value < 1:
        reject("n_features", value, "must be an integer of at least 1", "pass the number of input columns")
    if value > _MOST_FEATURES:
        reject("n_features", value, f"must be at most {_MOST_FEATURES}", "columns are counted in 32 bits")
    return int(value)


def _labels(value: Any) -> np.ndarray:
    """Return class labels as a read-only array of numbers, booleans or strings."""
    given = np.asarray(value)
    if given.dtype.kind == "O" and given.size and all(isinstance(label, str) for label in given.flat):
        given = given.astype(np.str_)
    if given.ndim != 1 or given.dtype.kind not in "biufU":
        problem = "must be a one-dimensional array of numbers, booleans or strings"
        reject("classes", value, problem, "pass one label per class, all of one type")
    result = np.array(given, dtype=given.dtype.newbyteorder("="), order="C", copy=True)
    result.setflags(write=False)
    return result


def _strings(name: str, value: Any) -> tuple[str, ...]:
    """Return names as a tuple of plain strings."""
    if isinstance(value, str) or not hasattr(value, "__iter__"):
        reject(name, value, "must be a sequence of strings", "pass a tuple with one string per entry")
    given = tuple(value)
    for entry in given:
        if not isinstance(entry, str):
            reject(name, entry, "is not a string", f"pass {name} as strings")
    return tuple(str(entry) for entry in given)


def _vocabularies(value: Any) -> Mapping[int, tuple[str | int | float | bool, ...]]:
    """Return the category vocabularies as a read-only mapping from column numbers to tuples of plain values."""
    if not isinstance(value, Mapping):
        reject("categories", value, "must map column numbers to vocabularies", "pass a dict such as {2: ('a', 'b')}")
    result = {}
    for column in value:
        if isinstance(column, (bool, np.bool_)) or not isinstance(column, (int, np.integer)):
            reject("categories", column, "is not a column number", "use the column's position (an integer) as the key")
        if isinstance(value[column], str) or not hasattr(value[column], "__iter__"):
            reject(f"categories[{column}]", value[column], "must be a sequence of values", "pass a tuple of values")
        result[int(column)] = tuple(_category(int(column), entry) for entry in value[column])
    return MappingProxyType(dict(sorted(result.items())))


def _category(column: int, value: Any) -> str | int | float | bool:
    """Return one category as a plain Python value."""
    plain = value.item() if isinstance(value, np.generic) else value
    if not isinstance(plain, (str, int, float)) or (isinstance(plain, float) and math.isnan(plain)):
        problem, remedy = "is not a string, number or boolean", "name every category by one; a missing value needs none"
        reject(f"categories[{column}]", value, problem, remedy)
    if isinstance(plain, str):
        return str(plain)
    return plain
