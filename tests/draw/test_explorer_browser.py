"""The explorer in a real browser: it routes and predicts as Python does, and a reader's hands and keys work."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hardwood import draw
from hardwood.draw._number import number, percent
from hardwood.forest import CATEGORIES, LEAF, OBLIQUE, THRESHOLD, Forest
from helpers.browser import Tab, chromium
from helpers.forests import complete_forest, random_forest, random_rows, small_fields

Open = Callable[..., Any]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as started:
        yield started


@pytest.fixture
def show(browser: Any, tmp_path: Path) -> Iterator[Open]:
    """Write the explorer of a forest and open it; at the end, no page may have complained or fetched anything."""
    tabs: list[Tab] = []

    def open_page(model: Any, X: Any, y: Any = None, *, context: dict[str, Any] | None = None, **options: Any) -> Any:
        path = draw.explain_page(model, X, y, path=tmp_path / f"page{len(tabs)}.html", **options)
        tab = Tab(browser, **(context or {}))
        tabs.append(tab)
        tab.page.goto(path.as_uri())
        tab.page.evaluate("hardwood.ready")
        return tab.page

    yield open_page
    for tab in tabs:
        tab.close()


# Rows go in and numbers come out as bytes: JSON has no infinities, and a number more for each row and tree is slow.
_EVALUATE = """([rows, width]) => {
  const cells = new Float64Array(Uint8Array.from(atob(rows), (c) => c.charCodeAt(0)).buffer);
  const table = Array.from({length: cells.length / width}, (_, k) => [...cells.subarray(k * width, (k + 1) * width)]);
  const answers = hardwood.evaluate(table);
  const pack = (name) => {
    const bytes = new Uint8Array(Float64Array.from(answers.flatMap((each) => each[name])).buffer);
    let text = "";
    for (let k = 0; k < bytes.length; k += 8192) text += String.fromCharCode(...bytes.subarray(k, k + 8192));
    return btoa(text);
  };
  const names = ["leaves", "outputs", "prediction", "weights", "treeOutputs", "chosen"];
  return Object.fromEntries(names.map((name) => [name, pack(name)]));
}"""


def evaluate(page: Any, rows: np.ndarray) -> dict[str, np.ndarray]:
    """Ask the page what the forest says about rows."""
    data = base64.b64encode(rows.astype("<f8").tobytes()).decode()
    answers = page.evaluate(_EVALUATE, [data, rows.shape[1]])
    return {name: np.frombuffer(base64.b64decode(text), "<f8").reshape(len(rows), -1) for name, text in answers.items()}


def agrees(page: Any, forest: Forest, rows: np.ndarray) -> None:
    """Compare the page with Python: all leaves, and all numbers, to the last bit where no exponential is taken."""
    said = evaluate(page, rows)
    np.testing.assert_array_equal(said["leaves"], forest.apply(rows))
    np.testing.assert_array_equal(said["treeOutputs"], forest.tree_outputs(rows).reshape(len(rows), -1))
    tolerance = 1e-12 if forest.combine == "softmax" else 0.0
    np.testing.assert_allclose(said["outputs"], forest.outputs(rows), rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(said["weights"], forest.tree_weights(rows), rtol=tolerance, atol=tolerance)
    predict = forest.predict if forest.classes is None else forest.predict_proba
    expected = np.asarray(predict(rows)).reshape(len(rows), -1)
    tolerance = tolerance if forest.link == "identity" else 1e-12
    np.testing.assert_allclose(said["prediction"], expected, rtol=tolerance, atol=tolerance)
    if forest.classes is not None and not tolerance:
        np.testing.assert_array_equal(forest.classes[said["chosen"][:, 0].astype(int)], forest.predict(rows))


FORESTS = [
    ("regression", "identity", "sum", (THRESHOLD,), False),
    ("regression", "identity", "mean", (THRESHOLD, CATEGORIES, OBLIQUE), True),
    ("regression", "identity", "softmax", (THRESHOLD, CATEGORIES), False),
    ("regression", "exp", "sum", (OBLIQUE, CATEGORIES), False),
    ("regression", "sigmoid", "mean", (THRESHOLD, OBLIQUE), False),
    ("binary", "sigmoid", "sum", (THRESHOLD, CATEGORIES), False),
    ("binary", "sigmoid", "softmax", (THRESHOLD, CATEGORIES, OBLIQUE), True),
    ("probability", "identity", "mean", (THRESHOLD,), False),
    ("classes", "softmax", "sum", (OBLIQUE,), False),
    ("classes", "softmax", "mean", (OBLIQUE, CATEGORIES), True),
    ("classes", "softmax", "softmax", (THRESHOLD, CATEGORIES, OBLIQUE), False),
]


@pytest.mark.parametrize(("task", "link", "combine", "kinds", "linear"), FORESTS)
def test_a_thousand_rows_go_as_in_python(
    show: Open, task: str, link: Any, combine: str, kinds: tuple[int, ...], linear: bool
):
    rng = np.random.default_rng([len(task), len(link), len(combine), len(kinds)])
    forest = random_forest(
        rng, n_trees=6, max_splits=24, n_features=4, n_outputs=1 if task == "binary" else 3, kinds=kinds,
        combine=combine, linear=linear, task=task,
    )  # fmt: skip
    forest = replace(forest, link=link)
    rows = random_rows(rng, forest, 1000)
    if linear:
        # Sums of large numbers that cancel out say nothing about an exponential's last digit.
        rows = np.where(np.abs(rows) > 1e6, 3.0, rows)
    page = show(forest, rows[:50])
    agrees(page, forest, rows)


def test_large_leaf_weights_and_float32_rows(show: Open):
    rng = np.random.default_rng(0)
    forest = complete_forest(
        rng, 7, 4, 5, n_outputs=3, combine="softmax", leaf_weights=rng.normal(scale=900, size=7 * 16),
        base=rng.normal(size=3), link="softmax", classes=np.array(["a", "b", "c"]),
    )  # fmt: skip
    rows = rng.normal(size=(1000, 5)).astype(np.float32)
    rows[rng.random(rows.shape) < 0.1] = np.nan
    agrees(show(forest, rows[:60]), forest, rows)


# ---------------------------------------------------------------- a page like a reader's


@pytest.fixture(scope="module")
def table() -> tuple[Forest, np.ndarray, np.ndarray]:
    """A tree on a number, a category, a date, a whole number and a truth value, with rows and labels."""
    rng = np.random.default_rng(5)
    forest = Forest(
        tree_start=[0, 11],
        kind=[THRESHOLD, CATEGORIES, THRESHOLD, LEAF, LEAF, THRESHOLD, LEAF, LEAF, THRESHOLD, LEAF, LEAF],
        left=[1, 3, 5, -1, -1, 8, -1, -1, 9, -1, -1],
        right=[2, 4, 7, -1, -1, 6, -1, -1, 10, -1, -1],
        feature=[0, 1, 2, -1, -1, 3, -1, -1, 4, -1, -1],
        threshold=[0.25, 0, 86400.0 * 365, 0, 0, 3.5, 0, 0, 0.5, 0, 0],
        missing_left=[True, False, False, False, False, True, False, False, False, False, False],
        leaf_values=np.log([[0.9, 0.1], [0.3, 0.7], [0.6, 0.4], [0.2, 0.8], [0.55, 0.45], [0.05, 0.95]]),
        n_features=6,
        category_start=[0, 0, 2, *[2] * 9],
        category_codes=[0, 2],
        feature_names=("weight", "colour", "born", "children", "member", "never used"),
        feature_types=("float", "category", "datetime", "int", "bool", "float"),
        categories={1: ("red", "green", "blue")},
        classes=np.array(["no", "yes"]),
        link="softmax",
    )
    rows = np.column_stack(
        [
            rng.normal(size=240).round(2), rng.integers(0, 3, 240), rng.integers(0, 800, 240) * 86400.0,
            rng.integers(0, 8, 240), rng.integers(0, 2, 240), rng.normal(size=240),
        ]
    )  # fmt: skip
    rows[::9, 0] = np.nan
    labels = np.where(rng.random(240) < forest.predict_proba(rows)[:, 1], "yes", "no")
    return forest, rows, labels


@pytest.fixture
def reader(show: Open, table: tuple[Forest, np.ndarray, np.ndarray]) -> Any:
    return show(*table, title="Who joins?")


def control(page: Any, name: str) -> Any:
    """The cell of a feature in the panel."""
    return page.locator(".cell").filter(has=page.get_by_text(name, exact=True))


def shown_share(page: Any, label: str) -> str:
    return page.locator(".share").filter(has=page.get_by_text(label, exact=True)).locator(".number").inner_text()


def plain(text: str) -> str:
    """A text without the marks that keep names from turning the text around them."""
    return text.replace("\u2068", "").replace("\u2069", "")


def passed_leaf(page: Any) -> int:
    return int(page.locator(".node.leaf.passed").get_attribute("data-node"))


def test_picked_rows_show_their_leaf_and_prediction(reader: Any, table: tuple[Forest, np.ndarray, np.ndarray]):
    forest, rows, labels = table
    for place in (0, 7, 9, 101, 239):
        reader.get_by_label("Row", exact=True).select_option(str(place))
        assert passed_leaf(reader) == forest.apply(rows[[place]])[0, 0]
        assert shown_share(reader, "yes") == percent(forest.predict_proba(rows[[place]])[0, 1])
        assert f"Truth: {labels[place]}" in plain(reader.locator(".verdict").inner_text())
    reader.get_by_label("The next row", exact=True).click()
    assert reader.evaluate("hardwood.current().place") == -1  # after the last row comes the typical one
    reader.get_by_label("Which rows").select_option("wrong")
    wrong = np.flatnonzero(forest.predict(rows) != labels)
    offered = [
        int(value) for value in reader.locator("select[aria-label=Row] option").evaluate_all("o => o.map(x => x.value)")
    ]
    assert offered == [-1, *wrong.tolist()]
    assert reader.evaluate("hardwood.current().place") == wrong[0]


def test_typing_sliding_choosing_and_leaving_out(reader: Any, table: tuple[Forest, np.ndarray, np.ndarray]):
    forest, rows, _ = table
    row = rows[0].copy()

    def same() -> None:
        np.testing.assert_array_equal(reader.evaluate("hardwood.current().row"), row)
        assert passed_leaf(reader) == forest.apply(row[None])[0, 0]
        assert shown_share(reader, "no") == percent(forest.predict_proba(row[None])[0, 0])

    reader.get_by_label("Row", exact=True).select_option("1")
    row = rows[1].copy()
    same()
    weight = control(reader, "weight")
    for text, value in (
        ("0.25", 0.25),
        ("0.24999999999999997", 0.24999999999999997),
        ("-inf", -np.inf),
        ("7e2", 700.0),
    ):
        weight.get_by_role("textbox").fill(text)
        row[0] = value
        same()
    weight.get_by_role("textbox").fill("heavy")
    assert "Write a number" in weight.get_by_role("alert").inner_text()
    same()
    weight.get_by_label("missing").check()
    row[0] = np.nan
    same()
    weight.get_by_label("missing").uncheck()
    row[0] = rows[1, 0]
    same()

    control(reader, "colour").get_by_role("combobox").select_option("green")
    row[1] = 1
    same()
    control(reader, "colour").get_by_role("combobox").select_option("missing")
    row[1] = np.nan
    same()
    control(reader, "member").get_by_role("combobox").select_option("true")
    row[4] = 1
    same()

    row[0] = 0.3
    weight.get_by_role("textbox").fill("0.3")
    born = control(reader, "born").get_by_role("textbox")
    for text, seconds in (("1970-12-31 23:59:59.5", 86400.0 * 365 - 0.5), ("1971-01-01", 86400.0 * 365)):
        born.fill(text)
        row[2] = seconds
        same()
    children = control(reader, "children").get_by_role("slider")
    children.focus()
    reader.keyboard.press("Home")
    row[3] = rows[:, 3].min()
    same()
    reader.keyboard.press("ArrowRight")
    row[3] += 1
    same()
    slider = weight.get_by_role("slider")
    slider.fill("250")
    row[0] = reader.evaluate("hardwood.current().row[0]")
    low, high = np.nanmin(rows[:, 0]), np.nanmax(rows[:, 0])
    assert row[0] == pytest.approx(low + (high - low) / 4, abs=(high - low) / 500)
    same()

    reader.get_by_text("Undo changes").click()
    row = rows[1].copy()
    same()


def test_every_reachable_leaf_is_reached_by_hand(reader: Any, table: tuple[Forest, np.ndarray, np.ndarray]):
    forest, rows, _ = table
    first = [int(np.flatnonzero(forest.apply(rows)[:, 0] == leaf)[0]) for leaf in np.unique(forest.apply(rows))]
    for place in first:
        for column, name in enumerate(("weight", "colour", "born", "children", "member")):
            cell = rows[place, column]
            if name in ("colour", "member"):
                control(reader, name).get_by_role("combobox").select_option(str(int(cell)))
            elif name == "born":
                day = np.datetime64(0, "D") + np.timedelta64(int(cell // 86400), "D")
                control(reader, name).get_by_role("textbox").fill(str(day))
            else:
                control(reader, name).get_by_role("textbox").fill("" if np.isnan(cell) else repr(float(cell)))
        assert passed_leaf(reader) == forest.apply(rows[[place]])[0, 0]


def test_nodes_open_fold_and_are_found(reader: Any):
    node = reader.locator(".node")
    assert node.count() == 11
    reader.locator("[data-node='1'] .first").click()
    card = reader.get_by_role("complementary", name="The selected node")
    assert "in {red, blue}" in plain(card.inner_text())
    assert "weight < 0.25 or missing" in plain(card.inner_text())
    assert reader.locator("[data-node='1']").get_attribute("aria-selected") == "true"
    card.get_by_label("Close").click()
    assert not card.is_visible()

    reader.locator("[data-fold='2']").click()
    assert node.count() == 5
    assert reader.locator("[data-node='2']").get_attribute("aria-expanded") == "false"
    assert "4 leaves" in reader.locator("[data-node='2']").text_content()
    reader.locator("[data-node='2'] .first").dblclick()
    assert node.count() == 11  # what was open below is open again
    reader.get_by_role("button", name="Unfold").click()
    assert node.count() == 11
    reader.get_by_role("button", name="Fold", exact=True).click()
    path = reader.locator(".node.passed").count()
    assert node.count() == 2 * path - 1

    reader.get_by_label("Find a feature").fill("child")
    assert "1 split" in reader.locator(".found-count").inner_text()
    reader.keyboard.press("Enter")
    assert reader.locator(".node.found").get_attribute("data-node") == "5"
    assert reader.locator(".node.selected").get_attribute("data-node") == "5"
    reader.get_by_label("Find a feature").fill("never")
    assert "no split looks at it" in reader.locator(".found-count").inner_text()


def test_the_picture_is_moved_and_zoomed(reader: Any):
    world = reader.locator(".canvas > g")

    def view() -> tuple[float, ...]:
        return tuple(float(part) for part in re.findall(r"-?[\d.]+(?:e-?\d+)?", world.get_attribute("transform")))

    x, y, scale = view()
    box = reader.locator(".canvas").bounding_box()
    corner = (box["x"] + 12, box["y"] + 12)
    reader.mouse.move(*corner)
    reader.mouse.down()
    reader.mouse.move(corner[0] + 60, corner[1] + 40, steps=4)
    reader.mouse.up()
    assert view() == pytest.approx((x + 60, y + 40, scale))
    reader.mouse.wheel(0, -200)
    reader.wait_for_function(
        "s => !document.querySelector('.canvas > g').getAttribute('transform').endsWith(s)", arg=f"scale({scale})"
    )
    assert view()[2] > scale
    reader.get_by_role("button", name="Fit").click()
    assert view() == pytest.approx((x, y, scale))


def test_the_keyboard_walks_the_tree(reader: Any):
    focused = "document.activeElement.getAttribute('data-node')"
    reader.locator("[data-node='0']").focus()
    for key, node in [
        ("ArrowDown", "1"), ("ArrowDown", "3"), ("ArrowDown", "4"), ("ArrowDown", "2"), ("ArrowUp", "4"),
        ("ArrowLeft", "1"), ("ArrowRight", "3"), ("End", "7"), ("Home", "0"),
    ]:  # fmt: skip
        reader.keyboard.press(key)
        assert reader.evaluate(focused) == node, key
    assert reader.locator("[data-node][tabindex='0']").count() == 1
    reader.keyboard.press("ArrowLeft")
    assert reader.locator("[data-node='0']").get_attribute("aria-expanded") == "false"
    assert reader.evaluate(focused) == "0"
    reader.keyboard.press("ArrowRight")
    assert reader.locator("[data-node='0']").get_attribute("aria-expanded") == "true"
    reader.keyboard.press("ArrowRight")
    reader.keyboard.press("Enter")
    assert reader.locator(".node.selected").get_attribute("data-node") == "1"
    reader.keyboard.press("Space")
    assert reader.locator("[data-node='3']").count() == 0
    reader.keyboard.press("Escape")
    assert reader.locator(".node.selected").count() == 0
    outline = reader.locator("[data-node='1'] .halo").evaluate("e => getComputedStyle(e).stroke")
    assert outline != "none"  # where the keyboard is can be seen


def test_a_screen_reader_is_told_what_there_is(reader: Any):
    tree = reader.get_by_role("tree", name="The tree, 5 splits shown")
    items = tree.get_by_role("treeitem")
    assert items.count() == 11
    spoken = [plain(text) for text in items.evaluate_all("all => all.map(e => e.getAttribute('aria-label'))")]
    assert spoken[0] == "weight; up < 0.25, down \u2265 0.25, 240 rows"
    assert spoken[1].startswith("< 0.25: colour; up in {red, blue}, down is green, ")
    assert "leaf, no 90%" in spoken[2]
    levels = items.evaluate_all("all => all.map(e => e.getAttribute('aria-level'))")
    assert levels == ["1", "2", "3", "3", "2", "3", "4", "5", "5", "4", "3"]
    for name in ("weight", "colour", "born", "children", "member"):
        assert reader.get_by_label(name, exact=True).is_visible()
    for each in reader.locator("button, input, select").all():
        said = each.evaluate("e => e.ariaLabel || e.labels?.[0]?.textContent || e.textContent")
        assert said.strip()
    control(reader, "children").get_by_role("textbox").fill("2")
    reader.wait_for_function("() => /Prediction: /.test(document.querySelector('.sticky [role=status]').textContent)")


def test_tabs_features_and_performance(reader: Any, table: tuple[Forest, np.ndarray, np.ndarray]):
    forest, rows, labels = table
    reader.get_by_role("tab", name="Tree").focus()
    reader.keyboard.press("ArrowRight")
    assert reader.get_by_role("tab", name="Features").get_attribute("aria-selected") == "true"
    card = reader.locator(".feature")
    assert card.count() == 5
    weight = card.filter(has=reader.get_by_role("heading", name="weight"))
    assert weight.locator(".cut").count() == 1
    control(reader, "weight").get_by_role("textbox").fill("-0.5")
    here = float(weight.locator(".here").get_attribute("x1"))
    control(reader, "weight").get_by_role("textbox").fill("0.5")
    assert float(weight.locator(".here").get_attribute("x1")) > here
    counts = np.bincount(rows[:, 1].astype(int))
    listed = card.filter(has=reader.get_by_role("heading", name="colour")).locator(".words td.number").all_inner_texts()
    assert listed == [str(count) for count in sorted(counts.tolist(), reverse=True)]
    weight.get_by_role("button", name="Find").click()
    assert reader.get_by_role("tab", name="Tree").get_attribute("aria-selected") == "true"
    assert reader.locator(".node.found").count() == 1

    reader.get_by_role("tab", name="Performance").click()
    facts = reader.locator(".facts").inner_text()
    assert percent(float(np.mean(forest.predict(rows) == labels))) in facts
    cells = [int(text.replace(",", "")) for text in reader.locator(".confusion .hit").all_inner_texts()]
    called = forest.predict(rows)
    counts = [int(np.sum((labels == true) & (called == name))) for true in forest.classes for name in forest.classes]
    assert cells == counts
    assert reader.get_by_role("img", name="ROC curve of yes").is_visible()
    assert reader.get_by_role("heading", name="Calibration").is_visible()


def test_regression_pages(show: Open):
    rng = np.random.default_rng(3)
    forest = complete_forest(
        rng, 3, 3, 2, n_outputs=2, combine="sum", base=np.array([0.5, -1.0]), output_names=("left", "right")
    )
    rows = rng.normal(size=(80, 2))
    truth = forest.predict(rows) + rng.normal(size=(80, 2))
    page = show(forest, rows, truth)
    page.get_by_role("tab", name="Performance").click()
    rmse = np.sqrt(np.mean((truth - forest.predict(rows)) ** 2, axis=0))
    assert number(rmse[0], 4) in page.locator(".facts").inner_text()
    page.get_by_label("Output").select_option("1")
    assert number(rmse[1], 4) in page.locator(".facts").inner_text()
    page.get_by_role("tab", name="Trees").click()
    page.get_by_label("Which rows").select_option("worst")
    worst = np.abs(truth - forest.predict(rows)).sum(axis=1).argmax()
    assert page.evaluate("hardwood.current().place") == worst


# ---------------------------------------------------------------- themes, widths, safety


def test_themes(show: Open, table: tuple[Forest, np.ndarray, np.ndarray]):
    ground = "getComputedStyle(document.body).backgroundColor"
    light = show(*table, context={"color_scheme": "light"})
    dark = show(*table, context={"color_scheme": "dark"})
    colours = light.evaluate(ground), dark.evaluate(ground)
    assert colours[0] != colours[1]
    light.get_by_role("button", name="Dark theme").click()
    assert light.evaluate(ground) == colours[1]
    dark.get_by_role("button", name="Light theme").click()
    assert dark.evaluate(ground) == colours[0]


def test_a_phone_needs_no_sideways_scrolling(show: Open, table: tuple[Forest, np.ndarray, np.ndarray]):
    page = show(*table, context={"viewport": {"width": 360, "height": 740}, "has_touch": True})
    for tab in ("Tree", "Features", "Performance"):
        page.get_by_role("tab", name=tab).click()
        assert page.evaluate("document.scrollingElement.scrollWidth") <= 360
        small = "all => all.filter(e => e.checkVisibility() && parseFloat(getComputedStyle(e).fontSize) < 11).length"
        assert page.locator("p, td, th, button, label").evaluate_all(small) == 0
    page.get_by_role("tab", name="Tree").click()
    page.locator("[data-node='0'] .first").tap()
    assert page.get_by_role("complementary", name="The selected node").is_visible()


HOSTILE = (
    "<script>window.pwned=1</script>",
    "</script><script>window.pwned=1</script>",
    '<img src=x onerror="window.pwned=1">',
    "quotes \" ' ` and ${1}",
    "two\nlines\u2028three",
    "long " * 100,
    "\u202eevil \u05e9\u05dc\u05d5\u05dd",
    "\u0627\u0644\u0639\u0631\u0628\u064a\u0629 name",
    "<!-- comment ]]>",
)


def test_hostile_names_are_shown_and_not_executed(show: Open):
    rng = np.random.default_rng(1)
    forest = complete_forest(
        rng, 2, 4, len(HOSTILE), n_outputs=3, combine="mean", link="softmax", feature_names=HOSTILE,
        classes=np.array(HOSTILE[:3]),
    )  # fmt: skip
    words = np.arange(len(HOSTILE))
    forest = replace(forest, categories={4: HOSTILE})
    rows = rng.normal(size=(60, len(HOSTILE)))
    rows[:, 4] = rng.choice(words, 60)
    page = show(forest, rows, forest.predict(rows), title="</title><script>window.pwned=1</script>")
    for tab in ("Features", "Performance", "Trees"):
        page.get_by_role("tab", name=tab).click()
    for node in page.locator(".node").all():
        node.dispatch_event("click")
    for option in page.get_by_label("Row", exact=True).locator("option").all()[:5]:
        page.get_by_label("Row", exact=True).select_option(option.get_attribute("value"))
    page.get_by_label("Find a feature").fill("<img")
    page.keyboard.press("Enter")
    assert page.evaluate("window.pwned") is None
    assert page.locator("img, iframe, object, embed, link, base, form").count() == 0
    assert page.locator("script").count() == 2
    assert page.locator("h1").inner_text() == "</title><script>window.pwned=1</script>"
    labels = page.locator(".cell > label").all_inner_texts()
    assert {
        "<script>window.pwned=1</script>",
        '<img src=x onerror="window.pwned=1">',
        "two\\nlines\\u2028three",
    } <= set(labels)
    assert "\\u202eevil \u05e9\u05dc\u05d5\u05dd" in labels
    for wide in (1280, 360):
        page.set_viewport_size({"width": wide, "height": 800})
        for tab in ("Features", "Performance", "Trees"):
            page.get_by_role("tab", name=tab).click()
            assert page.evaluate("document.scrollingElement.scrollWidth") <= wide


def test_the_policy_lets_nothing_else_run(browser: Any, tmp_path: Path):
    forest = Forest(**small_fields())
    path = draw.explain_page(forest, np.zeros((3, 3)), path=tmp_path / "page.html")
    text = path.read_text(encoding="utf-8")
    path.write_text(
        text.replace("</body>", "<script>window.pwned=1</script><img src=x onerror='window.pwned=1'></body>")
    )
    tab = Tab(browser)
    tab.page.goto(path.as_uri())
    tab.page.evaluate("hardwood.ready")
    assert tab.page.evaluate("window.pwned") is None
    assert len([each for each in tab.complaints if "Content Security Policy" in each]) >= 2
    tab.context.close()


# ---------------------------------------------------------------- ensembles and edges


def test_the_trees_that_carry_a_prediction(show: Open):
    rng = np.random.default_rng(2)
    forest = complete_forest(
        rng, 30, 4, 5, combine="softmax", leaf_weights=rng.normal(scale=2, size=30 * 16), link="sigmoid",
        classes=np.array(["no", "yes"]), feature_names=tuple("abcde"),
    )  # fmt: skip
    rows = rng.normal(size=(90, 5))
    page = show(forest, rows, forest.predict(rows))
    agrees(page, forest, rows)
    for place in (0, 33, 89):
        page.get_by_label("Row", exact=True).select_option(str(place))
        shares = forest.tree_weights(rows[[place]])[0]
        order = np.argsort(-shares, kind="stable")
        listed = page.locator(".tree-row .tree-name").all_inner_texts()
        assert listed == [f"Tree {tree}" for tree in order[:8]]
        assert float(page.locator(".tree-row .number").first.inner_text().rstrip("%")) == pytest.approx(
            100 * shares[order[0]], abs=0.06
        )
        second = page.locator(".tree-row").nth(1)
        second.click()
        assert page.evaluate("hardwood.current().tree") == order[1]
        assert page.get_by_label("Tree", exact=True).input_value() == str(order[1])
        assert passed_leaf(page) == forest.apply(rows[[place]])[0, order[1]] + forest.tree_start[order[1]]
    page.get_by_role("button", name="Show all 30 trees").click()
    assert page.locator(".tree-row").count() == 30
    tree = page.evaluate("hardwood.current().tree")
    page.get_by_label("The next tree", exact=True).click()
    assert page.evaluate("hardwood.current().tree") == (tree + 1) % 30
    page.get_by_label("Find a feature").fill("c")
    assert f"{np.count_nonzero(forest.feature == 2)} in " in page.locator(".found-count").inner_text()
    assert page.locator(".node.found").count() <= np.count_nonzero(forest.feature == 2)


def test_pages_of_little(show: Open):
    rng = np.random.default_rng(4)
    leaf = Forest(
        tree_start=[0, 1], kind=[LEAF], left=[-1], right=[-1], feature=[-1], threshold=[0.0], missing_left=[False],
        leaf_values=[[2.5]], n_features=1,
    )  # fmt: skip
    page = show(leaf, np.zeros((1, 1)))
    assert page.locator(".value b").inner_text() == "2.5"
    assert page.locator(".node").count() == 1
    page.get_by_role("tab", name="Features").click()
    page.get_by_role("tab", name="Performance").click()
    assert "not given" in page.get_by_role("tabpanel").inner_text()

    forest = random_forest(
        rng, n_trees=2, n_features=3, kinds=(THRESHOLD,), task="regression", named=False, linear=False
    )
    page = show(forest, np.full((4, 3), np.nan), sample_rows=0)
    assert page.get_by_label("Row", exact=True).locator("option").all_inner_texts() == ["A typical row"]
    for tab in ("Features", "Performance", "Trees"):
        page.get_by_role("tab", name=tab).click()


def test_a_deep_tree_is_folded_and_not_drawn_again_for_every_change(show: Open):
    rng = np.random.default_rng(6)
    forest = complete_forest(rng, 1, 9, 6, feature_names=tuple("abcdef"))
    page = show(forest, rng.normal(size=(50, 6)))
    assert page.locator(".node").count() < 80
    page.get_by_role("button", name="Unfold").click()
    assert page.locator(".node").count() == forest.node_count
    page.evaluate("window.kept = [...document.querySelectorAll('.node')]")
    slider = control(page, "abcdef"[forest.feature[0]]).get_by_role("slider")
    slider.press("End")
    slider.press("Home")
    assert page.evaluate("kept.every((node) => node.isConnected)")
    row = np.array(page.evaluate("hardwood.current().row"))
    assert passed_leaf(page) == forest.apply(row[None])[0, 0]
