"""`partial_fit` moves every part of the trees, remembers earlier calls, and survives rows of any kind."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from hardwood.errors import InvalidArgumentError
from hardwood.train import TrainingDivergedError
from helpers.fits import (
    ALL,
    CLASSIFIERS,
    GRANDES,
    REGRESSORS,
    answers,
    layer_of,
    mixed,
    mixed_target,
    numbers,
    table,
    target_for,
    tiny,
)
from helpers.tables import FRAMES, make_frame


def first(kind: Any, y: Any = (0, 1)) -> dict[str, Any]:
    """Return what the first call of `partial_fit` needs."""
    return {"classes": np.unique(y)} if kind in CLASSIFIERS else {}


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("begin", ["partial_fit", "fit"])
def test_every_call_moves_splits_thresholds_and_leaves(kind, begin):
    X, y = table(kind)
    model = tiny(kind)
    if begin == "fit":
        model.fit(X, y)
    else:
        model.partial_fit(X, y, **first(kind))
    for call in range(1, 4):
        before = layer_of(model)
        model.partial_fit(*table(kind, seed=call))
        after = layer_of(model)
        moved = ["split_logits", "thresholds", "leaf_values", *(["leaf_weights"] if kind in GRANDES else [])]
        assert all(not torch.equal(before[name], after[name]) for name in moved)
        np.testing.assert_array_equal(answers(model, X), answers(model, X))
    assert model.n_iter_ == (3 if begin == "fit" else 1) + 3
    assert model.history_ is None and model.best_loss_ is None


@pytest.mark.parametrize("kind", ALL)
def test_calls_teach(kind):
    X, y = table(kind, 300, seed=9)
    rates = {"split_logits_rate": 0.05, "thresholds_rate": 0.05, "leaf_values_rate": 0.1}
    model = tiny(kind, init="random", **rates)
    scores = []
    for call in range(40):
        model.partial_fit(*table(kind, 100, seed=call), **(first(kind) if call == 0 else {}))
        if call in (0, 39):
            scores.append(model.score(X, y))
    assert scores[-1] > scores[0] + 0.1


@pytest.mark.parametrize("kind", ALL)
def test_calls_remember_the_optimiser_s_averages(kind):
    X, y = table(kind)
    going, anew = (tiny(kind).partial_fit(X, y, **first(kind)) for _ in range(2))
    going.partial_fit(X, y)
    anew._online = None
    anew.partial_fit(X, y)
    assert not torch.equal(layer_of(going)["thresholds"], layer_of(anew)["thresholds"])


@pytest.mark.parametrize("kind", ALL)
def test_the_first_call_starts_where_fit_starts(kind):
    X, y = table(kind)
    still = {"split_logits_rate": 0, "thresholds_rate": 0, "leaf_values_rate": 0, "batch_size": 200, "prune": False}
    weight = {"class_weight": None} if kind in CLASSIFIERS else {}
    model = tiny(kind, **still, **weight).partial_fit(X, y, **first(kind))
    assert model.score(X, y) > 0.6


@pytest.mark.parametrize("kind", ALL)
def test_rates_can_be_changed_between_calls(kind):
    X, y = table(kind)
    model = tiny(kind).partial_fit(X, y, **first(kind))
    model.set_params(split_logits_rate=0, thresholds_rate=0, leaf_values_rate=0.05)
    before = layer_of(model)
    steps = model._online.steps
    model.partial_fit(X, y)
    after = layer_of(model)
    assert torch.equal(before["split_logits"], after["split_logits"])
    assert not torch.equal(before["leaf_values"], after["leaf_values"])
    assert model._online.steps > steps


@pytest.mark.parametrize("kind", ALL)
def test_a_call_of_one_row_does_not_forget_the_branches_that_other_rows_take(kind):
    X, y = table(kind, 200)
    still = {"split_logits_rate": 0, "thresholds_rate": 0, "leaf_values_rate": 0}
    still |= {"leaf_weights_rate": 0} if kind in GRANDES else {}
    model = tiny(kind, max_iter=10).fit(X, y)
    before = answers(model, X)
    for row in range(3):
        model.set_params(**still).partial_fit(X[row : row + 1], y[row : row + 1])
    np.testing.assert_allclose(answers(model, X), before, atol=1e-6)


@pytest.mark.parametrize("kind", ALL)
def test_only_the_rows_of_the_call_count(kind):
    X, y = table(kind)
    one, two = (tiny(kind, batch_size=200).fit(X, y) for _ in range(2))
    weight = np.r_[np.ones(30), np.zeros(60)]
    one.partial_fit(X, y, sample_weight=weight)
    two.partial_fit(X[:30], y[:30])
    for name, value in layer_of(one).items():
        torch.testing.assert_close(value, layer_of(two)[name], atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("name", FRAMES)
@pytest.mark.parametrize("kind", ALL)
def test_new_rows_may_have_categories_that_the_first_did_not(kind, name):
    columns = mixed()
    y = mixed_target(kind, columns)
    model = tiny(kind).partial_fit(make_frame(name, columns), y, **first(kind, y))
    later = mixed(60, seed=5)
    later["colour"] = ["violet", None, "red"] * 20
    model.partial_fit(make_frame(name, later), mixed_target(kind, later))
    assert np.isfinite(answers(model, make_frame(name, later))).all()
    np.testing.assert_array_equal(
        answers(model, make_frame(name, {**later, "colour": ["violet"] * 60})),
        answers(model, make_frame(name, {**later, "colour": [None] * 60})),
    )


@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_classes_may_come_later(kind):
    X, y = table(kind)
    names = np.array(["no", "yes", "maybe"])
    model = tiny(kind).partial_fit(X, np.full(90, "no"), classes=names)
    assert list(model.classes_) == ["maybe", "no", "yes"]
    assert model.predict_proba(X).shape == (90, 3)
    model.set_params(leaf_values_rate=0.3, split_logits_rate=0.05, thresholds_rate=0.05)
    for _ in range(30):
        model.partial_fit(X, names[y])
    assert model.score(X, names[y]) > 0.7
    two = tiny(kind).partial_fit(X[:1], ["yes"], classes=["no", "yes"])
    assert two.predict(X).tolist() == ["yes"] * 90


@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_balanced_weights_count_the_rows_so_far(kind):
    X, y = table(kind, 100)
    model = tiny(kind, class_weight="balanced").partial_fit(X[y == 0], y[y == 0], classes=[0, 1])
    model.partial_fit(X, y)
    np.testing.assert_array_equal(model._session.counted, [2 * (y == 0).sum(), (y == 1).sum()])
    # Both classes have the same share in what the second call minimised.
    by_hand = tiny(kind, class_weight=None).partial_fit(X[y == 0], y[y == 0], classes=[0, 1])
    factor = 1 / model._session.counted
    by_hand.partial_fit(X, y, sample_weight=factor[y] / factor[y].mean())
    np.testing.assert_allclose(answers(model, X), answers(by_hand, X), atol=1e-5)
    fitted = tiny(kind, class_weight="balanced").fit(X, y).partial_fit(X, y)
    np.testing.assert_array_equal(fitted._session.counted, 2 * np.bincount(y))


@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_several_labels_are_learned_in_calls(kind):
    X = numbers(90)
    y = (X[:, :3] > 0).astype(int)
    model = tiny(kind).partial_fit(X, y).partial_fit(X, y)
    assert model.predict(X).shape == (90, 3)
    with pytest.raises(InvalidArgumentError, match=r"y=.*not like that of the first call"):
        model.partial_fit(X, y[:, :2])
    with pytest.raises(InvalidArgumentError, match=r"y=.*not like that of the first call"):
        model.partial_fit(X, y[:, 0])


@pytest.mark.parametrize("kind", REGRESSORS)
def test_later_targets_are_in_the_same_units(kind):
    X, y = table(kind, 100)
    model = tiny(kind, leaf_values_rate=0.3, thresholds_rate=0, split_logits_rate=0)
    model.partial_fit(X, 50 + 10 * y)
    for _ in range(40):
        model.partial_fit(X, 150 + 10 * y)
    assert np.abs(model.predict(X) - (150 + 10 * y)).mean() < 30


def test_what_needs_an_end_is_refused():
    X, y = table(REGRESSORS[0])
    for given in ({"schedule": "cosine"}, {"averaging": "ema"}, {"selection": "annealed"}):
        (name, value) = next(iter(given.items()))
        with pytest.raises(InvalidArgumentError, match=f"{name}='{value}': needs a training with an end; set {name}="):
            tiny(REGRESSORS[0], **given).partial_fit(X, y)


@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_classes_are_named_in_the_first_call_and_stay(kind):
    X, y = table(kind)
    with pytest.raises(InvalidArgumentError, match=r"classes=None: is needed in the first call"):
        tiny(kind).partial_fit(X, y)
    model = tiny(kind).partial_fit(X, y, classes=[0, 1, 2])
    assert model.partial_fit(X, y, classes=[2, 1, 0]) is model
    with pytest.raises(InvalidArgumentError, match=r"classes=\[0, 1\]: are not those of the first call, \[0 1 2\]"):
        model.partial_fit(X, y, classes=[0, 1])
    with pytest.raises(InvalidArgumentError, match=r"y=.*7.*is not one of the classes \[0, 1, 2\]"):
        model.partial_fit(X, y + 7)
    with pytest.raises(InvalidArgumentError, match=r"is not one of the classes"):
        model.partial_fit(X, np.array(["a", "b"])[y])


@pytest.mark.parametrize("kind", ALL)
def test_a_call_that_fails_changes_nothing(kind):
    X, y = table(kind)
    fresh = tiny(kind)
    with pytest.raises(InvalidArgumentError):
        fresh.partial_fit(X, y, sample_weight=np.zeros(90), **first(kind))
    assert not [name for name in vars(fresh) if name.endswith("_")] and fresh._session is None
    model = tiny(kind).partial_fit(X, y, **first(kind))
    before, layer = dict(vars(model)), layer_of(model)
    large = np.tile(X, (9, 1)), np.tile(y, 9)
    for wrong in (
        lambda: model.partial_fit(np.c_[X, X], y),
        lambda: model.partial_fit(X, y[:3]),
        lambda: model.partial_fit(X[:0], y[:0]),
        lambda: model.set_params(max_depth=4).partial_fit(X, y),
        lambda: model.set_params(leaf_values_rate=1e30, split_logits_rate=1e38).partial_fit(*large),
    ):
        with pytest.raises((ValueError, TrainingDivergedError)):
            wrong()
        model.set_params(max_depth=3, leaf_values_rate=None, split_logits_rate=None)
        assert vars(model) == before
        assert all(torch.equal(value, layer_of(model)[name]) for name, value in layer.items())


@pytest.mark.parametrize("kind", ALL)
def test_the_trees_and_the_loss_stay_what_they_are(kind):
    X, y = table(kind)
    model = tiny(kind).partial_fit(X, y, **first(kind))
    other = {"loss": "focal" if kind in CLASSIFIERS else "huber", "split": "entmoid", "numeric": "standard"}
    for name, value in {**other, "max_depth": 2, "monotonic_cst": [1, 0, 0, 0]}.items():
        before = getattr(model, name)
        with pytest.raises(InvalidArgumentError, match=rf"{name}=.*: was .* when the trees were made; set {name}="):
            model.set_params(**{name: value}).partial_fit(X, y)
        model.set_params(**{name: before})
    model.partial_fit(X, y)


@pytest.mark.parametrize("kind", ALL)
def test_calls_run_on_after_a_fit_of_one_class_or_none(kind):
    X, y = table(kind)
    if kind in CLASSIFIERS:
        model = tiny(kind).fit(X, np.zeros(90, int))
        with pytest.raises(InvalidArgumentError, match=r"classes=None: is needed"):
            model.partial_fit(X, y)
        assert model.partial_fit(X, y, classes=[0, 1]).predict_proba(X).shape == (90, 2)
    else:
        assert np.isfinite(tiny(kind).fit(X, 0 * y).partial_fit(X, target_for(kind, X)).predict(X)).all()
