"""`fit_source` is `fit` on rows that are loaded batch by batch, killed and resumed without a trace."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from hardwood.errors import InvalidArgumentError
from hardwood.train import (
    Callback,
    CheckpointError,
    LazyRows,
    RowSource,
    TrainingSettings,
    TrainingState,
    fit,
    fit_source,
)


class Numbers(RowSource):
    """Rows in memory, that say when and where they were loaded; `shaken` rows differ from epoch to epoch."""

    def __init__(self, table: Tensor, shaken: bool = False) -> None:
        self.table, self.shaken = table, shaken
        self.loads: list[tuple[list[int], int | None]] = []
        self.threads: set[int] = set()

    def __len__(self) -> int:
        return len(self.table)

    def load(self, rows: Tensor, epoch: int | None) -> Tensor:
        self.loads.append((rows.tolist(), epoch))
        self.threads.add(threading.get_ident())
        made = self.table[rows]
        return made + epoch / 8 if self.shaken and epoch is not None else made

    def fingerprint(self) -> str:
        return f"{float(self.table.double().sum())}"


class Linear(nn.Module):
    """A linear model of tensors, or of rows that it loads itself, two at a time."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.linspace(-1, 1, 3)[:, None])

    def forward(self, rows: Any) -> Tensor:
        if isinstance(rows, LazyRows):
            starts = range(0, len(rows), 2)
            return torch.cat([self(rows.take(slice(start, start + 2)).load()) for start in starts])
        made: Tensor = rows @ self.weight
        return made


def problem(n: int = 21) -> tuple[Tensor, Tensor]:
    x = torch.randn(n, 3, generator=torch.Generator().manual_seed(0))
    return x, x @ torch.tensor([1.0, -2.0, 0.5]) + 0.1


SETTINGS = TrainingSettings(max_epochs=6, batch_size=4, patience=5, random_state=3, checkpoint_seconds=0.0)


def train(source: Numbers, y: Tensor, **options: Any) -> tuple[Linear, Any]:
    model, every = Linear(), LazyRows(source)
    given = {"settings": SETTINGS, "sample_weight": torch.linspace(1, 2, 15), **options}
    held_out = every.take(slice(15, None)), y[15:], None
    return model, fit_source(model, every.take(slice(15)), y[:15], loss="squared_error", validation=held_out, **given)


@pytest.mark.parametrize("batch_size", [4, 15, 40])
def test_it_is_the_same_training_as_in_memory(batch_size: int):
    x, y = problem()
    settings = TrainingSettings(**{**SETTINGS.__dict__, "batch_size": batch_size})
    model, result = train(Numbers(x), y, settings=settings)
    other = Linear()
    weight = torch.linspace(1, 2, 15)
    same = fit(other, x[:15], y[:15], loss="squared_error", settings=settings, validation=(x[15:], y[15:]),
               sample_weight=weight)  # fmt: skip
    assert model.weight.equal(other.weight)
    assert [record.loss for record in result.history] == [record.loss for record in same.history]


def test_epochs_are_told_to_training_rows_only_and_a_thread_reads_ahead():
    x, y = problem()
    source = Numbers(x)
    train(source, y)
    of_training = [load for load in source.loads if load[1] is not None]
    assert sorted(row for rows, epoch in of_training if epoch == 2 for row in rows) == list(range(15))
    assert {epoch for _, epoch in of_training} == {0, 1, 2, 3, 4, 5, 6}  # the last one was read ahead in vain
    assert all(min(rows) >= 15 for rows, epoch in source.loads[2:] if epoch is None)
    assert len(source.threads) == 2
    assert threading.active_count() == len(threading.enumerate())


class Killed(Exception):
    """Stands for the end of the process."""


class Kill(Callback):
    """Ends training from outside after an epoch, when its checkpoint has not been written yet."""

    def on_epoch_end(self, state: TrainingState) -> bool | None:
        if state.epoch == 4:
            raise Killed
        return None


@pytest.mark.parametrize("evaluate_every", [None, 3])
def test_training_goes_on_after_a_kill_to_the_same_bits(tmp_path: Path, evaluate_every: int | None):
    x, y = problem()
    settings = TrainingSettings(**{**SETTINGS.__dict__, "evaluate_every": evaluate_every, "patience": None})
    whole, result = train(Numbers(x, shaken=True), y, settings=settings)
    path = tmp_path / "state"
    with pytest.raises(Killed):
        train(Numbers(x, shaken=True), y, settings=settings, checkpoint=path, callbacks=[Kill()])
    again, resumed = train(Numbers(x, shaken=True), y, settings=settings, resume_from=path)
    assert again.weight.equal(whole.weight)
    assert [record.loss for record in resumed.history] == [record.loss for record in result.history]
    with pytest.raises(CheckpointError, match="data"):
        train(Numbers(x + 1, shaken=True), y, settings=settings, resume_from=path)


def test_an_error_of_the_source_comes_through():
    class Broken(Numbers):
        def load(self, rows: Tensor, epoch: int | None) -> Tensor:
            if epoch == 1:
                raise InvalidArgumentError("row 7 is broken")
            return super().load(rows, epoch)

    x, y = problem()
    with pytest.raises(InvalidArgumentError, match="row 7"):
        train(Broken(x), y)


def test_targets_have_to_fit():
    x, y = problem()
    with pytest.raises(InvalidArgumentError, match="target"):
        fit_source(Linear(), LazyRows(Numbers(x)), y[:3], loss="squared_error")


def test_each_part_has_its_rate():
    model = nn.Sequential(nn.Linear(3, 4), nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 1)))
    from hardwood.train._optimizers import parameter_groups

    settings = TrainingSettings(learning_rate=0.5, part_rates=(("1", 0.25), ("1.0", 0.125)))
    rates = {id(parameter): group["lr"] for group in parameter_groups(model, settings) for parameter in group["params"]}
    found = {name: rates[id(parameter)] for name, parameter in model.named_parameters() if name.endswith("weight")}
    assert found == {"0.weight": 0.5, "1.0.weight": 0.125, "1.1.weight": 0.25}
    with pytest.raises(InvalidArgumentError, match="part_rates"):
        parameter_groups(model, TrainingSettings(part_rates=(("2", 0.1),)))
    with pytest.raises(InvalidArgumentError, match="part_rates"):
        TrainingSettings(part_rates=(("1", -0.1),))
