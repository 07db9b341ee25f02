"""Columns are told apart as a person would, and names that cannot be are refused."""

from __future__ import annotations

from typing import Any

import narwhals as nw
import pandas as pd
import polars as pl
import pytest
from torch import nn

from hardwood.errors import InvalidArgumentError
from hardwood.estimators import ImageBranch, TextBranch
from hardwood.estimators._modalities import name_of, recognise

COLUMNS: dict[str, list[Any]] = {
    "picture": ["a.png", None, "folder/b.JPEG"],
    "bytes": [b"GIF89a", b"GIF89a", None],
    "prose": ["it is a long story", "nobody knows how it ends", None],
    "said": ["what they all say here", "what they all say here", "what they all say here"],
    "city": ["York", "New York", None],
    "size": [1.5, 2.5, None],
    "empty": [None, None, None],
}


@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame])
def test_columns_are_recognised(library: Any):
    frame = nw.from_native(library(COLUMNS), eager_only=True)
    branches, table = recognise(frame, "auto")
    kinds = {name_of(branch): type(branch) for branch in branches}
    assert kinds == {"picture": ImageBranch, "bytes": ImageBranch, "prose": TextBranch}
    assert table == ("said", "city", "size", "empty")


def test_named_columns_come_before_what_is_recognised():
    frame = nw.from_native(pd.DataFrame(COLUMNS), eager_only=True)
    two = ImageBranch(["picture", "bytes"])
    branches, table = recognise(frame, {"prose": "table", "said": "text", "any": two})
    assert branches[1] is two
    assert name_of(branches[0]) == "said"
    assert table == ("prose", "city", "size", "empty")
    branches, table = recognise(frame, [two])
    assert branches == (two,)
    assert table == ("prose", "said", "city", "size", "empty")


@pytest.mark.parametrize(
    "given",
    [
        "all",
        3,
        {"city": "number"},
        {"nowhere": "text"},
        [ImageBranch("nowhere")],
        [ImageBranch("picture"), TextBranch(["prose", "picture"])],
        [TextBranch([])],
        [TextBranch("prose", encoder=nn.Identity())],
    ],
)
def test_what_cannot_be_is_refused(given: Any):
    frame = nw.from_native(pd.DataFrame(COLUMNS), eager_only=True)
    with pytest.raises(InvalidArgumentError):
        recognise(frame, given)
