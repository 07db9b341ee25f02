"""Fields take anything array-like that fits, and end in one dtype each."""

from __future__ import annotations

import numpy as np
import pytest

from hardwood.errors import InvalidArgumentError
from hardwood.forest import Forest
from hardwood.forest._canonical import ARRAYS
from helpers.forests import small_fields


def test_lists_become_arrays_of_the_stated_dtypes() -> None:
    fields = {
        name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in small_fields().items()
    }
    forest = Forest(**fields)
    assert forest == Forest(**small_fields())
    for name, (dtype, ndim) in ARRAYS.items():
        value = getattr(forest, name)
        if value is not None:
            assert value.dtype == dtype, name
            assert value.ndim == ndim
            assert value.flags.c_contiguous


@pytest.mark.parametrize("change", [np.asfortranarray, lambda a: a.astype(np.float32), lambda a: a[::-1][::-1]])
def test_layout_and_width_of_what_is_given_do_not_matter(change: object) -> None:
    fields = small_fields()
    fields["leaf_values"] = change(fields["leaf_values"])  # type: ignore[operator]
    assert Forest(**fields) == Forest(**small_fields())


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("feature", [0.5, -1, 1, -1, -1, -1, -1, -1], "feature=.*must hold integers"),
        ("threshold", ["a"] * 8, "threshold=.*must hold numbers"),
        ("threshold", [1j] * 8, "threshold=.*must hold numbers"),
        ("missing_left", [0] * 8, "missing_left=.*must hold booleans"),
        ("leaf_values", [1.0, 2.0, 3.0, 4.0, 5.0], "leaf_values=.*must have 2 dimension.*\\(leaves, outputs\\)"),
        ("leaf_values", [[1.0], [2.0, 3.0]], "leaf_values=.*not a rectangular array"),
        ("kind", None, "kind=.*must have 1 dimension"),
        ("left", [2**40] * 8, "left=.*does not fit int32"),
        ("left", [-(2**40)] * 8, "left=-1099511627776: does not fit int32"),
        ("n_features", 0, "n_features=0: must be an integer of at least 1"),
        ("n_features", 2.0, "n_features=2.0: must be an integer"),
        ("n_features", True, "n_features=True: must be an integer"),
        ("classes", [[1, 2]], "classes=.*one-dimensional"),
        ("classes", [None, "a"], "classes=.*one-dimensional array of numbers, booleans or strings"),
        ("feature_names", "abc", "feature_names='abc': must be a sequence of strings"),
        ("feature_names", ("a", "b", 3), "feature_names=3: is not a string"),
        ("output_names", 5, "output_names=5: must be a sequence of strings"),
        ("categories", [("a",)], "categories=.*must map column numbers"),
        ("categories", {"1": ("a",)}, "categories='1': is not a column number"),
        ("categories", {True: ("a",)}, "categories=True: is not a column number"),
        ("categories", {1: "abc"}, r"categories\[1\]='abc': must be a sequence of values"),
        ("categories", {1: ("a", None)}, r"categories\[1\]=None: is not a string, number or boolean"),
        ("categories", {1: ("a", float("nan"))}, r"categories\[1\]=nan: is not a string, number or boolean"),
    ],
)
def test_what_does_not_fit_is_refused(name: str, value: object, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        Forest(**{**small_fields(), name: value})


def test_names_and_categories_become_plain_python() -> None:
    fields = small_fields()
    fields["categories"] = {np.int64(1): np.array(["red", "green", "blue"])}
    fields["feature_names"] = np.array(["size", "colour", "age"])
    forest = Forest(**fields)
    assert forest == Forest(**small_fields())
    assert [type(word) for word in forest.categories[1]] == [str, str, str]
    numbers = Forest(**{**fields, "categories": {1: np.array([1, 2, 5])}})
    assert [type(word) for word in numbers.categories[1]] == [int, int, int]


def test_labels_keep_their_type() -> None:
    fields = {**small_fields(), "link": "sigmoid"}
    for labels in (np.array([3, 5], np.int16), np.array([0.5, 1.5]), np.array([False, True]), np.array(["a", "bc"])):
        classes = Forest(**{**fields, "classes": labels}).classes
        assert classes is not None
        assert classes.dtype == labels.dtype
        np.testing.assert_array_equal(classes, labels)
    classes = Forest(**{**fields, "classes": np.array(["a", "bc"], object)}).classes
    assert classes is not None
    assert classes.dtype == np.dtype("<U2")
    swapped = np.array([3, 5], np.int32).astype(">i4")
    assert Forest(**{**fields, "classes": swapped}) == Forest(**{**fields, "classes": np.array([3, 5], np.int32)})
