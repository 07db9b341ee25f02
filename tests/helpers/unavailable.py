"""What to do where a program that a test needs is not there."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest


def unavailable(message: str) -> NoReturn:
    """Skip where somebody develops, who reads the summary; fail in continuous integration, where nobody does."""
    if os.environ.get("CI"):
        pytest.fail(message)
    pytest.skip(message)
