"""The benchmark as a whole: cells are run, stored, resumed and shown."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.tables import methods
from benchmarks.tables.campaign import plan, run_cells
from benchmarks.tables.cell import Cell, run_cell, split
from benchmarks.tables.command import main
from benchmarks.tables.methods import Method, Setting, all_methods, find_methods
from benchmarks.tables.sets import Entry, load, read_index
from benchmarks.tables.store import FIELDS, Store
from benchmarks.tables.timing import timing_table
from benchmarks.tables.workers import Worker
from sklearn.metrics import f1_score
from sklearn.tree import DecisionTreeClassifier

from hardwood.errors import InvalidArgumentError, MissingExtraError

TIMES = {"fit_seconds", "predict_seconds", "command"}


def lasting(records: list[dict[str, str]]) -> list[dict[str, str]]:
    """Return records without what differs from run to run."""
    return [{name: cell for name, cell in record.items() if name not in TIMES} for record in records]


def make_cells(folder: Path, names: list[str], seeds: int = 2) -> list[Cell]:
    return plan(list(read_index(folder).values()), find_methods(names), seeds, depth=3)


class Broken:
    """A model that cannot be fitted on the first seed."""

    def __init__(self, setting: Setting) -> None:
        self.seed = setting.seed
        self.n_classes = 2

    def fit(self, X: Any, y: np.ndarray) -> None:
        if self.seed == 0:
            raise RuntimeError("out of\nluck")
        self.n_classes = y.max() + 1

    def predict(self, X: Any) -> np.ndarray:
        return np.zeros(len(X), int)

    def predict_proba(self, X: Any) -> np.ndarray:
        return np.full((len(X), self.n_classes), 1 / self.n_classes)

    def size(self) -> None:
        return None


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Add methods that fail or that need what nobody has."""
    known = methods._registry()
    added = Method("broken", Broken, (), ("binary",)), Method("absent", Broken, ("no_such_package",))
    monkeypatch.setattr(methods, "_registry", lambda: known | {method.name: method for method in added})


def test_a_cell_is_what_a_user_would_have_done(folder: Path, add_set: Callable[..., None]):
    rng = np.random.default_rng(1)
    x, z = rng.normal(size=(2, 60))
    y = (x > z).astype(int)
    add_set(folder, "plain", "binary", {"x": x.tolist(), "z": z.tolist(), "target": y.tolist()})
    found = run_cell(Cell(read_index(folder)["plain"], "cart", 4, 3), folder, threads=1)
    parts = split(y, "binary", 4)
    X = np.column_stack([x, z])
    tree = DecisionTreeClassifier(max_depth=3, random_state=4).fit(X[parts.training], y[parts.training])
    expected = f1_score(y[parts.test], tree.predict(X[parts.test]), average="macro")
    assert float(found["macro_f1"]) == pytest.approx(expected)
    assert (found["leaves"], found["depth"]) == (str(tree.get_n_leaves()), str(tree.get_depth()))
    assert (found["train_rows"], found["test_rows"], found["status"]) == ("48", "12", "ok")
    assert re.match(r"python [\d.]+; numpy [\d.]+; sklearn [\d.]+$", found["versions"])


def test_the_plan_is_method_by_method_and_knows_tasks(folder: Path):
    cells = make_cells(folder, ["cart-balanced", "random_forest", "cart-balanced"])
    keys = [cell.key for cell in cells]
    assert keys[:2] == [("titanic", "cart-balanced", "3", "0"), ("titanic", "cart-balanced", "3", "1")]
    # No class weights for numbers, no depth limit for forests.
    assert [key[:3] for key in keys[::2]] == [
        ("titanic", "cart-balanced", "3"), ("glass", "cart-balanced", "3"),
        ("titanic", "random_forest", ""), ("glass", "random_forest", ""), ("numbers", "random_forest", ""),
    ]  # fmt: skip
    with pytest.raises(InvalidArgumentError, match="seeds=0: must be at least 1"):
        make_cells(folder, ["cart"], seeds=0)


def test_an_interrupted_run_goes_on_where_it_was(folder: Path, tmp_path: Path, random_state_stays: None):
    cells = make_cells(folder, ["cart", "cart-balanced"], seeds=1)
    whole = Store(tmp_path / "whole.csv")
    assert run_cells(cells, folder, whole, command="once", jobs=0).finished == len(cells) == 5

    class Stopped(Store):
        left = 2

        def append(self, record: Any) -> None:
            if self.left == 0:
                raise KeyboardInterrupt
            self.left -= 1
            super().append(record)

    path = tmp_path / "parts" / "results.csv"
    with pytest.raises(KeyboardInterrupt):
        run_cells(cells, folder, Stopped(path), command="first", jobs=0)
    # The machine stopped in the middle of a line.
    with path.open("ab") as file:
        file.write(b'numbers,cart,3,0,regression,ok,"')
    assert len(Store(path).records()) == 2
    outcome = run_cells(cells, folder, Store(path), command="second", jobs=0)
    assert (outcome.finished, outcome.failed, outcome.skipped) == (3, 0, 2)
    assert lasting(Store(path).records()) == lasting(whole.records())
    assert len(path.read_text().splitlines()) == 1 + len(cells)
    assert [record["command"] for record in Store(path).records()] == ["first"] * 2 + ["second"] * 3
    assert run_cells(cells, folder, Store(path), command="third", jobs=0).skipped == len(cells)


def test_failures_are_kept_and_retried_on_demand(folder: Path, tmp_path: Path, broken: None):
    store = Store(tmp_path / "results.csv")
    cells = make_cells(folder, ["broken"])
    outcome = run_cells(cells, folder, store, command="", jobs=0)
    assert (outcome.finished, outcome.failed) == (1, 1)
    first, second = store.records()
    assert (first["status"], first["error"]) == ("failed", "RuntimeError: out of luck")
    assert (second["status"], second["leaves"]) == ("ok", "")
    assert run_cells(cells, folder, store, command="", jobs=0).skipped == 2
    again = run_cells(cells, folder, store, command="", jobs=0, retry=True)
    assert (again.finished, again.failed, again.skipped) == (0, 1, 1)
    assert len(store.records()) == 2
    store.append(first | {"status": "ok", "error": ""})
    assert store.statuses()["titanic", "broken", "", "0"] == "ok"


@pytest.mark.parametrize("prediction", [np.zeros((16, 1), int), np.zeros(3, int), np.full(16, np.nan)])
def test_predictions_that_are_none_are_failures(
    folder: Path, broken: None, monkeypatch: pytest.MonkeyPatch, prediction: np.ndarray
):
    monkeypatch.setattr(Broken, "predict", lambda self, X: prediction)
    found = run_cell(Cell(read_index(folder)["titanic"], "broken", 1, None), folder, threads=1)
    assert found["status"] == "failed"
    assert found["error"].startswith("ValueError: the method predicts")


def test_processes_give_the_same_and_may_die(folder: Path, tmp_path: Path):
    class Deadly(Entry):
        """An entry at whose sight a process ends."""

        def __reduce__(self) -> Any:
            return os._exit, (3,)

    cells = make_cells(folder, ["cart"], seeds=1)[:2]
    deadly = cells[0]._replace(entry=Deadly(*cells[0].entry._replace(name="deadly")))
    store, here = Store(tmp_path / "there.csv"), Store(tmp_path / "here.csv")
    before = dict(os.environ)
    outcome = run_cells([deadly, *cells], folder, store, command="", jobs=1)
    assert (outcome.finished, outcome.failed) == (len(cells), 1)
    failed, *others = store.records()
    assert failed["error"] == "the process ended with code 3"
    run_cells(cells, folder, here, command="", jobs=0)
    assert lasting(others) == lasting(here.records())
    assert dict(os.environ) == before


def test_a_worker_is_stopped_in_the_middle_of_a_cell(folder: Path):
    worker = Worker(folder, threads=1)
    worker.begin(make_cells(folder, ["random_forest"])[0])
    process = worker._process
    worker.stop()
    assert process.exitcode is not None


def test_the_store_refuses_what_it_did_not_write(tmp_path: Path):
    path = tmp_path / "results.csv"
    store = Store(path)
    assert store.records() == []
    with pytest.raises(InvalidArgumentError, match=r"record=\['colour'\]: has fields that the file has not"):
        store.append({"colour": "red"})
    store.append({"set": "a,b", "error": 'line\nbreak "quoted"'})
    (record,) = store.records()
    assert (record["set"], record["error"]) == ("a,b", 'line break "quoted"')
    with path.open("a") as file:
        file.write("too,short\n")
    with pytest.raises(InvalidArgumentError, match="has a broken line 3; delete that line"):
        store.records()
    path.write_text("set,method\n")
    with pytest.raises(InvalidArgumentError, match="has other columns than this version"):
        store.records()


def test_methods_that_cannot_run_are_refused(broken: None):
    with pytest.raises(InvalidArgumentError, match="methods='magic': is not known; choose from cart, "):
        find_methods(["cart", "magic"])
    with pytest.raises(InvalidArgumentError, match="names no method"):
        find_methods([])
    with pytest.raises(MissingExtraError, match=r"methods='absent': needs no_such_package; pip install"):
        find_methods(["absent"])


@pytest.mark.parametrize("name", [name for name in all_methods() if name not in ("gradtree", "grande")])
def test_peers_take_every_kind_of_table(folder: Path, name: str):
    method = all_methods()[name]
    for package in method.packages:
        pytest.importorskip(package)
    make = method.make
    if name == "catboost":  # its thousand turns take long

        def make(setting: Setting) -> Any:
            peer = method.make(setting)
            peer.estimator.set_params(iterations=5)
            return peer

    for entry in read_index(folder).values():
        if entry.task not in method.tasks:
            continue
        X, y, classes = load(folder, entry)
        before = X.copy()
        parts = split(y, entry.task, 0)
        model = make(Setting(entry.task, seed=0, depth=3, threads=1))
        model.fit(X.iloc[parts.training], y[parts.training])
        later = X.iloc[parts.test]
        assert model.predict(later).shape == (len(later),)
        assert X.equals(before)
        size = model.size()
        assert size is not None
        assert size.leaves <= 2**size.depth * 1000
        assert size.depth >= 1
        if classes is not None:
            chances = model.predict_proba(later)
            assert chances.shape == (len(later), len(classes))
            np.testing.assert_allclose(chances.sum(axis=1), 1, rtol=1e-5)
            np.testing.assert_array_equal(chances.argmax(axis=1), model.predict(later))


def test_the_commands_make_a_page(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    out = ["--data", str(folder), "--out", str(tmp_path / "results.csv")]
    suites = ["--suite", "binary", "multiclass"]
    main(["run", *suites, "--methods", "cart", "cart-balanced", "--seeds", "3", "--jobs", "0", *out])
    assert "12 finished, 0 failed, 0 were there already" in capsys.readouterr().out
    main(["render", *suites, "--against", "cart", "--name", "page", *out])
    page = (tmp_path / "page.md").read_text(encoding="utf-8")
    records = Store(tmp_path / "results.csv").records()
    for name, mark in (("titanic", ""), ("glass", " †")):
        scores = {}
        for method in ("cart", "cart-balanced"):
            runs = [each for each in records if (each["set"], each["method"]) == (name, method)]
            scores[method] = np.array([float(each["macro_f1"]) for each in runs])
        shown = {method: f"{each.mean():.3f} ± {each.std(ddof=1):.3f}" for method, each in scores.items()}
        line = next(line for line in page.splitlines() if line.startswith(f"| {name}{mark} |"))
        assert all(each in line for each in shown.values())
        gap = scores["cart-balanced"] - scores["cart"]
        assert f"| {name} | {gap.mean():+.3f} ± {gap.std(ddof=1) / 3**0.5:.3f} |" in page
    assert "0.782 ± 0.035" in page  # GradTree on Titanic at its defaults, as printed
    assert "paper: GradTree, default" in page
    assert "| **mean of 2 sets** |" in page
    # Nothing of this machine is in what is kept.
    assert str(tmp_path) not in page + (tmp_path / "results.csv").read_text()
    main(["render", "--sets", "titanic", "--metric", "log_loss", *out])
    assert "paper" not in (tmp_path / "sets.md").read_text(encoding="utf-8").split("## Time")[0]


def test_a_page_shows_failures_and_gaps(folder: Path, tmp_path: Path, broken: None):
    out = ["--data", str(folder), "--out", str(tmp_path / "results.csv")]
    main(["run", "--sets", "titanic", "--methods", "broken", "--seeds", "1", "--jobs", "0", *out])
    main(["run", "--sets", "titanic", "glass", "--methods", "cart", "--seeds", "2", "--jobs", "0", *out])
    main(["render", "--sets", "titanic", "glass", "--parameters", *out])
    page = (tmp_path / "sets.md").read_text(encoding="utf-8")
    assert re.search(r"\| titanic \| \*\*.*\*\* \| failed \|", page)
    assert re.search(r"\| glass † \| \*\*.*\*\* \| – \|", page)
    assert "- broken on titanic, seed 0: `RuntimeError: out of luck`" in page
    assert "paper:" not in page


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run", "--suite", "nothing", "--methods", "cart"], "error: suite='nothing': is not known"),
        (["run", "--sets", "nothing", "--methods", "cart"], "error: sets='nothing': is not in the index"),
        (["run", "--sets", "titanic", "--methods", "magic"], "error: methods='magic': is not known"),
        (["run", "--sets", "titanic", "--methods", "cart", "--jobs", "-1"], "error: jobs=-1: must be at least 0"),
        (["run", "--sets", "titanic", "--methods", "cart", "--threads", "0"], "error: threads=0: must be at least 1"),
        (["run", "--sets", "titanic", "--methods", "cart", "--depth", "0"], "error: depth=0: must be at least 1"),
        (["render", "--sets", "titanic"], "error: methods=[]: has no results on these sets"),
        (["render", "--sets", "titanic", "numbers"], "mixes regression with classification"),
    ],
)
def test_commands_refuse_what_they_do_not_know(folder: Path, tmp_path: Path, words: list[str], message: str):
    with pytest.raises(SystemExit) as caught:
        main([*words, "--data", str(folder), "--out", str(tmp_path / "results.csv")])
    assert message in str(caught.value)


def test_fits_are_timed_in_turns(folder: Path, capsys: pytest.CaptureFixture[str]):
    main(["timing", "titanic", "--methods", "cart", "cart-unlimited", "--turns", "2", "--data", str(folder)])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[-2:]] == ["cart", "cart-unlimited"]
    with pytest.raises(SystemExit, match="turns=0: must be at least 1"):
        main(["timing", "titanic", "--methods", "cart", "--turns", "0", "--data", str(folder)])
    with pytest.raises(SystemExit, match="cannot do numbers, which is regression"):
        main(["timing", "numbers", "--methods", "cart-balanced", "--data", str(folder)])


def test_timing_tables_have_the_ratios_of_medians():
    head, one, two = timing_table({"one": [1.0, 4.0, 2.0], "two": [4.0, 4.0, 100.0]}).splitlines()
    assert head.split() == ["fit", "best", "s", "median", "s", "longest", "s", "/", "one", "/", "two"]
    assert one.split() == ["one", "1.00", "2.00", "4.00", "1.00", "0.50"]
    assert two.split() == ["two", "4.00", "4.00", "100.00", "2.00", "1.00"]


def test_the_file_has_a_column_for_all_that_a_cell_tells(folder: Path):
    for entry in read_index(folder).values():
        assert set(run_cell(Cell(entry, "cart", 0, 2), folder, threads=1)) <= set(FIELDS)


def test_papers_tables_are_named_in_their_order():
    from benchmarks.tables.render import _table_order

    assert sorted(["C.6", "5.11", "5.9"], key=_table_order) == ["5.9", "5.11", "C.6"]
    assert sorted(["10", "7"], key=_table_order) == ["7", "10"]
