"""From a raw table to a forest on its columns: the forest alone says and routes all that the estimator does."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import hardwood
from hardwood.errors import InvalidArgumentError
from hardwood.forest import THRESHOLD
from helpers.fits import ALL, CLASSIFIERS, GRADTREES, GRANDES, answers, layer_of, mixed, mixed_target, table, tiny
from helpers.tables import FRAMES, make_frame


@pytest.fixture(scope="module", params=ALL, ids=lambda kind: kind.__name__)
def fitted(request: pytest.FixtureRequest) -> Any:
    """Return an estimator of each kind, fitted on a table of every type of column and not pruned."""
    columns = mixed()
    frame = make_frame("pandas", columns)
    return tiny(request.param, prune=False).fit(frame, mixed_target(request.param, columns)), columns


def hard_rows(model: Any, columns: dict[str, list[Any]]) -> pd.DataFrame:
    """Return rows on and beside the thresholds, with infinities, holes, and categories that training did not have."""
    forest, rng = model.forest_, np.random.default_rng(1)
    rows = 300
    result = {}
    for column, name in enumerate(forest.feature_names):
        cuts = forest.threshold[(forest.kind == THRESHOLD) & (forest.feature == column)]
        near = np.concatenate([cuts, np.nextafter(cuts, np.inf), np.nextafter(cuts, -np.inf), [np.inf, -np.inf]])
        pool: list[Any] = list(columns[name])
        if name == "size":
            pool += [*near.tolist(), None, 1e300, 5e-324]
        if name == "colour":
            pool += ["violet", "", None] * 10
        if name == "city":
            pool += ["city 99", "Ω"] * 10
        result[name] = [pool[place] for place in rng.integers(0, len(pool), rows)]
    return pd.DataFrame(result)


def test_the_forest_alone_predicts_as_the_estimator_does(fitted, tmp_path):
    model, columns = fitted
    frame = hard_rows(model, columns)
    expected = answers(model, frame)
    assert np.isfinite(expected).all()
    model.forest_.save(tmp_path / "forest")
    forest = hardwood.load(tmp_path / "forest")
    ask = forest.predict_proba if hasattr(model, "predict_proba") else forest.predict
    np.testing.assert_array_equal(ask(model.columns_.to_raw(frame)), expected)
    np.testing.assert_array_equal(ask(frame), expected)
    np.testing.assert_array_equal(forest.predict(frame), model.predict(frame))


def test_every_row_takes_the_way_that_it_takes_in_the_layer(fitted):
    model, columns = fitted
    frame = hard_rows(model, columns)
    layer = model._session.model
    with torch.no_grad():
        trained = layer.leaf_index(torch.from_numpy(model._session.encoder.transform(frame))).numpy()
    if type(model) in GRADTREES:
        trained = trained[:, [int(np.argmin(model._running_losses))]]
    final = model.apply(frame)
    assert trained.shape == final.shape
    several = False
    for one, two in zip(trained.T, final.T, strict=True):
        pairs = len(np.unique(np.stack([one, two]), axis=1).T)
        assert pairs == len(np.unique(one)) == len(np.unique(two))
        several |= pairs > 2
    assert several


def test_pruning_changes_no_answer_on_the_rows_of_training(fitted):
    model, columns = fitted
    frame = make_frame("pandas", columns)
    y = mixed_target(type(model), columns)
    whole, pruned = (clone(model).set_params(max_depth=5, prune=prune).fit(frame, y) for prune in (False, True))
    np.testing.assert_allclose(answers(pruned, frame), answers(whole, frame), rtol=1e-12)
    assert pruned.forest_.node_count < whole.forest_.node_count


def test_a_table_may_come_from_any_library(fitted):
    model, columns = fitted
    expected = answers(model, make_frame("pandas", columns))
    for name in FRAMES:
        frame = make_frame(name, columns)
        np.testing.assert_array_equal(answers(model, frame), expected)
        if name != "pandas":
            again = clone(model).fit(frame, mixed_target(type(model), columns))
            assert again.forest_ == model.forest_


@pytest.mark.parametrize("kind", ALL)
def test_numpy_and_frames_of_numbers_give_the_same_model(kind):
    X, y = table(kind)
    names = list("abcd")
    model = tiny(kind).fit(X, y)
    for name in FRAMES:
        frame = make_frame(name, dict(zip(names, X.T.tolist(), strict=True)))
        framed = tiny(kind).fit(frame, y)
        assert list(framed.feature_names_in_) == names == list(framed.forest_.feature_names)
        np.testing.assert_array_equal(answers(framed, frame), answers(model, X))
    assert not hasattr(model, "feature_names_in_")
    assert model.n_features_in_ == framed.n_features_in_ == 4


def test_a_row_does_not_depend_on_its_neighbours(fitted):
    model, columns = fitted
    frame = hard_rows(model, columns)
    expected = answers(model, frame)
    np.testing.assert_array_equal(answers(model, frame.iloc[::-1])[::-1], expected)
    for row in (0, 7, 299):
        np.testing.assert_array_equal(answers(model, frame.iloc[[row]]), expected[[row]])
    assert answers(model, frame.iloc[:0]).shape[0] == 0


def test_columns_are_found_by_name_and_must_be_those_of_training(fitted):
    model, columns = fitted
    frame = make_frame("polars", columns)
    expected = answers(model, frame)
    forest = model.forest_
    # scikit-learn wants the order of training; the forest finds columns by their names.
    with pytest.raises(ValueError, match="order"):
        model.predict(frame[:, ::-1])
    np.testing.assert_array_equal(forest.predict(frame[:, ::-1]), forest.predict(frame))
    with pytest.raises(ValueError, match="size"):
        model.predict(frame.drop("size"))
    with pytest.raises(ValueError, match="extra"):
        model.predict(frame.with_columns(extra=1))
    with pytest.raises(InvalidArgumentError, match=r"size.*pass numbers"):
        model.predict(make_frame("pandas", {**columns, "size": ["small"] * 120}))
    with pytest.raises(InvalidArgumentError, match="one row"):
        model.explain(frame)
    assert np.array_equal(answers(model, frame), expected)


@pytest.mark.parametrize("kind", ALL)
def test_nothing_is_said_before_fit(kind):
    for ask in ("predict", "apply", "decision_path", "explain"):
        with pytest.raises(NotFittedError):
            getattr(tiny(kind), ask)(np.zeros((1, 2)))


@pytest.mark.usefixtures("random_state_stays")
@pytest.mark.parametrize("kind", ALL)
def test_a_seed_gives_the_same_model_twice_and_another_seed_another(kind):
    X, y = table(kind)
    options: dict[str, Any] = {"batch_size": 16, "init": "random"}
    first, second = (tiny(kind, **options).fit(X, y) for _ in range(2))
    assert first.forest_ == second.forest_
    assert tiny(kind, **options).set_params(random_state=1).fit(X, y).forest_ != first.forest_
    own = [tiny(kind, **options).set_params(random_state=np.random.RandomState(3)).fit(X, y) for _ in range(2)]
    assert own[0].forest_ == own[1].forest_
    # Without a seed the process-wide generators are neither read nor changed.
    assert tiny(kind, **options).set_params(random_state=None).fit(X, y).forest_ != first.forest_


@pytest.mark.parametrize("kind", ALL)
def test_a_pickled_model_predicts_the_same_and_goes_on_training_the_same(kind):
    X, y = table(kind)
    model = tiny(kind, batch_size=32).fit(X, y)
    for _ in range(2):
        copy = pickle.loads(pickle.dumps(model))
        np.testing.assert_array_equal(answers(copy, X), answers(model, X))
        assert copy.forest_ == model.forest_
        for each in (model, copy):
            each.partial_fit(X, y)
        assert all(torch.equal(one, layer_of(copy)[name]) for name, one in layer_of(model).items())
        assert copy.forest_ == model.forest_
    warm = [each.set_params(warm_start=True).fit(X, y) for each in (model, copy)]
    assert warm[0].forest_ == warm[1].forest_


@pytest.mark.parametrize("kind", ALL)
def test_a_clone_knows_nothing_of_the_fit(kind):
    X, y = table(kind)
    model = tiny(kind, warm_start=True).fit(X, y)
    fresh = clone(model)
    assert not hasattr(fresh, "forest_")
    assert fresh._session is None
    assert fresh.fit(X, y).forest_ == model.forest_


def test_the_layer_is_not_part_of_what_the_session_keeps_of_the_rows(fitted):
    model, _ = fitted
    assert len(model._session.target) == 0


@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_importances_say_which_columns_matter(kind):
    X, y = table(kind, 200)
    model = tiny(kind, max_iter=20).fit(X, y)
    assert model.feature_importances_.shape == (4,)
    assert model.feature_importances_.sum() == pytest.approx(1)
    assert set(np.argsort(model.feature_importances_)[2:]) == {0, 1}
    shuffled = model.permutation_importances(X, y)
    assert set(np.argsort(shuffled.means)[2:]) == {0, 1}


@pytest.mark.parametrize("kind", ALL)
def test_permutation_importances_read_tables_and_labels_as_fit_does(kind):
    columns = mixed()
    y = mixed_target(kind, columns)
    model = tiny(kind).fit(make_frame("pandas", columns), y)
    found = [model.permutation_importances(make_frame(name, columns), y.tolist(), n_repeats=2) for name in FRAMES]
    for each in found:
        np.testing.assert_array_equal(each.means, found[0].means)
    used = set(np.unique(model.forest_.feature[model.forest_.feature >= 0]))
    assert set(np.flatnonzero(found[0].means)) <= used
    assert found[0].means.max() > 0


@pytest.mark.parametrize("kind", ALL)
def test_a_prediction_is_explained_in_words(kind):
    columns = mixed()
    frame = make_frame("pandas", columns)
    model = tiny(kind).fit(frame, mixed_target(kind, columns))
    explanation = model.explain(frame.iloc[[3]])
    said = str(explanation)
    label = model.predict(frame.iloc[[3]])[0]
    if kind in CLASSIFIERS:
        assert said.startswith(f"Prediction: {label} (")
        np.testing.assert_allclose(explanation.probabilities, model.predict_proba(frame.iloc[[3]])[0])
    else:
        assert explanation.prediction == label
    assert any(name in said for name in columns)
    if kind in GRANDES:
        assert len(explanation.reasons) == 3
        everything = model.explain(frame.iloc[[3]], n_trees=None)
        assert sum(reason.share for reason in everything.reasons) == pytest.approx(1)
        assert len(everything.reasons) == model.forest_.n_trees
    else:
        assert len(explanation.reasons) == 1


def test_a_missing_value_goes_its_own_way_when_that_helps():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    X[::2, 0] = np.nan
    y = np.isnan(X[:, 0]).astype(int)
    for kind in CLASSIFIERS:
        model = tiny(kind).fit(X, y)
        assert model.score(X, y) == 1.0
