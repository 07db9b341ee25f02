"""What a picture of a tree shows, and where: the scene that renderers draw."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from hardwood._typing import Float
from hardwood.draw._census import Census, census
from hardwood.draw._checks import check_tree
from hardwood.draw._colour import class_colour, ramp_colour
from hardwood.draw._label import visible
from hardwood.draw._layout import Place, layout
from hardwood.draw._number import distinct, percent
from hardwood.draw._scene import Box, Branch, Line, Measure, Node, Scene, in_lines
from hardwood.draw._words import Words, adds, column_sizes, leaf_answers, leaf_numbers, leaf_shares
from hardwood.errors import reject
from hardwood.forest import LEAF, Forest
from hardwood.forest._inputs import _array, matrix

MOST_DEPTH, MOST_NODES = 8, 63
_LIMIT = 24  # characters of a name
_TITLE = 100  # characters of a title
_ROW = 46.0  # pixels between neighbours
_BOX = 34.0
_PAD = 11.0
_BEND = 38.0  # room in which a branch bends
_MARGIN = 22.0
_NARROWEST = 420.0
_SMALL, _LABEL, _WORD, _TITLE_SIZE = 11.0, 12.0, 13.0, 15.0
_SKETCH, _SKETCH_HIGH = 48.0, 20.0  # of a histogram
_MISSING = "∅"


@dataclass(frozen=True)
class Wanted:
    """What to draw of one tree. See `hardwood.draw.svg`."""

    tree: int = 0
    max_depth: int | None = MOST_DEPTH
    max_nodes: int | None = MOST_NODES
    X: Any = None
    y: Any = None
    row: Any = None
    title: str | None = None


def picture(forest: Forest, wanted: Wanted, measure: Measure) -> Scene:
    """Make the scene of one tree."""
    check_tree(forest, wanted.tree, wanted.max_depth)
    if wanted.title is not None and not wanted.title.strip():
        reject("title", wanted.title, "is empty", "pass None for a picture without a title")
    return _Picture(forest, wanted, measure).scene()


class _Picture:
    """The parts of one picture and where they go."""

    def __init__(self, forest: Forest, wanted: Wanted, measure: Measure) -> None:
        self.forest = forest
        self.measure = measure
        self.title = None if wanted.title is None else visible(wanted.title.strip())
        self.start = int(forest.tree_start[wanted.tree])
        self.short = Words(forest, wanted.tree, limit=_LIMIT, sizes=column_sizes(forest, wanted.X))
        self.full = Words(forest, wanted.tree, exact=True)
        self.numbers = leaf_numbers(forest)
        self.shares = leaf_shares(forest)
        self.tint = _tints(forest, wanted.tree)
        self.census: Census | None = census(forest, wanted.tree, wanted.X, wanted.y)
        self.row, self.path = _row_and_path(forest, wanted.tree, wanted.row)
        rows = None if self.census is None else self.census.rows
        self.places = layout(
            forest, wanted.tree, wanted.max_depth, max_nodes=wanted.max_nodes, rows=rows, path=self.path
        )

    def scene(self) -> Scene:
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
        title = (
            []
            if self.title is None
            else [Line(_MARGIN, _MARGIN + 12, _cut(self.title, _TITLE), "ink", _TITLE_SIZE, True)]
        )
        title_wide = sum(self.measure(line.text, _TITLE_SIZE, True) for line in title)
        wide = max(edges[-1] + columns[-1], _NARROWEST, _MARGIN + title_wide) + _MARGIN
        legend, top = self._legend(_MARGIN + 30 * len(title), wide)
        x = {place.node: edges[place.depth] for place in self.places}
        y = {place.node: top + _BOX / 2 + place.row * _ROW for place in self.places}
        notes, bottom = self._notes(max(y.values()) + _BOX / 2 + 28, wide)

        branches: list[Branch] = []
        texts: list[Line] = []
        # What the row takes is drawn last, over what it crosses.
        for place in sorted(self.places[1:], key=lambda place: place.node in self.path):
            bend = edges[place.depth - 1] + columns[place.depth - 1]
            taken = place.node in self.path
            thick = max(self._thickness(place), 3.0 if taken else 0.0)
            x0 = x[place.parent] + boxes[place.parent]
            ends = x0, y[place.parent], bend, _BEND, x[place.node], y[place.node]
            branches.append(Branch(*ends, thick, "path" if taken else "branch"))
            tail = f" {_MISSING}" if self._takes_missing(place) else ""
            above = y[place.node] - 4 - thick / 2
            texts.append(
                Line(x[place.node] - 8, above, self._label_text(place), "ink", _LABEL, taken, anchor="end", tail=tail)
            )
        nodes = [self._node(place, x[place.node], y[place.node], boxes[place.node]) for place in self.places]
        return Scene(wide, bottom, self._spoken(), (*title, *legend, *branches, *texts, *nodes, *notes))

    # ---------------------------------------------------------------- sizes

    def _box_width(self, place: Place) -> float:
        first, second = self._box_text(place)
        wide = 2 * _PAD + self.measure(first, _WORD, True)
        wide += 12 + self.measure(second, _SMALL, False) if second else 0
        return wide + (_SKETCH + 10 if self._has_histograms else 0)

    def _label_width(self, place: Place) -> float:
        bold = place.node in self.path
        return self.measure(self._label_text(place), _LABEL, bold) + (16 if self._takes_missing(place) else 0)

    def _thickness(self, place: Place) -> float:
        known = self.census
        return 1.6 if known is None or not known.rows[0] else 1.0 + 9.0 * known.share(place.node - self.start)

    @property
    def _has_histograms(self) -> bool:
        return self.census is not None and self.census.spread is not None

    # ---------------------------------------------------------------- words

    def _label_text(self, place: Place) -> str:
        return self.short.relation(place.parent, place.goes_left).replace("<=", "≤", 1).replace(">=", "≥", 1)

    def _takes_missing(self, place: Place) -> bool:
        return self.short.missing(place.parent, place.goes_left)

    def _box_text(self, place: Place) -> tuple[str, str]:
        """Return what stands in a box: in bold, and beside it in small letters."""
        small = [] if self.census is None else [f"n={int(self.census.rows[place.node - self.start]):,}"]
        if place.folded:
            return f"{place.folded} leaves", " · ".join(small)
        if self.forest.kind[place.node] != LEAF:
            if self.row is not None and place.node in self.path:
                small.append(f"here {self.short.here(place.node, self.row)}")
            return self.short.subject(place.node), " · ".join(small)
        leaf = self.numbers[place.node]
        if self.shares is None:
            answer = self.short.leaf(leaf)
            return _cut(answer, 2 * _LIMIT), " · ".join(small)
        best = int(np.argmax(self.shares[leaf]))
        parts = [percent(float(self.shares[leaf, best]))]
        if self.forest.combine == "softmax" and self.forest.n_trees > 1:
            assert self.forest.leaf_weights is not None
            parts.append(f"weight {self.short.plain(float(self.forest.leaf_weights[leaf]))}")
        return self.short.class_name(best), " · ".join([*parts, *small])

    def _remark(self, place: Place) -> str:
        """Say exactly what a box stands for, in the full names and numbers."""
        if place.folded or self.forest.kind[place.node] != LEAF:
            up, down = (self.full.condition(place.node, goes_left) for goes_left in (True, False))
            lines = [f"up: {up}", f"down: {down}"]
        else:
            lines = [self.full.leaf(self.numbers[place.node])]
        if self.row is not None and place.node in self.path and self.forest.kind[place.node] != LEAF:
            lines.append(f"here: {self.full.here(place.node, self.row)}")
        if self.census is not None:
            count, _, more = self.census.words(self.short, place.node - self.start).partition(": ")
            lines.append(f"{count.split()[0]} of {int(self.census.rows[0]):,} rows" + (f": {more}" if more else ""))
        return "\n".join(lines)

    def _spoken(self) -> str:
        splits = sum(self.forest.kind[node] != LEAF for node in self.full.nodes)
        size = f"{splits} splits and {splits + 1} leaves"
        return f"{self.title}: a decision tree with {size}" if self.title else f"A decision tree with {size}"

    # ---------------------------------------------------------------- above and below the tree

    def _legend(self, y: float, wide: float) -> tuple[list[Box | Line], float]:
        """Name the colours of the classes; return that and where the tree may begin."""
        classes = self.forest.classes
        if classes is None:
            return [], y
        count = min(len(classes), 10)
        names = [self.short.class_name(k) for k in range(count)]
        names += [f"and {len(classes) - count} more"] if len(classes) > count else []
        places = in_lines([18 + self.measure(name, _LABEL, False) for name in names], wide - 2 * _MARGIN, 16)
        parts: list[Box | Line] = []
        for k, (name, (line, at)) in enumerate(zip(names, places, strict=True)):
            x, top = _MARGIN + at, y + 20 * line
            if k < count:
                parts.append(Box(x, top, 12, 12, class_colour(k), radius=3))
            parts.append(Line(x + 18, top + 10, name, "muted", _LABEL))
        return parts, y + 30 + 20 * places[-1][0]

    def _notes(self, y: float, wide: float) -> tuple[list[Line], float]:
        """Say how to read the picture; return that and where the picture ends."""
        notes = []
        if len(self.places) > 1:
            notes.append(f"{_MISSING} missing values go this way")
        if self.census is not None and len(self.places) > 1:
            notes.append("a branch is as thick as its share of the rows")
        if self.census is not None and self.census.classes is not None:
            notes.append("bars: the true classes of the rows")
        if self.census is not None and self.census.spread is not None:
            low, high = distinct((float(each) for each in self.census.spread.edges[[0, -1]]), 4).values()
            first = f" of {self.short.outcome(0)}" if self.forest.n_outputs > 1 else ""
            notes.append(f"histograms: the rows' true values{first}, {low} to {high}")
        if self.forest.combine == "softmax" and self.forest.n_trees > 1:
            notes.append("weight: the larger, the more this tree counts among the others")
        if adds(self.forest) and self.forest.classes is not None and self.forest.link == "sigmoid":
            notes.append(f"leaves add to the score of {self.short.class_name(1)}")
        if self.path:
            notes.append("dark: the way of the given row")
        folded = [place.folded for place in self.places if place.folded]
        if folded:
            whole = (len(self.full.nodes) + 1) // 2
            notes.append(f"dashed: folded, {sum(folded):,} of {whole:,} leaves in {len(folded)} places")
        if not notes:
            return [], y - 16
        written = [notes[0]]
        for note in notes[1:]:
            longer = f"{written[-1]}  ·  {note}"
            if self.measure(longer, _SMALL, False) <= wide - 2 * _MARGIN:
                written[-1] = longer
            else:
                written.append(note)
        lines = [Line(_MARGIN, y + 16 * k, text, "muted", _SMALL) for k, text in enumerate(written)]
        return lines, y + 16 * len(lines) - 4

    # ---------------------------------------------------------------- shapes

    def _node(self, place: Place, x: float, y: float, wide: float) -> Node:
        top = y - _BOX / 2
        is_leaf = self.forest.kind[place.node] == LEAF
        shapes = self._leaf_shape(place, x, top, wide) if is_leaf else self._split_shape(place, x, top, wide)
        if place.node in self.path:
            shapes.append(
                Box(x, top, wide, _BOX, "none", shapes[0].radius, outline="path", thick=2.5)
            )  # over the node's own outline
        bar = self._bar(place)
        low = y + (4.5 if bar is None else 1.5)
        right = x + wide - _PAD
        if bar is not None:
            inset = _PAD if is_leaf else _PAD + 3
            at, room = x + inset, wide - 2 * inset
            for k, share in enumerate(bar.tolist()):
                if share > 0:
                    shapes.append(Box(at, top + _BOX - 9, share * room, 4, class_colour(k)))
                    at += share * room
        if self._has_histograms:
            shapes += self._histogram(place, right - _SKETCH, y + _SKETCH_HIGH / 2)
            right -= _SKETCH + 10
        first, second = self._box_text(place)
        words = [Line(x + _PAD, low, first, "ink", _WORD, True)]
        if second:
            words.append(Line(right, low, second, "muted", _SMALL, anchor="end"))
        return Node(self._remark(place), (*shapes, *words))

    def _split_shape(self, place: Place, x: float, y: float, wide: float) -> list[Box]:
        return [Box(x, y, wide, _BOX, "box", _BOX / 2, thick=1.0, dashed=bool(place.folded))]

    def _leaf_shape(self, place: Place, x: float, y: float, wide: float) -> list[Box]:
        colour, opacity = self.tint(place.node)
        ground = Box(x, y, wide, _BOX, "card", 6)
        return [ground, Box(x, y, wide, _BOX, colour, 6, opacity, outline=colour)]

    def _bar(self, place: Place) -> Float[np.ndarray, " classes"] | None:
        """Return the class shares to draw in a box: those of the rows, or the leaf's own."""
        if self.census is not None and self.census.classes is not None:
            return self.census.class_shares(place.node - self.start)
        if self.shares is None or place.node not in self.numbers:
            return None
        shares = np.clip(self.shares[self.numbers[place.node]], 0, None)
        return shares / max(float(shares.sum()), np.finfo(float).tiny)

    def _histogram(self, place: Place, x: float, foot: float) -> list[Box]:
        assert self.census is not None
        assert self.census.spread is not None
        counts = self.census.spread.histogram[place.node - self.start]
        step, tallest = _SKETCH / len(counts), max(int(counts.max()), 1)
        ground = Box(x, foot, _SKETCH, 1, "muted")
        return [ground] + [
            Box(x + k * step, foot - _SKETCH_HIGH * count / tallest, step - 1, _SKETCH_HIGH * count / tallest, "muted")
            for k, count in enumerate(counts.tolist())
            if count
        ]


def _cut(text: str, most: int) -> str:
    """Cut a text where it is too long."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _row_and_path(forest: Forest, tree: int, row: Any) -> tuple[Float[np.ndarray, " features"] | None, frozenset[int]]:
    """Return a row as numbers and the nodes that it passes; nothing without a row."""
    if row is None:
        return None, frozenset()
    if not hasattr(type(row), "columns"):
        row = _array(row)
        row = row[None] if row.ndim == 1 else row
    table = matrix(forest, row)
    if len(table) != 1:
        reject("row", f"{len(table)} rows", "is not one row", "pass the cells of one row, or a data frame of one row")
    node = int(forest.tree_start[tree] + forest.apply(table)[0, tree])
    path = []
    while node >= 0:
        path.append(node)
        node = int(forest._parent[node])
    return table[0].astype(np.float64), frozenset(path)


def _tints(forest: Forest, tree: int) -> Callable[[int], tuple[str, float]]:
    """Return the colour of each leaf and how strong it is.

    A leaf wears the colour of the class that it speaks for. In a sum of trees for two classes it speaks the louder, the
    farther from 0 it is. Leaves of a regression are shaded from the lowest value of the tree to the highest, by the
    first output.
    """
    own = np.arange(forest.tree_start[tree], forest.tree_start[tree + 1])
    own = forest._leaf_index[own[forest.kind[own] == LEAF]]
    shares, answers = leaf_shares(forest), leaf_answers(forest)
    first = answers[own, 0]
    low, high, loudest = float(first.min()), float(first.max()), float(np.abs(first).max()) or 1.0

    def tint(node: int) -> tuple[str, float]:
        leaf = int(forest._leaf_index[node])
        value = float(answers[leaf, 0])
        if shares is not None:
            return class_colour(int(np.argmax(shares[leaf]))), 0.16
        if forest.classes is not None and forest.link == "sigmoid":
            return class_colour(int(value > 0)), 0.06 + 0.30 * abs(value) / loudest
        if forest.classes is not None:
            return class_colour(int(np.argmax(answers[leaf]))), 0.16
        return ramp_colour(0.5 if not high > low else (value - low) / (high - low)), 0.30

    return tint
