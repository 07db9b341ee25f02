"""`ForestDiff`: how two forests differ on given rows, how much, and where."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hardwood._typing import Float, Int
from hardwood.errors import reject
from hardwood.forest import _predict
from hardwood.forest._inputs import matrix

if TYPE_CHECKING:
    from hardwood.explain import Condition
    from hardwood.explain._words import PathWords
    from hardwood.forest._forest import Forest

Label = str | int | float | bool
_SHOWN = 10  # regions and examples in the text


@dataclass(frozen=True)
class Example:
    """A row that the forests predict differently."""

    row: int  # its number in X
    before: Label | tuple[float, ...]
    after: Label | tuple[float, ...]
    by: float  # the largest difference between two probabilities, or predicted numbers


@dataclass(frozen=True)
class Region:
    """Where one tree says something else: the rows that reach a leaf of the one and a leaf of the other."""

    tree: int
    leaf: int  # of the first forest, counted as in `Forest.apply`
    other_leaf: int
    conditions: tuple[Condition, ...]  # that both paths ask, merged
    rows: int
    before: str  # what the leaves say, in words
    after: str

    def __str__(self) -> str:
        asked = " and ".join(
            f"({each})" if each.text.endswith(" or missing") else each.text for each in self.conditions
        )
        rows = f"{self.rows:,} {'row' if self.rows == 1 else 'rows'}"
        return f"{asked or 'everywhere'} ({rows}): {self.before} -> {self.after}"


@dataclass(frozen=True, repr=False)
class ForestDiff:
    """How a second forest differs from a first one on some rows. `print` it to read it; it is true if it does."""

    n_rows: int
    changed: float  # share of rows with another label, or a number that differs by more than the tolerance
    leaves_changed: float | None  # share of rows that reach another leaf; None where trees have other shapes
    largest: float  # difference of a probability, or of a predicted number
    mean: float  # over rows, of each one's largest
    examples: tuple[Example, ...]  # the rows with the largest differences first
    regions: tuple[Region, ...]  # where trees say something else, the one with most rows first
    same_trees: bool  # whether trees can be compared one by one: there are as many
    text: str

    def __bool__(self) -> bool:
        return self.largest > 0 or bool(self.leaves_changed)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"ForestDiff({self.changed:.1%} of {self.n_rows:,} rows change)"


def diff(forest: Forest, other: Any, X: Any, tolerance: float, n_examples: int) -> ForestDiff:
    """Compare two forests on rows."""
    _check(forest, other)
    if not (isinstance(tolerance, (int, float)) and tolerance >= 0):
        reject("tolerance", tolerance, "is no allowance", "pass 0, or a small positive number")
    if isinstance(n_examples, bool) or not isinstance(n_examples, (int, np.integer)) or n_examples < 0:
        reject("n_examples", n_examples, "is no number of rows", "pass 0 or more")
    table = matrix(forest, X)
    if len(table) == 0:
        reject("X", f"an array of shape {table.shape}", "has no rows", "pass the rows to compare on")
    before, after = _numbers(forest, table), _numbers(other, table)
    with np.errstate(invalid="ignore", over="ignore"):
        # Infinities that agree do not differ; a number differs from none at all by more than can be said.
        apart = np.where((before == after) | (np.isnan(before) & np.isnan(after)), 0.0, np.abs(before - after))
        by = np.where(np.isnan(apart), np.inf, apart).max(axis=1)
    said, says = forest.predict(table), other.predict(table)
    moved = said != says if forest.is_classifier else by > tolerance
    order = np.argsort(-by, kind="stable")[:n_examples]
    examples = tuple(Example(int(k), _plain(said[k]), _plain(says[k]), float(by[k])) for k in order if by[k] > 0)
    regions = _regions(forest, other, table) if forest.n_trees == other.n_trees else []
    result = ForestDiff(
        n_rows=len(table),
        changed=float(moved.mean()),
        leaves_changed=_leaves_changed(forest, other, table),
        largest=float(by.max()),
        mean=float(by.mean()),
        examples=examples,
        regions=tuple(regions),
        same_trees=forest.n_trees == other.n_trees,
        text="",
    )
    object.__setattr__(result, "text", _text(forest, result, int(moved.sum())))
    return result


def _check(forest: Forest, other: Any) -> None:
    from hardwood.forest._forest import Forest

    if not isinstance(other, Forest):
        reject("other", other, "is not a Forest", "pass the forest to compare with")
    remedy = "compare forests of the same columns and the same target"
    for name in ("n_features", "n_outputs"):
        if getattr(forest, name) != getattr(other, name):
            reject("other", repr(other), f"has another {name}", remedy)
    if None not in (forest.feature_names, other.feature_names) and forest.feature_names != other.feature_names:
        reject("other", repr(other), "has other feature_names", remedy)
    for column, words in forest.categories.items():
        if other.categories.get(column, words) != words:
            reject("other", repr(other), f"has other categories in column {column}", remedy)
    classes = [None if each.classes is None else each.classes.tolist() for each in (forest, other)]
    if classes[0] != classes[1]:
        reject("other", repr(other), "has other classes", remedy)


def _numbers(forest: Forest, table: Float[np.ndarray, "rows features"]) -> Float[np.ndarray, "rows numbers"]:
    """Return probabilities, or predicted numbers."""
    if forest.is_classifier:
        return forest.predict_proba(table)
    return np.asarray(forest.predict(table), np.float64).reshape(len(table), forest.n_outputs)


def _plain(said: Any) -> Label | tuple[float, ...]:
    return tuple(said.tolist()) if getattr(said, "ndim", 0) else said.item() if hasattr(said, "item") else said


def _leaves_changed(forest: Forest, other: Forest, table: Float[np.ndarray, "rows features"]) -> float | None:
    same_shape = all(
        np.array_equal(getattr(forest, name), getattr(other, name)) for name in ("tree_start", "left", "right")
    )
    if not same_shape:
        return None
    return float((forest.apply(table) != other.apply(table)).any(axis=1).mean())


# ---------------------------------------------------------------- where


def _regions(forest: Forest, other: Forest, table: Float[np.ndarray, "rows features"]) -> list[Region]:
    """Return the pairs of leaves that rows reach and that say different things."""
    # Words come from a room to the right; they are needed only here, and only now.
    from hardwood.explain._conditions import conditions
    from hardwood.explain._words import PathWords

    leaves, others = _predict.leaf_nodes(forest, table), _predict.leaf_nodes(other, table)
    found = []
    for tree in range(forest.n_trees):
        pairs, counts = np.unique(np.stack([leaves[:, tree], others[:, tree]], axis=1), axis=0, return_counts=True)
        words: PathWords | None = None
        for (leaf, other_leaf), count in zip(pairs.tolist(), counts.tolist(), strict=True):
            one, two = int(forest._leaf_index[leaf]), int(other._leaf_index[other_leaf])
            if _held(forest, one) == _held(other, two):
                continue
            if words is None:
                joined = _joined(forest[tree], other[tree])
                words = PathWords(joined, 0)
                words.nodes = range(joined.node_count)  # bounds of both trees are written so that they differ
            start, other_start = int(forest.tree_start[tree]), int(other.tree_start[tree])
            size = int(forest.tree_start[tree + 1]) - start
            asked = _asked(words.forest, (leaf - start, size + other_leaf - other_start))
            found.append(
                Region(
                    tree=tree,
                    leaf=leaf - start,
                    other_leaf=other_leaf - other_start,
                    conditions=conditions(words, asked),
                    rows=count,
                    before=PathWords(forest, tree).leaf(one),
                    after=PathWords(other, tree).leaf(two),
                )
            )
    return sorted(found, key=lambda region: -region.rows)


def _held(forest: Forest, leaf: int) -> tuple[Any, ...]:
    """Return all that a leaf says."""
    held: list[Any] = [forest.leaf_values[leaf].tolist()]
    if forest.leaf_weights is not None:
        held.append(float(forest.leaf_weights[leaf]))
    if forest.leaf_coef is not None and forest.leaf_coef[leaf].any():
        held.append(forest.leaf_coef[leaf].tolist())
    return tuple(held)


def _asked(joined: Forest, leaves: tuple[int, int]) -> Any:
    """Return what two paths ask together."""
    from hardwood.explain._conditions import narrow, path_asks

    asked = path_asks(joined, leaves[0])
    path = []
    node = leaves[1]
    while joined._parent[node] >= 0:
        above = int(joined._parent[node])
        path.append((above, int(joined.left[above]) == node))
        node = above
    for node, goes_left in reversed(path):
        asked = narrow(joined, asked, node, goes_left)
    return asked


def _joined(one: Forest, two: Forest) -> Forest:
    """Return the splits of two trees as one forest, for their words; its leaves say nothing."""
    from hardwood.forest._forest import Forest

    def both(name: str) -> np.ndarray:
        return np.concatenate([getattr(one, name), getattr(two, name)])

    def children(name: str) -> Int[np.ndarray, " nodes"]:
        second = getattr(two, name).astype(np.int64)
        return np.concatenate([getattr(one, name), np.where(second < 0, -1, second + one.node_count)])

    ranges: dict[str, Any] = {}
    for start, names in (("category_start", ["category_codes"]), ("weight_start", ["weight_feature", "weight_value"])):
        if getattr(one, start) is None and getattr(two, start) is None:
            continue
        counts = [
            np.zeros(each.node_count, np.int64) if getattr(each, start) is None else np.diff(getattr(each, start))
            for each in (one, two)
        ]
        ranges[start] = np.concatenate([[0], np.cumsum(np.concatenate(counts))])
        for name in names:
            parts = [getattr(each, name) for each in (one, two)]
            ranges[name] = np.concatenate([part for part in parts if part is not None])
    return Forest(
        tree_start=np.array([0, one.node_count, one.node_count + two.node_count]),
        kind=both("kind"),
        left=children("left"),
        right=children("right"),
        feature=both("feature"),
        threshold=both("threshold"),
        missing_left=both("missing_left"),
        leaf_values=np.zeros((one.n_leaves + two.n_leaves, 1)),
        n_features=one.n_features,
        feature_names=one.feature_names or two.feature_names,
        feature_types=one.feature_types,
        categories={**two.categories, **one.categories} if one.feature_types is None else one.categories,
        **ranges,
    )


def _text(forest: Forest, made: ForestDiff, moved: int) -> str:
    what = "probabilities" if forest.is_classifier else "predictions"
    lines = [f"{moved:,} of {made.n_rows:,} rows ({made.changed:.1%}) get another prediction."]
    if made.largest == 0:
        lines.append(f"All {what} are the same.")
    else:
        lines.append(f"{what.capitalize()} differ by up to {made.largest:.4g}, by {made.mean:.4g} on average.")
    if made.leaves_changed is not None:
        lines.append(f"{made.leaves_changed:.1%} of the rows reach another leaf.")
    if made.regions:
        lines.append("Where trees say something else:")
        several = forest.n_trees > 1
        lines += [f"    {f'tree {each.tree}: ' if several else ''}{each}" for each in made.regions[:_SHOWN]]
        if len(made.regions) > _SHOWN:
            lines.append(f"    ... {len(made.regions) - _SHOWN} more")
    if made.examples:
        lines.append("The largest differences:")
        lines += [
            f"    row {each.row}: {each.before} -> {each.after} (by {each.by:.4g})" for each in made.examples[:_SHOWN]
        ]
    return "\n".join(lines)
