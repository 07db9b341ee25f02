"""Optional packages of the `rl` extra, imported where they are needed, with an error that says how to get them."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

from hardwood.errors import MissingExtraError


def optional(module: str, purpose: str) -> Any:
    """Import a module of the `rl` extra for a purpose, such as "training a policy"."""
    try:
        return importlib.import_module(module)
    except ImportError as reason:
        package = module.partition(".")[0]
        raise MissingExtraError(f'{purpose} needs {package}; pip install "hardwood[rl]"') from reason


def is_installed(module: str) -> bool:
    """Tell whether a package is there, without importing it."""
    return importlib.util.find_spec(module) is not None
