"""Optional packages, imported where they are needed, with an error that says how to get them."""

from __future__ import annotations

import importlib
from typing import Any

from hardwood.errors import MissingExtraError


def optional(module: str, function: str) -> Any:
    """Import a module of the `export` extra for one public function."""
    try:
        return importlib.import_module(module)
    except ImportError as reason:
        package = module.partition(".")[0]
        message = f'hardwood.export.{function}() needs {package}; pip install "hardwood[export]"'
        raise MissingExtraError(message) from reason
