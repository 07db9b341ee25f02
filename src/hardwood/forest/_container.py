"""The file around a stored forest: the safetensors layout, with a checksum over every byte of it.

    8 bytes        length of the header, little-endian
    header         JSON: "__metadata__" with our document as a text, then each array's dtype, shape and place
    the rest       the arrays, one after another without gaps

The document begins with the SHA-256 of the whole file, taken with the digits of the checksum itself set to zero.
Writing is left to the safetensors library. Reading is done here, because nothing that a header claims may be believed
before it is checked against the size of the file, and because arrays can then be views instead of a second copy.
"""

from __future__ import annotations

import hashlib
import math
import os
import re
import stat
from typing import Any

import numpy as np

from hardwood._typing import Shaped
from hardwood.errors import reject
from hardwood.forest import _schema
from hardwood.forest._schema import FOREIGN, Arrays, Malformed

_DTYPES = {
    "BOOL": "|b1",
    "I8": "<i1",
    "I16": "<i2",
    "I32": "<i4",
    "I64": "<i8",
    "U8": "<u1",
    "U16": "<u2",
    "U32": "<u4",
    "U64": "<u8",
    "F16": "<f2",
    "F32": "<f4",
    "F64": "<f8",
}
_KEY = "hardwood"
_LONGEST_HEADER = 100_000_000  # bytes; the safetensors format allows no more
_NO_CHECKSUM = b"0" * 64
# As the JSON text stands in the header, inside another JSON string. Text of the user's has more backslashes there.
_CHECKSUM = re.compile(rb'"\{\\"checksum\\":\\"([0-9a-f]{64})\\"')


def pack(document: dict[str, Any], arrays: Arrays) -> tuple[bytes, memoryview]:
    """Return the two parts of the file: everything up to the arrays, and the arrays."""
    import safetensors.numpy

    text = _schema.write_json({"checksum": _NO_CHECKSUM.decode(), **document})
    content = safetensors.numpy.save(arrays, metadata={_KEY: text})
    begin = 8 + int.from_bytes(content[:8], "little")
    if begin - 8 > _LONGEST_HEADER:
        problem = f"need more than {_LONGEST_HEADER} bytes, which the file format does not allow"
        reject("forest", "the names and vocabularies", problem, "shorten them")
    head, body = content[:begin], memoryview(content)[begin:]
    return _CHECKSUM.sub(lambda found: found[0].replace(_NO_CHECKSUM, _sum(head, body)), head, count=1), body


def unpack(path: str) -> tuple[dict[str, Any], Arrays]:
    """Read a file, prove that it is whole and unaltered, and return its document and its arrays."""
    info = os.stat(path)
    if not stat.S_ISREG(info.st_mode):
        raise Malformed("it is a folder" if stat.S_ISDIR(info.st_mode) else "it is not a regular file", FOREIGN)
    with open(path, "rb") as file:
        head = file.read(8)
        length = int.from_bytes(head, "little")
        if len(head) < 8 or length > _LONGEST_HEADER:
            raise Malformed("it does not begin as a safetensors file does", FOREIGN)
        if length > info.st_size - 8:
            raise Malformed("it ends inside its header")
        head += file.read(length)
        document, table = _read_header(head[8:])
        size = _check_table(table)
        if info.st_size != len(head) + size:
            problem = "ends before" if info.st_size < len(head) + size else "goes on after"
            raise Malformed(f"it {problem} the end of its arrays")
        body = file.read(size)
    if _sum_of(head, body) != document.get("checksum"):
        raise Malformed("its checksum does not match, so some of it was altered")
    return document, {name: _array(name, entry, body) for name, entry in table.items()}


def _sum(head: bytes, body: bytes | memoryview) -> bytes:
    digest = hashlib.sha256(head)
    digest.update(body)
    return digest.hexdigest().encode()


def _sum_of(head: bytes, body: bytes) -> str | None:
    """Return the checksum that a file should have, or None when its header has no place for one."""
    found = _CHECKSUM.search(head)
    if found is None:
        return None
    return _sum(head[: found.start(1)] + _NO_CHECKSUM + head[found.end(1) :], body).decode()


def _read_header(header: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the document and the table of arrays of a header."""
    if not header.startswith(b"{"):
        raise Malformed("it does not begin as a safetensors file does", FOREIGN)
    try:
        table = _schema.read_json(header.decode())
    except UnicodeDecodeError:
        raise Malformed("its header is not text") from None
    metadata = table.pop("__metadata__", None)
    if not isinstance(metadata, dict) or not isinstance(metadata.get(_KEY), str):
        raise Malformed("it is a safetensors file without a forest", FOREIGN)
    document = _schema.read_json(metadata[_KEY])
    _schema.check_version(document)
    return document, table


def _check_table(table: dict[str, Any]) -> int:
    """Check that the arrays stand one after another, each as long as its shape says; return their length in bytes."""
    places = []
    for name, entry in table.items():
        if not isinstance(entry, dict) or entry.keys() != {"dtype", "shape", "data_offsets"}:
            raise Malformed(f"its header describes the array {name[:40]!a} in a wrong way")
        shape, place = entry["shape"], entry["data_offsets"]
        if not isinstance(entry["dtype"], str) or entry["dtype"] not in _DTYPES:
            raise Malformed(f"its array {name[:40]!a} has an unknown dtype")
        if not _sizes(shape) or len(shape) > 3 or not _sizes(place) or len(place) != 2:
            raise Malformed(f"its array {name[:40]!a} has a wrong shape or place")
        if place[1] - place[0] != math.prod(shape) * np.dtype(_DTYPES[entry["dtype"]]).itemsize:
            raise Malformed(f"its array {name[:40]!a} is not as long as its shape says")
        places.append(place)
    end = 0
    for begin, next_end in sorted(places):
        if begin != end:
            raise Malformed("its arrays overlap or leave a gap")
        end = next_end
    return end


def _sizes(value: Any) -> bool:
    return isinstance(value, list) and all(type(entry) is int and 0 <= entry < 2**63 for entry in value)


def _array(name: str, entry: dict[str, Any], body: bytes) -> Shaped[np.ndarray, "..."]:
    begin, end = entry["data_offsets"]
    if entry["dtype"] == "BOOL" and end > begin and np.frombuffer(body, np.uint8, end - begin, begin).max() > 1:
        raise Malformed(f"its array {name[:40]!a} has booleans that are neither 0 nor 1")
    try:
        return np.ndarray(entry["shape"], _DTYPES[entry["dtype"]], body, begin)
    except ValueError:  # an empty array whose other sizes NumPy cannot hold
        raise Malformed(f"its array {name[:40]!a} has a wrong shape or place") from None
