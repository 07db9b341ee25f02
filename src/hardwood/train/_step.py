"""`Stepper`: the gradient of one batch, and the optimiser that makes a step of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from hardwood._typing import Bool, Float
from hardwood.errors import InvalidArgumentError, reject
from hardwood.train._batches import TreeDropout
from hardwood.train._best import shared_parameters
from hardwood.train._data import Terms
from hardwood.train._feed import Batch
from hardwood.train._losses import Loss
from hardwood.train._optimizers import clip_gradients, make_optimizer
from hardwood.train._settings import TrainingSettings


class Stepper:
    """Differentiates one batch after the other; the optimiser and the dropout of trees outlive each of them."""

    def __init__(
        self, model: nn.Module, loss: Loss, settings: TrainingSettings, generator: torch.Generator
    ) -> None:  # fmt: skip
        self.model, self.loss = model, loss
        self.optimizer = make_optimizer(model, settings)
        # In the model's order: that of the optimiser's groups depends on which rates are equal.
        self.parameters: list[nn.Parameter] = [p for p in model.parameters() if p.requires_grad]
        self._longest = settings.max_gradient_norm
        self._dropout: TreeDropout | None = None
        if settings.tree_dropout:
            device = self.parameters[0].device
            self._dropout = TreeDropout(trees_of(model), settings.tree_dropout, generator, device)

    def differentiate(self, batch: Batch, terms: Terms, mend: Callable[[], bool]) -> Float[Tensor, "..."]:
        """Return a batch's loss, and leave its gradient in the parameters.

        `mend` is called when the model refuses parameters that are not finite, and says whether it changed any.
        """
        by_tree = terms.n_trees is not None
        mask = None if by_tree else batch.tree_rows
        if self._dropout is not None:
            drawn = self._dropout.draw()
            mask = drawn if mask is None else mask & drawn
        prediction = self._predict(batch.table.rows, mask, mend)
        if terms.base is not None:
            prediction = prediction + terms.base
        # The gradient of a sum over trees is, for each tree, that of its own loss.
        loss = batch.table.loss_of(prediction, self.loss, batch.tree_rows if by_tree else None)
        self.optimizer.zero_grad()
        torch.autograd.backward(loss.sum())
        if self._longest is not None:
            clip_gradients(self.parameters, self._longest, by_tree)
        return loss.detach()

    def _predict(self, rows: Any, mask: Tensor | None, mend: Callable[[], bool]) -> Tensor:
        options = {} if mask is None else {"tree_mask": mask}
        try:
            answer: Tensor = self.model(rows, **options)
        except InvalidArgumentError:
            # Trees refuse to route by parameters that are not finite.
            if not mend():
                raise
            answer = self.model(rows, **options)
        return answer

    def put_back(self, which: Bool[Tensor, " trees"], kept: list[Tensor]) -> None:
        """Put other parameters in the place of some trees' own, whose moments begin anew."""
        with torch.no_grad():
            for parameter, instead in zip(self.parameters, kept, strict=True):
                parameter[which] = instead[which]
                for name, average in self.optimizer.state[parameter].items():
                    if name != "step":
                        average[which] = 0


def check_restarts(model: nn.Module, settings: TrainingSettings, n_trees: int | None) -> None:
    """Refuse what has no meaning for trees that are trained side by side."""
    if n_trees is None:
        return
    shared = shared_parameters(model, n_trees)
    if shared:
        reject("model", shared[0], "is shared by trees that are trained as restarts",
               'combine the trees, or use HardTrees(combine="none") alone')  # fmt: skip
    if settings.tree_dropout:
        reject("tree_dropout", settings.tree_dropout, "has no meaning for restarts", "set it to 0")


def trees_of(model: nn.Module) -> int:
    """Return how many trees a model combines."""
    n_trees = getattr(model, "n_trees", None)
    if not isinstance(n_trees, int):
        reject("model", type(model).__name__, "does not say how many trees it has",
               "give it an attribute n_trees, or leave out tree_dropout and tree_rows")  # fmt: skip
    return n_trees
