"""A forest as a treelite model: run by treelite's GTIL, or serialised for FIL and other compilers.

treelite sends a missing value the default way, and a code that is not in a node's set to the side without the set. That
is what `code_set` makes of a category split.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hardwood.export import _support
from hardwood.export._categories import code_set, json_value
from hardwood.export._extra import optional
from hardwood.export._nodes import Nodes, measured
from hardwood.forest import CATEGORIES, LEAF, Forest


def to_treelite(forest: Forest, X: Any = None) -> Any:
    """Return a `treelite.Model` with the forest's nodes, in float64; `treelite.gtil.predict_leaf` gives their numbers.

    `treelite.gtil.predict` returns shape (rows, 1, classes) of probabilities, or of the second class's alone with the
    link sigmoid; of a forest without classes (rows, outputs, 1), or (rows, 1, outputs) with the link softmax. treelite
    takes a softmax in float32. Pass the number of threads; its own choice is all of them.

    A treelite model has no labels or names: they are in its attributes, under "hardwood". The rows of `X`, if given,
    are counted at every node, which explainers of treelite models ask for.
    """
    _support.check(forest, "treelite")
    builder = optional("treelite.model_builder", "to_treelite")
    nodes = None if X is None else measured(forest, X)
    task, post, classes, targets = _task(forest)
    several = forest.n_outputs > 1
    base = np.zeros(forest.n_outputs) if forest.base is None else forest.base
    model = builder.ModelBuilder(
        threshold_type="float64",
        leaf_output_type="float64",
        metadata=builder.Metadata(
            num_feature=forest.n_features,
            task_type=task,
            average_tree_output=_support.combination(forest) == "mean",
            num_target=targets,
            num_class=[classes] * targets,
            leaf_vector_shape=(targets, classes),
        ),
        tree_annotation=builder.TreeAnnotation(
            num_tree=forest.n_trees,
            target_id=[-1 if targets > 1 else 0] * forest.n_trees,
            class_id=[-1 if classes > 1 else 0] * forest.n_trees,
        ),
        postprocessor=builder.PostProcessorFunc(name=post),
        base_scores=base.tolist(),
        attributes={"hardwood": _attributes(forest)},
    )
    for tree in range(forest.n_trees):
        model.start_tree()
        first = int(forest.tree_start[tree])
        for node in range(first, int(forest.tree_start[tree + 1])):
            model.start_node(node - first)
            if forest.kind[node] == LEAF:
                values = forest.leaf_values[forest._leaf_index[node]].tolist()
                model.leaf(values if several else values[0])
            else:
                _add_split(model, forest, node, first)
            if nodes is not None:
                _add_counts(model, nodes, node)
            model.end_node()
        model.end_tree()
    return model.commit()


def _task(forest: Forest) -> tuple[str, str, int, int]:
    """Return treelite's names for task and link, and how many classes and targets a leaf has values for."""
    if forest.link == "softmax":
        return "kMultiClf", "softmax", forest.n_outputs, 1
    if forest.classes is None:
        post = {"identity": "identity", "sigmoid": "sigmoid", "exp": "exponential"}[forest.link]
        return "kRegressor", post, 1, forest.n_outputs
    if forest.link == "sigmoid":
        return "kBinaryClf", "sigmoid", 1, 1
    return "kMultiClf", "identity_multiclass", forest.n_outputs, 1


def _add_split(model: Any, forest: Forest, node: int, first: int) -> None:
    column, missing_left = int(forest.feature[node]), bool(forest.missing_left[node])
    sides = {"left_child_key": int(forest.left[node]) - first, "right_child_key": int(forest.right[node]) - first}
    if forest.kind[node] == CATEGORIES:
        codes, go_right = code_set(forest, node)
        listed = {"category_list": codes.tolist(), "category_list_right_child": go_right}
        model.categorical_test(column, default_left=missing_left, **listed, **sides)
    else:
        model.numerical_test(column, float(forest.threshold[node]), default_left=missing_left, opname="<", **sides)


def _add_counts(model: Any, nodes: Nodes, node: int) -> None:
    model.data_count(round(float(nodes.rows[node])))
    model.sum_hess(float(nodes.rows[node]))


def _attributes(forest: Forest) -> dict[str, Any]:
    """Return what a treelite model has no place for."""
    described = {
        "feature_names": forest.feature_names,
        "categories": {
            str(column): [json_value(word) for word in words] for column, words in forest.categories.items()
        },
        "classes": None if forest.classes is None else [json_value(label) for label in forest.classes.tolist()],
        "output_names": forest.output_names,
    }
    return {name: value for name, value in described.items() if value}
