"""Explicit vector code for the CPU kernels, where LLVM does not find it by itself.

numba cannot tell LLVM that two arrays do not overlap, so loops that read some arrays and write another stay scalar or
test for overlap every time. Each function here is straight-line code on a fixed number of neighbouring numbers, written
in LLVM's vector types; LLVM fits those to whatever vectors the machine has.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

ROWS = 64  # rows that `choose_rows` handles at once
LANES = 16  # numbers that the other functions handle at once


def _pointer(context: Any, builder: Any, array_type: Any, array: Any, index: Any, lanes: int) -> Any:
    """Return a pointer to `lanes` items of a C-contiguous one-dimensional array, from `index` on."""
    item = context.get_data_type(array_type.dtype)
    data = context.make_array(array_type)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [index]), ir.VectorType(item, lanes).as_pointer())


def _load(context: Any, builder: Any, array_type: Any, array: Any, index: Any, lanes: int) -> Any:
    align = array_type.dtype.bitwidth // 8
    return builder.load(_pointer(context, builder, array_type, array, index, lanes), align=align)


def _store(context: Any, builder: Any, array_type: Any, array: Any, index: Any, value: Any) -> None:
    align = array_type.dtype.bitwidth // 8
    builder.store(value, _pointer(context, builder, array_type, array, index, value.type.count), align=align)


def _splat(builder: Any, value: Any, lanes: int) -> Any:
    empty = ir.Constant(ir.VectorType(value.type, lanes), ir.Undefined)
    first = builder.insert_element(empty, value, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(first, empty, ir.Constant(ir.VectorType(ir.IntType(32), lanes), [0] * lanes))


@intrinsic
def choose_rows(typing_context, reach, here, left, right, cells, at, threshold, missing_right):
    """For `ROWS` rows: reach[here] = reach[right] where the cell goes right of the threshold, else reach[left]."""
    index = types.uint64
    signature = types.void(reach, index, index, index, cells, index, cells.dtype, types.boolean)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        reach, here, left, right, cells, at, threshold, missing_right = args
        reach_type, cells_type = signature.args[0], signature.args[4]
        value = _load(context, builder, cells_type, cells, at, ROWS)
        is_right = builder.fcmp_ordered(">=", value, _splat(builder, threshold, ROWS))
        is_missing = builder.fcmp_unordered("uno", value, value)
        flag = builder.icmp_unsigned("!=", missing_right, ir.Constant(missing_right.type, 0))
        is_right = builder.or_(is_right, builder.and_(is_missing, _splat(builder, flag, ROWS)))
        if_left = _load(context, builder, reach_type, reach, left, ROWS)
        if_right = _load(context, builder, reach_type, reach, right, ROWS)
        _store(context, builder, reach_type, reach, here, builder.select(is_right, if_right, if_left))
        return context.get_dummy_value()

    return signature, codegen


@intrinsic
def add_four_rows(typing_context, total, at, x, r0, r1, r2, r3, p0, p1, p2, p3):
    """For `LANES` columns: total[at] += p0 * x[r0] + p1 * x[r1] + p2 * x[r2] + p3 * x[r3]."""
    index, number = types.uint64, total.dtype
    signature = types.void(total, index, x, index, index, index, index, number, number, number, number)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        total, at, x = args[:3]
        total_type, x_type = signature.args[0], signature.args[2]
        value = _load(context, builder, total_type, total, at, LANES)
        for row, weight in zip(args[3:7], args[7:11], strict=True):
            cells = _load(context, builder, x_type, x, row, LANES)
            flags = ("contract", "reassoc")
            value = builder.fadd(value, builder.fmul(cells, _splat(builder, weight, LANES), flags=flags), flags=flags)
        _store(context, builder, total_type, total, at, value)
        return context.get_dummy_value()

    return signature, codegen
