"""Structural checks of a forest: after them every route ends in a leaf and every stored index exists."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from hardwood._typing import Bool, Int
from hardwood.errors import reject

if TYPE_CHECKING:
    from hardwood.forest._forest import Forest


def validate(forest: Forest) -> None:
    """Raise `InvalidArgumentError`, naming the field, where a forest with canonical fields is not a valid one.

    The cost is linear in the size of the arrays.
    """
    _check_lengths(forest)
    _check_nodes(forest)
    _check_links_between_nodes(forest)
    _check_categories(forest)
    _check_oblique(forest)
    _check_leaves(forest)
    _check_names(forest)
    _check_outcome(forest)


def _length(name: str, value: np.ndarray, wanted: int, of: str) -> None:
    if value.shape[0] != wanted:
        reject(name, f"an array of length {value.shape[0]}", f"must have length {wanted}", f"pass one entry per {of}")


def _at(name: str, values: np.ndarray, wrong: Bool[np.ndarray, " entries"], problem: str, remedy: str) -> None:
    """Reject the first entry where `wrong` holds."""
    if wrong.any():
        where = int(np.argmax(wrong))
        reject(f"{name}[{where}]", values[where].tolist(), problem, remedy)


def _check_starts(name: str, start: Int[np.ndarray, " starts"], total: int, of: str) -> None:
    """Check one array of range boundaries: from 0 to `total`, never falling."""
    if start[0] != 0 or start[-1] != total:
        ends = f"{start[0]}..{start[-1]}"
        reject(
            name, ends, f"must run from 0 to the number of {of} ({total})", "pass cumulative counts that begin with 0"
        )
    _at(name, start[1:], np.diff(start) < 0, "is smaller than the entry before it", "pass cumulative counts")


def _check_lengths(forest: Forest) -> None:
    nodes = forest.node_count
    if nodes == 0 or forest.tree_start.shape[0] < 2:
        reject("tree_start", forest.tree_start, "describes no tree", "pass at least one tree with at least one node")
    for name in ("left", "right", "feature", "threshold", "missing_left"):
        _length(name, getattr(forest, name), nodes, "node, as in kind")
    _check_starts("tree_start", forest.tree_start, nodes, "nodes")
    empty = np.diff(forest.tree_start) == 0
    _at(
        "tree_start", forest.tree_start, np.append(empty, False), "begins a tree without nodes", "give each tree a leaf"
    )
    if forest.leaf_values.shape[1] == 0:
        reject(
            "leaf_values", f"an array of shape {forest.leaf_values.shape}", "has no outputs", "pass one column or more"
        )


def _check_nodes(forest: Forest) -> None:
    from hardwood.forest._forest import CATEGORIES, LEAF, OBLIQUE

    kind, feature, threshold = forest.kind, forest.feature, forest.threshold
    known = "use LEAF (0), THRESHOLD (1), CATEGORIES (2) or OBLIQUE (3)"
    _at("kind", kind, (kind < LEAF) | (kind > OBLIQUE), "is no node kind", known)
    leaf = kind == LEAF
    without = leaf | (kind == OBLIQUE)
    problem = f"is no column of the {forest.n_features}"
    outside = ~without & ((feature < 0) | (feature >= forest.n_features))
    _at("feature", feature, outside, problem, "columns count from 0; raise n_features if the column exists")
    _at("feature", feature, without & (feature != -1), "belongs to a leaf or an oblique split", "store -1 there")
    _at(
        "threshold", threshold, np.isnan(threshold), "is not a number", "use an infinity for a split that never changes"
    )
    unused = (leaf | (kind == CATEGORIES)) & (threshold != 0)
    _at("threshold", threshold, unused, "belongs to a leaf or a category split", "store 0 there")
    _at("missing_left", forest.missing_left, leaf & forest.missing_left, "belongs to a leaf", "store False there")


def _check_links_between_nodes(forest: Forest) -> None:
    """Check that the nodes of each tree form one tree in which children stand after their parent.

    Each node but the root having exactly one parent, which stands before it in the same tree, every node is reachable:
    following parents strictly lowers the number, and only the root has none.
    """
    from hardwood.forest._forest import LEAF

    nodes = forest.node_count
    number = np.arange(nodes)
    tree_of = np.repeat(np.arange(forest.n_trees), np.diff(forest.tree_start))
    tree_end = forest.tree_start[1:][tree_of]
    leaf = forest.kind == LEAF
    for name in ("left", "right"):
        child = getattr(forest, name)
        _at(name, child, leaf & (child != -1), "belongs to a leaf", "store -1 there")
        remedy = "number nodes from the root down, one tree after another"
        _at(name, child, ~leaf & (child <= number), "does not stand after its parent", remedy)
        _at(name, child, ~leaf & (child >= tree_end), "lies outside its parent's tree", remedy)
    children = np.concatenate([forest.left[~leaf], forest.right[~leaf]])
    parents = np.bincount(children, minlength=nodes)
    roots = np.zeros(nodes, bool)
    roots[forest.tree_start[:-1]] = True
    problem = "is the number of parents of this node"
    _at("parents", parents, ~roots & (parents != 1), problem, "let every node but the root be the child of one node")


def _check_sparse(
    forest: Forest, kind: int, of: str, start_name: str, names: tuple[str, ...]
) -> Int[np.ndarray, " entries"] | None:
    """Check arrays with a range per node of one kind; return the node of each entry, or None without such arrays."""
    start = getattr(forest, start_name)
    arrays = [getattr(forest, name) for name in names]
    has_kind = forest.kind == kind
    present = [array is not None for array in (start, *arrays)]
    if not any(present):
        if has_kind.any():
            reject(start_name, None, f"is needed: node {int(np.argmax(has_kind))} is {of}", f"pass it and {names[0]}")
        return None
    if not all(present):
        missing = (start_name, *names)[present.index(False)]
        reject(missing, None, f"is needed with {(start_name, *names)[present.index(True)]}", "pass all of them or none")
    _length(start_name, start, forest.node_count + 1, "node and one more")
    for name, array in zip(names[1:], arrays[1:], strict=True):
        _length(name, array, len(arrays[0]), f"entry of {names[0]}")
    _check_starts(start_name, start, len(arrays[0]), f"entries of {names[0]}")
    counts = np.diff(start)
    _at(start_name, start, np.append(~has_kind & (counts > 0), False), f"begins a range at a node that is not {of}",
        "give every other node an empty range")  # fmt: skip
    return np.repeat(np.arange(forest.node_count), counts)


def _check_categories(forest: Forest) -> None:
    from hardwood.forest._forest import CATEGORIES

    for column, vocabulary in forest.categories.items():
        if not 0 <= column < forest.n_features:
            reject("categories", column, f"is no column of the {forest.n_features}", "use column numbers as keys")
        if len(set(vocabulary)) != len(vocabulary):
            problem = "names a category twice (1, 1.0 and True are the same)"
            reject(f"categories[{column}]", vocabulary, problem, "list each category once")
    split = forest.kind == CATEGORIES
    without = split.copy()
    without[split] = [int(column) not in forest.categories for column in forest.feature[split]]
    _at("feature", forest.feature, without, "is split by category but has no vocabulary", "add it to categories")
    owner = _check_sparse(forest, CATEGORIES, "a category split", "category_start", ("category_codes",))
    if owner is None:
        return
    codes = forest.category_codes
    assert codes is not None
    sizes = np.zeros(forest.node_count, np.int64)
    sizes[split] = [len(forest.categories[int(column)]) for column in forest.feature[split]]
    outside = (codes < 0) | (codes >= sizes[owner])
    _at("category_codes", codes, outside, "is no code of its column's vocabulary", "count categories from 0")
    unsorted = np.append(False, (np.diff(codes) <= 0) & (np.diff(owner) == 0))
    _at("category_codes", codes, unsorted, "does not rise within its node", "sort each node's codes, each one once")


def _check_oblique(forest: Forest) -> None:
    from hardwood.forest._forest import OBLIQUE

    names = ("weight_feature", "weight_value")
    owner = _check_sparse(forest, OBLIQUE, "an oblique split", "weight_start", names)
    if owner is None:
        return
    column, weight = forest.weight_feature, forest.weight_value
    assert forest.weight_start is not None and column is not None and weight is not None
    without = (forest.kind == OBLIQUE) & (np.diff(forest.weight_start) == 0)
    _at("weight_start", forest.weight_start, np.append(without, False), "begins an oblique split without weights",
        "give it at least one weight")  # fmt: skip
    outside = (column < 0) | (column >= forest.n_features)
    _at("weight_feature", column, outside, f"is no column of the {forest.n_features}", "columns count from 0")
    _at("weight_value", weight, ~np.isfinite(weight), "is not finite", "clip or drop the weight")
    order = np.lexsort((column, owner))
    twice = np.zeros(len(column), bool)
    twice[order[1:]] = (np.diff(owner[order]) == 0) & (np.diff(column[order]) == 0)
    _at("weight_feature", column, twice, "has two weights in one split", "add the two weights up")


def _check_leaves(forest: Forest) -> None:
    from hardwood.forest._forest import LEAF, Combine

    leaves = int((forest.kind == LEAF).sum())
    for name in ("leaf_values", "leaf_weights", "leaf_coef", "base"):
        value = getattr(forest, name)
        if value is None:
            continue
        if name != "base":
            _length(name, value, leaves, "leaf, in the order of the leaves among the nodes")
        if not np.isfinite(value).all():
            where = tuple(int(each) for each in np.argwhere(~np.isfinite(value))[0])
            reject(f"{name}{list(where)}", float(value[where]), "is not finite", "train again or clip it")
    if forest.leaf_coef is not None and forest.leaf_coef.shape[1:] != (forest.n_features, forest.n_outputs):
        wanted = (leaves, forest.n_features, forest.n_outputs)
        reject("leaf_coef", f"an array of shape {forest.leaf_coef.shape}", f"must have shape {wanted}",
               "pass a coefficient per leaf, column and output")  # fmt: skip
    if forest.base is not None:
        _length("base", forest.base, forest.n_outputs, "output")
    if forest.combine not in get_args(Combine):
        reject("combine", forest.combine, "is no way to combine trees", "use 'sum', 'mean' or 'softmax'")
    if forest.combine == "softmax" and forest.leaf_weights is None:
        reject("leaf_weights", None, "is needed by combine='softmax'", "pass one weight per leaf")
    if forest.combine != "softmax" and forest.leaf_weights is not None:
        problem = f"is not used by combine={forest.combine!r}"
        reject("leaf_weights", f"an array of length {leaves}", problem, "leave it out or use combine='softmax'")


def _check_names(forest: Forest) -> None:
    from hardwood.forest._forest import FeatureType

    lengths = {"feature_names": forest.n_features, "feature_types": forest.n_features, "output_names": forest.n_outputs}
    for name, wanted in lengths.items():
        value: tuple[Any, ...] | None = getattr(forest, name)
        if value is None:
            continue
        if len(value) != wanted:
            reject(name, value, f"has {len(value)} entries for {wanted}", "pass exactly one per column or output")
        if name != "feature_types" and len(set(value)) != len(value):
            twice = Counter(value).most_common(1)[0][0]
            reject(name, twice, "occurs twice", "give each its own name")
    if forest.feature_types is None:
        return
    for column, kind in enumerate(forest.feature_types):
        if kind not in get_args(FeatureType):
            reject(f"feature_types[{column}]", kind, "is no column type", f"use one of {get_args(FeatureType)}")
        if (kind == "category") != (column in forest.categories):
            problem = "disagrees with categories, which " + ("lacks" if kind == "category" else "has") + " this column"
            reject(f"feature_types[{column}]", kind, problem, "give exactly the 'category' columns a vocabulary")


def _check_outcome(forest: Forest) -> None:
    """Check that link, outputs and class labels fit together."""
    from hardwood.forest._forest import Link

    if forest.link not in get_args(Link):
        reject("link", forest.link, "is no link", f"use one of {get_args(Link)}")
    classes, outputs = forest.classes, forest.n_outputs
    if classes is None:
        return
    if (
        len(classes) == 0
        or len(np.unique(classes)) != len(classes)
        or (classes.dtype.kind == "f" and np.isnan(classes).any())
    ):
        reject("classes", classes.tolist(), "must be distinct labels, at least one", "pass each class label once")
    if forest.link == "exp":
        reject("link", "exp", "gives no probabilities", "use 'softmax', 'sigmoid' or 'identity' with classes")
    wanted = len(classes)
    if forest.link == "sigmoid":
        if wanted != 2:
            problem = f"tells two classes apart, but there are {wanted}"
            reject("link", "sigmoid", problem, "use 'softmax' with one output per class")
        wanted = 1
    if outputs != wanted:
        problem = f"has {outputs} output(s), but link={forest.link!r} with {len(classes)} classes needs {wanted}"
        reject("leaf_values", f"an array of shape {forest.leaf_values.shape}", problem, "change the link or the leaves")
