"""`ImageReader`: from paths to small arrays of bytes, with augmentations that depend on nothing but row and epoch."""

from __future__ import annotations

import io
import os
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal, NoReturn, get_args

import numpy as np

from hardwood._typing import UInt8
from hardwood.data._augment import augmented
from hardwood.errors import InvalidArgumentError, MissingExtraError, reject

Augmentation = Literal["flip", "shift", "colour"]
Image = UInt8[np.ndarray, "channels height width"]
_MOST_WORKERS = 8
_ENDINGS = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".ppm", ".pgm")


def looks_like_image(text: str) -> bool:
    """Tell whether a text may be the path of an image, by its ending.

    >>> looks_like_image("photos/Front.JPG"), looks_like_image("front door")
    (True, False)
    """
    return text.lower().endswith(_ENDINGS)


class ImageReader:
    """Reads images from paths, or from the bytes of files, in one size and with one number of channels.

    Args:
        size: height and width that images are resized to; one number for squares.
        channels: 3 for colours, 1 for greys.
        folder: relative paths begin here; in the working folder by default.
        augment: what training may do to an image: "flip" mirrors it, left to right; "shift" moves it by up to an
            eighth; "colour" changes brightness and contrast by up to a fifth.
        seed: of augmentations, which are drawn anew for each row, view and epoch.
        cache_bytes: memory for images that have been read and resized.
    """

    def __init__(
        self,
        size: int | tuple[int, int] = 64,
        *,
        channels: int = 3,
        folder: str | os.PathLike[str] | None = None,
        augment: Sequence[str] = (),
        seed: int = 0,
        cache_bytes: int = 1 << 28,
    ) -> None:
        self.size = (size, size) if isinstance(size, int) else tuple(size)
        if len(self.size) != 2 or min(self.size) < 1:
            reject("size", size, "is no size of an image", "pass size=64, or (height, width)")
        if channels not in (1, 3):
            reject("channels", channels, "is neither 1 nor 3", "pass 3 for colours, 1 for greys")
        for each in (augment,) if isinstance(augment, str) else augment:
            if each not in get_args(Augmentation):
                remedy = "choose from " + ", ".join(map(repr, get_args(Augmentation)))
                reject("augment", augment, f"{each!r} is not known", remedy)
        self.channels, self.folder, self.seed = channels, None if folder is None else os.fspath(folder), seed
        self.augment = (augment,) if isinstance(augment, str) else tuple(augment)
        self._cache: dict[Any, Image] = {}
        self._room, self._lock = cache_bytes, threading.Lock()

    def read(self, cells: Sequence[Any], labels: Sequence[str]) -> UInt8[np.ndarray, "images channels height width"]:
        """Return the images of some cells; `labels` say where each stands, for errors."""
        if not cells:
            return np.zeros((0, self.channels, *self.size), np.uint8)
        workers = min(_MOST_WORKERS, os.cpu_count() or 1, len(cells))
        unread = sum(cell not in self._cache for cell in cells)
        if workers > 1 and unread > 1:
            with ThreadPoolExecutor(workers, thread_name_prefix="hardwood-decode") as pool:
                return np.stack(list(pool.map(self._one, cells, labels)))
        return np.stack([self._one(cell, label) for cell, label in zip(cells, labels, strict=True)])

    def _one(self, cell: Any, label: str) -> Image:
        kept = self._cache.get(cell)
        if kept is not None:
            return kept
        made = self._decode(cell, label)
        with self._lock:
            if self._room >= made.nbytes and cell not in self._cache:
                self._room -= made.nbytes
                self._cache[cell] = made
        return made

    def _decode(self, cell: Any, label: str) -> Image:
        pillow, operations = _pillow()
        height, width = self.size
        try:
            with pillow.open(io.BytesIO(cell) if isinstance(cell, bytes) else self.path(cell)) as opened:
                mode = "RGB" if self.channels == 3 else "L"
                opened.draft(mode, (2 * width, 2 * height))  # a large JPEG is decoded small
                upright = operations.exif_transpose(opened)
                pixels = np.asarray(upright.convert(mode).resize((width, height), pillow.Resampling.BILINEAR))
        # Pillow raises whatever a damaged file makes its decoders stumble over.
        except Exception as error:
            self._reject(cell, label, error)
        return np.ascontiguousarray(pixels.reshape(height, width, self.channels).transpose(2, 0, 1))

    def path(self, cell: str) -> str:
        """Return the path that a cell stands for."""
        return cell if self.folder is None else os.path.join(self.folder, cell)

    def check(self, cells: Sequence[Any], labels: Sequence[str]) -> None:
        """Refuse paths where no file is, before any work is done."""
        _pillow()
        for cell, label in zip(cells, labels, strict=True):
            if not isinstance(cell, (str, bytes)):
                remedy = "pass paths, or the bytes of image files"
                reject(label, cell, f"is of type {type(cell).__name__}, which is no image", remedy)
            if isinstance(cell, str) and not os.path.isfile(self.path(cell)):
                self._reject(cell, label, FileNotFoundError("there is no such file"))

    def _reject(self, cell: Any, label: str, error: Exception) -> NoReturn:
        shown = f"{len(cell)} bytes" if isinstance(cell, bytes) else repr(self.path(cell))
        remedy = "repair or replace the file, or leave the cell empty"
        raise InvalidArgumentError(f"{label}={shown}: cannot be read as an image ({error}); {remedy}") from error

    def augmented(
        self, images: UInt8[np.ndarray, "images channels height width"], epoch: int, places: Sequence[tuple[int, int]]
    ) -> UInt8[np.ndarray, "images channels height width"]:
        """Return images, of these rows and views, as training sees them in one epoch."""
        return augmented(images, self.augment, self.seed, epoch, np.array(places, np.int64).reshape(-1, 2))


def _pillow() -> tuple[Any, Any]:
    try:
        from PIL import Image as pillow
        from PIL import ImageOps as operations
    except ImportError:
        raise MissingExtraError('reading images needs Pillow; pip install "hardwood[image]"') from None
    return pillow, operations
