"""`fit`: the one training loop."""

from __future__ import annotations

import os
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from hardwood._typing import Bool, Float, Shaped
from hardwood.errors import reject
from hardwood.train import _checkpoint, _resume
from hardwood.train._batches import Batches, make_generators
from hardwood.train._callbacks import Callback
from hardwood.train._data import Intake, Terms, check_devices, check_rows, device_of
from hardwood.train._errors import TrainingDivergedError
from hardwood.train._feed import TableFeed
from hardwood.train._losses import Loss, LossFunction, make_loss
from hardwood.train._progress import ProgressBar
from hardwood.train._result import StopReason, TrainingResult
from hardwood.train._settings import TrainingSettings
from hardwood.train._step import check_restarts, trees_of
from hardwood.train._training import Training
from hardwood.train._weights import ClassWeight


def fit(
    model: nn.Module,
    rows: Float[Tensor, "rows features"],
    target: Shaped[Tensor, "rows ..."],
    *,
    loss: str | Loss | LossFunction,
    settings: TrainingSettings | None = None,
    validation: tuple[Tensor, ...] | None = None,
    sample_weight: Float[Tensor, " rows"] | None = None,
    class_weight: ClassWeight | None = None,
    base: Float[Tensor, " outputs"] | None = None,
    tree_rows: Bool[Tensor, "rows trees"] | None = None,
    callbacks: Sequence[Callback] = (),
    verbose: int = 0,
    checkpoint: str | os.PathLike[str] | None = None,
    resume_from: str | os.PathLike[str] | None = None,
) -> TrainingResult:
    """Train a model in place, and leave its best parameters in it.

    A model that answers `(rows, trees, outputs)`, as `HardTrees(combine="none")` does, is a set of restarts: every
    tree has its own loss, patience and best parameters, as if it had been trained alone, and
    `TrainingResult.best_tree` names the one to use.

    With validation rows the best parameters are those with the lowest validation loss, the first ones included;
    without, they are the last. Ctrl-C ends training with the best so far, and a warning. A loss that is not finite
    raises `TrainingDivergedError`, the best so far being restored; a single restart that fails is only warned of.

    Nothing of the process is touched: shuffles and dropout come from generators of their own.

    Args:
        model: called on a batch of rows, in train mode as its modules have it.
        rows: the table, on the model's device; NaN is for the model to understand.
        target: what the loss needs: class codes, numbers, one column for each output.
        loss: a name for `make_loss`, a `Loss`, or a function `(prediction, target, weight)`.
        settings: the defaults of `TrainingSettings` if left out.
        validation: `(rows, target)` or `(rows, target, weight)`.
        sample_weight: how often each row counts. A batch's loss is the weighted mean.
        class_weight: "balanced", or a number for each class code; multiplies the weights, of validation rows too.
        base: a constant that is added to predictions, such as `loss.initial(target)`.
        tree_rows: which trees learn from which rows; see `draw_tree_rows`. A model that combines its trees is given
            the batch's part as `tree_mask`.
        callbacks: called after each evaluation.
        verbose: 1 draws a progress bar if stderr is a terminal.
        checkpoint: a file to which the state of training is written from time to time, and at the end.
        resume_from: such a file; training goes on from there, on the CPU to the same bits as without the break.
    """
    settings = settings or TrainingSettings()
    loss = make_loss(loss)
    device = device_of(model, rows)
    check_devices(device, validation, rows=rows, target=target, sample_weight=sample_weight, base=base)
    check_rows("rows", rows, target)
    intake = Intake.learn(model, loss, rows, target, sample_weight, class_weight, base)
    table = intake.table(rows, target, sample_weight, "sample_weight")
    terms = intake.terms(validation, rows.shape[1])
    check_terms(model, settings, terms)
    if tree_rows is not None:
        _check_tree_rows(tree_rows, rows, terms.n_trees or trees_of(model))
    if checkpoint is not None:
        _checkpoint.check_path("checkpoint", checkpoint)
    shuffles, dropout = make_generators(settings.random_state)
    batches = Batches(len(rows), settings.batch_size, shuffles, replace=settings.replace, device=device)
    feed = TableFeed(table, batches, tree_rows)
    return run(Training(model, loss, settings, feed, terms, dropout, checkpoint), callbacks, verbose, resume_from)


def run(
    training: Training, callbacks: Sequence[Callback], verbose: int, resume_from: str | os.PathLike[str] | None
) -> TrainingResult:
    """Take steps and evaluate until training is over: the loop itself, whatever feeds it."""
    if resume_from is not None:
        _resume.resume(resume_from, training)
    listeners: list[Callback] = [*callbacks, ProgressBar()] if verbose else list(callbacks)
    stop_reason: StopReason | None = None
    begun: list[Callback] = []
    try:
        with torch.enable_grad():
            if resume_from is None:
                training.judge()
            for listener in listeners:
                begun.append(listener)
                listener.on_fit_begin(training.state)
            stop_reason = training.reason_to_stop()
            while stop_reason is None:
                training.step()
                if training.evaluation_is_due:
                    training.evaluate()
                    stop_reason = training.reason_to_stop()
                    asked = [listener.on_epoch_end(training.state) for listener in listeners]
                    if any(asked):
                        stop_reason = stop_reason or "callback"
                    training.write_checkpoint(last=stop_reason is not None)
        training.finish(stop_reason)
    except KeyboardInterrupt:
        stop_reason = "interrupted"
        training.judge_interrupted()
        training.finish(stop_reason)
    except TrainingDivergedError:
        training.best.restore()
        raise
    finally:
        training.feed.close()
        for listener in begun:
            listener.on_fit_end(training.state)
    return training.result(stop_reason)


def check_terms(model: nn.Module, settings: TrainingSettings, terms: Terms) -> None:
    """Refuse what does not go together."""
    if terms.validation is None:
        if settings.patience is not None:
            reject("patience", settings.patience, "needs validation rows", "pass validation=(rows, target)")
        if settings.schedule == "plateau":
            reject("schedule", "plateau", "needs validation rows", "pass validation=(rows, target)")
    check_restarts(model, settings, terms.n_trees)


def _check_tree_rows(tree_rows: Tensor, rows: Tensor, n_trees: int) -> None:
    if tuple(tree_rows.shape) != (len(rows), n_trees):
        problem = "does not fit rows and trees"
        reject("tree_rows.shape", tuple(tree_rows.shape), problem, f"pass shape {(len(rows), n_trees)}")
    if tree_rows.device != rows.device:
        reject("tree_rows.device", str(tree_rows.device), "is not that of the rows", "move it there")
