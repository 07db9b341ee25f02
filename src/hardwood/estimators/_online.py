"""`partial_fit`: training that goes on whenever there are new rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

from hardwood.errors import reject
from hardwood.estimators._base import Session, TreeEstimator
from hardwood.estimators._device import count_threads, threads
from hardwood.estimators._rows import Rows, checked
from hardwood.estimators._target import as_array, of_classes, of_numbers
from hardwood.train import OnlineTraining

# How fast the running loss by which restarts are judged forgets earlier calls.
_MEMORY = 0.8


class OnlineMixin(TreeEstimator):
    """Adds training by calls, each of which moves every parameter from where the last one left it."""

    def _fit_more(self, X: Any, y: Any, classes: Any, sample_weight: Any) -> None:
        """Pass over some rows once."""
        self._check_parameters()
        y = as_array(y)
        weight = checked(X, y, sample_weight)
        session = self._session
        validate_data(self, X, reset=session is None, skip_check_array=True)
        if classes is not None:
            target = of_classes(y, self.loss, classes)
            if session is not None and not np.array_equal(target.classes, session.target.classes):
                reject("classes", target.classes, "are not those of the first call", "leave classes out")
        else:
            target = of_numbers(y, self.loss, weight) if session is None else session.target.like(y)
        rows = Rows(X, target, weight)
        if session is None:
            session = self._session = self._first_session(rows)
            self._keep_target(target)
        if self._online is None:
            self._online = self._new_online(session, len(rows))
        x = session.encoder.transform(rows.X)
        work = min(self._batch_size(len(x)), len(x)) * session.model.n_trees * self.max_depth * x.shape[1]
        with threads(count_threads(self.n_jobs, work)):
            weights = torch.from_numpy(rows.weight).float()
            losses = self._online.update(torch.from_numpy(x), target.tensor(torch.device("cpu")), weights).numpy()
        before = self._running_losses
        running = losses if before is None else _MEMORY * before + (1 - _MEMORY) * losses
        best = None if self._combines else int(np.argmin(running))
        self._running_losses = running
        self.history_, self.n_iter_, self.best_loss_ = None, self._online.steps, float(running.min())
        self._keep_forest(self._settled(session.model, best, x, None), session, rows)

    def _first_session(self, rows: Rows) -> Session:
        """Learn the columns from the first rows, and make the layer that all calls train."""
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        encoder = self._new_encoder(rows.target, seed)
        x = encoder.fit_transform(rows.X, rows.target.values, rows.weight)
        cpu = torch.device("cpu")
        model = self._new_layer(x, rows, encoder, seed, cpu)
        base = self._base(rows.target, rows.weight)
        return Session(encoder, model, rows.target, base)

    def _new_online(self, session: Session, n_rows: int) -> OnlineTraining:
        """Return the training of a layer, call by call, from where it is."""
        for name, value in (("schedule", "constant"), ("averaging", "none")):
            if getattr(self, name) != value:
                reject(name, getattr(self, name), "needs a training with an end", f"set {name}={value!r}")
        if self.selection == "annealed":
            reject("selection", "annealed", "needs a training with an end", "set selection='entmax'")
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        settings = replace(self._settings(self._batch_size(n_rows), 1, seed, False), warmup_epochs=0.0)
        factors = None
        if isinstance(self.class_weight, dict) and session.target.classes is not None:
            # Which rows will come is not known, so they cannot be balanced.
            factors = [float(self.class_weight.get(label, 1.0)) for label in session.target.classes.tolist()]
        loss, base = session.target.loss, session.base
        return OnlineTraining(session.model, loss=loss, settings=settings, class_weight=factors, base=base)
