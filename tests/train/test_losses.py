"""Losses by name, by function, and what every one of them has to keep."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn import _loss as reference

from hardwood.errors import InvalidArgumentError
from hardwood.train import CrossEntropy, CustomLoss, Loss, make_loss

REGRESSION = [
    ("squared_error", {}, reference.HalfSquaredError(), 2.0),
    ("absolute_error", {}, reference.AbsoluteError(), 1.0),
    ("huber", {"delta": 0.7}, reference.HuberLoss(delta=0.7), 1.0),
    ("quantile", {"alpha": 0.3}, reference.PinballLoss(quantile=0.3), 1.0),
    ("poisson", {}, reference.HalfPoissonLoss(), 1.0),
    ("tweedie", {"power": 1.0}, reference.HalfPoissonLoss(), 1.0),
    ("tweedie", {"power": 1.4}, reference.HalfTweedieLoss(power=1.4), 1.0),
    ("tweedie", {"power": 2.0}, reference.HalfTweedieLoss(power=2.0), 1.0),
    ("tweedie", {"power": 2.6}, reference.HalfTweedieLoss(power=2.6), 1.0),
]
EVERY = [
    ("cross_entropy", {}, "two"),
    ("cross_entropy", {"label_smoothing": 0.2}, "classes"),
    ("cross_entropy", {}, "shares"),
    ("focal", {}, "two"),
    ("focal", {"gamma": 0.5, "label_smoothing": 0.1}, "classes"),
    ("poly", {}, "classes"),
    ("multilabel", {}, "labels"),
    ("huber", {}, "numbers"),
    ("squared_error", {}, "columns"),
    ("quantile", {"alpha": (0.1, 0.5, 0.9)}, "numbers"),
    ("tweedie", {}, "numbers"),
]


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def some_target(kind: str, rows: int = 40) -> torch.Tensor:
    made = {
        "two": torch.randint(2, (rows,), generator=seeded()),
        "classes": torch.arange(rows) % 4,
        "shares": torch.rand(rows, 3, generator=seeded(), dtype=torch.float64).softmax(1),
        "labels": torch.randint(2, (rows, 3), generator=seeded()),
        "numbers": torch.rand(rows, generator=seeded(), dtype=torch.float64) + 0.1,
        "columns": torch.rand(rows, 2, generator=seeded(), dtype=torch.float64),
    }
    return made[kind]


@pytest.mark.parametrize(("name", "options", "theirs", "scale"), REGRESSION)
def test_losses_of_numbers_agree_with_scikit_learn(name, options, theirs, scale):
    target = some_target("numbers")
    raw = torch.randn(40, 1, generator=seeded(1), dtype=torch.float64, requires_grad=True)
    values = make_loss(name, **options)(raw, target)
    (slope,) = torch.autograd.grad(values.sum(), raw)
    given = {"y_true": target.numpy(), "raw_prediction": raw.detach().numpy()[:, 0]}
    # Both leave out constants, but not the same ones.
    difference = values.detach().numpy() - scale * theirs.loss(**given)
    shift = difference - difference[0] if name == "tweedie" and options["power"] == 1.0 else difference
    np.testing.assert_allclose(shift, 0, atol=1e-9)
    np.testing.assert_allclose(slope[:, 0].numpy(), scale * theirs.gradient(**given), rtol=1e-9, atol=1e-12)


def test_cross_entropy_agrees_with_scikit_learn():
    raw = torch.randn(40, 1, generator=seeded(1), dtype=torch.float64) * 5
    target = some_target("two")
    expected = reference.HalfBinomialLoss().loss(target.double().numpy(), raw[:, 0].numpy())
    np.testing.assert_allclose(CrossEntropy()(raw, target).numpy(), expected, rtol=1e-12)

    raw, target = torch.randn(40, 4, generator=seeded(1), dtype=torch.float64), some_target("classes")
    expected = reference.HalfMultinomialLoss(n_classes=4).loss(target.double().numpy(), raw.numpy())
    np.testing.assert_allclose(CrossEntropy()(raw, target).numpy(), expected, rtol=1e-10)


@pytest.mark.parametrize("classes", [2, 4])
def test_focal_and_poly_are_their_papers_formulas(classes):
    gamma, epsilon = 1.7, 0.6
    target = torch.arange(40) % classes
    raw = torch.randn(40, 1 if classes == 2 else classes, generator=seeded(), dtype=torch.float64)
    full = torch.cat([torch.zeros_like(raw), raw], 1) if classes == 2 else raw
    p = full.softmax(1)[torch.arange(40), target]
    expected = -((1 - p) ** gamma) * p.log() + epsilon * (1 - p) ** (gamma + 1)
    torch.testing.assert_close(CrossEntropy(gamma=gamma, epsilon=epsilon)(raw, target), expected)


def test_two_classes_are_the_same_with_one_output_or_two():
    target, raw = some_target("two"), torch.randn(40, 1, generator=seeded(), dtype=torch.float64)
    for loss in (CrossEntropy(label_smoothing=0.1), CrossEntropy(gamma=2.0), CrossEntropy(epsilon=2.0)):
        torch.testing.assert_close(loss(raw, target), loss(torch.cat([torch.zeros_like(raw), raw], 1), target))


def test_extreme_predictions_keep_finite_losses_and_gradients():
    for name in ("cross_entropy", "focal", "poly"):
        for raw, target in (
            (torch.tensor([[300.0], [-300.0], [0.0]]), torch.tensor([0, 1, 1])),
            (torch.tensor([[300.0, 0, 0], [-300.0, 0, 0], [0, 200.0, -200.0]]), torch.tensor([0, 0, 2])),
        ):
            raw.requires_grad_()
            values = make_loss(name)(raw, target)
            (slope,) = torch.autograd.grad(values.sum(), raw)
            assert values.isfinite().all() and slope.isfinite().all()


@pytest.mark.parametrize(("name", "options", "kind"), EVERY)
def test_a_trees_axis_gives_the_loss_of_each_tree(name, options, kind):
    loss, raw_target = make_loss(name, **options), some_target(kind)
    n_outputs = loss.n_outputs(raw_target)
    target = loss.prepare(raw_target, n_outputs, torch.float64)
    raw = torch.randn(40, 5, n_outputs, generator=seeded(2), dtype=torch.float64)
    together = loss(raw, target)
    assert together.shape == (40, 5)
    for tree in range(5):
        torch.testing.assert_close(together[:, tree], loss(raw[:, tree], target), rtol=1e-12, atol=0)


@pytest.mark.parametrize(("name", "options", "kind"), EVERY)
def test_the_start_is_the_best_constant_and_a_weight_of_two_is_two_rows(name, options, kind):
    loss, target = make_loss(name, **options), some_target(kind)
    n_outputs = loss.n_outputs(target)
    weight = 1.0 + (torch.arange(40) % 2).double()
    twice = torch.arange(40).repeat_interleave(weight.long())
    start = loss.initial(target, weight)
    torch.testing.assert_close(start, loss.initial(target[twice], None), atol=1e-6, rtol=1e-6)

    def at(constant: torch.Tensor) -> float:
        prepared = loss.prepare(target, n_outputs, torch.float64)
        values = loss(constant.double().expand(40, -1), prepared)
        return float((values * weight).sum() / weight.sum())

    if name in ("focal", "poly") or options.get("label_smoothing") or name == "huber":
        return  # their own best constant has no closed form: the start is that of the plain loss
    for output in range(n_outputs):
        for step in (-0.05, 0.05):
            moved = start.clone()
            moved[output] += step
            assert at(start) <= at(moved) + 1e-9


def test_classes_that_the_target_does_not_show():
    target = torch.tensor([0, 1, 1, 0])
    loss = make_loss("cross_entropy", n_classes=4)
    assert loss.n_outputs(target) == 4
    start = loss.initial(target)
    assert start.shape == (4,) and start.isfinite().all() and start[0] == start[1] > start[2] == start[3]


def test_quantiles_may_come_as_a_list():
    assert make_loss("quantile", alpha=[0.1, 0.9]).n_outputs(torch.zeros(3)) == 2


def test_links():
    assert make_loss("cross_entropy").link(1) == "sigmoid"
    assert make_loss("cross_entropy").link(3) == "softmax"
    assert make_loss("multilabel").link(3) == "sigmoid"
    assert make_loss("poisson").link(1) == "exp"
    assert make_loss("quantile").link(1) == "identity"


def test_a_function_sees_rows_even_when_trees_stand_side_by_side():
    seen = []

    def cost(prediction, target, weight):
        seen.append((prediction.shape, target.shape, weight.shape))
        return torch.where(target > prediction, 3 * (target - prediction), prediction - target)

    loss = make_loss(cost)
    assert isinstance(loss, CustomLoss) and isinstance(loss, Loss)
    target, raw = some_target("numbers"), torch.zeros(40, 2, 1, dtype=torch.float64)
    assert loss(raw, target).shape == (40, 2)
    assert seen == [((40,), (40,), (40,))] * 2
    assert make_loss(lambda p, t, w: (w * (p - t).abs()).sum())(raw, target).shape == (2,)


def test_what_a_loss_refuses():
    with pytest.raises(InvalidArgumentError, match=r"loss='crossentropy': is not known; choose one of 'cross_entropy'"):
        make_loss("crossentropy")
    with pytest.raises(
        InvalidArgumentError, match="its options are: 'gamma', 'epsilon', 'label_smoothing', 'n_classes'"
    ):
        make_loss("focal", alpha=0.25)
    with pytest.raises(InvalidArgumentError, match=r"gamma=-1"):
        make_loss("focal", gamma=-1.0)
    with pytest.raises(InvalidArgumentError, match=r"alpha=1\.5"):
        make_loss("quantile", alpha=1.5)
    with pytest.raises(InvalidArgumentError, match="several quantiles need a single target"):
        make_loss("quantile", alpha=(0.1, 0.9)).n_outputs(torch.zeros(3, 2))
    with pytest.raises(InvalidArgumentError, match="needs targets from 0 up"):
        make_loss("poisson").prepare(torch.tensor([1.0, -1.0]), 1, torch.float32)
    with pytest.raises(InvalidArgumentError, match="needs targets above 0 up"):
        make_loss("tweedie", power=2.0).prepare(torch.tensor([0.0]), 1, torch.float32)
    with pytest.raises(InvalidArgumentError, match="is not a finite number"):
        make_loss("huber").prepare(torch.tensor([float("nan")]), 1, torch.float32)
    with pytest.raises(InvalidArgumentError, match="is not a code of one of 3 classes"):
        make_loss("cross_entropy").prepare(torch.tensor([3]), 3, torch.float32)
    with pytest.raises(InvalidArgumentError, match="is not a class code"):
        make_loss("cross_entropy").prepare(torch.tensor([0.5]), 3, torch.float32)
    with pytest.raises(InvalidArgumentError, match=r"returned a tensor of shape \(4, 4\) for 4 rows"):
        make_loss(lambda p, t, w: p[:, None] - t)(torch.zeros(4, 1), torch.zeros(4))
