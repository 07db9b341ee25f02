"""`WordHasher`: texts as numbers of hashed words, with no vocabulary to learn or to download."""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence

import numpy as np

from hardwood._typing import Int
from hardwood.errors import reject

_WORD = re.compile(r"\w+", re.UNICODE)


class WordHasher:
    """Cuts texts into words and runs of words, and gives each the number of a bucket, the same in every process.

    >>> WordHasher(n_buckets=1000, n_grams=1)(["a hard tree", "A tree!"])[:, 0].tolist()
    [172, 172]

    Args:
        n_buckets: different numbers, 1 to `n_buckets - 1`; 0 fills up short texts.
        n_grams: the longest runs of words that have a number of their own.
        most_words: words of a text that are read.
    """

    def __init__(self, n_buckets: int = 4096, n_grams: int = 2, most_words: int = 256) -> None:
        for name, value, least in (("n_buckets", n_buckets, 2), ("n_grams", n_grams, 1), ("most_words", most_words, 1)):
            if value < least:
                reject(name, value, f"must be at least {least}", f"pass {name}={least} or more")
        self.n_buckets, self.n_grams, self.most_words = n_buckets, n_grams, most_words

    def __call__(self, texts: Sequence[str]) -> Int[np.ndarray, "texts words"]:
        """Return the numbers of each text's words."""
        numbers = [self._numbers(text) for text in texts]
        table = np.zeros((len(texts), max((len(each) for each in numbers), default=0) or 1), np.int64)
        for row, each in zip(table, numbers, strict=True):
            row[: len(each)] = each
        return table

    def _numbers(self, text: str) -> list[int]:
        words = _WORD.findall(text.lower())[: self.most_words]
        runs = [
            " ".join(words[start : start + length])
            for length in range(1, self.n_grams + 1)
            for start in range(len(words) - length + 1)
        ]
        return [1 + zlib.crc32(run.encode()) % (self.n_buckets - 1) for run in runs]
