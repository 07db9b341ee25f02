"""A multimodal model is trained on a GPU as on the CPU, and answers the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from hardwood.estimators import ImageBranch, MultimodalClassifier, MultimodalRegressor, TextBranch
from hardwood.nn import MultimodalTrees
from helpers.multimodal import made_frame, small, small_encoder

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


@pytest.fixture(scope="module")
def frame(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return made_frame(tmp_path_factory.mktemp("images"))


@pytest.mark.parametrize("fusion", ["concat", "gated", "trees"])
def test_the_first_steps_are_those_of_the_cpu(frame: Any, fusion: str):
    X, y = frame
    given = small(fusion=fusion, max_iter=2, encoder_warmup=1, init="random", early_stopping=False)
    made = [MultimodalClassifier(**given, device=device).fit(X, y) for device in ("cpu", "cuda")]
    np.testing.assert_allclose(made[0].predict_proba(X), made[1].predict_proba(X), atol=2e-2)


@pytest.mark.parametrize("how", [{}, {"alternate": 1}, {"encoder_every": 2}, {"fusion": "trees"}])
def test_it_learns_and_is_left_on_the_cpu(frame: Any, how: dict[str, Any]):
    X, y = frame
    model = MultimodalClassifier(**small(max_iter=20, head_rate=0.02, device="cuda", **how)).fit(X, y)
    assert model.score(X, y) > 0.7
    assert {parameter.device.type for parameter in model.network_.parameters()} == {"cpu"}
    assert model.explain(X[:2])[0].rules is not None


def test_frozen_encoders_several_views_and_numbers(frame: Any, tmp_path: Path):
    X, y = frame
    two = X.assign(other=X["photo"][::-1].to_numpy())
    views = ImageBranch(["photo", "other"], encoder=small_encoder(), size=8, tuning="frozen", views="mean")
    given = small(branches=[views, TextBranch("note", n_buckets=64)], device="cuda")
    model = MultimodalRegressor(**given).fit(two, 100.0 * y)
    model.save(tmp_path / "model")
    again = MultimodalRegressor.load(tmp_path / "model", encoders={"photo+other": small_encoder()})
    np.testing.assert_array_equal(again.predict(two), model.predict(two))


def test_training_goes_on_where_it_stopped(frame: Any, tmp_path: Path):
    X, y = frame
    path = str(tmp_path / "state")
    given = small(max_iter=6, device="cuda", early_stopping=False)
    MultimodalClassifier(**{**given, "max_iter": 3}, checkpoint=path).fit(X, y)
    resumed = MultimodalClassifier(**given, resume_from=path).fit(X, y)
    whole = MultimodalClassifier(**given).fit(X, y)
    assert resumed.n_iter_ == 6
    np.testing.assert_allclose(resumed.predict_proba(X), whole.predict_proba(X), atol=5e-2)


def test_a_network_on_the_gpu_says_what_it_says_on_the_cpu(frame: Any):
    X, y = frame
    for fusion in ("concat", "gated", "trees"):
        model = MultimodalClassifier(**small(fusion=fusion)).fit(X, y)
        network: MultimodalTrees = model.network_
        rows = model._rows_of(X)
        with torch.no_grad():
            here = network(rows)
            there = network.cuda()(rows).cpu()
        torch.testing.assert_close(there, here, atol=1e-4, rtol=1e-4)
        network.cpu()


@pytest.mark.filterwarnings("ignore:Synchronization debug mode is a prototype")
def test_a_step_never_waits_for_the_gpu():
    pytest.importorskip("benchmarks.multimodal.speed")
    from benchmarks.multimodal.speed import stepper

    for trees in (True, False):
        step = stepper(trees, (16, 32, (8, 8)), 5, 3, 8, "cuda")
        for _ in range(2):
            step()  # compiles, and makes the optimiser's state
        mode = torch.cuda.get_sync_debug_mode()
        try:
            torch.cuda.set_sync_debug_mode("error")
            step()
        finally:
            torch.cuda.set_sync_debug_mode(mode)


def test_batches_reach_the_gpu_whole(frame: Any):
    X, y = frame
    model = MultimodalClassifier(**small(max_iter=2)).fit(X, y)
    batch = model._rows_of(X).load()
    there = batch.pin_memory().to(torch.device("cuda"))
    torch.testing.assert_close(there.table.cpu(), batch.table, rtol=0, atol=0, equal_nan=True)
    for name, part in batch.parts.items():
        assert there.parts[name].values.cpu().equal(part.values)
        assert there.parts[name].present.cpu().equal(part.present)
