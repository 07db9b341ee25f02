"""Where rows go in a tree: the share of each class that passes each node, as one SVG."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hardwood._typing import Float, Int, Shaped
from hardwood.draw._colour import DARK_STYLE, PAINT
from hardwood.draw._label import visible, width, xml
from hardwood.errors import reject

_BOX, _HIGH, _GAP, _LEVEL, _MARGIN, _HEAD = 34.0, 24.0, 6.0, 52.0, 20.0, 34.0
_SIZE = 11.0


def routes(
    node_numbers: Int[np.ndarray, " nodes"],
    traversals: Float[np.ndarray, "rows nodes"],
    pruning: Float[np.ndarray, " nodes"] | None = None,
    classes: Any = None,
    *,
    max_depth: int | None = 4,
    title: str | None = None,
) -> str:
    """Draw which share of the rows passes each node of a binary tree, for all rows and for each class by itself.

    The shares of one level add up to 100 percent, in rounded numbers; a node that none of the rows passes has a dash.
    The more active a node, the darker it is; pruned nodes are not there. A latent tree gives the arguments:

        z = model.traversals(X)
        draw.routes(model.tree_.node_numbers, z, model.tree_.pruning, classes=y)

    Args:
        node_numbers: which node of the complete tree, breadth-first from 0, each column of `traversals` is.
        traversals: how much of each row passes each node, from 0 to 1.
        pruning: how active each node is, from 0 to 1; all alike by default.
        classes: the class of each row, for a picture of each.
        max_depth: the lowest level that is drawn; None draws all.
        title: a line above.
    """
    numbers, z = np.asarray(node_numbers, np.int64), np.asarray(traversals, np.float64)
    active = np.ones(len(numbers)) if pruning is None else np.asarray(pruning, np.float64)
    if z.ndim != 2 or z.shape[1] != len(numbers):
        reject("traversals", f"an array of shape {z.shape}", f"has no column for each of {len(numbers)} nodes",
               "pass what the tree's traversals(X) returns")  # fmt: skip
    if active.shape != numbers.shape:
        problem = f"does not say how active each of {len(numbers)} nodes is"
        reject("pruning", f"an array of shape {active.shape}", problem, "pass the tree's pruning")
    depth = np.floor(np.log2(numbers + 1)).astype(np.int64)
    shown = np.flatnonzero((active > 0) & (depth <= (depth.max() if max_depth is None else max_depth)))
    panels: list[tuple[str, Float[np.ndarray, " nodes"]]] = [("all rows", _shares(z, depth))]
    if classes is not None:
        labels: Shaped[np.ndarray, " rows"] = np.asarray(classes)
        if len(labels) != len(z):
            reject("classes", f"{len(labels)} of them", f"but there are {len(z)} rows", "pass one for each row")
        panels += [(visible(str(label)), _shares(z[labels == label], depth)) for label in np.unique(labels)]
    return _document(panels, numbers[shown], depth[shown], active[shown], shown, title)


def _shares(z: Float[np.ndarray, "rows nodes"], depth: Int[np.ndarray, " nodes"]) -> Float[np.ndarray, " nodes"]:
    """Return which share of what reaches a node's level passes the node."""
    passed = z.sum(axis=0)
    level = np.bincount(depth, passed)
    return passed / np.where(level > 0, level, 1.0)[depth]


def _document(
    panels: Sequence[tuple[str, Float[np.ndarray, " nodes"]]],
    numbers: Int[np.ndarray, " shown"],
    depth: Int[np.ndarray, " shown"],
    active: Float[np.ndarray, " shown"],
    shown: Int[np.ndarray, " shown"],
    title: str | None,
) -> str:
    place = _places(numbers, depth)
    panel_wide = max(max(place.values()) + _BOX, *(width(name, 13.0) * 1.12 for name, _ in panels)) + 2 * _MARGIN
    panel_high = _HEAD + (int(depth.max()) + 1) * _LEVEL
    columns = min(len(panels), max(1, int(1100 // panel_wide)))
    top = _MARGIN + (_HEAD if title else 0.0)
    wide = columns * panel_wide + _MARGIN
    high = top + -(-len(panels) // columns) * panel_high + _MARGIN
    parts = []
    if title:
        parts.append(_text(_MARGIN, _MARGIN + 12, title, 15.0, "start", bold=True))
    for number, (name, shares) in enumerate(panels):
        x = _MARGIN + number % columns * panel_wide
        y = top + number // columns * panel_high
        parts.append(_text(x, y + 12, name, 13.0, "start", bold=True))
        spots = {int(t): (x + place[int(t)], y + _HEAD + d * _LEVEL) for t, d in zip(numbers, depth, strict=True)}
        for node, (left, above) in spots.items():
            parent = spots.get((node - 1) // 2) if node else None
            if parent is not None:
                middle = parent[0] + _BOX / 2, parent[1] + _HIGH
                line = f"M{middle[0]:.1f} {middle[1]:.1f}L{left + _BOX / 2:.1f} {above:.1f}"
                parts.append(f'<path d="{line}" fill="none" stroke-width="1.5" {PAINT["branch"]}/>')
        for node, amount, share in zip(numbers.tolist(), active.tolist(), shares[shown].tolist(), strict=True):
            parts.append(_box(*spots[node], node, amount, share))
    body = "\n".join(parts)
    spoken = xml(title or "Shares of rows that pass each node of a tree")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide:.0f}" height="{high:.0f}" '
        f'viewBox="0 0 {wide:.0f} {high:.0f}" role="img" aria-label="{spoken}" '
        'font-family="system-ui, -apple-system, Segoe UI, Roboto, Helvetica, Arial, sans-serif">\n'
        f'<style>{DARK_STYLE}</style>\n<rect width="{wide:.0f}" height="{high:.0f}" rx="12" {PAINT["ground"]}/>\n'
        f"{body}\n</svg>\n"
    )


def _places(numbers: Int[np.ndarray, " shown"], depth: Int[np.ndarray, " shown"]) -> dict[int, float]:
    """Return how far from the left each node stands: ends side by side, other nodes above the middle of theirs."""
    present = set(numbers.tolist())
    order = np.argsort((numbers + 1.5) / 2.0**depth, kind="stable")
    place: dict[int, float] = {}
    for node in numbers[order].tolist():
        if 2 * node + 1 not in present and 2 * node + 2 not in present:
            place[node] = len(place) * (_BOX + _GAP)
    for node in sorted(present, reverse=True):
        below = [place[child] for child in (2 * node + 1, 2 * node + 2) if child in place]
        if below:
            place[node] = sum(below) / len(below)
    return place


def _box(x: float, y: float, node: int, active: float, share: float) -> str:
    percent = f"{round(100 * share)}" if share > 0 else "–"
    remark = f"node {node}: {100 * share:.1f} percent of its level, {active:.2f} active"
    tint = f'fill="#3b82c4" fill-opacity="{0.08 + 0.62 * min(1.0, active):.2f}"'
    return (
        f"<g><title>{xml(remark)}</title>"
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{_BOX:g}" height="{_HIGH:g}" rx="5" {PAINT["box"]}/>'
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{_BOX:g}" height="{_HIGH:g}" rx="5" {tint}/>'
        f"{_text(x + _BOX / 2, y + _HIGH / 2 + 4, percent, _SIZE, 'middle')}</g>"
    )


def _text(x: float, y: float, text: str, size: float, anchor: str, bold: bool = False) -> str:
    weight = ' font-weight="bold"' if bold else ""
    place = f'x="{x:.1f}" y="{y:.1f}" font-size="{size:g}" text-anchor="{anchor}"'
    return f"<text {place}{weight} {PAINT['ink']}>{xml(text)}</text>"
