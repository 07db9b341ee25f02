"""Settings refuse what cannot work."""

from __future__ import annotations

import pytest

from hardwood.errors import InvalidArgumentError
from hardwood.train import TrainingSettings
from helpers.processes import run_python


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_epochs": 0}, {"batch_size": 0},
        {"learning_rate": -0.1}, {"thresholds_rate": float("nan")}, {"betas": (0.9, 1.0)}, {"weight_decay": -1.0},
        {"max_gradient_norm": 0.0}, {"warmup_epochs": -1.0}, {"plateau_factor": 1.0}, {"ema_decay": 0.0},
        {"tree_dropout": 1.0}, {"patience": 0}, {"evaluate_every": 0}, {"max_seconds": 0.0}, {"random_state": -1},
        {"checkpoint_seconds": float("inf")}, {"averaged_checkpoints": 0}, {"plateau_patience": 0},
    ],
)  # fmt: skip
def test_refused(wrong):
    (name,) = wrong
    with pytest.raises(InvalidArgumentError, match=f"^{name}="):
        TrainingSettings(**wrong)


def test_unknown_names():
    """In a process of its own: here the annotations would refuse them first."""
    run_python("""
        from hardwood.errors import InvalidArgumentError
        from hardwood.train import TrainingSettings
        for name, value in (("optimizer", "sgd"), ("schedule", "step"), ("averaging", "swa")):
            try:
                TrainingSettings(**{name: value})
            except InvalidArgumentError as error:
                assert f"{name}={value!r}: is not known; choose one of" in str(error)
            else:
                raise AssertionError(name)
    """)


def test_frozen_with_defaults():
    assert hash(TrainingSettings()) == hash(TrainingSettings())
