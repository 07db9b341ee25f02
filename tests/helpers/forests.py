"""Random valid forests of every kind, rows that try their edges, and a reference router that is easy to read."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st

from hardwood.forest import CATEGORIES, LEAF, OBLIQUE, THRESHOLD, Forest

ALL_KINDS = (THRESHOLD, CATEGORIES, OBLIQUE)
VOCABULARIES: tuple[tuple[Any, ...], ...] = (("a", "b", "c", "d", "e"), (10, 20, 30), (0.5, 1.5), (False, True), ("x",))


def random_forest(
    rng: np.random.Generator,
    *,
    n_trees: int | None = None,
    max_splits: int = 12,
    n_features: int | None = None,
    n_outputs: int | None = None,
    kinds: Sequence[int] = ALL_KINDS,
    combine: str | None = None,
    linear: bool | None = None,
    named: bool | None = None,
    task: str | None = None,
) -> Forest:
    """Make a random valid forest; whatever is None is drawn. `task`: "regression", "binary", "probability", "classes".

    Trees have any shape, from one leaf to a chain. Thresholds, weights and leaf values come from small grids, so that
    ties, repeated conditions and equal leaves are common. Thresholds are sometimes infinite.
    """
    n_trees = int(rng.integers(1, 5)) if n_trees is None else n_trees
    n_features = int(rng.integers(1, 6)) if n_features is None else n_features
    task = str(rng.choice(["regression", "binary", "probability", "classes"])) if task is None else task
    combine = str(rng.choice(["sum", "mean", "softmax"])) if combine is None else combine
    n_outputs = int(rng.integers(1, 4)) if n_outputs is None else n_outputs
    n_outputs = 1 if task == "binary" else n_outputs
    linear = bool(rng.random() < 0.25) if linear is None else linear
    named = bool(rng.random() < 0.5) if named is None else named

    with_words = [column for column in range(n_features) if CATEGORIES in kinds and rng.random() < 0.5]
    categories = {column: VOCABULARIES[rng.integers(len(VOCABULARIES))] for column in with_words}
    usable = [kind for kind in kinds if kind != CATEGORIES or categories]

    nodes: list[dict[str, Any]] = []
    starts = [0]
    for _ in range(n_trees):
        splits = int(rng.integers(0, max_splits + 1)) if usable else 0
        nodes += _random_tree(rng, splits, len(nodes), usable, n_features, categories)
        starts.append(len(nodes))

    leaves = sum(node["kind"] == LEAF for node in nodes)
    fields: dict[str, Any] = {
        name: [node[name] for node in nodes] for name in ("kind", "left", "right", "feature", "threshold")
    }
    fields["missing_left"] = np.array([node["missing_left"] for node in nodes], bool)
    if any(node["kind"] == CATEGORIES for node in nodes) or rng.random() < 0.2:
        fields["category_start"] = np.cumsum([0, *(len(node["codes"]) for node in nodes)])
        fields["category_codes"] = np.array([code for node in nodes for code in node["codes"]], np.int32)
    if any(node["kind"] == OBLIQUE for node in nodes) or rng.random() < 0.2:
        fields["weight_start"] = np.cumsum([0, *(len(node["columns"]) for node in nodes)])
        fields["weight_feature"] = np.array([column for node in nodes for column in node["columns"]], np.int32)
        fields["weight_value"] = np.array([weight for node in nodes for weight in node["weights"]], np.float64)
    values = rng.choice([-1.5, 0.1, 0.2, 0.3, 7.0], (leaves, n_outputs))
    if task == "probability":
        values = np.abs(values) / np.abs(values).sum(axis=1, keepdims=True)
        combine = "mean" if combine == "sum" else combine
    if combine == "softmax":
        fields["leaf_weights"] = rng.choice([-2.0, 0.0, 0.7, 1.3], leaves)
    if linear and task != "probability":
        coef = rng.choice([-0.3, 0.0, 0.0, 0.7], (leaves, n_features, n_outputs))
        fields["leaf_coef"] = coef
    if rng.random() < 0.5 and task != "probability":
        fields["base"] = rng.normal(size=n_outputs)
    link = {
        "regression": str(rng.choice(["identity", "exp", "sigmoid"])),
        "binary": "sigmoid",
        "probability": "identity",
        "classes": "softmax",
    }[task]
    if task != "regression":
        count = 2 if task == "binary" else n_outputs
        fields["classes"] = [
            np.arange(count) + 3, np.arange(count) / 2, np.array(["no", "yes", "maybe", "so"][:count])
        ][rng.integers(3)]  # fmt: skip
    if named:
        fields["feature_names"] = tuple(f"column {i}" for i in range(n_features))
        plain = ["float", "int", "bool", "datetime"]
        fields["feature_types"] = tuple(
            "category" if i in categories else str(rng.choice(plain)) for i in range(n_features)
        )
        fields["output_names"] = tuple(f"output {i}" for i in range(n_outputs))
    return Forest(
        tree_start=np.array(starts),
        n_features=n_features,
        leaf_values=values,
        categories=categories,
        combine=combine,  # type: ignore[arg-type]
        link=link,  # type: ignore[arg-type]
        **fields,
    )


def _random_tree(
    rng: np.random.Generator,
    splits: int,
    first: int,
    kinds: Sequence[int],
    n_features: int,
    categories: dict[int, tuple[Any, ...]],
) -> list[dict[str, Any]]:
    """Grow one tree by splitting random leaves, and number its nodes in a random order that has parents first."""
    children: dict[int, tuple[int, int]] = {}
    leaves = [0]
    chain = rng.random() < 0.2
    for number in range(splits):
        at = len(leaves) - 1 if chain else int(rng.integers(len(leaves)))
        children[leaves.pop(at)] = (2 * number + 1, 2 * number + 2)
        leaves += [2 * number + 1, 2 * number + 2]

    order, ready = [], [0]
    depth_first = rng.random() < 0.5
    while ready:
        order.append(ready.pop(-1 if depth_first else int(rng.integers(len(ready)))))
        ready += reversed(children.get(order[-1], ()))
    place = {node: first + position for position, node in enumerate(order)}

    result = []
    for node in order:
        made: dict[str, Any] = {
            "kind": LEAF, "left": -1, "right": -1, "feature": -1, "threshold": 0.0, "missing_left": False,
            "codes": [], "columns": [], "weights": [],
        }  # fmt: skip
        if node in children:
            made["left"], made["right"] = (place[child] for child in children[node])
            made["kind"] = int(rng.choice(kinds))
            made["missing_left"] = bool(rng.random() < 0.5)
            _random_split(rng, made, n_features, categories)
        result.append(made)
    return result


def _random_split(
    rng: np.random.Generator, node: dict[str, Any], n_features: int, categories: dict[int, tuple[Any, ...]]
) -> None:
    """Draw the condition of one split in place."""
    if node["kind"] == CATEGORIES:
        node["feature"] = int(rng.choice(list(categories)))
        size = len(categories[node["feature"]])
        node["codes"] = sorted(rng.choice(size, int(rng.integers(0, size + 1)), replace=False).tolist())
        return
    node["threshold"] = float(rng.choice([-1.0, 0.0, 0.1, 1.0, 2.5, 1 + 2**-40, -math.inf, math.inf], p=_THRESHOLDS))
    if node["kind"] == THRESHOLD:
        node["feature"] = int(rng.integers(n_features))
    else:
        node["columns"] = rng.choice(n_features, int(rng.integers(1, n_features + 1)), replace=False).tolist()
        node["weights"] = rng.choice([-1.0, 0.0, 0.1, 0.5, 2.0], len(node["columns"])).tolist()


_THRESHOLDS = [0.16, 0.16, 0.16, 0.16, 0.16, 0.16, 0.02, 0.02]


def random_rows(rng: np.random.Generator, forest: Forest, rows: int, dtype: type = np.float64) -> np.ndarray:
    """Make rows full of edges: values on and beside thresholds, category codes good and bad, NaN and infinities."""
    cuts = forest.threshold[forest.kind == THRESHOLD]
    near = np.concatenate([cuts, np.nextafter(cuts, np.inf), np.nextafter(cuts, -np.inf)])
    special = np.array([0.0, -0.0, 1.0, 2.0, 3.0, 4.0, 0.5, -1.0, 7.0, 1e300, np.inf, -np.inf, np.nan, np.nan])
    pool = np.concatenate([near, special, rng.normal(size=10)])
    if forest.leaf_coef is not None:
        # The largest numbers overflow in sums, sooner or later depending on their order.
        pool = pool[(np.abs(pool) <= 1e300) | ~np.isfinite(pool)]
    with np.errstate(over="ignore"):
        return rng.choice(pool, (rows, forest.n_features)).astype(dtype)


def reference_route(forest: Forest, row: Sequence[float]) -> list[int]:
    """Walk one row down every tree; return the (absolute) node of the leaf it reaches in each."""
    return [path[-1] for path in reference_paths(forest, row)]


def reference_paths(forest: Forest, row: Sequence[float]) -> list[list[int]]:
    """Walk one row down every tree; return all nodes it passes in each."""
    paths = []
    for tree in range(forest.n_trees):
        node = int(forest.tree_start[tree])
        path = [node]
        while forest.kind[node] != LEAF:
            node = int(forest.left[node] if _goes_left(forest, node, row) else forest.right[node])
            path.append(node)
        paths.append(path)
    return paths


def _goes_left(forest: Forest, node: int, row: Sequence[float]) -> bool:
    kind, missing_left = forest.kind[node], bool(forest.missing_left[node])
    if kind == OBLIQUE:
        assert forest.weight_start is not None
        assert forest.weight_feature is not None and forest.weight_value is not None
        total = 0.0
        for k in range(forest.weight_start[node], forest.weight_start[node + 1]):
            value = float(row[forest.weight_feature[k]])
            if math.isnan(value):
                return missing_left
            total += float(forest.weight_value[k]) * value
        return total < float(forest.threshold[node])
    value = float(row[forest.feature[node]])
    if math.isnan(value):
        return missing_left
    if kind == THRESHOLD:
        return value < float(forest.threshold[node])
    assert forest.category_start is not None and forest.category_codes is not None
    if value not in range(len(forest.categories[int(forest.feature[node])])):
        return missing_left
    return value in forest.category_codes[forest.category_start[node] : forest.category_start[node + 1]]


def reference_tree_outputs(forest: Forest, row: Sequence[float]) -> np.ndarray:
    """Return what every tree says for one row, shape (trees, outputs)."""
    leaf_number = {int(node): k for k, node in enumerate(np.flatnonzero(forest.kind == LEAF))}
    result = []
    for node in reference_route(forest, row):
        leaf = leaf_number[node]
        output = forest.leaf_values[leaf].copy()
        if forest.leaf_coef is not None:
            for column, cell in enumerate(row):
                for k in range(forest.n_outputs):
                    coef = forest.leaf_coef[leaf, column, k]
                    if coef != 0 and not math.isnan(cell):
                        output[k] += coef * float(cell)
        result.append(output)
    return np.array(result)


def reference_tree_weights(forest: Forest, row: Sequence[float]) -> np.ndarray:
    """Return the weight of every tree for one row."""
    if forest.combine == "sum":
        return np.ones(forest.n_trees)
    if forest.combine == "mean":
        return np.full(forest.n_trees, 1 / forest.n_trees)
    assert forest.leaf_weights is not None
    leaf_number = {int(node): k for k, node in enumerate(np.flatnonzero(forest.kind == LEAF))}
    weights = np.array([forest.leaf_weights[leaf_number[node]] for node in reference_route(forest, row)])
    raised = np.exp(weights - weights.max())
    return np.asarray(raised / raised.sum())


def reference_outputs(forest: Forest, row: Sequence[float]) -> np.ndarray:
    """Return the combined outputs of one row, before the link."""
    with np.errstate(invalid="ignore"):
        total = (reference_tree_weights(forest, row)[:, None] * reference_tree_outputs(forest, row)).sum(axis=0)
    return np.asarray(total if forest.base is None else total + forest.base)


@st.composite
def forests(draw: st.DrawFn, **fixed: Any) -> Forest:
    """Draw valid forests of every kind; `fixed` are arguments of `random_forest` to hold."""
    drawn = {
        "n_trees": draw(st.integers(1, 4)),
        "max_splits": draw(st.sampled_from([0, 1, 3, 8, 20])),
        "n_features": draw(st.integers(1, 5)),
        "n_outputs": draw(st.integers(1, 3)),
    }
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    # beartype draws from `random` which entry of a container it checks; hypothesis forbids that in a strategy.
    state = random.getstate()
    try:
        return random_forest(rng, **{**drawn, **fixed})
    finally:
        random.setstate(state)


def complete_forest(
    rng: np.random.Generator, n_trees: int, depth: int, n_features: int, n_outputs: int = 1, **fields: Any
) -> Forest:
    """Make complete trees of one depth, with distinct thresholds and leaves; `fields` are further fields."""
    inner, nodes = 2**depth - 1, 2 ** (depth + 1) - 1
    number = np.arange(nodes)
    split = np.tile(number < inner, n_trees)
    shift = np.repeat(np.arange(n_trees) * nodes, nodes)
    place = np.tile(number, n_trees)
    return Forest(
        tree_start=np.arange(n_trees + 1) * nodes,
        kind=np.where(split, THRESHOLD, LEAF),
        left=np.where(split, 2 * place + 1 + shift, -1),
        right=np.where(split, 2 * place + 2 + shift, -1),
        feature=np.where(split, rng.integers(0, n_features, len(place)), -1),
        threshold=np.where(split, rng.normal(size=len(place)), 0.0),
        missing_left=split & (rng.random(len(place)) < 0.5),
        leaf_values=rng.normal(size=(n_trees * 2**depth, n_outputs)),
        n_features=n_features,
        **fields,
    )


def small_fields() -> dict[str, Any]:
    """Return the fields of a small forest that uses every kind of split, for tests that change one field.

    Tree 0 splits column 0 by number, then column 1 by category; tree 1 is one oblique split of columns 0 and 2.
    """
    return {
        "tree_start": np.array([0, 5, 8]),
        "kind": np.array([THRESHOLD, LEAF, CATEGORIES, LEAF, LEAF, OBLIQUE, LEAF, LEAF]),
        "left": np.array([1, -1, 3, -1, -1, 6, -1, -1]),
        "right": np.array([2, -1, 4, -1, -1, 7, -1, -1]),
        "feature": np.array([0, -1, 1, -1, -1, -1, -1, -1]),
        "threshold": np.array([0.5, 0, 0, 0, 0, 1.5, 0, 0]),
        "missing_left": np.array([True, False, True, False, False, False, False, False]),
        "leaf_values": np.array([[1.0], [2.0], [3.0], [10.0], [20.0]]),
        "n_features": 3,
        "category_start": np.array([0, 0, 0, 2, 2, 2, 2, 2, 2]),
        "category_codes": np.array([0, 2]),
        "weight_start": np.array([0, 0, 0, 0, 0, 0, 2, 2, 2]),
        "weight_feature": np.array([2, 0]),
        "weight_value": np.array([1.0, -0.5]),
        "feature_names": ("size", "colour", "age"),
        "feature_types": ("float", "category", "int"),
        "categories": {1: ("red", "green", "blue")},
    }
