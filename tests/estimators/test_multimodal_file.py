"""A multimodal model comes back from its file whole, or not at all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from hardwood.errors import ForestFileError, InvalidArgumentError
from hardwood.estimators import ImageBranch, MultimodalClassifier, MultimodalRegressor, TextBranch
from helpers.multimodal import made_frame, small


@pytest.mark.parametrize("fusion", ["concat", "gated", "trees"])
def test_everything_comes_back(tmp_path: Path, fusion: str):
    X, y = made_frame(tmp_path)
    model = MultimodalClassifier(**small(fusion=fusion, max_iter=2)).fit(X, np.array(list("xyz"))[y])
    path = tmp_path / "model.safetensors"
    model.save(path)
    again = MultimodalClassifier.load(path)
    assert (again.predict_proba(X) == model.predict_proba(X)).all()
    assert (again.predict(X) == model.predict(X)).all()
    assert (again.forest_rows(X)[:3] == model.forest_rows(X)[:3]).all()
    assert again.forest_ == model.forest_
    mine, theirs = (each.explain(X[:4]) for each in (model, again))
    assert [each.shares for each in theirs] == [pytest.approx(each.shares) for each in mine]
    assert again.get_params()["n_estimators"] == 4


def test_numbers_keep_their_units(tmp_path: Path):
    X, y = made_frame(tmp_path)
    model = MultimodalRegressor(**small(max_iter=2, branches={"note": "table"})).fit(X, 1e6 + 1e5 * y)
    model.save(tmp_path / "model")
    again = MultimodalRegressor.load(tmp_path / "model")
    assert (again.fit(X, y).predict(X) != model.predict(X)).any()  # it can be trained anew
    assert (MultimodalRegressor.load(tmp_path / "model").predict(X) == model.predict(X)).all()


class Mean(nn.Module):
    def __init__(self, width: int = 3) -> None:
        super().__init__()
        self.layer = nn.Linear(3, width)

    def forward(self, images: Tensor) -> Tensor:
        return self.layer(images.mean((2, 3)))


class Lengths(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(1, 2)

    def forward(self, lengths: Tensor) -> Tensor:
        return self.layer(lengths)


def lengths(texts: list[str]) -> Tensor:
    return torch.tensor([[float(len(text))] for text in texts])


def test_ones_own_encoders_are_given_again_and_filled(tmp_path: Path):
    X, y = made_frame(tmp_path)
    branches = [
        ImageBranch("photo", encoder=Mean(), size=8, width=2, tuning="last"),
        TextBranch("note", encoder=Lengths(), tokenizer=lengths),
    ]
    model = MultimodalClassifier(**small(max_iter=2, branches=branches)).fit(X, y)
    path = tmp_path / "model"
    model.save(path)
    given: dict[str, Any] = {"encoders": {"photo": Mean(), "note": Lengths()}, "tokenizers": {"note": lengths}}
    assert (MultimodalClassifier.load(path, **given).predict_proba(X) == model.predict_proba(X)).all()
    with pytest.raises(InvalidArgumentError, match=r"'photo'.*Mean"):
        MultimodalClassifier.load(path)
    with pytest.raises(InvalidArgumentError, match="tokenizers"):
        MultimodalClassifier.load(path, encoders=given["encoders"])
    with pytest.raises(ForestFileError, match="fit together"):
        MultimodalClassifier.load(path, **{**given, "encoders": {"photo": Mean(7), "note": Lengths()}})


def test_images_may_have_moved(tmp_path: Path):
    X, y = made_frame(tmp_path)
    X["photo"] = [Path(path).name if isinstance(path, str) else None for path in X["photo"]]
    model = MultimodalClassifier(**small(max_iter=2, branches=[ImageBranch("photo", size=8, folder=tmp_path)]))
    model.fit(X, y).save(tmp_path / "model")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for name in X["photo"]:
        if isinstance(name, str):
            (tmp_path / name).rename(elsewhere / name)
    again = MultimodalClassifier.load(tmp_path / "model", folder=elsewhere)
    assert again.predict(X).shape == (len(X),)
    with pytest.raises(InvalidArgumentError, match="no such file"):
        MultimodalClassifier.load(tmp_path / "model").predict(X)


def test_files_that_are_not_whole_are_refused(tmp_path: Path):
    X, y = made_frame(tmp_path)
    model = MultimodalClassifier(**small(max_iter=2, branches={"photo": "table", "note": "text"})).fit(X, y)
    path = tmp_path / "model"
    model.save(path)
    content = path.read_bytes()
    with pytest.raises(ForestFileError, match=r"MultimodalClassifier\.load"):
        MultimodalRegressor.load(path)
    for altered in (content[:-5], content[:-1] + bytes([content[-1] ^ 1]), b"x" * 100):
        (tmp_path / "altered").write_bytes(altered)
        with pytest.raises(ForestFileError, match="altered"):
            MultimodalClassifier.load(tmp_path / "altered")
    from hardwood.train._checkpoint import save_checkpoint

    save_checkpoint(tmp_path / "other", {"a": torch.zeros(1)}, {"step": 3})
    with pytest.raises(ForestFileError, match="no multimodal model"):
        MultimodalClassifier.load(tmp_path / "other")
    with pytest.raises(InvalidArgumentError, match="folder"):
        model.save(tmp_path)


def test_a_table_model_of_a_function_is_not_saved(tmp_path: Path):
    X, y = made_frame(tmp_path)

    def linear(n_features: int, n_outputs: int) -> nn.Module:
        return nn.Sequential(Zeros(), nn.Linear(n_features, n_outputs))

    model = MultimodalClassifier(**small(max_iter=2, table_model=linear)).fit(X, y)
    assert model.forest_ is None
    assert model.explain(X[:1])[0].rules is None
    with pytest.raises(InvalidArgumentError, match="table_model"):
        model.save(tmp_path / "model")


class Zeros(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.nan_to_num(0.0)
