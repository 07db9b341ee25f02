"""Ways in which training ends early: callbacks, Ctrl-C, and losses that are no numbers."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from hardwood.train import Callback, TrainingDivergedError, TrainingSettings, TrainingWarning, fit
from hardwood.train._best import BestParameters
from helpers.training import restarts, same_bits, two_moons, weights_of

SETTINGS = TrainingSettings(max_epochs=20, batch_size=32, learning_rate=0.05)


class Recorder(Callback):
    """Remembers what it was told, and does something at one epoch."""

    def __init__(self, at: int = 0, then=None) -> None:
        self.at, self.then = at, then
        self.said: list[str] = []
        self.seen: list[dict[str, torch.Tensor]] = []

    def on_fit_begin(self, state):
        self.said.append(f"begin {state.epoch}")

    def on_epoch_end(self, state):
        self.said.append(f"epoch {state.epoch}")
        self.seen.append(weights_of(state.model))
        return self.then(state) if state.epoch == self.at else None

    def on_fit_end(self, state):
        self.said.append(f"end {state.epoch}")


def interrupt(state):
    raise KeyboardInterrupt


def fit_moons(model, callbacks, *, validate: bool = False, **given):
    rows, target = two_moons(100)
    return fit(model, rows, target, **{"loss": "cross_entropy", "settings": SETTINGS, **given}, callbacks=callbacks,
               validation=(rows, target) if validate else None)  # fmt: skip


def test_a_callback_stops_training_and_all_hear_of_it():
    first, second = Recorder(3, lambda state: True), Recorder()
    result = fit_moons(restarts(1), [first, second])
    assert result.stop_reason == "callback" and result.epochs == 3
    assert first.said == second.said == ["begin 0", "epoch 1", "epoch 2", "epoch 3", "end 3"]


def test_an_error_in_a_callback_comes_through_and_the_others_are_told_of_the_end():
    other, wrong = Recorder(), Recorder(2, lambda state: {}["missing"])
    with pytest.raises(KeyError, match="missing"):
        fit_moons(restarts(1), [other, wrong])
    assert other.said[-1] == wrong.said[-1] == "end 2"


@pytest.mark.parametrize("validate", [False, True])
def test_ctrl_c_keeps_the_best_so_far_and_says_so(validate):
    model, watch = restarts(1), Recorder(5, interrupt)
    with pytest.warns(TrainingWarning, match=r"interrupted in epoch 5 \(step 20\); the model keeps its parameters of"):
        result = fit_moons(model, [watch], validate=validate)
    assert result.stop_reason == "interrupted" and result.steps == 20
    assert same_bits(weights_of(model), watch.seen[result.best_epoch - 1])
    if not validate:
        assert result.best_epoch == 5


def test_ctrl_c_in_the_first_epoch_keeps_what_there_is():
    class Impatient(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.value, self.calls = nn.Parameter(torch.zeros(1)), 0

        def forward(self, x):
            self.calls += self.training
            if self.training and self.calls == 3:
                raise KeyboardInterrupt
            return self.value.expand(len(x), 1)

    for validation in (None, (torch.zeros(2, 1), torch.ones(2))):
        model = Impatient()
        with pytest.warns(TrainingWarning, match=r"interrupted in epoch 1 \(step 2\)"):
            fit(model, torch.zeros(100, 1), torch.ones(100), loss="squared_error", settings=SETTINGS,
                validation=validation)  # fmt: skip
        assert float(model.value.detach()) == pytest.approx(0.1, abs=1e-3)


def poison(state):
    with torch.no_grad():
        state.model.leaf_values.fill_(float("nan"))


def test_a_loss_that_is_no_number_is_found_at_its_step():
    """A model that does not look at its parameters itself."""

    class Line(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.value, self.calls = nn.Parameter(torch.zeros(1)), 0

        def forward(self, x):
            self.calls += self.training
            return self.value.expand(len(x), 1) * (1.0 if self.calls < 50 else float("nan"))

    model = Line()
    with pytest.raises(TrainingDivergedError, match=r"the loss became nan in epoch 13 \(step 50\); the model has its"):
        fit(model, torch.zeros(100, 1), torch.ones(100), loss="squared_error", settings=SETTINGS)
    assert 0 < float(model.value.detach()) < 2


@pytest.mark.parametrize("validate", [False, True])
def test_parameters_that_are_no_numbers_stop_training_with_the_best_restored(validate):
    model, watch = restarts(1), Recorder(4, poison)
    expected = r"a parameter became infinite or NaN in epoch 4 \(step 16\); the model has its parameters of epoch \d+"
    with pytest.raises(TrainingDivergedError, match=expected) as caught:
        fit_moons(model, [watch], validate=validate)
    kept = int(str(caught.value).split("of epoch ")[1].split()[0])
    assert same_bits(weights_of(model), watch.seen[kept - 1])
    assert watch.said[-1].startswith("end")


def test_a_validation_loss_that_is_never_a_number():
    model = restarts(1)
    before = weights_of(model)
    with pytest.raises(TrainingDivergedError, match="no evaluation gave a finite loss"):
        fit(model, *two_moons(50), loss=lambda p, t, w: p.square() * (1.0 if p.requires_grad else float("nan")),
            settings=TrainingSettings(max_epochs=2), validation=two_moons(50))  # fmt: skip
    assert same_bits(weights_of(model), before)


def test_what_falls_too_slowly_does_not_count_as_falling():
    """Losses 1.0, 0.97, 0.94 and so on: with a tolerance of 0.05 every second one is news, with 0.2 none is."""
    model = nn.Linear(1, 1)
    for tolerance, most in ((0.05, 20), (0.2, 3)):
        best = BestParameters(model, None, 3, tolerance)
        for turn in range(20):
            if not bool(best.done.all()):
                best.observe(torch.tensor([1.0 - 0.03 * turn], dtype=torch.float64), turn)
        assert int(best.epochs) == (19 if most == 20 else 3)
        assert float(best.losses) == pytest.approx(1.0 - 0.03 * int(best.epochs))
