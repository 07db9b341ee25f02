"""`hardwood explain`: what the explanations of Python say, for the rows that are asked for."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np

from hardwood import draw, explain
from hardwood.cli._tables import read_table
from helpers.command_line import Result, load

Run = Callable[..., Result]


def test_a_row_in_words(tree: Path, ensemble: Path, folder: Path, run: Run):
    new = folder / "new.csv"
    for model in (tree, ensemble):
        forest = load(model)
        raw = read_table(str(new)).raw(forest)
        for n_trees in (1, 3):
            done = run("explain", model, new, "--row", 5, "--row", 2, "--trees", n_trees)
            assert done.code == 0
            texts = [f"Row {row}\n{explain.row(forest, raw[row], n_trees)}\n" for row in (5, 2)]
            assert done.out == "\n".join(texts)


def test_all_rows_as_json_lines(ensemble: Path, folder: Path, tmp_path: Path, run: Run):
    place = tmp_path / "reasons.jsonl"
    assert run("explain", ensemble, folder / "new.csv", "--json", "-o", place).out == ""
    documents = [json.loads(line) for line in place.read_text().splitlines()]
    forest = load(ensemble)
    raw = read_table(str(folder / "new.csv")).raw(forest)
    assert [each["row"] for each in documents] == list(range(60))
    assert [each["prediction"] for each in documents] == forest.predict(raw).tolist()
    for document, shares in zip(documents, forest.tree_weights(raw), strict=True):
        assert [reason["share"] for reason in document["reasons"]] == sorted(shares.tolist(), reverse=True)[:3]
    assert run("explain", ensemble, folder / "new.csv", "--json", "-r", 7).out == place.read_text().splitlines(True)[7]


def test_importances_of_training_and_of_a_table(tree: Path, ensemble: Path, folder: Path, run: Run):
    for model in (tree, ensemble):
        forest = load(model)
        assert forest.feature_names is not None
        said = json.loads((model / "model.json").read_text())["importances"]
        assert np.isclose(sum(said), 1)
        lines = run("explain", model, "--importances").out.splitlines()
        assert lines[0].split() == ["column", "share"]
        order = np.argsort(-np.array(said), kind="stable")
        assert [line.split() for line in lines[1 : 1 + len(said)]] == [
            [forest.feature_names[place], f"{said[place]:.3f}"] for place in order
        ]
        table = read_table(str(folder / "new.csv"))
        raw = table.raw(forest)
        assert table.cells is not None
        truth = np.array(table.cells["answer"]) if model == tree else np.array(table.cells["price"], float)
        shuffled = explain.permutation_importances(forest, raw, truth)
        found = {
            line.split()[0]: line.split()[1:]
            for line in run("explain", model, folder / "new.csv", "--importances").out.splitlines()[1:]
            if line.count("  ")
        }
        for place, share in enumerate(explain.importances(forest, raw)):
            cells = found[forest.feature_names[place]]
            assert cells[:2] == [f"{share:.3f}", f"{shuffled.means[place]:.4g}"]


def test_the_explorer_is_that_of_python(tree: Path, ensemble: Path, folder: Path, tmp_path: Path, run: Run):
    table = read_table(str(folder / "new.csv"))
    assert table.cells is not None
    for model, target, learner in ((tree, "answer", "gradtree"), (ensemble, "price", "grande")):
        forest, place, wanted = load(model), tmp_path / "page.html", tmp_path / "wanted.html"
        cells = table.cells[target]
        truth = np.array(cells) if model == tree else np.array(cells, float)
        done = run("explain", model, folder / "new.csv", "--page", place)
        assert (done.code, done.out) == (0, ""), done.err
        title = f"{target}, learned by {learner}"
        draw.explain_page(forest, table.raw(forest), truth, path=wanted, title=title)
        assert place.read_bytes() == wanted.read_bytes()
        assert run("explain", model, folder / "new.csv", "--page", place, "--page-rows", 0).code == 0
        draw.explain_page(forest, table.raw(forest), truth, path=wanted, title=title, sample_rows=0)
        assert place.read_bytes() == wanted.read_bytes()


def test_bad_input_is_told_in_a_line(tree: Path, folder: Path, run: Run):
    new = folder / "new.csv"
    for arguments, message in [
        ((tree, new, "--row", 60), "has 60 row(s), counted from 0; pass a number from 0 to 59"),
        ((tree, new, "--row", -1), "--row"),
        ((tree, new, "--trees", 0), "--trees"),
        ((tree,), "TABLE is missing"),
        ((tree, "--page", "page.html"), "TABLE is missing"),
        ((tree, new, "--page", "-"), "--page needs a file name"),
        ((tree, new, "--page", new), "is the table that is read"),
        ((tree, new, "--page", "page.html", "--row", 1), "--page is about all rows"),
        ((tree, new, "--importances", "--row", 1), "--importances is about all rows"),
        ((tree, new, "-o", new), "is the table that is read"),
    ]:
        done = run("explain", *arguments)
        assert (done.code, done.out) == (2, ""), arguments
        assert message in done.err
        assert done.err.count("\n") == 1
