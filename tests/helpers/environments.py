"""Environments that are not everywhere."""

from __future__ import annotations

import importlib.util
import os

import pytest

# 740 MB; where continuous integration lacks it, its tests fail.
needs_envpool = pytest.mark.skipif(
    importlib.util.find_spec("envpool") is None and not os.environ.get("CI"), reason="EnvPool is not installed"
)
