"""The multimodal estimators learn from every kind of column, and answer the same wherever they are asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from sklearn.base import clone
from torch import Tensor, nn

from hardwood.errors import InvalidArgumentError
from hardwood.estimators import ImageBranch, MultimodalClassifier, MultimodalRegressor, TextBranch
from hardwood.nn import HardTrees
from hardwood.train import Callback, TrainingState
from helpers.multimodal import made_frame, small


@pytest.fixture(scope="module")
def frame(tmp_path_factory: pytest.TempPathFactory) -> tuple[pd.DataFrame, np.ndarray]:
    return made_frame(tmp_path_factory.mktemp("images"))


@pytest.fixture(scope="module", params=["concat", "gated", "trees"])
def fitted(request: pytest.FixtureRequest, frame: Any) -> MultimodalClassifier:
    X, y = frame
    return MultimodalClassifier(fusion=request.param, **small()).fit(X, np.array(list("xyz"))[y])


@pytest.mark.usefixtures("random_state_stays")
def test_it_learns_and_knows_its_columns(frame: Any):
    X, y = frame
    model = MultimodalClassifier(**small(max_iter=12, branches="auto", head_rate=0.02)).fit(X, np.array(list("xyz"))[y])
    assert model.score(X, np.array(list("xyz"))[y]) > 0.9
    assert model.table_columns_ == ("size", "kind")
    assert [type(branch) for branch in model.branches_] == [ImageBranch, TextBranch]
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1, rtol=1e-6)


def test_any_library_and_any_order_of_columns(fitted: MultimodalClassifier, frame: Any):
    X, _ = frame
    expected = fitted.predict_proba(X)
    mixed = X[["kind", "note", "size", "photo"]]
    for other in (mixed, pl.from_pandas(mixed), pa.Table.from_pandas(mixed)):
        assert (fitted.predict_proba(other) == expected).all()


def test_rows_do_not_depend_on_each_other(fitted: MultimodalClassifier, frame: Any):
    X, _ = frame
    alone = np.concatenate([fitted.predict_proba(X[row : row + 1]) for row in range(6)])
    np.testing.assert_allclose(alone, fitted.predict_proba(X)[:6], atol=1e-6)
    assert fitted.predict(X[:0]).shape == (0,)


def test_the_forest_routes_as_the_network_does(fitted: MultimodalClassifier, frame: Any):
    X, _ = frame
    rows, forest = fitted.forest_rows(X), fitted.forest_
    assert forest is not None
    network = fitted.network_
    assert isinstance(network.table, HardTrees)
    lazy = fitted._rows_of(X)
    with torch.no_grad():
        (batch,) = network.loaded(lazy)
        seen = batch.table
        if network.fusion == "trees":
            seen = network.fused(batch, network.embeddings(batch))
        leaf = network.table.leaf_index(seen).numpy()
        says = network.table(seen).double().numpy()
    # Lowering keeps the nodes' numbers. Of a complete tree in this order the leaves come last, from left to right.
    encoded = network.table.to_forest()
    assert (forest.apply(rows) == encoded.apply(seen.double().numpy())).all()
    for tree in range(leaf.shape[1]):
        pairs = {*zip(leaf[:, tree].tolist(), forest.apply(rows)[:, tree].tolist(), strict=True)}
        assert len(pairs) == len({each for each, _ in pairs}) == len({each for _, each in pairs}) > 1
    if network.fusion == "trees":
        np.testing.assert_allclose(forest.predict_proba(rows), fitted.predict_proba(X), atol=1e-6)
    else:
        np.testing.assert_allclose(forest.outputs(rows), says, atol=1e-6)


def test_thresholds_on_embeddings_hold_at_ties(fitted: MultimodalClassifier, frame: Any):
    """An embedding that stands exactly at a lowered threshold goes right, and the next smaller number left."""
    from hardwood.estimators._multimodal_forest import RunningScale

    rng = np.random.default_rng(0)
    scale = RunningScale(float(np.float32(0.37)), float(np.float32(21.3)))
    t = rng.normal(size=200).astype(np.float32).astype(np.float64)
    raw = scale.raw_threshold(t)
    assert (scale.transform(raw) >= t).all()
    assert (scale.transform(np.nextafter(raw, -np.inf)) < t).all()
    x = (rng.normal(size=500) / 20 + 0.37).astype(np.float32)
    norm = (torch.from_numpy(x) - torch.tensor(scale.mean)) * torch.tensor(scale.scale)
    assert (norm.numpy() == scale.transform(x.astype(np.float64))).all()


def test_explanations_add_up(fitted: MultimodalClassifier, frame: Any):
    X, _ = frame
    outputs = fitted._outputs(X[:8])
    for row, each in enumerate(fitted.explain(X[:8])):
        total = np.array(each.base) + sum(np.array(part) for part in each.contributions.values())
        np.testing.assert_allclose(total, outputs[row], atol=1e-5)
        assert list(each.contributions) == ["table", "photo", "note"]
        assert sum(each.shares.values()) == pytest.approx(1)
        assert each.rules is not None and each.rules.n_trees == 4
        assert each.prediction == fitted.predict(X[row : row + 1])[0]
        assert f"{max(each.shares.values()):.1%} from" in str(each)
        assert (each.gates is not None) == (fitted.fusion == "gated")


def test_a_part_that_says_nothing_has_no_share(frame: Any):
    X, y = frame
    constant = X.assign(photo=X["photo"][0], note="always the same four words")
    model = MultimodalClassifier(**small(branches=[ImageBranch("photo", size=8, augment=()), TextBranch("note")]))
    for each in model.fit(constant, y).explain(constant[:5]):
        assert each.shares["table"] > 0.99


def test_the_same_seed_is_the_same_model_and_another_is_not(frame: Any):
    X, y = frame
    first = MultimodalClassifier(**small(max_iter=2)).fit(X, y).predict_proba(X)
    assert (MultimodalClassifier(**small(max_iter=2)).fit(X, y).predict_proba(X) == first).all()
    assert not (MultimodalClassifier(**small(max_iter=2, random_state=1)).fit(X, y).predict_proba(X) == first).all()


class Stop(Callback):
    def on_epoch_end(self, state: TrainingState) -> bool | None:
        return state.epoch == 2


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"fusion": "trees", "encoder_warmup": 3, "init": "greedy"},
        {"fusion": "trees", "encoder_warmup": 1, "alternate": 1},
    ],
)
def test_training_goes_on_where_it_stopped(frame: Any, tmp_path: Path, how: dict[str, Any]):
    X, y = frame
    given = small(**how)
    whole = MultimodalClassifier(**given).fit(X, y)
    path = str(tmp_path / "state")
    MultimodalClassifier(**given, checkpoint=path, callbacks=[Stop()]).fit(X, y)
    resumed = MultimodalClassifier(**given, resume_from=path).fit(X, y)
    assert (resumed.predict_proba(X) == whole.predict_proba(X)).all()


def test_regression_in_its_own_units(frame: Any):
    X, y = frame
    model = MultimodalRegressor(**small(max_iter=6)).fit(X, 1000.0 + 200 * y)
    assert model.score(X, 1000.0 + 200 * y) > 0.4
    both = MultimodalRegressor(**small(max_iter=2)).fit(X, np.stack([y, -y], 1))
    assert both.predict(X).shape == (len(X), 2)


def test_rows_of_weight_zero_teach_nothing(frame: Any):
    X, y = frame
    weight = np.ones(len(X))
    weight[::7] = 0
    kept = np.flatnonzero(weight)
    given = small(max_iter=2, branches=[ImageBranch("photo", size=8, augment=())])
    first = MultimodalClassifier(**given).fit(X, y, sample_weight=weight)
    second = MultimodalClassifier(**given).fit(X.iloc[kept], y[kept])
    assert (first.predict_proba(X) == second.predict_proba(X)).all()


@pytest.mark.parametrize("columns", [["photo"], ["note"], ["size", "kind"]])
def test_one_kind_of_column_is_enough(frame: Any, columns: list[str]):
    X, y = frame
    model = MultimodalClassifier(**small(branches="auto", max_iter=2)).fit(X[columns], y)
    assert model.predict(X[columns]).shape == (len(X),)
    assert (model.forest_ is None) == ("size" not in columns)
    assert sum(model.explain(X[columns][:1])[0].shares.values()) == pytest.approx(1)


def test_what_auto_stands_for(frame: Any):
    X, y = frame

    def answers(columns: list[str], **given: Any) -> np.ndarray:
        branches = [TextBranch("note", n_buckets=64)] if "note" in columns else []
        model = MultimodalClassifier(**small(branches=branches, max_iter=9, early_stopping=False, **given))
        return model.fit(X[columns], y).predict_proba(X[columns])

    both, table = ["note", "size", "kind"], ["size", "kind"]
    for fusion, init in (("concat", "greedy"), ("trees", "random")):
        made = answers(both, fusion=fusion, encoder_warmup="auto", init="auto")
        assert (made == answers(both, fusion=fusion, encoder_warmup=2, init=init)).all()
    assert (answers(table, encoder_warmup="auto") == answers(table, encoder_warmup=0)).all()


class Pixels(nn.Module):
    """Somebody's own encoder."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(3, 5), nn.Linear(5, 4)

    def forward(self, images: Tensor) -> Tensor:
        return self.two(self.one(images.mean((2, 3))).relu())


def test_a_frozen_encoder_sees_each_cell_once(frame: Any):
    class Counting(Pixels):
        seen = 0

        def forward(self, images: Tensor) -> Tensor:
            Counting.seen += len(images)
            return super().forward(images)

    X, y = frame
    options = small(early_stopping=False)
    proba = []
    for augment in (None, ()):
        Counting.seen = 0
        mine = Counting()
        mine.load_state_dict({name: torch.linspace(-1, 1, t.numel()).reshape(t.shape)
                              for name, t in mine.state_dict().items()})  # fmt: skip
        branch = ImageBranch("photo", encoder=mine, size=8, tuning="frozen", augment=augment)
        model = MultimodalClassifier(**{**options, "branches": [branch]}).fit(X, y)
        # Two to learn its width, then each of 41 pictures once.
        assert Counting.seen == 2 + 41
        proba.append(model.predict_proba(X))
    assert (proba[0] == proba[1]).all()
    # The same as an encoder that could move, but has no rate, and sees every picture in every step.
    branch = ImageBranch("photo", encoder=mine, size=8, rate=0.0, augment=())
    again = MultimodalClassifier(**{**options, "branches": [branch]}).fit(X, y)
    np.testing.assert_allclose(again.predict_proba(X), proba[0], atol=1e-5)


@pytest.mark.parametrize(("tuning", "moved"), [("frozen", set()), ("last", {"two"}), ("full", {"one", "two"})])
def test_tuning_moves_so_much_of_ones_own_encoder(frame: Any, tuning: Any, moved: set[str]):
    X, y = frame
    mine = Pixels()
    before = {name: tensor.clone() for name, tensor in mine.state_dict().items()}
    branch = ImageBranch("photo", encoder=mine, size=8, tuning=tuning, width=2)
    model = MultimodalClassifier(**small(branches=[branch], early_stopping=False)).fit(X, y)
    after = model.network_.branches["photo"].encoder.state_dict()
    assert {name.partition(".")[0] for name in before if not before[name].equal(after[name])} == moved
    assert all(tensor.equal(before[name]) for name, tensor in mine.state_dict().items())
    assert model.embed(X)["photo"].shape == (len(X), 2)


def test_each_branch_has_its_rate(frame: Any):
    X, y = frame
    still = ImageBranch("photo", encoder=Pixels(), size=8, rate=0.0)
    model = MultimodalClassifier(**small(branches=[still, TextBranch("note", n_buckets=64)], early_stopping=False)).fit(
        X, y
    )
    assert still.encoder is not None
    after = model.network_.branches["photo"].encoder.state_dict()
    assert all(tensor.equal(after[name]) for name, tensor in still.encoder.state_dict().items())


def test_a_tokenizer_of_ones_own(frame: Any):
    class Words(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(10, 4)

        def forward(self, tokens: dict[str, Tensor]) -> Tensor:
            return self.embed(tokens["ids"]).mean(1)

    def tokenizer(texts: list[str]) -> dict[str, Tensor]:
        return {"ids": torch.tensor([[len(word) % 10 for word in text.split()[:4]] for text in texts])}

    X, y = frame
    branch = TextBranch("note", encoder=Words(), tokenizer=tokenizer)
    model = MultimodalClassifier(**small(branches=[branch])).fit(X.drop(columns="photo"), y)
    assert model.embed(X.drop(columns="photo"))["note"].shape == (len(X), 4)


def test_several_photographs_share_an_encoder(frame: Any):
    X, y = frame
    two = X.assign(other=X["photo"][::-1].to_numpy())
    for views, width in (("concat", 8), ("mean", 4)):
        branch = ImageBranch(["photo", "other"], encoder=Pixels(), size=8, views=views)
        model = MultimodalClassifier(**small(branches=[branch], fusion="trees")).fit(two, y)
        embedded = model.embed(two)["photo+other"]
        assert embedded.shape == (len(X), width)
        assert np.isnan(embedded).any(axis=1).sum() == (2 if views == "concat" else 0)


def test_a_broken_image_is_named_by_row_and_path(frame: Any, tmp_path: Path):
    X, y = frame
    (tmp_path / "broken.png").write_text("no image")
    broken = X.copy()
    broken.loc[12, "photo"] = str(tmp_path / "broken.png")
    with pytest.raises(InvalidArgumentError, match=r"X\['photo'\]\[12\].*broken\.png"):
        MultimodalClassifier(**small()).fit(broken, y)
    weight = np.ones(len(X))
    weight[[1, 5]] = 0
    with pytest.raises(InvalidArgumentError, match=r"X\['photo'\]\[12\].*broken\.png"):
        MultimodalClassifier(**small()).fit(broken, y, sample_weight=weight)
    broken.loc[12, "photo"] = str(tmp_path / "gone.png")
    with pytest.raises(InvalidArgumentError, match=r"X\['photo'\]\[12\].*gone\.png"):
        MultimodalClassifier(**small()).fit(broken, y, sample_weight=weight)
    model = MultimodalClassifier(**small(max_iter=2)).fit(X, y)
    with pytest.raises(InvalidArgumentError, match=r"X\['photo'\]\[12\].*gone\.png"):
        model.predict(broken)


def test_clone_and_parameters(frame: Any):
    model = MultimodalClassifier(**small(fusion="gated"))
    assert clone(model).get_params()["fusion"] == "gated"
    with pytest.raises(InvalidArgumentError, match="size"):
        MultimodalClassifier(**small(max_iter=2)).fit(*frame).predict(frame[0].drop(columns="size"))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("fusion", "sum"), ("normalization", "batch"), ("init", "best"), ("encoder_warmup", -1), ("alternate", 0.5),
        ("encoder_every", 0), ("encoder_rate", -1.0), ("tree_rate", np.inf), ("head_rate", "fast"),
        ("table_model", "forest"), ("encoder_warmup", 4), ("max_depth", 0), ("branches", "none"),
    ],
)  # fmt: skip
def test_parameters_that_mean_nothing_are_refused(frame: Any, name: str, value: Any):
    with pytest.raises(InvalidArgumentError, match=name):
        MultimodalClassifier(**small(**{name: value})).fit(*frame)


def test_words_are_left_out_in_training_alone(frame: Any):
    X, y = frame
    texts = X[["note"]]

    def answers(**given: Any) -> np.ndarray:
        branch = TextBranch("note", n_buckets=64, **given)
        return MultimodalClassifier(**small(branches=[branch], max_iter=3)).fit(texts, y).predict_proba(texts)

    assert (answers(word_dropout=0.5) == answers()).all()
    assert (answers(word_dropout=0.0) != answers()).any()
    assert (answers(word_dropout=0.9, tuning="frozen") == answers(word_dropout=0.0, tuning="frozen")).all()
    with pytest.raises(InvalidArgumentError, match="word_dropout"):
        answers(word_dropout=1.0)


def test_arrays_have_no_names():
    with pytest.raises(InvalidArgumentError, match="Arrow table"):
        MultimodalClassifier().fit(np.zeros((4, 2)), [0, 1, 0, 1])


def test_after_an_error_the_model_is_as_before(frame: Any):
    X, y = frame
    model = MultimodalClassifier(**small(max_iter=2)).fit(X, y)
    before = model.predict_proba(X)
    with pytest.raises(InvalidArgumentError):
        model.fit(X.drop(columns="photo"), y)
    assert (model.predict_proba(X) == before).all()


def test_a_transformer_and_its_tokenizer(frame: Any):
    transformers, tokenizers = pytest.importorskip("transformers"), pytest.importorskip("tokenizers")
    from hardwood.nn import TransformerEncoder

    words = {word: place for place, word in enumerate(("[PAD]", "[UNK]", "thing0", "thing1", "thing2"))}
    plain = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="[UNK]"))
    plain.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=plain, pad_token="[PAD]", unk_token="[UNK]")
    shape = {"vocab_size": 5, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = transformers.BertConfig(**shape, intermediate_size=8, max_position_embeddings=32)
    encoder = TransformerEncoder(transformers.BertModel(config))
    X, y = frame
    branch = TextBranch("note", encoder=encoder, tokenizer=tokenizer, tuning="last", most_words=12)
    model = MultimodalClassifier(**small(branches=[branch])).fit(X.drop(columns="photo"), y)
    assert model.embed(X.drop(columns="photo"))["note"].shape == (len(X), 8)
