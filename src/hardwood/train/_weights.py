"""Weights of rows, and the means and quantiles that honour them: weight 2 is the same as a row that stands twice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import torch
from torch import Tensor

from hardwood._typing import Float, Shaped
from hardwood.errors import reject

ClassWeight = Literal["balanced"] | Mapping[int, float] | Sequence[float]


def weighted_mean(values: Float[Tensor, "rows *more"], weight: Float[Tensor, "..."] | None) -> Float[Tensor, "*more"]:
    """Return the mean over rows. `weight` has one number for each row, or for each row and tree."""
    if weight is None:
        return values.mean(0)
    if weight.ndim < values.ndim:
        weight = weight.reshape(len(weight), *[1] * (values.ndim - 1))
    # A batch, or a tree's share of it, may have no weight at all: it then says nothing.
    return (values * weight).sum(0) / weight.sum(0).clamp(min=torch.finfo(values.dtype).tiny)


def weighted_quantile(
    values: Float[Tensor, "rows outputs"], weight: Float[Tensor, " rows"] | None, level: float
) -> Float[Tensor, " outputs"]:
    """Return for each column the smallest value with at least the share `level` of the weight at or below it."""
    ordered, order = values.sort(0)
    share = torch.ones_like(ordered) if weight is None else weight.to(values.dtype)[order]
    reached = share.double().cumsum(0)
    # Sums of equal numbers in another order differ in their last bits.
    wanted = level * reached[-1:] * (1 - 1e-12)
    place = (reached < wanted).sum(0).clamp(max=len(values) - 1)
    return ordered.gather(0, place[None])[0]


def class_factors(
    target: Shaped[Tensor, " rows"], class_weight: ClassWeight, weight: Float[Tensor, " rows"] | None, n_classes: int
) -> Float[Tensor, " classes"]:
    """Return the factor of each class: "balanced" gives every class the same total weight."""
    if isinstance(class_weight, str):
        if class_weight != "balanced":
            reject("class_weight", class_weight, "is not known", "pass 'balanced', or one number for each class")
        counted = torch.bincount(target.long(), None if weight is None else weight.double(), minlength=n_classes)
        present = counted > 0
        factors = counted.sum() / (present.sum() * counted.double())
        return torch.where(present, factors, 1.0)
    if isinstance(class_weight, Mapping):
        wrong = [label for label in class_weight if not 0 <= label < n_classes]
        if wrong:
            problem = f"{wrong[0]!r} is not one of the {n_classes} classes"
            reject("class_weight", class_weight, problem, "use class codes as keys")
        listed = [float(class_weight.get(code, 1.0)) for code in range(n_classes)]
    else:
        listed = [float(factor) for factor in class_weight]
    if len(listed) != n_classes:
        reject("class_weight", class_weight, f"has {len(listed)} numbers for {n_classes} classes", "pass one for each")
    if not all(0 <= factor < float("inf") for factor in listed):
        reject("class_weight", class_weight, "has a number that is negative or not finite", "use numbers from 0 up")
    return torch.tensor(listed, dtype=torch.float64, device=target.device)


def check_explicit(class_weight: ClassWeight | None) -> None:
    """Refuse class weights that depend on all rows, where these are not in memory."""
    if isinstance(class_weight, str):
        reject("class_weight", class_weight, "needs all rows in memory", "pass one number for each class")


def check_weight(argument: str, weight: Shaped[Tensor, "..."], n_rows: int, *, part: bool = False) -> None:
    """Refuse weights that are not one finite number from 0 up for each row, or that are all 0, unless of a part."""
    if tuple(weight.shape) != (n_rows,):
        reject(f"{argument}.shape", tuple(weight.shape), f"does not fit {n_rows} rows", f"pass shape ({n_rows},)")
    lowest = float(weight.min())
    if not lowest >= 0 or not bool(weight.isfinite().all()):
        reject(argument, lowest, "weights must be finite numbers from 0 up", "remove those rows, or give them weight 0")
    if not part and not bool((weight > 0).any()):
        reject(argument, 0.0, "every weight is 0", "give some rows a weight above 0")
