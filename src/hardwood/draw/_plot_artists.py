"""matplotlib artists for the parts of a scene. Their letters and lines are measured in units of the axes.

Importing this module needs matplotlib.
"""

from __future__ import annotations

from typing import Any

import matplotlib
from matplotlib.colors import to_rgba
from matplotlib.font_manager import FontProperties
from matplotlib.patches import FancyBboxPatch, PathPatch
from matplotlib.path import Path
from matplotlib.text import Text
from matplotlib.textpath import text_to_path

from hardwood.draw._scene import Box, Branch, Line

# Since 3.11 matplotlib sets right-to-left words right to left; the marks around a name then keep the line in order.
ORDERS_LETTERS = matplotlib.__version_info__[:2] >= (3, 11)
_POINTS_PER_INCH = 72.0
_HINTED = 1.04  # small letters are set to whole pixels, which makes lines a little wider


def measure(text: str, size: float, bold: bool) -> float:
    """Return how wide a text is in the font that matplotlib will use."""
    font = FontProperties(size=size, weight="bold" if bold else "normal")
    return _HINTED * float(text_to_path.get_text_width_height_descent(text, font, ismath=False)[0])


def _points_per_unit(artist: Any) -> float:
    """Return how many points one unit of the artist's axes is now."""
    (x0, _), (x1, _) = artist.axes.transData.transform([(0.0, 0.0), (1.0, 0.0)])
    return float(abs(x1 - x0)) * _POINTS_PER_INCH / float(artist.get_figure(root=True).dpi)


class _Letters(Text):
    """Text whose size is measured in units of the axes."""

    def __init__(self, *args: Any, units: float, **options: Any) -> None:
        super().__init__(*args, **options)
        self._units = units

    def _fit(self) -> None:
        size = max(self._units * _points_per_unit(self), 0.1)
        if size != self.get_fontsize():
            self.set_fontsize(size)

    def draw(self, renderer: Any) -> None:
        self._fit()
        super().draw(renderer)

    def get_window_extent(self, *args: Any, **options: Any) -> Any:
        if self.axes is not None:
            self._fit()
        return super().get_window_extent(*args, **options)


class _FittedOutline(FancyBboxPatch):
    """A box whose outline is measured in units of the axes."""

    def __init__(self, *args: Any, units: float, **options: Any) -> None:
        super().__init__(*args, **options)
        self._units = units

    def draw(self, renderer: Any) -> None:
        self.set_linewidth(self._units * _points_per_unit(self))
        super().draw(renderer)


class _FittedPath(PathPatch):
    """A line whose width is measured in units of the axes."""

    def __init__(self, *args: Any, units: float, **options: Any) -> None:
        super().__init__(*args, **options)
        self._units = units

    def draw(self, renderer: Any) -> None:
        self.set_linewidth(self._units * _points_per_unit(self))
        super().draw(renderer)


def box(box: Box, fill: str, stroke: str | None, order: int) -> Any:
    """Return the artist of a box."""
    style = f"round,pad=0,rounding_size={box.radius}" if box.radius else "square,pad=0"
    return _FittedOutline(
        (box.x, box.y),
        box.wide,
        box.high,
        boxstyle=style,
        facecolor=to_rgba(fill, 0.0 if fill == "none" else box.opacity),
        edgecolor="none" if stroke is None else stroke,
        linestyle=(0, (4, 3)) if box.dashed else "solid",
        units=box.thick if stroke is not None else 0.0,
        zorder=order,
    )


def branch(branch: Branch, stroke: str, order: int) -> Any:
    """Return the artist of a branch."""
    end, middle = branch.bend + branch.bent, branch.bend + branch.bent / 2
    corners = [
        (branch.x0, branch.y0),
        (branch.bend, branch.y0),
        (middle, branch.y0),
        (middle, branch.y1),
        (end, branch.y1),
        (branch.x1, branch.y1),
    ]
    codes = [Path.MOVETO, Path.LINETO, Path.CURVE4, Path.CURVE4, Path.CURVE4, Path.LINETO]
    return _FittedPath(
        Path(corners, codes), facecolor="none", edgecolor=stroke, capstyle="butt", units=branch.thick, zorder=order
    )


def line(line: Line, text: str, colour: str, order: int) -> Any:
    """Return the artist of a line of text; a name with dollar signs is no formula."""
    return _Letters(
        line.x,
        line.y,
        text,
        color=colour,
        fontweight="bold" if line.bold else "normal",
        horizontalalignment="right" if line.anchor == "end" else "left",
        verticalalignment="baseline",
        parse_math=False,
        units=line.size,
        zorder=order,
    )
