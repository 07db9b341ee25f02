"""The errors a user of hardwood can meet. Every message names the argument, its value and the remedy."""

from __future__ import annotations

from typing import NoReturn


class HardwoodError(Exception):
    """Base of every error that hardwood raises on purpose."""


class InvalidArgumentError(HardwoodError, ValueError):
    """An argument has a value that cannot work."""


class ForestFileError(HardwoodError, ValueError):
    """A stored model is truncated, altered, of another kind, or from a newer version."""


class MissingExtraError(HardwoodError, ImportError):
    """An optional dependency is not installed; the message names the extra that brings it."""


def reject(argument: str, value: object, problem: str, remedy: str) -> NoReturn:
    """Raise `InvalidArgumentError` for one argument, in the house's form of words.

    >>> reject("depth", 0, "must be at least 1", "pass depth=1 for a single split")
    Traceback (most recent call last):
    ...
    hardwood.errors.InvalidArgumentError: depth=0: must be at least 1; pass depth=1 for a single split
    """
    shown = repr(value)
    if len(shown) > 80:
        shown = shown[:77] + "..."
    raise InvalidArgumentError(f"{argument}={shown}: {problem}; {remedy}")
