"""The folder that a model is kept in: `forest.safetensors`, `model.json` and `report.html`."""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from hardwood.errors import ForestFileError, reject
from hardwood.forest import Forest, load

FOREST, DESCRIPTION, PAGE = "forest.safetensors", "model.json", "report.html"
_FORMAT, _FORMAT_VERSION = "hardwood model", 1
_LARGEST = 64 * 2**20  # bytes of a description


@dataclass(frozen=True)
class Description:
    """What `model.json` says of a model beside its forest."""

    model: str  # "gradtree" or "grande"
    task: str  # "classification" or "regression"
    target: str
    columns: list[str]
    parameters: dict[str, Any]  # those that were not left at their defaults
    rows: int  # learned from
    held_out_rows: int
    scores: dict[str, float]  # on held-out rows
    greedy_scores: dict[str, float]  # of the greedy tree beside it
    importances: list[float]  # of the columns
    interrupted: bool
    hardwood: str  # the version that wrote it


def write_model(
    path: str, forest: Forest, description: Description, write_page: Callable[[Path], object], replace: bool
) -> Path:
    """Write a model's folder: it appears, or takes the place of an older one, whole or not at all."""
    target = Path(os.path.realpath(path))
    check_model_output(path, replace)
    fresh = target.with_name(f".hardwood-{secrets.token_hex(8)}")
    fresh.mkdir()
    try:
        forest.save(fresh / FOREST)
        document = {"format": _FORMAT, "format_version": _FORMAT_VERSION, **asdict(description)}
        text = json.dumps(document, indent=2, ensure_ascii=False)
        (fresh / DESCRIPTION).write_text(text + "\n", encoding="utf-8", errors="surrogatepass")
        write_page(fresh / PAGE)
        _move(fresh, target)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    return target


def _move(fresh: Path, target: Path) -> None:
    if not target.exists():
        fresh.rename(target)
        return
    old = target.with_name(f"{fresh.name}-old")
    target.rename(old)
    try:
        fresh.rename(target)
    except BaseException:
        old.rename(target)
        raise
    shutil.rmtree(old, ignore_errors=True)


def check_model_output(path: str, replace: bool) -> None:
    """Refuse a place that is taken, or where no folder can be made."""
    target = Path(os.path.realpath(path))
    if not target.parent.is_dir():
        reject("--output", path, f"lies in {str(target.parent)!r}, which is no folder", "create that folder first")
    if not os.access(target.parent, os.W_OK | os.X_OK):
        reject("--output", path, f"lies in {str(target.parent)!r}, which cannot be written to", "pass another folder")
    if not target.exists():
        return
    if not target.is_dir():
        reject("--output", path, "is a file", "pass the name of a folder that is to hold the model")
    inside = {entry.name for entry in target.iterdir()}
    if not inside:
        return
    if not {FOREST, DESCRIPTION} <= inside:
        reject("--output", path, "is a folder with other files and no model", "pass the name of a new folder")
    others = sorted(inside - {FOREST, DESCRIPTION, PAGE})
    if others:
        reject("--output", path, f"holds a model and also {others[0]!r}", "pass the name of a new folder")
    if not replace:
        reject("--output", path, "holds a model already", "add --force to replace it, or pass a new folder")


def read_model(path: str) -> tuple[Forest, Description]:
    """Read a model's folder. Nothing in it is ever executed; what does not fit together ends in `ForestFileError`."""
    folder = Path(path)
    if not folder.is_dir() or not (folder / DESCRIPTION).is_file() or not (folder / FOREST).is_file():
        problem = "is no folder" if not folder.is_dir() else f"holds no {DESCRIPTION} and {FOREST}"
        reject("MODEL", path, problem, "pass a folder that `hardwood fit` wrote")
    description = _read_description(folder / DESCRIPTION)
    forest = load(folder / FOREST)
    if tuple(description.columns) != forest.feature_names:
        raise _altered(folder, "its columns are not those of the forest")
    if (description.task == "classification") != forest.is_classifier:
        raise _altered(folder, "its task is not that of the forest")
    if len(description.importances) != len(description.columns):
        raise _altered(folder, "its importances are not those of its columns")
    return forest, description


def _read_description(file: Path) -> Description:
    if file.stat().st_size > _LARGEST:
        raise _altered(file, "it is too large")
    try:
        document = json.loads(file.read_text(encoding="utf-8", errors="surrogatepass"))
    except (ValueError, RecursionError) as error:
        raise _altered(file, f"it is no JSON ({error})") from None
    if not isinstance(document, dict) or document.pop("format", None) != _FORMAT:
        raise _altered(file, "it describes no hardwood model")
    version = document.pop("format_version", None)
    if version != _FORMAT_VERSION:
        remedy = "upgrade hardwood"
        raise ForestFileError(f"{str(file)!r} cannot be read: it has format version {version!r}; {remedy}")
    names = {field.name for field in fields(Description)}
    if set(document) != names:
        odd = sorted(set(document) ^ names)[0]
        raise _altered(file, f"the entry {odd!r} is {'unknown' if odd in document else 'missing'}")
    for name, fits in _FITS.items():
        if not fits(document[name]):
            raise _altered(file, f"the entry {name!r} has another type than it should")
    return Description(**document)


def _altered(path: Path, problem: str) -> ForestFileError:
    return ForestFileError(f"{str(path)!r} cannot be read: {problem}; write the model again with `hardwood fit`")


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_numbers_by_name(value: Any) -> bool:
    return isinstance(value, dict) and all(map(_is_number, value.values()))


_FITS: dict[str, Callable[[Any], bool]] = {
    "model": lambda value: value in ("gradtree", "grande"),
    "task": lambda value: value in ("classification", "regression"),
    "target": _is_text,
    "columns": lambda value: isinstance(value, list) and all(map(_is_text, value)),
    "parameters": lambda value: isinstance(value, dict),
    "rows": _is_count,
    "held_out_rows": _is_count,
    "scores": _is_numbers_by_name,
    "greedy_scores": _is_numbers_by_name,
    "importances": lambda value: isinstance(value, list) and all(map(_is_number, value)),
    "interrupted": lambda value: isinstance(value, bool),
    "hardwood": _is_text,
}
