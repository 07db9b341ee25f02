"""Every exporter, run by its real runtime, takes every row to the forest's leaf, and says what the forest says.

Forests are drawn: depth 1 to 12, 1 to 200 trees, thresholds of every magnitude, categories, oblique splits, linear
leaves, GRANDE's softmax, as far as a format holds them. Rows lie on thresholds and beside them, in float32 and in
float64, with missing values, infinities, zeros of both signs, and codes of no category.

    HARDWOOD_AGREEMENT_ROWS=100000 python -m pytest tests/export/test_agreement.py

takes 100,000 rows a forest instead of some hundred, and HARDWOOD_AGREEMENT_FORESTS=100 so many forests a runtime.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hardwood.export import from_json, to_c, to_json, to_onnx, to_python, to_sklearn, to_sql, to_treelite
from hardwood.export._support import FORMATS, check
from hardwood.forest import CATEGORIES, OBLIQUE, THRESHOLD, Forest
from helpers.exports import assert_close, edge_rows, extreme_forest, finite, rebuilt, without_empty_arrays
from helpers.forests import random_forest
from helpers.runtimes import (
    C_APPLY,
    CForest,
    Database,
    PostgreSQL,
    PythonForest,
    compile_c,
    in_words,
    postgresql_table,
    without_unknown_codes,
)
from helpers.unavailable import unavailable

ROWS = int(os.environ.get("HARDWOOD_AGREEMENT_ROWS", "300"))
FORESTS = int(os.environ.get("HARDWOOD_AGREEMENT_FORESTS", "15"))
MOST_NODES = 3000


class Case(NamedTuple):
    """A forest, rows for it, and a folder to work in."""

    forest: Forest
    X: np.ndarray
    rng: np.random.Generator
    folder: Path
    server: PostgreSQL | None = None


def outputs(forest: Forest, X: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        return forest.outputs(X)


def predictions(forest: Forest, X: np.ndarray) -> np.ndarray:
    """Return probabilities, or the outputs after the link, as a table."""
    with np.errstate(all="ignore"):
        found = forest.predict(X) if forest.classes is None else forest.predict_proba(X)
    return np.asarray(found).reshape(len(X), -1)


def tolerance(forest: Forest, unit: float) -> float:
    """Return the error that so many additions in some arithmetic, and an exponential, may make."""
    return unit * (16 + 2 * forest.n_trees) * max(1.0, float(np.abs(forest.leaf_values).max()))


# ---------------------------------------------------------------- one function a runtime


def with_sklearn(case: Case) -> None:
    """scikit-learn rounds rows to float32 and refuses infinities."""
    forest = rebuilt(case.forest, feature_names=None, feature_types=None)  # with names it wants a data frame
    with np.errstate(over="ignore"):
        X = finite(case.X.astype(np.float32))
    model = trees = to_sklearn(forest)
    if hasattr(model, "regressor_"):
        trees = model.regressor_
    elif hasattr(model, "final_estimator_"):
        trees = model.estimators_[0]
    assert np.array_equal(trees.apply(X).reshape(len(X), -1), forest.apply(X))
    found = model.predict(X) if forest.classes is None else model.predict_proba(X)
    assert_close(found.reshape(len(X), -1), predictions(forest, X), tolerance(forest, 2**-50))


def with_onnx(case: Case) -> None:
    """onnxruntime, in the type of the rows."""
    onnxruntime = pytest.importorskip("onnxruntime", reason="ONNX IS NOT TESTED: onnxruntime is not installed")
    forest, dtype = case.forest, case.X.dtype.name
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    model = to_onnx(forest, dtype=dtype, leaves=True).SerializeToString()
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    name = "prediction" if forest.classes is None else "probabilities"
    leaf, found = session.run(["leaf", name], {"X": case.X})
    assert np.array_equal(leaf, forest.apply(case.X))
    unit = 2.0**-50 if dtype == "float64" else 2.0**-21
    assert_close(found.reshape(len(case.X), -1), predictions(forest, case.X).astype(dtype), tolerance(forest, unit))


def with_treelite(case: Case) -> None:
    """treelite's general tree inference library, before the link."""
    gtil = pytest.importorskip("treelite.gtil", reason="TREELITE IS NOT TESTED: it is not installed")
    forest, X = case.forest, case.X
    codes = list(forest.categories)
    X = X.copy()
    X[:, codes] = np.where(X[:, codes] == np.floor(X[:, codes]), X[:, codes], np.nan)  # it cuts 1.5 to 1
    model = to_treelite(forest)
    assert np.array_equal(gtil.predict_leaf(model, X, nthread=1), forest.apply(X))
    found = gtil.predict(model, X, nthread=1, pred_margin=True).reshape(len(X), -1)
    unit = 2.0**-50 if X.dtype == np.float64 else 2.0**-21
    assert_close(found, outputs(forest, X), tolerance(forest, unit))


def with_gcc(case: Case) -> None:
    """gcc, with every warning an error, in the type of the rows and in both layouts."""
    if shutil.which("gcc") is None:
        unavailable("EXPORTED C IS NOT TESTED: there is no gcc")
    forest, X = case.forest, case.X
    dtype = "double" if X.dtype == np.float64 else "float"
    layout = ("ifs", "tables")[int(case.rng.integers(2))]
    text = to_c(forest, dtype=dtype, layout=layout) + C_APPLY.replace("TYPE", dtype)
    c = CForest(compile_c(case.folder, text, "-Wno-missing-prototypes"), forest, dtype)
    assert np.array_equal(c.apply(X), forest.apply(X))
    unit = 2.0**-50 if dtype == "double" else 2.0**-20
    assert_close(c.predict_rows(X), predictions(forest, X).astype(c.out), tolerance(forest, unit))


def with_cpython(case: Case) -> None:
    """CPython, to the last bit."""
    forest, X = case.forest, without_unknown_codes(case.forest, case.X)
    rows = in_words(forest, X, case.rng)
    module = PythonForest(to_python(forest, layout=("ifs", "tables")[int(case.rng.integers(2))]))
    assert np.array_equal(module("leaf", rows), forest.apply(X))
    np.testing.assert_array_equal(module("outputs", rows), outputs(forest, X))


def with_duckdb(case: Case) -> None:
    """DuckDB, to the last bit."""
    pytest.importorskip("duckdb", reason="SQL IS NOT TESTED IN DUCKDB: it is not installed")
    with_database(case, "duckdb")


def with_sqlite(case: Case) -> None:
    """SQLite, to the last bit."""
    with_database(case, "sqlite")


def with_database(case: Case, dialect: str) -> None:
    forest, X = rebuilt(case.forest, feature_types=None), without_unknown_codes(case.forest, case.X)
    database = Database(dialect)
    database.load(forest, in_words(forest, X, case.rng))
    assert np.array_equal(database.numbers("apply"), forest.apply(X))
    np.testing.assert_array_equal(database.numbers("outputs"), outputs(forest, X))
    database.connection.close()


def with_postgresql(case: Case) -> None:
    """PostgreSQL, to the last bit."""
    assert case.server is not None
    forest, X = rebuilt(case.forest, feature_types=None), without_unknown_codes(case.forest, case.X)
    if forest.weight_feature is not None or forest.leaf_coef is not None:
        largest = 1e100 if X.dtype == np.float64 else 1e30
        X = finite(X, largest)  # an overflow is an error there
        X[np.abs(X) < 1 / largest] = 0.0  # and so is an underflow
    columns = [f"c{column}" for column in range(forest.n_features)]
    script = ["DROP TABLE IF EXISTS agreement;", postgresql_table("agreement", forest, in_words(forest, X, case.rng))]
    for method in ("apply", "outputs"):
        query = to_sql(forest, "postgresql", table="agreement", columns=columns, keep=["id"], method=method)
        script.append(f"SELECT * FROM ({query}) AS result ORDER BY id;")
    found = [row[1:] for row in case.server("\n".join(script))]
    assert np.array_equal(np.array(found[: len(X)], float), forest.apply(X))
    np.testing.assert_array_equal(np.array(found[len(X) :], float), outputs(forest, X))


def with_json(case: Case) -> None:
    """The text read back, to the last bit."""
    read = from_json(to_json(case.forest))
    assert read == without_empty_arrays(case.forest)
    assert np.array_equal(read.apply(case.X), case.forest.apply(case.X))
    np.testing.assert_array_equal(outputs(read, case.X), outputs(case.forest, case.X))


RUNTIMES: dict[str, tuple[str, Callable[[Case], None]]] = {
    "scikit-learn": ("sklearn", with_sklearn),
    "onnxruntime": ("onnx", with_onnx),
    "treelite GTIL": ("treelite", with_treelite),
    "gcc": ("c", with_gcc),
    "CPython": ("python", with_cpython),
    "DuckDB": ("sql", with_duckdb),
    "SQLite": ("sql", with_sqlite),
    "PostgreSQL": ("sql", with_postgresql),
    "JSON": ("json", with_json),
}


# ---------------------------------------------------------------- forests


def drawn_forest(rng: np.random.Generator, target: str, n_trees: int, depth: int) -> Forest:
    """Make a forest of about that size from all that a format holds."""
    refused = FORMATS[target].refused
    combine = str(rng.choice([way for way in ("sum", "mean", "softmax") if f"{way}_trees" not in refused]))
    n_trees = max(1, min(n_trees, MOST_NODES >> (depth + 1)))
    if rng.random() < 0.5:
        n_outputs = int(rng.integers(1, 4))
        weights = rng.normal(size=n_trees << depth) if combine == "softmax" else None
        base = rng.normal(size=n_outputs) if rng.random() < 0.5 else None
        return extreme_forest(
            rng, n_trees, depth, n_outputs=n_outputs, combine=combine, base=base, leaf_weights=weights
        )
    kinds = [THRESHOLD]
    kinds += [] if "categories" in refused else [CATEGORIES]
    kinds += [] if "oblique" in refused else [OBLIQUE]
    linear = None if "linear" not in refused else False
    splits = min(depth * 4, MOST_NODES // n_trees)
    return random_forest(rng, n_trees=n_trees, max_splits=splits, kinds=kinds, combine=combine, linear=linear)


@pytest.mark.parametrize("runtime", RUNTIMES)
@settings(max_examples=FORESTS)
@given(
    seed=st.integers(0, 2**32 - 1),
    n_trees=st.sampled_from([1, 2, 7, 60, 200]),
    depth=st.integers(1, 12),
    single=st.booleans(),
)
def test_every_row_reaches_the_same_leaf(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    runtime: str,
    seed: int,
    n_trees: int,
    depth: int,
    single: bool,
) -> None:
    target, run = RUNTIMES[runtime]
    server = request.getfixturevalue("server") if runtime == "PostgreSQL" else None
    rng = np.random.default_rng(seed)
    forest = drawn_forest(rng, target, n_trees, depth)
    dtype = np.float32 if single and not (target == "onnx" and (forest.kind == OBLIQUE).any()) else np.float64
    X = edge_rows(rng, forest, (ROWS + 1) // 2, dtype)
    if forest.leaf_coef is not None:
        X = finite(X, 1e3)  # where terms cancel, their order counts
    check(forest, target)
    run(Case(forest, X, rng, tmp_path_factory.mktemp("export"), server))


def test_every_format_with_a_runtime_of_its_own_is_here() -> None:
    """A new format has to be added here; SHAP explains, and fixed point is compared in a test of its own."""
    assert set(FORMATS) - {"shap", "c_fixed"} == {target for target, _ in RUNTIMES.values()}
