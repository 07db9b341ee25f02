"""`y` as the user has it, to an array that estimators learn from: one type, no holes."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from hardwood._typing import Float, Shaped
from hardwood.data._cells import is_missing
from hardwood.errors import reject


def as_array(y: Any) -> Shaped[np.ndarray, "..."]:
    """Return a target as an array; a narwhals frame or series of any library too."""
    if y is None:
        message = "requires y to be passed, but the target y is None"
        reject("y", None, message, "pass one target for each row of X")
    if not isinstance(y, np.ndarray) and not hasattr(y, "toarray"):
        y = y.to_numpy() if hasattr(y, "to_numpy") else y
    if hasattr(y, "toarray"):
        y = y.toarray()  # a sparse matrix of labels
    array = np.asarray(y)
    if array.dtype.kind == "c":
        reject("y", array[:3].tolist(), "Complex data not supported", "pass real numbers")
    return array


def labels_of(y: Any) -> Shaped[np.ndarray, " rows"] | Shaped[np.ndarray, "rows labels"]:
    """Return a classifier's target: one label for each row, or a matrix of zeros and ones."""
    from sklearn.utils import column_or_1d
    from sklearn.utils.multiclass import check_classification_targets, type_of_target

    labels = as_array(y)
    if labels.dtype.kind == "O":
        labels = _of_one_type(labels)
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        _reject_hole(labels, int(np.argmax(~np.isfinite(labels.reshape(len(labels), -1)).all(axis=1))))
    check_classification_targets(labels)
    kind = type_of_target(labels, input_name="y")
    if kind == "multilabel-indicator":
        return labels.astype(np.float64)
    if kind == "multiclass-multioutput":
        remedy = "fit one classifier for each column (sklearn.multioutput.MultiOutputClassifier)"
        reject("y", f"an array of shape {labels.shape}", "has several columns of classes", remedy)
    return column_or_1d(labels, warn=True)


def _of_one_type(labels: Shaped[np.ndarray, "..."]) -> Shaped[np.ndarray, "..."]:
    """Return labels that are Python objects in an array of their own type; refuse holes and mixtures."""
    cells = labels.reshape(-1).tolist()
    for position, cell in enumerate(cells):
        if is_missing(cell):
            _reject_hole(labels, position * len(labels) // max(1, labels.size))
    texts = [isinstance(cell, str) for cell in cells]
    if any(texts) and not all(texts):
        mixed = [cells[texts.index(False)], cells[texts.index(True)]]
        reject("y", mixed, "mixes texts with other labels", "pass labels of one type")
    if all(texts):
        return labels
    try:
        typed = np.array(cells)
    except ValueError:  # lists of different lengths
        return labels
    return labels if typed.ndim != 1 else typed.reshape(labels.shape)


def _reject_hole(y: Shaped[np.ndarray, "rows ..."], row: int) -> NoReturn:
    problem = "Input y contains NaN, infinity or a value too large"
    reject(f"y[{row}]", np.asarray(y[row]).tolist(), problem, "drop rows without a target")


def numbers_of(y: Any) -> Float[np.ndarray, "rows ..."]:
    """Return a regressor's target: finite numbers, a single column as one axis."""
    given = as_array(y)
    try:
        values = given.astype(np.float64)
    except (TypeError, ValueError):
        reject("y", given[:3].tolist(), "does not hold numbers", "pass numbers, or use a classifier")
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if not np.isfinite(values).all():
        _reject_hole(values, int(np.argmax(~np.isfinite(values.reshape(len(values), -1)).all(axis=1))))
    return values
