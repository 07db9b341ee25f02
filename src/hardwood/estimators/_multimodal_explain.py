"""`MultimodalExplanation`: which share of a prediction came from the table, which from each encoder, and the rules."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hardwood._typing import Float
from hardwood.estimators._modalities import name_of
from hardwood.nn._multimodal import TABLE

if TYPE_CHECKING:
    from hardwood.estimators._multimodal import MultimodalEstimator
    from hardwood.explain import Explanation
else:
    Explanation = MultimodalEstimator = Any


@dataclass(frozen=True)
class MultimodalExplanation:
    """Why a multimodal model predicts what it does for one row. `print` it to read it.

    `base` plus all `contributions` are the outputs before the link. A contribution is what the part says of this row
    less what it says on average over training rows; a gate counts with the part that it multiplies. A part's share is
    its contribution's part of all contributions' sizes, to the output that decides (for a class: beside the mean of all
    classes' outputs). With fusion="trees" contributions follow the row's paths (`explain.contributions`), a split on a
    column or embedding counting for the part that it belongs to.
    """

    prediction: Any
    outputs: tuple[float, ...]
    base: tuple[float, ...]
    contributions: dict[str, tuple[float, ...]]  # of each part to each output
    shares: dict[str, float]
    rules: Explanation | None  # of the trees; None where there are none
    gates: dict[str, float] | None  # of fusion="gated"

    def __str__(self) -> str:
        lines = [f"prediction: {self.prediction}"]
        lines += [f"  {share:6.1%} from {part}" for part, share in sorted(self.shares.items(), key=lambda s: -s[1])]
        if self.rules is not None:
            lines += ["trees:", *(f"  {line}" for line in self.rules.text.splitlines())]
        return "\n".join(lines)


def explain(model: MultimodalEstimator, X: Any, n_trees: int | None) -> list[MultimodalExplanation]:
    """Explain the predictions of some rows."""
    from hardwood.explain import rows as explained

    lazy = model._rows_of(X)
    if len(lazy) == 0:
        return []
    seen = model._see(lazy)
    predictions: Any = model.predict(X)
    split_on = model.forest_rows(X) if model.forest_ is not None else None
    gates: list[dict[str, float] | None] = [None] * len(lazy)
    if model.fusion == "trees":
        contributions, base = _along_paths(model, split_on)
    else:
        summands = seen[" summands"].astype(np.float64) * model.target_.scale
        middle = model.background_[" summands"].astype(np.float64).mean(axis=0) * model.target_.scale
        contributions = summands - middle
        bias = model.network_.bias.detach().double().numpy() * model.target_.scale + model.target_.shift
        base = np.broadcast_to(bias + middle.sum(axis=0), (len(lazy), middle.shape[1]))
        gates = _gates(model, lazy)
    rules: list[Explanation | None] = [None] * len(lazy)
    if model.forest_ is not None and split_on is not None:
        rules = list(explained(model.forest_, split_on, n_trees))
    outputs = base + contributions.sum(axis=1)
    parts = parts_of(model)
    made = []
    for row in range(len(lazy)):
        decisive = _decisive(contributions[row], outputs[row], model.target_.link)
        total = decisive.sum()
        shares = decisive / total if total > 0 else decisive
        made.append(
            MultimodalExplanation(
                prediction=predictions[row].item() if np.ndim(predictions[row]) == 0 else tuple(predictions[row]),
                outputs=tuple(outputs[row].tolist()),
                base=tuple(base[row].tolist()),
                contributions={p: tuple(contributions[row, i].tolist()) for i, p in enumerate(parts)},
                shares={part: float(shares[place]) for place, part in enumerate(parts)},
                rules=rules[row],
                gates=gates[row],
            )
        )
    return made


def parts_of(model: MultimodalEstimator) -> tuple[str, ...]:
    """Return the names of the parts: the table, if there is one, and the branches."""
    return (*((TABLE,) if model.encoder_ is not None else ()), *(name_of(branch) for branch in model.branches_))


def _along_paths(
    model: MultimodalEstimator, rows: Any
) -> tuple[Float[np.ndarray, "rows parts outputs"], Float[np.ndarray, "rows outputs"]]:
    """Return the parts' contributions in a forest on the table's columns and the embeddings."""
    from hardwood.explain import contributions

    assert model.forest_ is not None
    background = [model.background_[" raw"]] if model.encoder_ is not None else []
    background += [model.background_[name_of(branch)].astype(np.float64) for branch in model.branches_]
    found = contributions(model.forest_, rows, np.concatenate(background, axis=1))
    widths = [branch.width for branch in model.network_.branches.values()]
    if model.encoder_ is not None:
        widths = [len(model.encoder_.columns), *widths]
    starts = np.cumsum([0, *widths])[:-1]
    return np.add.reduceat(found.values, starts, axis=1), found.base


def _gates(model: MultimodalEstimator, lazy: Any) -> list[dict[str, float] | None]:
    """Return the gates of each row, None where there are none."""
    import torch

    network = model.network_
    if network.gate is None:
        return [None] * len(lazy)
    found: list[dict[str, float] | None] = []
    with model._at_work(), torch.no_grad():
        for batch in network.loaded(lazy):
            gates = network.gates(batch, network.embeddings(batch)).double()
            found += [dict(zip(network.parts, each, strict=True)) for each in gates.tolist()]
    return found


def _decisive(
    contributions: Float[np.ndarray, "parts outputs"], outputs: Float[np.ndarray, " outputs"], link: str
) -> Float[np.ndarray, " parts"]:
    """Return the size of what each part adds to the output that decides, or to all of them."""
    if link == "softmax":
        # Adding one number to all classes' outputs changes nothing.
        centred = contributions - contributions.mean(axis=1, keepdims=True)
        return np.abs(centred[:, int(np.argmax(outputs))])
    return np.abs(contributions).sum(axis=1)
