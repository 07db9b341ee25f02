"""What several tests of the explorer page need: its arrays read back, and true answers for any forest."""

from __future__ import annotations

import base64
import zlib
from typing import Any

import numpy as np

from hardwood.forest import Forest


def unpacked(held: dict[str, Any]) -> np.ndarray:
    """Read an array as the page's program does."""
    data = zlib.decompress(base64.b64decode(held["data"]))
    dtype = np.dtype(f"<{held['stored']}")
    assert len(data) == held["length"] * dtype.itemsize
    return np.frombuffer(data, np.uint8).reshape(dtype.itemsize, -1).T.copy().view(dtype).ravel()


def answers(rng: np.random.Generator, forest: Forest, rows: int) -> np.ndarray:
    """Draw a true answer for each row."""
    if forest.classes is not None:
        return rng.choice(forest.classes, rows)
    return rng.normal(size=rows if forest.n_outputs == 1 else (rows, forest.n_outputs))
