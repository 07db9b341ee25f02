"""From encoded rows to a trained latent tree: what the classifier, the regressor and the clustering share."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch

from hardwood._typing import Float, Shaped
from hardwood.data import TableEncoder
from hardwood.data._lower_oblique import linear_maps
from hardwood.estimators._device import choose_device, count_threads, threads
from hardwood.nn import FrozenLatentTree, LatentModel
from hardwood.train import Callback, Loss, TrainingResult, TrainingSettings, TrainingState, fit

# An evaluation takes place after each epoch, but after no fewer steps than these.
_FEWEST_STEPS = 10
_LARGEST_CELL = 100.0
# Of the learning rate, while a tree is fine-tuned.
_FINE_RATES = (1.0, 0.3)


class Cells:
    """Encoded cells without holes: a missing one is 0, and says so in a further column if training rows had such.

    Encoded numbers are near 1 in size; one beyond 100 counts as 100.
    """

    def __init__(self, encoder: TableEncoder, encoded: Float[np.ndarray, "rows cells"]) -> None:
        self.encoder = encoder
        self.with_holes = np.flatnonzero(np.isnan(encoded).any(axis=0))

    @property
    def names(self) -> tuple[str, ...]:
        """The columns' names."""
        names = self.encoder.encoded_names
        return (*names, *(f"{names[column]} is missing" for column in self.with_holes))

    def fill(self, encoded: Float[np.ndarray, "rows cells"]) -> Float[np.ndarray, "rows columns"]:
        """Return what `encoder` made of some rows without holes, in float64."""
        holes = np.isnan(encoded)
        filled = np.clip(np.where(holes, 0.0, encoded), -_LARGEST_CELL, _LARGEST_CELL)
        return np.concatenate([filled, holes[:, self.with_holes]], axis=1).astype(np.float64)

    def encode(self, X: Any) -> Float[np.ndarray, "rows columns"]:
        """Return a table as the tree reads it."""
        return self.fill(self.encoder.transform(X))

    @property
    def have_raw_units(self) -> bool:
        """Whether every cell is a linear function of one raw number, so that oblique splits can be lowered."""
        return self.encoder.is_linear and len(self.with_holes) == 0

    def filled_rows(self, X: Any) -> Float[np.ndarray, "rows columns"]:
        """Return raw rows as a lowered forest takes them: without holes, and no number further out than `fill` lets."""
        maps = linear_maps(self.encoder._parts)
        assert maps is not None
        mean, scale = maps
        raw = self.encoder.to_raw(X)
        bound = np.minimum(_LARGEST_CELL * scale, np.finfo(np.float64).max / 2)
        return np.clip(np.where(np.isnan(raw), mean, raw), mean - bound, mean + bound)


@dataclass(frozen=True)
class Lesson:
    """Encoded rows, their targets in training units, and how much each counts."""

    x: Float[np.ndarray, "rows columns"]
    target: Shaped[torch.Tensor, "rows ..."]
    weight: Float[np.ndarray, " rows"]

    def tensors(self, device: torch.device) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return all three as the training loop reads them."""
        x, weight = torch.from_numpy(self.x).float(), torch.from_numpy(self.weight).float()
        return x.to(device), self.target.to(device), weight.to(device)


@dataclass
class ActiveNodes(Callback):
    """Notes after each evaluation which share of the nodes is not pruned."""

    shares: list[float] = field(default_factory=list)

    def on_fit_begin(self, state: TrainingState) -> None:
        """Start with an empty list."""
        self.shares.clear()

    def on_fit_end(self, state: TrainingState) -> None:
        """Leave the list as it is."""
        return

    def on_epoch_end(self, state: TrainingState) -> None:
        """Take note."""
        assert isinstance(state.model, LatentModel)
        self.shares.append(float(state.model.tree.active.double().mean()))


@dataclass(frozen=True)
class Learned:
    """What training left."""

    frozen: FrozenLatentTree
    hard: FrozenLatentTree  # the same tree, its predictor fine-tuned for hard routing if that is wanted
    result: TrainingResult
    active: list[float]


def batch_size(given: int | str, n_rows: int) -> int:
    """Return the rows of a step; "auto" grows with the table, up to the paper's 512."""
    if given != "auto":
        return int(given)
    return int(min(512, max(64, 2 ** int(np.log2(max(1, n_rows / 16))))))


def learn(
    parameters: dict[str, Any], loss: Loss, n_outputs: int, training: Lesson, held_out: Lesson | None, seed: int,
    callbacks: Sequence[Callback] = (),
) -> Learned:  # fmt: skip
    """Train a model as an estimator's parameters say."""
    x, target, weight = training.tensors(torch.device("cpu"))
    generator = torch.Generator().manual_seed(seed)
    mlp = {name: parameters[name] for name in ("n_hidden", "hidden_size", "dropout")}
    model = LatentModel(
        x.shape[1], n_outputs, parameters["max_depth"], split=parameters["split_function"],
        penalty=float(parameters["penalty"]), predictor=parameters["predictor"], sees_rows=parameters["sees_rows"],
        generator=generator, **mlp,
    )  # fmt: skip
    base = loss.initial(target, weight.double()).float()
    batch = batch_size(parameters["batch_size"], len(x))
    steps = -(-len(x) // batch)
    judged = held_out is not None
    settings: dict[str, Any] = {
        "max_epochs": parameters["max_iter"],
        "batch_size": batch,
        "learning_rate": parameters["learning_rate"],
        "part_rates": (("tree", parameters["learning_rate"] * parameters.get("split_rate", 1.0)),),
        "optimizer": parameters["optimizer"],
        # What the paper's code uses with this optimiser.
        "betas": (0.995, 0.998) if parameters["optimizer"] == "qhadam" else (0.9, 0.999),
        "weight_decay": parameters["weight_decay"],
        "schedule": "constant" if parameters["schedule"] == "plateau" and not judged else parameters["schedule"],
        "plateau_patience": parameters["plateau_patience"],
        "plateau_factor": parameters["plateau_factor"],
        "patience": parameters["n_iter_no_change"] if judged else None,
        "evaluate_every": None if steps >= _FEWEST_STEPS else _FEWEST_STEPS,
        "max_seconds": parameters["max_seconds"],
        "random_state": seed,
    }
    active = ActiveNodes()
    work = min(batch, len(x)) * (x.shape[1] + 8) * 2 ** (parameters["max_depth"] + 1)
    device = choose_device(parameters["device"], work)
    with threads(count_threads(parameters["n_jobs"], work)):
        model.start_at(x, base, parameters.get("init", "random")).to(device)
        result = fit(
            model, x.to(device), target.to(device), loss=loss, settings=TrainingSettings(**settings),
            sample_weight=weight.to(device), validation=None if held_out is None else held_out.tensors(device),
            verbose=parameters["verbose"], callbacks=[active, *callbacks], checkpoint=parameters["checkpoint"],
            resume_from=parameters["resume_from"],
        )  # fmt: skip
        frozen = hard = FrozenLatentTree.of(model)
        if parameters["routing"] == "hard" and parameters["fine_tune"] != "none":
            small = model.pruned()
            lessons = training, held_out
            if parameters["fine_tune"] == "tree":
                small = _fine_tune_tree(small, loss, TrainingSettings(**settings), *lessons, device)
            del settings["part_rates"]  # only the predictor is left
            hard = _fine_tune_predictor(small, loss, TrainingSettings(**settings), *lessons, device)
    return Learned(frozen, hard, result, active.shares)


def hard_outputs(frozen: FrozenLatentTree, x: Float[np.ndarray, "rows columns"]) -> Float[np.ndarray, "rows outputs"]:
    """Return the raw predictions by hard routing."""
    return frozen.predict_from(frozen.hard_traversals[frozen.ends(x)], x)


def _fine_tune_tree(
    small: LatentModel, loss: Loss, settings: TrainingSettings, training: Lesson, held_out: Lesson | None,
    device: torch.device,
) -> LatentModel:  # fmt: skip
    """Return a model without pruned nodes after training on, its rows going one way; the better of two rates."""
    x, target, weight = training.tensors(device)
    best, least = small, np.inf
    for share in _FINE_RATES if held_out is not None else _FINE_RATES[-1:]:
        model = copy.deepcopy(small)
        model.tree.hard = True
        slower = replace(settings, learning_rate=settings.learning_rate * share, part_rates=())
        result = fit(
            model, x, target, loss=loss, settings=slower, sample_weight=weight,
            validation=None if held_out is None else held_out.tensors(device),
        )  # fmt: skip
        model.tree.hard = False
        found = -np.inf if result.best_loss is None else result.best_loss
        if found < least:
            best, least = model, found
    return best


def _fine_tune_predictor(
    small: LatentModel, loss: Loss, settings: TrainingSettings, training: Lesson, held_out: Lesson | None,
    device: torch.device,
) -> FrozenLatentTree:  # fmt: skip
    """Return the tree with a predictor that went on learning from hard traversals, the splits staying as they are."""
    frozen = FrozenLatentTree.of(small)

    def inputs(lesson: Lesson) -> torch.Tensor:
        z = frozen.hard_traversals[frozen.ends(lesson.x)]
        return torch.from_numpy(np.concatenate([z, lesson.x], axis=1) if frozen.sees_rows else z).float().to(device)

    _, target, weight = training.tensors(device)
    validation = None if held_out is None else (inputs(held_out), *held_out.tensors(device)[1:])
    fit(
        small.predictor, inputs(training), target, loss=loss, settings=settings, sample_weight=weight,
        validation=validation,
    )  # fmt: skip
    return FrozenLatentTree.of(small)
