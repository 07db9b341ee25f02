"""The picture of where rows go: shares that add up by level, classes apart, pruned nodes gone, names made safe."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

from hardwood.draw import routes
from hardwood.errors import InvalidArgumentError

NUMBERS = np.array([0, 1, 2, 3, 4])
HARD = np.array([[1, 1, 0, 1, 0], [1, 1, 0, 1, 0], [1, 1, 0, 0, 1], [1, 0, 1, 0, 0]], float)


def shown(svg: str) -> list[tuple[int, float]]:
    return [(int(n), float(p)) for n, p in re.findall(r"node (\d+): ([\d.]+) percent", svg)]


def test_shares_of_a_level_are_those_of_the_rows():
    assert shown(routes(NUMBERS, HARD)) == [(0, 100.0), (1, 75.0), (2, 25.0), (3, 66.7), (4, 33.3)]


def test_each_class_has_its_own_picture():
    found = shown(routes(NUMBERS, HARD, classes=["a", "a", "b", "b"]))
    assert found[5:10] == [(0, 100.0), (1, 100.0), (2, 0.0), (3, 100.0), (4, 0.0)]
    assert found[10:] == [(0, 100.0), (1, 50.0), (2, 50.0), (3, 0.0), (4, 100.0)]


def test_pruned_and_deeper_nodes_are_not_drawn():
    svg = routes(NUMBERS, HARD, np.array([1, 0.5, 0, 0.5, 0.2]))
    assert [node for node, _ in shown(svg)] == [0, 1, 3, 4]
    assert [node for node, _ in shown(routes(NUMBERS, HARD, max_depth=1))] == [0, 1, 2]


def test_it_is_one_document_whatever_the_names():
    svg = routes(NUMBERS, HARD, classes=["<script>", "&", "&", '"'], title="a < b")
    root = ElementTree.fromstring(svg)
    texts = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"a < b", "<script>", "&", '"', "–"} <= set(texts)


def test_classes_must_fit_the_rows():
    with pytest.raises(InvalidArgumentError, match="classes"):
        routes(NUMBERS, HARD, classes=[1])
