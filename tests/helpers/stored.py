"""Small forests to store, files of them that were forged, and the one way in which a file may be refused."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hardwood import errors
from hardwood.forest import Forest, _container, _schema, load

Edit = Callable[[dict[str, Any], dict[str, Any]], None]  # changes a document and its arrays in place


def stump(**fields: Any) -> Forest:
    """A forest of one split and two leaves."""
    stored: dict[str, Any] = {
        "tree_start": [0, 3],
        "kind": [1, 0, 0],
        "left": [1, -1, -1],
        "right": [2, -1, -1],
        "feature": [0, -1, -1],
        "threshold": [0.5, 0.0, 0.0],
        "missing_left": [True, False, False],
        "leaf_values": [[0.25], [-0.0]],
        "n_features": 2,
    }
    return Forest(**{**stored, **fields})


def refuse(path: Path) -> str:
    """Check that a file is refused, by a check and not by an accident, and return the message."""
    with pytest.raises(errors.ForestFileError) as caught:
        load(path)
    assert caught.value.__cause__ is None, repr(caught.value.__cause__)
    assert str(caught.value).startswith(f"{os.fspath(path)!r} cannot be loaded: ")
    assert "; " in str(caught.value)
    return str(caught.value)


def loaded_or_refused(path: Path) -> Forest | None:
    """Return the loaded forest, or None where the file is refused in the right way."""
    try:
        return load(path)
    except errors.ForestFileError:
        refuse(path)
        return None


def forge(forest: Forest, path: Path, edit: Edit) -> None:
    """Write a file whose checksum is right but whose content was edited."""
    document, arrays = _schema.describe(forest)
    document, arrays = json.loads(json.dumps(document)), {name: array.copy() for name, array in arrays.items()}
    edit(document, arrays)
    listed = document["arrays"] if isinstance(document["arrays"], dict) else {}
    for name, array in arrays.items():  # an adversary keeps the list of arrays right, unless the edit is about it
        if listed.get(name) != "keep":
            listed[name] = {"dtype": array.dtype.name, "shape": list(array.shape)}
    path.write_bytes(b"".join(_container.pack(document, arrays)))


def forest_to_forge() -> Forest:
    """A forest that has every kind of split and every optional field."""
    return Forest(
        tree_start=[0, 7, 8],
        kind=[1, 2, 0, 0, 3, 0, 0, 0],
        left=[1, 2, -1, -1, 5, -1, -1, -1],
        right=[4, 3, -1, -1, 6, -1, -1, -1],
        feature=[0, 1, -1, -1, -1, -1, -1, -1],
        threshold=[0.5, 0, 0, 0, 1.5, 0, 0, 0],
        missing_left=[True, False, False, False, True, False, False, False],
        leaf_values=np.arange(10.0).reshape(5, 2),
        n_features=3,
        category_start=[0, 0, 2, 2, 2, 2, 2, 2, 2],
        category_codes=[0, 2],
        weight_start=[0, 0, 0, 0, 0, 2, 2, 2, 2],
        weight_feature=[0, 2],
        weight_value=[1.5, -2.0],
        leaf_weights=[1.0, 2.0, 3.0, 4.0, 5.0],
        leaf_coef=np.ones((5, 3, 2)),
        combine="softmax",
        base=[0.5, -0.5],
        link="softmax",
        feature_names=("a", "b", "c"),
        feature_types=("float", "category", "int"),
        categories={1: ("x", 2, 3.5)},
        classes=["no", "yes"],
        output_names=("first", "second"),
    )
