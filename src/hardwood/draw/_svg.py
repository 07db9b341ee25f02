"""A tree as a picture: one SVG, drawn without any other program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hardwood.draw._checks import rows_per_node
from hardwood.draw._colour import DARK_STYLE, PAINT, class_colour, ramp_colour
from hardwood.draw._label import width, xml
from hardwood.draw._layout import Place, layout
from hardwood.draw._number import percent
from hardwood.draw._words import Words, leaf_answers, leaf_numbers, leaf_shares
from hardwood.errors import reject
from hardwood.forest import LEAF, Forest

_FOLDED_BELOW = 6  # splits
_LIMIT = 24  # characters of a name
_ROW = 46.0  # pixels between neighbours
_BOX = 34.0
_PAD = 11.0
_BEND = 38.0  # room in which a branch bends
_MARGIN = 22.0
_SMALL = 11.0
_BOLD = 1.12  # how much wider bold letters are
_MISSING = "∅"


def svg(
    forest: Forest, tree: int = 0, *, max_depth: int | None = _FOLDED_BELOW, X: Any = None, title: str | None = None
) -> str:
    """Draw one tree as an SVG picture with the root on the left; the upper branch is the left child.

    Each split shows its column, each branch its condition; a branch marked ∅ also takes missing values. Leaves wear
    the colour of their class, with a bar of the class shares, or a shade for their value. The mouse over a node shows
    the exact rule. Below `max_depth` splits branches are folded. Given `X`, branches are as wide as the share of its
    rows that takes them. The colours follow the reader's light or dark theme.

    The result is a complete SVG document without scripts, fonts or links. Names are shown as text, whatever is in them.
    """
    places = layout(forest, tree, max_depth)
    if title is not None and not title.strip():
        reject("title", title, "is empty", "pass None for a picture without a title")
    return _Picture(forest, tree, places, X, title).draw()


def picture_in_page(forest: Forest, tree: int, X: Any) -> str:
    """Draw one tree for a page: a wide one shrinks with the page as far as it stays legible."""
    return _Picture(forest, tree, layout(forest, tree, _FOLDED_BELOW), X, None).draw(shrinks=True)


class _Picture:
    """The parts of one picture and where they go."""

    def __init__(self, forest: Forest, tree: int, places: list[Place], X: Any, title: str | None) -> None:
        self.forest = forest
        self.tree = tree
        self.places = places
        self.title = title
        self.start = int(forest.tree_start[tree])
        self.short = Words(forest, tree, limit=_LIMIT)
        self.full = Words(forest, tree, exact=True)
        self.numbers = leaf_numbers(forest)
        self.shares = leaf_shares(forest)
        self.colour_of_value = _value_colours(forest, tree, places)
        self.counts = None if X is None else rows_per_node(forest, forest.apply(X)[:, tree], tree)

    def draw(self, shrinks: bool = False) -> str:
        """Put everything together, back to front."""
        deepest = max(place.depth for place in self.places)
        boxes = {place.node: self._box_width(place) for place in self.places}
        columns = [max(boxes[p.node] for p in self.places if p.depth == depth) for depth in range(deepest + 1)]
        labels = [0.0] + [
            max(self._label_width(p) for p in self.places if p.depth == depth) for depth in range(1, deepest + 1)
        ]
        edges = [_MARGIN]
        for depth in range(deepest):
            edges.append(edges[-1] + columns[depth] + _BEND + labels[depth + 1] + 16)
        heading, top = self._heading()
        x = {place.node: edges[place.depth] for place in self.places}
        y = {place.node: top + _BOX / 2 + place.row * _ROW for place in self.places}
        wide = max(edges[-1] + columns[-1], *(width(text, 15) + _MARGIN for text in [self.title or ""])) + _MARGIN
        footer_y = max(y.values()) + _BOX / 2 + 28
        high = footer_y + (12 if deepest else -16)

        branches, texts, nodes = [], [], []
        for place in self.places:
            if place.parent >= 0:
                parent = place.parent
                bend_from = edges[place.depth - 1] + columns[place.depth - 1]
                branches.append(self._branch(place, x[parent] + boxes[parent], bend_from, y[parent], x, y))
                texts.append(self._branch_label(place, x[place.node] - 8, y[place.node]))
            nodes.append(self._node(place, x[place.node], y[place.node], boxes[place.node]))
        footer = (
            [_text(_MARGIN, footer_y, f"{_MISSING} missing values go this way", "muted", _SMALL)] if deepest else []
        )
        parts = [heading, *branches, *texts, *nodes, *footer]
        style = f' style="min-width:{0.7 * wide:.0f}px;max-width:{wide:.0f}px"' if shrinks else ""
        return _document(wide, high, self._spoken(), "\n".join(part for part in parts if part), style)

    # ---------------------------------------------------------------- sizes

    def _box_width(self, place: Place) -> float:
        first, second = self._box_text(place)
        return 2 * _PAD + width(first) * _BOLD + (12 + width(second, _SMALL) if second else 0)

    def _label_width(self, place: Place) -> float:
        return width(self._label_text(place), 12) + (16 if self._takes_missing(place) else 0)

    # ---------------------------------------------------------------- words

    def _label_text(self, place: Place) -> str:
        return self.short.relation(place.parent, place.goes_left).replace("<=", "≤", 1).replace(">=", "≥", 1)

    def _takes_missing(self, place: Place) -> bool:
        return self.short.missing(place.parent, place.goes_left)

    def _box_text(self, place: Place) -> tuple[str, str]:
        """Return what stands in a box: in bold, and beside it in small letters."""
        count = "" if self.counts is None else f"n={int(self.counts[place.node - self.start]):,}"
        if place.folded:
            return f"{place.folded} leaves", count
        if self.forest.kind[place.node] != LEAF:
            return self.short.subject(place.node), count
        leaf = self.numbers[place.node]
        if self.shares is None:
            answer = self.short.leaf(leaf)
            return answer if len(answer) <= 2 * _LIMIT else f"{answer[: 2 * _LIMIT - 1]}…", count
        best = int(np.argmax(self.shares[leaf]))
        share = percent(float(self.shares[leaf, best]))
        return self.short.class_name(best), f"{share} · {count}" if count else share

    def _tooltip(self, place: Place) -> str:
        """Say exactly what a box stands for, in the full names and numbers."""
        if place.folded or self.forest.kind[place.node] != LEAF:
            up, down = (self.full.condition(place.node, goes_left) for goes_left in (True, False))
            lines = [f"up: {up}", f"down: {down}"]
        else:
            lines = [self.full.leaf(self.numbers[place.node])]
        if self.counts is not None:
            count = int(self.counts[place.node - self.start])
            lines.append(f"{count:,} of {int(self.counts[0]):,} rows")
        return "\n".join(lines)

    def _spoken(self) -> str:
        splits = sum(self.forest.kind[node] != LEAF for node in self.full.nodes)
        size = f"{splits} splits and {splits + 1} leaves"
        return f"{self.title}: a decision tree with {size}" if self.title else f"A decision tree with {size}"

    # ---------------------------------------------------------------- shapes

    def _heading(self) -> tuple[str, float]:
        """Draw the title and the colours of the classes; return them and where the tree may begin."""
        y = _MARGIN
        parts = []
        if self.title:
            parts.append(_text(_MARGIN, y + 12, self.title, "ink", 15, "bold"))
            y += 30
        if self.shares is not None:
            x = _MARGIN
            classes = range(min(self.shares.shape[1], 10))
            for k in classes:
                name = self.short.class_name(k)
                parts.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="12" height="12" rx="3" fill="{class_colour(k)}"/>')
                parts.append(_text(x + 18, y + 10, name, "muted", 12))
                x += 34 + width(name, 12)
            y += 30
        return "\n".join(parts), y

    def _branch(self, place: Place, x0: float, bend: float, y0: float, x: dict[int, float], y: dict[int, float]) -> str:
        """Draw the line from a parent to a child: straight out, a bend, straight in."""
        x1, y1 = x[place.node], y[place.node]
        middle = bend + _BEND / 2
        curve = f"C{middle:.1f} {y0:.1f} {middle:.1f} {y1:.1f} {bend + _BEND:.1f} {y1:.1f}"
        line = f"M{x0:.1f} {y0:.1f}H{bend:.1f}{curve}H{x1:.1f}"
        thick = self._thickness(place)
        return f'<path d="{line}" fill="none" stroke-width="{thick:.1f}" {PAINT["branch"]}/>'

    def _thickness(self, place: Place) -> float:
        if self.counts is None or self.counts[0] == 0:
            return 1.6
        return 1.0 + 9.0 * float(self.counts[place.node - self.start] / self.counts[0])

    def _branch_label(self, place: Place, right: float, y: float) -> str:
        missing = f"<tspan {PAINT['muted']}> {_MISSING}</tspan>" if self._takes_missing(place) else ""
        above = y - 4 - self._thickness(place) / 2
        return (
            f'<text x="{right:.1f}" y="{above:.1f}" text-anchor="end" font-size="12" {PAINT["ink"]}>'
            f"{xml(self._label_text(place))}{missing}</text>"
        )

    def _node(self, place: Place, x: float, y: float, wide: float) -> str:
        leaf = self.forest.kind[place.node] == LEAF
        shape = self._leaf_shape if leaf else self._split_shape
        first, second = self._box_text(place)
        words = _text(x + _PAD, y + (1.5 if leaf and self.shares is not None else 4.5), first, "ink", 13, "bold")
        if second:
            low = y + (1.5 if leaf and self.shares is not None else 4.5)
            words += _text(x + wide - _PAD, low, second, "muted", _SMALL, anchor="end")
        return f"<g><title>{xml(self._tooltip(place))}</title>{shape(place, x, y - _BOX / 2, wide)}{words}</g>"

    def _split_shape(self, place: Place, x: float, y: float, wide: float) -> str:
        dashes = ' stroke-dasharray="4 3"' if place.folded else ""
        return _box(x, y, wide, _BOX, _BOX / 2, PAINT["box"], dashes)

    def _leaf_shape(self, place: Place, x: float, y: float, wide: float) -> str:
        leaf = self.numbers[place.node]
        if self.shares is None:
            colour = self.colour_of_value(place.node)
            return _box(x, y, wide, _BOX, 6, PAINT["card"]) + _tinted(x, y, wide, colour, 0.30)
        shares = np.clip(self.shares[leaf], 0, None)
        colour = class_colour(int(np.argmax(shares)))
        parts = [_box(x, y, wide, _BOX, 6, PAINT["card"]), _tinted(x, y, wide, colour, 0.16)]
        at, room = x + _PAD, wide - 2 * _PAD
        for k, share in enumerate(shares / max(float(shares.sum()), 1e-300)):
            if share > 0:
                long = float(share) * room
                bar = f'x="{at:.2f}" y="{y + _BOX - 9:.1f}" width="{long:.2f}" height="4"'
                parts.append(f'<rect {bar} fill="{class_colour(k)}"/>')
                at += long
        return "".join(parts)


def _value_colours(forest: Forest, tree: int, places: list[Place]) -> Callable[[int], str]:
    """Return the colour of each leaf by its value, from the lowest of the tree to the highest; by its first output."""
    answers = leaf_answers(forest)[:, 0]
    numbers = leaf_numbers(forest)
    own = range(int(forest.tree_start[tree]), int(forest.tree_start[tree + 1]))
    values = np.array([answers[numbers[node]] for node in own if node in numbers])
    low, high = float(values.min()), float(values.max())

    def colour(node: int) -> str:
        value = float(answers[numbers[node]])
        return ramp_colour(0.5 if not high > low else (value - low) / (high - low))

    return colour


def _box(x: float, y: float, wide: float, high: float, round_by: float, paint: str, more: str = "") -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" width="{wide:.1f}" height="{high:.1f}" rx="{round_by:g}"'
    return f"<rect {place} {paint}{more}/>"


def _tinted(x: float, y: float, wide: float, colour: str, opacity: float) -> str:
    paint = f'fill="{colour}" fill-opacity="{opacity}" stroke="{colour}" stroke-width="1.5"'
    return _box(x, y, wide, _BOX, 6, paint)


def _text(
    x: float, y: float, words: str, paint: str, size: float, weight: str = "normal", anchor: str = "start"
) -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" font-size="{size:g}" font-weight="{weight}" text-anchor="{anchor}"'
    return f"<text {place} {PAINT[paint]}>{xml(words)}</text>"


def _document(wide: float, high: float, spoken: str, body: str, style: str) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide:.0f}" height="{high:.0f}" '
        f'viewBox="0 0 {wide:.0f} {high:.0f}" role="img" aria-label="{xml(spoken)}"{style} '
        'font-family="system-ui, -apple-system, Segoe UI, Roboto, Helvetica, Arial, sans-serif">\n'
        f"<style>{DARK_STYLE}</style>\n"
        f'<rect width="{wide:.0f}" height="{high:.0f}" rx="12" {PAINT["ground"]}/>\n'
        f"{body}\n</svg>\n"
    )
