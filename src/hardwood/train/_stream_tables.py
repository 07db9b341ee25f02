"""`StreamTables`: the chunks of a source as tables, checked one by one."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing
from typing import Any, NoReturn

import torch
from torch import Tensor, nn

from hardwood.data._stream_checks import of_chunk
from hardwood.errors import reject
from hardwood.train._checkpoint import fingerprint
from hardwood.train._data import Intake, Table, check_rows, device_of
from hardwood.train._losses import Loss
from hardwood.train._read_ahead import read_ahead
from hardwood.train._weights import ClassWeight


class StreamTables:
    """The tables of a source; every iteration reads it from the beginning, one chunk ahead.

    The first chunk says what all others have to be like. It is looked at once more than the others.
    """

    def __init__(
        self,
        source: Iterable[Any],
        model: nn.Module,
        loss: Loss,
        class_weight: ClassWeight | None,
        base: Tensor | None,
    ) -> None:
        if isinstance(source, Iterator):
            shown = f"a {type(source).__name__}"
            reject("source", shown, "can be read only once", "pass an object whose __iter__ begins a new pass")
        self._source = source
        first = _first(source)
        with of_chunk(1):
            rows, target, weight = _parts(first)
        self.intake = Intake.learn(model, loss, rows, target, weight, class_weight, base)
        with of_chunk(1):
            table = self.intake.table(rows, target, weight, "weight", part=True)
        self.n_features, self.device = rows.shape[1], device_of(model, rows)
        self._form = _form(table)
        self.digest = fingerprint(*table)

    def __iter__(self) -> Generator[Table, None, None]:
        number = 0
        with closing(read_ahead(self._source)) as chunks:
            for chunk in chunks:
                number += 1
                with of_chunk(number):
                    rows, target, weight = _parts(chunk)
                    table = self.intake.table(rows, target, weight, "weight", part=True)
                    if _form(table) != self._form:
                        reject("chunk", _form(table), f"but chunk 1 has {self._form}", "make all chunks alike")
                yield table
        if number == 0:
            _refuse_end()

    def count_rows(self) -> int:
        """Read the source once, and return how many rows it has."""
        return sum(len(table.rows) for table in self)


def _first(source: Iterable[Any]) -> Any:
    iterator = iter(source)
    try:
        chunk = next(iterator, None)
    finally:
        close = getattr(iterator, "close", None)
        if close is not None:
            close()
    if chunk is None:
        _refuse_end()
    return chunk


def _refuse_end() -> NoReturn:
    reject("source", "no chunk", "there are no rows to train on", "begin anew with the same rows at every iteration")


def _parts(chunk: Any) -> tuple[Tensor, Tensor, Tensor | None]:
    if not isinstance(chunk, Sequence) or not all(isinstance(part, Tensor) for part in chunk):
        reject("chunk", f"a {type(chunk).__name__}", "is no tuple of tensors", "yield (rows, target)")
    if len(chunk) not in (2, 3):
        reject("chunk", f"{len(chunk)} tensors", "is not (rows, target)", "or (rows, target, weight)")
    rows, target = chunk[:2]
    check_rows("rows", rows, target)
    return rows, target, chunk[2] if len(chunk) == 3 else None


def _form(table: Table) -> str:
    rows, target, weight = table
    kinds = [str(tensor.dtype).removeprefix("torch.") for tensor in (rows, target)]
    outputs = f"{target.shape[1]} columns of " if target.ndim == 2 else ""
    weighted = "without weights" if weight is None else "with weights"
    return f"{rows.shape[1]} columns of {kinds[0]}, a target of {outputs}{kinds[1]}, {weighted}, on {rows.device}"


def joined(tables: list[Table]) -> Table:
    """Return several tables as one."""
    if len(tables) == 1:
        return tables[0]
    weights = [table.weight for table in tables if table.weight is not None]
    rows, targets = [table.rows for table in tables], [table.target for table in tables]
    return Table(torch.cat(rows), torch.cat(targets), torch.cat(weights) if weights else None)
