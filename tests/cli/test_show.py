"""`hardwood show`: what `draw` and `explain` say about the forest in a folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from hardwood import draw, explain
from hardwood.cli._tables import read_table
from helpers.command_line import Result, load

Run = Callable[..., Result]


def test_rules_as_text(tree: Path, ensemble: Path, run: Run):
    forest = load(tree)
    said = run("show", tree).out
    assert said.startswith("answer: classification into NA, no, yes\ngradtree: 1 tree of depth ")
    assert "gradtree  greedy" in said
    assert said.endswith(f"\n\n{draw.text(forest)}\n")
    assert run("show", tree, "--max-depth", 1, "--exact").out.endswith(f"\n\n{draw.text(forest, 0, 1, exact=True)}\n")
    listed = "\n".join(map(str, explain.rules(forest)))
    assert run("show", tree, "--rules").out.endswith(f"\n\n{listed}\n")
    assert run("show", ensemble, "--tree", 5).out.endswith(f"\n\n{draw.text(load(ensemble), 5)}\n")


def test_a_picture_and_a_page(tree: Path, ensemble: Path, folder: Path, tmp_path: Path, run: Run):
    picture, page, new = tmp_path / "tree.svg", tmp_path / "page.html", folder / "new.csv"
    assert run("show", tree, "--svg", picture, "--html", page).out == ""
    assert picture.read_text() == draw.svg(load(tree), title="answer") + "\n"
    assert run("show", ensemble, "--tree", 2, "--max-depth", 1, "--svg", "-").out == (
        draw.svg(load(ensemble), 2, max_depth=1, title="price") + "\n"
    )
    plain = page.read_text()
    assert run("show", tree, "--svg", picture, "--html", page, "--table", new).code == 0
    assert picture.read_text() == draw.svg(load(tree), X=read_table(str(new)).raw(load(tree)), title="answer") + "\n"
    assert "balanced accuracy" not in plain
    assert "balanced accuracy" in page.read_text()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["page.html", "tree.svg"]


def test_bad_input_is_told_in_a_line(tree: Path, folder: Path, tmp_path: Path, run: Run):
    for arguments, message in [
        ((tree, "--tree", 1), "--tree=1: the model has 1 tree(s); pass a number from 0 to 0"),
        ((tree, "--table", folder / "new.csv"), "--table is for --svg and --html"),
        ((tree, "--rules", "--exact"), "--rules go without --exact and --max-depth"),
        ((tree, "--html", "-"), "--html needs a file name"),
        ((tree, "--svg", tmp_path), "--svg="),
        ((folder / "train.csv",), "is no folder"),
    ]:
        done = run("show", *arguments)
        assert (done.code, done.out) == (2, ""), arguments
        assert message in done.err
        assert done.err.count("\n") == 1
