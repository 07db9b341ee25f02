"""`ModalSource`: the rows of a frame as a multimodal network sees them, loaded when a batch takes them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hardwood._typing import Bool, Float, Int
from hardwood.data._augment import without_words
from hardwood.data._cells import is_missing
from hardwood.data._columns import read
from hardwood.data._images import ImageReader
from hardwood.data._words import WordHasher
from hardwood.errors import reject
from hardwood.estimators._modalities import Branch, ImageBranch, TextBranch, augmentations_of, columns_of
from hardwood.nn import EncoderBranch, ModalBatch, Part
from hardwood.train import RowSource


class Reader:
    """Makes a `Part` of the cells of one branch."""

    def __init__(self, branch: Branch, seed: int) -> None:
        self.branch, self.seed, self.word_dropout = branch, seed, 0.0
        self.images: ImageReader | None = None
        self.hasher: WordHasher | None = None
        if isinstance(branch, ImageBranch):
            options: dict[str, Any] = {
                "channels": branch.channels,
                "folder": branch.folder,
                "augment": augmentations_of(branch),
            }
            self.images = ImageReader(branch.size, seed=seed, **options)
        elif branch.tokenizer is None:
            self.hasher = WordHasher(branch.n_buckets, branch.n_grams, branch.most_words)
            self.word_dropout = 0.0 if branch.tuning == "frozen" else branch.word_dropout

    def values(
        self, cells: Sequence[Any], places: Sequence[tuple[int, int]], epoch: int | None
    ) -> Tensor | dict[str, Tensor]:
        """Return the cells that are there, `places` being their rows and views."""
        if self.images is not None:
            columns = columns_of(self.branch)
            labels = [f"X[{columns[view]!r}][{row}]" for row, view in places]
            images = self.images.read(cells, labels)
            if epoch is not None:
                images = self.images.augmented(images, epoch, places)
            return torch.from_numpy(np.ascontiguousarray(images))
        if self.hasher is not None:
            words = self.hasher(cells)
            if epoch is not None:
                numbered = np.array(places, np.int64).reshape(-1, 2)
                words = without_words(words, self.word_dropout, self.seed, epoch, numbered)
            return torch.from_numpy(words)
        return self._tokens(list(cells))

    def _tokens(self, texts: list[str]) -> Tensor | dict[str, Tensor]:
        assert isinstance(self.branch, TextBranch) and self.branch.tokenizer is not None
        tokenizer = self.branch.tokenizer
        if not texts:
            return torch.zeros((0, 1), dtype=torch.int64)
        if hasattr(tokenizer, "pad_token"):  # of the transformers library
            given = tokenizer(
                texts, padding=True, truncation=True, max_length=self.branch.most_words, return_tensors="pt"
            )
        else:
            given = tokenizer(texts)
        made = given if isinstance(given, Tensor) else dict(given)
        for tensor in made.values() if isinstance(made, dict) else (made,):
            if not isinstance(tensor, Tensor) or len(tensor) != len(texts):
                problem = f"gave no tensor with {len(texts)} rows for so many texts"
                reject("tokenizer", type(tensor).__name__, problem, "return a tensor, or a dict of tensors")
        return made

    def check(self, cells: list[list[Any]], numbers: Int[np.ndarray, " rows"]) -> None:
        """Refuse cells that are no texts, and paths where no file is; `numbers` are the rows', as the user counts."""
        columns = columns_of(self.branch)
        there = [
            (cell, f"X[{columns[view]!r}][{row}]")
            for row, of_row in zip(numbers.tolist(), cells, strict=True)
            for view, cell in enumerate(of_row)
            if cell is not None
        ]
        if self.images is not None:
            self.images.check([cell for cell, _ in there], [label for _, label in there])
            return
        for cell, label in there:
            if not isinstance(cell, str):
                reject(label, cell, "is no text", "convert the column to text, or leave it to the table")


class ModalSource(RowSource):
    """The encoded table of some rows in memory, and their other cells, which are read batch by batch."""

    def __init__(
        self,
        table: Float[np.ndarray, "rows encoded"],
        readers: dict[str, Reader],
        cells: dict[str, list[list[Any]]],
        numbers: Int[np.ndarray, " rows"] | None = None,
    ) -> None:
        self.table = torch.from_numpy(np.ascontiguousarray(table, np.float32))
        self.readers, self.cells = readers, cells
        # Of the rows as the user counts them, for errors; of weight 0, some may have been left out.
        self.numbers = np.arange(len(table)) if numbers is None else numbers
        self._encoded: dict[str, tuple[Tensor, Int[np.ndarray, " rows+1"]]] = {}

    def __len__(self) -> int:
        return len(self.table)

    def load(self, rows: Int[Tensor, " some"], epoch: int | None) -> ModalBatch:
        """Return some rows on the CPU."""
        chosen = rows.tolist()
        return ModalBatch(self.table[rows], {name: self._part(name, chosen, epoch) for name in self.readers})

    def _part(self, name: str, rows: list[int], epoch: int | None) -> Part:
        if name in self._encoded:
            return self._encoded_part(name, rows)
        cells = [self.cells[name][row] for row in rows]
        n_views = len(columns_of(self.readers[name].branch))
        present = np.array([[cell is not None for cell in of_row] for of_row in cells], bool).reshape(-1, n_views)
        there = [cell for of_row in cells for cell in of_row if cell is not None]
        places = [(int(self.numbers[rows[row]]), int(view)) for row, view in np.argwhere(present)]
        return Part(self.readers[name].values(there, places, epoch), self._present(present))

    def encode(self, name: str, branch: EncoderBranch, rows_at_once: int) -> None:
        """Let an encoder that will not change see all cells of a branch once, and give out what it makes of them."""
        device = branch._pixel_mean.device
        made = []
        for start in range(0, len(self), rows_at_once):
            part = self._part(name, list(range(start, min(start + rows_at_once, len(self)))), None).to(device)
            if part.n_cells > 0:
                with torch.no_grad():
                    made.append(branch.encode(part.values).cpu())
        counts = [sum(cell is not None for cell in of_row) for of_row in self.cells[name]]
        if made:
            self._encoded[name] = torch.cat(made), np.cumsum([0, *counts])

    def _encoded_part(self, name: str, rows: list[int]) -> Part:
        encoded, starts = self._encoded[name]
        present = np.array([[cell is not None for cell in self.cells[name][row]] for row in rows], bool)
        n_views = len(columns_of(self.readers[name].branch))
        places = [place for row in rows for place in range(int(starts[row]), int(starts[row + 1]))]
        return Part(encoded[torch.tensor(places, dtype=torch.int64)], self._present(present.reshape(-1, n_views)), True)

    @staticmethod
    def _present(present: Bool[np.ndarray, "rows views"]) -> Bool[Tensor, "rows views"]:
        return torch.from_numpy(present)

    def fingerprint(self) -> str:
        """Return a digest of the table, the paths and the texts, and how images are augmented."""
        digest = hashlib.blake2b(digest_size=16)
        digest.update(self.table.numpy().tobytes())
        for name, reader in self.readers.items():
            images = reader.images
            made = None if images is None else (images.size, images.channels, images.augment)
            digest.update(repr((name, made, reader.word_dropout, reader.seed)).encode())
            for of_row in self.cells[name]:
                digest.update(repr(of_row).encode())
        return digest.hexdigest()


def cells_of(frame: Any, branch: Branch) -> list[list[Any]]:
    """Return the cells of a branch's columns, row by row, None for what is missing."""
    columns = [frame.get_column(column).to_list() for column in columns_of(branch)]
    return [[None if is_missing(cell) else cell for cell in of_row] for of_row in zip(*columns, strict=True)]


def frame_of(X: Any) -> Any:
    """Return a frame of narwhals; columns that hold images and texts need names."""
    table = read(X)
    if isinstance(table, np.ndarray):
        problem = "has no column names"
        reject("X", f"an array of shape {table.shape}", problem, "pass a pandas, polars or Arrow table")
    if not all(isinstance(name, str) for name in table.columns):
        reject("X", list(table.columns), "has a column whose name is no text", "rename it")
    return table


def table_of(X: Any, columns: tuple[str, ...]) -> Any:
    """Return some columns, as a table of the kind that was given."""
    return frame_of(X).select(list(columns)).to_native()
