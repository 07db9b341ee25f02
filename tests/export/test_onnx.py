"""onnxruntime takes every row of an exported model to the forest's leaf and predicts what the forest predicts."""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np
import pytest

from hardwood.errors import InvalidArgumentError, MissingExtraError
from hardwood.export import to_onnx
from hardwood.forest import CATEGORIES, LEAF, OBLIQUE, Forest
from helpers.exports import assert_close, edge_rows, extreme_forest, many_forests, rebuilt
from helpers.forests import complete_forest, small_fields

pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

TOLERANCE = {"float64": 1e-12, "float32": 2e-5}


def run(model: Any, X: np.ndarray, threads: int = 1) -> dict[str, np.ndarray]:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, {"X": X}), strict=True))


def compare(forest: Forest, X: np.ndarray, leaves: bool, threads: int = 1) -> None:
    dtype = X.dtype.name
    found = run(to_onnx(forest, dtype=dtype, leaves=leaves), X, threads)
    tolerance = TOLERANCE[dtype]
    if leaves:
        assert np.array_equal(found["leaf"], forest.apply(X))
    with np.errstate(all="ignore"):
        outputs = forest.outputs(X)
        if forest.classes is None:
            wanted = forest.predict(X).reshape(len(X), forest.n_outputs).astype(dtype)
            assert_close(found["prediction"], wanted, tolerance)
            return
        # What a softmax makes of infinite outputs, and which class is chosen where two are as good as even, may differ.
        usable = np.isfinite(outputs).all(axis=1)
        assert_close(found["probabilities"][usable], forest.predict_proba(X)[usable], tolerance)
        best = np.sort(np.pad(outputs, [(0, 0), (1, 0)]) if forest.link == "sigmoid" else outputs, axis=1)
        gap = np.full(len(X), np.inf) if best.shape[1] == 1 else best[:, -1] - best[:, -2]
        clear = usable & (gap > tolerance * np.abs(best).max(axis=1, initial=0.0))
    assert np.array_equal(np.asarray(found["label"])[clear], forest.predict(X)[clear])
    assert clear.mean() > 0.5 or len(X) == 0


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("leaves", [True, False])
def test_forests_of_every_kind_agree(dtype: str, leaves: bool) -> None:
    for rng, forest in many_forests(range(45)):
        compare(forest, edge_rows(rng, forest, 25, np.dtype(dtype).type), leaves)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(("n_trees", "depth"), [(1, 1), (50, 3), (2, 12)])
def test_thresholds_of_every_magnitude_route_alike(n_trees: int, depth: int, dtype: str) -> None:
    rng = np.random.default_rng(depth)
    forest = extreme_forest(rng, n_trees, depth)
    compare(forest, edge_rows(rng, forest, 150, np.dtype(dtype).type), leaves=True, threads=2)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_large_vocabularies_and_codes_of_no_category(dtype: str) -> None:
    rng = np.random.default_rng(0)
    for size in (1, 31, 32, 33, 64, 65, 300):
        sets = [np.sort(rng.choice(size, int(rng.integers(0, size + 1)), replace=False)) for _ in range(6)]
        forest = Forest(
            tree_start=np.arange(0, 19, 3),
            kind=np.tile([CATEGORIES, LEAF, LEAF], 6),
            left=np.where(np.tile([1, 0, 0], 6), np.arange(18) + 1, -1),
            right=np.where(np.tile([1, 0, 0], 6), np.arange(18) + 2, -1),
            feature=np.tile([0, -1, -1], 6),
            threshold=np.zeros(18),
            missing_left=np.tile([True, False, False, False, False, False], 3),
            leaf_values=np.arange(12.0)[:, None],
            n_features=1,
            category_start=np.cumsum([0, *(n for each in sets for n in (len(each), 0, 0))]),
            category_codes=np.concatenate(sets).astype(int),
            categories={0: tuple(f"word {k}" for k in range(size))},
        )
        odd = [-1, -0.0, 0.5, size, size + 0.5, 1e9, -1e300 if dtype == "float64" else -1e30, np.inf, -np.inf, np.nan]
        X = np.concatenate([np.arange(size), odd]).astype(dtype)[:, None]
        compare(forest, X, leaves=True)


def test_oblique_sums_are_taken_in_the_order_of_the_forest() -> None:
    rng = np.random.default_rng(1)
    columns, splits = 5, 200
    weights = rng.normal(size=(splits, columns)) * 10.0 ** rng.integers(-8, 8, (splits, columns))
    X = rng.normal(size=(splits, columns)) * 10.0 ** rng.integers(-8, 8, (splits, columns))
    order = np.stack([rng.permutation(columns) for _ in range(splits)])
    total = np.zeros(splits)
    for k in range(columns):
        total = total + np.take_along_axis(weights, order[:, [k]], 1)[:, 0] * X[np.arange(splits), order[:, k]]
    # Every second split is a tie with row i, which goes right; the others are above it by one rounding error.
    threshold = np.where(np.arange(splits) % 2, total, np.nextafter(total, np.inf))
    forest = Forest(
        tree_start=np.arange(0, 3 * splits + 1, 3),
        kind=np.tile([OBLIQUE, LEAF, LEAF], splits),
        left=np.where(np.tile([1, 0, 0], splits), np.arange(3 * splits) + 1, -1),
        right=np.where(np.tile([1, 0, 0], splits), np.arange(3 * splits) + 2, -1),
        feature=np.full(3 * splits, -1),
        threshold=np.stack([threshold, 0 * threshold, 0 * threshold], axis=1).ravel(),
        missing_left=np.zeros(3 * splits, bool),
        leaf_values=np.zeros((2 * splits, 1)),
        n_features=columns,
        weight_start=np.cumsum([0, *np.tile([columns, 0, 0], splits)]),
        weight_feature=order.ravel(),
        weight_value=np.take_along_axis(weights, order, 1).ravel(),
    )
    own = np.diag(run(to_onnx(forest, leaves=True), X)["leaf"])
    assert np.array_equal(own, np.where(np.arange(splits) % 2, 2, 1))
    compare(forest, X, leaves=True)


def test_many_trees_and_rows_on_several_threads() -> None:
    rng = np.random.default_rng(2)
    weights = rng.normal(size=200 * 16)
    for fields in ({}, {"combine": "mean"}, {"combine": "softmax", "leaf_weights": weights}):
        forest = complete_forest(rng, 200, 4, 8, **fields)
        for rows in (0, 1, 1000):
            compare(forest, rng.normal(size=(rows, 8)), leaves=False, threads=2)


@pytest.mark.parametrize(
    "classes",
    [["no", "yes"], ["ä\n", "<b>"], [3, 7], np.array([1, 2], np.uint8), [0.5, 1.5], [False, True]],
)
def test_labels_come_back_as_they_are(classes: Any) -> None:
    forest = complete_forest(np.random.default_rng(0), 2, 2, 3, link="sigmoid", classes=classes)
    X = np.random.default_rng(1).normal(size=(20, 3))
    label = run(to_onnx(forest), X)["label"]
    assert label.tolist() == forest.predict(X).tolist()
    assert label.dtype == forest.classes.dtype or label.dtype == object


def test_the_model_says_what_its_columns_are() -> None:
    model = to_onnx(Forest(**small_fields()))
    notes = {entry.key: json.loads(entry.value) for entry in model.metadata_props}
    assert notes["feature_names"] == ["size", "colour", "age"]
    assert notes["categories"] == {"1": ["red", "green", "blue"]}
    assert model.producer_name == "hardwood"


def test_what_does_not_fit_is_refused() -> None:
    forest = complete_forest(np.random.default_rng(0), 1, 1, 2)
    with pytest.raises(InvalidArgumentError, match=r"dtype='float16'.*'float64' or 'float32'"):
        to_onnx(forest, dtype="float16")
    with pytest.raises(InvalidArgumentError, match="beyond float32"):
        to_onnx(rebuilt(forest, leaf_values=np.array([[1e39], [0.0]])), dtype="float32")
    labels = rebuilt(forest, link="sigmoid", classes=np.array(["\ud800", "b"]))
    with pytest.raises(InvalidArgumentError, match="Unicode"):
        to_onnx(labels)


def test_without_the_package_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(MissingExtraError, match=r"to_onnx\(\) needs onnx.*hardwood\[export\]"):
        to_onnx(complete_forest(np.random.default_rng(0), 1, 1, 2))
