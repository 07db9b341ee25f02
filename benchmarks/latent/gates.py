"""Does learned pruning pay for GradTree and GRANDE? Gates that the loss may close, beside pruning after training.

Their papers name learned pruning as future work. With hard routing the program of latent trees has nothing to learn
from: z is 0 or 1, so that a_t is n_t / (n_t + lambda) for the n_t rows of a batch that reach node t. That is shrinkage
by counts, and prunes what no row reaches, which both estimators do after training anyway. So a node here has a gate g
in [0, 1], a parameter like others; no node is more open than those above it (a is the least gate on the way), and
leaves are drawn towards the values of the nodes above them by what is closed:

    value of a leaf = v_root + sum over the nodes t on its way of a_t (v_child - v_t),

all v learned. The loss has lambda * sum(a) added. A subtree whose gate ends at 0 has one value, and is cut.

Rows: the training part alone of each set's usual split, split again; lambda is chosen by the loss on held-out rows of
what is left, and all is judged on rows that neither saw. Of GradTree the trained tree is taken in any case, also where
its greedy start is as good, which GradTree would then keep.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from benchmarks.latent.sets import compute
from torch import Tensor, nn

from hardwood import GradTreeClassifier, GrandeClassifier
from hardwood.estimators._gradtree import _GradTree
from hardwood.estimators._start import refitted
from hardwood.forest import Forest
from hardwood.nn import HardTrees

SETS = (
    "blood_transfusion", "banknote_authentication", "titanic", "raisin", "wdbc", "loan_house", "heart_disease",
    "german_credit", "phoneme", "wilt", "qsar_biodeg", "spambase",
)  # fmt: skip
PENALTIES = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2)


class PerTree(nn.Module):
    """Parameters of each tree, which are trained at the rate of leaf values, as their name says."""

    def __init__(self, values: Tensor) -> None:
        super().__init__()
        self.leaf_values = nn.Parameter(values)


class GatedTrees(HardTrees):
    """Hard trees with a gate and a value at every inner node."""

    inner: PerTree
    gates: PerTree

    def arm(self, penalty: float) -> GatedTrees:
        """Add open gates and node values: the mean of the leaves below."""
        values = [self.leaf_values.detach()]
        while values[0].shape[1] > 1:
            values.insert(0, values[0].unflatten(1, (-1, 2)).mean(2))
        self.inner = PerTree(torch.cat(values[:-1], 1))
        self.gates = PerTree(torch.ones(self.inner.leaf_values.shape[:2]))
        gates = self.gates.leaf_values
        gates.register_hook(lambda slope: slope + penalty * (gates.detach() > 0))
        return self

    def openness(self) -> list[Tensor]:
        """Return a for the inner nodes of each level."""
        levels: list[Tensor] = []
        for level in range(self.depth):
            own = self.gates.leaf_values[:, 2**level - 1 : 2 ** (level + 1) - 1].clamp(0, 1)
            levels.append(torch.minimum(own, levels[-1].repeat_interleave(2, 1)) if levels else own)
        return levels

    def _leaves(self, split_logits: Tensor) -> tuple[Tensor, Tensor | None]:
        if not hasattr(self, "gates"):
            return self.leaf_values, self.leaf_weights
        nodes = self.inner.leaf_values
        value = nodes[:, :1]
        here = value
        for level, opened in enumerate(self.openness()):
            first, last = 2 ** (level + 1) - 1, 2 ** (level + 2) - 1
            below = self.leaf_values if level == self.depth - 1 else nodes[:, first:last]
            step = opened[:, :, None].repeat_interleave(2, 1) * (below - here.repeat_interleave(2, 1))
            value = value.repeat_interleave(2, 1) + step
            here = below
        return value, self.leaf_weights

    @torch.no_grad()
    def settle(self) -> None:
        """Put what the gates make of the leaves in their place; weights are those of the leaf at the left."""
        values, weights = self._leaves(self.split_logits)
        self.leaf_values.copy_(values)
        if weights is not None:
            for level, opened in enumerate(self.openness()):
                closed = (opened == 0).repeat_interleave(2 ** (self.depth - level), 1)
                groups = weights.unflatten(1, (-1, 2 ** (self.depth - level)))
                weights.copy_(torch.where(closed, groups.mean(2, keepdim=True).expand_as(groups).flatten(1), weights))
        del self.gates, self.inner


class _Gated:
    """An estimator whose trees have gates."""

    gate_penalty = 1e-3

    def _new_layer(self, *arguments: Any, **named: Any) -> Any:
        layer = super()._new_layer(*arguments, **named)  # type: ignore[misc]
        layer.__class__ = GatedTrees
        return layer.arm(self.gate_penalty)


class TrainedGradTree(GradTreeClassifier):
    """GradTree's trained tree, whether or not it beats the greedy one that it began as."""

    def _chosen(self, trained: Any, rows: Any, seed: int) -> Any:
        return super(_GradTree, self)._chosen(trained, rows, seed)


class GatedGradTree(_Gated, TrainedGradTree):
    """The same with gates; its leaves are then set as GradTree's are."""

    def _settled(self, model: Any, best_tree: int | None, x: Any, rows: Any) -> Forest:
        if rows is None:
            return super()._settled(model, best_tree, x, rows)
        model.settle()
        return refitted(model.to_forest([best_tree or 0]).prune(), x, rows, self.leaf_shrinkage)


class GatedGrande(_Gated, GrandeClassifier):
    """GRANDE with gates."""

    def _settled(self, model: Any, best_tree: int | None, x: Any, rows: Any) -> Forest:
        if rows is not None:
            model.settle()
        return super()._settled(model, best_tree, x, rows)


def fitted(method: str, seed: int, x: Any, y: np.ndarray) -> Any:
    """Return a fitted estimator; of gates the lambda with the lowest loss on its held-out rows."""
    grande: dict[str, Any] = {"n_estimators": 64, "max_depth": 5, "max_iter": 200}
    if method == "gradtree":
        return TrainedGradTree(random_state=seed, n_jobs=1).fit(x, y)
    if method == "grande":
        return GrandeClassifier(random_state=seed, n_jobs=1, **grande).fit(x, y)
    best: Any = None
    for penalty in PENALTIES:
        kind = GatedGradTree if method == "gradtree+gates" else GatedGrande
        model = kind(random_state=seed, n_jobs=1, **({} if kind is GatedGradTree else grande))
        # A sum over all trees of an ensemble, each of which is a part of the answer.
        model.gate_penalty = penalty if kind is GatedGradTree else penalty / 64
        model.fit(x, y)
        if best is None or model.best_loss_ < best.best_loss_:
            best = model
    return best


def line(name: str, method: str, seed: int) -> dict[str, Any]:
    """Return one line: error, balanced error, log-loss and leaves."""
    from benchmarks.tables.cell import split
    from benchmarks.tables.sets import DATA, load, read_index
    from sklearn.metrics import f1_score, log_loss

    table = load(DATA, read_index(DATA)[name])
    ours = split(table.y, "binary", seed).training
    x, y = table.X.iloc[ours].reset_index(drop=True), table.y[ours]
    inner = split(y, "binary", seed + 1000)
    begin = time.perf_counter()
    model = fitted(method, seed, x.iloc[inner.training].reset_index(drop=True), y[inner.training])
    seconds = time.perf_counter() - begin
    judged, truth = x.iloc[inner.test].reset_index(drop=True), y[inner.test]
    answer = model.predict(judged)
    return {
        "set": name, "method": method, "seed": seed,
        "f1": round(float(f1_score(truth, answer, average="macro")), 5),
        "error": round(float((answer != truth).mean()), 5),
        "log_loss": round(float(log_loss(truth, model.predict_proba(judged), labels=model.classes_)), 5),
        "leaves": model.forest_.n_leaves, "penalty": getattr(model, "gate_penalty", ""), "seconds": round(seconds, 1),
    }  # fmt: skip


def run(
    sets: Sequence[str] | None, methods: Sequence[str] | None, seeds: Sequence[int], workers: int, results: Path
) -> None:
    """Measure set by set."""
    methods = methods or ("gradtree", "gradtree+gates", "grande", "grande+gates")
    keys = [(name, method, seed) for name in sets or SETS for seed in seeds for method in methods]
    compute(results / "latent_gates.csv", keys, line, workers)
