"""What training does to images and texts, a batch at once: each by its row, its view and the epoch alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hardwood._typing import Float, Int, UInt8

Images = UInt8[np.ndarray, "images channels height width"]
# A shift moves an image by up to this part of its side; colours change by up to this part.
_SHIFT, _COLOUR = 1 / 8, 0.2
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def augmented(
    images: Images, how: Sequence[str], seed: int, epoch: int, places: Int[np.ndarray, "images row_view"]
) -> Images:
    """Return images as training sees them in one epoch; each depends on its own row and view, not on its neighbours."""
    if not how or not len(images):
        return images
    mirror, down, right, brightness, contrast = _uniform(seed, epoch, places, 5).T
    if "flip" in how or "shift" in how:
        size = np.array(images.shape[2:])
        most = np.maximum(1, np.rint(size * _SHIFT))
        move = np.rint(most * (2 * np.stack([down, right], axis=1) - 1)).astype(np.int64) * ("shift" in how)
        # What moves in repeats the edge.
        rows = np.clip(np.arange(size[0]) + move[:, :1], 0, size[0] - 1)
        columns = np.clip(np.arange(size[1]) + move[:, 1:], 0, size[1] - 1)
        if "flip" in how:
            columns = np.where(mirror[:, None] < 0.5, size[1] - 1 - columns, columns)
        images = np.stack(
            [image.take(y, axis=1).take(x, axis=2) for image, y, x in zip(images, rows, columns, strict=True)]
        )
    if "colour" in how:
        shape = (-1, 1, 1, 1)
        # A sum of whole numbers is the same whatever images are beside it.
        middle = images.sum(axis=(1, 2, 3), dtype=np.int64) / max(1, images[0].size)
        middle = middle.astype(np.float32).reshape(shape)
        more, lighter = (
            (1 + _COLOUR * (2 * each - 1)).astype(np.float32).reshape(shape) for each in (contrast, brightness)
        )
        images = np.clip(np.rint((images - middle) * more + middle * lighter), 0, 255).astype(np.uint8)
    return images


def without_words(
    words: Int[np.ndarray, "texts words"],
    share: float,
    seed: int,
    epoch: int,
    places: Int[np.ndarray, "texts row_view"],
) -> Int[np.ndarray, "texts words"]:
    """Return texts in which a share of the words is left out (0), drawn anew for each row, view and epoch."""
    if not share:
        return words
    return np.where(_uniform(seed, epoch, places, words.shape[1]) < share, 0, words)


def _uniform(
    seed: int, epoch: int, places: Int[np.ndarray, "cells row_view"], n: int
) -> Float[np.ndarray, "cells numbers"]:
    """Return numbers from 0 to 1 for each cell: a hash of the seed, the epoch, its row, its view and their place."""
    state = np.zeros(len(places), np.uint64)
    for part in (np.uint64(seed), np.uint64(epoch), *places.astype(np.uint64).T):
        state = _mixed(state + _GOLDEN + part)
    numbers = _mixed(state[:, None] + _GOLDEN * np.arange(1, n + 1, dtype=np.uint64))
    return (numbers >> np.uint64(11)) * 2.0**-53


def _mixed(x: Any) -> Any:
    """Return well-mixed 64-bit numbers (the last step of SplitMix64)."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
