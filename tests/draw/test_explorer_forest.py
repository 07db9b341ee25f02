"""What a page holds of a forest comes back bit for bit."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from hardwood.draw._explorer_forest import describe_forest, packed
from hardwood.forest import LEAF, Forest
from helpers.explorer import unpacked
from helpers.forests import forests


@given(arrays.arrays(np.float64, st.integers(0, 40), elements=st.floats(allow_nan=True, allow_infinity=True)))
def test_numbers_come_back_bit_for_bit(values: np.ndarray):
    assert unpacked(packed(values, "f8")).tobytes() == values.tobytes()


@given(arrays.arrays(np.int64, st.integers(0, 40), elements=st.integers(-(2**31), 2**31 - 1)))
def test_integers_come_back(values: np.ndarray):
    np.testing.assert_array_equal(unpacked(packed(values, "i4")), values)


@settings(max_examples=40)
@given(forests())
def test_a_described_forest_is_the_same_forest(forest: Forest):
    held = describe_forest(forest)
    arrays = {name: unpacked(array) for name, array in held["arrays"].items()}
    split = arrays["kind"] != LEAF
    shift = np.arange(len(split))
    shapes = {"leaf_values": (-1, forest.n_outputs), "leaf_coef": (-1, forest.n_features, forest.n_outputs)}
    again = Forest(
        **{
            **{name: array.reshape(shapes.get(name, -1)) for name, array in arrays.items()},
            "left": np.where(split, arrays["left"] + shift, -1),
            "right": np.where(split, arrays["right"] + shift, -1),
            "missing_left": arrays["missing_left"].astype(bool),
        },
        n_features=forest.n_features,
        combine=held["combine"],
        link=held["link"],
        feature_names=forest.feature_names,
        feature_types=forest.feature_types,
        categories=forest.categories,
        classes=forest.classes,
        output_names=forest.output_names,
    )
    assert again == forest
