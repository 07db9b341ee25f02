"""The built-in encoders give one vector a cell, whatever the other cells are."""

from __future__ import annotations

import pytest
import torch

from hardwood.errors import InvalidArgumentError
from hardwood.nn import BagEncoder, ConvEncoder


@pytest.mark.parametrize(("size", "channels", "stages"), [(8, 1, (4,)), (33, 3, (4, 10, 7)), (3, 3, (8, 8))])
def test_images_of_any_size(size: int, channels: int, stages: tuple[int, ...]):
    encoder = ConvEncoder(5, channels, stages)
    images = torch.randn(4, channels, size, size + 2, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(encoder(images)[1:2], encoder(images[1:2]))
    assert encoder(images).shape == (4, 5)


def test_a_bag_is_the_mean_of_its_words():
    encoder = BagEncoder(10, 3)
    words = torch.tensor([[4, 7, 0, 0], [5, 5, 5, 0], [0, 0, 0, 0]])
    table = encoder.words.weight
    means = torch.stack([(table[4] + table[7]) / 2, table[5], torch.zeros(3)])
    torch.testing.assert_close(encoder(words), encoder.last(means))


def test_sizes_that_mean_nothing_are_refused():
    with pytest.raises(InvalidArgumentError, match="stages"):
        ConvEncoder(4, stages=())
    with pytest.raises(InvalidArgumentError, match="n_buckets"):
        BagEncoder(1)
