"""What is learned: every loss teaches, in the user's units, and a loss that breaks leaves nothing behind."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from hardwood import train
from hardwood.errors import InvalidArgumentError
from hardwood.estimators._target import of_classes, of_numbers, of_shares
from helpers.fits import ALL, CLASSIFIERS, REGRESSORS, answers, layer_of, numbers, table, tiny

CLASS_LOSSES = {
    "cross_entropy": train.CrossEntropy(),
    "focal": train.CrossEntropy(gamma=2.0),
    "poly": train.CrossEntropy(epsilon=2.0),
}
NUMBER_LOSSES = {
    "squared_error": train.SquaredError(),
    "absolute_error": train.AbsoluteError(),
    "huber": train.Huber(),
    "quantile": train.Quantile(),
    "poisson": train.Poisson(),
    "tweedie": train.Tweedie(),
}


def mean_loss(loss: Any, raw: np.ndarray, target: np.ndarray) -> float:
    """Return the mean loss of raw outputs, before any link."""
    prediction = torch.from_numpy(np.array(raw, np.float64).reshape(len(raw), -1))
    answer = torch.from_numpy(np.asarray(target))
    return float(loss(prediction, loss.prepare(answer, prediction.shape[1], torch.float64)).mean())


def explained(loss: Any, raw: np.ndarray, perfect: np.ndarray, target: np.ndarray) -> float:
    """Return how far raw outputs come from the best constant (0) towards a perfect answer (1)."""
    start = loss.initial(torch.from_numpy(np.asarray(target)), None).double().numpy()
    constant = mean_loss(loss, np.broadcast_to(start, (len(target), len(start))), target)
    best = mean_loss(loss, perfect, target)
    return (constant - mean_loss(loss, raw, target)) / (constant - best)


FROM_RANDOM = {"init": "random", "split_logits_rate": 0.1, "thresholds_rate": 0.1, "leaf_values_rate": 0.1}


@pytest.mark.parametrize("options", [{}, FROM_RANDOM], ids=["greedy", "random"])
@pytest.mark.parametrize("name", CLASS_LOSSES)
@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_every_loss_of_classes_teaches(kind, name, options):
    X, y = table(kind, 100)
    loss = CLASS_LOSSES[name]
    for answer in (y, y + (X[:, 2] > 0.5)):
        model = tiny(kind, loss=name, class_weight=None, max_iter=20, **options).fit(X, answer)
        perfect = 40.0 * (answer[:, None] == np.arange(3)) if answer.max() > 1 else 40.0 * answer - 20.0
        whole = train.CrossEntropy(loss.gamma, loss.epsilon, n_classes=int(answer.max()) + 1)
        assert explained(whole, model.forest_.outputs(X), perfect, answer) > 0.15


@pytest.mark.parametrize("options", [{}, FROM_RANDOM], ids=["greedy", "random"])
@pytest.mark.parametrize("name", NUMBER_LOSSES)
@pytest.mark.parametrize("kind", REGRESSORS)
def test_every_loss_of_numbers_teaches(kind, name, options):
    X, y = table(kind, 100)
    loss = NUMBER_LOSSES[name]
    model = tiny(kind, loss=name, max_iter=20, **options).fit(X, y)
    logarithmic = name in ("poisson", "tweedie")
    assert explained(loss, model.forest_.outputs(X), np.log(y) if logarithmic else y, y) > 0.2
    assert model.forest_.link == ("exp" if logarithmic else "identity")
    np.testing.assert_array_equal(model.predict(X), model.forest_.predict(X))


@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_every_loss_of_labels_teaches(kind):
    X = numbers(100)
    y = np.stack([X[:, 0] > 0, X[:, 1] > 0.5, X[:, 0] + X[:, 1] > 0], axis=1).astype(int)
    for name, loss in {
        "multilabel": train.MultiLabel(),
        "cross_entropy": train.MultiLabel(),
        "focal": train.MultiLabel(gamma=2.0),
        "poly": train.MultiLabel(epsilon=2.0),
    }.items():
        assert of_classes(y.astype(float), name).loss == loss
        model = tiny(kind, loss=name, max_iter=10).fit(X, y)
        assert explained(loss, model.forest_.outputs(X), 40.0 * y - 20.0, y) > 0.3


def test_a_loss_by_its_name_is_the_loss_itself():
    labels, values = np.array([0, 1, 2]), np.array([1.0, 2.0, 3.0])
    for name, loss in CLASS_LOSSES.items():
        assert of_classes(labels, name).loss == of_classes(labels, loss).loss
    for name, loss in NUMBER_LOSSES.items():
        assert of_numbers(values, name, np.ones(3)).loss == of_numbers(values, loss, np.ones(3)).loss


@pytest.mark.parametrize("kind", REGRESSORS)
@pytest.mark.parametrize("alpha", [0.1, 0.9, (0.1, 0.5, 0.9)])
def test_quantiles_are_covered_as_often_as_they_say(kind, alpha):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    y = 3 * X[:, 0] + rng.normal(size=200) + 100
    options = {"max_iter": 80, "leaf_values_rate": 0.1, "batch_size": 200, "early_stopping": False}
    model = tiny(kind, loss=train.Quantile(alpha=alpha), **options).fit(X, y)
    levels = np.atleast_1d(alpha)
    predicted = model.predict(X).reshape(200, len(levels))
    np.testing.assert_allclose((y[:, None] <= predicted).mean(axis=0), levels, atol=0.08)
    assert model.n_outputs_ == len(levels)
    assert explained(train.Quantile(alpha=alpha), predicted, np.tile(y[:, None], len(levels)), y) > 0.3


@pytest.mark.parametrize("kind", REGRESSORS)
def test_a_loss_of_one_s_own_that_says_what_a_named_one_says_learns_the_same(kind):
    X, y = table(kind)
    y = 16.0 * (y - y.mean()) / y.std()  # a power of two: other units, and the same bits
    # The leaves of GradTree are set by means where the loss is known to call for them.
    name, own = {
        "GradTreeRegressor": ("absolute_error", lambda p, t, w: (p - t).abs()),
        "GrandeRegressor": ("squared_error", lambda p, t, w: (p - t) ** 2),
    }[kind.__name__]
    named = tiny(kind, loss=name).fit(X, y)
    for loss in (own, train.CustomLoss(own)):
        off = np.abs(tiny(kind, loss=loss).fit(X, y).predict(X) - named.predict(X))
        assert (off < 1e-3).mean() > 0.9
        assert off.max() < 1


@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_a_loss_of_classes_of_one_s_own_learns_what_a_named_one_learns(kind):
    X, y = table(kind)
    three = y + (X[:, 2] > 0.5)
    for answer, loss in (
        (y, lambda p, t, w: F.binary_cross_entropy_with_logits(p, t.to(p), reduction="none")),
        (three, lambda p, t, w: F.cross_entropy(p, t, reduction="none")),
    ):
        fitted = [tiny(kind, loss=each, early_stopping=False).fit(X, answer) for each in ("cross_entropy", loss)]
        named, own = map(layer_of, fitted)
        for name in ("split_logits", "thresholds"):
            torch.testing.assert_close(named[name], own[name], atol=1e-4, rtol=0)


@pytest.mark.parametrize("kind", REGRESSORS)
def test_an_asymmetric_cost_moves_predictions_to_its_cheap_side(kind):
    X, y = table(kind, 100)

    def predicted(dear: float) -> np.ndarray:
        loss = lambda p, t, w: torch.where(p < t, dear, 1 / dear) * (p - t) ** 2  # noqa: E731
        return np.asarray(tiny(kind, loss=loss, max_iter=30, leaf_values_rate=0.1).fit(X, y).predict(X))

    above, below = predicted(3.0), predicted(1 / 3)
    assert (above > y).mean() > 0.6 > 0.4 > (below > y).mean()


@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_leaves_keep_what_a_loss_of_classes_of_one_s_own_asks_for(kind):
    """A missed positive costs ten times as much: probabilities of the positive class rise above its share."""
    X, y = table(kind, 100)

    def dear(p: Any, t: Any, w: Any) -> Any:
        return F.binary_cross_entropy_with_logits(p, t.to(p), reduction="none", pos_weight=p.new_tensor(10.0))

    options = {"class_weight": None, "max_iter": 60, "leaf_values_rate": 0.1}
    plain, cautious = (tiny(kind, loss=loss, **options).fit(X, y) for loss in ("cross_entropy", dear))
    assert cautious.predict_proba(X)[:, 1].mean() > plain.predict_proba(X)[:, 1].mean() + 0.05


@pytest.mark.parametrize("kind", REGRESSORS)
@pytest.mark.parametrize("unit", [1e-12, 1e9])
def test_the_unit_of_the_target_makes_no_difference(kind, unit):
    X, y = table(kind)
    for loss in ("squared_error", "quantile"):
        one = tiny(kind, loss=loss).fit(X, y).predict(X)
        two = tiny(kind, loss=loss).fit(X, y * unit + unit).predict(X)
        np.testing.assert_allclose((two - unit) / unit, one, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("kind", REGRESSORS)
def test_several_outputs_are_learned_at_once(kind):
    X, y = table(kind, 100)
    both = np.stack([y, 1000 - 5 * y], axis=1)
    for loss in ("squared_error", "absolute_error", "huber", lambda p, t, w: ((p - t) ** 2).sum(1)):
        model = tiny(kind, loss=loss, max_iter=20).fit(X, both)
        assert model.predict(X).shape == (100, 2)
        assert model.score(X, both) > 0.3
    column = tiny(kind).fit(X, y[:, None])
    assert column.predict(X).shape == (100,)
    assert column.forest_ == tiny(kind).fit(X, y).forest_


@pytest.mark.parametrize("kind", ALL)
def test_a_loss_that_breaks_says_so_and_leaves_the_estimator_as_it_was(kind):
    X, y = table(kind)

    def broken(p: Any, t: Any, w: Any) -> Any:
        value = ((p - t) ** 2).reshape(len(t), -1).sum(1)
        return value * torch.where(value.new_tensor(float(calls.pop() if calls else 0)) > 0, 1.0, torch.nan)

    calls = [1, 1]
    model = tiny(kind, loss=broken, early_stopping=False, max_iter=50)
    with pytest.raises(train.TrainingDivergedError, match=r"loss became nan.*lower the learning rates"):
        model.fit(X, y)
    assert not [name for name in vars(model) if name.endswith("_")]
    good = tiny(kind).fit(X, y)
    before, said = dict(vars(good)), answers(good, X)
    good.set_params(loss=lambda p, t, w: p.reshape(len(p), -1).sum(1) * torch.nan)
    wide = np.c_[X, X]
    with pytest.raises(train.TrainingDivergedError):
        good.fit(wide, np.where(y > np.median(y), 9, 3))
    assert {**vars(good), "loss": 0} == {**before, "loss": 0}
    np.testing.assert_array_equal(answers(good, X), said)


@pytest.mark.parametrize(
    ("kind", "loss", "message"),
    [
        (CLASSIFIERS[0], "squared_error", "choose one of 'cross_entropy', 'focal', 'poly'"),
        (CLASSIFIERS[0], train.SquaredError(), "loss=SquaredError.*'sigmoid'"),
        (CLASSIFIERS[0], train.Quantile(), "loss=Quantile"),
        (CLASSIFIERS[0], 3, "loss=3: is neither a name nor a function"),
        (CLASSIFIERS[0], lambda p, t, w: "high", "loss=.*returned str"),
        (CLASSIFIERS[0], lambda p, t, w: p[:3], r"loss=.*returned a tensor of shape \(3,\)"),
        (REGRESSORS[0], "cross_entropy", "loss='cross_entropy': is not known for numbers; choose one of 'squared"),
        (REGRESSORS[0], "mse", "loss='mse'"),
        (REGRESSORS[0], None, "loss=None"),
    ],
)
def test_losses_that_do_not_fit_the_target_are_refused(kind, loss, message):
    X, y = table(kind)
    with pytest.raises(InvalidArgumentError, match=message):
        tiny(kind, loss=loss).fit(X, y)


@pytest.mark.parametrize("kind", REGRESSORS)
def test_targets_outside_a_loss_s_range_are_refused_by_name(kind):
    X, y = table(kind)
    for loss, wrong in (
        ("poisson", -y),
        ("tweedie", -y),
        ("poisson", 0 * y),
        (train.Tweedie(2.0), np.maximum(y - 1, 0)),
    ):
        with pytest.raises(InvalidArgumentError, match=r"^y=.*this loss needs numbers"):
            tiny(kind, loss=loss).fit(X, wrong)
    with pytest.raises(InvalidArgumentError, match=r"alpha=.*single target"):
        tiny(kind, loss=train.Quantile(alpha=(0.2, 0.8))).fit(X, np.c_[y, y])


@pytest.mark.parametrize("kind", REGRESSORS)
def test_shares_can_be_learned_as_numbers(kind):
    X, y = table(kind, 100)
    share = y / (1 + y)
    model = tiny(kind, loss=train.CrossEntropy(), max_iter=30).fit(X, share)
    assert model.score(X, share) > 0.3
    assert ((model.predict(X) >= 0) & (model.predict(X) <= 1)).all()


# ---------------------------------------------------------------- the value itself


def test_outputs_of_means_predict_these_means():
    shares = np.array([[0.2, 0.8], [0.5, 0.5]])
    two = of_classes(np.array(["a", "b"]), "cross_entropy")
    np.testing.assert_allclose(1 / (1 + np.exp(-two.outputs_of(shares)))[:, 0], [0.8, 0.5])
    three = of_classes(np.array([1, 2, 3]), "cross_entropy")
    raised = np.exp(three.outputs_of(np.array([[0.2, 0.3, 0.5]])))
    np.testing.assert_allclose(raised / raised.sum(), [[0.2, 0.3, 0.5]])
    weight = np.array([1.0, 3.0])
    for loss in NUMBER_LOSSES:
        target = of_numbers(np.array([5.0, 9.0]), loss, weight)
        raw = target.outputs_of(target.signal) * target.scale + target.shift
        np.testing.assert_allclose(np.exp(raw) if target.link == "exp" else raw, [[5.0], [9.0]])
        np.testing.assert_allclose(target.given, [5.0, 9.0])


def test_a_target_gives_back_what_it_was_given():
    labels = np.array(["b", "a", "c", "a"])
    target = of_classes(labels, "cross_entropy")
    assert list(target.given) == list(labels)
    assert list(target.take(np.array([1, 2])).given) == ["a", "c"]
    np.testing.assert_array_equal(target.class_sums(np.array([1.0, 2.0, 4.0, 8.0])), [10.0, 1.0, 4.0])
    shares = np.array([[0.1, 0.9], [0.7, 0.3]])
    assert list(of_shares(shares, np.array(["no", "yes"]), "cross_entropy").given) == ["yes", "no"]
    assert of_classes(np.array([0, 2]), "cross_entropy", np.array([0, 1, 2])).n_outputs == 3
    with pytest.raises(InvalidArgumentError, match=r"y=.*5.*is not one of the classes \[0, 1\]"):
        of_classes(np.array([0, 5]), "cross_entropy", np.array([0, 1]))


def test_only_losses_that_call_for_means_have_their_leaves_set_by_them():
    labels, values, weight = np.array([0, 1]), np.array([1.0, 2.0]), np.ones(2)
    assert of_classes(labels, "cross_entropy").refits
    for loss in ("focal", "poly", train.CrossEntropy(label_smoothing=0.1), lambda p, t, w: p):
        assert not of_classes(labels, loss).refits
    assert all(of_numbers(values, loss, weight).refits for loss in ("squared_error", "poisson", "tweedie"))
    for loss in ("absolute_error", "huber", "quantile", lambda p, t, w: p):
        assert not of_numbers(values, loss, weight).refits
