"""Scenes: nothing overlaps or leaves the page, and what is asked for is in them."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hardwood.draw._picture import Wanted, picture
from hardwood.draw._scene import Box, Branch, Line, Node, Scene
from hardwood.draw._svg import estimate
from hardwood.errors import InvalidArgumentError
from hardwood.forest import LEAF, OBLIQUE, THRESHOLD, Forest
from helpers.forests import complete_forest, forests, random_forest, random_rows, reference_paths, small_fields

Span = tuple[float, float, float, float]


def span(part: Box | Line) -> Span:
    """Left, top, right, bottom; of text without what hangs below its base line."""
    if isinstance(part, Box):
        return part.x, part.y, part.x + part.wide, part.y + part.high
    wide = estimate(part.text + part.tail, part.size, part.bold)
    left = part.x if part.anchor == "start" else part.x - wide
    return left, part.y - 0.73 * part.size, left + wide, part.y


def apart(a: Span, b: Span) -> bool:
    slack = 1e-6
    return a[2] <= b[0] + slack or b[2] <= a[0] + slack or a[3] <= b[1] + slack or b[3] <= a[1] + slack


def nodes_of(scene: Scene) -> list[Node]:
    return [part for part in scene.parts if isinstance(part, Node)]


def outer(node: Node) -> Box:
    first = node.parts[0]
    assert isinstance(first, Box)
    return first


def check(scene: Scene) -> None:
    """Every text lies in the page and in its box, and no text or box lies over another text or box."""
    page = (0.0, 0.0, scene.wide, scene.high)
    taken: list[Span] = []
    for part in scene.parts:
        if isinstance(part, Line):
            taken.append(span(part))
        if not isinstance(part, Node):
            continue
        box = span(outer(part))
        taken.append(box)
        lines = [span(each) for each in part.parts if isinstance(each, Line)]
        bars = [span(each) for each in part.parts[1:] if isinstance(each, Box) and each.high < 30]
        for inside in [*lines, *bars]:
            assert box[0] <= inside[0] and inside[2] <= box[2] + 1e-6
            assert box[1] <= inside[1] and inside[3] <= box[3]
        assert all(apart(a, b) for a, b in itertools.combinations(lines, 2))
        assert all(apart(a, b) for a in lines for b in bars)
    for each in taken:
        assert page[0] <= each[0] and page[1] <= each[1] and each[2] <= page[2] and each[3] <= page[3]
    for a, b in itertools.combinations(taken, 2):
        assert apart(a, b)


@settings(max_examples=80)
@given(forests(), st.integers(0, 2**32 - 1), st.booleans(), st.booleans(), st.sampled_from([5, 21, None]))
def test_nothing_overlaps(forest: Forest, seed: int, with_truth: bool, with_row: bool, max_nodes: int | None):
    rng = np.random.default_rng(seed)
    names = ["<script>alert(1)</script>", 'quote"', "new\nline", "שם ארוך מאוד " * 9, "n" * 500]
    forest = replace(forest, feature_names=tuple(names[: forest.n_features]))
    X = random_rows(rng, forest, 20)
    y = None
    if with_truth:
        y = rng.choice(forest.classes, 20) if forest.is_classifier else rng.normal(size=(20, forest.n_outputs))
    tree = int(rng.integers(forest.n_trees))
    row = X[3] if with_row else None
    check(picture(forest, Wanted(tree, max_nodes=max_nodes, X=X, y=y, row=row, title="A tree " * 40), estimate))
    check(picture(forest, Wanted(tree, max_nodes=max_nodes), estimate))


def test_a_tree_of_200_nodes_is_folded_where_few_rows_go():
    rng = np.random.default_rng(0)
    forest = complete_forest(rng, 1, 7, 3, classes=["a", "b"], n_outputs=2, link="softmax")
    X = rng.normal(size=(500, 3))
    y = np.array(["a", "b"])[rng.integers(0, 2, 500)]
    scene = picture(forest, Wanted(X=X, y=y), estimate)
    check(scene)
    assert len(nodes_of(scene)) == 63
    (note,) = (part.text for part in scene.parts if isinstance(part, Line) and "folded" in part.text)
    folded = [node for node in nodes_of(scene) if outer(node).dashed]
    hidden = sum(int(line.text.split()[0]) for node in folded for line in node.parts[-2:-1] if isinstance(line, Line))
    assert f"folded, {hidden} of 128 leaves in {len(folded)} places" in note
    whole = picture(forest, Wanted(X=X, y=y, max_nodes=None), estimate)
    check(whole)
    assert len(nodes_of(whole)) == 255


@settings(max_examples=40)
@given(forests(n_trees=2), st.integers(0, 2**32 - 1))
def test_the_way_of_a_row_is_dark_and_never_folded(forest: Forest, seed: int):
    row = random_rows(np.random.default_rng(seed), forest, 1)
    path = reference_paths(forest, row[0].tolist())[1]
    for given_row in (row, row[0]):
        scene = picture(forest, Wanted(1, max_nodes=1, row=given_row), estimate)
        dark = [
            node for node in nodes_of(scene) if any(getattr(part, "outline", None) == "path" for part in node.parts)
        ]
        assert len(dark) == len(path)
        branches = [part for part in scene.parts if isinstance(part, Branch)]
        assert [branch.paint for branch in branches].count("path") == len(path) - 1
        assert all(branch.paint == "path" for branch in branches[len(branches) - len(path) + 1 :])
        assert (
            sum("here" in line.text for node in dark for line in node.parts if isinstance(line, Line)) >= len(path) - 1
        )


def test_what_the_row_has_is_shown_at_its_splits():
    forest = Forest(**small_fields())
    texts = [
        line.text
        for tree in (0, 1)
        for node in nodes_of(picture(forest, Wanted(tree, row=[0.75, 2, 3]), estimate))
        for line in node.parts
        if isinstance(line, Line)
    ]
    assert {"here 0.75", "here blue", "here 2.625"} <= set(texts)
    (missing,) = (
        line.text
        for node in nodes_of(picture(forest, Wanted(1, row=[0.75, 2, np.nan]), estimate))
        for line in node.parts
        if isinstance(line, Line) and "here" in line.text
    )
    assert missing == "here missing"


def test_bars_are_the_true_classes_of_the_rows():
    forest = complete_forest(np.random.default_rng(0), 1, 1, 1, classes=["a", "b", "c"], n_outputs=3, link="softmax")
    forest = replace(forest, threshold=[0.0, 0, 0])
    X, y = np.array([[-1.0], [-1], [1], [1], [1]]), ["a", "a", "c", "a", "c"]
    bars = [
        [part.wide for part in node.parts if isinstance(part, Box) and part.high == 4]
        for node in nodes_of(picture(forest, Wanted(X=X, y=y), estimate))
    ]
    shares = [np.array(each) / sum(each) for each in bars]
    np.testing.assert_allclose(shares[0], [0.6, 0.4])
    np.testing.assert_allclose(shares[1], [1.0])
    np.testing.assert_allclose(shares[2], [1 / 3, 2 / 3])


def test_histograms_stand_in_the_order_of_values():
    forest = complete_forest(np.random.default_rng(0), 1, 1, 1)
    forest = replace(forest, threshold=[0.0, 0, 0])
    X, y = np.array([[-1.0], [-1], [-1], [1]]), [0.0, 0.0, 12.0, 6.0]
    root, left, right = nodes_of(picture(forest, Wanted(X=X, y=y), estimate))
    bars = [
        [part for part in node.parts if isinstance(part, Box) and part.paint == "muted"] for node in (root, left, right)
    ]
    assert [len(each) - 1 for each in bars] == [3, 2, 1]
    ground, *counts = bars[0]
    heights = [each.high for each in counts]
    assert heights[0] == 2 * heights[1] == 2 * heights[2]
    assert ground.x == counts[0].x < counts[1].x < counts[2].x < ground.x + ground.wide


def test_oblique_splits_show_their_largest_weights():
    weights = np.array([0.1, -5.0, 0.2, 3.0, 0.3, 0.4, 0.5])
    forest = Forest(
        tree_start=[0, 3], kind=[OBLIQUE, LEAF, LEAF], left=[1, -1, -1], right=[2, -1, -1], feature=[-1] * 3,
        threshold=[1.0, 0, 0], missing_left=[False] * 3, leaf_values=[[1.0], [2.0]], n_features=7,
        weight_start=[0, 7, 7, 7], weight_feature=np.arange(7), weight_value=weights,
    )  # fmt: skip
    root = nodes_of(picture(forest, Wanted(), estimate))[0]
    (line,) = (part for part in root.parts if isinstance(part, Line))
    assert line.text == "-5*x[1] + 3*x[3] + 5 more"
    assert "0.1*x[0] - 5.0*x[1] + 0.2*x[2]" in root.remark
    # With rows, by what a weight does there, whatever the units.
    rows = np.random.default_rng(0).normal(size=(50, 7)) * np.array([1e3, 1e-3, 1, 1, 1, 1, 1])
    root = nodes_of(picture(forest, Wanted(X=rows), estimate))[0]
    first = next(part for part in root.parts if isinstance(part, Line))
    assert first.text == "0.1*x[0] + 3*x[3] + 5 more"


def test_trees_with_leaf_weights_show_them():
    forest = complete_forest(
        np.random.default_rng(0), 2, 1, 1, n_outputs=2, classes=["left", "right"], link="softmax", combine="softmax",
        leaf_weights=np.array([0.5, -1.25, 0, 0]),
    )  # fmt: skip
    scene = picture(forest, Wanted(), estimate)
    texts = " ".join(part.text for node in nodes_of(scene) for part in node.parts if isinstance(part, Line))
    assert "weight 0.5" in texts and "weight -1.25" in texts
    assert any("the more this tree counts" in part.text for part in scene.parts if isinstance(part, Line))


def test_leaves_of_a_sum_for_two_classes_wear_the_class_they_speak_for():
    forest = complete_forest(np.random.default_rng(0), 2, 1, 1, classes=["no", "yes"], link="sigmoid")
    forest = replace(forest, leaf_values=np.array([[-2.0], [1.0], [0.0], [0.0]]))
    _, no, yes = nodes_of(picture(forest, Wanted(), estimate))
    colours = [
        next(part.outline for part in node.parts if isinstance(part, Box) and part.outline) for node in (no, yes)
    ]
    assert colours[0] != colours[1]
    legend = [part.paint for part in picture(forest, Wanted(), estimate).parts if isinstance(part, Box)]
    assert legend == colours


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (Wanted(max_nodes=0), "max_nodes=0: is less than one node"),
        (Wanted(row=np.zeros((2, 3))), "row='2 rows': is not one row"),
        (Wanted(y=[1.0]), "is given without X"),
        (Wanted(title=""), "title='': is empty"),
        (Wanted(tree=2), "tree=2"),
    ],
)
def test_bad_arguments(wanted: Wanted, message: str):
    with pytest.raises(InvalidArgumentError, match=message):
        picture(Forest(**small_fields()), wanted, estimate)


def test_chains_and_single_leaves_have_pictures():
    rng = np.random.default_rng(0)
    nodes = 61
    chain = Forest(
        tree_start=[0, nodes], kind=[THRESHOLD, LEAF] * 30 + [LEAF],
        left=[k + 1 if k % 2 == 0 and k < 60 else -1 for k in range(nodes)],
        right=[k + 2 if k % 2 == 0 and k < 60 else -1 for k in range(nodes)],
        feature=[0, -1] * 30 + [-1], threshold=[k / 2 if k % 2 == 0 and k < 60 else 0 for k in range(nodes)],
        missing_left=[False] * nodes, leaf_values=rng.normal(size=(31, 1)), n_features=1,
    )  # fmt: skip
    check(picture(chain, Wanted(max_depth=None), estimate))
    check(picture(random_forest(rng, max_splits=0), Wanted(title="t"), estimate))
