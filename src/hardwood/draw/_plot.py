"""A tree as a picture: on matplotlib's axes."""

from __future__ import annotations

import unicodedata
from typing import Any

from hardwood.draw._colour import LIGHT
from hardwood.draw._picture import MOST_DEPTH, MOST_NODES, Wanted, picture
from hardwood.draw._scene import Box, Branch, Line, Node, Scene
from hardwood.errors import MissingExtraError
from hardwood.forest import Forest

_PIXELS_PER_INCH = 100.0


def plot(
    forest: Forest,
    tree: int = 0,
    *,
    ax: Any = None,
    max_depth: int | None = MOST_DEPTH,
    max_nodes: int | None = MOST_NODES,
    X: Any = None,
    y: Any = None,
    row: Any = None,
    title: str | None = None,
) -> Any:
    """Draw one tree on matplotlib's axes and return them; see `svg` for what is drawn and for the arguments.

    Without `ax` the axes are those of a new figure, as large as the picture: `plot(forest).figure.savefig("tree.pdf")`.
    The picture fills the axes it is given, and letters and lines shrink and grow with it, also when it is zoomed: wide
    trees want a large figure, or a smaller `max_nodes`. Nothing is shown, and no global state of matplotlib is used.
    """
    try:
        from matplotlib.figure import Figure

        from hardwood.draw import _plot_artists
    except ImportError as reason:
        raise MissingExtraError('hardwood.draw.plot() needs matplotlib; pip install "hardwood[plot]"') from reason

    scene = picture(forest, Wanted(tree, max_depth, max_nodes, X, y, row, title), _plot_artists.measure)
    if ax is None:
        figure = Figure(figsize=(scene.wide / _PIXELS_PER_INCH, scene.high / _PIXELS_PER_INCH), dpi=_PIXELS_PER_INCH)
        ax = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    _prepare(ax, scene)
    order = 1
    for part in scene.parts:
        for each in part.parts if isinstance(part, Node) else (part,):
            # Artists are drawn in the order of the scene: a line of text covers the boxes before it.
            order += 1
            ax.add_artist(_artist(_plot_artists, each, order))
    return ax


def _prepare(ax: Any, scene: Scene) -> None:
    ax.set_xlim(0.0, scene.wide)
    ax.set_ylim(scene.high, 0.0)
    ax.set_aspect("equal")
    ax.set_axis_off()


def _artist(artists: Any, part: Box | Branch | Line, order: int) -> Any:
    match part:
        case Box():
            return artists.box(part, _fill(part.paint), _stroke(part), order)
        case Branch():
            return artists.branch(part, LIGHT[part.paint]["stroke"], order)
        case Line():
            text = part.text
            if not artists.ORDERS_LETTERS:  # it would draw the marks around a name as boxes
                text = "".join(letter for letter in text if unicodedata.category(letter) != "Cf")
            return artists.line(part, text + part.tail, LIGHT[part.paint]["fill"], order)


def _fill(paint: str) -> str:
    return LIGHT[paint]["fill"] if paint in LIGHT else paint


def _stroke(box: Box) -> str | None:
    if box.outline is not None:
        return LIGHT[box.outline]["stroke"] if box.outline in LIGHT else box.outline
    return LIGHT.get(box.paint, {}).get("stroke")
