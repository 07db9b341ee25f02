"""A small frame with images, texts and a table, whose target each of them tells a part of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd


def made_frame(folder: Path, n: int = 42, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    """Return a frame of pictures whose colour, texts whose words and numbers whose size go with one of three classes.

    Row 3 has no picture, row 4 no text, row 5 no number.
    """
    from PIL import Image

    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3
    paths: list[Any] = []
    for number, label in enumerate(y):
        pixels = rng.integers(0, 120, (9, 11, 3)).astype(np.uint8)
        pixels[:, :, label] += 90
        path = folder / f"{number}.png"
        Image.fromarray(pixels).save(path)
        paths.append(str(path))
    texts: list[Any] = [f"number {number} has to do with thing{label} and more" for number, label in enumerate(y)]
    size = y + rng.normal(size=n)
    paths[3], texts[4], size[5] = None, None, np.nan
    kind = np.where(rng.random(n) < 0.8, np.array(list("abc"), object)[y], "d")
    return pd.DataFrame({"photo": paths, "note": texts, "size": size, "kind": kind}), y


def small_encoder() -> Any:
    """Return an encoder with the same random parameters every time."""
    import torch

    from hardwood.nn import ConvEncoder

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return ConvEncoder(6, stages=(4, 8))


def small(**given: Any) -> dict[str, Any]:
    """Return parameters that make training short."""
    from hardwood.estimators import ImageBranch, TextBranch

    image = ImageBranch("photo", encoder=small_encoder(), size=8)
    branches = [image, TextBranch("note", n_buckets=64)]
    options = {"n_estimators": 4, "max_depth": 2, "max_iter": 4, "encoder_warmup": 1, "batch_size": 16, "n_jobs": 1}
    return {"branches": branches, "random_state": 0, **options, **given}
