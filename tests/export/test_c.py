"""Exported C, compiled with every warning an error, takes every row to the forest's leaf and predicts what it does."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hardwood.errors import InvalidArgumentError
from hardwood.export import to_c
from hardwood.export._c_text import c_comment, c_string
from hardwood.forest import CATEGORIES, LEAF, THRESHOLD, Forest
from helpers.exports import assert_close, edge_rows, extreme_forest, finite, many_forests, rebuilt
from helpers.forests import complete_forest, random_forest, small_fields
from helpers.names import EVIL_NAMES, names
from helpers.runtimes import STRICT, CForest, compile_c
from helpers.unavailable import unavailable

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="EXPORTED C IS NOT TESTED: there is no gcc")

TOLERANCE = {"double": 1e-14, "float": 1e-3}


def compiled(folder: Path, forests: list[Forest], *flags: str, strict: bool = True, **options: Any) -> list[CForest]:
    """Compile several forests at once, each with its own names."""
    texts = [to_c(forest, name=f"f{k}", **options) for k, forest in enumerate(forests)]
    library = compile_c(folder, "\n".join(texts), *flags, strict=strict)
    dtype = options.get("dtype") or ("int32" if "fixed_point" in options else "double")
    return [CForest(library, forest, dtype, f"f{k}") for k, forest in enumerate(forests)]


def compare(c: CForest, forest: Forest, X: np.ndarray) -> None:
    """Compare everything; doubles before the link agree to the last bit."""
    single = c.cell is np.float32
    assert np.array_equal(c.apply(X), forest.apply(X))
    with np.errstate(all="ignore"):
        outputs = forest.outputs(X)
        if single or forest._large_weights:
            assert_close(c.outputs(X), outputs.astype(c.cell), TOLERANCE["float"] if single else TOLERANCE["double"])
        else:
            np.testing.assert_array_equal(c.outputs(X), outputs)
        wanted = forest.predict(X).reshape(len(X), -1) if forest.classes is None else forest.predict_proba(X)
        assert_close(c.predict(X), wanted.astype(c.cell), TOLERANCE["float" if single else "double"])
    np.testing.assert_array_equal(c.predict_rows(X), c.predict(X))
    if forest.classes is not None and not single and not forest._large_weights:
        assert np.array_equal(forest.classes[c.classes(X)], forest.predict(X))


@pytest.mark.parametrize("layout", ["ifs", "tables"])
@pytest.mark.parametrize("dtype", ["double", "float"])
def test_forests_of_every_kind_agree(tmp_path: Path, layout: str, dtype: str) -> None:
    pairs = list(many_forests(range(20)))
    library = compiled(tmp_path, [forest for _, forest in pairs], layout=layout, dtype=dtype)
    for c, (rng, forest) in zip(library, pairs, strict=True):
        X = edge_rows(rng, forest, 25, c.cell)
        # Sums in single precision overflow earlier.
        compare(c, forest, finite(X, 1e30) if dtype == "float" and forest.leaf_coef is not None else X)


@pytest.mark.parametrize("layout", ["ifs", "tables"])
@pytest.mark.parametrize("dtype", ["double", "float"])
def test_thresholds_of_every_magnitude_route_alike(tmp_path: Path, layout: str, dtype: str) -> None:
    rng = np.random.default_rng(0)
    forest = extreme_forest(rng, 4, 6)
    (c,) = compiled(tmp_path, [forest], layout=layout, dtype=dtype)
    compare(c, forest, edge_rows(rng, forest, 400, c.cell))


def test_compilers_that_fuse_products_into_sums_change_no_bit(tmp_path: Path) -> None:
    pairs = list(many_forests(range(12), linear=True, n_features=4, max_splits=8))
    flags = ("-std=gnu99", "-O2", "-march=native", "-ffp-contract=fast")
    for layout in ("ifs", "tables"):
        library = compiled(tmp_path, [forest for _, forest in pairs], *flags, strict=False, layout=layout)
        for c, (rng, forest) in zip(library, pairs, strict=True):
            X = rng.normal(size=(60, forest.n_features))
            assert np.array_equal(c.apply(X), forest.apply(X))
            np.testing.assert_array_equal(c.outputs(X), forest.outputs(X))


def test_a_compiler_that_forgets_nan_is_refused(tmp_path: Path) -> None:
    text = to_c(Forest(**small_fields()))
    with pytest.raises(AssertionError, match="missing values are NaN"):
        compile_c(tmp_path, text, "-ffast-math")


def test_leaf_weights_beyond_the_range_of_exp(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    forests = [random_forest(rng, n_trees=5, combine="softmax", n_features=3) for _ in range(6)]
    huge = [rebuilt(forest, leaf_weights=np.asarray(forest.leaf_weights) * 400) for forest in forests]
    for dtype in ("double", "float"):
        for c, forest in zip(compiled(tmp_path, huge, dtype=dtype), huge, strict=True):
            compare(c, forest, edge_rows(rng, forest, 25, c.cell))


@pytest.mark.parametrize("layout", ["ifs", "tables"])
def test_a_chain_of_thousands_of_splits(tmp_path: Path, layout: str) -> None:
    splits = 3000
    nodes = 2 * splits + 1
    split = np.arange(nodes) % 2 == 0
    split[-1] = False
    forest = Forest(
        tree_start=[0, nodes],
        kind=np.where(split, THRESHOLD, LEAF),
        left=np.where(split, np.arange(nodes) + 1, -1),
        right=np.where(split, np.arange(nodes) + 2, -1),
        feature=np.where(split, 0, -1),
        threshold=np.where(split, np.arange(nodes) / 2.0, 0.0),
        missing_left=np.zeros(nodes, bool),
        leaf_values=np.arange(splits + 1.0)[:, None],
        n_features=1,
    )
    (c,) = compiled(tmp_path, [forest], layout=layout)
    compare(c, forest, np.array([[-1.0], [0.0], [1499.5], [2999.0], [1e9], [np.nan]]))


def test_the_layout_follows_the_size() -> None:
    rng = np.random.default_rng(0)
    small, large = complete_forest(rng, 1, 3, 2), complete_forest(rng, 40, 6, 2)
    assert to_c(small) == to_c(small, layout="ifs") != to_c(small, layout="tables")
    assert to_c(large) == to_c(large, layout="tables") != to_c(large, layout="ifs")


def test_a_leaf_of_no_tree_is_minus_one(tmp_path: Path) -> None:
    forest = Forest(**small_fields())
    for layout in ("ifs", "tables"):
        (c,) = compiled(tmp_path, [forest], layout=layout)
        row = c._at(np.zeros(3))
        assert [c("leaf")(row, tree) for tree in (-1, 2, 10**9)] == [-1] * 3


def test_no_rows_are_no_predictions(tmp_path: Path) -> None:
    forest = Forest(**small_fields())
    (c,) = compiled(tmp_path, [forest])
    assert c.predict_rows(np.zeros((0, 3))).shape == (0, 1)


def test_only_what_needs_an_exponential_needs_math_h() -> None:
    assert "math.h" not in to_c(Forest(**small_fields()))
    assert "math.h" in to_c(Forest(**small_fields(), link="exp"))


# ---------------------------------------------------------------- headers

_MAIN = """
#include <stdio.h>
#include "model.h"
#include "model.h"
int other(void);
int main(void) {
    const double row[MODEL_FEATURES] = {0.1, 2, 3};
    double out[MODEL_PREDICTIONS];
    model_predict(row, out);
    printf("%d %.17g %s %d\\n", (int)model_leaf(row, 0), out[0], model_feature_names[1], other());
    return 0;
}
"""
_OTHER = '#include "model.h"\nint other(void);\nint other(void) { return MODEL_TREES; }\n'


@pytest.mark.parametrize(("compiler", "flags"), [("gcc", STRICT), ("g++", ("-std=c++11", *STRICT[1:]))])
@pytest.mark.parametrize("layout", ["ifs", "tables"])
def test_a_header_serves_several_files_in_c_and_cpp(
    tmp_path: Path, compiler: str, flags: tuple[str, ...], layout: Any
) -> None:
    if shutil.which(compiler) is None:
        unavailable(f"EXPORTED HEADERS ARE NOT TESTED WITH {compiler}, which is not installed")
    forest = Forest(**small_fields())
    (tmp_path / "model.h").write_text(to_c(forest, name="model", header=True, layout=layout), encoding="ascii")
    suffix = "c" if compiler == "gcc" else "cc"
    for name, text in (("main", _MAIN), ("other", _OTHER)):
        (tmp_path / f"{name}.{suffix}").write_text(text)
    program = tmp_path / "program"
    command = [compiler, *flags, "-O1", "-o", str(program), f"main.{suffix}", f"other.{suffix}"]
    subprocess.run(command, check=True, cwd=tmp_path)
    said = subprocess.run([str(program)], check=True, capture_output=True, text=True).stdout.split()
    X = np.array([[0.1, 2, 3]])
    assert said == [str(forest.apply(X)[0, 0]), f"{forest.predict(X)[0]:.17g}", "colour", "2"]


# ---------------------------------------------------------------- fixed point


def fixed_rows(rng: np.random.Generator, forest: Forest, dtype: Any, bits: list[int], rows: int) -> np.ndarray:
    """Make rows of integers on both sides of thresholds, at the ends of the range, codes, and missing ones."""
    limits = np.iinfo(dtype)
    X = np.empty((rows, forest.n_features), dtype)
    for column in range(forest.n_features):
        cuts = forest.threshold[(forest.kind == THRESHOLD) & (forest.feature == column)]
        cuts = cuts[np.isfinite(cuts)]
        near = np.floor(np.ldexp(np.concatenate([cuts, [0.0]]), bits[column]))
        pool = np.concatenate([near + k for k in (-2, -1, 0, 1, 2)]).clip(limits.min, limits.max)
        X[:, column] = rng.choice([*pool, limits.min, limits.min + 1, limits.max, *range(-1, 7)], rows).astype(dtype)
    return X


def as_numbers(X: np.ndarray, bits: list[int]) -> np.ndarray:
    """Return the numbers that integers stand for."""
    return np.where(np.iinfo(X.dtype).min == X, np.nan, np.ldexp(X.astype(np.float64), -np.array(bits)))


@pytest.mark.parametrize("layout", ["ifs", "tables"])
@pytest.mark.parametrize(("dtype", "bits"), [("int32", 8), ("int16", 3), ("int16", -2), ("int32", 40)])
def test_fixed_point_routes_exactly_and_errs_by_no_more_than_it_says(
    tmp_path: Path, layout: str, dtype: str, bits: int
) -> None:
    plain = {"kinds": [THRESHOLD, CATEGORIES], "linear": False}
    pairs = [pair for pair in many_forests(range(24), **plain) if pair[1].combine != "softmax"]
    library = compiled(tmp_path, [forest for _, forest in pairs], fixed_point=bits, dtype=dtype, layout=layout)
    for c, (rng, forest) in zip(library, pairs, strict=True):
        each = [0 if column in forest.categories else bits for column in range(forest.n_features)]
        X = fixed_rows(rng, forest, c.cell, each, 60)
        numbers = as_numbers(X, each)
        assert np.array_equal(c.apply(X), forest.apply(numbers))
        text = to_c(forest, fixed_point=bits)
        scale = int(text.split("FOREST_OUTPUT_BITS ")[1].split()[0])
        error = float(text.split("each is off by at most\n * ")[1].split(",")[0])
        off = np.abs(np.ldexp(c.outputs(X).astype(float), -scale) - forest.outputs(numbers)).max()
        assert off <= error * 1.005 + 1e-15  # as it is written, with three digits
        assert error <= 2.0**-scale * (forest.n_trees + 1) / 2 + 1e-15
        if forest.link == "identity":
            assert np.array_equal(c.predict(X), c.outputs(X)) and np.array_equal(c.predict_rows(X), c.outputs(X))
        else:
            assert not hasattr(c.library, f"{c.prefix}_predict")
        if forest.classes is not None:
            best = np.sort(np.ldexp(c.outputs(X).astype(float), -scale), axis=1)
            gap = np.abs(best[:, 0]) if forest.link == "sigmoid" else best[:, -1] - best[:, max(-2, -best.shape[1])]
            clear = (gap > 2 * error) | (len(forest.classes) == 1)
            assert np.array_equal(forest.classes[c.classes(X)][clear], forest.predict(numbers)[clear])


def test_fixed_point_has_bits_of_its_own_for_each_column(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    forest = complete_forest(rng, 3, 4, 3)
    bits = [10, 0, 20]
    (c,) = compiled(tmp_path, [forest], fixed_point=bits)
    X = fixed_rows(rng, forest, np.int32, bits, 200)
    assert np.array_equal(c.apply(X), forest.apply(as_numbers(X, bits)))


def test_sums_in_fixed_point_never_overflow(tmp_path: Path) -> None:
    forest = complete_forest(np.random.default_rng(0), 30, 1, 1)
    low = rebuilt(forest, leaf_values=np.where(np.arange(60) % 2, 1e6, -1e6)[:, None], base=np.array([123456.789]))
    text = to_c(low, fixed_point=4)
    most = int(text.split("FOREST_OUTPUT_BITS ")[1].split()[0])
    assert (30 * 1e6 + 123456.789) * 2.0**most < 2**31 <= (30 * 1e6 + 123456.789) * 2.0 ** (most + 1)
    with pytest.raises(InvalidArgumentError, match=r"output_bits=30: .*to 6, the most"):
        to_c(low, fixed_point=4, output_bits=30)
    (c,) = compiled(tmp_path, [low], fixed_point=4, output_bits=2)
    X = np.array([[-(2**31) + 1], [0], [2**31 - 1]], np.int32)
    assert_close(c.outputs(X) / 4.0, low.outputs(as_numbers(X, [4])), 1e-6)


# ---------------------------------------------------------------- names


def test_names_arrive_as_they_are(tmp_path: Path) -> None:
    count = len(EVIL_NAMES)
    forest = complete_forest(np.random.default_rng(0), 1, 2, count, count, feature_names=EVIL_NAMES, classes=EVIL_NAMES)
    forest = rebuilt(forest, categories={1: EVIL_NAMES})
    wanted = [name.replace("\0", "\u2400").encode("utf-8", "backslashreplace").decode() for name in EVIL_NAMES]
    for layout in ("ifs", "tables"):
        (c,) = compiled(tmp_path, [forest], layout=layout)
        assert c.names("feature", count) == wanted
        assert c.names("class", count) == wanted
        compare(c, forest, np.random.default_rng(0).normal(size=(20, count)))


@settings(max_examples=5)
@given(st.lists(names(), min_size=1, max_size=60, unique=True))
def test_random_names_arrive_as_they_are(tmp_path_factory: pytest.TempPathFactory, words: list[str]) -> None:
    forest = complete_forest(np.random.default_rng(0), 1, 1, len(words), feature_names=words)
    (c,) = compiled(tmp_path_factory.mktemp("c"), [forest])
    wanted = [name.replace("\0", "\u2400").encode("utf-8", "backslashreplace").decode() for name in words]
    assert c.names("feature", len(words)) == wanted


@given(names())
def test_strings_and_comments_stay_inside(name: str) -> None:
    text = c_string(name)
    assert text.isascii() and text.isprintable() and "??" not in text and "$" not in text
    inside = text[1:-1].replace("\\\\", "").replace('\\"', "")
    assert '"' not in inside and not inside.endswith("\\")
    line = c_comment(name)
    assert line.isascii() and line.isprintable()
    assert not any(pair in line for pair in ("*/", "/*", "??"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "--"}, "name='--': has no letter"),
        ({"layout": "trees"}, "layout='trees': is no layout"),
        ({"dtype": "half"}, "dtype='half': is not one of"),
        ({"dtype": "int32"}, "others go with fixed_point"),
        ({"dtype": "double", "fixed_point": 3}, "others go without fixed_point"),
        ({"output_bits": 3}, "output_bits=3: belongs to fixed_point"),
        ({"fixed_point": True}, "fixed_point=True: is not a number of bits"),
        ({"fixed_point": 1.5}, "fixed_point=1.5: is not a number of bits"),
        ({"fixed_point": [1]}, "has 1 entries for 2 columns"),
        ({"fixed_point": [1, 99]}, "fixed_point=99: is no integer from -60 to 60"),
        ({"fixed_point": 3, "output_bits": 99}, "output_bits=99: is no integer"),
    ],
)
def test_bad_arguments_are_refused(arguments: Any, message: str) -> None:
    forest = complete_forest(np.random.default_rng(0), 1, 1, 2)
    with pytest.raises(InvalidArgumentError, match=message):
        to_c(forest, **arguments)


def test_what_integers_cannot_hold_is_refused_with_the_reason() -> None:
    with pytest.raises(InvalidArgumentError, match=r"oblique splits.*rounded"):
        to_c(Forest(**small_fields()), fixed_point=8)
    rng = np.random.default_rng(0)
    linear = random_forest(rng, kinds=[THRESHOLD], linear=True, combine="sum", task="regression", n_features=4)
    with pytest.raises(InvalidArgumentError, match=r"linear leaves.*rounded"):
        to_c(linear, fixed_point=8)
    weighed = random_forest(rng, kinds=[THRESHOLD], linear=False, combine="softmax", n_trees=3)
    with pytest.raises(InvalidArgumentError, match=r"softmax.*exponentials"):
        to_c(weighed, fixed_point=8)
    with pytest.raises(InvalidArgumentError, match="too large for fixed point"):
        to_c(complete_forest(rng, 1, 1, 1, base=[1e300]), fixed_point=8)
    with pytest.raises(InvalidArgumentError, match="dtype='float': cannot hold the forest's base"):
        to_c(complete_forest(rng, 1, 1, 1, base=[1e300]), dtype="float")
