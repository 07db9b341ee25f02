"""matplotlib draws the scene that the SVG has, on the axes it is given, without any global state."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch, PathPatch

from hardwood import draw
from hardwood.draw import _plot_artists
from hardwood.draw._layout import layout
from hardwood.draw._picture import Wanted, picture
from hardwood.draw._scene import Box, Line, Node
from hardwood.forest import LEAF, OBLIQUE, Forest
from helpers.forests import complete_forest, random_forest, random_rows, small_fields


def flat(forest: Forest, wanted: Wanted) -> list[object]:
    parts: list[object] = []
    for part in picture(forest, wanted, _plot_artists.measure).parts:
        parts += part.parts if isinstance(part, Node) else (part,)
    return parts


@pytest.mark.parametrize("seed", range(6))
def test_every_part_of_the_scene_is_drawn_in_its_order(seed: int):
    rng = np.random.default_rng(seed)
    forest = random_forest(rng)
    X = random_rows(rng, forest, 20)
    ax = draw.plot(forest, X=X, row=X[0], title="A tree")
    parts = flat(forest, Wanted(X=X, row=X[0], title="A tree"))
    patches = [each for each in ax.get_children() if isinstance(each, (FancyBboxPatch, PathPatch))]
    artists = sorted(patches, key=lambda each: each.get_zorder())
    boxes = [each for each in artists if isinstance(each, FancyBboxPatch)]
    assert [(box.get_x(), box.get_y(), box.get_width()) for box in boxes] == [
        (part.x, part.y, part.wide) for part in parts if isinstance(part, Box)
    ]
    texts = sorted((text for text in ax.texts if text.get_text()), key=lambda each: each.get_zorder())
    assert [text.get_position() for text in texts] == [(part.x, part.y) for part in parts if isinstance(part, Line)]
    assert sum(isinstance(each, PathPatch) for each in artists) == len(layout(forest)) - 1


def test_texts_stay_in_their_boxes_at_any_size():
    rng = np.random.default_rng(0)
    forest = complete_forest(rng, 1, 2, 3, feature_names=("nnnnnnnnnnnnnnn", "WWWWW", "iiiiiii"))
    X, y = rng.normal(size=(50, 3)), rng.normal(size=50)
    for figure in (Figure(figsize=(4, 3)), Figure(figsize=(16, 9))):
        ax = draw.plot(forest, ax=figure.subplots(), X=X, y=y)
        canvas = FigureCanvasAgg(figure)
        canvas.draw()
        renderer = canvas.get_renderer()
        whole = ax.get_window_extent(renderer)
        for text in ax.texts:
            place = text.get_window_extent(renderer)
            assert whole.x0 - 1 <= place.x0 and place.x1 <= whole.x1 + 1
        pairs = [(a, b) for a in ax.texts for b in ax.texts if a is not b]
        assert not any(a.get_window_extent(renderer).overlaps(b.get_window_extent(renderer)) for a, b in pairs)


def test_letters_grow_with_the_axes():
    sizes = []
    for wide in (4, 8):
        figure = Figure(figsize=(wide, wide))
        ax = draw.plot(Forest(**small_fields()), ax=figure.add_axes((0, 0, 1, 1)))
        FigureCanvasAgg(figure).draw()
        sizes.append(ax.texts[0].get_fontsize())
    assert sizes[1] == pytest.approx(2 * sizes[0])


def test_it_returns_the_axes_that_it_got_and_saves(tmp_path: Path):
    figure = Figure()
    ax = figure.subplots()
    assert draw.plot(Forest(**small_fields()), 1, ax=ax, title="a $\\frac{1}{2}$ b $") is ax
    for kind in ("png", "pdf", "svg"):
        figure.savefig(tmp_path / f"tree.{kind}", bbox_inches="tight")
        assert (tmp_path / f"tree.{kind}").stat().st_size > 1000
    assert any(text.get_text() == "a $\\frac{1}{2}$ b $" for text in ax.texts)


def test_pyplot_is_not_touched():
    code = (
        "import sys, numpy as np\n"
        "from sklearn.tree import DecisionTreeRegressor\n"
        "from hardwood import draw, from_sklearn\n"
        "assert 'matplotlib' not in sys.modules\n"
        "x = np.arange(8.0)[:, None]\n"
        "ax = draw.plot(from_sklearn(DecisionTreeRegressor(max_depth=2).fit(x, x[:, 0])))\n"
        "assert 'matplotlib.pyplot' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_without_matplotlib_the_extra_is_named(monkeypatch: pytest.MonkeyPatch):
    from hardwood.errors import MissingExtraError

    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtraError, match=r"hardwood\[plot\]"):
        draw.plot(Forest(**small_fields()))


@pytest.mark.skipif(not _plot_artists.ORDERS_LETTERS, reason="this matplotlib sets all letters left to right")
def test_a_right_to_left_name_leaves_the_line_around_it_in_order():
    names = ("\u05e9\u05dc\u05d5\u05dd", "plain", "other")
    forest = small_oblique(names)

    def ink(text: str) -> np.ndarray:
        figure = Figure(figsize=(6, 1))
        FigureCanvasAgg(figure)
        figure.text(0, 0.3, text, fontsize=20, fontweight="bold", parse_math=False)
        figure.canvas.draw()
        return np.asarray(figure.canvas.buffer_rgba())

    def first(image: np.ndarray, columns: int) -> np.ndarray:
        return image[:, :columns]

    (line,) = [text.get_text() for text in draw.plot(forest).texts if "plain" in text.get_text()]
    assert line.startswith("-0.75*"), line
    drawn, opening = ink(line), ink("-0.75*")
    columns = int(np.flatnonzero((opening[..., 0] < 255).any(axis=0)).max())
    assert np.array_equal(first(drawn, columns), first(opening, columns))


def small_oblique(names: tuple[str, ...]) -> Forest:
    """Make one split of all columns, whose first weight is the largest."""
    return Forest(
        tree_start=[0, 3], kind=[OBLIQUE, LEAF, LEAF], left=[1, -1, -1], right=[2, -1, -1], feature=[-1] * 3,
        threshold=[0.5, 0.0, 0.0], missing_left=[False] * 3, leaf_values=[[1.0], [2.0]], n_features=len(names),
        weight_start=[0, len(names), len(names), len(names)], weight_feature=range(len(names)),
        weight_value=[-0.75, *[0.5] * (len(names) - 1)], feature_names=names,
    )  # fmt: skip
