"""A saved forest comes back equal in every bit, and a damaged or foreign file ends in one error."""

from __future__ import annotations

import dataclasses
import io
import json
import os
import pickle
import re
import stat
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given
from hypothesis import strategies as st

from hardwood import errors
from hardwood.forest import Forest, _container, _persist, _schema, load
from helpers.forests import random_forest, random_rows, reference_outputs
from helpers.stored import loaded_or_refused, refuse, stump


def again(forest: Forest, folder: Path) -> Forest:
    forest.save(folder / "forest.safetensors")
    return load(folder / "forest.safetensors")


def same(found: Forest, wanted: Forest) -> None:
    """Compare field by field, types of vocabularies and dtypes included; clearer than `==` when it fails."""
    for field in dataclasses.fields(Forest):
        one, other = getattr(found, field.name), getattr(wanted, field.name)
        if isinstance(other, np.ndarray):
            assert one.dtype == other.dtype, field.name
            assert one.shape == other.shape, field.name
            assert one.tobytes() == other.tobytes(), field.name
            assert not one.flags.writeable, field.name
        else:
            assert repr(one) == repr(other), field.name
    assert found == wanted
    assert hash(found) == hash(wanted)


# ---------------------------------------------------------------- round trips


@given(st.integers(0, 2**32 - 1))
def test_round_trip(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    forest = random_forest(np.random.default_rng(seed))
    same(again(forest, tmp_path_factory.getbasetemp()), forest)


@pytest.mark.parametrize("seed", range(10))
def test_loaded_forest_predicts_the_same(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    forest = random_forest(rng)
    loaded = again(forest, tmp_path)
    rows = random_rows(rng, forest, 50)
    with np.errstate(all="ignore"):
        for row in rows[:5]:
            np.testing.assert_array_equal(reference_outputs(loaded, row), reference_outputs(forest, row))
    np.testing.assert_array_equal(loaded.apply(rows), forest.apply(rows))
    np.testing.assert_array_equal(loaded.outputs(rows), forest.outputs(rows))


SCALARS = st.one_of(
    st.text(st.characters(), max_size=5),  # lone surrogates and control characters included
    st.integers(),
    st.integers(-(2**1900), 2**1900),
    st.floats(allow_nan=False),
    st.booleans(),
)


@given(st.lists(SCALARS, unique=True, max_size=8))
def test_vocabularies_keep_value_and_type(tmp_path_factory: pytest.TempPathFactory, values: list[Any]) -> None:
    forest = stump(categories={1: tuple(values)})
    found = again(forest, tmp_path_factory.getbasetemp()).categories
    assert repr(dict(found)) == repr({1: tuple(values)})
    assert [type(value) for value in found[1]] == [type(value) for value in values]


def test_tricky_vocabulary(tmp_path: Path) -> None:
    values = (-0.0, 1e16, 2**70, -(2**64), 1e-320, float("inf"), float("-inf"), "nan", "1", "\ud800", "a\0", "", '"{\\')
    assert repr(again(stump(categories={0: values}), tmp_path).categories[0]) == repr(values)


@pytest.mark.parametrize(
    "labels",
    [
        np.array([False, True]),
        np.array([2**63 - 1, -(2**63)]),
        np.array([0, 2**64 - 1], np.uint64),
        np.array([3, -4], np.int8),
        np.array([-0.0, 1e-320]),
        np.array([np.inf, -np.inf]),
        np.array([0.1, 65504], np.float16),
        np.array([0.1, 3], np.float32),
        np.array(["a", "größer 🌳"]),
        np.array(["a", "b"], "<U5"),
        np.array(["a", "b"], ">U5"),
        np.array([1, 2], ">i4"),
        np.array(["\ud800", ""]),
        np.array(["no", "yes"], object),
    ],
    ids=repr,
)
def test_class_labels_keep_value_and_dtype(tmp_path: Path, labels: np.ndarray) -> None:
    forest = stump(classes=labels, link="sigmoid")
    loaded = again(forest, tmp_path)
    same(loaded, forest)
    assert loaded.classes is not None
    assert loaded.classes.tolist() == labels.tolist()
    if labels.dtype.kind != "O":
        assert loaded.classes.dtype == labels.dtype.newbyteorder("=")


@given(st.lists(st.text(st.characters(), max_size=6), min_size=2, max_size=2, unique=True))
def test_names_are_any_text(tmp_path_factory: pytest.TempPathFactory, names: list[str]) -> None:
    forest = stump(feature_names=tuple(names), output_names=(names[0],))
    same(again(forest, tmp_path_factory.getbasetemp()), forest)


def test_names_that_look_like_the_checksum(tmp_path: Path) -> None:
    names = ('"{"checksum":"' + "0" * 64 + '"', '\\"{\\"checksum\\":\\"' + "0" * 64)
    forest = stump(feature_names=names)
    same(again(forest, tmp_path), forest)


def test_same_forest_gives_same_bytes(tmp_path: Path) -> None:
    forest = random_forest(np.random.default_rng(3), named=True)
    forest.save(tmp_path / "one")
    load(tmp_path / "one").save(tmp_path / "other")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "other").read_bytes()


def test_file_is_plain_safetensors(tmp_path: Path) -> None:
    forest = random_forest(np.random.default_rng(4), named=True, task="classes")
    forest.save(tmp_path / "forest.safetensors")
    arrays = safetensors.numpy.load_file(tmp_path / "forest.safetensors")
    np.testing.assert_array_equal(arrays["threshold"], forest.threshold)
    np.testing.assert_array_equal(arrays["missing_left"], forest.missing_left)
    with safetensors.safe_open(tmp_path / "forest.safetensors", "np") as file:
        document = json.loads(file.metadata()["hardwood"])
    assert document["schema_version"] == 1
    assert document["arrays"]["left"] == {"dtype": "int32", "shape": [forest.node_count]}


@pytest.mark.skipif(np.longdouble is np.float64, reason="long double is float64 here")
def test_labels_that_no_file_holds(tmp_path: Path) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=r"classes=.*float64"):
        stump(classes=np.array([0, 1], np.longdouble), link="sigmoid").save(tmp_path / "forest")
    assert os.listdir(tmp_path) == []


def test_numbers_that_no_file_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=r"categories\[0\]=.*hundreds of digits"):
        stump(categories={0: (10**1000,)}).save(tmp_path / "forest")
    monkeypatch.setattr(_schema, "_MOST_FEATURES", 1)
    with pytest.raises(errors.InvalidArgumentError, match=r"n_features=2: .*at most 1"):
        stump().save(tmp_path / "forest")
    monkeypatch.setattr(_container, "_LONGEST_HEADER", 1000)
    monkeypatch.setattr(_schema, "_MOST_FEATURES", 2)
    with pytest.raises(errors.InvalidArgumentError, match=r"need more than .* bytes"):
        stump(feature_names=("a" * 500, "b" * 500)).save(tmp_path / "forest")
    assert os.listdir(tmp_path) == []


# ---------------------------------------------------------------- where it is written


@pytest.mark.parametrize("kind", [str, Path])
def test_path_may_be_text_or_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: type) -> None:
    monkeypatch.chdir(tmp_path)
    stump().save(kind("here"))
    assert load(kind("here")) == stump()
    assert os.listdir(tmp_path) == ["here"]


def test_folders(tmp_path: Path) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=r"missing.*create that folder"):
        stump().save(tmp_path / "missing" / "forest")
    with pytest.raises(errors.InvalidArgumentError, match="is a folder; add a file name"):
        stump().save(tmp_path)
    assert "it is a folder" in refuse(tmp_path)
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "forest")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_pipe_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert "not a regular file" in refuse(tmp_path / "pipe")


@pytest.mark.skipif(os.name != "posix", reason="needs POSIX permissions and links")
def test_links_and_permissions_stay(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    stump().save(tmp_path / "store" / "forest")
    os.chmod(tmp_path / "store" / "forest", 0o600)
    os.symlink(tmp_path / "store" / "forest", tmp_path / "link")
    other = stump(threshold=[1.5, 0.0, 0.0])
    other.save(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert load(tmp_path / "store" / "forest") == other
    assert stat.S_IMODE(os.stat(tmp_path / "store" / "forest").st_mode) == 0o600


@pytest.mark.parametrize("failure", [OSError("no space left on device"), KeyboardInterrupt()], ids=repr)
@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_interrupted_write_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, failure: BaseException
) -> None:
    path = tmp_path / "forest"
    stump().save(path)
    before = path.read_bytes()

    def fail(*arguments: Any) -> None:
        raise failure

    with monkeypatch.context() as patched:
        patched.setattr(os, step, fail)
        with pytest.raises(type(failure)):
            stump(threshold=[1.5, 0.0, 0.0]).save(path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["forest"]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
def test_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "forest"
    stump().save(path)
    before = path.read_bytes()
    opened = open

    def full(name: str, mode: str) -> Any:
        opened(name, mode).close()
        return opened("/dev/full", "wb")

    monkeypatch.setattr(_persist, "open", full, raising=False)
    with pytest.raises(OSError, match="No space left"):
        stump(threshold=[1.5, 0.0, 0.0]).save(path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["forest"]


# ---------------------------------------------------------------- damage by accident


def flip_bits(rng: np.random.Generator, content: bytearray) -> None:
    for _ in range(rng.integers(1, 4)):
        content[rng.integers(len(content))] ^= 1 << int(rng.integers(8))


def change_bytes(rng: np.random.Generator, content: bytearray) -> None:
    at, count = int(rng.integers(len(content))), int(rng.integers(1, 9))
    content[at : at + count] = rng.bytes(len(content[at : at + count]))


def truncate(rng: np.random.Generator, content: bytearray) -> None:
    del content[rng.integers(len(content)) :]


def insert(rng: np.random.Generator, content: bytearray) -> None:
    at = int(rng.integers(len(content) + 1))
    content[at:at] = rng.bytes(int(rng.integers(1, 65)))


def delete(rng: np.random.Generator, content: bytearray) -> None:
    at = int(rng.integers(len(content)))
    del content[at : at + int(rng.integers(1, 65))]


def duplicate(rng: np.random.Generator, content: bytearray) -> None:
    begin, end = sorted(rng.integers(len(content) + 1, size=2))
    content[end:end] = content[begin:end]


def swap(rng: np.random.Generator, content: bytearray) -> None:
    count = int(rng.integers(1, 65))
    one, other = sorted(rng.integers(max(1, len(content) - count), size=2))
    if other - one >= count:
        first, second = content[one : one + count], content[other : other + count]
        content[one : one + count], content[other : other + count] = second, first


def clear(rng: np.random.Generator, content: bytearray) -> None:
    at, count = int(rng.integers(len(content))), int(rng.integers(1, 513))
    content[at : at + count] = bytes(len(content[at : at + count]))


def edit_header(rng: np.random.Generator, content: bytearray) -> None:
    """Change one digit or one word of the header, so that it mostly stays valid JSON of the same length."""
    length = int.from_bytes(content[:8], "little")
    header = bytes(content[8 : 8 + length])
    if rng.random() < 0.5:
        spots = [found.start() for found in re.finditer(rb"[0-9]", header)]
        at = int(rng.choice(spots))
        header = header[:at] + str(rng.integers(10)).encode() + header[at + 1 :]
    else:
        words: list[tuple[bytes, bytes]] = [
            (b"F64", b"I64"), (b"I32", b"F32"), (b"I8", b"U8"), (b"left", b"base"), (b"sum", b"avg"), (b"[", b"{"),
            (b"null", b"true"), (b"identity", b"softmax!"), (b"sigmoid", b"softmax"), (b",", b" "), (b" ", b"\n"),
        ]  # fmt: skip
        old, new = words[rng.integers(len(words))]
        header = header.replace(old, new, 1 if rng.random() < 0.5 else -1)
    content[:] = len(header).to_bytes(8, "little") + header + content[8 + length :]


DAMAGES = [flip_bits, change_bytes, truncate, insert, delete, duplicate, swap, clear, edit_header]


@pytest.mark.parametrize("part", range(20))
def test_a_thousand_damaged_files(tmp_path: Path, part: int) -> None:
    path = tmp_path / "forest"
    forest = random_forest(np.random.default_rng(part), max_splits=4)
    forest.save(path)
    whole = path.read_bytes()
    refused = 0
    for number in range(50):
        rng = np.random.default_rng([part, number])
        content = bytearray(whole)
        DAMAGES[(part + number) % len(DAMAGES)](rng, content)
        path.write_bytes(content)
        found = loaded_or_refused(path)
        assert (found is None) == (content != whole), "the checksum covers every byte"
        assert found is None or found == forest
        refused += found is None
    assert refused > 40


def test_every_single_bit_counts(tmp_path: Path) -> None:
    path = tmp_path / "forest"
    stump().save(path)
    whole = path.read_bytes()
    for bit in range(0, 8 * len(whole), 9):  # every byte, each in another of its bits
        content = bytearray(whole)
        content[bit // 8] ^= 1 << bit % 8
        path.write_bytes(content)
        refuse(path)


# ---------------------------------------------------------------- files of others


def npz() -> bytes:
    file = io.BytesIO()
    np.savez(file, threshold=np.zeros(3))
    return file.getvalue()


class Bomb:
    """Unpickling this fails the test."""

    def __reduce__(self) -> tuple[Any, ...]:
        return pytest.fail, ("a pickle was executed",)


FOREIGN_REMEDY = "pass a file that Forest.save wrote"
FOREIGN = {
    "nothing": b"",
    "one byte": b"{",
    "zeros": bytes(1000),
    "a pickle": pickle.dumps(Bomb()),
    "npz": npz(),
    "text": b"hardwood forest\n" * 50,
    "JSON": json.dumps({"format": "hardwood forest", "schema_version": 1}).encode(),
    "PNG": b"\x89PNG\r\n\x1a\n" + bytes(100),
    "safetensors of others": safetensors.numpy.save({"weight": np.zeros((3, 3), np.float32)}),
    "safetensors of others with metadata": safetensors.numpy.save({"weight": np.zeros(3)}, {"format": "pt"}),
    "safetensors without arrays": safetensors.numpy.save({}),
}


@pytest.mark.parametrize("what", FOREIGN)
def test_foreign_file(tmp_path: Path, what: str) -> None:
    (tmp_path / "file").write_bytes(FOREIGN[what])
    modules = set(sys.modules)
    assert refuse(tmp_path / "file").endswith(FOREIGN_REMEDY)
    assert not [name for name in set(sys.modules) - modules if not name.startswith("hardwood")]


def test_forest_file_error_is_a_value_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"no forest")
    with pytest.raises(ValueError, match="file"):
        load(tmp_path / "file")
