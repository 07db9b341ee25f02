"""`hardwood score`: scikit-learn's scores of the predictions."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, balanced_accuracy_score, f1_score, log_loss, mean_squared_error, r2_score

from hardwood.cli._scoring import score_classes, score_numbers
from hardwood.cli._tables import read_table
from helpers.command_line import NAMES, Result, load, make_rows, write_csv

Run = Callable[..., Result]


def test_classes_are_scored_as_scikit_learn_does():
    rng = np.random.default_rng(0)
    classes = np.array(["b", "a", "c", "d"])
    for known in (4, 3, 2):  # the truth may lack classes that are called
        truth, shares = classes[rng.integers(0, known, 50)], rng.dirichlet(np.ones(4), 50)
        weight = rng.integers(1, 4, 50).astype(float)
        said = classes[shares.argmax(1)]
        options = {"sample_weight": weight}
        found = score_classes(shares, classes, truth, weight)
        order = np.argsort(classes)
        assert found["accuracy"] == pytest.approx(accuracy_score(truth, said, **options))
        assert found["macro F1"] == pytest.approx(f1_score(truth, said, average="macro", **options))
        assert found["log loss"] == pytest.approx(log_loss(truth, shares[:, order], labels=classes[order], **options))
        if known == 4:
            assert found["balanced accuracy"] == pytest.approx(balanced_accuracy_score(truth, said, **options))


@pytest.mark.parametrize("truth", [[1.0, 2.0, 4.0], [2.0, 2.0, 2.0]])
def test_numbers_are_scored_as_scikit_learn_does(truth: list[float]):
    for said in ([1.0, 3.0, 3.0], truth):
        found = score_numbers(np.array(said), np.array(truth))
        assert found["R2"] == pytest.approx(r2_score(truth, said))
        assert found["root mean squared error"] == pytest.approx(mean_squared_error(truth, said) ** 0.5)


def test_a_table_with_answers(tree: Path, ensemble: Path, folder: Path, tmp_path: Path, run: Run):
    rows = make_rows(60, 1)
    for row in rows[::5]:
        row[NAMES.index("answer")] = None
    table = write_csv(tmp_path / "t.csv", [*NAMES[:-3], "outcome", *NAMES[-2:]], rows)
    done = run("score", tree, table, "--target", "outcome", "--json")
    assert (done.code, done.err) == (0, "")
    forest = load(tree)
    kept = [number for number in range(60) if number % 5]
    raw = read_table(str(table)).raw(forest)[kept]
    truth = [rows[number][NAMES.index("answer")] for number in kept]
    found = json.loads(done.out)
    assert found["rows"] == 48
    assert found["accuracy"] == pytest.approx(accuracy_score(truth, forest.predict(raw)))
    said = run("score", tree, table, "--target", "outcome")
    assert said.out.startswith(f"48 rows of {table}, answers in outcome:\n\naccuracy")
    assert said.err == "note: left out 12 rows without an answer\n"
    weighed = run("score", ensemble, folder / "new.csv", "--weight", "weight", "--json")
    raw = read_table(str(folder / "new.csv")).raw(load(ensemble))
    rows = make_rows(60, 1)
    price, weight = ([row[NAMES.index(name)] for row in rows] for name in ("price", "weight"))
    expected = r2_score(price, load(ensemble).predict(raw), sample_weight=weight)
    assert json.loads(weighed.out)["R2"] == pytest.approx(expected)


def test_bad_input_is_told_in_a_line(tree: Path, ensemble: Path, folder: Path, tmp_path: Path, run: Run):
    rows = make_rows(3, 1)
    place = NAMES.index("answer")
    other = write_csv(tmp_path / "other.csv", NAMES, [[*row[:place], "maybe", *row[place + 1 :]] for row in rows])
    without = write_csv(tmp_path / "none.csv", NAMES, [[*row[:place], None, *row[place + 1 :]] for row in rows])
    for arguments, message in [
        ((tree, other), "['answer']='maybe': is no class of the model"),
        ((tree, without), "has no row with an answer in 'answer' that counts"),
        ((tree, folder / "new.csv", "--target", "x"), "--target='x': is no column of"),
        ((ensemble, folder / "new.csv", "--target", "colour"), "holds text"),
    ]:
        done = run("score", *arguments)
        assert (done.code, done.out) == (2, ""), arguments
        assert message in done.err
        assert done.err.count("\n") == 1
