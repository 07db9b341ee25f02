"""Tables and numbers in Markdown."""

from __future__ import annotations

import math
from collections.abc import Sequence

NOTHING = "–"


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table whose first column is text and whose other columns are numbers."""
    lines = [heads, ["---", *["---:"] * (len(heads) - 1)], *rows]
    assert all(len(line) == len(heads) for line in lines), "a row has another number of cells than the head"
    return "\n".join("| " + " | ".join(cell.replace("|", r"\|") for cell in line) + " |" for line in lines)


def number(value: float, digits: int = 3) -> str:
    """Return a number with so many digits after the point, or a dash for one that is not known."""
    return NOTHING if math.isnan(value) else f"{value:.{digits}f}"


def signed(value: float) -> str:
    """Return a difference with its sign."""
    return NOTHING if math.isnan(value) else f"{value:+.3f}"


def plus_minus(value: str, deviation: float) -> str:
    """Return a number, already as text, with its deviation where that is known."""
    return value if math.isnan(deviation) else f"{value} ± {deviation:.3f}"


def bold(text: str, when: bool = True) -> str:
    """Return a text in bold face, on a condition."""
    return f"**{text}**" if when else text
