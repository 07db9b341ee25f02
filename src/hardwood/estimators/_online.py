"""`partial_fit`: training that goes on whenever there are new rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from sklearn.utils.validation import validate_data

from hardwood._typing import Float, Shaped
from hardwood.errors import reject
from hardwood.estimators._base import TreeEstimator
from hardwood.estimators._device import count_threads, threads
from hardwood.estimators._fitted import all_or_nothing
from hardwood.estimators._rows import Rows, checked, class_weights, draw_seed, new_encoder
from hardwood.estimators._session import Session, structure_of
from hardwood.estimators._target import Target
from hardwood.train import OnlineTraining

# How fast the running loss by which restarts are judged forgets earlier calls.
_MEMORY = 0.8

MakeTarget = Callable[[Session | None, Float[np.ndarray, " rows"]], Target]


class OnlineMixin(TreeEstimator):
    """Adds training by calls, each of which moves every parameter from where the last one left it."""

    def _fit_more(self, X: Any, y: Shaped[np.ndarray, "rows ..."], make_target: MakeTarget, sample_weight: Any) -> None:
        """Pass over some rows once; after an error everything is as it was before."""
        with all_or_nothing(self):
            self._check_parameters()
            self._check_endless()
            weight = checked(X, y, sample_weight)
            if self._session is not None:
                self._session.check(self.get_params(deep=False), loss_too=True)
            validate_data(self, X, reset=self._session is None, skip_check_array=True)
            target = make_target(self._session, weight)
            session = self._session or self._first_session(Rows(X, target, weight))
            counted = target.class_sums(weight)
            if counted is not None and session.counted is not None:
                counted = counted + session.counted
            rows = Rows(X, target, class_weights(target, self.class_weight, weight, counted))
            x = session.encoder.transform(rows.X)
            work = min(self._batch_size(len(x)), len(x)) * session.model.n_trees * self.max_depth * x.shape[1]
            with threads(count_threads(self.n_jobs, work)):
                self._pass_over(session, x, rows)
            self._session = replace(session, counted=counted)
            self.__dict__.update(self._described(session.target))
            best = None if self._running_losses is None else int(np.argmin(self._running_losses))
            self._keep_forest(self._settled(session.model, best, x, None), session, rows, all_rows=False)
            self.n_iter_ = getattr(self, "n_iter_", 0) + 1
            self.history_, self.best_loss_ = None, None

    def _pass_over(self, session: Session, x: Float[np.ndarray, "rows features"], rows: Rows) -> None:
        online = self._online_training(session, len(rows))
        cpu = torch.device("cpu")
        weight = torch.from_numpy(rows.weight).float()
        losses = online.update(torch.from_numpy(x), rows.target.tensor(cpu), weight).numpy()
        self._online = online
        if not self._combines:
            before = self._running_losses
            self._running_losses = losses if before is None else _MEMORY * before + (1 - _MEMORY) * losses

    def _first_session(self, rows: Rows) -> Session:
        """Learn the columns from the first rows, and make the layer that all calls train."""
        seed = draw_seed(self.random_state)
        encoder = new_encoder(self, rows.target, seed)
        x = encoder.fit_transform(rows.X, rows.target.values, rows.weight)
        work = x.size * self._n_trees()
        with threads(count_threads(self.n_jobs, work)):
            model = self._new_layer(x, rows, encoder, seed, torch.device("cpu"))
        base = self._base(rows.target, rows.weight)
        made_with = structure_of(self.get_params(deep=False))
        return Session(encoder, model, rows.target.take(np.arange(0)), base, made_with)

    def _online_training(self, session: Session, n_rows: int) -> OnlineTraining:
        """Return the training of the layer, with the rates and the batches of now and the moments of before."""
        before = self._online
        settings = replace(self._settings(self._batch_size(n_rows), 1, 0, False), warmup_epochs=0.0)
        if before is not None:
            settings = replace(settings, random_state=before.settings.random_state)
            if before.settings == settings:
                return before
        else:
            settings = replace(settings, random_state=draw_seed(self.random_state))
        online = OnlineTraining(session.model, loss=session.target.loss, settings=settings, base=session.base)
        if before is not None:
            online.load_tensors(before.tensors())
        return online

    def _check_endless(self) -> None:
        """Refuse what needs a training with an end."""
        for name, value in (("schedule", "constant"), ("averaging", "none")):
            if getattr(self, name) != value:
                reject(name, getattr(self, name), "needs a training with an end", f"set {name}={value!r}")
        if self.selection == "annealed":
            reject("selection", "annealed", "needs a training with an end", "set selection='entmax'")
