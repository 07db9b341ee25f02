"""How the kernels lay out tiles so that threads and warps need little from each other.

A vector over rows keeps one row a thread, and so do tiles made of such vectors. Each warp multiplies its own rows, and
the warps' sums meet once, at the end. A product is made of three TensorFloat-32 products of parts: as exact as float32,
on tensor cores.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import triton
import triton.language as tl


def jit(function: Callable[..., Any]) -> Any:
    """Compile a Triton function, also when an import hook has wrapped it."""
    return triton.jit(inspect.unwrap(function))


@jit
def by_warp(vector, WARPS: tl.constexpr):
    """Deal a vector over rows out as (warps, 1, rows of a warp); every thread keeps its row."""
    return tl.reshape(vector, (WARPS, 1, 32))


@jit
def two_parts(value):
    """Split float32 numbers into the part that TensorFloat-32 holds exactly and the rest."""
    leading = (value.to(tl.int32, bitcast=True) & -8192).to(tl.float32, bitcast=True)
    return leading, value - leading


@jit
def add_product(total, left, right):
    """Add a product of tiles in two parts each; what is left out is below float32's own rounding."""
    total = tl.dot(left[1], right[0], total, input_precision="tf32")
    total = tl.dot(left[0], right[1], total, input_precision="tf32")
    return tl.dot(left[0], right[0], total, input_precision="tf32")


@jit
def level_tile(flow, place, COUNT: tl.constexpr, WARPS: tl.constexpr):
    """Return the tile of one level, (warps, COUNT nodes, rows of a warp), in two parts: flows at their rows' nodes.

    A thread holds all nodes of its row, so that everything that depends on the node alone is settled by the compiler.
    """
    here = by_warp(place, WARPS) == tl.arange(0, COUNT)[None, :, None]
    leading, rest = two_parts(by_warp(flow, WARPS))
    return tl.where(here, leading, 0.0), tl.where(here, rest, 0.0)


@jit
def top_tile(flows, leaf, LEVELS: tl.constexpr, WARPS: tl.constexpr):
    """Return the tile of the highest four levels together, as a heap: root at 1, children of i at 2i and 2i + 1."""
    heap = tl.arange(0, 16)[None, :, None]
    dealt = by_warp(leaf, WARPS)
    leading, rest = two_parts(by_warp(flows[0], WARPS))
    leading = tl.where(heap == 1, leading, 0.0)
    rest = tl.where(heap == 1, rest, 0.0)
    for level in tl.static_range(1, LEVELS if LEVELS < 4 else 4):
        here = (heap >= (1 << level)) & (heap < (2 << level)) & ((dealt >> (LEVELS - level)) + (1 << level) == heap)
        parts = two_parts(by_warp(flows[level], WARPS))
        leading = tl.where(here, parts[0], leading)
        rest = tl.where(here, parts[1], rest)
    return leading, rest


@jit
def eighths(tile):
    """Return columns 0, 8, .. of a tile, then 1, 9, .., to 7, 15, ..: eight tiles that threads add up alone."""
    rows: tl.constexpr = tile.shape[0]
    columns: tl.constexpr = tile.shape[1]
    low_0, low_1 = tl.split(tl.reshape(tile, (rows, columns // 8, 2, 2, 2)))
    low_00, low_01 = tl.split(low_0)
    low_10, low_11 = tl.split(low_1)
    part_0, part_4 = tl.split(low_00)
    part_2, part_6 = tl.split(low_01)
    part_1, part_5 = tl.split(low_10)
    part_3, part_7 = tl.split(low_11)
    return part_0, part_1, part_2, part_3, part_4, part_5, part_6, part_7


@jit
def below_each_other(upper, lower):
    """Put two equal tiles one below the other."""
    rows: tl.constexpr = upper.shape[0]
    columns: tl.constexpr = upper.shape[1]
    return tl.reshape(tl.permute(tl.join(upper, lower), (2, 0, 1)), (2 * rows, columns))
