"""The explorer's file: complete by itself, safe, small, and made from the sources that stand beside it."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hardwood import GradTreeClassifier, draw
from hardwood.errors import InvalidArgumentError
from hardwood.forest import Forest
from helpers.explorer import answers, unpacked
from helpers.forests import complete_forest, forests, random_forest, random_rows

WEB = Path(__file__).parents[2] / "web"
ASSETS = files("hardwood.draw") / "_explorer"


class Page(HTMLParser):
    """Collects the elements of a page with what is in scripts and styles."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.inside: dict[str, list[str]] = {"script": [], "style": [], "title": []}
        self.policy = ""
        self.open = ""
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.open = tag
        given = dict(attrs)
        assert not {"src", "href", "onclick", "onload", "onerror", "style"} & given.keys()
        if given.get("http-equiv") == "Content-Security-Policy":
            self.policy = given["content"] or ""
        if tag in self.inside:
            self.inside[tag].append("")

    def handle_endtag(self, tag: str) -> None:
        self.open = ""

    def handle_data(self, data: str) -> None:
        if self.open in self.inside:
            self.inside[self.open][-1] += data

    @property
    def document(self) -> dict[str, Any]:
        return json.loads(self.inside["script"][0])


@settings(max_examples=30)
@given(forests(), st.integers(0, 2**32 - 1), st.booleans())
def test_the_page_is_whole_for_every_forest(tmp_path_factory: Any, forest: Forest, seed: int, known: bool):
    rng = np.random.default_rng(seed)
    rows = random_rows(rng, forest, 30)
    if forest.leaf_coef is not None:
        rows = np.where(np.abs(rows) > 1e6, 2.0, rows)
    truth = answers(rng, forest, 30) if known else None
    path = tmp_path_factory.mktemp("page") / "new folder" / "explorer.html"
    assert draw.explain_page(forest, rows, truth, path=path) == path
    page = Page(path)
    assert sorted(page.tags) == sorted(
        [
            "html",
            "head",
            "meta",
            "meta",
            "meta",
            "meta",
            "title",
            "style",
            "body",
            "div",
            "noscript",
            "script",
            "script",
        ]
    )
    for kind in ("script", "style"):
        digest = base64.b64encode(hashlib.sha256(page.inside[kind][-1].encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in page.policy
    assert page.policy.startswith("default-src 'none'; ")
    text = path.read_text(encoding="utf-8")
    assert set(re.findall(r"https?://[^\"'` )<]*", text)) <= {"http://www.w3.org/2000/svg"}
    document = page.document
    assert document["n_rows"] == 30
    assert (document["performance"] is not None) == known
    np.testing.assert_array_equal(
        unpacked(document["sample"]["cells"]).reshape(-1, forest.n_features), rows[document["sample"]["index"]]
    )


def test_nothing_in_a_name_ends_the_data(tmp_path: Path):
    evil = ("</script><script>alert(1)</script>", "<!--<script>", "\u2028\x00 &lt; ]]>", "\ud800")
    forest = complete_forest(np.random.default_rng(0), 1, 2, 4, feature_names=evil)
    path = draw.explain_page(forest, np.zeros((1, 4)), path=tmp_path / "page.html", title="</title>&<script>")
    page = Page(path)
    assert page.tags.count("script") == 2
    assert page.inside["title"] == ["</title>&<script>"]
    assert [feature["name"] for feature in page.document["forest"]["features"]] == [
        evil[0], evil[1], "\\u2028\\x00 &lt; ]]>", "\\ud800",
    ]  # fmt: skip


def test_two_hundred_trees_take_less_than_two_megabytes(tmp_path: Path):
    rng = np.random.default_rng(0)
    forest = complete_forest(
        rng, 200, 7, 30, n_outputs=1, combine="softmax", link="sigmoid", leaf_weights=rng.normal(size=200 * 128),
        classes=np.array(["no", "yes"]),
    )  # fmt: skip
    rows = rng.normal(size=(1000, 30))
    path = draw.explain_page(forest, rows, forest.predict(rows), path=tmp_path / "page.html")
    assert path.stat().st_size < 2_000_000


def test_an_estimator_is_shown_as_its_forest_is(tmp_path: Path):
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"size": rng.normal(size=120), "colour": rng.choice(["red", "green", "blue"], 120)})
    y = np.where((X["size"] > 0) ^ (X["colour"] == "red"), "left", "right")
    model = GradTreeClassifier(max_depth=2, n_restarts=2, max_iter=5, random_state=0, device="cpu").fit(X, y)
    pages = [
        Page(draw.explain_page(made, table, pd.Series(y), path=tmp_path / f"{k}.html"))
        for k, (made, table) in enumerate(
            [(model, X), (model, X.to_numpy(object)), (model.forest_, X), (model.forest_, model.columns_.to_raw(X))]
        )
    ]
    for page in pages[1:]:
        assert page.document == pages[0].document
    assert pages[0].document["performance"]["accuracy"] == model.score(X, y)
    assert pages[0].document["forest"]["features"][1]["words"] == ["blue", "green", "red"]


def test_rows_stay_out_if_asked(tmp_path: Path):
    forest = random_forest(np.random.default_rng(0), n_features=2, task="binary", kinds=(1,), n_trees=1, linear=False)
    secret = np.full((40, 2), 1234.5678)
    path = draw.explain_page(forest, secret, path=tmp_path / "page.html", sample_rows=0)
    document = Page(path).document
    assert document["sample"]["index"] == [] and document["sample"]["cells"]["length"] == 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"X": np.zeros((0, 2))}, "X='a table of 0 rows'"),
        ({"X": np.zeros((2, 3)), "y": None}, "the forest was made for 2"),
        ({"y": np.zeros(3)}, "does not fit the 2 rows of X"),
        ({"y": np.array(["a", "b"])}, "is not numeric"),
        ({"sample_rows": -1}, "sample_rows=-1"),
        ({"sample_rows": True}, "sample_rows=True"),
        ({"title": " "}, "title=' '"),
        ({"model": GradTreeClassifier()}, "is not fitted"),
        ({"model": "forest"}, "has no forest"),
    ],
)
def test_bad_arguments(tmp_path: Path, changes: dict[str, Any], message: str):
    forest = random_forest(np.random.default_rng(1), n_features=2, n_outputs=1, task="regression", named=False)
    path = tmp_path / "page.html"
    path.write_text("kept")
    arguments = {"model": forest, "X": np.zeros((2, 2)), "y": np.zeros(2), **changes}
    with pytest.raises(InvalidArgumentError, match=re.escape(message)):
        draw.explain_page(**arguments, path=path)
    assert path.read_text() == "kept"


# ---------------------------------------------------------------- assets


def test_the_assets_are_made_from_the_sources():
    if not (WEB / "src").is_dir():
        pytest.skip("the front end's sources are not here, as in an installed package")
    digest = hashlib.sha256()
    names = [f"src/{path.name}" for path in (WEB / "src").iterdir()]
    for name in sorted([*names, "build.mjs", "package-lock.json", "tsconfig.json"]):
        digest.update(f"{name}\0".encode() + (WEB / name).read_bytes() + b"\0")
    first = (ASSETS / "app.js").read_text(encoding="utf-8").partition("\n")[0]
    assert digest.hexdigest() in first, "web/ was changed: run npm ci && npm run build there, and commit the assets"


def test_the_build_makes_the_same_assets_again():
    if shutil.which("node") is None or not (WEB / "node_modules" / "esbuild").is_dir():
        pytest.skip("needs node, and npm ci in web/")
    made = subprocess.run(
        ["node", "build.mjs", "--check"], check=False, cwd=WEB, capture_output=True, text=True, timeout=60
    )
    assert made.returncode == 0, made.stderr


def test_the_assets_can_stand_inside_a_page():
    for name in ("app.js", "app.css"):
        text = (ASSETS / name).read_text(encoding="utf-8")
        assert text.isascii()
        assert not re.search(r"</(script|style)|<!--", text, re.IGNORECASE)
        assert not re.search(r"\b(innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function)", text)
        assert not re.search(r"\bfetch\(|XMLHttpRequest|WebSocket|sendBeacon|url\(|@import", text)
