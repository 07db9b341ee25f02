"""Images are read in one size, augmented by row and epoch alone, and named when they are broken."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from hardwood.data import ImageReader
from hardwood.errors import InvalidArgumentError


def stored(folder: Path, pixels: Any, name: str = "a.png") -> str:
    path = folder / name
    Image.fromarray(np.asarray(pixels, np.uint8)).save(path)
    return str(path)


def test_an_image_of_the_right_size_is_read_as_it_is(tmp_path: Path):
    pixels = np.random.default_rng(0).integers(0, 256, (5, 7, 3)).astype(np.uint8)
    path = stored(tmp_path, pixels)
    reader = ImageReader((5, 7))
    assert (reader.read([path], ["X"])[0] == pixels.transpose(2, 0, 1)).all()
    assert (reader.read([Path(path).read_bytes()], ["X"])[0] == pixels.transpose(2, 0, 1)).all()
    assert (ImageReader((5, 7), folder=tmp_path).read(["a.png"], ["X"])[0] == pixels.transpose(2, 0, 1)).all()


@pytest.mark.parametrize("cache_bytes", [0, 200, 1 << 20])
def test_the_cache_changes_nothing(tmp_path: Path, cache_bytes: int):
    rng = np.random.default_rng(1)
    paths = [stored(tmp_path, rng.integers(0, 256, (9, 9)), f"{number}.png") for number in range(4)]
    reader = ImageReader(8, channels=1, cache_bytes=cache_bytes)
    first = reader.read(paths, paths)
    assert first.shape == (4, 1, 8, 8)
    assert (reader.read(paths[::-1], paths)[::-1] == first).all()
    assert sum(each.nbytes for each in reader._cache.values()) <= cache_bytes


def test_no_images_are_an_empty_array():
    assert ImageReader(4).read([], []).shape == (0, 3, 4, 4)


def test_greys_alpha_and_palettes_become_colours(tmp_path: Path):
    grey = stored(tmp_path, np.full((4, 4), 90), "grey.png")
    Image.new("RGBA", (4, 4), (10, 20, 30, 255)).save(tmp_path / "alpha.png")
    Image.new("P", (4, 4)).save(tmp_path / "palette.gif")
    paths = [grey, str(tmp_path / "alpha.png"), str(tmp_path / "palette.gif")]
    made = ImageReader(4).read(paths, paths)
    assert (made[0] == 90).all()
    assert made[1, :, 0, 0].tolist() == [10, 20, 30]


def test_augmentations_depend_on_row_view_and_epoch_alone():
    image = np.random.default_rng(2).integers(0, 256, (1, 3, 16, 13)).astype(np.uint8)
    options: dict[str, Any] = {"augment": ("flip", "shift", "colour")}
    reader, places = ImageReader((16, 13), **options, seed=5), [(row, view) for row in range(3) for view in range(2)]
    for epoch in range(3):
        together = reader.augmented(image.repeat(6, axis=0), epoch, places)
        assert together.shape == (6, 3, 16, 13) and together.dtype == np.uint8
        assert len({each.tobytes() for each in together}) == 6
        alone = [ImageReader((16, 13), **options, seed=5).augmented(image, epoch, [place])[0] for place in places]
        assert (together == np.stack(alone)).all()
    other = ImageReader((16, 13), **options, seed=6).augmented(image.repeat(6, axis=0), 2, places)
    assert (other != together).any(axis=(1, 2, 3)).all()
    assert ImageReader(16).augmented(image, 0, [(0, 0)]) is image
    assert reader.augmented(image[:0], 0, []).shape == (0, 3, 16, 13)


def test_what_is_drawn_for_an_image_is_spread_evenly():
    from hardwood.data._augment import _uniform

    places = np.stack(np.meshgrid(np.arange(200), np.arange(4), indexing="ij"), axis=2).reshape(-1, 2)
    drawn = np.concatenate([_uniform(seed, epoch, places, 5) for seed in range(3) for epoch in range(3)])
    assert 0 <= drawn.min() < 0.001 and 0.999 < drawn.max() < 1
    np.testing.assert_allclose(np.quantile(drawn, [0.25, 0.5, 0.75], axis=0).T, [[0.25, 0.5, 0.75]] * 5, atol=0.02)
    assert np.abs(np.corrcoef(drawn.T) - np.eye(5)).max() < 0.05
    assert len(np.unique(drawn)) == drawn.size


def test_words_are_left_out_by_row_view_and_epoch_alone():
    from hardwood.data._augment import without_words

    words = np.arange(1, 1 + 40 * 50).reshape(40, 50)
    places = np.stack([np.arange(40), np.zeros(40, np.int64)], axis=1)
    left = without_words(words, 0.3, 1, 2, places)
    assert 0.65 < (left == words).mean() < 0.75
    assert ((left == words) | (left == 0)).all()
    # A text alone, and beside shorter ones, loses the same words.
    assert (without_words(words[7:8, :20], 0.3, 1, 2, places[7:8]) == left[7, :20]).all()
    assert (without_words(words, 0.3, 1, 3, places) != left).any()
    assert without_words(words, 0.0, 1, 2, places) is words


def test_each_augmentation_does_what_it_says():
    image = np.arange(2 * 8 * 8, dtype=np.uint8).reshape(2, 8, 8)
    many, places = np.stack([image] * 40), [(row, 0) for row in range(40)]
    flips = [each.tobytes() for each in ImageReader(8, augment="flip").augmented(many, 0, places)]
    assert set(flips) == {image.tobytes(), np.ascontiguousarray(image[:, :, ::-1]).tobytes()}
    assert 10 <= flips.count(image.tobytes()) <= 30
    seen = set()
    for moved in ImageReader(8, augment="shift").augmented(many, 0, places):
        # All but the border is the image, moved by at most one place; the border repeats the edge.
        down, right = next((d, r) for d in (-1, 0, 1) for r in (-1, 0, 1)
                           if (moved[:, 1:7, 1:7] == image[:, 1 + d : 7 + d, 1 + r : 7 + r]).all())  # fmt: skip
        padded = np.pad(image, ((0, 0), (1, 1), (1, 1)), mode="edge")
        assert (moved == padded[:, 1 + down : 9 + down, 1 + right : 9 + right]).all()
        seen.add((down, right))
    assert len(seen) >= 7
    grey = np.full((40, 1, 8, 8), 100, np.uint8)
    bright = ImageReader(8, channels=1, augment="colour").augmented(grey, 0, places)[:, 0, 0, 0]
    assert 80 <= bright.min() < 95 < 105 < bright.max() <= 120
    ramp = np.broadcast_to(np.arange(100, 108, dtype=np.uint8), (40, 1, 8, 8))
    spread = np.ptp(ImageReader(8, channels=1, augment="colour").augmented(ramp, 0, places), axis=(1, 2, 3))
    assert 5 <= spread.min() < 7 < spread.max() <= 9


def test_a_broken_image_is_named(tmp_path: Path):
    (tmp_path / "text.png").write_text("this is no image")
    whole = Path(stored(tmp_path, np.zeros((40, 40, 3)))).read_bytes()
    (tmp_path / "half.png").write_bytes(whole[: len(whole) // 2])
    for name in ("text.png", "half.png"):
        path = str(tmp_path / name)
        with pytest.raises(InvalidArgumentError, match=r"X\['photo'\]\[12\].*" + name):
            ImageReader(4).read([path], ["X['photo'][12]"])
    with pytest.raises(InvalidArgumentError, match=r"there is no such file.*leave the cell empty"):
        ImageReader(4).check([str(tmp_path / "gone.png")], ["X['photo'][3]"])
    with pytest.raises(InvalidArgumentError, match="no image"):
        ImageReader(4).check([3.5], ["X['photo'][3]"])


@pytest.mark.parametrize(("name", "value"), [("size", 0), ("channels", 2), ("augment", ("turn",))])
def test_settings_that_mean_nothing_are_refused(name: str, value: Any):
    with pytest.raises(InvalidArgumentError, match=name):
        ImageReader(**{name: value})
