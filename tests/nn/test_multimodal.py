"""`MultimodalTrees`: each fusion is what it says, gradients reach what they should, and each phase moves its part."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from hardwood.errors import InvalidArgumentError
from hardwood.nn import BagEncoder, ConvEncoder, EncoderBranch, HardTrees, ModalBatch, MultimodalTrees, Part


def batch(rows: int = 5) -> ModalBatch:
    """Rows with two pictures each, of which some are missing, and a text."""
    draw = torch.Generator().manual_seed(3)
    present = torch.ones(rows, 2, dtype=torch.bool)
    present[1, 1] = present[2, 0] = present[2, 1] = False
    n_images = int(present.sum())
    images = torch.randint(0, 256, (n_images, 3, 8, 8), generator=draw, dtype=torch.uint8)
    words = torch.randint(0, 16, (rows, 6), generator=draw)
    table = torch.randn(rows, 4, generator=draw)
    table[0, 0] = torch.nan
    every = torch.ones(rows, 1, dtype=torch.bool)
    return ModalBatch(table, {"a.b": Part(images, present), "items": Part(words, every)})


def branches(**options: Any) -> dict[str, EncoderBranch]:
    return {
        "a.b": EncoderBranch(ConvEncoder(6, stages=(4, 8)), 6, n_views=2, width=3, **options),
        "items": EncoderBranch(BagEncoder(16, 5), 5),
    }


def network(fusion: Any, **options: Any) -> MultimodalTrees:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        made = branches(**options)
        n_seen = 4 + (sum(each.width for each in made.values()) if fusion == "trees" else 0)
        trees = HardTrees(n_seen, 2, 3, 2, generator=torch.Generator().manual_seed(0))
        net = MultimodalTrees(trees, made, 4, 2, fusion=fusion)
        if net.gate is not None:
            nn.init.normal_(net.gate.weight, std=0.1)
        net(batch())  # so that running statistics have begun
    return net


def test_concat_is_a_sum_of_trees_and_linear_maps():
    net, rows = network("concat").eval(), batch()
    assert isinstance(net.table, HardTrees)
    embedded = net.embeddings(rows)
    expected = net.table(rows.table) + net.bias
    for head, each in zip(net.heads, embedded.values(), strict=True):
        expected = expected + torch.where(each.isnan(), 0.0, each) @ head.weight.T
    torch.testing.assert_close(net(rows), expected)


def test_gates_begin_at_one_and_multiply_summands():
    net, rows = network("gated").eval(), batch()
    assert net.gate is not None
    plain = network("concat").eval()
    summands, gates = plain.summands(rows), net.gates(rows, net.embeddings(rows))
    least, most = gates.detach().min(), gates.detach().max()
    assert 0 < float(least) < float(most) < 2
    torch.testing.assert_close(net(rows), (summands * gates[..., None]).sum(1) + net.bias)
    nn.init.zeros_(net.gate.weight)
    torch.testing.assert_close(net(rows), plain(rows))


def test_trees_split_on_columns_and_normalised_embeddings():
    net, rows = network("trees").eval(), batch()
    assert isinstance(net.table, HardTrees)
    embedded = net.embeddings(rows)
    assert embedded["a.b"].isnan().sum(1).tolist() == [0, 3, 6, 0, 0]
    x = torch.cat([rows.table, embedded["a.b"], embedded["items"]], 1)
    torch.testing.assert_close(net(rows), net.table(x) + net.bias)
    with pytest.raises(InvalidArgumentError, match="summands"):
        net.summands(rows)


@pytest.mark.parametrize("fusion", ["concat", "gated", "trees"])
def test_a_row_does_not_depend_on_its_neighbours(fusion: Any):
    net, rows = network(fusion).eval(), batch()
    parts = rows.parts
    alone = ModalBatch(rows.table[:1], {
        "a.b": Part(parts["a.b"].values[:2], parts["a.b"].present[:1]),
        "items": Part(parts["items"].values[:1], parts["items"].present[:1]),
    })  # fmt: skip
    torch.testing.assert_close(net(alone), net(rows)[:1])


@pytest.mark.parametrize("views", ["concat", "mean"])
def test_whether_cells_are_missing_in_other_rows_changes_nothing(views: Any):
    class Turned(nn.Module):
        def forward(self, cells: Tensor) -> Tensor:
            return cells.mean((2, 3)).T.contiguous().T  # in memory by column

    branch = EncoderBranch(Turned(), 3, n_views=2, views=views)
    images = torch.rand(6, 3, 4, 4, generator=torch.Generator().manual_seed(0))
    whole = branch.embed(Part(images, torch.ones(3, 2, dtype=torch.bool)))
    present = torch.ones(4, 2, dtype=torch.bool)
    present[3] = False
    beside = branch.embed(Part(images, present))
    assert whole.equal(beside[:3])
    assert beside[3].isnan().all() and branch.embed(Part(images[:0], present[3:])).isnan().all()


def test_trees_on_embeddings_train_the_encoder():
    """The straight-through gradient of the input, carried on through normalisation, is what autograd makes of both."""
    net, rows = network("trees").eval(), batch()
    net(rows).square().sum().backward()
    reached = net.branches["a.b"].encoder
    assert isinstance(reached, ConvEncoder) and reached.last.weight.grad is not None
    assert float(reached.last.weight.grad.abs().sum()) > 0
    # The same from the outside: the gradient at the fused vector, times the Jacobian of the embedding.
    twin = network("trees").eval()
    fused = twin.fused(rows, twin.embeddings(rows))
    leaf = fused.detach().requires_grad_()
    (twin._trees(leaf, None, False) + twin.bias).square().sum().backward()
    fused.backward(leaf.grad)
    other = twin.branches["a.b"].encoder
    assert isinstance(other, ConvEncoder)
    torch.testing.assert_close(other.last.weight.grad, reached.last.weight.grad)


def moved(net: MultimodalTrees, before: MultimodalTrees) -> set[str]:
    """Return the parts of a network whose gradients exist."""
    found = {name.partition(".")[0] for name, parameter in net.named_parameters() if parameter.grad is not None}
    assert {name for name, _ in net.named_parameters()} == {name for name, _ in before.named_parameters()}
    return found


@pytest.mark.parametrize(
    ("phase", "concat", "trees"),
    [
        ("all", {"table", "encoders", "heads", "bias"}, {"table", "encoders", "bias"}),
        ("trees", {"table", "encoders", "heads", "bias"}, {"table", "bias"}),
        ("encoders", {"encoders", "heads", "bias"}, {"encoders", "bias"}),
        ("warm_up", {"encoders", "heads", "bias"}, {"encoders", "heads", "bias"}),
    ],
)
def test_each_phase_moves_its_part(phase: Any, concat: set[str], trees: set[str]):
    for fusion, expected in (("concat", concat), ("trees", trees)):
        net = network(fusion)
        net.phase = phase
        net.zero_grad()
        net(batch()).sum().backward()
        found = moved(net, network(fusion))
        if phase == "trees":
            expected = expected - {"encoders"}
        assert found == expected, fusion


def test_phases_do_not_change_what_is_predicted():
    net = network("trees").eval()
    expected = net(batch())
    for phase in ("trees", "encoders", "warm_up"):
        net.phase = phase
        assert net(batch()).equal(expected)


def test_the_encoder_moves_in_every_third_step():
    net = network("trees")
    net.encoder_every = 3
    net.steps.zero_()
    moves = []
    for _ in range(6):
        net.zero_grad()
        net(batch()).sum().backward()
        moves.append("encoders" in moved(net, net))
    assert moves == [False, False, True, False, False, True]


@pytest.mark.parametrize("tuning", ["frozen", "last", "full"])
def test_tuning_says_what_is_trained(tuning: Any):
    net = network("concat", tuning=tuning).train()
    branch = net.branches["a.b"]
    encoder = branch.encoder
    assert isinstance(encoder, ConvEncoder)
    trained = {name for name, parameter in encoder.named_parameters() if parameter.requires_grad}
    every = {name for name, _ in encoder.named_parameters()}
    assert trained == {"frozen": set(), "last": {"last.weight", "last.bias"}, "full": every}[tuning]
    assert encoder.body.training is (tuning == "full")
    assert encoder.last.training is (tuning != "frozen")
    assert all(parameter.requires_grad for parameter in branch.projection.parameters())


def test_views_are_kept_apart_or_averaged():
    rows = batch()
    branch = EncoderBranch(ConvEncoder(6, stages=(4,)), 6, n_views=2, views="mean", normalization="none").eval()
    apart = copy.deepcopy(branch)
    apart.views = "concat"
    cells = apart.embed(rows.parts["a.b"]).reshape(5, 2, 6)
    torch.testing.assert_close(branch(rows.parts["a.b"]), cells.nanmean(1), equal_nan=True)


def test_no_cell_at_all_is_no_embedding():
    branch = branches()["a.b"].eval()
    none = Part(torch.zeros((0, 3, 8, 8), dtype=torch.uint8), torch.zeros(3, 2, dtype=torch.bool))
    assert branch(none).isnan().all()


def test_any_module_can_take_the_table():
    class Linear(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x.nan_to_num(0.0))

    net = MultimodalTrees(Linear(4, 2), branches(), 4, 2)
    assert net(batch(), tree_mask=torch.ones(1, 1, dtype=torch.bool)).shape == (5, 2)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"encoder_every": 0}, "encoder_every"),
        ({"table": None, "fusion": "trees"}, "table"),
        ({"table": HardTrees(3, 2, 2, 2)}, "n_features"),
        ({"branches": {"table": EncoderBranch(nn.Identity(), 1)}}, "branches"),
    ],
)
def test_what_does_not_go_together_is_refused(change: dict[str, Any], named: str):
    given: dict[str, Any] = {"table": HardTrees(4, 2, 2, 2), "branches": branches(), "n_table": 4, "n_outputs": 2}
    with pytest.raises(InvalidArgumentError, match=named):
        MultimodalTrees(**{**given, **change})
