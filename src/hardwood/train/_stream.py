"""`fit_stream`: training on more rows than memory holds."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any

from torch import Tensor, nn

from hardwood._typing import Float
from hardwood.errors import reject
from hardwood.train import _checkpoint
from hardwood.train._batches import make_generators
from hardwood.train._callbacks import Callback
from hardwood.train._data import check_devices
from hardwood.train._loop import check_terms, run
from hardwood.train._losses import Loss, LossFunction, make_loss
from hardwood.train._result import TrainingResult
from hardwood.train._schedules import needs_steps
from hardwood.train._settings import TrainingSettings
from hardwood.train._stream_feed import StreamFeed
from hardwood.train._stream_tables import StreamTables
from hardwood.train._training import Training
from hardwood.train._weights import ClassWeight, check_explicit


def fit_stream(
    model: nn.Module,
    source: Iterable[Any],
    *,
    loss: str | Loss | LossFunction,
    settings: TrainingSettings | None = None,
    n_rows: int | None = None,
    shuffle_rows: int = 65536,
    validation: tuple[Tensor, ...] | None = None,
    class_weight: ClassWeight | None = None,
    base: Float[Tensor, " outputs"] | None = None,
    callbacks: Sequence[Callback] = (),
    verbose: int = 0,
    checkpoint: str | os.PathLike[str] | None = None,
    resume_from: str | os.PathLike[str] | None = None,
) -> TrainingResult:
    """Train a model in place, as `fit` does, on rows that come in chunks.

    In memory are at any time a buffer of `shuffle_rows` rows, for a moment twice, and two chunks: a thread reads one
    chunk ahead. Batches are cut from the shuffled buffer, whatever the size of the chunks. When the buffer holds all
    rows, this is the same training as `fit`, to the same bits on the CPU; when it is smaller, rows that stand far
    apart in the source meet in no batch, so a source that is sorted by its target should be mixed beforehand.

    What `fit` does with its `tree_rows`, its class weight "balanced" and the setting `replace` needs all rows at once,
    and is not here.

    Args:
        model: called on a batch of rows, in train mode as its modules have it.
        source: gives `(rows, target)` or `(rows, target, weight)`, chunks of any size, and the same ones in every
            iteration: a list, a `torch.utils.data.DataLoader`, or an object whose `__iter__` begins anew. An iterator,
            which can be read only once, will not do. Batches are moved to the model's device.
        loss: a name for `make_loss`, a `Loss`, or a function `(prediction, target, weight)`.
        settings: the defaults of `TrainingSettings` if left out.
        n_rows: the number of rows, if it is known. Warm-up and the schedule "cosine" have to know, and count the rows
            in a pass of its own if it is left out.
        shuffle_rows: rows to draw batches from; 0 keeps the source's order.
        validation: `(rows, target)` or `(rows, target, weight)`, on the model's device. They should not be among the
            source's rows.
        class_weight: a number for each class code; multiplies the weights, of validation rows too.
        base: a constant that is added to predictions.
        callbacks: called after each evaluation.
        verbose: 1 draws a progress bar if stderr is a terminal.
        checkpoint: a file to which the state of training is written from time to time, and at the end.
        resume_from: such a file. The source is read again up to the same place, and training goes on from there, on
            the CPU to the same bits as without the break if the source gives the same rows.
    """
    settings = settings or TrainingSettings()
    loss = make_loss(loss)
    check_explicit(class_weight)
    if settings.replace:
        reject("replace", settings.replace, "needs all rows in memory", "set it to False, or call fit")
    shuffles, dropout = make_generators(settings.random_state)
    tables = StreamTables(source, model, loss, class_weight, base)
    check_devices(tables.device, validation, base=base)
    terms = tables.intake.terms(validation, tables.n_features)
    check_terms(model, settings, terms)
    if checkpoint is not None:
        _checkpoint.check_path("checkpoint", checkpoint)
    if n_rows is None and needs_steps(settings):
        n_rows = tables.count_rows()
    feed = StreamFeed(tables, settings.batch_size, shuffles, shuffle_rows=shuffle_rows, n_rows=n_rows)
    return run(Training(model, loss, settings, feed, terms, dropout, checkpoint), callbacks, verbose, resume_from)
