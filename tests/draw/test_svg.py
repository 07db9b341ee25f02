"""Pictures: well-formed, nothing overlaps or leaves the page, and names are shown, whatever is in them."""

from __future__ import annotations

import itertools
import re
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hardwood import draw
from hardwood.draw._label import visible
from hardwood.draw._layout import layout
from hardwood.errors import InvalidArgumentError
from hardwood.forest import LEAF, THRESHOLD, Forest
from helpers.forests import forests, random_forest, random_rows

SVG = "{http://www.w3.org/2000/svg}"


def parse(picture: str) -> ElementTree.Element:
    return ElementTree.fromstring(picture)


def numbers(element: ElementTree.Element, *names: str) -> list[float]:
    return [float(element.get(name, "nan")) for name in names]


@settings(max_examples=50)
@given(forests(), st.one_of(st.none(), st.integers(0, 5)))
def test_every_node_is_drawn_inside_the_page_and_apart(forest: Forest, max_depth: int | None):
    root = parse(draw.svg(forest, max_depth=max_depth, title="A tree"))
    wide, high = numbers(root, "width", "height")
    boxes = []
    for group in root.iter(f"{SVG}g"):
        rect = group.find(f"{SVG}rect")
        assert rect is not None
        x, y, w, h = numbers(rect, "x", "y", "width", "height")
        assert x >= 0
        assert y >= 0
        assert x + w <= wide
        assert y + h <= high
        boxes.append((x, y, x + w, y + h))
    assert len(boxes) == len(layout(forest, 0, max_depth))
    for a, b in itertools.combinations(boxes, 2):
        assert a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1]


@settings(max_examples=50)
@given(forests(named=False), st.lists(st.text(max_size=30), min_size=5, max_size=5, unique=True))
def test_names_are_shown_and_never_markup(forest: Forest, names: list[str]):
    import dataclasses

    names = [f"{name}</text><script>alert({k})</script>" for k, name in enumerate(names)]
    named = dataclasses.replace(forest, feature_names=tuple(names[: forest.n_features]))
    picture = draw.svg(named, max_depth=None)
    root = parse(picture)
    assert "<script" not in picture
    assert {element.tag for element in root.iter()} <= {
        SVG + tag for tag in ("svg", "style", "rect", "text", "tspan", "path", "g", "title")
    }
    tips = "".join(title.text or "" for title in root.iter(f"{SVG}title"))
    for column in np.unique(forest.feature[: forest.tree_start[1]][forest.kind[: forest.tree_start[1]] == THRESHOLD]):
        tail = visible(names[column]).replace('"', '\\"')[-20:]
        assert tail in tips


def test_nothing_is_fetched_and_nothing_runs():
    picture = draw.svg(random_forest(np.random.default_rng(0), max_splits=12), title="t")
    assert re.findall(r"https?://[^\" ]*", picture) == ["http://www.w3.org/2000/svg"]
    assert not re.search(r"<script|href|url\(|@import|\bon\w+=", picture)


def test_long_names_are_cut_in_the_box_and_whole_in_the_tooltip():
    name = "n" * 500
    forest = Forest(
        tree_start=[0, 3],
        kind=[THRESHOLD, LEAF, LEAF],
        left=[1, -1, -1],
        right=[2, -1, -1],
        feature=[0, -1, -1],
        threshold=[1 / 3, 0, 0],
        missing_left=[False] * 3,
        leaf_values=[[1.0], [2.0]],
        n_features=1,
        feature_names=(name,),
    )
    root = parse(draw.svg(forest))
    assert "n" * 23 + "…" in [text.text for text in root.iter(f"{SVG}text")]
    tips = [title.text for title in root.iter(f"{SVG}title")]
    assert f"up: {name} < {1 / 3!r}\ndown: {name} >= {1 / 3!r} or missing" in tips
    assert float(root.get("width", "inf")) < 600


@settings(max_examples=50)
@given(forests(n_trees=2), st.integers(0, 2**32 - 1))
def test_branches_are_as_wide_as_their_share_of_rows(forest: Forest, seed: int):
    rows = random_rows(np.random.default_rng(seed), forest, 50)
    root = parse(draw.svg(forest, 1, max_depth=None, X=rows))
    start = int(forest.tree_start[1])
    passed, _ = forest.decision_path(rows)
    share = np.asarray(passed.sum(axis=0)).ravel() / len(rows)
    expected = [1 + 9 * share[place.node] for place in layout(forest, 1) if place.node != start]
    widths = [float(path.get("stroke-width", "nan")) for path in root.iter(f"{SVG}path")]
    np.testing.assert_allclose(widths, expected, atol=0.051)


@settings(max_examples=50)
@given(forests(n_trees=1, linear=False, task="classes"))
def test_bars_are_the_shares_of_the_classes(forest: Forest):
    root = parse(draw.svg(forest, max_depth=None))
    for group in root.iter(f"{SVG}g"):
        bars = [numbers(rect, "width")[0] for rect in group.iter(f"{SVG}rect") if rect.get("height") == "4"]
        outer = numbers(next(group.iter(f"{SVG}rect")), "width")[0]
        if bars:
            assert sum(bars) == pytest.approx(outer - 22, abs=0.2)


def test_bad_arguments():
    forest = random_forest(np.random.default_rng(0))
    with pytest.raises(InvalidArgumentError, match="title=' ': is empty"):
        draw.svg(forest, title=" ")
    with pytest.raises(InvalidArgumentError, match="tree="):
        draw.svg(forest, forest.n_trees)
