"""A file is read only as far as its size bears out what its header claims."""

from __future__ import annotations

import hashlib
import json
import math
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from hardwood.forest import _container, _schema, load
from helpers.stored import refuse, stump


def write_raw(path: Path, table: dict[str, Any] | str, text: str | dict[str, Any] | None, body: bytes = b"") -> None:
    """Write a file of the layout by hand, with a right checksum where there is a place for one."""
    if isinstance(table, dict) and text is not None:
        text = json.dumps(text, separators=(",", ":")) if isinstance(text, dict) else text
        table = {"__metadata__": {"hardwood": text}, **table}
    header = (table if isinstance(table, str) else json.dumps(table, separators=(",", ":"))).encode()
    content = len(header).to_bytes(8, "little") + header + body
    path.write_bytes(content.replace(b"0" * 64, hashlib.sha256(content).hexdigest().encode(), 1))


def raw_parts() -> tuple[dict[str, Any], dict[str, Any], bytes]:
    """The table, document and arrays of a good file."""
    head, body = _container.pack(*_schema.describe(stump()))
    table = json.loads(head[8:])
    document = json.loads(table.pop("__metadata__")["hardwood"])
    return table, {**document, "checksum": "0" * 64}, bytes(body)


def test_writing_by_hand_changes_nothing(tmp_path: Path) -> None:
    write_raw(tmp_path / "forest", *raw_parts())
    assert load(tmp_path / "forest") == stump()


LAYOUTS: dict[str, dict[str, Any]] = {
    "an array beyond memory": {"shape": [2**60], "data_offsets": [0, 2**63]},
    "a shape beyond 64 bits": {"shape": [2**62, 2**62, 2**62]},
    "an empty array beyond 64 bits": {"shape": [0, 2**62, 2**62], "data_offsets": [0, 0]},
    "a shape below zero": {"shape": [-3]},
    "a shape of two negative sizes": {"shape": [-1, -3]},
    "a shape of floats": {"shape": [3.0]},
    "a shape of booleans": {"shape": [True, 3]},
    "a shape as a number": {"shape": 3},
    "many axes": {"shape": [1] * 60 + [3]},
    "places swapped": {"data_offsets": [24, 0]},
    "places that overlap": {"data_offsets": [8, 32]},
    "places below zero": {"data_offsets": [-24, 0]},
    "places as text": {"data_offsets": ["0", "24"]},
    "one place": {"data_offsets": [0]},
    "three places": {"data_offsets": [0, 24, 24]},
    "an unknown dtype": {"dtype": "F128"},
    "a dtype of objects": {"dtype": "|O"},
    "a dtype as a number": {"dtype": 8},
    "a key more": {"pickle": "yes"},
}


@pytest.mark.parametrize("what", LAYOUTS)
def test_forged_layout(tmp_path: Path, what: str) -> None:
    table, document, body = raw_parts()
    table["threshold"].update(LAYOUTS[what])
    write_raw(tmp_path / "forest", table, document, body)
    refuse(tmp_path / "forest")


def test_forged_boolean(tmp_path: Path) -> None:
    table, document, body = raw_parts()
    at = table["missing_left"]["data_offsets"][0]
    write_raw(tmp_path / "forest", table, document, body[:at] + b"\2" + body[at + 1 :])
    assert "neither 0 nor 1" in refuse(tmp_path / "forest")


def test_nothing_is_allocated_for_a_claim(tmp_path: Path) -> None:
    """A few hundred bytes that claim terabytes are refused in a few megabytes."""
    table, document, body = raw_parts()
    claims = []
    for shape in ([2**40], [2**20, 2**20], [0, 2**40]):
        entry = {"dtype": "F64", "shape": shape, "data_offsets": [0, 8 * math.prod(shape)]}
        claims.append(({**table, "threshold": entry}, document, body))
    for claim in claims:
        write_raw(tmp_path / "forest", *claim)
        tracemalloc.start()
        refuse(tmp_path / "forest")
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 2**22


@pytest.mark.parametrize("length", [99_000_000, 2**40, 2**63, 2**64 - 1])
def test_header_longer_than_the_file(tmp_path: Path, length: int) -> None:
    (tmp_path / "forest").write_bytes(length.to_bytes(8, "little") + b'{"a":')
    refuse(tmp_path / "forest")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "[]",
        "{",
        "[" * 100_000,
        '{"a":' * 100_000,
        '{"format":"hardwood forest","schema_version":NaN}',
        '{"format":"hardwood forest","schema_version":Infinity}',
        '{"format":"hardwood forest","schema_version":1e999}',
        '{"format":"hardwood forest","schema_version":' + "9" * 5000 + "}",
        '{"format":"hardwood forest","schema_version":1,"schema_version":1}',
        '{"format":"hardwood forest","schema_version":1}',
        '{"format":"a model of others"}',
        '{"checksum":"' + "0" * 64 + '","format":"hardwood forest","schema_version":1}',
        '{"checksum":"' + "0" * 64 + '","format":"hardwood forest","schema_version":1,"forest":{},"arrays":{}}',
    ],
    ids=lambda text: ascii(text)[:60],
)
def test_forged_document(tmp_path: Path, text: str) -> None:
    write_raw(tmp_path / "forest", {}, text)
    refuse(tmp_path / "forest")


@pytest.mark.parametrize(
    "header",
    ["", "{", "[]", "{}", '{"a":1,"a":1}', '{"__metadata__":[]}', '{"__metadata__":{"hardwood":{}}}', "[" * 9999],
    ids=lambda text: ascii(text)[:60],
)
def test_forged_header(tmp_path: Path, header: str) -> None:
    write_raw(tmp_path / "forest", header, None)
    refuse(tmp_path / "forest")
