"""Rows, target and weights as the loop reads them, checked once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn

from hardwood._typing import Float, Shaped
from hardwood.errors import reject
from hardwood.train._losses import Loss
from hardwood.train._weights import ClassWeight, check_weight, class_factors, weighted_mean

if TYPE_CHECKING:
    from hardwood.train._source import LazyRows
else:
    LazyRows = Any

_EVALUATION_ROWS = 8192  # rows at once; bounds the memory that an evaluation takes


Take = Tensor | slice | None


def pick(tensor: Tensor, take: Take) -> Tensor:
    """Return some rows of a tensor, by index or by slice; None means all."""
    if take is None:
        return tensor
    # Several times faster than an index in brackets.
    return tensor[take] if isinstance(take, slice) else tensor.index_select(0, take)


class Table(NamedTuple):
    """One set of rows: a table in memory, rows that are loaded when a batch takes them, or what was loaded."""

    rows: Any  # Float[Tensor, "rows features"], LazyRows, or what a RowSource loaded
    target: Shaped[Tensor, "rows ..."]
    weight: Float[Tensor, " rows"] | None

    def take(self, take: Take) -> Table:
        """Return some of the rows; None means all."""
        weight = None if self.weight is None else pick(self.weight, take)
        rows = pick(self.rows, take) if isinstance(self.rows, Tensor) else self.rows.take(take)
        return Table(rows, pick(self.target, take), weight)

    def to(self, device: torch.device) -> Table:
        """Return the table on a device, itself if it is there."""
        weight = None if self.weight is None else self.weight.to(device)
        return Table(self.rows.to(device), self.target.to(device), weight)

    def loss_of(self, prediction: Tensor, loss: Loss, tree_rows: Tensor | None = None) -> Tensor:
        """Return the mean loss of the rows, one number or one for each tree."""
        values = loss(prediction, self.target, self.weight)
        if values.ndim < prediction.ndim - 1:
            if tree_rows is not None:
                reject("loss", "one number for all rows", "cannot leave out rows by tree", "return one for each row")
            return values
        weight = self.weight
        if tree_rows is not None:
            shares = tree_rows.to(values.dtype)
            weight = shares if weight is None else shares * weight[:, None]
        return weighted_mean(values, weight)


class Terms(NamedTuple):
    """What holds for all of a training: what it is judged by, and the shape of the model's answers."""

    validation: Table | None
    base: Tensor | None
    n_trees: int | None  # restarts: how many trees answer side by side


@dataclass(frozen=True)
class Intake:
    """Makes tables of what a user passes, checked against the loss and the model's answers."""

    loss: Loss
    n_outputs: int
    n_trees: int | None
    dtype: torch.dtype
    factors: Tensor | None  # of each class
    base: Tensor | None

    @classmethod
    def learn(
        cls,
        model: nn.Module,
        loss: Loss,
        rows: Tensor,
        target: Tensor,
        weight: Tensor | None,
        class_weight: ClassWeight | None,
        base: Tensor | None,
    ) -> Intake:
        """Try the model on two rows."""
        with torch.no_grad(), evaluating(model):
            answer = model(rows[:2].to(device_of(model, rows)))
        if answer.ndim not in (2, 3):
            reject("model", tuple(answer.shape), "is no shape of predictions", "return (rows, outputs)")
        n_outputs, n_trees = answer.shape[-1], answer.shape[1] if answer.ndim == 3 else None
        if base is not None and tuple(base.shape) != (n_outputs,):
            problem = f"but the model has {n_outputs} outputs"
            reject("base.shape", tuple(base.shape), problem, "pass one number for each")
        factors = None
        if class_weight is not None:
            codes = _codes(loss, target, n_outputs)
            factors = class_factors(codes, class_weight, weight, max(2, n_outputs))
        return cls(loss, n_outputs, n_trees, answer.dtype, factors, base)

    def table(
        self, rows: Tensor | LazyRows, target: Tensor, weight: Tensor | None, name: str, *, part: bool = False
    ) -> Table:
        """Return the rows with what the loss makes of the target; the weights of a part may all be 0."""
        prepared = self.loss.prepare(target, self.n_outputs, self.dtype)
        if weight is not None:
            check_weight(name, weight, len(rows), part=part)
        if self.factors is not None:
            by_class = self.factors.to(target.device)[_codes(self.loss, target, self.n_outputs).long()]
            weight = by_class if weight is None else weight.to(by_class.dtype) * by_class
            check_weight("class_weight", weight, len(rows), part=part)
        return Table(rows, prepared, None if weight is None else weight.to(self.dtype))

    def terms(self, validation: tuple[Tensor, ...] | None, n_features: int) -> Terms:
        """Return the terms of a training that is judged by these validation rows."""
        if validation is None:
            return Terms(None, self.base, self.n_trees)
        rows, target = validation[:2]
        check_rows("validation rows", rows, target)
        if rows.shape[1] != n_features:
            problem = f"but the training rows have {n_features} columns"
            reject("validation rows.shape[1]", rows.shape[1], problem, "pass the same columns")
        weight = validation[2] if len(validation) == 3 else None
        return Terms(self.table(rows, target, weight, "validation weight"), self.base, self.n_trees)


def device_of(model: nn.Module, rows: Tensor) -> torch.device:
    """Return the device that a model is on, that of the rows if it has no parameters."""
    return next(iter(model.parameters()), rows).device


def check_devices(
    device: torch.device, validation: tuple[Tensor, ...] | None, **given: Tensor | None
) -> None:  # fmt: skip
    """Refuse tensors that are elsewhere than the model."""
    named = list(given.items())
    if validation is not None:
        if len(validation) not in (2, 3):
            reject("validation", f"{len(validation)} tensors", "is not (rows, target)", "or (rows, target, weight)")
        named += list(zip(("validation rows", "validation target", "validation weight"), validation, strict=False))
    for name, tensor in named:
        if tensor is not None and tensor.device != device:
            reject(f"{name}.device", str(tensor.device), f"but the model is on {device}", f"move it with .to({device})")


def check_rows(argument: str, rows: Tensor, target: Tensor) -> None:
    """Refuse rows that are no table, and a target that does not fit them."""
    if rows.ndim != 2 or len(rows) == 0:
        reject(f"{argument}.shape", tuple(rows.shape), "is not (rows, features) with at least one row", "reshape it")
    if target.ndim not in (1, 2) or len(target) != len(rows):
        reject("target.shape", tuple(target.shape), f"does not fit {len(rows)} rows", "pass (rows,) or (rows, outputs)")


def _codes(loss: Loss, target: Tensor, n_outputs: int) -> Tensor:
    is_codes = target.ndim == 1 and loss.link(n_outputs) in ("sigmoid", "softmax")
    if not is_codes or bool((target != target.round()).any()):
        reject("class_weight", "given", "needs a target of class codes", "pass sample_weight instead")
    return target


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


def evaluate(
    model: nn.Module, loss: Loss, tables: Iterable[Table], base: Tensor | None
) -> Float[Tensor, " losses"]:  # fmt: skip
    """Return the model's mean loss over all rows, in float64 on the CPU: one number, or one for each tree."""
    total, weights = torch.zeros(1, dtype=torch.float64), 0.0
    with torch.no_grad(), evaluating(model):
        for table in tables:
            for start in range(0, len(table.rows), _EVALUATION_ROWS):
                part = table.take(slice(start, start + _EVALUATION_ROWS))
                prediction = model(part.rows)
                value = part.loss_of(prediction if base is None else prediction + base, loss)
                weight = len(prediction) if part.weight is None else float(part.weight.double().sum())
                if weight > 0:
                    total = total + value.double().cpu().reshape(-1) * weight
                    weights += weight
    return total / weights
