"""The network that a multimodal estimator trains, made of what its parameters and its columns call for."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from hardwood._typing import Float, Int
from hardwood.errors import reject
from hardwood.estimators._device import count_threads
from hardwood.estimators._modal_source import ModalSource
from hardwood.estimators._modalities import Branch, ImageBranch, columns_of, name_of
from hardwood.estimators._multimodal_turns import init_of
from hardwood.estimators._parameters import is_whole
from hardwood.estimators._rows import Rows
from hardwood.estimators._start import as_ensemble, greedy_forest, has_splits
from hardwood.nn import BagEncoder, ConvEncoder, EncoderBranch, HardTrees, MultimodalTrees
from hardwood.nn._backbones import embedding_width

if TYPE_CHECKING:
    from hardwood.estimators._multimodal import MultimodalEstimator
else:
    MultimodalEstimator = Any

_BUILT_IN_WIDTH = 32
_PROJECTED_ABOVE = 32
_STRENGTH = 1.0


def new_network(
    model: MultimodalEstimator, source: ModalSource, rows: Rows, training: Int[np.ndarray, " training"], seed: int
) -> MultimodalTrees:
    """Return a network at its start: at random, or the table's trees at a random forest."""
    branches = {name_of(branch): _new_branch(model, branch, source) for branch in model.branches_}
    n_table, n_outputs = source.table.shape[1], rows.target.n_outputs
    n_seen = n_table + (sum(branch.width for branch in branches.values()) if model.fusion == "trees" else 0)
    table: nn.Module | None = None
    if model.table_model != "trees":
        if model.fusion == "trees":
            remedy = "pass table_model='trees', or another fusion"
            reject("table_model", model.table_model, "goes with fusion='concat' or 'gated' only", remedy)
        table = model.table_model(n_table, n_outputs) if n_table else None
    elif n_seen:
        generator = torch.Generator().manual_seed(seed)
        size = (n_seen, n_outputs, model.n_estimators, model.max_depth)
        table = HardTrees(*size, combine="softmax", init="normal", split="softsign", generator=generator)
    network = MultimodalTrees(
        table, branches, n_table, n_outputs, fusion=model.fusion, encoder_every=model.encoder_every
    )
    mine = Rows(None, rows.target.take(training), rows.weight[training])
    with torch.no_grad():
        values = mine.target.tensor(torch.device("cpu"))
        network.bias.copy_(mine.target.loss.initial(values, torch.from_numpy(mine.weight)).float())
    if init_of(model) == "greedy" and model.fusion != "trees":
        plant(network, source.table.numpy()[training], mine, seed, model.n_jobs)
    return network


def _new_branch(model: MultimodalEstimator, branch: Branch, source: ModalSource) -> EncoderBranch:
    """Return a branch with an encoder of its own."""
    reader, cells, rows = source.readers[name_of(branch)], source.cells[name_of(branch)], source.numbers.tolist()
    # The user's own module is left as it is.
    encoder = copy.deepcopy(branch.encoder)
    there = [
        (cell, row, view)
        for row, of_row in zip(rows, cells, strict=True)
        for view, cell in enumerate(of_row)
        if cell is not None
    ]
    if not there:
        remedy = "leave these columns out, or name them 'table' in branches"
        reject("branches", name_of(branch), "has no cell in all training rows", remedy)
    if encoder is None and isinstance(branch, ImageBranch):
        encoder = ConvEncoder(_BUILT_IN_WIDTH, branch.channels)
    elif encoder is None:
        encoder = BagEncoder(getattr(branch, "n_buckets", 4096), _BUILT_IN_WIDTH)
    options: dict[str, Any] = {"views": branch.views, "tuning": branch.tuning, "normalization": model.normalization}
    if isinstance(branch, ImageBranch):
        options |= {"pixel_mean": branch.pixel_mean, "pixel_scale": branch.pixel_scale}
    probe = EncoderBranch(nn.Identity(), 1, **{**options, "tuning": "full"})
    tried = [each for each, _, _ in there[:2]]
    width = embedding_width(encoder, probe._pixels(reader.values(tried, [each[1:] for each in there[:2]], None)))
    chosen = branch.width
    if chosen == "auto":
        chosen = _PROJECTED_ABOVE if width > _PROJECTED_ABOVE else None
    if chosen is not None and (not is_whole(chosen) or chosen < 1):
        reject("width", chosen, "is no number of columns", "pass 'auto', None, or an integer of at least 1")
    return EncoderBranch(encoder, width, n_views=len(columns_of(branch)), width=chosen, **options)


def plant(
    network: MultimodalTrees, x: Float[np.ndarray, "rows seen"], rows: Rows, seed: int, n_jobs: int | None
) -> None:
    """Let the trees start as a random forest on what they see."""
    trees = network.table
    if not isinstance(trees, HardTrees):
        return
    jobs = count_threads(n_jobs, x.size * trees.n_trees)
    forest = greedy_forest(x, rows, trees.n_trees, trees.depth, seed, jobs)
    if not has_splits(forest):
        return
    generator = torch.Generator().manual_seed(seed)
    planted = HardTrees.from_forest(
        as_ensemble(forest), depth=trees.depth, strength=_STRENGTH, split="softsign", generator=generator
    )
    with torch.no_grad():
        held = trees.state_dict()
        for name, tensor in planted.state_dict().items():
            held[name].copy_(tensor)
        network.bias.zero_()
