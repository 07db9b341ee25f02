from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from hardwood.errors import InvalidArgumentError
from hardwood.nn import ObliqueTrees
from hardwood.oblique import GetSettings, Problems, Run, Task, choose, search, sparsify
from hardwood.oblique import _run as runs
from hardwood.oblique._leaves import settle
from hardwood.oblique._polish import polish, subtrees
from hardwood.oblique._starts import draw_starts, revive
from hardwood.train import Callback, CheckpointError, TrainingDivergedError, TrainingState

QUICK = GetSettings(
    n_starts=3,
    keep=0.5,
    epochs=4,
    min_steps=40,
    polish_epochs=3,
    polish_min_steps=20,
    batch_size=64,
    skip=1e-3,
    learning_rate=0.02,
)


def task(rows: int = 300, seed: int = 0) -> Task:
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, (rows, 3))
    return Task.of(x, np.where(x[:, 0] + x[:, 1] > 0.2, 1.0, 0.0) + (x[:, 0] - x[:, 2] > 0), np.ones(rows))


def parameters(tree: ObliqueTrees) -> list[np.ndarray]:
    return [each.detach().numpy().copy() for each in tree.parameters()]


def same(one: ObliqueTrees, other: ObliqueTrees) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(parameters(one), parameters(other), strict=True))


@pytest.mark.parametrize("relaxation", ["sigmoid", "softmin"])
def test_hyperplanes_that_no_axis_aligned_tree_of_this_depth_has_are_found(relaxation: Any):
    from sklearn.tree import DecisionTreeRegressor

    given = task(1000)
    settings = dataclasses.replace(QUICK, relaxation=relaxation, epochs=20, min_steps=300, polish_epochs=10)
    _, loss = search(given, 2, "constant", settings, Run(), "a")
    greedy = DecisionTreeRegressor(max_depth=2).fit(given.x, given.y)
    assert loss < 0.25 * ((greedy.predict(given.x) - given.y[:, 0]) ** 2).mean()


@pytest.mark.parametrize("leaf", ["constant", "linear"])
def test_the_loss_is_that_of_the_tree_and_the_same_every_time(leaf: Any):
    given = task()
    tree, loss = search(given, 3, leaf, QUICK, Run(), "a")
    assert settle(Problems.on_all_rows(tree, given), given, QUICK.leaf_shrinkage)[0] == pytest.approx(loss)
    again, _ = search(given, 3, leaf, QUICK, Run(), "a")
    assert same(tree, again)
    other, _ = search(given, 3, leaf, dataclasses.replace(QUICK, random_state=1), Run(), "a")
    assert not same(tree, other)


def test_polish_never_makes_it_worse_and_mostly_better():
    given = task()
    tree, before = search(
        given, 4, "constant", dataclasses.replace(QUICK, polish=False, epochs=1, min_steps=1), Run(), "a"
    )
    after = polish(tree, given, QUICK, Run(), "b")
    assert after < before
    for _ in range(2):
        again = polish(tree, given, QUICK, Run(), "c")
        assert again <= after + 1e-9
        after = again


def test_subtrees_have_their_own_rows_and_the_tree_s_answers():
    given = task()
    tree = draw_starts(given, 4, 1, 0, "constant", [0])
    settle(Problems.on_all_rows(tree, given), given)
    leaf = tree.leaves(torch.from_numpy(given.x)).numpy()[:, 0]
    for level in range(4):
        found = subtrees(tree, given, level)
        assert found is not None
        problems, roots = found
        assert len(np.unique(problems.rows)) == len(problems.rows)
        places = np.repeat(roots, np.diff(problems.row_start))
        assert np.array_equal(leaf[problems.rows] >> (4 - level), places)
        assert np.array_equal(problems.leaves(given) + (places << (4 - level)), leaf[problems.rows])


def test_subtrees_with_nothing_to_learn_are_left_out():
    given = task()
    constant = Task.of(given.x, np.zeros(300), np.ones(300))
    tree = draw_starts(given, 3, 1, 0, "constant", [0])
    assert subtrees(tree, constant, 0) is None
    one = Task.of(given.x[:1], given.y[:1], np.ones(1))
    assert subtrees(tree, one, 0) is None


def test_splits_that_send_all_rows_one_way_are_drawn_anew():
    given = task()
    tree = draw_starts(given, 3, 1, 0, "constant", [0])
    with torch.no_grad():
        tree.thresholds[0, :3] = 99.0
    before = settle(Problems.on_all_rows(tree, given), given)[0]
    assert revive(tree, given.x, [np.arange(300)], given.y) >= 2
    assert settle(Problems.on_all_rows(tree, given), given)[0] < before
    assert revive(tree, given.x, [np.arange(300)], given.y) == 0


def test_greedy_starts_are_near_the_greedy_tree():
    from sklearn.tree import DecisionTreeRegressor

    given = task()
    tree = draw_starts(given, 3, 2, 2, "constant", [0])
    losses = settle(Problems.on_all_rows(tree, given), given)
    greedy = DecisionTreeRegressor(max_depth=3).fit(given.x, given.y)
    assert losses[0] < 2 * ((greedy.predict(given.x) - given.y[:, 0]) ** 2).mean()


class StopAfter(Callback):
    def __init__(self, count: int, interrupt: bool = False) -> None:
        self.count, self.interrupt, self.ended = count, interrupt, 0

    def on_epoch_end(self, state: TrainingState) -> bool | None:
        assert state.record.tree_losses is not None
        return len(state.history) >= self.count

    def on_fit_end(self, state: TrainingState) -> None:
        self.ended += 1


@pytest.mark.parametrize("after", [1, 3, 5])
def test_a_search_that_is_resumed_ends_where_it_would_have(after: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(runs, "_CHECKPOINT_SECONDS", 0.0)
    given = task()
    whole, loss = search(given, 3, "constant", QUICK, Run(), "a")
    path = tmp_path / "state.safetensors"
    run = Run(checkpoint=path, callbacks=[StopAfter(after)], identity={"rows": "x"})
    search(given, 3, "constant", QUICK, run, "a")
    run.close()
    assert run.stopped == "callback"
    resumed = Run(resume_from=path, identity={"rows": "x"})
    tree, its_loss = search(given, 3, "constant", QUICK, resumed, "a")
    assert same(tree, whole) and its_loss == loss
    reference = Run()
    search(given, 3, "constant", QUICK, reference, "a")
    assert [each.loss for each in resumed.history] == [each.loss for each in reference.history]
    with pytest.raises(CheckpointError, match="rows"):
        Run(resume_from=path, identity={"rows": "y"})


def test_resuming_in_the_middle_of_a_stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(runs, "_CHECKPOINT_SECONDS", 0.0)
    monkeypatch.setattr("hardwood.oblique._descent._SECONDS", 0.0)  # a look after every epoch
    given = task()
    whole, _ = search(given, 3, "constant", QUICK, Run(), "a")
    path = tmp_path / "state.safetensors"

    class Cut(Run):
        ticks = 0

        def tick(self, *given: Any) -> None:
            super().tick(*given)
            self.ticks += 1

        def note(self, *given: Any, **more: Any) -> None:
            super().note(*given, **more)
            if self.ticks == 5:
                raise RuntimeError("the power went out")

    with pytest.raises(RuntimeError, match="power"):
        search(given, 3, "constant", QUICK, Cut(checkpoint=path), "a")
    tree, _ = search(given, 3, "constant", QUICK, Run(resume_from=path), "a")
    assert same(tree, whole)


def test_ctrl_c_keeps_the_best_so_far(monkeypatch: pytest.MonkeyPatch):
    from hardwood.oblique._descent import Descent

    advance, calls = Descent.advance, []

    def interrupted(self: Descent) -> int:
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return advance(self)

    monkeypatch.setattr(Descent, "advance", interrupted)
    monkeypatch.setattr("hardwood.oblique._descent._SECONDS", 0.0)
    given, run = task(), Run()
    tree, loss = search(given, 3, "constant", QUICK, run, "a")
    assert run.stopped == "interrupted" and len(calls) == 2
    assert settle(Problems.on_all_rows(tree, given), given)[0] == pytest.approx(loss)


def test_time_runs_out():
    run = Run(max_seconds=1e-9)
    search(task(), 3, "constant", QUICK, run, "a")
    assert run.stopped == "max_seconds" and len(run.history) == 1


def test_callbacks_hear_of_every_stage():
    listener = StopAfter(99)
    run = Run(callbacks=[listener])
    search(task(), 3, "constant", QUICK, run, "a")
    run.close()
    assert len(run.history) == 2 + 3 * 2 and listener.ended == 1
    assert len(run.history[0].tree_losses or ()) == 3 and len(run.history[1].tree_losses or ()) == 2


def test_depth_and_shrinkage_by_validation():
    given, held_out = task(), task(seed=1)
    best = choose(
        [(given, held_out)],
        "constant",
        QUICK,
        Run(),
        depths=(1, 2, 3),
        penalties=(0.0,),
        shrinkages=(0.0, 1e6),
        patience=3,
    )
    assert best.depth > 1 and best.shrinkage == 0.0
    noise = Task.of(given.x, np.random.default_rng(0).normal(size=300), np.ones(300))
    held = Task.of(held_out.x, np.random.default_rng(1).normal(size=300), np.ones(300))
    best = choose(
        [(noise, held), (held, noise)],
        "constant",
        QUICK,
        Run(),
        depths=(1, 4),
        penalties=(0.0,),
        shrinkages=(0.0, 1e6),
        patience=2,
    )
    assert best.shrinkage == 1e6


def test_sparsified_splits_keep_their_zeros():
    given = task()
    tree, _ = search(given, 2, "constant", QUICK, Run(), "a")
    loss = sparsify(tree, given, 0.9, QUICK, Run(), "a")
    used = (tree.split_weights != 0).sum(2)
    assert (used >= 1).all() and int(used.min()) < 3
    assert settle(Problems.on_all_rows(tree, given), given)[0] == pytest.approx(loss)


def test_trees_that_diverge_stop_the_search_with_a_reason():
    settings = dataclasses.replace(QUICK, learning_rate=1e38)
    with pytest.raises(TrainingDivergedError, match="learning_rate"):
        search(task(), 2, "linear", settings, Run(), "a")


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({"scale_factors": ()}, "scale_factors"),
        ({"scale_factors": ((5, 1),)}, "scale_factors"),
        ({"n_starts": 0}, "n_starts"),
        ({"n_greedy": 11}, "n_greedy"),
        ({"keep": 0.0}, "keep"),
        ({"skip": 0.7}, "skip"),
        ({"l1": -1.0}, "l1"),
    ],
)
def test_bad_settings(given: dict[str, Any], name: str):
    with pytest.raises(InvalidArgumentError, match=name):
        GetSettings(**given)


def test_bad_tasks():
    with pytest.raises(InvalidArgumentError, match="target"):
        Task.of(np.zeros((2, 1)), np.zeros(3), np.ones(2))
    with pytest.raises(InvalidArgumentError, match="finite"):
        Task.of(np.array([[np.nan]]), np.zeros(1), np.ones(1))
