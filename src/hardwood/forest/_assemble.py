"""Trees of another library, put one after another as the arrays of a `Forest`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hardwood._typing import Bool, Float, Int
from hardwood.forest._forest import CATEGORIES, LEAF, THRESHOLD


@dataclass(frozen=True)
class SourceTree:
    """One tree as its library holds it: a row goes left when `x <= threshold`, or by `codes` where they are given.

    Children are counted from the tree's root, with -1 at leaves. Nodes keep their numbers in the `Forest`.
    """

    left: Int[np.ndarray, " nodes"]
    right: Int[np.ndarray, " nodes"]
    feature: Int[np.ndarray, " nodes"]
    threshold: Float[np.ndarray, " nodes"]
    missing_left: Bool[np.ndarray, " nodes"]
    node_values: Float[np.ndarray, "nodes outputs"]  # only those of leaves are read
    codes: dict[int, Int[np.ndarray, " codes"]] = field(default_factory=dict)  # node -> category codes that go left


def assemble(
    trees: Sequence[SourceTree], after: Callable[[Float[np.ndarray, " nodes"]], Float[np.ndarray, " nodes"]]
) -> dict[str, Any]:
    """Return the fields of a `Forest` that describe nodes and leaves.

    `after` turns thresholds of `x <= threshold` into ours of `x < threshold`. A threshold of +inf sends all numbers
    left, infinity too, which no `x < threshold` does; such a split becomes `x < -inf` with its children exchanged.
    """
    counts = [len(tree.left) for tree in trees]
    tree_start = np.cumsum([0, *counts])
    first = np.repeat(tree_start[:-1], counts)

    def joined(name: str) -> Any:
        return np.concatenate([getattr(tree, name) for tree in trees])

    leaf = joined("left") < 0
    kind = np.where(leaf, LEAF, THRESHOLD)
    starts = zip(tree_start[:-1].tolist(), trees, strict=True)
    codes = {start + node: tree.codes[node] for start, tree in starts for node in sorted(tree.codes)}
    kind[list(codes)] = CATEGORIES
    threshold = np.where(kind == THRESHOLD, joined("threshold"), 0.0)
    all_left = np.isposinf(threshold)
    left, right = (np.where(leaf, -1, joined(name) + first) for name in ("left", "right"))
    fields = {
        "tree_start": tree_start,
        "kind": kind,
        "left": np.where(all_left, right, left),
        "right": np.where(all_left, left, right),
        "feature": np.where(leaf, -1, joined("feature")),
        "threshold": np.where(all_left, -np.inf, np.where(kind == THRESHOLD, after(threshold), 0.0)),
        "missing_left": ~leaf & (joined("missing_left") != all_left),
        "leaf_values": joined("node_values")[leaf],
    }
    if codes:
        sizes = np.zeros(len(kind), np.int64)
        sizes[list(codes)] = [len(each) for each in codes.values()]
        fields["category_start"] = np.concatenate([[0], np.cumsum(sizes)])
        fields["category_codes"] = np.concatenate(list(codes.values()))
    return fields
