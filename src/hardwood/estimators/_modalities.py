"""`ImageBranch` and `TextBranch`: which columns an encoder sees and how; and how columns are told apart."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from torch import nn

from hardwood.data._cells import is_missing
from hardwood.data._images import looks_like_image
from hardwood.errors import reject

Width = int | Literal["auto"] | None
# A column of texts this long on average, most of them different, is prose and no category.
_WORDS_OF_PROSE = 4.0
_DIFFERENT = 0.5


@dataclass(frozen=True, eq=False)
class ImageBranch:
    """Columns of image paths (or of the bytes of image files) and the encoder that sees them.

    Args:
        columns: one column, or several that share the encoder, such as photographs of one thing.
        encoder: a `torch.nn.Module` from `(images, channels, size, size)` to `(images, numbers)`; of torchvision or
            timm models `nn.image_backbone` makes one. By default a compact `nn.ConvEncoder`.
        size: height and width that images are resized to.
        channels: 3 for colours, 1 for greys.
        folder: where relative paths begin.
        augment: from "flip", "shift" and "colour"; see `data.ImageReader`. None takes all three, but nothing for a
            frozen encoder: what that makes of the images is then computed once.
        views: several columns' embeddings side by side ("concat"), or their mean ("mean").
        width: numbers of an embedding after a linear projection; "auto" projects embeddings of more than 32 to 32,
            None none.
        tuning: "full" trains the encoder, "last" its last layer (of those with a matrix of parameters, and what
            normalises after it), "frozen" nothing of it.
        rate: its learning rate; the estimator's `encoder_rate` by default.
        pixel_mean, pixel_scale: what a pre-trained encoder expects of channels whose values lie between 0 and 1.
    """

    columns: str | Sequence[str]
    encoder: nn.Module | None = None
    size: int | tuple[int, int] = 64
    channels: int = 3
    folder: str | os.PathLike[str] | None = None
    augment: Sequence[str] | None = None
    views: Literal["concat", "mean"] = "concat"
    width: Width = "auto"
    tuning: Literal["full", "last", "frozen"] = "full"
    rate: float | None = None
    pixel_mean: tuple[float, ...] = (0.5,)
    pixel_scale: tuple[float, ...] = (0.25,)


@dataclass(frozen=True, eq=False)
class TextBranch:
    """Columns of texts and the encoder that sees them.

    Args:
        columns: one column, or several that share the encoder.
        encoder: a `torch.nn.Module` on what the tokenizer gives; of a transformers model `nn.TransformerEncoder` makes
            one. By default a bag of hashed words, `nn.BagEncoder`.
        tokenizer: a transformers tokenizer, or a function from a list of texts to a tensor or a dict of tensors. Needed
            with an encoder.
        n_buckets, n_grams, most_words: of the hashed words; `most_words` also cuts what a tokenizer gives.
        word_dropout: share of the hashed words that training leaves out, drawn anew for each row and pass: a bag of
            words otherwise knows its texts by heart after a few passes. A frozen encoder sees all words.
        views, width, tuning, rate: as for `ImageBranch`.
    """

    columns: str | Sequence[str]
    encoder: nn.Module | None = None
    tokenizer: Callable[..., Any] | None = None
    n_buckets: int = 4096
    n_grams: int = 2
    most_words: int = 256
    word_dropout: float = 0.5
    views: Literal["concat", "mean"] = "concat"
    width: Width = "auto"
    tuning: Literal["full", "last", "frozen"] = "full"
    rate: float | None = None


Branch = ImageBranch | TextBranch


def augmentations_of(branch: Branch) -> Sequence[str]:
    """Return what training does to the cells of a branch."""
    if not isinstance(branch, ImageBranch):
        return ()
    if branch.augment is None:
        return () if branch.tuning == "frozen" else ("flip", "shift", "colour")
    return branch.augment


def columns_of(branch: Branch) -> tuple[str, ...]:
    """Return the columns of a branch."""
    return (branch.columns,) if isinstance(branch.columns, str) else tuple(branch.columns)


def name_of(branch: Branch) -> str:
    """Return the name of a branch: that of its columns."""
    return "+".join(columns_of(branch))


def recognise(frame: Any, given: Any) -> tuple[tuple[Branch, ...], tuple[str, ...]]:
    """Return the branches, and the columns of the table: all that no branch has.

    `given` is "auto"; or a list of branches; or a dict from column to "image", "text", "table" or a branch, in which
    columns that are left out are recognised.
    """
    remedy = "pass 'auto', a list of ImageBranch and TextBranch, or a dict from column to 'image', 'text' or 'table'"
    branches: list[Branch] = []
    tabular: set[str] = set()
    if isinstance(given, str):
        if given != "auto":
            reject("branches", given, "is not known", remedy)
        looked_at = True
    elif isinstance(given, Mapping):
        looked_at = True
        for column, kind in given.items():
            if kind == "table":
                _known(frame, column)
                tabular.add(column)
            elif kind in ("image", "text"):
                branches.append(ImageBranch(column) if kind == "image" else TextBranch(column))
            elif isinstance(kind, (ImageBranch, TextBranch)):
                branches.append(kind)
            else:
                reject(f"branches[{column!r}]", kind, "is no kind of column", remedy)
    else:
        looked_at = False
        if not isinstance(given, (list, tuple)) or not all(isinstance(e, (ImageBranch, TextBranch)) for e in given):
            reject("branches", given, "is no list of branches", remedy)
        branches = list(given)
    taken: set[str] = set()
    for branch in branches:
        columns = columns_of(branch)
        if not columns:
            reject("columns", branch.columns, "names no column", "name one or more columns of X")
        for column in columns:
            _known(frame, column)
            if column in taken or column in tabular:
                reject("branches", column, "is in two branches", "name each column once")
            taken.add(column)
        if isinstance(branch, TextBranch) and (branch.encoder is None) != (branch.tokenizer is None):
            reject("tokenizer", branch.tokenizer, "and encoder go together", "pass both, or neither for hashed words")
        if isinstance(branch, TextBranch) and not 0 <= branch.word_dropout < 1:
            reject("word_dropout", branch.word_dropout, "must be at least 0 and below 1", "try word_dropout=0.5")
    if looked_at:
        for column in frame.columns:
            kind = "table" if column in taken or column in tabular else _kind(frame.get_column(column))
            if kind != "table":
                branches.append(ImageBranch(column) if kind == "image" else TextBranch(column))
                taken.add(column)
    return tuple(branches), tuple(column for column in frame.columns if column not in taken)


def _known(frame: Any, column: Any) -> None:
    if column not in frame.columns:
        reject("branches", column, "is no column of X", f"choose from {list(frame.columns)}")


def _kind(column: Any) -> str:
    """Return what a column looks like: paths of images (or their bytes), prose, or anything else."""
    cells = [cell for cell in column.head(1000).to_list() if not is_missing(cell)]
    if not cells or not all(isinstance(cell, (str, bytes)) for cell in cells):
        return "table"
    if all(isinstance(cell, bytes) or looks_like_image(cell) for cell in cells):
        return "image"
    if not all(isinstance(cell, str) for cell in cells):
        return "table"
    words = sum(len(cell.split()) for cell in cells) / len(cells)
    return "text" if words >= _WORDS_OF_PROSE and len(set(cells)) > _DIFFERENT * len(cells) else "table"
