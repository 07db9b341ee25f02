"""`Forest`: an immutable set of hard trees as parallel NumPy arrays.

The convention, fixed here once
-------------------------------
Inputs are compared as float64 numbers, and at every node a row goes LEFT exactly when

    axis-aligned split    x[feature] <  threshold          (a tie goes right)
    category split        x[feature] is one of the node's category codes
    oblique split         sum_k weight[k] * x[feature[k]] < threshold, summed in stored order in float64

and RIGHT otherwise. A missing value (NaN; for a category split also a code that the vocabulary does not have; for an
oblique split NaN in any column with a weight) takes the node's `missing_left` direction instead.
A row's route never depends on other rows, and neither does its prediction, to the last bit: trees are added up one
after another in float64, whether a row comes alone or in a batch, on one thread or on many.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from hardwood._typing import Bool, Float, Int, Shaped

if TYPE_CHECKING:
    from hardwood.explain import Rules
    from hardwood.forest._certify import Certificate
    from hardwood.forest._diff import ForestDiff
    from hardwood.forest._monotone import MonotoneViolation
    from hardwood.forest._plan import Plan

Combine = Literal["sum", "mean", "softmax"]
Link = Literal["identity", "sigmoid", "softmax", "exp"]
FeatureType = Literal["float", "int", "bool", "category", "datetime"]

LEAF, THRESHOLD, CATEGORIES, OBLIQUE = 0, 1, 2, 3


@dataclass(frozen=True, eq=False, repr=False)
class Forest:
    """One or many hard binary trees. See the module's first page for how a row is routed.

    Nodes of all trees stand one after another; tree `t` owns nodes `tree_start[t]:tree_start[t + 1]` and its root is
    the first of them. A child always stands after its parent, inside the same tree.

    A tree's output is the leaf's value, plus `leaf_coef @ x` for linear leaves, summed in column order (a missing cell
    counts as 0 there, and a column whose coefficient is 0 takes no part, even if its cell is infinite).
    Trees are combined by `combine`: "sum", "mean", or "softmax" (GRANDE: the softmax over trees of the weights of the
    reached leaves weighs the trees). `base` is where a sum starts, and what is added to the rest; `link` turns outputs
    into predictions.

    Every array is copied into the stated dtype, checked, and made read-only; an array that does not fit is refused
    with an `InvalidArgumentError` that names it. Two forests are equal when all their fields are, bit for bit.
    """

    tree_start: Int[np.ndarray, " trees+1"]  # int64
    kind: Int[np.ndarray, " nodes"]  # int8: LEAF, THRESHOLD, CATEGORIES or OBLIQUE
    left: Int[np.ndarray, " nodes"]  # int32, absolute node index; -1 at leaves
    right: Int[np.ndarray, " nodes"]  # int32, absolute node index; -1 at leaves
    feature: Int[np.ndarray, " nodes"]  # int32 column; -1 at leaves and oblique splits
    threshold: Float[np.ndarray, " nodes"]  # float64; 0 at leaves and category splits
    missing_left: Bool[np.ndarray, " nodes"]  # False at leaves
    leaf_values: Float[np.ndarray, "leaves outputs"]  # float64; leaf k is the k-th node with kind LEAF
    n_features: int

    # Category splits: the codes that go left are category_codes[category_start[i]:category_start[i + 1]], ascending.
    category_start: Int[np.ndarray, " nodes+1"] | None = None  # int64
    category_codes: Int[np.ndarray, " codes"] | None = None  # int32
    # Oblique splits: columns and weights at weight_start[i]:weight_start[i + 1].
    weight_start: Int[np.ndarray, " nodes+1"] | None = None  # int64
    weight_feature: Int[np.ndarray, " weights"] | None = None  # int32
    weight_value: Float[np.ndarray, " weights"] | None = None  # float64

    leaf_weights: Float[np.ndarray, " leaves"] | None = None  # float64, needed by combine="softmax"
    leaf_coef: Float[np.ndarray, "leaves features outputs"] | None = None  # float64, linear leaves
    combine: Combine = "sum"
    base: Float[np.ndarray, " outputs"] | None = None  # float64
    link: Link = "identity"

    feature_names: tuple[str, ...] | None = None
    feature_types: tuple[FeatureType, ...] | None = None
    categories: Mapping[int, tuple[str | int | float | bool, ...]] = field(default_factory=dict)  # column -> vocabulary
    classes: Shaped[np.ndarray, " classes"] | None = None  # labels: numbers, booleans or strings
    output_names: tuple[str, ...] | None = None

    # The constructor takes anything array-like and checks it itself, with better messages than a type checker's.
    __no_type_check__ = True

    def __post_init__(self) -> None:
        from hardwood.forest import _canonical, _validate

        for name, value in _canonical.canonical(self).items():
            object.__setattr__(self, name, value)
        _validate.validate(self)

    # ---------------------------------------------------------------- shape

    @property
    def n_trees(self) -> int:
        """The number of trees."""
        return len(self.tree_start) - 1

    @property
    def n_outputs(self) -> int:
        """The number of outputs of every tree."""
        return int(self.leaf_values.shape[1])

    @property
    def n_leaves(self) -> int:
        """The number of leaves of all trees together."""
        return int(self.leaf_values.shape[0])

    @property
    def node_count(self) -> int:
        """The number of nodes of all trees together, leaves included."""
        return len(self.kind)

    @property
    def is_classifier(self) -> bool:
        """Whether the forest has class labels."""
        return self.classes is not None

    @cached_property
    def depths(self) -> Int[np.ndarray, " trees"]:
        """The number of splits on the longest path of each tree; 0 for a tree that is one leaf."""
        return _read_only(np.maximum.reduceat(self._node_depth, self.tree_start[:-1]))

    @cached_property
    def depth(self) -> int:
        """The number of splits on the longest path of any tree."""
        return int(self.depths.max())

    def __len__(self) -> int:
        return self.n_trees

    # ---------------------------------------------------------------- prediction

    def predict(self, X: Any) -> Shaped[np.ndarray, " rows"] | Shaped[np.ndarray, "rows outputs"]:
        """Predict: the most probable class of each row (the first on a tie), or the outputs after the link.

        `X` is a two-dimensional array or a data frame whose columns have the forest's `feature_names`. Regression with
        one output gives one number a row, with several outputs an array (rows, outputs).
        """
        from hardwood.forest import _predict

        return _predict.predict(self, X)

    def predict_proba(self, X: Any) -> Float[np.ndarray, "rows classes"]:
        """Return the probability of each class, in the order of `classes`."""
        from hardwood.forest import _predict

        return _predict.predict_proba(self, X)

    def outputs(self, X: Any) -> Float[np.ndarray, "rows outputs"]:
        """Return the combined outputs of the trees plus `base`, before the link."""
        from hardwood.forest import _predict

        return _predict.outputs(self, X)

    def apply(self, X: Any) -> Int[np.ndarray, "rows trees"]:
        """Return the leaf that each row reaches in each tree, as a node number counted from the tree's root."""
        from hardwood.forest import _predict

        return _predict.leaf_nodes(self, X) - self.tree_start[:-1]

    def tree_outputs(self, X: Any) -> Float[np.ndarray, "rows trees outputs"]:
        """Return what each tree says for each row, before the trees are combined."""
        from hardwood.forest import _predict

        return _predict.tree_outputs(self, X)

    def tree_weights(self, X: Any) -> Float[np.ndarray, "rows trees"]:
        """Return the weight of each tree in each row's output: 1 for "sum", 1 / n_trees for "mean", or the softmax."""
        from hardwood.forest import _predict

        return _predict.tree_weights(self, X)

    def decision_path(self, X: Any) -> tuple[Any, Int[np.ndarray, " starts"]]:
        """Return which nodes each row passes: a SciPy CSR matrix (rows, nodes) of ones, and `tree_start`.

        Column `tree_start[t] + i` stands for node `i` of tree `t`, as in scikit-learn's forests.
        """
        from hardwood.forest import _predict

        return _predict.decision_path(self, X), self.tree_start

    # ---------------------------------------------------------------- other forests

    def prune(self, X: Any = None) -> Forest:
        """Return a smaller forest that predicts the same.

        Without `X` the result routes every possible row, missing and infinite values included, to an equal leaf:
        it drops branches that the conditions above them rule out, and splits whose two sides are the same.
        With `X` it also drops the branches that no row of `X` reaches, so only predictions on `X` are sure to stay.
        The cost is linear in the nodes (and, with `X`, in rows x trees x depth).
        """
        from hardwood.forest import _prune

        return _prune.prune(self, X)

    def is_monotone(self, constraints: Any) -> bool:
        """Tell whether outputs, before the link, are known never to fall along some columns, or never to rise.

        `constraints` has 1 (never falls), -1 (never rises) or 0 for every column, or is a mapping from names or numbers
        of columns. It is about rows that differ in such columns only; a missing value is not compared with numbers.
        True holds to the last bit, for every two rows. False says that some tree breaks it, or changes its weight;
        `monotone_violation` shows where. Of a forest of several trees, their sum might still keep it.
        """
        return self.monotone_violation(constraints) is None

    def monotone_violation(self, constraints: Any) -> MonotoneViolation | None:
        """Return two rows that one tree treats against the constraints of `is_monotone`; None if there are none."""
        from hardwood.forest import _monotone

        return _monotone.violation(self, constraints)

    def make_monotone(self, constraints: Any) -> Forest:
        """Return a forest of the same splits that `is_monotone`: leaves move to the middle of what bounds them.

        A leaf's value becomes the middle of the largest value of all leaves that may not say more and the smallest of
        all that may not say less, its own among them: a tree that is monotone stays as it is. Under "softmax", leaves
        between which a row can move by constrained columns get their mean weight.
        """
        from hardwood.forest import _monotone

        return _monotone.make_monotone(self, constraints)

    def certify(self, within: Any = None, *, missing: Any = True, max_boxes: int = 100_000) -> Certificate:
        """Answer questions about all rows of a region, exactly: ranges, possible classes, and rules that hold or not.

        `within` maps columns, by name or number, to what they may be: `(smallest, largest)`, both included and None
        for no bound; a set of categories or numbers; or one value. Other columns may be anything that their type
        allows: whole-number columns have whole numbers, categories those of the vocabulary. `missing` says whether
        columns that `within` does not mention may be missing, or lists the columns that may. The answers:

            sure = forest.certify({"age": (60, None), "sex": "female"}, missing=False)
            sure.range()                      # the smallest and largest prediction, and rows that get them
            sure.classes()                    # the classes, or actions, that are possible, with a row for each
            sure.never_lowers("pressure")     # whether the rule holds, or two rows that break it

        A forest of constant leaves without oblique splits is proved to behave so, not sampled: the search looks at
        boxes of inputs, at most as many for one tree as it has leaves (for `never_lowers`, pairs of leaves), for
        several trees up to a number that grows exponentially. After `max_boxes` it gives up with an error. What it says
        about "sum" and "mean" holds to the last bit; about a softmax over trees or classes, to within rounding.
        """
        from hardwood.forest import _certify

        return _certify.certify(self, within, missing, max_boxes)

    def truncate(self, max_depth: int, X: Any, sample_weight: Any = None) -> Forest:
        """Return the forest whose paths end after `max_depth` splits, in leaves with the mean of those below.

        The mean is taken over the rows of `X` that reach the node, of the leaves that they reach, weighed by
        `sample_weight`; where no row comes, it is the plain mean of the leaves below. So with "sum" and "mean", the
        mean output over `X` stays.
        """
        from hardwood.forest import _truncate

        return _truncate.truncate(self, max_depth, X, sample_weight)

    def replace_threshold(
        self, node: int, threshold: float, *, tree: int = 0, missing_left: bool | None = None
    ) -> Forest:
        """Return the forest in which a split by number has another threshold, and maybe another way of missing values.

        Nodes count from their tree's root, as in `apply`; the other forest's have the same numbers.
        """
        from hardwood.forest import _edit

        return _edit.replace_threshold(self, node, threshold, tree, missing_left)

    def replace_categories(
        self, node: int, categories: Any, *, tree: int = 0, missing_left: bool | None = None
    ) -> Forest:
        """Return the forest in which a split by category sends other categories left, given by name."""
        from hardwood.forest import _edit

        return _edit.replace_categories(self, node, categories, tree, missing_left)

    def cut(self, node: int, *, tree: int = 0) -> Forest:
        """Return the forest without the branch that begins at `node`: rows that took it take its parent's other one."""
        from hardwood.forest import _edit

        return _edit.cut(self, node, tree)

    def merge_leaves(
        self, node: int, *, tree: int = 0, values: Any = None, X: Any = None, sample_weight: Any = None
    ) -> Forest:
        """Return the forest in which all leaves below `node` are one, in its place.

        It says `values`, one number an output; or else the mean of the leaves, weighed by how many rows of `X` reach
        each, or plain without `X`. At a leaf, `values` replace what it says.
        """
        from hardwood.forest import _edit

        return _edit.merge_leaves(self, node, tree, values, X, sample_weight)

    def diff(self, other: Forest, X: Any, *, tolerance: float = 0.0, n_examples: int = 5) -> ForestDiff:
        """Compare with another forest on rows: how many predictions change, by how much, for which rows, and where."""
        from hardwood.forest import _diff

        return _diff.diff(self, other, X, tolerance, n_examples)

    def select(self, trees: Any) -> Forest:
        """Return the forest of some of the trees: a list of tree numbers, a slice or a boolean mask."""
        from hardwood.forest import _subset

        return _subset.select(self, trees)

    def __getitem__(self, trees: int | slice) -> Forest:
        if isinstance(trees, slice):
            return self.select(trees)
        if not -self.n_trees <= trees < self.n_trees:
            raise IndexError(f"tree {trees} of a forest of {self.n_trees}")
        return self.select([trees])

    def __iter__(self) -> Iterator[Forest]:
        return (self.select([tree]) for tree in range(self.n_trees))

    def to_rules(self, tree: int | None = 0, X: Any = None, y: Any = None, *, order: str = "tree") -> Rules:
        """List one tree, or all with None, as if-then rules with merged conditions; see `hardwood.explain.rules`."""
        # What is said about a forest lives in rooms to the right, and is loaded only when it is asked for.
        from hardwood.explain import rules

        return rules(self, tree, X, y, order=order)

    def save(self, path: str | Path) -> None:
        """Write the forest to one file, which `hardwood.load` reads. Nothing in it is ever executed."""
        from hardwood.forest import _persist

        _persist.save(self, path)

    # ---------------------------------------------------------------- value semantics

    @cached_property
    def _digest(self) -> bytes:
        """A 256-bit fingerprint of every field."""
        digest = hashlib.blake2b(digest_size=32)
        for each in fields(self):
            value = getattr(self, each.name)
            if isinstance(value, np.ndarray):
                digest.update(f"{each.name}:{value.dtype.str}{value.shape}".encode())
                digest.update(value.tobytes())
            else:
                shown = sorted(value.items()) if isinstance(value, Mapping) else value
                digest.update(f"{each.name}={shown!r};".encode())
        return digest.digest()

    def __eq__(self, other: object) -> bool:
        return self._digest == other._digest if isinstance(other, Forest) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._digest)

    def __reduce__(self) -> tuple[Any, ...]:
        # Rebuilding checks the arrays again and leaves cached layouts out; a mapping proxy cannot be pickled.
        values = (getattr(self, each.name) for each in fields(self))
        return _rebuild, tuple(dict(value) if isinstance(value, Mapping) else value for value in values)

    def __repr__(self) -> str:
        def count(number: int, one: str, many: str) -> str:
            return f"{number:,} {one if number == 1 else many}"

        outcome = count(self.n_outputs, "output", "outputs")
        if self.classes is not None:
            outcome = count(len(self.classes), "class", "classes")
        size = f"{count(self.n_trees, 'tree', 'trees')}, depth {self.depth}, {count(self.node_count, 'node', 'nodes')}"
        return f"Forest({size}, {count(self.n_features, 'feature', 'features')} -> {outcome})"

    def __str__(self) -> str:
        from hardwood.draw._text import summary

        return summary(self)

    # ---------------------------------------------------------------- derived arrays, made once

    @cached_property
    def _node_depth(self) -> Int[np.ndarray, " nodes"]:
        """The number of splits above each node."""
        depth = np.zeros(self.node_count, np.int64)
        level = self.tree_start[:-1]
        while len(level):
            inner = level[self.kind[level] != LEAF]
            children = np.concatenate([self.left[inner], self.right[inner]])
            depth[children] = np.tile(depth[inner] + 1, 2)
            level = children
        return _read_only(depth)

    @cached_property
    def _parent(self) -> Int[np.ndarray, " nodes"]:
        """The parent of each node; -1 at roots."""
        parent = np.full(self.node_count, -1, np.int64)
        inner = np.flatnonzero(self.kind != LEAF)
        parent[self.left[inner]] = inner
        parent[self.right[inner]] = inner
        return _read_only(parent)

    @cached_property
    def _leaf_index(self) -> Int[np.ndarray, " nodes"]:
        """The row of `leaf_values` of each leaf; -1 at splits."""
        leaf = self.kind == LEAF
        return _read_only(np.where(leaf, np.cumsum(leaf) - 1, -1))

    @cached_property
    def _large_weights(self) -> bool:
        """Whether the softmax over trees has to be taken row by row."""
        from hardwood.forest import _combine

        return _combine.has_large_weights(self)

    @cached_property
    def _plan(self) -> Plan:
        """The packed layout that the compiled kernels read."""
        from hardwood.forest import _plan

        return _plan.pack(self)


def _rebuild(*values: Any) -> Forest:
    """Make a forest again from the values of its fields, as pickle and copy do."""
    return Forest(*values)


def _read_only(array: np.ndarray) -> np.ndarray:
    """Mark a derived array read-only: it is shared by all callers."""
    array.setflags(write=False)
    return array
