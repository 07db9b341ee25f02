"""scikit-learn's callbacks (from its version 1.9) on our training loop, and a falling temperature."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hardwood.train import Callback, TrainingState

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:  # before scikit-learn 1.9

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Nothing: this scikit-learn has no callbacks."""

    def with_callbacks(method: Callable[..., Any]) -> Callable[..., Any]:
        """Return the method as it is."""
        return method


__all__ = ["CallbackSupportMixin", "FallingTemperature", "ForwardToSklearn", "with_callbacks"]


class ForwardToSklearn(Callback):
    """Tells scikit-learn's callbacks of every evaluation, as a task of the estimator's fit; True from one stops."""

    def __init__(self, estimator: Any, fitted: Callable[[int | None], dict[str, Any]], X: Any, y: Any) -> None:
        self._told = {"estimator": estimator, "X": X, "y": y}
        self._fitted = fitted
        self._root = estimator._init_callback_context(task_name="fit", max_subtasks=None)
        self._task: Any = None

    def on_fit_begin(self, state: TrainingState) -> None:
        """Announce the fit, and the first stretch up to an evaluation."""
        self._root.call_on_fit_task_begin(**self._told)
        self._begin()

    def _begin(self) -> None:
        self._task = self._root.subcontext(task_name="evaluation")
        self._task.call_on_fit_task_begin(**self._told)

    def on_epoch_end(self, state: TrainingState) -> bool | None:
        """End the stretch, and begin the next, or say that training is to stop."""
        stop = self._end(state)
        if not stop:
            self._begin()
        return stop

    def on_fit_end(self, state: TrainingState) -> None:
        """End the last stretch, after which the model has its best parameters, and the fit."""
        if self._task is not None:
            self._end(state)
        self._root.call_on_fit_task_end(**self._told)

    def _end(self, state: TrainingState) -> bool:
        losses = state.history[-1].tree_losses if len(state.history) else None
        best_tree = None if state.n_trees is None else 0 if losses is None else int(np.nanargmin(losses))
        task, self._task = self._task, None
        return bool(task.call_on_fit_task_end(**self._told, reconstruction_attributes=lambda: self._fitted(best_tree)))


class FallingTemperature(Callback):
    """Lowers the temperature of "annealed" selection to a twentieth over the first half of the epochs."""

    def __init__(self, start: float) -> None:
        self._start = start

    def on_fit_begin(self, state: TrainingState) -> None:
        """Set the temperature of the epoch at hand."""
        self._set(state)

    def on_epoch_end(self, state: TrainingState) -> bool | None:
        """Set the temperature of the next epoch."""
        self._set(state)
        return None

    def on_fit_end(self, state: TrainingState) -> None:
        """Do nothing: in eval mode a node splits on its strongest feature at any temperature."""

    def _set(self, state: TrainingState) -> None:
        progress = state.epoch / state.settings.max_epochs
        state.model.temperature = self._start * max(0.05, 1 - 2 * progress)  # type: ignore[assignment]
