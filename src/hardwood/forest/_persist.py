"""Saving a forest to one file and loading it again, so that the result is equal in every bit or an error.

The file is a safetensors file whose metadata holds one JSON document; `_container` has its layout and `_schema` its
content. Loading executes nothing and imports nothing that a file names, and takes no more memory than the file's size
calls for. Any content that is not a whole, unaltered forest ends in `ForestFileError`.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil

from hardwood.errors import ForestFileError, InvalidArgumentError, reject
from hardwood.forest import _container, _schema
from hardwood.forest._forest import Forest


def save(forest: Forest, path: str | os.PathLike[str]) -> None:
    """Write a forest to one file, which `load` reads.

    The same forest always gives the same bytes. The file is written under another name in the same folder and then
    moved into place, so whatever stood at `path` before stays whole until the new file is.
    """
    target = os.path.realpath(path)
    folder = os.path.dirname(target)
    if os.path.isdir(target):
        reject("path", os.fspath(path), "is a folder", "add a file name such as 'forest.safetensors'")
    if not os.path.isdir(folder):
        reject("path", os.fspath(path), f"lies in {folder!r}, which is no folder", "create that folder first")
    head, body = _container.pack(*_schema.describe(forest))
    temporary = os.path.join(folder, f".hardwood-{secrets.token_hex(8)}.tmp")
    try:
        with open(temporary, "xb") as file:
            file.write(head)
            file.write(body)
            file.flush()
            os.fsync(file.fileno())
        if os.path.exists(target):
            shutil.copymode(target, temporary)
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    _sync_folder(folder)


def load(path: str | os.PathLike[str]) -> Forest:
    """Read a forest that `Forest.save` wrote.

    Raises `ForestFileError` when the file is truncated, altered, of another kind, or from a newer hardwood, and
    `FileNotFoundError` when there is none. It is safe to call on a file from a stranger.
    """
    try:
        document, arrays = _container.unpack(os.fspath(path))
        return Forest(**_schema.fields_of(document, arrays))
    except OSError:
        raise
    except _schema.Malformed as error:
        raise _cannot_load(path, str(error), error.remedy) from None
    except InvalidArgumentError as error:
        raise _cannot_load(path, f"it holds no valid forest ({error})", _schema.ALTERED) from None
    except Exception as error:  # too little memory, above all
        raise _cannot_load(path, f"reading it failed ({error!r})", _schema.ALTERED) from error


def _cannot_load(path: str | os.PathLike[str], problem: str, remedy: str) -> ForestFileError:
    return ForestFileError(f"{os.fspath(path)!r} cannot be loaded: {problem}; {remedy}")


def _sync_folder(folder: str) -> None:
    """Make the move itself survive a power cut, where the system can do that."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
