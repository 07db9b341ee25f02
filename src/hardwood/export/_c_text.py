"""The words of C: numbers, strings and comments that say exactly what they should, and nothing else."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from hardwood._typing import Float
from hardwood.export._source import comment


def c_string(text: object) -> str:
    """Return text as a C string literal of ASCII characters that holds its UTF-8.

    A string in C ends at NUL, so a NUL is written as its symbol (U+2400); what is no Unicode becomes an escape.
    Octal escapes have a fixed length, so a digit may follow; a question mark could begin a trigraph, and
    C knows no dollar sign.

    >>> print(c_string('a "b"?\\n'))
    "a \\"b\\"\\?\\012"
    """
    data = str(text).replace("\0", "\u2400").encode("utf-8", "backslashreplace")
    return '"' + "".join(_letter(byte) for byte in data) + '"'


def _letter(byte: int) -> str:
    letter = chr(byte)
    if letter in '"\\?':
        return f"\\{letter}"
    return letter if 32 <= byte < 127 and letter != "$" else f"\\{byte:03o}"


def c_comment(text: object) -> str:
    """Return text as it can stand on a line inside a C comment: it neither ends the comment nor begins another."""
    line = comment(text)
    for pair, apart in (("*/", "* /"), ("/*", "/ *"), ("??", "? ?")):
        while pair in line:
            line = line.replace(pair, apart)
    return line


def c_number(value: float, dtype: str) -> str:
    """Return a number as a constant that a C compiler reads back exactly."""
    if dtype.startswith("int"):
        # There are no negative constants in C, and 2147483648 is no int.
        return str(int(value)) if value > -(2**31) else "(-2147483647 - 1)"
    if math.isinf(value):
        return ("-" if value < 0 else "") + ("HUGE_VALF" if dtype == "float" else "HUGE_VAL")
    if dtype == "float":
        return f"{np.float32(value)!s}f"  # always with a point or an exponent
    return repr(float(value))


def ceil_float32(threshold: Float[np.ndarray, " nodes"]) -> Float[np.ndarray, " nodes"]:
    """Return the smallest float32 that is not below each number: `x < it` is `x < threshold` for every float32 x."""
    with np.errstate(over="ignore", under="ignore"):
        rounded = threshold.astype(np.float32)
        return np.where(rounded < threshold, np.nextafter(rounded, np.float32(np.inf)), rounded)


def smallest_unsigned(largest: int) -> str:
    """Return the smallest unsigned type that holds a number."""
    return "uint8_t" if largest < 1 << 8 else "uint16_t" if largest < 1 << 16 else "uint32_t"


def c_table(declaration: str, entries: Iterable[str]) -> str:
    """Return the definition of a constant table, its lines no longer than need be."""
    lines: list[str] = []
    line = "   "
    for entry in entries:
        if len(line) + len(entry) > 110 and line.strip():
            lines.append(line)
            line = "   "
        line += f" {entry},"
    lines.append(line)
    lines[-1] = lines[-1].rstrip(",")
    return f"\nstatic const {declaration} = {{\n" + "\n".join(lines) + "\n};\n"
