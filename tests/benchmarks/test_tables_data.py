"""The benchmark's sets, splits and encodings."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from benchmarks.tables.cell import split
from benchmarks.tables.encoders import Categories, Numbers, Words, category_columns
from benchmarks.tables.papers import FIGURES, Source, figures_of
from benchmarks.tables.sets import DATA, SUITES, choose, load, read_index

from hardwood.errors import InvalidArgumentError


def test_cells_are_read_as_published(folder: Path, add_set: Callable[..., None]):
    columns = {
        "text": ["NA", "", "None", "x"],
        "number": [1, 2, "", 4.5],
        "whole": [3, 1, 2, 3],
        "target": [2, 1, 2, 1],
    }
    add_set(folder, "small", "binary", columns, categorical_columns="text;whole")
    X, y, classes = load(folder, read_index(folder)["small"])
    assert list(X.columns) == ["text", "number", "whole"]
    assert X["text"].isna().tolist() == [False, True, False, False]
    assert sorted(X["text"].cat.categories) == ["NA", "None", "x"]
    assert X["whole"].tolist() == ["3", "1", "2", "3"]
    np.testing.assert_array_equal(X["number"], [1, 2, np.nan, 4.5])
    np.testing.assert_array_equal(classes[y], [2, 1, 2, 1])
    assert y.tolist() == [1, 0, 1, 0]


def test_regression_targets_stay_numbers(folder: Path):
    table = load(folder, read_index(folder)["numbers"])
    assert table.classes is None
    assert table.y.dtype == np.float64


def test_suites_choose_by_task_and_paper(folder: Path):
    index = read_index(folder)

    def names(*given: object) -> list[str]:
        return [entry.name for entry in choose(index, *given)]

    assert names(["gradtree-binary"]) == ["titanic"]
    assert names(["multiclass"]) == ["glass"]
    assert names(["multiclass", "binary"], ["numbers", "glass"]) == ["glass", "titanic", "numbers"]
    assert names((), ["numbers"]) == ["numbers"]


@pytest.mark.parametrize(
    ("suites", "names", "message"),
    [
        (["nothing"], [], "suite='nothing': is not known; choose from gradtree-binary"),
        ([], ["nothing"], "sets='nothing': is not in the index; choose from titanic, glass, numbers"),
        ([], [], "names no set"),
        (["grande-binary"], [], "suite='grande-binary': has no set in this index"),
    ],
)
def test_unknown_sets_are_refused(folder: Path, suites: list[str], names: list[str], message: str):
    with pytest.raises(InvalidArgumentError, match="=") as caught:
        choose(read_index(folder), suites, names)
    assert message in str(caught.value)


def test_broken_data_is_refused(folder: Path, tmp_path: Path, add_set: Callable[..., None]):
    with pytest.raises(InvalidArgumentError, match=r"has no INDEX.csv; pass --data FOLDER"):
        read_index(tmp_path / "nowhere")
    add_set(folder, "odd", "clustering", {"target": [1, 2]})
    with pytest.raises(InvalidArgumentError, match="task='clustering': is no task"):
        read_index(folder)
    (folder / "INDEX.csv").write_text("a,b\n1,2\n")
    with pytest.raises(InvalidArgumentError, match="is no index"):
        read_index(folder)
    other = tmp_path / "other"
    other.mkdir()
    add_set(other, "short", "binary", {"x": [1, 2, 3], "target": [0, 1, 1]})
    add_set(other, "words", "binary", {"x": ["a", "b", "c"], "target": [0, 1, 1]})
    add_set(other, "holes", "binary", {"x": [1, 2, 3], "target": [0, "", 1]})
    add_set(other, "lacking", "binary", {"x": [1, 2, 3], "target": [0, 1, 1]}, categorical_columns="z")
    index = read_index(other)
    entry = index["short"]
    with pytest.raises(InvalidArgumentError, match="has 3 rows, not 4"):
        load(other, entry._replace(rows=4))
    with pytest.raises(InvalidArgumentError, match=r"holds text in column 'x', which is no category"):
        load(other, index["words"])
    with pytest.raises(InvalidArgumentError, match="has rows without a target"):
        load(other, index["holes"])
    with pytest.raises(InvalidArgumentError, match=r"lacks the column\(s\) \['z'\]"):
        load(other, index["lacking"])
    (other / "short.csv.gz").unlink()
    with pytest.raises(InvalidArgumentError, match="is missing; pass --data"):
        load(other, entry)


@pytest.mark.parametrize("seed", range(3))
def test_a_split_keeps_every_class_for_training(seed: int):
    y = np.array([0] * 50 + [1] * 40 + [2] * 2 + [3])
    parts = split(y, "multiclass", seed)
    assert sorted([*parts.training, *parts.test]) == list(range(len(y)))
    assert set(y[parts.training]) == {0, 1, 2, 3}
    counts = np.bincount(y[parts.test], minlength=4)
    # Within a row of a fifth of each class; a class of one row gives none.
    np.testing.assert_allclose(counts[:3], [10, 8, 0.4], atol=1)
    assert counts[3] == 0


def test_a_split_depends_on_the_seed_alone():
    y = np.repeat([0, 1], 50)
    assert split(y, "binary", 1).fingerprint == split(y, "binary", 1).fingerprint
    assert len({split(y, "binary", seed).fingerprint for seed in range(20)}) == 20
    real = np.linspace(0, 1, 100)
    np.testing.assert_array_equal(split(real, "regression", 1).test, split(real**2, "regression", 1).test)


@pytest.fixture
def frames() -> tuple[pd.DataFrame, pd.DataFrame, np.ndarray]:
    """Make training and other rows of one frame, whose categories pandas knows from both."""
    many = [f"m{code}" for code in np.arange(60) % 15]
    whole = pd.DataFrame(
        {
            "few": ["a", "b", None, "a"] * 15 + ["new", None],
            "many": [*many, "never", None],
            "empty": [None] * 61 + ["late"],
            "number": [*np.linspace(0, 1, 60), np.nan, 2.0],
        }
    )
    for name in ("few", "many", "empty"):
        whole[name] = whole[name].astype("category")
    return whole[:60], whole[60:], (np.arange(60) % 15 > 7).astype(int)


def test_numbers_have_a_column_per_category_up_to_ten(frames: tuple[pd.DataFrame, pd.DataFrame, np.ndarray]):
    X, later, y = frames
    before = X.copy()
    encoder = Numbers("binary", seed=0)
    encoded = encoder.fit_transform(X, y)
    # few: a, b, missing; empty: missing; many: one number; number.
    assert encoded.shape == (60, 6)
    np.testing.assert_array_equal(encoded[:4, :3].argmax(axis=1), [1, 2, 0, 1])
    np.testing.assert_array_equal(encoded[:, -1], X["number"])
    other = encoder.transform(later)
    np.testing.assert_array_equal(other[:, :4], [[0, 0, 0, 1], [1, 0, 0, 0]])
    # Categories that training did not have are encoded by the mean of the targets.
    np.testing.assert_allclose(other[:, 4], y.mean())
    pd.testing.assert_frame_equal(X, before)


def test_categories_keep_their_number_and_new_ones_are_missing(frames: tuple[pd.DataFrame, pd.DataFrame, np.ndarray]):
    X, later, y = frames
    encoder = Categories("binary", seed=0)
    encoded, other = encoder.fit_transform(X, y), encoder.transform(later)
    assert list(encoded.columns) == ["x0", "x1", "x2"]  # the column without a value is gone
    assert encoded["x0"].tolist()[:2] == ["a", "b"]
    assert encoded.dtypes.equals(other.dtypes)
    assert set(encoded["x0"].cat.categories) == {"a", "b"}
    assert other[["x0", "x1"]].isna().all().all()
    np.testing.assert_array_equal(other["x2"], later["number"])


def test_categories_above_the_limit_are_encoded_by_the_target(frames: tuple[pd.DataFrame, pd.DataFrame, np.ndarray]):
    X, later, y = frames
    encoder = Categories("binary", seed=0, most=14)
    encoded, other = encoder.fit_transform(X, y), encoder.transform(later)
    assert list(encoded.columns) == ["x0", "x1", "target0"]
    np.testing.assert_array_equal(encoded["target0"] > 0.5, y == 1)
    np.testing.assert_allclose(other["target0"], y.mean())


def test_words_are_texts_without_holes(frames: tuple[pd.DataFrame, pd.DataFrame, np.ndarray]):
    X, later, y = frames
    encoded = pd.concat([Words().fit_transform(X, y), Words().transform(later)])
    for name in category_columns(X):
        assert all(isinstance(cell, str) for cell in encoded[name])
    assert encoded["few"].tolist()[2] == "(missing)"


@pytest.mark.parametrize(
    ("name", "papers", "method", "parameters", "printed"),
    [
        ("german_credit", ["gradtree"], "CART", "tuned", (0.589, 0.065, "5.1")),
        ("splice", ["gradtree"], "GradTree", "tuned", (0.873, 0.030, "5.2")),
        ("titanic", ["gradtree"], "GradTree", "default", (0.782, 0.035, "C.6")),
        ("amazon_employee_access", ["grande"], "GRANDE", "tuned", (0.665, 0.009, "5.10")),
        ("adult_full", ["grande"], "NODE", "default", (0.799, 0.003, "5.11")),
        ("bioresponse", ["grande"], "RandomForest", "default", (0.799, 0.006, "5.9")),
        # Both papers have the set: the first one that is asked for counts.
        ("wdbc", ["gradtree", "grande"], "GradTree", "default", (0.902, 0.029, "C.6")),
        ("wdbc", ["grande", "gradtree"], "GradTree", "default", (0.925, 0.033, "5.9")),
    ],
)
def test_figures_are_the_papers(name: str, papers: list[str], method: str, parameters: str, printed: tuple):
    assert figures_of(Source(method, parameters), [name, "no such set"], papers) == {name: printed}


def test_figures_of_get_are_r2():
    found = figures_of(Source("GET-Linear", "tuned"), ["elevators", "splice"], ["get"], "r2")
    assert found["elevators"].mean == 0.9088 and math.isnan(found["elevators"].std) and len(found) == 1


def test_figures_without_a_number_are_left_out():
    assert figures_of(Source("DL8.5", "tuned"), ["splice"], ["gradtree"]) == {}
    assert figures_of(Source("DNDT", "default"), ["adult"], ["gradtree"]) == {}


@pytest.mark.skipif(not (DATA / "INDEX.csv").is_file(), reason="the benchmark's sets are not here")
def test_figures_and_index_agree():
    index = read_index(DATA)
    for path in FIGURES.values():
        lines = [line.split(",") for line in path.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
        place = lines[0].index("paper")
        for line in lines[1:]:
            assert line[place] in index[line[0]].papers
    assert all(choose(index, [suite]) for suite in SUITES)
