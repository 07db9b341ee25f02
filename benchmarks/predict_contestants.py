"""Everything that predicts with one forest's trees, called in one way; what is not installed is left out aloud."""

from __future__ import annotations

import ctypes
import importlib.metadata
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from hardwood.export import to_c, to_onnx, to_sklearn, to_treelite
from hardwood.forest import Forest

Predict = Callable[[np.ndarray], Any]


class Contestant(NamedTuple):
    """A way to predict float32 rows."""

    name: str
    batch: Predict
    one: Predict | None  # for a table of one row
    seconds_inside: Callable[[np.ndarray, int], float] | None = None  # a row, called from C, over so many calls


# Each call needs the answer of the one before, so that calls cannot overlap; the sum keeps them all.
_TIMER = """
#include <time.h>

double forest_seconds(const float *x, size_t rows, size_t calls) {
    float out[FOREST_PREDICTIONS];
    volatile float kept;
    float total = 0;
    size_t call, at = 0;
    struct timespec begin, end;
    timespec_get(&begin, TIME_UTC);
    for (call = 0; call < calls; call++) {
        forest_predict(x + at * FOREST_FEATURES, out);
        total += out[0];
        at = (at + 1 + (size_t)(out[0] != out[0])) % rows;
    }
    timespec_get(&end, TIME_UTC);
    kept = total;
    (void)kept;
    return ((double)(end.tv_sec - begin.tv_sec) + 1e-9 * (double)(end.tv_nsec - begin.tv_nsec)) / (double)calls;
}
"""


def contestants_of_xgboost(model: Any, forest: Forest, threads: int, folder: Path) -> list[Contestant]:
    """Return what predicts with XGBoost's trees; ours, which all are compared with, is the first."""
    booster = model.get_booster()
    booster.set_param({"nthread": threads})
    result = [
        Contestant("hardwood", forest.predict, forest.predict),
        Contestant("hardwood, float64 rows", lambda X: forest.predict(_as_float64(X)), None),
        Contestant("xgboost inplace_predict", booster.inplace_predict, booster.inplace_predict),
    ]
    result += _c(forest, folder)
    if installed("onnx", "onnxruntime"):
        result.append(_onnx(forest, threads))
    if installed("treelite"):
        result.append(_treelite(forest, threads))
    trees = to_sklearn(forest)
    if hasattr(trees, "n_jobs"):
        trees.n_jobs = threads
    return [*result, Contestant("scikit-learn export", trees.predict, None)]


def contestants_of_lightgbm(model: Any, forest: Forest, threads: int, folder: Path) -> list[Contestant]:
    """Return what predicts with LightGBM's trees; ours is the first."""
    booster = model.booster_

    def lightgbm(X: np.ndarray) -> np.ndarray:
        return booster.predict(X, num_threads=threads)

    return [Contestant("hardwood", forest.predict, forest.predict), Contestant("lightgbm predict", lightgbm, lightgbm)]


def _c(forest: Forest, folder: Path) -> list[Contestant]:
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        print("left out: the C export (there is no C compiler)")
        return []
    source, library = folder / "forest.c", folder / "forest.so"
    source.write_text(to_c(forest, dtype="float") + _TIMER, encoding="ascii")
    flags = ("-std=c11", "-Wall", "-Werror", "-O2", "-shared", "-fPIC")
    subprocess.run([compiler, *flags, "-o", str(library), str(source), "-lm"], check=True)
    compiled = ctypes.CDLL(str(library))
    predict_rows, predict, seconds = compiled.forest_predict_rows, compiled.forest_predict, compiled.forest_seconds
    predict_rows.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)
    predict.argtypes = (ctypes.c_void_p, ctypes.c_void_p)
    seconds.argtypes, seconds.restype = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t), ctypes.c_double

    def many(X: np.ndarray) -> np.ndarray:
        out = np.empty(len(X), np.float32)
        predict_rows(X.ctypes.data, len(X), out.ctypes.data)
        return out

    def one(X: np.ndarray) -> np.ndarray:
        out = np.empty(1, np.float32)
        predict(X.ctypes.data, out.ctypes.data)
        return out

    return [Contestant("C export, 1 thread", many, one, lambda X, calls: seconds(X.ctypes.data, len(X), calls))]


def _onnx(forest: Forest, threads: int) -> Contestant:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    model = to_onnx(forest, dtype="float32").SerializeToString()
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])

    def run(X: np.ndarray) -> np.ndarray:
        return session.run(["prediction"], {"X": X})[0].reshape(-1)

    return Contestant("ONNX export, onnxruntime", run, run)


def _treelite(forest: Forest, threads: int) -> Contestant:
    import treelite

    model = to_treelite(forest)

    def run(X: np.ndarray) -> np.ndarray:
        return treelite.gtil.predict(model, X, nthread=threads).reshape(-1)

    return Contestant("treelite export, GTIL", run, run)


_converted: dict[int, tuple[np.ndarray, np.ndarray]] = {}


def _as_float64(X: np.ndarray) -> np.ndarray:
    """Return a table as float64, converted once: the conversion is not what is measured."""
    if id(X) not in _converted or _converted[id(X)][0] is not X:
        _converted.clear()
        _converted[id(X)] = (X, X.astype(np.float64))
    return _converted[id(X)][1]


def installed(*packages: str) -> bool:
    """Tell whether packages are there, and say which is not."""
    for package in packages:
        if version(package) == "unknown":
            print(f"left out: what needs {package} (pip install 'hardwood[export]')")
            return False
    return True


def version(package: str) -> str:
    """Return the version of a package, or "unknown"."""
    for name in (package, f"{package}-cpu"):
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return "unknown"
