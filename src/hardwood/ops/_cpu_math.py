"""Scalar mathematics for the CPU kernels, written so that LLVM can turn a loop over rows into SIMD code.

The C library's `exp` is a call for every number, and would cost more than the routing. Float32 gets its own: the
exponent's bits are set by hand, and a polynomial does the rest, to one unit in the last place or two.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic, overload

from hardwood._numba import inlined, kernel
from hardwood.ops._contract import SPLITS

SIGMOID, SOFTSIGN, ENTMOID = (SPLITS.index(name) for name in ("sigmoid", "softsign", "entmoid"))

_LOG2_E = np.float32(1.4426950408889634)
_LN2_HIGH, _LN2_LOW = np.float32(0.693145751953125), np.float32(1.428606765330187e-06)
_EXP_FLOOR = np.float32(-87.0)


def _float_from_bits_codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    return builder.bitcast(args[0], ir.FloatType())


@intrinsic
def _float_from_bits(typing_context, bits):
    return types.float32(types.int32), _float_from_bits_codegen


@inlined
def _exp_float32(a):
    """exp(a) for a <= 0; below -87 it stays at exp(-87), which is 0 for every use here."""
    a = max(a, _EXP_FLOOR)
    whole = np.int32(a * _LOG2_E - np.float32(0.5))
    k = np.float32(whole)
    r = a - k * _LN2_HIGH
    r = r - k * _LN2_LOW
    p = np.float32(1 / 5040)
    p = p * r + np.float32(1 / 720)
    p = p * r + np.float32(1 / 120)
    p = p * r + np.float32(1 / 24)
    p = p * r + np.float32(1 / 6)
    p = p * r + np.float32(0.5)
    p = p * r + np.float32(1.0)
    p = p * r + np.float32(1.0)
    return p * _float_from_bits((whole + np.int32(127)) << np.int32(23))


def exp_nonpositive(a):
    """Return exp(a) for a <= 0."""
    return math.exp(a)


@overload(exp_nonpositive, inline="always")
def _exp_nonpositive(a):
    if a == types.float32:
        return lambda a: _exp_float32(a)
    return lambda a: math.exp(a)


@kernel
def split_slopes(z, split, slopes):
    """Write the derivative of the split function at each z; 0 where z is infinite."""
    one = z.dtype.type(1)
    two = z.dtype.type(2)
    if split == SIGMOID:
        for i in range(z.size):
            e = exp_nonpositive(-abs(z[i]))
            slopes[i] = e / ((one + e) * (one + e))
    elif split == SOFTSIGN:
        for i in range(z.size):
            wide = one + abs(z[i])
            slopes[i] = one / (two * wide * wide)
    else:
        for i in range(z.size):
            size = min(abs(z[i]), two)
            tau = (size + np.sqrt(two * two * two - size * size)) / two
            q2 = (tau - size) / two
            q1 = np.sqrt(one - q2 * q2)
            slopes[i] = q1 * q2 / (q1 + q2)
    for i in range(z.size):
        if np.isinf(z[i]):
            slopes[i] = 0
