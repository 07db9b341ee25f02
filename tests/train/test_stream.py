"""Streams: the same training as in memory, in bounded memory, and to the same bits after a break."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from hardwood import data
from hardwood.errors import InvalidArgumentError
from hardwood.nn import HardTrees
from hardwood.train import (
    Callback,
    CheckpointError,
    TrainingDivergedError,
    TrainingSettings,
    TrainingWarning,
    fit,
    fit_stream,
    make_loss,
)
from hardwood.train._batches import Batches
from hardwood.train._stream_feed import StreamFeed
from hardwood.train._stream_tables import StreamTables
from helpers.training import Chunks, restarts, same_bits, seeded, train_streamed, two_moons, weights_of


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    yield
    assert not [thread.name for thread in threading.enumerate() if thread.name.startswith("hardwood-read-ahead")]


def feed_of(n_rows: int, chunk: int, batch_size: int, shuffle_rows: int, seed: int = 0, **given) -> StreamFeed:
    """Return a feed whose rows are the numbers from 0 to n_rows."""
    source = Chunks(
        torch.arange(n_rows, dtype=torch.float32)[:, None], torch.arange(n_rows, dtype=torch.float32), chunk
    )
    tables = StreamTables(source, nn.Linear(1, 1), make_loss("squared_error"), None, None)
    return StreamFeed(tables, batch_size, seeded(seed), shuffle_rows=shuffle_rows, **given)


def epoch_of(feed: StreamFeed) -> list[list[int]]:
    """Return the batches of one epoch."""
    batches = [feed.take().table.rows[:, 0].int().tolist()]
    while not feed.at_epoch_end:
        batches.append(feed.take().table.rows[:, 0].int().tolist())
    return batches


def flat(batches: list[list[int]]) -> list[int]:
    return [row for batch in batches for row in batch]


@given(
    st.integers(1, 90), st.integers(1, 40), st.integers(1, 30), st.sampled_from([0, 1, 7, 20, 89, 90, 500]),
    st.integers(0, 3),
)  # fmt: skip
def test_an_epoch_has_every_row_once_wherever_chunks_are_cut(n_rows, chunk, batch_size, shuffle_rows, seed):
    feed, other = (feed_of(n_rows, size, batch_size, shuffle_rows, seed) for size in (chunk, n_rows))
    assert feed.steps_per_epoch is None
    for epoch in (1, 2):
        batches = epoch_of(feed)
        assert sorted(flat(batches)) == list(range(n_rows))
        assert [len(batch) for batch in batches[:-1]] == [batch_size] * (len(batches) - 1)
        assert feed.epoch == epoch and feed.steps_per_epoch == len(batches)
        assert batches == epoch_of(other)
        if shuffle_rows == 0:
            assert flat(batches) == list(range(n_rows))


@given(st.integers(1, 60), st.integers(1, 60), st.integers(1, 30))
def test_a_buffer_of_all_rows_is_the_shuffle_in_memory(n_rows, chunk, batch_size):
    feed, batches = feed_of(n_rows, chunk, batch_size, n_rows), Batches(n_rows, batch_size, seeded())
    for _ in range(2 * batches.steps_per_epoch):
        take = batches.take()
        expected = list(range(n_rows)) if take is None else take.tolist()
        assert feed.take().table.rows[:, 0].int().tolist() == expected
        assert (feed.epoch, feed.at_epoch_end) == (batches.epoch, batches.at_epoch_end)


def test_a_small_buffer_mixes_and_epochs_differ():
    feed = feed_of(1000, 100, 10, 200)
    first, second = (np.array(flat(epoch_of(feed))) for _ in range(2))
    assert (first != second).mean() > 0.9
    lag = np.argsort(first) - np.arange(1000)  # how much later than in the source a row comes
    assert lag.min() >= -200 and lag.max() > 200  # some wait longer than the buffer is long
    assert np.abs(lag).mean() > 50


@pytest.mark.parametrize("steps", [0, 1, 4, 9, 10, 17])
@pytest.mark.parametrize("shuffle_rows", [0, 12, 100])
def test_a_stored_place_goes_on_the_same(steps, shuffle_rows):
    feed = feed_of(48, 7, 5, shuffle_rows)
    for _ in range(steps):
        feed.take()
    other = feed_of(48, 7, 5, shuffle_rows, seed=9)
    other.load_tensors({name: tensor.clone() for name, tensor in feed.tensors().items()})
    for _ in range(23):
        assert torch.equal(feed.take().table.rows, other.take().table.rows)
        assert (feed.epoch, feed.at_epoch_end, feed.steps_per_epoch) == (
            other.epoch, other.at_epoch_end, other.steps_per_epoch,
        )  # fmt: skip
    feed.close()
    other.close()


OPTIONS = {
    "plain": {},
    "cosine": {"schedule": "cosine", "warmup_epochs": 1.5},
    "plateau": {"schedule": "plateau", "plateau_patience": 1, "patience": 3},
    "averages": {"averaging": "ema", "max_gradient_norm": 0.1, "evaluate_every": 3},
    "one batch": {"batch_size": 400},
}


@pytest.mark.usefixtures("random_state_stays")
@pytest.mark.parametrize("model", ["restarts", "ensemble"])
@pytest.mark.parametrize("case", OPTIONS)
def test_a_stream_is_the_training_in_memory(model, case):
    rows, target = two_moons(260)
    weight = torch.linspace(0, 2, 200)
    options = {"max_epochs": 5, "batch_size": 30, "learning_rate": 0.05, **OPTIONS[case]}
    if model == "ensemble":
        options["tree_dropout"] = 0.3
    given = {
        "loss": "focal", "settings": TrainingSettings(**options), "validation": (rows[200:], target[200:]),
        "class_weight": [1.0, 2.0], "base": torch.tensor([0.1]),
    }  # fmt: skip

    def make():
        return restarts(3) if model == "restarts" else HardTrees(2, 1, n_trees=5, depth=3, generator=seeded(1))

    inside, outside = make(), make()
    expected = fit(inside, rows[:200], target[:200], sample_weight=weight, **given)
    result = fit_stream(outside, Chunks(rows[:200], target[:200], 33, weight), shuffle_rows=200, **given)
    assert same_bits(weights_of(inside), weights_of(outside))
    assert [(r.epoch, r.step, r.loss, r.validation_loss, r.rate_factor) for r in result.history] == [
        (r.epoch, r.step, r.loss, r.validation_loss, r.rate_factor) for r in expected.history
    ]
    assert (result.best_tree, result.tree_epochs, result.stop_reason) == (
        expected.best_tree, expected.tree_epochs, expected.stop_reason,
    )  # fmt: skip


def test_restarts_without_validation_rows_are_judged_by_a_pass_over_the_stream():
    rows, target = two_moons(120)
    settings = TrainingSettings(max_epochs=3, batch_size=25)
    inside, outside = restarts(3), restarts(3)
    expected = fit(inside, rows, target, loss="cross_entropy", settings=settings)
    result = fit_stream(outside, Chunks(rows, target, 50), loss="cross_entropy", settings=settings)
    assert same_bits(weights_of(inside), weights_of(outside)) and result.best_tree == expected.best_tree
    assert result.tree_losses == pytest.approx(expected.tree_losses)


def test_it_learns_through_a_small_buffer():
    rows, target = two_moons(500)
    seen: list[int | None] = []

    class Watch(Callback):
        def on_fit_begin(self, state):
            seen.append(state.steps_per_epoch)

        def on_epoch_end(self, state):
            seen.append(state.steps_per_epoch)

    model = restarts(6, depth=4)
    settings = TrainingSettings(max_epochs=25, batch_size=64, learning_rate=0.05)
    result = fit_stream(model, Chunks(rows[:400], target[:400], 90), loss="cross_entropy", settings=settings,
                        shuffle_rows=128, validation=(rows[400:], target[400:]), callbacks=[Watch()])  # fmt: skip
    assert ((model(rows[400:])[:, result.best_tree, 0] > 0) == (target[400:] > 0)).float().mean() > 0.9
    assert seen == [None] + [7] * 25 and result.steps == 175


def test_rows_are_counted_only_where_rates_need_it():
    rows, target = two_moons(100)
    for options, known, passes in (
        ({}, {}, 4), ({"schedule": "cosine"}, {}, 5), ({"schedule": "cosine"}, {"n_rows": 100}, 4),
        ({"warmup_epochs": 1.0}, {}, 5),
    ):  # fmt: skip
        source = Chunks(rows, target, 30)
        settings = TrainingSettings(max_epochs=3, batch_size=40, **options)
        fit_stream(HardTrees(2, 1, depth=2), source, loss="cross_entropy", settings=settings, **known)
        assert source.passes == passes  # one of them looks at the first chunk only


def test_few_chunks_are_in_memory():
    """Chunks that nobody uses any more are let go of; the stream is much longer than the buffer."""
    alive: list[weakref.ref[torch.Tensor]] = []
    most = [0]

    class Endless:
        def __iter__(self):
            for _ in range(25):
                rows = torch.randn(20, 2)
                alive.append(weakref.ref(rows))
                most[0] = max(most[0], sum(each() is not None for each in alive))
                yield rows, rows[:, 0]
                del rows

    for shuffle_rows in (0, 40):
        settings = TrainingSettings(max_epochs=2, batch_size=15)
        fit_stream(nn.Linear(2, 1), Endless(), loss="squared_error", settings=settings, shuffle_rows=shuffle_rows)
    # The one being made, the one read ahead, the one at hand, and at most two whose last rows make a batch.
    assert most[0] <= 5


def test_errors_of_the_source_come_through_and_the_reading_ends():
    class Failing:
        closed = 0

        def __init__(self, error: BaseException) -> None:
            self.error = error

        def __iter__(self):
            try:
                for _ in range(3):
                    yield torch.randn(10, 2), torch.zeros(10)
                raise self.error
            finally:
                self.closed += 1

    settings = TrainingSettings(max_epochs=2, batch_size=4)
    with pytest.raises(OSError, match="the disk is gone"):
        fit_stream(nn.Linear(2, 1), Failing(OSError("the disk is gone")), loss="huber", settings=settings)
    source = Failing(KeyboardInterrupt())
    with pytest.warns(TrainingWarning, match="interrupted in epoch 1"):
        result = fit_stream(nn.Linear(2, 1), source, loss="huber", settings=settings, shuffle_rows=0)
    assert result.stop_reason == "interrupted" and source.closed == 2


def test_ctrl_c_in_the_middle_of_an_epoch():
    class Impatient(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.value, self.calls = nn.Parameter(torch.zeros(1)), 0

        def forward(self, x):
            self.calls += self.training
            if self.training and self.calls == 4:
                raise KeyboardInterrupt
            return self.value.expand(len(x), 1)

    model = Impatient()
    with pytest.warns(TrainingWarning, match=r"interrupted in epoch 1 \(step 3\)"):
        result = fit_stream(model, Chunks(torch.zeros(100, 1), torch.ones(100), 9), loss="squared_error",
                            settings=TrainingSettings(batch_size=10))  # fmt: skip
    assert result.stop_reason == "interrupted" and float(model.value.detach()) > 0


@pytest.mark.parametrize(("at", "epoch"), [(5, 1), (40, 4)])
def test_a_loss_that_is_no_number_is_found_at_its_step(at, epoch):
    class Line(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.value, self.calls = nn.Parameter(torch.zeros(1)), 0

        def forward(self, x):
            self.calls += self.training
            return self.value.expand(len(x), 1) * (1.0 if self.calls < at else float("nan"))

    with pytest.raises(TrainingDivergedError, match=rf"became nan in epoch {epoch} \(step {at}\)"):
        fit_stream(Line(), Chunks(torch.zeros(100, 1), torch.ones(100), 30), loss="squared_error",
                   settings=TrainingSettings(batch_size=10, max_epochs=9), shuffle_rows=20)  # fmt: skip


class Stop(Callback):
    def __init__(self, after: int) -> None:
        self.after = after

    def on_epoch_end(self, state):
        if len(state.history) == self.after:
            raise RuntimeError("cut off")


@pytest.mark.parametrize("after", [2, 3, 5])
def test_a_run_that_was_cut_off_ends_in_the_same_bits(tmp_path, after):
    rows, target = two_moons(140)
    settings = TrainingSettings(
        max_epochs=5, batch_size=30, learning_rate=0.05, averaging="ema", schedule="cosine", tree_dropout=0.2,
        checkpoint_seconds=0.0, evaluate_every=3,
    )  # fmt: skip

    def train(**given):
        model = HardTrees(2, 1, n_trees=6, depth=3, selection="gumbel", generator=seeded(3))
        result = fit_stream(model, Chunks(rows[:100], target[:100], 17), loss="cross_entropy", settings=settings,
                            shuffle_rows=40, validation=(rows[100:], target[100:]), **given)  # fmt: skip
        return weights_of(model), [(r.step, r.loss, r.validation_loss) for r in result.history]

    whole = train()
    with pytest.raises(RuntimeError, match="cut off"):
        train(callbacks=[Stop(after)], checkpoint=tmp_path / "c")
    resumed = train(resume_from=tmp_path / "c")
    assert same_bits(whole[0], resumed[0]) and whole[1] == resumed[1]


KILLED = """
    import os, signal, sys
    from hardwood.train import Callback
    from helpers.training import train_streamed

    class Kill(Callback):
        def on_epoch_end(self, state):
            if len(state.history) == 4:
                os.kill(os.getpid(), signal.SIGKILL)

    train_streamed(sys.argv[1], callbacks=[Kill()])
"""


def test_sigkill(tmp_path):
    tests, path = Path(__file__).parents[1], str(tmp_path / "c")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tests.parent / "src"), str(tests)])}
    command = [sys.executable, "-c", textwrap.dedent(KILLED), path]
    killed = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=200, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    resumed = train_streamed(path, resume_from=path)
    assert same_bits(resumed, train_streamed(None))


def test_a_checkpoint_of_another_stream_is_refused(tmp_path):
    path = tmp_path / "c"
    rows, target = two_moons(100)
    settings = TrainingSettings(max_epochs=3, batch_size=30, checkpoint_seconds=0.0, evaluate_every=3)

    def train(rows, target, chunk=25, model=None, **given):
        given = {"shuffle_rows": 50, **given}
        return fit_stream(model or restarts(2), Chunks(rows, target, chunk), loss="cross_entropy", settings=settings,
                          **given)  # fmt: skip

    with pytest.raises(RuntimeError, match="cut off"):
        train(rows, target, callbacks=[Stop(2)], checkpoint=path)
    with pytest.raises(CheckpointError, match="with data="):
        train(rows + 1, target, resume_from=path)
    with pytest.raises(CheckpointError, match="with shuffle_rows=50, and now shuffle_rows=51"):
        train(rows, target, resume_from=path, shuffle_rows=51)
    model = restarts(2)
    before = weights_of(model)
    with pytest.raises(InvalidArgumentError, match=r"its end.*before the checkpoint's place, 90 rows in"):
        train(rows[:80], target[:80], model=model, resume_from=path)
    assert same_bits(weights_of(model), before)


def test_what_a_source_must_not_do():
    rows, target = two_moons(60)

    def refused(message: str, source, **given) -> None:
        given = {"loss": "cross_entropy", "settings": TrainingSettings(max_epochs=3, batch_size=20), **given}
        with pytest.raises(InvalidArgumentError, match=message):
            fit_stream(restarts(2), source, **given)

    chunk = (rows, target)
    refused("source='a generator': can be read only once", (chunk for _ in range(2)))
    refused("there are no rows to train on", [])
    refused(r"in chunk 1: chunk='a ndarray': is no tuple of tensors", [rows.numpy()])
    refused("in chunk 1: chunk='1 tensors'", [(rows,)])
    refused(r"in chunk 2: rows.shape=\(0, 2\)", [chunk, (rows[:0], target[:0])])
    refused(r"in chunk 2: target.shape=\(59,\)", [chunk, (rows, target[1:])])
    refused("in chunk 2: chunk='1 columns of float32.*chunk 1 has 2 columns", [chunk, (rows[:, :1], target)])
    refused("in chunk 2: .*columns of float64", [chunk, (rows.double(), target)])
    refused("in chunk 2: .*, with weights", [chunk, (rows, target, torch.ones(60))])
    refused("in chunk 2: .*weight=-1.0: weights must be finite", [(*chunk, torch.ones(60)), (*chunk, -torch.ones(60))])
    refused("in chunk 3: .*target=2: is neither", [chunk, chunk, (rows, target + 1)])
    refused("in chunk 2: .*target=nan", [(rows, target * 0.5), (rows, target * float("nan"))], loss="huber")
    refused("every weight is 0", [(*chunk, torch.zeros(60))])
    refused(r"'60 rows in epoch 1': does not fit the 50 rows", [chunk], n_rows=50)
    refused("n_rows=0: must be at least 1", [chunk], n_rows=0)
    refused("shuffle_rows=-1: must be at least 0", [chunk], shuffle_rows=-1)
    refused("class_weight='balanced': needs all rows in memory", [chunk], class_weight="balanced")
    refused("replace=True: needs all rows in memory", [chunk], settings=TrainingSettings(replace=True))
    refused("patience=3: needs validation rows", [chunk], settings=TrainingSettings(patience=3))

    class Shrinking:
        n = 4

        def __iter__(self):
            self.n -= 1
            return iter([chunk] * self.n)

    refused(r"'60 rows in epoch 2': does not fit the 120 rows", Shrinking())

    class Once:
        def __init__(self) -> None:
            self.left = iter([chunk])

        def __iter__(self):
            yield from self.left

    refused("source='no chunk': there are no rows", Once())


def test_weights_of_a_chunk_may_all_be_0():
    rows, target = two_moons(60)
    weight = (torch.arange(60) >= 20).float()
    ends = []
    for source in (Chunks(rows, target, 20, weight), Chunks(rows[20:], target[20:], 20)):
        model = restarts(1)
        fit_stream(model, source, loss="cross_entropy", settings=TrainingSettings(max_epochs=4, batch_size=60))
        ends.append(model(rows))
    torch.testing.assert_close(ends[0], ends[1], rtol=1e-4, atol=1e-5)


def test_a_data_loader_is_a_source():
    rows, target = two_moons(60)
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(rows, target), batch_size=16)
    inside, outside = restarts(1), restarts(1)
    settings = TrainingSettings(max_epochs=3, batch_size=25)
    fit(inside, rows, target, loss="cross_entropy", settings=settings)
    fit_stream(outside, loader, loss="cross_entropy", settings=settings)
    assert same_bits(weights_of(inside), weights_of(outside))


def test_from_files_to_trees(tmp_path):
    """Files, a sample of them, an encoder and validation rows from the sample, and a stream of all other rows."""
    rows, target = two_moons(900)
    for part in range(3):
        take = slice(300 * part, 300 * (part + 1))
        frame = pd.DataFrame(rows[take].numpy(), columns=["left", "right"])
        frame.assign(moon=np.where(target[take] == 1, "upper", "lower")).to_parquet(tmp_path / f"{part}.parquet")
    table = data.read_parquet(tmp_path, target="moon", chunk_rows=128)
    drawn = data.sample(table, 200, task="classification")
    encoder = data.TableEncoder(task="classification")
    encoder.fit_transform(drawn.X, drawn.y)

    def tensors(X, y):
        return torch.from_numpy(encoder.transform(X)), torch.from_numpy(np.searchsorted(drawn.classes, y))

    class Encoded:
        stream = table.without(drawn.rows)

        def __iter__(self):
            return (tensors(chunk.X, chunk.y) for chunk in self.stream)

    model = restarts(4, depth=4)
    options = TrainingSettings(max_epochs=30, batch_size=64, learning_rate=0.05, schedule="cosine")
    result = fit_stream(model, Encoded(), loss="cross_entropy", settings=options, shuffle_rows=300,
                        n_rows=Encoded.stream.n_rows, validation=tensors(drawn.X, drawn.y))  # fmt: skip
    assert result.steps == 30 * 11  # 700 rows
    forest = encoder.lower(model.to_forest([result.best_tree], link="sigmoid", classes=drawn.classes))
    assert (forest.predict(drawn.X) == drawn.y).mean() > 0.9
    assert drawn.class_totals.tolist() == [450, 450]
