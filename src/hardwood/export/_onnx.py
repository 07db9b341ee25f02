"""A forest as an ONNX model: one `TreeEnsemble` (ai.onnx.ml, version 5), and what makes predictions of its leaves.

A sum or mean of trees with one output is the ensemble's own sum. Otherwise the ensemble says which leaf each tree
reaches, and tables are read at these leaves: values, coefficients of linear leaves, and GRANDE's leaf weights.

Oblique splits are summed before the ensemble, in float64, one column after another as the forest does it: at step k
every split adds its k-th product. What the ensemble compares is then 0 for left, 1 for right, NaN for missing.

Category splits read columns of their own, in which a fraction is missing: onnxruntime cuts it to a whole number when it
looks it up in a larger set.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from hardwood.errors import reject
from hardwood.export import _support
from hardwood.export._categories import json_value
from hardwood.export._extra import optional
from hardwood.export._onnx_graph import Graph
from hardwood.export._onnx_trees import LeafOutput, attributes, coded_columns
from hardwood.forest import LEAF, OBLIQUE, Forest

_OPSET, _ML_OPSET, _IR = 21, 5, 10
_MOST_FLOAT32 = 2**24  # float32 holds every whole number up to here


def to_onnx(forest: Forest, *, dtype: str = "float64", leaves: bool = False) -> Any:
    """Return an `onnx.ModelProto` that routes every row as the forest does; onnxruntime 1.21 or later runs it.

    The input `X` has shape (rows, features): numbers, and for category columns their codes. `dtype` is its type, and
    that of the results. With float32, thresholds are rounded so that every float32 row takes the same way.

    A classifier's results are `label` (rows) and `probabilities` (rows, classes), those of another forest `prediction`
    (rows, outputs). With `leaves=True` there is also `leaf` (rows, trees), the node numbers of `Forest.apply`.

    The names and types of columns and the vocabularies are in the model's metadata, as JSON.
    """
    _support.check(forest, "onnx")
    if dtype not in ("float64", "float32"):
        reject("dtype", dtype, "is no type of inputs here", "use 'float64' or 'float32'")
    real = np.float64 if dtype == "float64" else np.float32
    _check_size(forest, real)
    onnx = optional("onnx", "to_onnx")
    optional("onnx.checker", "to_onnx")
    graph = Graph()
    by_leaf = leaves or forest.n_outputs > 1 or not _is_plain_sum(forest)
    table = _table(graph, forest, real)
    outputs = _sum_by_leaf(graph, forest, table, real, leaves) if by_leaf else _sum_directly(graph, forest, table, real)
    results = _results(graph, forest, outputs, real)
    if leaves:
        results.append(("leaf", onnx.TensorProto.INT64, ["rows", forest.n_trees]))
    helper, kind = onnx.helper, onnx.helper.np_dtype_to_tensor_dtype(np.dtype(real))
    made = helper.make_graph(
        graph.nodes,
        "forest",
        [helper.make_tensor_value_info("X", kind, ["rows", forest.n_features])],
        [helper.make_tensor_value_info(name, of, shape) for name, of, shape in results],
        list(graph.constants.values()),
    )
    from hardwood import __version__

    opsets = [helper.make_opsetid("", _OPSET), helper.make_opsetid("ai.onnx.ml", _ML_OPSET)]
    model = helper.make_model(
        made, opset_imports=opsets, ir_version=_IR, producer_name="hardwood", producer_version=__version__
    )
    helper.set_model_props(model, _metadata(forest))
    onnx.checker.check_model(model, full_check=True)
    return model


def _is_plain_sum(forest: Forest) -> bool:
    return not _support.has_linear_leaves(forest) and _support.combination(forest) != "softmax"


def _check_size(forest: Forest, real: type[np.floating[Any]]) -> None:
    """Refuse what float32 cannot count, or hold."""
    if real is np.float64:
        return
    largest = max([*map(len, forest.categories.values()), *np.diff(forest.tree_start).tolist()])
    if largest > _MOST_FLOAT32:
        problem = f"counts {largest} categories or nodes of a tree, more than float32 tells apart"
        reject("forest", forest, problem, "export it with dtype='float64'")
    for name in ("leaf_values", "leaf_weights", "leaf_coef", "base"):
        values = getattr(forest, name)
        if values is not None and np.abs(values).max(initial=0.0) > np.finfo(np.float32).max:
            reject(f"forest.{name}", values, "has numbers beyond float32", "export it with dtype='float64'")


# ---------------------------------------------------------------- from rows to leaves


def _table(graph: Graph, forest: Forest, real: type[np.floating[Any]]) -> str:
    """Return `X` with a column for each oblique split, and one for each column that is split by category."""
    parts = ["X"]
    if (forest.kind == OBLIQUE).any():
        parts.append(_sides(graph, forest, real))
    coded = coded_columns(forest)
    if len(coded):
        cells = graph.add("Gather", "X", graph.constant("coded_columns", coded), axis=1)
        whole = graph.add("Equal", graph.add("Floor", cells), cells)
        parts.append(graph.add("Where", whole, cells, graph.constant("missing", real(np.nan))))
    return "X" if len(parts) == 1 else graph.add("Concat", *parts, axis=1)


def _sides(graph: Graph, forest: Forest, real: type[np.floating[Any]]) -> str:
    """Return where each oblique split sends each row: 0 left, 1 right, NaN where a cell is missing."""
    from onnx import TensorProto

    split = np.flatnonzero(forest.kind == OBLIQUE)
    assert forest.weight_start is not None and forest.weight_feature is not None and forest.weight_value is not None
    start, count = forest.weight_start[split], np.diff(forest.weight_start)[split]
    cells = graph.add("Cast", "X", to=TensorProto.DOUBLE)
    nothing = graph.constant("nothing", np.float64(0.0))
    total = missing = ""
    for k in range(int(count.max())):
        # A split that has no k-th weight takes part with its first column, and what it would add is replaced by 0.
        has = count > k
        place = start + np.where(has, k, 0)
        column = graph.constant(f"oblique_columns_{k}", forest.weight_feature[place].astype(np.int64))
        cell = graph.add("Gather", cells, column, axis=1)
        product = graph.add("Mul", graph.constant(f"oblique_weights_{k}", forest.weight_value[place]), cell)
        if not has.all():
            product = graph.add("Where", graph.constant(f"oblique_has_{k}", has), product, nothing)
        hole = graph.add("IsNaN", cell)
        total = product if k == 0 else graph.add("Add", total, product)
        missing = hole if k == 0 else graph.add("Or", missing, hole)
    below = graph.add("Less", total, graph.constant("oblique_thresholds", forest.threshold[split]))
    side = graph.add("Where", below, graph.constant("left", real(0.0)), graph.constant("right", real(1.0)))
    return graph.add("Where", missing, graph.constant("missing", real(np.nan)), side)


def _sum_directly(graph: Graph, forest: Forest, table: str, real: type[np.floating[Any]]) -> str:
    """Let the ensemble add up one output."""
    leaf = LeafOutput(np.zeros(forest.n_leaves, np.int64), forest.leaf_values[:, 0], 1)
    total = graph.add("TreeEnsemble", table, domain="ai.onnx.ml", **attributes(forest, leaf, real))
    return _finish(graph, forest, total, real)


def _finish(graph: Graph, forest: Forest, total: str, real: type[np.floating[Any]]) -> str:
    """Turn a sum over trees into outputs, `base` included."""
    if _support.combination(forest) == "mean":
        total = graph.add("Div", total, graph.constant("n_trees", real(forest.n_trees)))
    if forest.base is not None:
        total = graph.add("Add", total, graph.constant("base", forest.base.astype(real)))
    return total


def _sum_by_leaf(graph: Graph, forest: Forest, table: str, real: type[np.floating[Any]], leaves: bool) -> str:
    """Let the ensemble say which leaf each tree reaches, and read tables there."""
    from onnx import TensorProto

    owner = np.repeat(np.arange(forest.n_trees), np.diff(forest.tree_start))[forest.kind == LEAF]
    first = np.searchsorted(owner, np.arange(forest.n_trees))
    # Counted within its tree, a leaf's number stays small enough for float32.
    within = (np.arange(forest.n_leaves) - first[owner]).astype(np.float64)
    said = graph.add(
        "TreeEnsemble", table, domain="ai.onnx.ml",
        **attributes(forest, LeafOutput(owner, within, forest.n_trees), real),
    )  # fmt: skip
    whole = graph.add("Cast", said, to=TensorProto.INT64)
    leaf = graph.add("Add", whole, graph.constant("first_leaves", first))
    if leaves:
        node = np.flatnonzero(forest.kind == LEAF) - forest.tree_start[:-1][owner]
        graph.add("Gather", graph.constant("leaf_nodes", node), leaf, axis=0, name="leaf")
    values = graph.add("Gather", graph.constant("leaf_values", forest.leaf_values.astype(real)), leaf, axis=0)
    if _support.has_linear_leaves(forest):
        values = _add_linear(graph, forest, leaf, values, real)
    if _support.combination(forest) == "softmax":
        assert forest.leaf_weights is not None
        weight = graph.add("Gather", graph.constant("leaf_weights", forest.leaf_weights.astype(real)), leaf, axis=0)
        weight = graph.add("Softmax", weight, axis=1)
        weight = graph.add("Unsqueeze", weight, graph.constant("last_axis", np.array([2])))
        values = graph.add("Mul", values, weight)
    total = graph.add("ReduceSum", values, graph.constant("trees_axis", np.array([1])), keepdims=0)
    return _finish(graph, forest, total, real)


def _add_linear(graph: Graph, forest: Forest, leaf: str, values: str, real: type[np.floating[Any]]) -> str:
    """Add the products of linear leaves column by column, as the forest does; only one such table is held at a time."""
    assert forest.leaf_coef is not None
    zero = graph.constant("no_product", real(0.0))
    for column in np.flatnonzero((forest.leaf_coef != 0).any(axis=(0, 2))).tolist():
        coef = graph.constant(f"coefficients_{column}", forest.leaf_coef[:, column].astype(real))
        coef = graph.add("Gather", coef, leaf, axis=0)
        cell = graph.add("Gather", "X", graph.constant(f"column_{column}", np.array([[column]])), axis=1)
        product = graph.add("Mul", coef, cell)
        idle = graph.add("Or", graph.add("IsNaN", cell), graph.add("Equal", coef, zero))
        values = graph.add("Add", values, graph.add("Where", idle, zero, product))
    return values


# ---------------------------------------------------------------- from outputs to predictions


def _results(
    graph: Graph, forest: Forest, outputs: str, real: type[np.floating[Any]]
) -> list[tuple[str, int, list[Any]]]:
    """Append link and labels; return the graph's results with their types and shapes."""
    from onnx import TensorProto, helper

    kind = helper.np_dtype_to_tensor_dtype(np.dtype(real))
    if forest.classes is None:
        _link(graph, forest, outputs, "prediction")
        return [("prediction", kind, ["rows", forest.n_outputs])]
    if forest.link == "sigmoid":
        second = _link(graph, forest, outputs, "second_class")
        first = graph.add("Sub", graph.constant("one", real(1.0)), second)
        graph.add("Concat", first, second, axis=1, name="probabilities")
        above = graph.add("Greater", outputs, graph.constant("even", real(0.0)))
        column = graph.add("Squeeze", above, graph.constant("outputs_axis", np.array([1])))
        chosen = graph.add("Cast", column, to=TensorProto.INT64)
    else:
        _link(graph, forest, outputs, "probabilities")
        chosen = graph.add("ArgMax", outputs, axis=1, keepdims=0)
    if forest.classes.dtype.kind == "U":
        labels, label_kind = graph.texts("labels", _texts(forest.classes.tolist())), TensorProto.STRING
    else:
        labels = graph.constant("labels", forest.classes)
        label_kind = helper.np_dtype_to_tensor_dtype(forest.classes.dtype)
    graph.add("Gather", labels, chosen, axis=0, name="label")
    return [("label", label_kind, ["rows"]), ("probabilities", kind, ["rows", len(forest.classes)])]


def _link(graph: Graph, forest: Forest, outputs: str, name: str) -> str:
    operation = {"identity": "Identity", "sigmoid": "Sigmoid", "softmax": "Softmax", "exp": "Exp"}[forest.link]
    attributes: dict[str, Any] = {"axis": 1} if forest.link == "softmax" else {}
    return graph.add(operation, outputs, name=name, **attributes)


def _texts(labels: list[str]) -> list[str]:
    for label in labels:
        if not is_unicode(label):
            reject("forest.classes", label, "is no valid Unicode text, which ONNX demands", "name the class otherwise")
    return labels


def is_unicode(text: str) -> bool:
    """Tell whether a text can be written as UTF-8: it has no half of a surrogate pair alone."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _metadata(forest: Forest) -> dict[str, str]:
    """Return what the graph does not say, as JSON of ASCII letters only."""
    described = {
        "feature_names": forest.feature_names,
        "feature_types": forest.feature_types,
        "categories": {
            str(column): [json_value(word) for word in words] for column, words in forest.categories.items()
        },
        "output_names": forest.output_names,
    }
    return {name: json.dumps(value) for name, value in described.items() if value}
