"""Small encoders that need no download: a convolutional one for images, a bag of hashed words for texts."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from hardwood._typing import Float, Int
from hardwood.errors import reject


class ConvEncoder(nn.Module):
    """A compact convolutional encoder: each stage halves the image, and adds what it finds at that size.

    It normalises groups of channels within an image, so an embedding does not depend on other images.

    >>> import torch
    >>> ConvEncoder(width=8)(torch.zeros(2, 3, 32, 32)).shape
    torch.Size([2, 8])

    Args:
        width: numbers of the embedding.
        channels: of the input: 3 for colours, 1 for greys.
        stages: channels of each stage.
    """

    def __init__(self, width: int = 32, channels: int = 3, stages: Sequence[int] = (16, 32, 64)) -> None:
        super().__init__()
        if width < 1 or channels < 1 or not stages or min(stages) < 1:
            remedy = "pass width=32, channels=3, stages=(16, 32, 64)"
            reject("width, channels, stages", (width, channels, stages), "must be at least 1 each", remedy)
        self.width, self.channels, self.stages = width, channels, tuple(stages)
        before = (channels, *self.stages[:-1])
        self.body = nn.Sequential(*[_Stage(inside, out) for inside, out in zip(before, self.stages, strict=True)])
        self.last = nn.Linear(self.stages[-1], width)

    def forward(self, images: Float[Tensor, "images channels height width"]) -> Float[Tensor, "images embedding"]:
        """Return the embedding of each image."""
        return self.last(self.body(images).mean((2, 3)))


class _Stage(nn.Module):
    """A convolution that halves the image, and a residual one."""

    def __init__(self, inside: int, out: int) -> None:
        super().__init__()
        groups = max(each for each in range(1, 9) if out % each == 0)
        self.halve = nn.Sequential(nn.Conv2d(inside, out, 3, stride=2, padding=1), nn.GroupNorm(groups, out), nn.ReLU())
        self.add = nn.Sequential(nn.Conv2d(out, out, 3, padding=1), nn.GroupNorm(groups, out), nn.ReLU())

    def forward(self, x: Tensor) -> Tensor:
        """Return the stage's channels."""
        x = self.halve(x)
        return x + self.add(x)


class BagEncoder(nn.Module):
    """The mean of the embeddings of a text's hashed words, and a layer on it.

    >>> import torch
    >>> BagEncoder(n_buckets=64, width=8)(torch.tensor([[3, 5, 0]])).shape
    torch.Size([1, 8])

    Args:
        n_buckets: different numbers that words can have; 0 stands for no word.
        width: numbers of the embedding.
    """

    def __init__(self, n_buckets: int = 4096, width: int = 32) -> None:
        super().__init__()
        if n_buckets < 2 or width < 1:
            reject("n_buckets, width", (n_buckets, width), "are too small", "pass n_buckets=4096, width=32")
        self.n_buckets, self.width = n_buckets, width
        self.words = nn.EmbeddingBag(n_buckets, width, mode="mean", padding_idx=0)
        self.last = nn.Linear(width, width)

    def forward(self, words: Int[Tensor, "texts words"]) -> Float[Tensor, "texts embedding"]:
        """Return the embedding of each text."""
        return self.last(self.words(words))
