"""Every backend of hard routing against the papers' dense formula in float64: values, leaves and gradients."""

import inspect
import itertools
import threading

import pytest
import torch

from hardwood.errors import InvalidArgumentError
from hardwood.ops import hard_trees
from helpers.processes import run_python
from helpers.routing import assert_close_to_reference, evaluate, make_problem

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU"))]
on_every_device = pytest.mark.parametrize("device", DEVICES)

# rows, trees, depth, features, outputs: every odd number that kernels stumble over.
SHAPES = [
    (1, 1, 1, 1, 1),
    (2, 3, 2, 2, 7),
    (3, 1, 3, 127, 2),
    (31, 65, 4, 5, 1),
    (33, 3, 5, 127, 7),
    (1000, 3, 6, 2, 2),
    (64, 65, 7, 3, 1),
    (33, 3, 8, 20, 2),
    (65, 1, 9, 4, 1),
    (33, 2, 10, 3, 2),
    (1000, 65, 5, 16, 1),
]


@on_every_device
@pytest.mark.parametrize("odd_cells", [False, True])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_shapes(shape, odd_cells, device):
    assert_close_to_reference(make_problem(*shape, odd_cells=odd_cells, device=device))


@on_every_device
@pytest.mark.parametrize("combine", ["softmax", "mean", "sum", "none"])
@pytest.mark.parametrize(
    ("selection", "split"), list(itertools.product(["entmax", "softmax"], ["sigmoid", "softsign", "entmoid"]))
)
@pytest.mark.parametrize("subset", [None, 4])
def test_options(combine, selection, split, subset, device):
    problem = make_problem(33, 5, 4, 7, 3, odd_cells=True, subset=subset, device=device)
    assert_close_to_reference(problem, combine=combine, selection=selection, split=split)


@on_every_device
@pytest.mark.parametrize("combine", ["softmax", "mean", "sum"])
@pytest.mark.parametrize("one_mask_for_all", [False, True])
def test_tree_masks(combine, one_mask_for_all, device):
    problem = make_problem(33, 6, 3, 4, 2, mask=True, device=device)
    mask = problem.fixed["tree_mask"]
    if one_mask_for_all:
        problem.fixed["tree_mask"] = mask[:1].clone()
    else:
        mask[5] = False  # a row without any tree
    assert_close_to_reference(problem, combine=combine)
    if not one_mask_for_all:
        assert not evaluate(problem, torch.float32, combine=combine)[0].output[5].any()


@on_every_device
@pytest.mark.parametrize("odd_cells", [False, True])
def test_without_learned_directions_missing_goes_left(odd_cells, device):
    problem = make_problem(40, 3, 4, 5, 2, odd_cells=odd_cells, missing=False, device=device)
    assert_close_to_reference(problem)
    nothing_known = torch.full((1, 5), torch.nan, device=device)
    assert not hard_trees(nothing_known, **problem.parameters).leaf_index.any()


@on_every_device
@pytest.mark.parametrize("spread", [0.0, 0.05, 5.0])
def test_full_and_sparse_supports(spread, device):
    assert_close_to_reference(make_problem(50, 4, 4, 60, 1, spread=spread, device=device))


@on_every_device
def test_float64(device):
    assert_close_to_reference(make_problem(33, 3, 5, 6, 2, odd_cells=True, dtype=torch.float64, device=device))


@on_every_device
def test_no_rows(device):
    problem = make_problem(0, 3, 2, 4, 2, device=device)
    got, grads = evaluate(problem, torch.float32)
    assert got.output.shape == (0, 2) and got.leaf_index.shape == (0, 3)
    assert not any(grad.any() for grad in grads.values())


@on_every_device
def test_a_row_does_not_depend_on_its_neighbours(device):
    problem = make_problem(200, 70, 5, 6, 2, odd_cells=True, device=device)
    together = hard_trees(problem.x, **problem.parameters)
    for i in (0, 63, 64, 199):
        alone = hard_trees(problem.x[i : i + 1], **problem.parameters)
        assert torch.equal(alone.leaf_index[0], together.leaf_index[i])
        torch.testing.assert_close(alone.output[0], together.output[i], rtol=1e-6, atol=1e-6)


@on_every_device
@pytest.mark.parametrize("depth", [5, 9])
def test_the_same_numbers_every_time(depth, device):
    problem = make_problem(300, 40, depth, 9, 2, odd_cells=True, device=device)
    torch.use_deterministic_algorithms(True)
    try:
        first, first_grads = evaluate(problem, torch.float32)
        again, again_grads = evaluate(problem, torch.float32)
    finally:
        torch.use_deterministic_algorithms(False)
    assert torch.equal(first.output, again.output)
    assert all(torch.equal(first_grads[name], again_grads[name]) for name in first_grads)


def test_ties_go_right_and_the_next_smaller_number_goes_left():
    threshold = torch.tensor([[[0.1]]])
    x = torch.tensor([[0.1], [torch.nextafter(torch.tensor(0.1), torch.tensor(0.0)).item()], [-0.0], [0.0]])
    logits, values = torch.zeros(1, 1, 1), torch.tensor([[[0.0], [1.0]]])
    assert hard_trees(x, logits, threshold, values, combine="sum").output[:, 0].tolist() == [1, 0, 0, 0]
    assert hard_trees(x, logits, 0 * threshold, values, combine="sum").output[:, 0].tolist() == [1, 1, 1, 1]


def test_float64_rows_meet_float32_thresholds_exactly():
    x = torch.tensor([[0.1], [float(torch.tensor(0.1))]], dtype=torch.float64)  # 0.1 is just below float32's 0.1
    logits, values = torch.zeros(1, 1, 1), torch.tensor([[[0.0], [1.0]]])
    result = hard_trees(x, logits, torch.tensor([[[0.1]]]), values, combine="sum")
    assert result.output[:, 0].tolist() == [0, 1] and result.output.dtype == torch.float64


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_rows(dtype):
    problem = make_problem(33, 3, 4, 5, 2)
    half = problem.x.to(dtype)
    got = hard_trees(half, **problem.parameters)
    assert got.output.dtype == torch.float32
    torch.testing.assert_close(got.output, hard_trees(half.float(), **problem.parameters).output)


def test_soft_selection_splits_on_the_mixture_of_features():
    x = torch.tensor([[1.0, -3.0], [1.0, 0.0]])
    logits, thresholds = torch.zeros(1, 1, 2, requires_grad=True), torch.zeros(1, 1, 2)
    values = torch.tensor([[[0.0], [1.0]]])
    result = hard_trees(x, logits, thresholds, values, combine="sum", soft_selection=True)
    assert result.output[:, 0].tolist() == [0, 1]  # the mean of the two cells is below 0, then above
    result.output.sum().backward()
    assert logits.grad.abs().sum() > 0


def test_many_python_threads_at_once():
    problem = make_problem(256, 64, 5, 8, 1)
    expected, expected_grads = evaluate(problem, torch.float32)
    wrong = []

    def work():
        for _ in range(5):
            got, grads = evaluate(problem, torch.float32)
            if not (torch.equal(got.output, expected.output) and torch.equal(grads["x"], expected_grads["x"])):
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_compile_has_no_graph_break():
    # A process of its own: the annotation checks of the test run are not something to trace through.
    run_python(
        """
        import torch
        from helpers.routing import make_problem
        from hardwood.ops import hard_trees

        problem = make_problem(20, 4, 3, 5, 2)
        parameters = {name: p.requires_grad_() for name, p in problem.parameters.items()}

        def loss(x):
            return hard_trees(x, **parameters).output.square().sum()

        compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
        wanted = torch.autograd.grad(loss(problem.x), list(parameters.values()))
        got = torch.autograd.grad(compiled(problem.x), list(parameters.values()))
        for a, b in zip(got, wanted, strict=True):
            torch.testing.assert_close(a, b)
        """
    )


@on_every_device
def test_operator_registrations(device):
    from hardwood.ops._custom_ops import forward_op

    problem = make_problem(5, 3, 2, 4, 2, device=device)
    p = {name: value.requires_grad_() for name, value in problem.parameters.items()}
    arguments = (
        problem.x.requires_grad_(), p["split_logits"], p["thresholds"], p["missing_logits"], p["leaf_values"],
        p["leaf_weights"], None, None, "softmax", "entmax", "sigmoid",
    )  # fmt: skip
    torch.library.opcheck(
        forward_op, arguments, test_utils=("test_schema", "test_faketensor", "test_autograd_registration")
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"x": torch.zeros(4)}, r"x\.shape=\(4,\).*rows, columns.*x\[None\]"),
        ({"x": torch.zeros(4, 6)}, r"x\.shape\[1\]=6.*5 columns"),
        ({"x": torch.zeros(4, 5, dtype=torch.int64)}, r"x\.dtype=torch\.int64.*x\.float\(\)"),
        ({"thresholds": torch.zeros(3, 7, 4)}, r"thresholds\.shape.*\(3, 7, 5\)"),
        ({"split_logits": torch.zeros(3, 6, 5)}, r"split_logits\.shape\[1\]=6.*2\*\*depth - 1"),
        ({"leaf_values": torch.zeros(3, 7, 2)}, r"leaf_values\.shape.*\(3, 8, 2\)"),
        ({"leaf_weights": torch.zeros(3, 7)}, r"leaf_weights\.shape.*\(3, 8\)"),
        ({"leaf_weights": None}, r"combine='softmax'.*leaf_weights"),
        ({"combine": "vote"}, r"combine='vote'.*'mean'"),
        ({"split": "step"}, r"split='step'.*'sigmoid'"),
        ({"selection": "argmax"}, r"selection='argmax'.*'entmax'"),
        ({"feature_subset": torch.full((3, 5), 9)}, r"feature_subset=9.*5 columns"),
        ({"tree_mask": torch.ones(4, 3)}, r"tree_mask\.dtype.*torch\.bool"),
        ({"tree_mask": torch.ones(2, 3, dtype=torch.bool)}, r"tree_mask\.shape"),
        ({"thresholds": torch.zeros(3, 7, 5, device="meta")}, r"thresholds\.device='meta'.*x is on cpu"),
        ({"split_logits": torch.full((3, 7, 5), torch.nan)}, r"split_logits.*not finite"),
        ({"thresholds": torch.full((3, 7, 5), torch.inf)}, r"thresholds.*not finite"),
        ({"leaf_values": torch.full((3, 8, 2), torch.nan)}, r"leaf_values.*not finite"),
        ({"leaf_weights": torch.full((3, 8), torch.nan)}, r"leaf_weights.*not finite"),
        ({"missing_logits": torch.full((3, 7, 5), torch.nan)}, r"missing_logits.*not finite"),
    ],
)
def test_bad_input_names_the_argument_and_the_remedy(change, message):
    problem = make_problem(4, 3, 3, 5, 2)
    with pytest.raises(InvalidArgumentError, match=message):
        # Without the annotation checks of the test run, which would get in first.
        inspect.unwrap(hard_trees)(**{"x": problem.x, **problem.parameters, **change})
