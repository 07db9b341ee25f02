"""What can go wrong in training, beside a wrong argument."""

from __future__ import annotations

from hardwood.errors import HardwoodError


class TrainingDivergedError(HardwoodError, ArithmeticError):
    """The loss became infinite or NaN; the model has its best parameters so far again."""


class CheckpointError(HardwoodError, ValueError):
    """A checkpoint is truncated, altered, of another kind, or of another training."""


class TrainingWarning(UserWarning):
    """Training ended early, or part of it failed, with a usable model."""
