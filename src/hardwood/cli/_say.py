"""What the commands write: results to stdout, remarks to stderr, tables of a few columns as aligned text."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from hardwood.draw._label import visible


def say(text: str = "") -> None:
    """Write a line, or several, to stdout."""
    _write(sys.stdout, text)


def remark(text: str) -> None:
    """Write a line about the run itself to stderr, where it does not mix with results."""
    _write(sys.stderr, f"note: {text}")


def complain(text: str) -> None:
    """Write what went wrong to stderr."""
    _write(sys.stderr, f"error: {text}")


def _write(stream: Any, text: str) -> None:
    encoding = getattr(stream, "encoding", None) or "utf-8"
    # A terminal that knows few letters shows the others as escapes.
    stream.write(text.encode(encoding, "backslashreplace").decode(encoding) + "\n")
    stream.flush()


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Return rows of cells under each other: the first column to the left, the others to the right.

    >>> print(aligned([["accuracy", "0.9"], ["log loss", "10.25"]]))
    accuracy    0.9
    log loss  10.25
    """
    shown = [[visible(cell) for cell in row] for row in rows]
    widths = [max(len(row[place]) for row in shown) for place in range(len(shown[0]))]
    lines = []
    for row in shown:
        cells = [row[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def cut(text: str, n_lines: int, where: str) -> str:
    """Return at most `n_lines` lines, with a note of how many are left out and where they are.

    >>> print(cut("a\\nb\\nc", 2, "`hardwood show`"))
    a
    b
    ... 1 more line: `hardwood show`
    """
    lines = text.split("\n")
    rest = len(lines) - n_lines
    if rest <= 0:
        return text
    return "\n".join([*lines[:n_lines], f"... {rest} more {'line' if rest == 1 else 'lines'}: {where}"])


def count(number: int, one: str, many: str | None = None) -> str:
    """Return a number with its noun.

    >>> count(1, "row"), count(2000, "row"), count(2, "class", "classes")
    ('1 row', '2,000 rows', '2 classes')
    """
    return f"{number:,} {one if number == 1 else many or one + 's'}"
