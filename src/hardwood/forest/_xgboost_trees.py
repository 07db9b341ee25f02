"""The trees and the categories of XGBoost's JSON form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hardwood._typing import Float
from hardwood.errors import reject
from hardwood.forest._assemble import SourceTree
from hardwood.forest._thresholds import after_float32


def source_trees(booster: dict[str, Any], rounds: int | None, n_outputs: int) -> list[SourceTree]:
    """Return the trees of the first `rounds` rounds (of all: None), with thresholds of `x < threshold`."""
    weight = booster.get("weight_drop")
    model = booster.get("gbtree", booster)["model"]
    count = len(model["trees"]) if rounds is None else model["iteration_indptr"][rounds]
    factors = [1.0] * count if weight is None else np.array(weight[:count], np.float32).tolist()
    return [
        _source_tree(tree, output, n_outputs, factor)
        for tree, output, factor in zip(model["trees"][:count], model["tree_info"][:count], factors, strict=True)
    ]


def _source_tree(tree: dict[str, Any], output: int, n_outputs: int, factor: float) -> SourceTree:
    """Read one tree. Its values go to one of the outputs, or to all where its leaves hold vectors."""
    left, right = np.array(tree["left_children"], np.int64), np.array(tree["right_children"], np.int64)
    leaf = left < 0
    number = np.array(tree["split_conditions"], np.float64).astype(np.float32)
    values = np.zeros((len(left), n_outputs))
    if int(tree["tree_param"]["size_leaf_vector"]) <= 1:
        values[leaf, output] = number[leaf]
    else:
        if "leaf_weights" not in tree:
            problem = "has trees with vectors in their leaves as XGBoost before 3.2 stored them"
            reject("model", tree["tree_param"], problem, "convert it with a newer XGBoost installed")
        # A leaf's right child is the number of its vector.
        values[leaf] = np.array(tree["leaf_weights"], np.float32).reshape(-1, n_outputs)[right[leaf]]
    codes = _codes(tree)
    # XGBoost sends the categories that it names to the right.
    named = np.zeros(len(left), bool)
    named[list(codes)] = True
    source = SourceTree(
        left=np.where(leaf, -1, np.where(named, right, left)),
        right=np.where(leaf, -1, np.where(named, left, right)),
        feature=np.array(tree["split_indices"], np.int64),
        threshold=np.where(leaf | named, 0.0, below_float32(np.where(leaf | named, np.float32(0), number))),
        missing_left=np.array(tree["default_left"], bool) ^ named,
        node_values=factor * values,
        codes=codes,
    )
    return _without_gaps(source)


def _codes(tree: dict[str, Any]) -> dict[int, Any]:
    """Return the codes that each category split names, ascending."""
    ranges = zip(tree["categories_nodes"], tree["categories_segments"], tree["categories_sizes"], strict=True)
    every = np.array(tree["categories"], np.int64)
    return {node: np.unique(every[start : start + size]) for node, start, size in ranges}


def below_float32(threshold: Float[np.ndarray, " nodes"]) -> Float[np.ndarray, " nodes"]:
    """Return t' so that `float32(x) < threshold`, for a float32 threshold, is `x < t'` for every float64 x."""
    before = np.nextafter(threshold, np.float32(-np.inf))
    return np.where(np.isneginf(threshold), -np.inf, after_float32(before.astype(np.float64)))


def _without_gaps(tree: SourceTree) -> SourceTree:
    """Return the tree without the nodes that pruning has left behind; the others keep their order."""
    keep = np.zeros(len(tree.left), bool)
    level = np.zeros(1, np.int64)
    while len(level):
        keep[level] = True
        inner = level[tree.left[level] >= 0]
        level = np.concatenate([tree.left[inner], tree.right[inner]])
    if keep.all():
        return tree
    place = np.cumsum(keep) - 1
    return SourceTree(
        left=np.where(tree.left < 0, -1, place[tree.left])[keep],
        right=np.where(tree.right < 0, -1, place[tree.right])[keep],
        feature=tree.feature[keep],
        threshold=tree.threshold[keep],
        missing_left=tree.missing_left[keep],
        node_values=tree.node_values[keep],
        codes={int(place[node]): codes for node, codes in tree.codes.items() if keep[node]},
    )


def vocabularies(
    trees: Sequence[SourceTree],
    columns: Sequence[int],
    stored: Mapping[int, tuple[Any, ...] | None],
    given: Mapping[int, tuple[Any, ...]],
) -> dict[int, tuple[Any, ...]]:
    """Return the vocabulary of each column of categories: as given, as the model has stored it, or the plain codes.

    XGBoost sends a code that a split does not name to the left; a forest takes one beyond the vocabulary for missing.
    Without a vocabulary nobody knows which codes there are, so both directions have to be the same.
    """
    size = dict.fromkeys(columns, 0)
    apart = set()
    for tree in trees:
        for node, codes in tree.codes.items():
            column = int(tree.feature[node])
            size[column] = max(size[column], int(codes.max(initial=-1)) + 1)
            if tree.missing_left[node]:
                apart.add(column)
    result: dict[int, tuple[Any, ...]] = {}
    for column in columns:
        where = f"categories[{column}]"
        words, own = given.get(column), stored.get(column)
        if words is not None:
            if len(words) < size[column] or (own is not None and len(words) != len(own)):
                wanted = f"{len(own)} categories" if own is not None else f"{size[column]} categories or more"
                reject(where, words, f"has {len(words)} entries", f"the model has {wanted}: list them in its order")
        elif own is not None:
            words = own
        elif column in stored:
            problem = "is not known: XGBoost stores words that are not ASCII in a form that cannot be read back"
            reject(where, None, problem, f"pass categories={{{column}: [...]}}, in the order of the codes")
        elif column in apart:
            problem = "is not known: the model was fit on codes, and treats codes that it does not name as not missing"
            reject(where, None, problem, f"pass categories={{{column}: range(n)}} for n codes")
        else:
            words = tuple(range(size[column]))
        result[column] = words
    return result


def stored_vocabularies(booster: dict[str, Any]) -> dict[int, tuple[Any, ...] | None]:
    """Return the words of each column of categories that a data frame had, None where they cannot be read back."""
    model = booster.get("gbtree", booster)["model"]
    result: dict[int, tuple[Any, ...] | None] = {}
    for column, entry in enumerate(model.get("cats", {}).get("enc", [])):
        if "offsets" not in entry:
            result[column] = tuple(entry["values"])
        elif len(entry["offsets"]) > 1:
            # XGBoost counts pandas' words in characters and stores bytes: only where these are the same it is right.
            plain = all(0 <= byte < 128 for byte in entry["values"])
            text = bytes(entry["values"]).decode() if plain else ""
            ends = zip(entry["offsets"][:-1], entry["offsets"][1:], strict=True)
            result[column] = tuple(text[start:stop] for start, stop in ends) if plain else None
    return result
