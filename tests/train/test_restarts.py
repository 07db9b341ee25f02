"""Restarts: trees trained together are trees trained alone."""

from __future__ import annotations

import pytest
import torch

from hardwood.train import Callback, TrainingSettings, TrainingWarning, draw_tree_rows, fit
from helpers.training import alone, restarts, seeded, two_moons

OPTIONS = {
    "plain": {},
    "early": {"patience": 2},
    "clipped": {"max_gradient_norm": 0.05},
    "ema": {"averaging": "ema", "ema_decay": 0.9},
    "checkpoints": {"averaging": "checkpoints", "averaged_checkpoints": 3},
    "plateau": {"schedule": "plateau", "plateau_patience": 1},
    "cosine": {"schedule": "cosine", "warmup_epochs": 1.5, "optimizer": "adamw", "weight_decay": 0.1},
}


@pytest.mark.parametrize("case", OPTIONS)
def test_together_is_alone(case):
    rows, target = two_moons(120)
    rows, settings = rows.double(), TrainingSettings(max_epochs=8, batch_size=32, learning_rate=0.1, **OPTIONS[case])
    given = {"loss": "cross_entropy", "settings": settings, "validation": (rows[80:], target[80:])}
    together = restarts(4, depth=4).double()
    singles = [alone(together, tree).double() for tree in range(4)]
    subsets = draw_tree_rows(80, 4, 0.6, seeded()) if case == "plain" else None
    result = fit(together, rows[:80], target[:80], tree_rows=subsets, **given)
    if case in ("early", "plateau"):
        assert len(set(result.tree_epochs)) > 1  # else this would show nothing
    for tree, single in enumerate(singles):
        own = None if subsets is None else subsets[:, tree : tree + 1]
        by_itself = fit(single, rows[:80], target[:80], tree_rows=own, **given)
        assert by_itself.best_tree == 0
        assert by_itself.best_epoch == result.tree_epochs[tree]
        assert by_itself.best_loss == pytest.approx(result.tree_losses[tree], abs=1e-9)
        for name, parameter in single.named_parameters():
            torch.testing.assert_close(together.get_parameter(name)[tree], parameter[0], atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("averaging", ["none", "ema", "checkpoints"])
def test_a_restart_that_fails_does_not_harm_the_others(averaging):
    rows, target = two_moons(120)
    model, healthy = restarts(3), restarts(3)

    class Poison(Callback):
        def on_epoch_end(self, state):
            if state.epoch == 1:
                with torch.no_grad():
                    state.model.leaf_values[1] = float("nan")

    given = {
        "loss": "cross_entropy",
        "settings": TrainingSettings(max_epochs=3, batch_size=32, max_gradient_norm=1.0, averaging=averaging),
        "validation": (rows, target),
    }
    with pytest.warns(TrainingWarning, match=r"the loss of 1 of 3 restarts became infinite or NaN: \[1\]"):
        result = fit(model, rows, target, callbacks=[Poison()], **given)
    expected = fit(healthy, rows, target, **given)
    assert result.tree_losses[::2] == pytest.approx(expected.tree_losses[::2])
    assert result.tree_epochs[1] == 1 and result.tree_losses[1] >= expected.tree_losses[1]
    assert result.best_tree == expected.best_tree or expected.best_tree == 1


def test_without_validation_rows_the_training_loss_chooses():
    rows, target = two_moons(120)
    model = restarts(3)
    result = fit(model, rows, target, loss="cross_entropy", settings=TrainingSettings(max_epochs=3))
    losses = torch.nn.functional.binary_cross_entropy_with_logits(
        model(rows)[..., 0], target[:, None].expand(-1, 3).float(), reduction="none"
    ).mean(0)
    assert result.best_tree == int(losses.argmin()) and result.best_loss is None
    torch.testing.assert_close(torch.tensor(result.tree_losses).float(), losses.detach())
