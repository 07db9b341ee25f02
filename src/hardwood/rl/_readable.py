"""`readable_forest`: the tree that a person reads, which acts as the policy does with as few nodes as that takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from hardwood.forest import LEAF, Forest
from hardwood.rl._encoders import Encoder
from hardwood.rl._policy import TreePolicy


def readable_forest(policy: TreePolicy, encoder: Encoder) -> Forest:
    """Return a policy's forest without splits that no observation decides both ways, or that do not change the action.

    On every row that the encoder makes, its prediction is the policy's best action.
    """
    forest = policy.to_forest(encoder.names, encoder.is_flag)
    if encoder.exclusive is not None:
        forest = without_impossible(forest, encoder.exclusive)
    return join_leaves(forest) if policy.actions.is_discrete else forest


def without_impossible(forest: Forest, exclusive: Sequence[int]) -> Forest:
    """Drop splits on a flag of which one is known: of the flags with the same number at most one is 1."""
    left, right = forest.left.copy(), forest.right.copy()
    threshold, missing_left = forest.threshold.copy(), forest.missing_left.copy()
    groups = np.asarray(exclusive)
    tasks = [(0, np.zeros(forest.n_features, bool))]  # a node, and which flags are known to be 0 there
    while tasks:
        node, zero = tasks.pop()
        if forest.left[node] < 0:
            continue
        column = int(forest.feature[node])
        if zero[column]:
            # All go "right" to what was the left child; pruning then takes it in the node's place.
            left[node], right[node] = forest.right[node], forest.left[node]
            threshold[node], missing_left[node] = -np.inf, False
            tasks.append((int(forest.left[node]), zero))
            continue
        others = (groups == groups[column]) & (np.arange(len(groups)) != column)
        tasks += [(int(forest.left[node]), zero), (int(forest.right[node]), zero | others)]
    return replace(forest, left=left, right=right, threshold=threshold, missing_left=missing_left).prune()


def join_leaves(forest: Forest) -> Forest:
    """Make one leaf of neighbours with the same best action; it says the mean of their logits."""
    place = (np.cumsum(forest.kind == LEAF) - 1).tolist()
    values = forest.leaf_values.copy()

    def join(node: int) -> tuple[list[int], int]:
        """Return the leaves below a node, and the best action if it is the same at all of them, else -1."""
        if forest.left[node] < 0:
            return [place[node]], int(forest.leaf_values[place[node]].argmax())
        (left, one), (right, other) = join(int(forest.left[node])), join(int(forest.right[node]))
        leaves = left + right
        if one != other or one < 0:
            return leaves, -1
        mean = forest.leaf_values[leaves].mean(0)
        if int(mean.argmax()) != one:  # two actions are equal, but for rounding
            return leaves, -1
        values[leaves] = mean
        return leaves, one

    join(0)
    return replace(forest, leaf_values=values).prune()
