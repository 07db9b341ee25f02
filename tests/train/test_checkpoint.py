"""Checkpoints are whole, refuse what is not theirs, and bring a killed run to the same bits."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import torch

from hardwood.errors import InvalidArgumentError
from hardwood.nn import HardTrees
from hardwood.train import Callback, CheckpointError, TrainingSettings, fit
from hardwood.train._checkpoint import load_checkpoint, save_checkpoint
from helpers.training import restarts, same_bits, seeded, train_ensemble, two_moons, weights_of

EVERYTHING = TrainingSettings(
    max_epochs=9, batch_size=30, learning_rate=0.05, averaging="ema", schedule="plateau", plateau_patience=1,
    tree_dropout=0.2, patience=6, checkpoint_seconds=0.0, evaluate_every=3,
)  # fmt: skip


class Stop(Callback):
    """Ends a run as if it had been cut off: the last checkpoint is an earlier one."""

    def __init__(self, after: int) -> None:
        self.after = after

    def on_epoch_end(self, state):
        if len(state.history) == self.after:
            raise RuntimeError("cut off")


def ensemble() -> HardTrees:
    return HardTrees(2, 1, n_trees=6, depth=3, selection="gumbel", generator=seeded(3))


def train(model, settings=EVERYTHING, **given):
    rows, target = two_moons(140)
    given = {"loss": "cross_entropy", "validation": (rows[100:], target[100:]), **given}
    return fit(model, rows[:100], target[:100], settings=settings, **given)


@pytest.mark.usefixtures("random_state_stays")
@pytest.mark.parametrize("after", [2, 3, 7])
def test_a_run_that_was_cut_off_ends_in_the_same_bits(tmp_path, after):
    whole, broken = ensemble(), ensemble()
    expected = train(whole)
    with pytest.raises(RuntimeError, match="cut off"):
        train(broken, callbacks=[Stop(after)], checkpoint=tmp_path / "c")
    resumed = ensemble()
    result = train(resumed, resume_from=tmp_path / "c", checkpoint=tmp_path / "c")
    assert same_bits(weights_of(whole), weights_of(resumed))
    assert (result.best_loss, result.best_epoch, result.steps) == (
        expected.best_loss, expected.best_epoch, expected.steps,
    )  # fmt: skip
    steps = [(record.step, record.loss, record.validation_loss) for record in result.history]
    assert steps == [(record.step, record.loss, record.validation_loss) for record in expected.history]
    assert os.listdir(tmp_path) == ["c"]


def test_restarts_and_averaged_checkpoints_resume_too(tmp_path):
    settings = TrainingSettings(
        max_epochs=8, batch_size=30, learning_rate=0.1, averaging="checkpoints", schedule="plateau", patience=2,
        plateau_patience=1, checkpoint_seconds=0.0,
    )  # fmt: skip
    whole, broken, resumed = restarts(3), restarts(3), restarts(3)
    expected = train(whole, settings)
    with pytest.raises(RuntimeError, match="cut off"):
        train(broken, settings, callbacks=[Stop(4)], checkpoint=tmp_path / "c")
    result = train(resumed, settings, resume_from=tmp_path / "c")
    assert same_bits(weights_of(whole), weights_of(resumed))
    assert (result.tree_losses, result.tree_epochs) == (expected.tree_losses, expected.tree_epochs)


KILLED = """
    import os, signal, sys
    from hardwood.train import Callback
    from helpers.training import train_ensemble

    class Kill(Callback):
        def on_epoch_end(self, state):
            if state.epoch == 5:
                os.kill(os.getpid(), signal.SIGKILL)

    train_ensemble(sys.argv[1], callbacks=[Kill()])
"""


def test_sigkill(tmp_path):
    tests, path = Path(__file__).parents[1], str(tmp_path / "c")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tests.parent / "src"), str(tests)])}
    command = [sys.executable, "-c", textwrap.dedent(KILLED), path]
    killed = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=200, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    resumed = train_ensemble(path, resume_from=path)
    assert same_bits(resumed, train_ensemble(None))


def test_a_finished_run_can_go_on_for_longer(tmp_path):
    short, long, resumed = (TrainingSettings(max_epochs=n, batch_size=30) for n in (3, 6, 6))
    train(restarts(2), short, checkpoint=tmp_path / "c")
    whole, further = restarts(2), restarts(2)
    train(whole, long)
    result = train(further, resumed, resume_from=tmp_path / "c")
    assert result.epochs == 6 and same_bits(weights_of(whole), weights_of(further))
    again = train(restarts(2), short, resume_from=tmp_path / "c")
    assert again.epochs == 3 and again.stop_reason == "max_epochs"


def test_a_checkpoint_of_another_training_is_refused(tmp_path):
    path = tmp_path / "c"
    settings = TrainingSettings(max_epochs=2, batch_size=30)
    train(restarts(2), settings, checkpoint=path)

    def refused(model, message: str, settings=settings, **given) -> None:
        before = weights_of(model)
        with pytest.raises(CheckpointError, match=message):
            train(model, settings, resume_from=path, **given)
        assert same_bits(weights_of(model), before)

    refused(restarts(2), "with batch_size=30, and now batch_size=31", TrainingSettings(max_epochs=2, batch_size=31))
    refused(restarts(2), "loss='CrossEntropy", loss="focal")
    refused(restarts(2), "with data=", sample_weight=torch.ones(100))
    refused(restarts(3), "n_trees=2, and now n_trees=3")
    refused(restarts(2, depth=4), r"its 'model.leaf_values' is float32 \(2, 8, 1\), and the model's is float32 \(2, 16")
    with pytest.raises(FileNotFoundError):
        train(restarts(2), settings, resume_from=tmp_path / "none")


def test_altered_files_are_refused(tmp_path):
    path, altered = tmp_path / "c", tmp_path / "altered"
    save_checkpoint(path, {"a": torch.arange(50.0), "b": torch.tensor(3)}, {"step": 7})
    tensors, document = load_checkpoint(path)
    assert document == {"format": 1, "step": 7} and torch.equal(tensors["a"], torch.arange(50.0))
    content = path.read_bytes()
    for place in range(0, len(content), 7):
        for changed in (content[:place], content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]):
            altered.write_bytes(changed)
            with pytest.raises(CheckpointError, match=r"altered' cannot be resumed: .*; start anew"):
                load_checkpoint(altered)
    altered.write_bytes(content.replace(b'\\"format\\": 1', b'\\"format\\": 2'))
    with pytest.raises(CheckpointError, match="it has format 2, and this version reads 1"):
        load_checkpoint(altered)
    altered.write_text(json.dumps({"no": "checkpoint"}))
    with pytest.raises(CheckpointError, match="no checkpoint of hardwood"):
        load_checkpoint(altered)


def test_writing_leaves_the_old_file_or_the_new(tmp_path, monkeypatch):
    path = tmp_path / "c"
    save_checkpoint(path, {"a": torch.zeros(3)}, {"step": 1})

    def fail(*_args):
        raise OSError("the disk is full")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="the disk is full"):
        save_checkpoint(path, {"a": torch.ones(3)}, {"step": 2})
    assert load_checkpoint(path)[1]["step"] == 1 and os.listdir(tmp_path) == ["c"]
    with pytest.raises(InvalidArgumentError, match="is a folder"):
        train(ensemble(), checkpoint=tmp_path)
