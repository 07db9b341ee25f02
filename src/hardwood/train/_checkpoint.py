"""Checkpoints: one safetensors file each, whole or not there, with a checksum over everything in it.

The file's metadata holds one JSON document and the SHA-256 of the document and all tensors. Loading executes nothing.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
from typing import TYPE_CHECKING, Any, NoReturn

import torch
from torch import Tensor

from hardwood.errors import reject
from hardwood.train._errors import CheckpointError

if TYPE_CHECKING:
    from hardwood.train._source import LazyRows
else:
    LazyRows = Any

_DOCUMENT, _CHECKSUM, _FORMAT = "hardwood_checkpoint", "sha256", 1


def save_checkpoint(path: str | os.PathLike[str], tensors: dict[str, Tensor], document: dict[str, Any]) -> None:
    """Write a checkpoint under another name in the same folder, and then move it into place."""
    import safetensors.torch

    target = os.path.realpath(path)
    text = json.dumps({"format": _FORMAT, **document}, sort_keys=True)
    # safetensors refuses tensors that share memory, as a parameter and its average may.
    held = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    content = safetensors.torch.save(held, {_DOCUMENT: text, _CHECKSUM: _digest(held, text)})
    temporary = os.path.join(os.path.dirname(target), f".hardwood-{secrets.token_hex(8)}.tmp")
    try:
        with open(temporary, "xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    with contextlib.suppress(OSError):  # the move itself survives a power cut, where the system can do that
        descriptor = os.open(os.path.dirname(target), os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def load_checkpoint(path: str | os.PathLike[str]) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read a checkpoint and prove that it is whole and unaltered."""
    import safetensors.torch

    with open(path, "rb") as file:
        content = file.read()
    try:
        length = int.from_bytes(content[:8], "little")
        metadata = json.loads(content[8 : 8 + length])["__metadata__"]
        text, checksum = metadata[_DOCUMENT], metadata[_CHECKSUM]
        document = json.loads(text)
        stored_format = document["format"]
    except (ValueError, KeyError, TypeError, RecursionError):
        refuse(path, "it is truncated, altered, or no checkpoint of hardwood")
    if stored_format != _FORMAT:
        refuse(path, f"it has format {stored_format!r}, and this version reads {_FORMAT}")
    try:
        tensors = safetensors.torch.load(content)
    except Exception:  # whatever the safetensors library has to say about bytes that are not its own
        refuse(path, "it is truncated or altered")
    if _digest(tensors, text) != checksum:
        refuse(path, "its checksum does not match, so some of it was altered")
    return tensors, document


def check_path(argument: str, path: str | os.PathLike[str]) -> None:
    """Refuse a place where no checkpoint can be written, before training starts."""
    target = os.path.realpath(path)
    if os.path.isdir(target):
        reject(argument, os.fspath(path), "is a folder", "add a file name such as 'checkpoint.safetensors'")
    if not os.path.isdir(os.path.dirname(target)):
        reject(argument, os.fspath(path), "lies in a folder that does not exist", "create that folder first")


def check_same(path: str | os.PathLike[str], stored: dict[str, Any], present: dict[str, Any]) -> None:
    """Refuse a checkpoint of another training, naming what differs."""
    for name in sorted({*stored, *present}):
        before, now = stored.get(name), present.get(name)
        if before != now:
            refuse(path, f"it was written with {name}={before!r}, and now {name}={now!r}", "pass the same as before")


def check_tensors(path: str | os.PathLike[str], stored: dict[str, Tensor], present: dict[str, Tensor]) -> None:
    """Refuse a checkpoint of a model with other parameters."""
    for name in sorted({*stored, *present}):
        shapes = [
            f"{str(held[name].dtype).removeprefix('torch.')} {tuple(held[name].shape)}" if name in held else "missing"
            for held in (stored, present)
        ]
        if shapes[0] != shapes[1]:
            refuse(path, f"its {name!r} is {shapes[0]}, and the model's is {shapes[1]}", "make the model as it was")


def fingerprint(*tensors: Tensor | LazyRows | None) -> str:
    """Return a short digest of training data, by which a resumed run knows that it has the same rows."""
    digest = hashlib.blake2b(digest_size=16)
    for tensor in tensors:
        if tensor is not None and not isinstance(tensor, Tensor):
            digest.update(tensor.fingerprint().encode())
            continue
        digest.update(b"none" if tensor is None else f"{tuple(tensor.shape)}{tensor.dtype}".encode())
        if tensor is not None:
            digest.update(_bytes(tensor.detach().cpu().contiguous()))
    return digest.hexdigest()


def refuse(
    path: str | os.PathLike[str], problem: str, remedy: str = "start anew without resume_from"
) -> NoReturn:  # fmt: skip
    """Raise `CheckpointError` for one file."""
    raise CheckpointError(f"{os.fspath(path)!r} cannot be resumed: {problem}; {remedy}") from None


def _digest(tensors: dict[str, Tensor], text: str) -> str:
    digest = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        digest.update(f"{name}{tuple(tensors[name].shape)}{tensors[name].dtype}".encode())
        digest.update(_bytes(tensors[name]))
    return digest.hexdigest()


def _bytes(tensor: Tensor) -> memoryview:
    return tensor.reshape(-1).view(torch.uint8).numpy().data if tensor.numel() else memoryview(b"")
