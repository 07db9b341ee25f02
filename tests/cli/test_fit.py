"""`hardwood fit`: the model it writes is the estimator's, and what cannot be learned from is refused in time."""

from __future__ import annotations

import csv
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import accuracy_score, balanced_accuracy_score, f1_score, log_loss, mean_absolute_error, r2_score
from sklearn.tree import DecisionTreeClassifier

import hardwood
from hardwood.data import TableEncoder, split_rows
from helpers.command_line import CLASSES, NAMES, NUMBERS, TINY, Result, load, make_rows, write_csv
from helpers.processes import run_python

Run = Callable[..., Result]


def as_frame(path: Path) -> pd.DataFrame:
    """Return a table as a user of Python would have it, with types."""
    frame = pd.read_csv(path, dtype={"id": str, "zip": str, "answer": str}, keep_default_na=False, na_values=[""])
    frame["day"] = pd.to_datetime(frame["day"])
    frame["count"] = frame["count"].astype("Int64")
    return frame


def learned(path: Path, drop: list[str]) -> pd.DataFrame:
    return as_frame(path).drop(columns=drop)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_the_model_is_the_one_that_python_learns(folder: Path, tmp_path: Path, run: Run, suffix: str):
    table = tmp_path / f"t.{suffix}"
    frame = as_frame(folder / "train.csv")
    if suffix == "csv":
        table.write_bytes((folder / "train.csv").read_bytes())
    else:
        frame.to_parquet(table)
    done = run("fit", table, *CLASSES, *TINY, "--test-fraction", 0, "-o", tmp_path / "model")
    assert (done.code, done.out) == (0, "")
    model = hardwood.GradTreeClassifier(max_depth=3, max_iter=6, random_state=0)
    model.fit(learned(folder / "train.csv", ["id", "answer", "price", "weight"]), frame["answer"].to_numpy(str))
    assert load(tmp_path / "model") == model.forest_


def test_numbers_weights_and_options_reach_the_estimator(folder: Path, tmp_path: Path, run: Run):
    options = ("--model", "grande", "--n-estimators", 5, "--max-depth", 2, "--max-iter", 3, "--seed", 7, "--quiet")
    more = ("--loss", "huber", "--init", "random", "--increasing", "amount", "--decreasing", "count", "--patience", 2)
    done = run("fit", folder / "train.csv", *NUMBERS, *options, *more, "--test-fraction", 0, "-o", tmp_path / "model")
    assert done.code == 0, done.err
    model = hardwood.GrandeRegressor(
        5, max_depth=2, max_iter=3, loss="huber", init="random", n_iter_no_change=2, random_state=7,
        monotonic_cst={"amount": 1, "count": -1},
    )  # fmt: skip
    frame = as_frame(folder / "train.csv")
    X = learned(folder / "train.csv", ["id", "answer", "price", "weight"])
    model.fit(X, frame["price"].to_numpy(), sample_weight=frame["weight"].to_numpy())
    assert load(tmp_path / "model") == model.forest_
    said = json.loads((tmp_path / "model" / "model.json").read_text())
    assert said["parameters"] == {
        "max_depth": 2, "n_estimators": 5, "loss": "huber", "init": "random", "max_iter": 3, "n_iter_no_change": 2,
        "categorical": ["zip"], "drop": ["id", "answer"], "weight": "weight", "increasing": ["amount"],
        "decreasing": ["count"], "test_fraction": 0.0, "seed": 7,
    }  # fmt: skip
    assert (said["rows"], said["held_out_rows"], said["scores"], said["greedy_scores"]) == (240, 0, {}, {})


def test_the_scores_are_scikit_learns_on_the_rows_held_out(folder: Path, tree: Path, ensemble: Path):
    frame = as_frame(folder / "train.csv")
    X = learned(folder / "train.csv", ["id", "answer", "price", "weight"])
    y = frame["answer"].to_numpy(str)
    training, held_out = split_rows(len(y), 0.2, 0, y)
    said = json.loads((tree / "model.json").read_text())
    assert (said["rows"], said["held_out_rows"]) == (len(training), len(held_out))

    encoder = TableEncoder(numeric="standard", task="classification", seed=0)
    x = encoder.fit_transform(X.iloc[training], np.unique(y, return_inverse=True)[1][training])
    greedy = DecisionTreeClassifier(max_depth=3, random_state=0).fit(x, y[training])
    forest = load(tree)
    both = (
        ("scores", forest.predict(X.iloc[held_out]), forest.predict_proba(X.iloc[held_out])),
        (
            "greedy_scores",
            *(each(encoder.transform(X.iloc[held_out])) for each in (greedy.predict, greedy.predict_proba)),
        ),
    )
    for name, answer, shares in both:
        expected = {
            "accuracy": accuracy_score(y[held_out], answer),
            "balanced accuracy": balanced_accuracy_score(y[held_out], answer),
            "macro F1": f1_score(y[held_out], answer, average="macro"),
            "log loss": log_loss(y[held_out], shares),
        }
        assert said[name] == pytest.approx(expected), name

    price, weight = frame["price"].to_numpy(), frame["weight"].to_numpy()
    _, held_out = split_rows(len(price), 0.2, 0)
    answer = load(ensemble).predict(X.iloc[held_out])
    scores = json.loads((ensemble / "model.json").read_text())["scores"]
    options = {"sample_weight": weight[held_out]}
    assert scores["R2"] == pytest.approx(r2_score(price[held_out], answer, **options))
    assert scores["mean absolute error"] == pytest.approx(mean_absolute_error(price[held_out], answer, **options))


def test_what_is_printed(folder: Path, tmp_path: Path, run: Run):
    place = tmp_path / "model"
    done = run("fit", folder / "train.csv", *CLASSES, "--max-iter", 4, "--max-depth", 3, "--lines", 3, "-o", place)
    assert done.code == 0
    assert "answer: classification into 3 classes by gradtree (1 tree" in done.out
    assert "gradtree  greedy" in done.out
    assert "on the same rows" in done.out
    assert f"more lines: hardwood show {place} --tree 0" in done.out
    assert f"wrote {place}{os.sep}forest.safetensors" in done.out
    assert "\x1b" not in done.out + done.err  # no bar where there is no terminal
    assert sorted(entry.name for entry in place.iterdir()) == ["forest.safetensors", "model.json", "report.html"]
    assert "<svg" in (place / "report.html").read_text()
    assert list(tmp_path.iterdir()) == [place]


def test_reading_from_stdin(tmp_path: Path, run: Run):
    rows = [f"{number % 10},{'ab'[number % 10 > 4]}" for number in range(40)]
    done = run("fit", "-", "--target", "y", *TINY, "-o", tmp_path / "model", stdin="\n".join(["x,y", *rows]) + "\n")
    assert done.code == 0, done.err
    assert load(tmp_path / "model").predict(np.array([[0.0], [9.0]])).tolist() == ["a", "b"]


@pytest.mark.parametrize(
    ("cells", "task", "classes"),
    [
        (["no", "yes"], "auto", ["no", "yes"]),
        (["True", "false"], "auto", [False, True]),
        (["3", "5"], "auto", [3, 5]),
        (["0.0", "1.0"], "auto", [0.0, 1.0]),
        (["0.5", "1"], "auto", None),
        (["3", "5"], "regression", None),
        ([str(number) for number in range(21)], "classification", list(range(21))),
        ([str(number) for number in range(21)], "auto", None),
    ],
)
def test_the_task_follows_from_the_target(
    tmp_path: Path, run: Run, cells: list[str], task: str, classes: list[object] | None
):
    rows = [[number % 7, cells[number % len(cells)]] for number in range(42)]
    table = write_csv(tmp_path / "t.csv", ["x", "y"], rows)
    done = run(
        "fit", table, "--target", "y", "--task", task, "--max-iter", 1, "--max-depth", 1, "-q", "-o", tmp_path / "m"
    )
    assert done.code == 0, done.err
    found = load(tmp_path / "m").classes
    assert (found is None) == (classes is None)
    if found is not None and classes is not None:
        assert found.tolist() == classes
        assert [type(each) for each in found.tolist()] == [type(each) for each in classes]


def test_rows_without_a_target_are_left_out_only_if_that_is_said(tmp_path: Path, run: Run):
    rows = [[number % 7, "ab"[number % 7 > 3] if number % 5 else None] for number in range(60)]
    table = write_csv(tmp_path / "t.csv", ["x", "y"], rows)
    base = ("fit", table, "--target", "y", *TINY, "--test-fraction", 0, "-o")
    done = run(*base, tmp_path / "m")
    assert done.code == 2
    assert "--target='y': is empty in 12 rows (the first is row 0)" in done.err
    assert run(*base, tmp_path / "m", "--skip-unlabelled").code == 0
    write_csv(tmp_path / "t.csv", ["x", "y"], [row for row in rows if row[1]])
    assert run(*base, tmp_path / "n").code == 0
    assert load(tmp_path / "m") == load(tmp_path / "n")


def test_the_help_states_the_estimators_defaults(run: Run):
    said = " ".join(run("fit", "--help").out.split())
    tree, ensemble = hardwood.GradTreeClassifier(), hardwood.GrandeClassifier()
    assert f"[gradtree: {tree.max_depth}, grande: {ensemble.max_depth}]" in said
    for model in (tree, ensemble):
        assert f"How much more rare classes count. [{model.class_weight}]" in said
        assert f"Where training starts. [{model.init}]" in said


BAD: list[tuple[str, tuple[Any, ...], str]] = [
    ("x,y\n1,a\n2,b\n", ("--target", "z"), "--target='z': is no column of"),
    ("x,y\n1,a\n2,b\n", ("--target", "y", "--drop", "w"), "--drop='w': is no column of"),
    ("x,y\n1,a\n2,b\n", ("--target", "y", "--categorical", "w"), "--categorical='w': is no column of"),
    ("x,y\n1,a\n2,b\n", ("--target", "y", "--categorical", "y"), "--categorical='y': is not learned from"),
    ("x,y\n1,a\n2,b\n", ("--target", "y", "--drop", "x"), "has no column to learn from"),
    ("x,y\n1,a\n2,b\n", ("--target", "y", "--weight", "y"), "is also named by --drop or --weight"),
    ("x,y\n", ("--target", "y"), "has no rows"),
    ("", ("--target", "y"), "is empty"),
    ("x,y\n1,a\n", ("--target", "y"), "is 'a' in every row, so there is nothing to learn"),
    ("x,y\n1,a\n2,a\n", ("--target", "y"), "is 'a' in every row"),
    ("x,y\n1,5\n2,5\n", ("--target", "y", "--task", "regression"), "is 5.0 in every row"),
    ("x,y\n1,\n2,\n", ("--target", "y"), "is empty in every row"),
    ("x,y\n1,a\n2,b\n", ("--target", "y", "--task", "regression"), "holds text ('a'), not numbers"),
    ("x,y\n1,.5\n2,1\n", ("--target", "y", "--task", "classification"), "holds numbers such as 0.5"),
    ("x,y\n1,2020-01-01\n2,2021-01-01\n", ("--target", "y"), "holds dates"),
    ("x,y\n1,0.5\n2,inf\n", ("--target", "y"), "is infinite in row 1"),
    ("x,y\n1,a\n2,b\n3,c\n4,d\n", ("--target", "y"), "has 4 classes in 4 rows"),
    ("x,y,w\n1,a,1\n2,b,-1\n", ("--target", "y", "--weight", "w"), "has -1.0 in row 1, which is no weight"),
    ("x,y,w\n1,a,1\n2,b,\n", ("--target", "y", "--weight", "w"), "has nan in row 1, which is no weight"),
    ("x,y,w\n1,a,0\n2,b,0\n", ("--target", "y", "--weight", "w"), "is 0 in every row"),
    ("x,y,w\n1,a,u\n2,b,v\n", ("--target", "y", "--weight", "w"), "--weight='w': holds text"),
    ("x,y\n1,a\n2,b\n", ("--target", "y", "--loss", "huber"), "is not for classification, the task at hand"),
    ("x,y\n1,.5\n2,.7\n", ("--target", "y", "--class-weight", "none"), "--class-weight='none': is for classification"),
    ("x,y\nu,a\nv,b\n", ("--target", "y", "--increasing", "x"), "--increasing='x': holds categories"),
    ("x,y\n1,a\n2,b\n", ("--target", "y", "--increasing", "y"), "is no column that is learned from"),
    ("x,y\n1,a\n2,b\n", ("--target", "y", "--increasing", "x", "--decreasing", "x"), "is named by --increasing and"),
    ("x,y\n1,a\n2,b\n", ("--target", "y", "--n-estimators", "3"), "--n-estimators is for --model grande"),
    ("x,y\n1,a\n2,b\n", ("--target", "y", "--model", "grande", "--n-restarts", "3"), "--n-restarts is for --model"),
    ("x,y\n1,a\n2,b\n", ("--target", "y", "--resume"), "--resume needs --checkpoint"),
    ("x,y\n1,a\n2,b\n", ("--target", "y", "--test-fraction", "1"), "--test-fraction"),
    ("x,y\n1,a\n2,b\n", ("--target", "y", "--max-depth", "0"), "--max-depth"),
    ("x,y\n1,a\n2,b\n", ("--target", "y", "--checkpoint", "/none/at/all"), "--checkpoint='/none/at/all': lies in"),
    ("x,y\n1,a\n2,b\n", ("--target", "y", "--device", "tpu"), "device='tpu'"),
    ("x,y\n1,a\n2,b\n", ("--target", "y", "--jobs", "0"), "n_jobs=0"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "options", "message"), BAD, ids=range(len(BAD)))
def test_bad_input_is_told_in_a_line(tmp_path: Path, run: Run, text: str, options: tuple[Any, ...], message: str):
    (tmp_path / "t.csv").write_text(text)
    done = run("fit", tmp_path / "t.csv", *options, "--quiet", "-o", tmp_path / "model")
    assert (done.code, done.out) == (2, "")
    line = done.err.splitlines()[-1]
    assert line.startswith("error: ")
    assert message in line
    assert "Traceback" not in done.err
    assert not (tmp_path / "model").exists()


def test_a_place_that_is_taken_is_told_before_work(folder: Path, tree: Path, run: Run):
    before = (tree / "forest.safetensors").read_bytes()
    done = run("fit", folder / "none.csv", "--target", "y", "-o", tree)
    assert done.code == 2
    assert "holds a model already; add --force" in done.err
    assert run("fit", folder / "none.csv", "--target", "y", "-o", tree, "--force").code == 2
    assert (tree / "forest.safetensors").read_bytes() == before


def test_force_replaces_a_model(tmp_path: Path, run: Run):
    rows = [[number % 7, "ab"[number % 7 > 3]] for number in range(40)]
    base = ("fit", write_csv(tmp_path / "t.csv", ["x", "y"], rows), "--target", "y", *TINY, "-o", tmp_path / "m")
    assert run(*base).code == 0
    assert run(*base, "--test-fraction", 0, "--force").code == 0
    assert json.loads((tmp_path / "m" / "model.json").read_text())["held_out_rows"] == 0
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["m", "t.csv"]


def test_holes_infinities_and_constants_are_learned_from(tmp_path: Path, run: Run):
    rng = np.random.default_rng(0)
    rows = [
        [
            ["inf", "-inf", "1e300", 0.5][int(rng.integers(4))],
            1,
            None,
            "same",
            rng.choice(["", "u"]),
            "ab"[number % 3 > 1],
        ]
        for number in range(80)
    ]
    table = write_csv(tmp_path / "t.csv", ["x", "one", "none", "same", "u", "y"], rows)
    done = run("fit", table, "--target", "y", *TINY, "-o", tmp_path / "m")
    assert done.code == 0, done.err
    said = json.loads((tmp_path / "m" / "model.json").read_text())
    assert np.isfinite([*said["scores"].values(), *said["greedy_scores"].values()]).all()


def test_remarks_go_to_stderr(tmp_path: Path, run: Run):
    rows = [[f"name {number}", number % 8, number % 3] for number in range(60)]
    table = write_csv(tmp_path / "t.csv", ["name", "x", "y"], rows)
    done = run("fit", table, "--target", "y", *TINY, "-o", tmp_path / "m")
    assert (done.code, done.out) == (0, "")
    assert "nearly every row has another text in 'name'; --drop it" in done.err
    assert "the 3 numbers in 'y' are taken as classes; see --task regression" in done.err


def test_a_column_of_image_paths_is_refused_with_the_class_that_takes_it(tmp_path: Path, run: Run):
    rows = [[f"{number % 20}.JPG" if number else "", number % 8, number % 3] for number in range(60)]
    table = write_csv(tmp_path / "t.csv", ["photo", "x", "y"], rows)
    refused = run("fit", table, "--target", "y", *TINY, "-o", tmp_path / "m")
    assert refused.code == 2
    assert "'photo': is a column of image paths" in refused.err
    assert "MultimodalClassifier" in refused.err
    assert run("fit", table, "--target", "y", "--drop", "photo", *TINY, "-o", tmp_path / "m").code == 0
    assert run("fit", table, "--target", "y", "--categorical", "photo", *TINY, "-o", tmp_path / "n").code == 0


def test_a_run_goes_on_from_its_checkpoint(folder: Path, tmp_path: Path, run: Run):
    state = tmp_path / "state"
    options = ("--max-depth", 2, "--patience", 1000, "--quiet")
    base = ("fit", folder / "train.csv", *CLASSES, *options)
    assert run(*base, "--max-iter", 40, "--checkpoint", state, "--resume", "-o", tmp_path / "half").code == 0
    refused = run(*base, "--max-iter", 80, "--checkpoint", state, "-o", tmp_path / "no")
    assert refused.code == 2
    assert "is there already; add --resume to go on from it, or --force" in refused.err
    done = run(*base, "--max-iter", 80, "--checkpoint", state, "--resume", "-o", tmp_path / "resumed")
    assert done.code == 0, done.err
    assert run(*base, "--max-iter", 80, "-o", tmp_path / "whole").code == 0
    assert load(tmp_path / "resumed") == load(tmp_path / "whole")

    other = run(*base, "--seed", 1, "--max-iter", 80, "--checkpoint", state, "--resume", "-o", tmp_path / "no")
    assert other.code == 2
    assert "cannot be resumed" in other.err
    state.write_bytes(state.read_bytes()[:-1])
    broken = run(*base, "--max-iter", 80, "--checkpoint", state, "--resume", "-o", tmp_path / "no")
    assert broken.code == 2
    assert not (tmp_path / "no").exists()


INTERRUPT = """
    import importlib, os, signal, sys
    from hardwood.cli import main

    # A shell that starts commands in the background has them ignore the signal.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.stderr = sys.stdout
    for module, owner, name, call in [
        ("hardwood.train._training", "Training", "evaluate", 2),
        ("hardwood.cli._learn", None, "score_greedy", 1),
        ("hardwood.cli._learn", None, "score_forest", 1),
    ]:
        holder = importlib.import_module(module)
        holder = getattr(holder, owner) if owner else holder
        before, calls = getattr(holder, name), []

        def interrupted(*given, before=before, calls=calls, call=call, **named):
            calls.append(1)
            if len(calls) == call:
                os.kill(os.getpid(), signal.SIGINT)
            return before(*given, **named)

        setattr(holder, name, interrupted)
        code = main(["fit", {table!r}, "--target", "y", "--max-depth", "2", "-o", os.path.join({output!r}, name)])
        setattr(holder, name, before)
        print("code", code, end="----")
"""


@pytest.fixture(scope="module")
def interrupted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """Real signals at three points of a run: the folder of the models, and what was said for each point."""
    if sys.platform == "win32":
        pytest.skip("signals of POSIX")
    folder = tmp_path_factory.mktemp("interrupted")
    rows = [[number % 7, "ab"[number % 7 > 3]] for number in range(60)]
    table = write_csv(folder / "t.csv", ["x", "y"], rows)
    said = run_python(INTERRUPT.format(table=str(table), output=str(folder))).split("----")
    return folder, dict(zip(("evaluate", "score_greedy", "score_forest"), said, strict=False))


def test_ctrl_c_in_training_keeps_the_best_model(interrupted: tuple[Path, dict[str, str]]):
    folder, said = interrupted
    output = folder / "evaluate"
    assert said["evaluate"].endswith("code 0")
    assert "training was interrupted in epoch" in said["evaluate"]
    assert f"interrupted; the best model so far is kept, and written to {output}" in said["evaluate"]
    assert json.loads((output / "model.json").read_text())["interrupted"] is True
    assert load(output).predict(np.array([[0.0], [6.0]])).tolist() == ["a", "b"]


def test_ctrl_c_before_training_keeps_nothing(interrupted: tuple[Path, dict[str, str]]):
    folder, said = interrupted
    assert said["score_greedy"].strip() == "error: interrupted; nothing was written\ncode 130"
    assert sorted(entry.name for entry in folder.iterdir()) == ["evaluate", "score_forest", "t.csv"]


def test_ctrl_c_after_training_is_too_late_to_lose_the_model(interrupted: tuple[Path, dict[str, str]]):
    folder, said = interrupted
    assert said["score_forest"].endswith("code 0")
    assert json.loads((folder / "score_forest" / "model.json").read_text())["interrupted"] is False
    assert load(folder / "score_forest").n_trees == 1


def test_the_core_alone_learns_from_csv(folder: Path, tmp_path: Path):
    """Without pandas, polars and pyarrow, which the package does not need."""
    options = [*map(str, CLASSES), *TINY, "-o", str(tmp_path / "model")]
    out = run_python(f"""
        import sys

        def hide(finder):
            class Hidden:
                @staticmethod
                def find_spec(name, path=None, target=None):
                    absent = name.partition(".")[0] in ("pandas", "polars", "pyarrow")
                    return None if absent else finder.find_spec(name, path, target)
            return Hidden

        sys.meta_path[:] = [hide(finder) for finder in sys.meta_path]
        from hardwood.cli import main
        print(main(["fit", {str(folder / "train.csv")!r}, *{options!r}]))
        print(main(["predict", {str(tmp_path / "model")!r}, {str(folder / "new.csv")!r}]))
    """)
    lines = out.splitlines()
    assert lines[0] == lines[-1] == "0"
    assert lines[1] == "prediction"
    X = as_frame(folder / "new.csv").drop(columns=["id", "answer", "price", "weight"])
    assert lines[2:-1] == load(tmp_path / "model").predict(X).tolist()


def test_the_tables_of_these_tests_have_what_they_are_for(folder: Path):
    with (folder / "train.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == list(NAMES)
    assert len(rows) == len(make_rows(240, 0))
    assert {"007", "7", ""} <= {row["zip"] for row in rows}
    assert {"yes", "no", "NA"} == {row["answer"] for row in rows}
