"""The table of what formats hold: the exporters keep to it, and the page shows it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hardwood
from hardwood import export
from hardwood.errors import InvalidArgumentError
from hardwood.export import check, supported
from hardwood.export._support import FEATURES, FORMATS, features_of, markdown
from hardwood.forest import CATEGORIES, OBLIQUE, THRESHOLD, Forest
from helpers.exports import rebuilt
from helpers.forests import complete_forest, random_forest
from helpers.processes import run_python

pytest.importorskip("onnx")

PAGE = Path(__file__).parents[2] / "docs" / "exports.md"
BEGIN, END = "<!-- table -->\n", "<!-- end of table -->\n"


def test_the_page_shows_the_table_that_the_exporters_ask() -> None:
    text = PAGE.read_text(encoding="utf-8")
    shown = text.split(BEGIN)[1].split(END)[0].strip()
    assert shown == markdown().strip(), "put what hardwood.export._support.markdown() returns between the page's marks"


def test_the_code_of_the_page_runs() -> None:
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    namespace: dict[str, Any] = {"__name__": "page"}
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), namespace)
    assert namespace["card"].startswith("# Model card: RandomForestClassifier")


def test_every_format_has_its_function_and_every_cell_a_verdict() -> None:
    for target in FORMATS.values():
        assert callable(getattr(export, target.function))
        assert (target.refused.keys() | target.notes.keys()) <= FEATURES.keys()
        assert not target.refused.keys() & target.notes.keys()
    table = supported()
    assert table.keys() == FORMATS.keys()
    for cells in table.values():
        assert cells.keys() == FEATURES.keys()
        assert all(cell == "exact" or cell.startswith(("exact: ", "refused: ")) for cell in cells.values())


def fields_with(feature: str) -> Forest:
    """Return a forest that makes use of one feature beside the plainest ones."""
    rng = np.random.default_rng(0)
    plain = complete_forest(rng, 2, 2, 3)
    changes: dict[str, dict[str, Any]] = {
        "linear": {"leaf_coef": np.ones((8, 3, 1))},
        "outputs": {"leaf_values": np.ones((8, 2))},
        "mean": {"combine": "mean"},
        "softmax_trees": {"combine": "softmax", "leaf_weights": np.arange(8.0)},
        "base": {"base": [1.0]},
        "sigmoid": {"link": "sigmoid"},
        "softmax": {"link": "softmax"},
        "exp": {"link": "exp"},
        "classes": {"link": "sigmoid", "classes": [0, 1]},
    }
    if feature in ("categories", "oblique"):
        kinds = [CATEGORIES if feature == "categories" else OBLIQUE, THRESHOLD]
        fixed = {
            "kinds": kinds,
            "linear": False,
            "combine": "sum",
            "task": "regression",
            "n_trees": 2,
            "max_splits": 30,
        }
        return next(f for f in (random_forest(rng, **fixed) for _ in range(99)) if feature in features_of(f))
    return rebuilt(plain, **changes.get(feature, {}))


@pytest.mark.parametrize("feature", FEATURES)
def test_a_forest_with_a_feature_is_refused_where_the_table_says_so(feature: str) -> None:
    forest = fields_with(feature)
    assert feature in features_of(forest)
    for name, target in FORMATS.items():
        refused = [each for each in features_of(forest) if each in target.refused]
        if not refused:
            check(forest, name)
            continue
        with pytest.raises(InvalidArgumentError) as raised:
            check(forest, name)
        assert target.refused[refused[0]] in str(raised.value)
        assert target.title in str(raised.value)


def test_features_that_change_nothing_are_not_in_use() -> None:
    forest = complete_forest(np.random.default_rng(0), 1, 2, 3)
    idle = rebuilt(forest, combine="softmax", leaf_weights=np.arange(4.0), leaf_coef=np.zeros((4, 3, 1)))
    assert features_of(idle) == features_of(forest)


def test_unknown_formats_and_things_that_are_no_forest_are_refused() -> None:
    forest = complete_forest(np.random.default_rng(0), 1, 1, 1)
    with pytest.raises(InvalidArgumentError, match=r"format='pmml'.*'onnx'"):
        check(forest, "pmml")
    with pytest.raises(InvalidArgumentError, match="forest_of"):
        check("forest", "onnx")
    assert callable(hardwood.forest_of)
    wide = rebuilt(forest, link="sigmoid", classes=np.array([0, 1], np.longdouble))
    if wide.classes.dtype.itemsize > 8:
        with pytest.raises(InvalidArgumentError, match="wider than float64"):
            check(wide, "json")


def test_the_room_imports_no_optional_package() -> None:
    loaded = run_python(
        "import sys, hardwood.export; hardwood.export.to_onnx; hardwood.export.to_shap; hardwood.export.to_sklearn; "
        "print(*sys.modules)"
    )
    heavy = {"onnx", "onnxruntime", "shap", "treelite", "torch", "sklearn", "matplotlib", "pandas"}
    assert not heavy & set(loaded.split())
