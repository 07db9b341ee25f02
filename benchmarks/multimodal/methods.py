"""What is compared: table branches alone, the other branch alone, both together; and ways to meet moving embeddings."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from benchmarks.multimodal.models import mlp, resnet
from benchmarks.multimodal.sets import Set

from hardwood.estimators import ImageBranch, MultimodalClassifier, MultimodalRegressor
from hardwood.nn import ConvEncoder

# Networks on tables are said to need their rate tuned: the better of these by validation loss, each seed anew.
RATES = (0.001, 0.005)
COMMON: dict[str, Any] = {"max_iter": 60, "n_iter_no_change": 10, "n_estimators": 64, "n_jobs": 1}

TABLE = {"table: MLP": mlp, "table: ResNet": resnet, "table: GRANDE": "trees"}
BOTH: dict[str, dict[str, Any]] = {
    "both: MLP": {"table_model": mlp},
    "both: ResNet": {"table_model": resnet},
    "both: GRANDE": {},
    "both: MLP, no warm-up": {"table_model": mlp, "encoder_warmup": 0},
    "both: GRANDE, no warm-up": {"encoder_warmup": 0},
    "both: GRANDE, gated": {"fusion": "gated"},
    "both: GRANDE, trees on all": {"fusion": "trees"},
}
# Trees that split embeddings while these move. The first is plain joint training, as the thesis describes the problem.
PLAIN: dict[str, Any] = {"fusion": "trees", "init": "random", "normalization": "none", "encoder_warmup": 0}
MOVING: dict[str, dict[str, Any]] = {
    "moving: joint": PLAIN,
    "moving: slow encoder": PLAIN | {"encoder_rate": 0.0002},
    "moving: alternate": PLAIN | {"alternate": 2},
    "moving: encoder every 4th step": PLAIN | {"encoder_every": 4},
    "moving: running norm": PLAIN | {"normalization": "running"},
    "moving: warm-up": PLAIN | {"encoder_warmup": 5},
    "moving: norm + warm-up": PLAIN | {"normalization": "running", "encoder_warmup": 5},
    "moving: norm + warm-up + greedy trees": {"fusion": "trees"},
    "moving: the same + encoder every 4th": {"fusion": "trees", "encoder_every": 4},
    "moving: the same, warm-up 15": {"fusion": "trees", "encoder_warmup": 15},
}
METHODS = (*TABLE, "other branch", *BOTH, *MOVING)


def fitted(method: str, data: Set, rows: Any, seed: int) -> tuple[Any, Any]:
    """Return a model fitted on some rows, and a frame with the columns it takes."""
    X, branch = data.X, data.branch
    torch.manual_seed(seed)
    if isinstance(branch, ImageBranch):
        small = ConvEncoder(24, branch.channels, (16, 32) if branch.size == 8 else (8, 16, 32))
        branch = replace(branch, encoder=small)
    options = dict(COMMON)
    rates: tuple[float, ...] = (0.005,)
    if method in TABLE:
        X = X.drop(columns=data.other_columns)
        options |= {"branches": [], "table_model": TABLE[method], "encoder_warmup": 0}
        rates = RATES if TABLE[method] != "trees" else rates
    elif method == "other branch":
        X = X[data.other_columns]
        options |= {"branches": [branch], "encoder_warmup": 0}
    else:
        options |= {"branches": [branch], **{**BOTH, **MOVING}[method]}
        rates = RATES if options.get("table_model", "trees") != "trees" else rates
    kind = MultimodalRegressor if data.regression else MultimodalClassifier
    models = [
        kind(**options, head_rate=rate, random_state=seed).fit(X.iloc[rows], data.y[rows]) for rate in rates
    ]  # fmt: skip
    return min(models, key=lambda model: model.best_loss_), X
