"""A picture before it is drawn: boxes, branches and lines of text at places in pixels, for every renderer alike.

A `paint` is a name of the theme (`hardwood.draw._colour`) or a colour such as "#3b82c4".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

# Tells how wide a line of text will be, in pixels, given its size and whether it is bold.
Measure = Callable[[str, float, bool], float]


@dataclass(frozen=True)
class Box:
    """A rectangle, with round corners or without."""

    x: float
    y: float
    wide: float
    high: float
    paint: str
    radius: float = 0.0
    opacity: float = 1.0  # of the inside
    outline: str | None = None  # of a box in a colour; those of the theme have their own
    thick: float = 1.5  # of the outline
    dashed: bool = False


@dataclass(frozen=True)
class Branch:
    """A line from a parent to a child: straight out to `bend`, a curve as wide as `bent`, straight in."""

    x0: float
    y0: float
    bend: float
    bent: float
    x1: float
    y1: float
    thick: float
    paint: str = "branch"


@dataclass(frozen=True)
class Line:
    """A line of text that begins or ends at a place; `tail` is written after it, in a lighter ink."""

    x: float
    y: float
    text: str
    paint: str = "ink"
    size: float = 13.0
    bold: bool = False
    anchor: Literal["start", "end"] = "start"
    tail: str = ""


@dataclass(frozen=True)
class Node:
    """What belongs to one node of the tree, and the remark that the mouse over it shows."""

    remark: str
    parts: tuple[Box | Line, ...]


@dataclass(frozen=True)
class Scene:
    """A whole picture, back to front."""

    wide: float
    high: float
    spoken: str  # for those who cannot see it
    parts: tuple[Box | Branch | Line | Node, ...]


def in_lines(pieces: list[float], room: float, gap: float) -> list[tuple[int, float]]:
    """Put pieces of some widths side by side into lines; return the line of each and where in it the piece begins.

    >>> in_lines([30.0, 30.0, 50.0], 70.0, 5.0)
    [(0, 0.0), (0, 35.0), (1, 0.0)]
    """
    placed: list[tuple[int, float]] = []
    line, at = 0, 0.0
    for wide in pieces:
        if at > 0 and at + wide > room:
            line, at = line + 1, 0.0
        placed.append((line, at))
        at += wide + gap
    return placed
