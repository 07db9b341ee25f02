"""`fit`: it learns, it keeps the best, and it weighs rows as it should."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from hardwood.errors import InvalidArgumentError
from hardwood.nn import HardTrees
from hardwood.train import CrossEntropy, TrainingSettings, draw_tree_rows, fit
from helpers.training import restarts, same_bits, seeded, two_moons, weights_of

FAST = TrainingSettings(
    max_epochs=40, batch_size=64, split_logits_rate=0.05, thresholds_rate=0.02, leaf_values_rate=0.05
)  # fmt: skip


class Constant(nn.Module):
    """The smallest model: the same answer for every row."""

    def __init__(self, start: float = 0.0) -> None:
        super().__init__()
        self.value = nn.Parameter(torch.tensor([start]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.value.expand(len(x), 1)


@pytest.mark.usefixtures("random_state_stays")
def test_it_learns_two_moons_and_leaves_the_process_alone():
    rows, target = two_moons()
    model = restarts(6, depth=4)
    result = fit(model, rows[:200], target[:200], loss="cross_entropy", settings=FAST,
                 validation=(rows[200:], target[200:]))  # fmt: skip
    assert result.stop_reason == "max_epochs" and result.epochs == len(result.history) == 40
    assert result.best_tree == torch.tensor(result.tree_losses).argmin()
    logits = model(rows[200:])[:, result.best_tree, 0]
    assert ((logits > 0) == (target[200:] > 0)).float().mean() > 0.9
    # The parameters that were judged best are those in the model.
    losses = CrossEntropy()(model(rows[200:]), target[200:]).mean(0)
    torch.testing.assert_close(losses.double().detach(), torch.tensor(result.tree_losses, dtype=torch.float64))
    assert result.best_loss == min(result.tree_losses)


def test_an_ensemble_with_dropout_subsets_averages_and_a_base():
    rows, target = two_moons()
    model = HardTrees(2, 1, n_trees=16, depth=3, split="softsign", generator=seeded())
    base = CrossEntropy().initial(target)
    settings = TrainingSettings(
        max_epochs=40, batch_size=64, learning_rate=0.05, tree_dropout=0.2, averaging="ema", schedule="cosine",
        warmup_epochs=1.0, max_gradient_norm=1.0, optimizer="adamw", weight_decay=1e-4, replace=True,
    )  # fmt: skip
    result = fit(
        model, rows[:200], target[:200], loss="focal", settings=settings, validation=(rows[200:], target[200:]),
        base=base, tree_rows=draw_tree_rows(200, 16, 0.7, seeded()), class_weight="balanced",
    )  # fmt: skip
    assert result.best_tree is None and result.tree_losses is None
    assert (((model(rows[200:]) + base)[:, 0] > 0) == (target[200:] > 0)).float().mean() > 0.9


def test_the_best_epoch_is_kept_and_patience_ends_training():
    """The training rows pull away from what the validation rows want, after passing by it."""
    rows, zeros = torch.zeros(10, 1), torch.zeros(4, 1)
    model = Constant(-1.0)
    settings = TrainingSettings(max_epochs=100, learning_rate=0.1, patience=3)
    result = fit(model, rows, torch.full((10,), 5.0), loss="squared_error", settings=settings,
                 validation=(zeros, torch.zeros(4)))  # fmt: skip
    losses = [record.validation_loss for record in result.history]
    assert result.stop_reason == "early_stopping"
    assert losses[result.best_epoch - 1] == min(losses) == result.best_loss
    assert len(losses) == result.epochs == result.best_epoch + 3
    assert float(model.value.detach().square()) == pytest.approx(result.best_loss)


def test_a_start_that_nothing_improves_on_is_kept():
    model = Constant(0.0)
    result = fit(model, torch.zeros(5, 1), torch.full((5,), 9.0), loss="squared_error",
                 settings=TrainingSettings(max_epochs=3), validation=(torch.zeros(2, 1), torch.zeros(2)))  # fmt: skip
    assert result.best_epoch == 0 and float(model.value.detach()) == 0.0


@pytest.mark.parametrize("kind", ["ema", "checkpoints"])
def test_averages_are_what_is_judged_and_kept(kind):
    """The mean of parameters that swing about is another model than the last one."""
    rows, target = two_moons(100)
    found = {}
    for averaging in ("none", kind):
        model = restarts(2)
        settings = TrainingSettings(max_epochs=9, batch_size=20, learning_rate=0.1, averaging=averaging, ema_decay=0.9)
        visited: list[dict[str, torch.Tensor]] = []

        class Watch:
            def on_fit_begin(self, state): ...

            def on_epoch_end(self, state, visited=visited):
                visited.append(weights_of(state.model))

            def on_fit_end(self, state): ...

        result = fit(model, rows, target, loss="cross_entropy", settings=settings, callbacks=[Watch()])
        found[averaging] = weights_of(model), visited, result
    (last, path, _), (averaged, same_path, _) = found["none"], found[kind]
    assert all(same_bits(one, two) for one, two in zip(path, same_path, strict=True))
    assert same_bits(last, path[-1]) and not same_bits(averaged, path[-1])
    if kind == "checkpoints":
        for name, tensor in averaged.items():
            torch.testing.assert_close(tensor, torch.stack([weights[name] for weights in path[-5:]]).mean(0))


def test_a_weight_of_two_is_a_row_that_stands_twice():
    rows, target = two_moons(60)
    weight = 1.0 + (torch.arange(60) % 3 == 0).float()
    twice = torch.arange(60).repeat_interleave(weight.long())
    settings = TrainingSettings(max_epochs=5, batch_size=200, learning_rate=0.02)
    ends = []
    for x, y, w in ((rows, target, weight), (rows[twice], target[twice], None)):
        model = restarts(1).double()
        w = None if w is None else w.double()
        result = fit(model, x.double(), y, loss="cross_entropy", settings=settings, sample_weight=w,
                     validation=(x.double(), y) if w is None else (x.double(), y, w))  # fmt: skip
        ends.append((result.best_loss, model(rows.double())))
    assert ends[0][0] == pytest.approx(ends[1][0], rel=1e-9)
    torch.testing.assert_close(ends[0][1], ends[1][1], rtol=1e-7, atol=1e-7)


def test_weights_matter_in_small_batches_too():
    model = Constant()
    target = torch.tensor([0.0, 1.0]).repeat(50)
    weight = torch.tensor([3.0, 1.0]).repeat(50)
    settings = TrainingSettings(max_epochs=60, batch_size=20, learning_rate=0.01, averaging="ema")
    fit(model, torch.zeros(100, 1), target, loss="squared_error", settings=settings, sample_weight=weight)
    assert float(model.value.detach()) == pytest.approx(0.25, abs=0.05)


def test_class_weights_are_row_weights():
    rows, target = two_moons(90)
    target = ((torch.arange(90) % 3 == 0) & (target >= 0)).long()
    settings = TrainingSettings(max_epochs=3, batch_size=32)
    ends = []
    for given in (
        {"class_weight": "balanced"},
        {"class_weight": {0: 0.75, 1: 1.5}},
        {"sample_weight": torch.where(target == 1, 1.5, 0.75)},
    ):
        model = restarts(1)
        fit(model, rows, target, loss="cross_entropy", settings=settings, **given)
        ends.append(weights_of(model))
    assert same_bits(ends[0], ends[1]) and same_bits(ends[0], ends[2])
    with pytest.raises(InvalidArgumentError, match="needs a target of class codes"):
        fit(restarts(1), rows, target.float(), loss="huber", class_weight="balanced")


def test_a_users_asymmetric_cost_moves_the_answer():
    model = Constant()
    target = torch.linspace(0, 1, 101)
    settings = TrainingSettings(max_epochs=400, learning_rate=0.01, batch_size=101)
    fit(model, torch.zeros(101, 1), target, settings=settings,
        loss=lambda p, t, w: torch.where(t > p, 3 * (t - p), p - t))  # fmt: skip
    assert float(model.value.detach()) == pytest.approx(0.75, abs=0.03)


def test_evaluations_every_few_steps():
    rows, target = two_moons(100)
    settings = TrainingSettings(max_epochs=3, batch_size=10, evaluate_every=4)
    result = fit(restarts(1), rows, target, loss="cross_entropy", settings=settings)
    assert [record.step for record in result.history] == [4, 8, 12, 16, 20, 24, 28, 30]
    assert [record.epoch for record in result.history] == [1, 1, 2, 2, 2, 3, 3, 3]


def test_a_time_limit():
    rows, target = two_moons(100)
    settings = TrainingSettings(max_epochs=10**6, batch_size=10, max_seconds=0.2)
    result = fit(restarts(1), rows, target, loss="cross_entropy", settings=settings)
    assert result.stop_reason == "max_seconds" and 0.2 <= result.seconds < 5


def test_modes_and_frozen_parameters_stay():
    encoder, trees = nn.Linear(2, 3), HardTrees(3, 1, n_trees=4, depth=2, generator=seeded())
    model = nn.Sequential(encoder, nn.Dropout(0.0), trees)
    encoder.requires_grad_(False)
    model[1].eval()
    before = encoder.weight.clone()
    rows, target = two_moons(50)
    with torch.no_grad():
        fit(model, rows, target, loss="cross_entropy", settings=TrainingSettings(max_epochs=2),
            validation=(rows, target))  # fmt: skip
    assert model.training and trees.training and not model[1].training
    assert torch.equal(encoder.weight, before)


def test_what_does_not_go_together():
    rows, target = two_moons(20)
    cases = [
        ({"settings": TrainingSettings(patience=3)}, "patience=3: needs validation rows"),
        ({"settings": TrainingSettings(schedule="plateau")}, "needs validation rows"),
        ({"settings": TrainingSettings(tree_dropout=0.5)}, "has no meaning for restarts"),
        ({"base": torch.zeros(2)}, r"base.shape=\(2,\): but the model has 1 outputs"),
        ({"tree_rows": torch.ones(20, 5, dtype=torch.bool)}, r"tree_rows.shape=\(20, 5\)"),
        ({"validation": (rows[:, :1], target)}, "validation rows"),
        ({"validation": (rows,)}, "validation"),
        ({"checkpoint": "/nowhere/at/all/file"}, "create that folder first"),
        ({"sample_weight": -torch.ones(20)}, "sample_weight=-1.0: weights must be finite numbers from 0 up"),
    ]
    for given, message in cases:
        with pytest.raises(InvalidArgumentError, match=message):
            fit(restarts(2), rows, target, loss="cross_entropy", **given)
    with pytest.raises(InvalidArgumentError, match="cannot leave out rows by tree"):
        fit(restarts(2), rows, target.float(), loss=lambda p, t, w: (p - t).square().mean(),
            tree_rows=torch.ones(20, 2, dtype=torch.bool))  # fmt: skip
    shared = nn.Sequential(nn.Linear(2, 2), restarts(2))
    with pytest.raises(InvalidArgumentError, match=r"model='0.weight': is shared by trees"):
        fit(shared, rows, target, loss="cross_entropy")
    with pytest.raises(InvalidArgumentError, match=r"target.shape=\(20, 2\): but the model has 1 outputs"):
        fit(restarts(2), rows, rows, loss="squared_error")
