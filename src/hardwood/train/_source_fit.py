"""`fit_source`: training on rows that are loaded batch by batch."""

from __future__ import annotations

import os
from collections.abc import Sequence

from torch import Tensor, nn

from hardwood._typing import Float, Shaped
from hardwood.errors import reject
from hardwood.train import _checkpoint
from hardwood.train._batches import Batches, make_generators
from hardwood.train._callbacks import Callback
from hardwood.train._data import Intake, Terms, evaluating
from hardwood.train._loop import check_terms, run
from hardwood.train._losses import Loss, LossFunction, make_loss
from hardwood.train._result import TrainingResult
from hardwood.train._settings import TrainingSettings
from hardwood.train._source import LazyRows, SourceFeed
from hardwood.train._training import Training


def fit_source(
    model: nn.Module,
    rows: LazyRows,
    target: Shaped[Tensor, "rows ..."],
    *,
    loss: str | Loss | LossFunction,
    settings: TrainingSettings | None = None,
    validation: tuple[LazyRows, Tensor, Tensor | None] | None = None,
    sample_weight: Float[Tensor, " rows"] | None = None,
    callbacks: Sequence[Callback] = (),
    verbose: int = 0,
    checkpoint: str | os.PathLike[str] | None = None,
    resume_from: str | os.PathLike[str] | None = None,
) -> TrainingResult:
    """Train a model in place, as `fit` does, on rows of a `RowSource`, which a thread loads one batch ahead.

    The model is called on what the source loads, moved to the model's device; and, when it is judged, on `LazyRows`,
    to load in parts of whatever size it likes. Targets and weights are on the model's device.

    Args:
        model: gives `(rows, outputs)`.
        rows: the rows to train on.
        target, loss, settings, sample_weight, callbacks, verbose, checkpoint, resume_from: as for `fit`.
        validation: `(rows, target, weight)`; the weight may be None.
    """
    settings = settings or TrainingSettings()
    loss = make_loss(loss)
    if len(target) != len(rows) or len(rows) == 0:
        reject("target.shape", tuple(target.shape), f"does not fit {len(rows)} rows", "pass one target for each row")
    device = next(iter(model.parameters()), target).device
    with evaluating(model):
        answer = model(rows.take(slice(2))).detach()
    if answer.ndim != 2:
        reject("model", tuple(answer.shape), "is no shape of predictions", "return (rows, outputs)")
    intake = Intake(loss, answer.shape[1], None, answer.dtype, None, None)
    table = intake.table(rows, target, sample_weight, "sample_weight")
    terms = Terms(None, None, None)
    if validation is not None:
        terms = Terms(intake.table(*validation, "validation weight"), None, None)
    check_terms(model, settings, terms)
    if checkpoint is not None:
        _checkpoint.check_path("checkpoint", checkpoint)
    shuffles, dropout = make_generators(settings.random_state)
    batches = Batches(len(rows), settings.batch_size, shuffles, replace=settings.replace)
    training = Training(model, loss, settings, SourceFeed(table, batches, device), terms, dropout, checkpoint)
    return run(training, callbacks, verbose, resume_from)
