"""Online training: calls one after the other are one training, and a failed call has not happened."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from torch import nn

from hardwood.errors import InvalidArgumentError
from hardwood.nn import HardTrees
from hardwood.train import OnlineTraining, TrainingDivergedError, TrainingSettings, TrainingWarning, fit, make_loss
from helpers.training import alone, restarts, same_bits, seeded, two_moons, weights_of

SETTINGS = TrainingSettings(batch_size=30, learning_rate=0.05)


def ensemble() -> HardTrees:
    return HardTrees(2, 1, n_trees=6, depth=3, selection="gumbel", generator=seeded(3))


@pytest.mark.usefixtures("random_state_stays")
@pytest.mark.parametrize("make", [ensemble, lambda: restarts(3)])
@pytest.mark.parametrize("batch_size", [30, 200])
def test_passes_over_the_same_rows_are_a_training(make, batch_size):
    """`fit` on the same rows: the same shuffles, the same dropout, and moments that are kept from call to call."""
    rows, target = two_moons(100)
    weight = torch.linspace(0, 2, 100)
    options = {"batch_size": batch_size, "learning_rate": 0.05, "max_gradient_norm": 0.3, "random_state": 4}
    if make is ensemble:
        options["tree_dropout"] = 0.3
    given = {"loss": "focal", "base": torch.tensor([0.2]), "class_weight": {1: 3.0}}
    whole, online = make(), make()
    result = fit(whole, rows, target, settings=TrainingSettings(max_epochs=4, **options), sample_weight=weight, **given)
    training = OnlineTraining(online, settings=TrainingSettings(**options), **given)
    losses = [training.update(rows, target, weight) for _ in range(4)]
    assert same_bits(weights_of(whole), weights_of(online))
    assert training.steps == result.steps
    for found, record in zip(losses, result.history, strict=True):
        assert found.tolist() == list(record.tree_losses or [record.loss])


def test_single_batches_are_plain_adam():
    """Against torch's own Adam, in float64, on batches that differ."""
    rows, target = two_moons(80)
    rows = rows.double()
    one = nn.Sequential(nn.Linear(2, 3, dtype=torch.float64), nn.Tanh(), nn.Linear(3, 1, dtype=torch.float64))
    two = copy.deepcopy(one)
    training = OnlineTraining(one, loss="squared_error", settings=TrainingSettings(learning_rate=0.03))
    optimizer = torch.optim.Adam(two.parameters(), lr=0.03)
    for start in range(0, 80, 13):
        x, y = rows[start : start + 13], target[start : start + 13].double()
        loss = (two(x)[:, 0] - y).square().mean()
        torch.testing.assert_close(training.update(x, y), loss.detach()[None])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    for ours, theirs in zip(one.parameters(), two.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-12)


def test_restarts_together_are_restarts_alone():
    rows, target = two_moons(90)
    rows, together = rows.double(), restarts(3).double()
    singles = [alone(together, tree).double() for tree in range(3)]
    training = OnlineTraining(together, loss="cross_entropy", settings=SETTINGS)
    parts = [OnlineTraining(single, loss="cross_entropy", settings=SETTINGS) for single in singles]
    for start in (0, 45):
        take = slice(start, start + 45)
        losses = training.update(rows[take], target[take])
        assert losses.shape == (3,) and losses.dtype == torch.float64
        torch.testing.assert_close(losses, torch.cat([part.update(rows[take], target[take]) for part in parts]))
    for tree, single in enumerate(singles):
        for name, parameter in single.named_parameters():
            torch.testing.assert_close(together.get_parameter(name)[tree], parameter[0], atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("make", [ensemble, lambda: restarts(3)])
def test_what_it_holds_goes_on_in_another_object(make):
    rows, target = two_moons(100)
    settings = SETTINGS if make is not ensemble else TrainingSettings(batch_size=30, tree_dropout=0.3)

    def anew() -> OnlineTraining:
        return OnlineTraining(make(), loss="cross_entropy", settings=settings)

    first = anew()
    untouched = pickle.loads(pickle.dumps(first.tensors()))
    first.update(rows, target)
    held = pickle.loads(pickle.dumps(first.tensors()))
    second, copied = anew(), copy.deepcopy(first)
    second.load_tensors(held)
    expected = first.update(rows, target)
    for other in (second, copied):
        assert torch.equal(other.update(rows, target), expected)
        assert same_bits(weights_of(first.model), weights_of(other.model)) and other.steps == first.steps
    assert not same_bits(held, first.tensors())  # what was held is a copy by now
    first.load_tensors(untouched)
    third = anew()
    assert torch.equal(first.update(rows, target), third.update(rows, target))
    assert same_bits(first.tensors(), third.tensors())


def test_tensors_of_another_training_are_refused():
    rows, target = two_moons(40)
    training = OnlineTraining(restarts(2), loss="cross_entropy")
    training.update(rows, target)
    held, before = training.tensors(), weights_of(training.model)
    other = OnlineTraining(restarts(3), loss="cross_entropy")
    with pytest.raises(
        InvalidArgumentError, match=r"tensors='model.leaf_values': has shape \(2, 8, 1\), and in this tr"
    ):
        other.load_tensors(held)
    for changed in (
        {name: tensor for name, tensor in held.items() if name != "steps"},
        {**held, "optimizer.99.exp_avg": torch.zeros(2)},
        {**held, "optimizer.0.exp_avg": torch.zeros(2)},
    ):
        with pytest.raises(InvalidArgumentError, match="make the model as it was"):
            training.load_tensors(changed)
    assert same_bits(weights_of(training.model), before)


class Fragile(nn.Module):
    """Breaks in one of its forward passes in train mode; looks at no parameter itself."""

    def __init__(self, at: int, error: BaseException | None = None) -> None:
        super().__init__()
        self.value, self.calls, self.at, self.error = nn.Parameter(torch.zeros(1)), 0, at, error

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if torch.is_grad_enabled():
            self.calls += 1
            if self.calls == self.at and self.error is not None:
                raise self.error
        return self.value.expand(len(x), 1) * (float("inf") if self.calls == self.at and self.training else 1.0)


@pytest.mark.parametrize("error", [None, KeyboardInterrupt(), RuntimeError("no memory")])
def test_a_call_that_fails_has_not_happened(error):
    """The second call fails at its third step; the third call is as if there had been no second."""
    rows, target = torch.zeros(100, 1), torch.ones(100)
    settings = TrainingSettings(batch_size=20, learning_rate=0.1)
    broken = OnlineTraining(Fragile(8, error), loss="squared_error", settings=settings)
    sound = OnlineTraining(Fragile(0), loss="squared_error", settings=settings)
    for training in (broken, sound):
        training.update(rows, target)
    with pytest.raises(TrainingDivergedError if error is None else type(error)) as caught:
        broken.update(rows, target)
    if error is None:
        assert "its parameters of before the update again; lower the learning rates" in str(caught.value)
    assert same_bits(broken.tensors(), sound.tensors())
    assert torch.equal(broken.update(rows, target), sound.update(rows, target))
    assert same_bits(broken.tensors(), sound.tensors())


def test_an_infinite_target_sum_is_refused_in_the_first_call():
    training = OnlineTraining(restarts(1), loss="squared_error")
    before = weights_of(training.model)
    with pytest.raises(TrainingDivergedError, match="the loss became inf"):
        training.update(torch.zeros(3, 2), torch.full((3,), 1e30))
    assert same_bits(weights_of(training.model), before) and training.steps == 0
    training.update(torch.zeros(3, 2), torch.ones(3))


@pytest.mark.parametrize("batch_size", [30, 200])
def test_a_restart_that_fails_does_not_harm_the_others(batch_size):
    rows, target = two_moons(90)

    def poisoned(prediction, target, weight):
        return (prediction - target).square()

    settings = TrainingSettings(batch_size=batch_size, learning_rate=0.05)
    model, healthy = restarts(3), restarts(3)
    training = OnlineTraining(model, loss=poisoned, settings=settings)
    expected = OnlineTraining(healthy, loss=poisoned, settings=settings)
    target = target.float()
    for each in (training, expected):
        each.update(rows, target)
    with torch.no_grad():
        model.leaf_values[1] = 1e30  # its square is infinite
    before = weights_of(model)
    with pytest.warns(TrainingWarning, match=r"the loss of 1 of 3 restarts became infinite or NaN: \[1\]"):
        losses = training.update(rows, target)
    torch.testing.assert_close(losses[::2], expected.update(rows, target)[::2])
    assert losses[1] == float("inf")
    for name, parameter in model.named_parameters():
        assert torch.equal(parameter[1], before[name][1])
        torch.testing.assert_close(parameter[::2], healthy.get_parameter(name)[::2])
    with torch.no_grad():
        model.leaf_values[1] = 0.0
    assert bool(training.update(rows, target).isfinite().all())


def test_what_does_not_go_together():
    rows, target = two_moons(20)
    for options in ({"schedule": "cosine"}, {"warmup_epochs": 1.0}, {"averaging": "ema"}):
        with pytest.raises(InvalidArgumentError, match="needs a training with an end"):
            OnlineTraining(restarts(1), loss="cross_entropy", settings=TrainingSettings(**options))
    with pytest.raises(InvalidArgumentError, match="class_weight='balanced'"):
        OnlineTraining(restarts(1), loss="cross_entropy", class_weight="balanced")
    dropped = OnlineTraining(restarts(2), loss="cross_entropy", settings=TrainingSettings(tree_dropout=0.5))
    with pytest.raises(InvalidArgumentError, match="has no meaning for restarts"):
        dropped.update(rows, target)
    training = OnlineTraining(restarts(2), loss=make_loss("cross_entropy"))
    for given, message in (
        ((rows, target + 1), "target=2"),
        ((rows, target, -torch.ones(20)), "weight=-1.0"),
        ((rows[:0], target[:0]), r"rows.shape=\(0, 2\)"),
    ):
        with pytest.raises(InvalidArgumentError, match=message):
            training.update(*given)
    assert training.steps == 0
