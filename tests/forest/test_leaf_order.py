"""Which leaf bounds which, against a search through every kind of row there is."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from hardwood.forest import CATEGORIES, LEAF, THRESHOLD, Forest
from hardwood.forest._leaf_order import bound_leaves
from hardwood.forest._monotone import _tree, _vocabulary_sizes
from helpers.forests import complete_forest, random_forest


def moves_between_leaves(forest: Forest, directions: np.ndarray) -> np.ndarray:
    """Tell from which leaf of one tree a move leads to which, by making all moves between rows of every kind."""
    cells = []
    for column in range(forest.n_features):
        cuts = forest.threshold[(forest.kind == THRESHOLD) & (forest.feature == column)]
        codes = np.arange(len(forest.categories.get(column, ())))
        numbers = np.unique(np.concatenate([cuts, np.nextafter(cuts, -np.inf), np.nextafter(cuts, np.inf), codes]))
        cells.append([*numbers, 0.25, np.nan] if len(numbers) else [0.25, np.nan])
    rows = np.array(list(itertools.product(*cells)))
    shape = tuple(map(len, cells))
    leaf = (np.cumsum(forest.kind == LEAF) - 1)[forest.apply(rows)[:, 0]].reshape(shape)
    found = np.zeros((forest.n_leaves, forest.n_leaves), bool)
    for column in np.flatnonzero(directions):
        order = np.argsort(cells[column])  # a missing value comes last
        lines = np.moveaxis(leaf, column, -1)[..., order[:-1]]
        for low, high in itertools.combinations(range(len(order) - 1), 2):
            a, b = (low, high) if directions[column] > 0 else (high, low)
            found[lines[..., a].ravel(), lines[..., b].ravel()] = True
    return found & ~np.eye(len(found), dtype=bool)


def closure(found: np.ndarray) -> np.ndarray:
    reached = found | np.eye(len(found), dtype=bool)
    for between in range(len(found)):
        reached |= reached[:, between, None] & reached[None, between, :]
    return reached


def best_of(values: np.ndarray, before: np.ndarray) -> np.ndarray:
    """Return for each leaf the one with the largest value among those before it: itself first, then the lowest."""
    result = np.empty(values.shape, np.int64)
    for leaf, output in np.ndindex(*values.shape):
        among = np.flatnonzero(before[:, leaf])
        most = values[among, output].max()
        result[leaf, output] = leaf if values[leaf, output] == most else among[values[among, output] == most][0]
    return result


def bounds(forest: Forest, directions: np.ndarray, chains: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    values = forest.leaf_values
    upper, lower = np.empty(values.shape, np.int64), np.empty(values.shape, np.int64)
    group = np.empty(len(values), np.int64)
    bound_leaves(_tree(forest, 0), directions, _vocabulary_sizes(forest), chains, values, upper, lower, group)
    return upper, lower, group


def drawn(seed: int) -> tuple[Forest, np.ndarray]:
    rng = np.random.default_rng(seed)
    if seed % 5 == 0:
        forest = complete_forest(rng, 1, 3, 2)
    else:
        forest = random_forest(
            rng, n_trees=1, kinds=(THRESHOLD, CATEGORIES), n_features=int(rng.integers(1, 4)), max_splits=9,
            linear=False, task="regression",
        )  # fmt: skip
    directions = rng.integers(-1, 2, forest.n_features)
    directions[list(forest.categories)] = 0
    return forest, directions


@pytest.mark.parametrize("seed", range(60))
def test_bounds_are_those_of_all_moves_there_are(seed: int) -> None:
    forest, directions = drawn(seed)
    direct = moves_between_leaves(forest, directions)
    chains = closure(direct)
    assert not (chains & chains.T & ~np.eye(len(chains), dtype=bool)).any()  # no leaf comes before itself
    upper, lower, group = bounds(forest, directions, chains=True)
    np.testing.assert_array_equal(upper, best_of(forest.leaf_values, chains))
    np.testing.assert_array_equal(lower, best_of(-forest.leaf_values, chains.T))
    np.testing.assert_array_equal(group, closure(direct | direct.T).argmax(1))
    upper, lower, _ = bounds(forest, directions, chains=False)
    one_move = direct | np.eye(len(direct), dtype=bool)
    np.testing.assert_array_equal(upper, best_of(forest.leaf_values, one_move))
    np.testing.assert_array_equal(lower, best_of(-forest.leaf_values, one_move.T))


def test_what_has_no_rows_is_not_written() -> None:
    forest, directions = drawn(5)
    upper, _, _ = bounds(forest, directions, chains=True)
    alone, nothing = np.empty_like(upper), np.empty((0, 1), np.int64)
    sizes = _vocabulary_sizes(forest)
    bound_leaves(_tree(forest, 0), directions, sizes, True, forest.leaf_values, alone, nothing, nothing[:, 0])
    np.testing.assert_array_equal(alone, upper)
