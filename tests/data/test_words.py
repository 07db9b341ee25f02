"""Words get the same numbers in every process, whatever stands around them."""

from __future__ import annotations

import zlib

import pytest

from hardwood.data import WordHasher
from hardwood.errors import InvalidArgumentError


def test_words_and_runs_of_words_have_numbers():
    hasher = WordHasher(n_buckets=500, n_grams=2)

    def number(run: str) -> int:
        return 1 + zlib.crc32(run.encode()) % 499

    made = hasher(["Die Straße, naß!", "naß", ""])
    assert made[0].tolist() == [number(run) for run in ("die", "straße", "naß", "die straße", "straße naß")]
    assert made[1].tolist() == [number("naß"), 0, 0, 0, 0]
    assert not made[2].any()


def test_long_texts_are_cut():
    assert WordHasher(n_grams=1, most_words=3)(["a b c d e"]).shape == (1, 3)


@pytest.mark.parametrize("texts", [[], [""]])
def test_nothing_to_read(texts: list[str]):
    assert WordHasher()(texts).shape == (len(texts), 1)


@pytest.mark.parametrize(("name", "value"), [("n_buckets", 1), ("n_grams", 0), ("most_words", 0)])
def test_settings_that_mean_nothing_are_refused(name: str, value: int):
    with pytest.raises(InvalidArgumentError, match=name):
        WordHasher(**{name: value})
