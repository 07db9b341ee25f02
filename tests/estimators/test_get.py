from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import r2_score

import hardwood
from hardwood import GetClassifier, GetRegressor
from hardwood.draw import text
from hardwood.errors import InvalidArgumentError
from hardwood.estimators._get_teacher import out_of_bag
from hardwood.forest import OBLIQUE
from hardwood.oblique import _run as runs
from hardwood.train import Callback, TrainingState, TrainingWarning

QUICK: dict[str, Any] = {
    "max_depth": 3, "leaf_shrinkage": 1.0, "n_starts": 2, "epochs": 4, "min_steps": 60, "polish_epochs": 3,
    "polish_min_steps": 20, "random_state": 0,
}  # fmt: skip


def table(rows: int = 300, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, 4)) * np.array([1.0, 100.0, 1e-3, 1.0]) + np.array([0.0, 1e4, 0.0, -5.0])
    return X, np.where(X[:, 0] + 1000 * X[:, 2] > 0.3, 50.0, 10.0) + X[:, 1] / 100


def mixed(rows: int = 300) -> tuple[pd.DataFrame, np.ndarray]:
    X, y = table(rows)
    frame = pd.DataFrame(X, columns=["a", "b", "c", "d"])
    rng = np.random.default_rng(1)
    frame["colour"] = np.array(["red", "green", "blue"])[rng.integers(0, 3, rows)]
    frame["city"] = [f"city {code:02d}" for code in rng.integers(0, 15, rows)]
    y = y + 20 * (frame["colour"] == "red").to_numpy() + 3 * frame["city"].str[-1].astype(int).to_numpy()
    frame.loc[rng.random(rows) < 0.1, "d"] = np.nan
    frame.loc[rng.random(rows) < 0.1, "colour"] = None
    return frame, y


@pytest.mark.parametrize("leaf", ["constant", "linear"])
def test_it_learns_hyperplanes_in_any_units_and_predicts_with_its_forest(leaf: str):
    X, y = table(600)
    model = GetRegressor(leaf=leaf, **QUICK).fit(X[:400], y[:400])
    assert r2_score(y[400:], model.predict(X[400:])) > 0.75
    assert np.array_equal(model.predict(X), model.forest_.predict(X))
    assert (model.forest_.kind == OBLIQUE).any()
    assert (model.forest_.leaf_coef is not None) == (leaf == "linear")
    assert model.feature_importances_.shape == (4,) and model.n_iter_ > 0 and len(model.history_) >= 2


@pytest.mark.parametrize("labels", [["no", "yes"], [3, 1, 7]])
def test_classes(labels: list[Any]):
    X, y = table(600)
    kind = np.digitize(y, np.quantile(y, np.linspace(0, 1, len(labels) + 1)[1:-1]))
    model = GetClassifier(**QUICK).fit(X, np.array(labels)[kind])
    assert model.score(X, np.array(labels)[kind]) > 0.85
    shares = model.predict_proba(X)
    np.testing.assert_allclose(shares.sum(1), 1.0)
    assert sorted(model.classes_.tolist()) == sorted(labels)
    assert set(np.unique(model.predict(X))) <= set(labels)


def test_several_labels_and_several_outputs():
    X, y = table()
    many = np.stack([y > 30, y > 12], axis=1).astype(int)
    model = GetClassifier(**QUICK).fit(X, many)
    assert model.predict(X).shape == (300, 2) and (model.predict(X) == many).mean() > 0.8
    regressor = GetRegressor(**QUICK).fit(X, np.stack([y, -1000 * y], axis=1))
    np.testing.assert_allclose(regressor.predict(X)[:, 1], -1000 * regressor.predict(X)[:, 0], rtol=1e-6)
    linear = GetRegressor(leaf="linear", **QUICK).fit(X, np.stack([y, 7 + 0 * y], axis=1))
    np.testing.assert_allclose(linear.predict(X)[:, 1], 7.0)


@pytest.mark.parametrize("leaf", ["constant", "linear"])
def test_categories_and_missing_cells(leaf: str):
    X, y = mixed()
    model = GetRegressor(leaf=leaf, **QUICK).fit(X, y)
    assert r2_score(y, model.predict(X)) > 0.6
    names = model.forest_.feature_names
    assert names is not None and {"colour=red", "colour missing", "city~y", "d missing"} <= set(names)
    assert np.array_equal(model.forest_.predict(model.columns_.to_raw(X)), model.predict(X))
    assert model.feature_importances_.shape == (6,)
    assert np.isfinite(model.predict(X.assign(colour="pink", city="nowhere", a=np.nan))).all()
    alone = np.concatenate([model.predict(X.iloc[i : i + 1]) for i in range(20)])
    assert np.array_equal(alone, model.predict(X)[:20])


def test_saved_and_loaded(tmp_path: Path):
    X, y = table()
    model = GetRegressor(leaf="linear", **QUICK).fit(X, y)
    model.forest_.save(tmp_path / "tree")
    assert np.array_equal(hardwood.load(tmp_path / "tree").predict(X), model.predict(X))


def test_leaves_say_the_mean_of_the_rows_that_come():
    X, y = table()
    model = GetRegressor(**{**QUICK, "leaf_shrinkage": 0.0}).fit(X, y)
    at = model.apply(X)[:, 0]
    for leaf in np.unique(at):
        np.testing.assert_allclose(model.predict(X)[at == leaf], y[at == leaf].mean())


def test_weights_are_repetitions():
    X, y = table(80)
    weight = np.random.default_rng(0).integers(0, 4, 80)
    weighted = GetRegressor(**QUICK).fit(X, y, sample_weight=weight)
    repeated = GetRegressor(**QUICK).fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    assert weighted.forest_ == repeated.forest_


def test_everything_automatic():
    X, y = table(300)
    automatic = {**QUICK, "max_depth": "auto", "leaf_shrinkage": "auto", "l1": "auto", "min_steps": 20}
    model = GetRegressor(**automatic).fit(X, y)
    assert 1 <= model.depth_ <= 9 and model.best_loss_ is not None
    assert model.forest_.depth <= model.depth_
    assert r2_score(y, model.predict(X)) > 0.85
    small = GetRegressor(**automatic).fit(X[:3], y[:3])
    assert np.isfinite(small.predict(X)).all()


@pytest.mark.parametrize("kind", [GetRegressor, GetClassifier])
def test_tables_with_nothing_to_learn(kind: Any):
    X, y = table(40)
    constant = np.full(40, 3)
    assert (kind(**QUICK).fit(X, constant).predict(X) == 3).all()
    flat = kind(**QUICK).fit(np.ones((40, 2)), (y > 30).astype(int))
    assert flat.forest_.n_leaves == 1
    few = kind(**{**QUICK, "max_depth": 8}).fit(X[:5], (y[:5] > 20).astype(int))
    assert few.forest_.n_leaves <= 5


def test_duplicated_and_collinear_columns():
    X, y = table()
    X = np.column_stack([X, X[:, 0], X[:, 0] - 2 * X[:, 3], np.zeros(300)])
    for leaf in ("constant", "linear"):
        model = GetRegressor(leaf=leaf, **{**QUICK, "min_steps": 200}).fit(X, y)
        assert r2_score(y, model.predict(X)) > 0.9


def test_sparse_splits_and_short_text():
    X, y = table()
    model = GetRegressor(min_weight=0.5, **QUICK).fit(X, y)
    forest = model.forest_
    assert forest.weight_start is not None
    full = GetRegressor(**QUICK).fit(X, y).forest_
    assert full.weight_value is not None and (
        forest.weight_value is None or len(forest.weight_value) < len(full.weight_value)
    )
    assert r2_score(y, model.predict(X)) > 0.8
    assert "+ 2 more" in text(full, max_weights=2)
    # By size in the rows' units, not by the bare weight.
    own = slice(full.weight_start[0], full.weight_start[1])  # type: ignore[index]
    sizes = np.abs(full.weight_value[own]) * X[:, full.weight_feature[own]].std(axis=0)  # type: ignore[index]
    largest = full.weight_feature[own][np.argsort(-sizes)[:2]]  # type: ignore[index]
    root = next(line for line in text(full, X=X, max_weights=2).splitlines() if line.startswith("if "))
    assert [root.index(f"x[{column}]") for column in largest] == sorted(root.index(f"x[{c}]") for c in largest)


class Stop(Callback):
    def on_epoch_end(self, state: TrainingState) -> bool | None:
        return len(state.history) >= 2


def test_checkpoint_resume_and_callbacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(runs, "_CHECKPOINT_SECONDS", 0.0)
    X, y = table()
    whole = GetRegressor(**QUICK).fit(X, y)
    path = str(tmp_path / "state.safetensors")
    cut = GetRegressor(**QUICK, checkpoint=path, callbacks=[Stop()]).fit(X, y)
    assert len(cut.history_) == 2
    resumed = GetRegressor(**QUICK, resume_from=path).fit(X, y)
    assert resumed.forest_ == whole.forest_


def test_ctrl_c_keeps_the_best_so_far(monkeypatch: pytest.MonkeyPatch):
    from hardwood.oblique._descent import Descent

    def interrupted(self: Descent) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(Descent, "advance", interrupted)
    X, y = table()
    with pytest.warns(TrainingWarning, match="interrupted"):
        model = GetRegressor(**{**QUICK, "max_depth": "auto"}).fit(X, y)
    assert np.isfinite(model.predict(X)).all()


def test_the_paper_s_preset_is_the_paper_s():
    settings = GetRegressor(preset="paper")._settings(0)
    assert settings.n_starts == 10 and settings.epochs == 3000 and settings.learning_rate == 0.01
    assert settings.scale_factors == ((5.0, 25.0), (50.0, 150.0)) and settings.skip == 0 and settings.polish
    assert not GetRegressor(preset="paper", leaf="linear")._settings(0).polish
    assert GetRegressor(preset="paper", epochs=7)._settings(0).epochs == 7


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({"max_depth": "deep"}, "max_depth"), ({"max_depth": 17}, "max_depth"), ({"leaf": "cubic"}, "leaf"),
        ({"preset": "slow"}, "preset"), ({"relaxation": "hard"}, "relaxation"), ({"n_starts": 0}, "n_starts"),
        ({"n_starts": 2, "n_greedy": 3}, "n_greedy"), ({"scale_factors": 5}, "scale_factors"),
        ({"scale_factors": [(9, 2)]}, "scale_factors"), ({"skip": 0.9}, "skip"), ({"l1": -1}, "l1"),
        ({"min_weight": 1.0}, "min_weight"), ({"leaf_shrinkage": "some"}, "leaf_shrinkage"),
        ({"scaling": "log"}, "scaling"), ({"teacher": "me"}, "teacher"), ({"polish": "much"}, "polish"),
        ({"device": "tpu"}, "device"),
        ({"validation_splits": 0}, "validation_splits"),
        ({"callbacks": 3}, "callbacks"), ({"resume_from": "nowhere"}, "resume_from"),
    ],
)  # fmt: skip
def test_bad_parameters(given: dict[str, Any], name: str):
    X, y = table(20)
    with pytest.raises(InvalidArgumentError, match=name):
        GetRegressor(**given).fit(X, y)


def test_infinite_cells_are_refused():
    X, y = table(20)
    X[3, 1] = np.inf
    with pytest.raises(InvalidArgumentError, match="infinite"):
        GetRegressor(**QUICK).fit(X, y)


def test_out_of_bag_answers_know_nothing_of_the_row_s_own_noise():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 3))
    noise = rng.normal(size=(400, 2))
    clean = np.column_stack([np.sign(x[:, 0]), np.sign(x[:, 1])])
    said = out_of_bag(x, clean + noise, np.ones(400), 0, 1)
    assert np.array_equal(said, out_of_bag(x, clean + noise, np.ones(400), 0, 2))
    assert ((said - clean) ** 2).mean() < 0.6 * (noise**2).mean()
    for column in range(2):
        assert abs(np.corrcoef((said - clean)[:, column], noise[:, column])[0, 1]) < 0.15
    # The one row of weight has trees without it only where it was not drawn: it keeps its own number or none else's.
    alone = out_of_bag(x, clean, np.where(np.arange(400) < 1, 1.0, 1e-12), 0, 1)
    assert np.isfinite(alone).all()


@pytest.mark.parametrize("kind", ["constant", "linear", "classifier"])
def test_an_ensemble_as_teacher_and_early_stopping(kind: str):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    y = (X[:, 0] + X[:, 1] > 0) + rng.normal(size=400)
    options = {**QUICK, "teacher": "ensemble", "leaf_shrinkage": "auto", "max_depth": 4}
    if kind == "classifier":
        model: Any = GetClassifier(**options, polish="auto").fit(X, y > 0.5)
        assert model.score(X, y > 0.5) > 0.6
    else:
        model = GetRegressor(**options, polish="auto", leaf=kind).fit(X, y)
        assert model.score(X, y) > 0.1
    assert model.teacher_share_ in (0.0, 0.5, 1.0) and 0 <= model.polish_levels_ <= 4
    assert model.best_loss_ is not None and model.forest_.n_trees == 1
    if kind == "constant":
        plain = GetRegressor(**{**options, "teacher": None}).fit(X, y)
        assert model.teacher_share_ > 0 and model.best_loss_ < plain.best_loss_
