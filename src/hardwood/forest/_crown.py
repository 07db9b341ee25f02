# mypy: allow-untyped-defs, allow-untyped-calls
"""The crown of a tree, its top three to six levels, decided for a block of rows at once, without a branch.

A walk down a tree waits at every level for the comparison above it. Here all comparisons of three levels are made for
a vector of rows, each one instruction, and seven selections then pick the exit of each row: for a depth of six that
is nine such units a tree. It does more comparisons than a walk needs and is still several times faster.

The unit is written in LLVM's portable vector operations: left to itself the compiler guards each of these short loops
against overlapping arrays, which costs as much as the loop.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from hardwood._numba import exact_kernel

BLOCK = 128  # rows handled together: their columns stay in the first-level cache
UNIT = 7  # splits of a unit, three levels in breadth-first order
DEEPEST = 6  # levels of a crown: a unit on top of up to eight units
_VECTOR_BYTES = 128


def _unit(levels: int, below: bool, missing: bool) -> Any:
    """Make the operation that sends LANES rows through one unit of `levels` levels and writes where each comes out.

    With `below` an exit is what the unit below it, `exits[k * BLOCK + lane]`, has written; else it is `first + k`.
    Without `missing` no cell may be NaN.
    """

    def operation(typing_context, cells, column, cut, missing_right, splits, exits, first, out, at, lane):
        def emit(context, builder, signature, arguments):
            int32, int64 = ir.IntType(32), ir.IntType(64)
            pointers = [
                context.make_array(kind)(context, builder, value).data if isinstance(kind, types.Array) else value
                for kind, value in zip(signature.args, arguments, strict=True)
            ]
            cells_at, column_at, cut_at, missing_at, splits_, exits_at, first_, out_at, at_, lane_ = pointers
            number = context.get_value_type(signature.args[0].dtype)
            lanes = lanes_of(signature.args[0].dtype.bitwidth // 8)
            numbers, integers = ir.VectorType(number, lanes), ir.VectorType(int32, lanes)

            def load(base, position, vector):
                loaded = builder.load(builder.bitcast(builder.gep(base, [position]), vector.as_pointer()))
                loaded.align = vector.element.get_abi_size(context.target_data)
                return loaded

            def spread(value, vector):
                empty = ir.Constant(vector, ir.Undefined)
                first_lane = builder.insert_element(empty, value, int32(0))
                return builder.shuffle_vector(first_lane, empty, ir.Constant(ir.VectorType(int32, lanes), [0] * lanes))

            def goes_right(split):
                position = builder.add(splits_, int64(split))
                offset = builder.sext(builder.load(builder.gep(column_at, [position])), int64)
                cell = load(cells_at, builder.add(offset, lane_), numbers)
                threshold = spread(builder.load(builder.gep(cut_at, [position])), numbers)
                right = builder.fcmp_ordered(">=", cell, threshold)
                if not missing:
                    return right
                flag = builder.trunc(builder.load(builder.gep(missing_at, [position])), ir.IntType(1))
                flags = spread(flag, ir.VectorType(ir.IntType(1), lanes))
                return builder.or_(right, builder.and_(builder.fcmp_unordered("uno", cell, cell), flags))

            if below:
                chosen = [load(exits_at, builder.add(lane_, int64(k * BLOCK)), integers) for k in range(1 << levels)]
            else:
                start = builder.trunc(first_, int32)
                chosen = [spread(builder.add(start, int32(k)), integers) for k in range(1 << levels)]
            for level in reversed(range(levels)):
                conditions = [goes_right(split) for split in range((1 << level) - 1, (2 << level) - 1)]
                chosen = [
                    builder.select(condition, chosen[2 * k + 1], chosen[2 * k])
                    for k, condition in enumerate(conditions)
                ]
            place = builder.gep(out_at, [builder.add(at_, lane_)])
            stored = builder.store(chosen[0], builder.bitcast(place, integers.as_pointer()))
            stored.align = 4
            return context.get_dummy_value()

        kinds = (cells, column, cut, missing_right, splits, exits, first, out, at, lane)
        return types.void(*kinds), emit

    return intrinsic(operation)


def lanes_of(itemsize: int) -> int:
    """Return the number of rows that one vector holds."""
    return _VECTOR_BYTES // itemsize


_bottom = _unit(3, below=False, missing=False)
_top1 = _unit(1, below=True, missing=False)
_top2 = _unit(2, below=True, missing=False)
_top3 = _unit(3, below=True, missing=False)
_bottom_missing = _unit(3, below=False, missing=True)
_top1_missing = _unit(1, below=True, missing=True)
_top2_missing = _unit(2, below=True, missing=True)
_top3_missing = _unit(3, below=True, missing=True)


@exact_kernel
def crown(cells, column, cut, missing_right, unit, depth, missing, lanes, step, exits, out):
    """Write into `out[:lanes]` by which exit each row of a block leaves a crown of `depth` levels, 3 to 6.

    `cells[position * BLOCK + row]` are the cells of the block; `column` holds `position * BLOCK` for each split. The
    crown's units stand one after another from `unit` on: first the one on top, where there is one, then those below.
    """
    top = depth - 3
    splits = unit * UNIT
    if top == 0:
        if missing:
            for lane in range(0, lanes, step):
                _bottom_missing(cells, column, cut, missing_right, splits, exits, 0, out, 0, lane)
        else:
            for lane in range(0, lanes, step):
                _bottom(cells, column, cut, missing_right, splits, exits, 0, out, 0, lane)
        return
    for k in range(1 << top):
        lower = splits + (k + 1) * UNIT
        if missing:
            for lane in range(0, lanes, step):
                _bottom_missing(cells, column, cut, missing_right, lower, exits, 8 * k, exits, k * BLOCK, lane)
        else:
            for lane in range(0, lanes, step):
                _bottom(cells, column, cut, missing_right, lower, exits, 8 * k, exits, k * BLOCK, lane)
    for lane in range(0, lanes, step):
        if top == 1:
            if missing:
                _top1_missing(cells, column, cut, missing_right, splits, exits, 0, out, 0, lane)
            else:
                _top1(cells, column, cut, missing_right, splits, exits, 0, out, 0, lane)
        elif top == 2:
            if missing:
                _top2_missing(cells, column, cut, missing_right, splits, exits, 0, out, 0, lane)
            else:
                _top2(cells, column, cut, missing_right, splits, exits, 0, out, 0, lane)
        elif missing:
            _top3_missing(cells, column, cut, missing_right, splits, exits, 0, out, 0, lane)
        else:
            _top3(cells, column, cut, missing_right, splits, exits, 0, out, 0, lane)
