"""Names from data are shown and do nothing else."""

from __future__ import annotations

import unicodedata
from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from hardwood.draw._label import label, visible, width, xml

anything = st.text(st.characters(), max_size=40)  # surrogates, controls, every script


@given(anything)
def test_a_label_is_one_line_that_can_be_written(name: str):
    text = label(name)
    assert len(text.splitlines()) == 1
    text.encode("utf-8")
    isolates = "\u2068\u2069"
    assert not [c for c in text if unicodedata.category(c)[0] == "C" and c not in isolates + "\u200c\u200d"]


@given(st.lists(anything, min_size=2, max_size=2, unique=True))
def test_different_names_read_differently(names: list[str]):
    assert label(names[0]) != label(names[1])


@given(anything)
def test_xml_holds_any_label(name: str):
    text = label(name)
    element = ElementTree.fromstring(f'<a b="{xml(text)}">{xml(text)}</a>')
    assert element.text == text
    assert element.get("b") == text


@given(anything, st.integers(3, 30))
def test_the_limit_holds(name: str, limit: int):
    assert len(label(name, limit).strip("\u2068\u2069")) <= limit


def test_right_to_left_names_are_isolated():
    assert label("גיל") == "\u2068גיל\u2069"
    assert label("עمر < x").startswith('\u2068"')


def test_joined_emoji_stay_whole():
    assert visible("👩\u200d🔬") == "👩\u200d🔬"


def test_width_grows_with_the_text():
    assert width("iii") < width("nnn") < width("MMM") < width("年年年") + 1
    assert width("e\u0301") == width("e")
