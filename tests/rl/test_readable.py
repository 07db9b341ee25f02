"""The tree that a person reads acts as the policy does."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from hardwood.rl import Actions, FlagEncoder, GridEncoder, NumberEncoder, Scale, TreePolicy
from hardwood.rl._readable import join_leaves, readable_forest, without_impossible

ACTIONS = Actions(("a", "b", "c"), (0, 1, 2))


def a_policy(scale: Scale, seed: int, actions: Actions = ACTIONS) -> TreePolicy:
    return TreePolicy(actions, scale, depth=7, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("seed", range(4))
def test_joined_leaves_choose_the_same_actions(seed: int):
    policy = a_policy(Scale(np.zeros(4), np.ones(4)), seed)
    whole = policy.to_forest()
    joined = join_leaves(whole)
    rows = np.random.default_rng(seed).standard_normal((2000, 4)) * 2
    rows[:50, 0] = np.nan
    np.testing.assert_array_equal(joined.predict(rows), whole.predict(rows))
    assert joined.node_count < whole.node_count
    # No split is left whose two leaves choose the same.
    best = np.full(joined.node_count, -1)
    best[joined.left < 0] = joined.leaf_values.argmax(1)
    inner = np.flatnonzero(joined.left >= 0)
    below = best[joined.left[inner]], best[joined.right[inner]]
    assert not ((below[0] == below[1]) & (below[0] >= 0)).any()


@pytest.mark.parametrize("seed", range(4))
def test_splits_on_flags_that_exclude_each_other_are_dropped(seed: int):
    encoder = FlagEncoder([3, 4, 2], [0, 0, 5])
    whole = a_policy(Scale.of_flags(9), seed).to_forest(encoder.names, flags=True)
    assert encoder.exclusive is not None
    smaller = without_impossible(whole, encoder.exclusive)
    rows = encoder.encode([(a, b, c) for a in range(3) for b in range(4) for c in (5, 6)])
    np.testing.assert_array_equal(smaller.outputs(rows), whole.outputs(rows))
    assert smaller.node_count < whole.node_count
    np.testing.assert_array_equal(without_impossible(smaller, range(9)).outputs(rows), whole.outputs(rows))


def test_of_each_place_in_the_grid_one_object_is_seen():
    encoder = GridEncoder()
    policy = a_policy(Scale.of_flags(len(encoder.names)), 0)
    image = np.zeros((3000, 3, 3, 3), np.int64)
    image[..., 0] = np.random.default_rng(0).choice([0, 1, 2, 8, 9], (3000, 3, 3))
    rows = encoder.encode({"image": image})
    forest = readable_forest(policy, encoder)
    np.testing.assert_array_equal(forest.outputs(rows).argmax(1), policy.actor().greedy(rows))
    assert forest.node_count < join_leaves(policy.to_forest(encoder.names, flags=True)).node_count


def test_numbers_to_set_stay_as_they_are():
    policy = a_policy(Scale(np.zeros(2), np.ones(2)), 0, Actions(("force",), low=(-1.0,), high=(1.0,)))
    encoder = NumberEncoder([-1, -1], [1, 1], ("x", "y"))
    assert readable_forest(policy, encoder) == policy.to_forest(encoder.names)
