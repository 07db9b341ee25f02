"""`hard_trees`: the one entrance to hard routing, for any device."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from hardwood._typing import Bool, Float, Int, Shaped
from hardwood.errors import reject
from hardwood.ops._contract import COMBINES, MAX_DEPTH, SELECTIONS, SPLITS, Combine, Selection, Split
from hardwood.ops._reference import dense_hard_trees

Backend = Literal["auto", "reference"]


class TreeOutputs(NamedTuple):
    """What `hard_trees` returns."""

    output: Float[Tensor, "..."]  # (rows, outputs); (rows, trees, outputs) for combine="none"
    leaf_index: Int[Tensor, "rows trees"]  # int32, leaves counted from the left
    weights: Float[Tensor, "rows trees"] | None  # softmax over trees; for "none" the reached leaves' raw weights


def hard_trees(
    x: Float[Tensor, "rows columns"],
    split_logits: Float[Tensor, "trees nodes features"],
    thresholds: Float[Tensor, "trees nodes features"],
    leaf_values: Float[Tensor, "trees leaves outputs"],
    *,
    leaf_weights: Float[Tensor, "trees leaves"] | None = None,
    missing_logits: Float[Tensor, "trees nodes features"] | None = None,
    feature_subset: Int[Tensor, "trees features"] | None = None,
    tree_mask: Bool[Tensor, "rows_or_1 trees"] | None = None,
    combine: Combine = "softmax",
    selection: Selection = "entmax",
    split: Split = "sigmoid",
    soft_selection: bool = False,
    backend: Backend = "auto",
) -> TreeOutputs:
    """Evaluate hard, axis-aligned trees, with the papers' straight-through gradients.

    Node `n` of a tree (breadth-first, root 0) splits on the feature with its largest split logit. A row goes right when
    its value is at least the threshold of that feature; a missing value (NaN) goes right when the missing logit of that
    feature is at least 0, and left when there are none. A row's result never depends on other rows.

    Gradients are those of the dense formula (`backend="reference"` computes exactly that), in
    O(rows x trees x (depth^2 + depth x features)) time and O(rows x trees) memory beside the parameters. An infinite
    cell routes like any number and contributes no gradient.

    Args:
        x: one row a line. Half precision is computed in float32, mixed precision in the wider type.
        split_logits: which feature each node prefers; the choice goes through `selection` in the backward pass.
        thresholds: one for every feature at every node.
        leaf_values: what each leaf says.
        leaf_weights: how much a tree counts where the row reaches this leaf (GRANDE). Needed by "softmax".
        missing_logits: where missing values go, one for every feature at every node.
        feature_subset: the columns of `x` that each tree may use.
        tree_mask: False leaves a tree out, for a row or for all; the others' shares are taken among themselves.
        combine: "softmax" of leaf weights over trees, "mean", "sum", or "none" for every tree's own output.
        selection: "entmax" (GradTree, GRANDE) or "softmax".
        split: "sigmoid" (GradTree), "softsign" (GRANDE) or "entmoid".
        soft_selection: split on the whole mixture of features that `selection` gives, not on the strongest alone (the
            papers' annealing ablation). Always computed by the reference.
        backend: "auto" is compiled code for the tensors' device; "reference" is the dense formula.
    """
    _check(x, split_logits, thresholds, leaf_values, leaf_weights, missing_logits, feature_subset, tree_mask)
    _check_choice("combine", combine, COMBINES)
    _check_choice("selection", selection, SELECTIONS)
    _check_choice("split", split, SPLITS)
    _check_choice("backend", backend, ("auto", "reference"))
    if combine == "softmax" and leaf_weights is None:
        reject("combine", combine, "needs leaf_weights", 'pass leaf_weights, or combine="mean"')
    wide = torch.promote_types(torch.promote_types(x.dtype, split_logits.dtype), torch.float32)
    x, split_logits, thresholds, leaf_values = (p.to(wide) for p in (x, split_logits, thresholds, leaf_values))
    leaf_weights = None if leaf_weights is None or combine in ("mean", "sum") else leaf_weights.to(wide)
    missing_logits = None if missing_logits is None else missing_logits.to(wide)
    feature_subset = None if feature_subset is None else feature_subset.long()
    if combine == "none" and tree_mask is not None:
        reject("tree_mask", "given", 'has no meaning with combine="none"', "mask the trees' outputs yourself")

    # The Triton kernels are written for float32.
    if backend == "reference" or soft_selection or (x.is_cuda and wide == torch.float64):
        fwd = dense_hard_trees(
            x, split_logits, thresholds, leaf_values, leaf_weights, missing_logits, feature_subset, tree_mask,
            combine, selection, split, soft_selection,
        )  # fmt: skip
        output, leaf_index, attention = fwd.output, fwd.leaf_index, fwd.attention
    else:
        from hardwood.ops._custom_ops import forward_op

        parameters = (split_logits, thresholds, missing_logits, leaf_values, leaf_weights)
        output, by_tree, attention, _ = forward_op(
            x.contiguous(), *(None if p is None else p.contiguous() for p in parameters),
            feature_subset, tree_mask, combine, selection, split,
        )  # fmt: skip
        leaf_index, attention = by_tree.t(), attention.t() if attention.ndim == 2 else attention
    if attention.ndim != 2:
        return TreeOutputs(output, leaf_index, None)
    return TreeOutputs(output, leaf_index, attention.detach() if combine == "softmax" else attention)


def _check_choice(argument: str, value: object, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        reject(argument, value, "is not known", "choose one of " + ", ".join(map(repr, allowed)))


def _check_shape(argument: str, tensor: Tensor, wanted: tuple[int, ...], why: str) -> None:
    if tuple(tensor.shape) != wanted:
        reject(f"{argument}.shape", tuple(tensor.shape), f"does not fit {why}", f"pass shape {wanted}")


def _check(
    x: Shaped[Tensor, "..."],
    split_logits: Shaped[Tensor, "..."],
    thresholds: Shaped[Tensor, "..."],
    leaf_values: Shaped[Tensor, "..."],
    leaf_weights: Shaped[Tensor, "..."] | None,
    missing_logits: Shaped[Tensor, "..."] | None,
    feature_subset: Shaped[Tensor, "..."] | None,
    tree_mask: Shaped[Tensor, "..."] | None,
) -> None:
    named: dict[str, Any] = {
        "x": x, "split_logits": split_logits, "thresholds": thresholds, "leaf_values": leaf_values,
        "leaf_weights": leaf_weights, "missing_logits": missing_logits,
    }  # fmt: skip
    for name, tensor in named.items():
        if tensor is not None and not tensor.is_floating_point():
            reject(f"{name}.dtype", tensor.dtype, "is not a floating-point type", f"convert it: {name}.float()")
    if split_logits.ndim != 3 or min(split_logits.shape) < 1:
        reject("split_logits.shape", tuple(split_logits.shape), "is not (trees, nodes, features)", "add the dimensions")
    trees, nodes, features = split_logits.shape
    depth = (nodes + 1).bit_length() - 1
    if nodes != 2**depth - 1 or not 1 <= depth <= MAX_DEPTH:
        reject(
            "split_logits.shape[1]", nodes, "is not the number of nodes of a complete tree",
            f"use 2**depth - 1 nodes, with depth from 1 to {MAX_DEPTH}",
        )  # fmt: skip
    _check_shape("thresholds", thresholds, (trees, nodes, features), "split_logits")
    if leaf_values.ndim != 3 or leaf_values.shape[2] < 1:
        reject("leaf_values.shape", tuple(leaf_values.shape), "is not (trees, leaves, outputs)", "add the dimensions")
    _check_shape("leaf_values", leaf_values, (trees, nodes + 1, leaf_values.shape[2]), "split_logits")
    if leaf_weights is not None:
        _check_shape("leaf_weights", leaf_weights, (trees, nodes + 1), "split_logits")
    if missing_logits is not None:
        _check_shape("missing_logits", missing_logits, (trees, nodes, features), "split_logits")
    if x.ndim != 2:
        reject("x.shape", tuple(x.shape), "is not (rows, columns)", "reshape a single row with x[None]")
    if feature_subset is None:
        if x.shape[1] != features:
            reject("x.shape[1]", x.shape[1], f"but the trees were made for {features} columns", "pass those columns")
    else:
        _check_shape("feature_subset", feature_subset, (trees, features), "split_logits")
        if feature_subset.dtype not in (torch.int32, torch.int64):
            reject("feature_subset.dtype", feature_subset.dtype, "is not an integer type", "use torch.int64")
        if not torch.compiler.is_compiling() and not feature_subset.is_cuda:
            lowest, highest = int(feature_subset.min()), int(feature_subset.max())
            if lowest < 0 or highest >= x.shape[1]:
                wrong = lowest if lowest < 0 else highest
                reject("feature_subset", wrong, f"x has {x.shape[1]} columns", "use columns 0 to x.shape[1] - 1")
    if tree_mask is not None:
        if tree_mask.dtype != torch.bool:
            reject("tree_mask.dtype", tree_mask.dtype, "is not torch.bool", "compare it: tree_mask > 0")
        _check_shape("tree_mask", tree_mask, (1 if tree_mask.shape[:1] == (1,) else len(x), trees), "x and the trees")
    for name, tensor in {**named, "feature_subset": feature_subset, "tree_mask": tree_mask}.items():
        if tensor is not None and tensor.device != x.device:
            reject(f"{name}.device", str(tensor.device), f"but x is on {x.device}", f"move one: {name}.to(x.device)")
