"""Packages of the extras `rl` and `envpool`, imported where they are needed; errors say how to get them."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

from hardwood.errors import MissingExtraError


def optional(module: str, purpose: str) -> Any:
    """Import a module for a purpose, such as "training a policy"."""
    try:
        return importlib.import_module(module)
    except ImportError as reason:
        package = module.partition(".")[0]
        extra = "envpool" if package == "envpool" else "rl"
        raise MissingExtraError(f'{purpose} needs {package}; pip install "hardwood[{extra}]"') from reason


def is_installed(module: str) -> bool:
    """Tell whether a package is there, without importing it."""
    return importlib.util.find_spec(module) is not None
