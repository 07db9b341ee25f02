"""Rows, target and weights as the loop reads them, checked once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor, nn

from hardwood._typing import Float, Shaped
from hardwood.errors import reject
from hardwood.train._losses import Loss
from hardwood.train._weights import ClassWeight, check_weight, class_factors, weighted_mean

_EVALUATION_ROWS = 8192  # rows at once; bounds the memory that an evaluation takes


Take = Tensor | slice | None


def pick(tensor: Tensor, take: Take) -> Tensor:
    """Return some rows of a tensor, by index or by slice; None means all."""
    if take is None:
        return tensor
    # Several times faster than an index in brackets.
    return tensor[take] if isinstance(take, slice) else tensor.index_select(0, take)


class Table(NamedTuple):
    """One set of rows."""

    rows: Float[Tensor, "rows features"]
    target: Shaped[Tensor, "rows ..."]
    weight: Float[Tensor, " rows"] | None

    def loss_of(self, prediction: Tensor, loss: Loss, take: Take, tree_rows: Tensor | None = None) -> Tensor:
        """Return the mean loss of some of the rows, one number or one for each tree."""
        target = pick(self.target, take)
        weight = None if self.weight is None else pick(self.weight, take)
        values = loss(prediction, target, weight)
        if values.ndim < prediction.ndim - 1:
            if tree_rows is not None:
                reject("loss", "one number for all rows", "cannot leave out rows by tree", "return one for each row")
            return values
        if tree_rows is not None:
            shares = tree_rows.to(values.dtype)
            weight = shares if weight is None else shares * weight[:, None]
        return weighted_mean(values, weight)


class Tables(NamedTuple):
    """What is trained on, what is validated on, and the shape of the model's answers."""

    training: Table
    validation: Table | None
    base: Tensor | None
    n_trees: int | None  # restarts: how many trees answer side by side


def prepare(
    model: nn.Module,
    loss: Loss,
    rows: Tensor,
    target: Tensor,
    validation: tuple[Tensor, ...] | None,
    sample_weight: Tensor | None,
    class_weight: ClassWeight | None,
    base: Tensor | None,
) -> Tables:
    """Check everything that `fit` is given, and try the model on two rows."""
    given = [("rows", rows), ("target", target), ("sample_weight", sample_weight), ("base", base)]
    if validation is not None:
        if len(validation) not in (2, 3):
            reject("validation", f"{len(validation)} tensors", "is not (rows, target)", "or (rows, target, weight)")
        given += list(zip(("validation rows", "validation target", "validation weight"), validation, strict=False))
    device = next(iter(model.parameters()), rows).device
    for name, tensor in given:
        if tensor is not None and tensor.device != device:
            reject(f"{name}.device", str(tensor.device), f"but the model is on {device}", f"move it with .to({device})")
    _check_rows("rows", rows, target)
    with torch.no_grad(), evaluating(model):
        answer = model(rows[:2])
    if answer.ndim not in (2, 3):
        reject("model", tuple(answer.shape), "is no shape of predictions", "return (rows, outputs)")
    n_outputs, n_trees = answer.shape[-1], answer.shape[1] if answer.ndim == 3 else None
    if base is not None and tuple(base.shape) != (n_outputs,):
        reject("base.shape", tuple(base.shape), f"but the model has {n_outputs} outputs", "pass one number for each")

    factors = None
    if class_weight is not None:
        codes = _codes(loss, target, n_outputs)
        factors = class_factors(codes, class_weight, sample_weight, max(2, n_outputs))
    dtype = answer.dtype
    training = _table(loss, rows, target, sample_weight, factors, n_outputs, dtype, "sample_weight")
    validated = None
    if validation is not None:
        _check_rows("validation rows", validation[0], validation[1])
        if validation[0].shape[1] != rows.shape[1]:
            problem = f"but the training rows have {rows.shape[1]} columns"
            reject("validation rows.shape[1]", validation[0].shape[1], problem, "pass the same columns")
        weight = validation[2] if len(validation) == 3 else None
        seen, answers = validation[:2]
        validated = _table(loss, seen, answers, weight, factors, n_outputs, dtype, "validation weight")
    return Tables(training, validated, base, n_trees)


def _check_rows(argument: str, rows: Tensor, target: Tensor) -> None:
    if rows.ndim != 2 or len(rows) == 0:
        reject(f"{argument}.shape", tuple(rows.shape), "is not (rows, features) with at least one row", "reshape it")
    if target.ndim not in (1, 2) or len(target) != len(rows):
        reject("target.shape", tuple(target.shape), f"does not fit {len(rows)} rows", "pass (rows,) or (rows, outputs)")


def _codes(loss: Loss, target: Tensor, n_outputs: int) -> Tensor:
    is_codes = target.ndim == 1 and loss.link(n_outputs) in ("sigmoid", "softmax")
    if not is_codes or bool((target != target.round()).any()):
        reject("class_weight", "given", "needs a target of class codes", "pass sample_weight instead")
    return target


def _table(
    loss: Loss,
    rows: Tensor,
    target: Tensor,
    weight: Tensor | None,
    factors: Tensor | None,
    n_outputs: int,
    dtype: torch.dtype,
    name: str,
) -> Table:
    prepared = loss.prepare(target, n_outputs, dtype)
    if weight is not None:
        check_weight(name, weight, len(rows))
    if factors is not None:
        by_class = factors[target.long()]
        weight = by_class if weight is None else weight.to(by_class.dtype) * by_class
        check_weight("class_weight", weight, len(rows))
    return Table(rows, prepared, None if weight is None else weight.to(dtype))


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Put the model into eval mode for as long as the block runs; each module then has its own mode again."""
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        yield
    finally:
        for module in training:
            module.training = True


def evaluate(model: nn.Module, loss: Loss, table: Table, base: Tensor | None) -> Float[Tensor, " losses"]:
    """Return the model's mean loss over a table, in float64 on the CPU: one number, or one for each tree."""
    total, weights = torch.zeros(1, dtype=torch.float64), 0.0
    with torch.no_grad(), evaluating(model):
        for start in range(0, len(table.rows), _EVALUATION_ROWS):
            take = slice(start, start + _EVALUATION_ROWS)
            prediction = model(table.rows[take])
            value = table.loss_of(prediction if base is None else prediction + base, loss, take)
            weight = len(prediction) if table.weight is None else float(table.weight[take].double().sum())
            if weight > 0:
                total = total + value.double().cpu().reshape(-1) * weight
                weights += weight
    return total / weights
