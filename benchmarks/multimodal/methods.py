"""What is compared: table branches alone, the other branch alone, both together; and ways to meet moving embeddings."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from benchmarks.multimodal.models import mlp, resnet
from benchmarks.multimodal.sets import Set

from hardwood.estimators import ImageBranch, MultimodalClassifier, MultimodalRegressor
from hardwood.nn import ConvEncoder

COMMON: dict[str, Any] = {"max_iter": 100, "n_jobs": 1}
# Each method is fitted twice, the learning rate of its table branch (of the linear layer, where there is none) being a
# fifth the second time, and the fit with the lower loss on the validation rows inside the training rows is taken.
RATES = ({"tree_rate": 0.01, "head_rate": 0.005}, {"tree_rate": 0.002, "head_rate": 0.001})

TABLE = {"table: MLP": mlp, "table: ResNet": resnet, "table: GRANDE": "trees"}
BOTH: dict[str, dict[str, Any]] = {
    "both: MLP": {"table_model": mlp},
    "both: ResNet": {"table_model": resnet},
    "both: GRANDE": {},
}
# Trees that split embeddings while these move. The first is plain joint training, as the thesis describes the problem.
PLAIN: dict[str, Any] = {"fusion": "trees", "init": "random", "normalization": "none", "encoder_warmup": 0}
NORM = PLAIN | {"normalization": "running"}
GREEDY = NORM | {"init": "greedy"}
CONCAT: dict[str, Any] = {"fusion": "concat", "init": "greedy", "normalization": "running"}
MOVING: dict[str, dict[str, Any]] = {
    "joint": PLAIN,
    "slow encoder": PLAIN | {"encoder_rate": 0.0002},
    "alternate": PLAIN | {"alternate": 2},
    "encoder every 4th step": PLAIN | {"encoder_every": 4},
    "running norm": NORM,
    "warm-up 5": PLAIN | {"encoder_warmup": 5},
    "norm + warm-up 5": NORM | {"encoder_warmup": 5},
    "norm + warm-up 15": NORM | {"encoder_warmup": 15},
    "norm + warm-up 5 + greedy trees": GREEDY | {"encoder_warmup": 5},
    "norm + warm-up 15 + greedy trees": GREEDY | {"encoder_warmup": 15},
    "norm + warm-up 5 + greedy trees + every 4th step": GREEDY | {"encoder_warmup": 5, "encoder_every": 4},
    "concat, no warm-up": CONCAT | {"encoder_warmup": 0},
    "concat, warm-up 5": CONCAT | {"encoder_warmup": 5},
    "concat, warm-up 15": CONCAT | {"encoder_warmup": 15},
    "gated, warm-up 5": CONCAT | {"fusion": "gated", "encoder_warmup": 5},
}
METHODS = (*TABLE, "other branch", *BOTH)


def fitted(method: str, data: Set, seed: int) -> tuple[Any, Any]:
    """Return a model fitted on the training rows, and a frame with the columns it takes."""
    X, branch = data.X, data.branch
    torch.manual_seed(seed)
    if isinstance(branch, ImageBranch):
        small = ConvEncoder(24, branch.channels, (16, 32) if branch.size == 8 else (8, 16, 32))
        branch = replace(branch, encoder=small)
    options = dict(COMMON)
    if method in TABLE:
        X = X.drop(columns=data.other_columns)
        options |= {"branches": [], "table_model": TABLE[method], "encoder_warmup": 0}
    elif method == "other branch":
        X = X[data.other_columns]
        options |= {"branches": [branch], "encoder_warmup": 0}
    else:
        options |= {"branches": [branch], **{**BOTH, **MOVING}[method]}
    kind = MultimodalRegressor if data.regression else MultimodalClassifier
    # Ways to meet moving embeddings are compared at the first rates: it is the ways that are to be chosen.
    rates = RATES[:1] if method in MOVING else RATES
    rows = data.training
    models = [kind(**options, **each, random_state=seed).fit(X.iloc[rows], data.y[rows]) for each in rates]
    return min(models, key=lambda model: model.best_loss_), X
