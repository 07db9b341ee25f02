"""Which numbers a C export computes with: double, float, or integers that stand for fixed-point numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hardwood._typing import Float, Int
from hardwood.errors import reject
from hardwood.export._c_text import c_number, ceil_float32
from hardwood.export._support import combination
from hardwood.forest import THRESHOLD, Forest
from hardwood.forest._combine import summands

# exp(weight) of more than that, times a leaf value, is not far enough from the ends of float32.
_LARGEST_FLOAT_WEIGHT = 30.0
_MOST_BITS = 60


@dataclass(frozen=True)
class Numbers:
    """The arithmetic of one export: types, cuts and what leaves add."""

    dtype: str  # of inputs and cuts: "double", "float", "int32" or "int16"
    combine: str  # how sums over trees become outputs
    real: str  # C's name of the type of inputs
    out: str  # C's name of the type of sums and outputs
    out_dtype: str
    cut: np.ndarray  # one per node, 0 where there is none
    values: np.ndarray  # (leaves, summands)
    coef: Float[np.ndarray, "leaves features summands"] | None
    weights: np.ndarray | None  # leaf weights, where each row needs a softmax of its own
    base: np.ndarray | None
    input_bits: Sequence[int] | None = None
    output_bits: int | None = None
    output_error: float | None = None

    @property
    def fixed(self) -> bool:
        """Whether numbers are integers."""
        return self.output_bits is not None

    def constant(self, value: float) -> str:
        """Write a constant of the type of inputs."""
        return c_number(value, self.dtype)

    def out_constant(self, value: float) -> str:
        """Write a constant of the type of outputs."""
        return c_number(value, self.out_dtype)

    @property
    def smallest(self) -> int:
        """The smallest integer, which stands for a missing value."""
        return int(np.iinfo(self.dtype).min)

    @property
    def largest(self) -> int:
        """The largest integer."""
        return int(np.iinfo(self.dtype).max)


def floating(forest: Forest, dtype: str) -> Numbers:
    """Return the arithmetic of doubles, or of floats whose routing is that of doubles."""
    cut, values, coef = forest.threshold, forest.leaf_values, forest.leaf_coef
    weights = None
    if forest.combine == "softmax":
        assert forest.leaf_weights is not None
        limit = _LARGEST_FLOAT_WEIGHT if dtype == "float" else math.inf
        if forest._large_weights or np.abs(forest.leaf_weights).max() > limit:
            weights = forest.leaf_weights
        else:
            values, coef = summands(forest)
    if dtype == "float":
        cut = ceil_float32(cut)
        for name in ("leaf_values", "leaf_coef", "base"):
            stored = getattr(forest, name)
            if stored is not None and np.abs(stored).max() > np.finfo(np.float32).max:
                reject("dtype", dtype, f"cannot hold the forest's {name}", "use dtype='double'")
    return Numbers(dtype, forest.combine, dtype, dtype, dtype, cut, values, coef, weights, forest.base)


def fixed_point(forest: Forest, dtype: str, bits: Any, output_bits: Any) -> Numbers:
    """Return the arithmetic of integers: inputs scaled by powers of two, and leaves by one.

    A row of integers goes exactly where the forest sends the numbers that they stand for: `q / 2**b < t` is
    `q <= ceil(t * 2**b) - 1`. The smallest integer stands for a missing value.
    """
    input_bits = _bits_of_columns(forest, bits)
    low, high = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    cut = np.zeros(forest.node_count, np.int64)
    for node in np.flatnonzero(forest.kind == THRESHOLD).tolist():
        cut[node] = _last_left(float(forest.threshold[node]), input_bits[int(forest.feature[node])], low, high)
    exact = forest.leaf_values / forest.n_trees if combination(forest) == "mean" else forest.leaf_values
    chosen = _bits_of_outputs(forest, exact, output_bits)
    values, base = _scaled(exact, chosen), None if forest.base is None else _scaled(forest.base, chosen)
    error = _sum_over_trees(forest, np.abs(np.ldexp(values, -chosen) - exact))
    if base is not None:
        error += np.abs(np.ldexp(base, -chosen) - forest.base)
    size = float(error.max())
    return Numbers(
        dtype, "sum", f"{dtype}_t", "int32_t", "int32", cut, values, None, None, base, input_bits, chosen, size
    )


def _bits_of_columns(forest: Forest, bits: Any) -> list[int]:
    """Return how many bits of each column stand for its fraction; codes of categories are whole."""
    each: Any = [bits] * forest.n_features if isinstance(bits, (int, np.integer)) else bits
    if isinstance(bits, bool) or not hasattr(each, "__len__") or isinstance(each, str):
        reject("fixed_point", bits, "is not a number of bits", "pass an integer, or one integer a column")
    if len(each) != forest.n_features:
        reject("fixed_point", bits, f"has {len(each)} entries for {forest.n_features} columns", "pass one a column")
    entries: list[Any] = list(each)
    for entry in entries:
        if (
            isinstance(entry, (bool, np.bool_))
            or not isinstance(entry, (int, np.integer))
            or not -_MOST_BITS <= int(entry) <= _MOST_BITS
        ):
            reject("fixed_point", entry, f"is no integer from -{_MOST_BITS} to {_MOST_BITS}", "pass, for example, 8")
    return [0 if column in forest.categories else int(one) for column, one in enumerate(entries)]


def _last_left(threshold: float, bits: int, low: int, high: int) -> int:
    """Return the largest integer that goes left; `low`, a missing value, if there is none."""
    if math.isinf(threshold):
        return high if threshold > 0 else low
    numerator, denominator = threshold.as_integer_ratio()
    numerator, denominator = numerator << max(bits, 0), denominator << max(-bits, 0)
    return max(low, min(high, -(-numerator // denominator) - 1))


def _bits_of_outputs(forest: Forest, exact: Float[np.ndarray, "leaves outputs"], wanted: Any) -> int:
    """Return the wanted bits, or the most bits with which no sum over trees overflows 32 bits."""

    def fits(bits: int) -> bool:
        total = _sum_over_trees(forest, np.abs(_scaled(exact, bits)).astype(np.float64))
        total += 0 if forest.base is None else np.abs(_scaled(forest.base, bits))
        return bool(total.max() < 2.0**31)

    most = next((bits for bits in range(_MOST_BITS, -_MOST_BITS - 1, -1) if fits(bits)), None)
    if most is None:
        reject("forest", forest, "has leaf values too large for fixed point", "scale them down")
    if wanted is None:
        return most
    if isinstance(wanted, bool) or not isinstance(wanted, (int, np.integer)) or not -_MOST_BITS <= wanted <= most:
        problem = f"is no integer from -{_MOST_BITS} to {most}, the most with which sums fit 32 bits"
        reject("output_bits", wanted, problem, f"pass {most} or less, or None for the most")
    return int(wanted)


def _scaled(values: Float[np.ndarray, "..."], bits: int) -> Int[np.ndarray, "..."]:
    """Return values times 2**bits, rounded to integers; beyond 64 bits they are cut off there."""
    with np.errstate(over="ignore"):
        scaled = np.rint(np.ldexp(values, bits))
    return np.clip(scaled, -(2.0**62), 2.0**62).astype(np.int64)


def _sum_over_trees(forest: Forest, sizes: Float[np.ndarray, "leaves outputs"]) -> Float[np.ndarray, " outputs"]:
    """Add up each tree's largest entry."""
    first_leaves = np.concatenate([[0], np.cumsum(forest.kind == 0)])[forest.tree_start[:-1]]
    return np.maximum.reduceat(sizes, first_leaves, axis=0).sum(axis=0)
