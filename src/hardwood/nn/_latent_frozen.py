"""`FrozenLatentTree`: a trained latent tree with its predictor as NumPy arrays, to predict with and to store."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from hardwood._numba import run_chunks
from hardwood._typing import Bool, Float, Int
from hardwood.errors import ForestFileError, reject
from hardwood.forest import Forest
from hardwood.nn._latent_model import LatentModel
from hardwood.nn._latent_tree import hard_paths

_FORMAT = "hardwood latent tree"
_VERSION = 1
_ROWS = 4096  # at once; bounds the memory that a prediction takes
_Layer = tuple[Float[np.ndarray, "_ _"], Float[np.ndarray, " _"]]  # (into, out), and the bias


@dataclass(frozen=True)
class FrozenLatentTree:
    """What is left of a `LatentModel` after training: the nodes that are not pruned, and the predictor.

    Everything is float64, and a row's numbers are added up in one order, so that its prediction is the same to the last
    bit whatever rows come with it.
    """

    split_weight: Float[np.ndarray, "features splits"]
    split_bias: Float[np.ndarray, " splits"]  # added after ELU, where there is one
    elu: bool
    parent: Int[np.ndarray, " nodes"]
    split_of: Int[np.ndarray, " nodes"]
    sign: Float[np.ndarray, " nodes"]
    node_numbers: Int[np.ndarray, " nodes"]  # in the complete tree, breadth-first
    pruning: Float[np.ndarray, " nodes"]  # the a that is kept
    layers: tuple[_Layer, ...]
    sees_rows: bool

    @classmethod
    def of(cls, model: LatentModel) -> FrozenLatentTree:
        """Freeze a model without its pruned nodes; its splits must be linear, with ELU or without."""
        small = model.pruned()
        tree = small.tree
        linear = tree._linear
        if linear is None:
            remedy = "use split='linear' or 'elu', or keep the torch module"
            reject("split", type(tree.split_function).__name__, "is a module that only torch can evaluate", remedy)

        def numbers(tensor: torch.Tensor) -> np.ndarray:
            return np.ascontiguousarray(tensor.detach().double().cpu().numpy())

        return cls(
            split_weight=numbers(linear.weight.t()),
            split_bias=numbers(tree.split_bias),
            elu=tree.split_name == "elu",
            parent=tree.parent.cpu().numpy(),
            split_of=tree.split_of.cpu().numpy(),
            sign=numbers(tree.sign),
            node_numbers=tree.node_numbers.cpu().numpy(),
            pruning=numbers(tree.limits()),
            layers=tuple((numbers(layer.weight.t()), numbers(layer.bias)) for layer in small.linears),
            sees_rows=small.sees_rows,
        )

    @property
    def n_features(self) -> int:
        """Columns of the input."""
        return int(self.split_weight.shape[0])

    @property
    def n_nodes(self) -> int:
        """Nodes that are left."""
        return len(self.parent)

    @property
    def n_parameters(self) -> int:
        """The numbers that were learned and are left."""
        of_layers = sum(weight.size + bias.size for weight, bias in self.layers)
        return int(self.split_weight.size + self.split_bias.size + of_layers)

    def splits(self, x: Float[np.ndarray, "rows features"]) -> Float[np.ndarray, "rows splits"]:
        """Return s, what each split says of each row; below 0 is left."""
        zeros = np.zeros(len(self.split_bias))
        if not self.elu:
            return _affine(x, self.split_weight, self.split_bias, False)
        return np.asarray(_affine(x, self.split_weight, zeros, True) + self.split_bias)

    def traversals(self, x: Float[np.ndarray, "rows features"]) -> Float[np.ndarray, "rows nodes"]:
        """Return z, how much of each row passes each node."""
        from hardwood.nn import _latent_kernels as kernels

        splits = self.splits(x)
        out = np.empty((len(x), self.n_nodes))
        plan = self.parent, self.split_of, self.sign, self.pruning
        run_chunks(
            lambda a, b: kernels.traversals(a, b, splits, *plan, out), len(x), torch.get_num_threads(), _ROWS
        )  # fmt: skip
        return out

    def outputs(self, x: Float[np.ndarray, "rows features"]) -> Float[np.ndarray, "rows outputs"]:
        """Return the prediction by relaxed routing, before any link."""
        x = np.ascontiguousarray(x, np.float64)
        if x.shape[1] != self.n_features:
            reject("x.shape[1]", x.shape[1], f"but the tree was made for {self.n_features} columns", "pass those")
        parts = [
            self.predict_from(self.traversals(x[at : at + _ROWS]), x[at : at + _ROWS]) for at in range(0, len(x), _ROWS)
        ]
        return np.concatenate([np.zeros((0, len(self.layers[-1][1]))), *parts])

    def predict_from(
        self, z: Float[np.ndarray, "rows nodes"], x: Float[np.ndarray, "rows features"]
    ) -> Float[np.ndarray, "rows outputs"]:
        """Return what the predictor makes of traversals, soft or hard."""
        values = np.ascontiguousarray(np.concatenate([z, x], axis=1) if self.sees_rows else z)
        for number, (weight, bias) in enumerate(self.layers, start=1):
            values = _affine(values, weight, bias, number < len(self.layers))
        return values

    # ---------------------------------------------------------------- hard routing

    @property
    def hard_traversals(self) -> Float[np.ndarray, "nodes nodes"]:
        """Return z of a row that is sent without doubt to each node and no further: a along the way, else 0."""
        return hard_paths(torch.from_numpy(self.parent)).numpy() * self.pruning

    @property
    def can_lower(self) -> bool:
        """Whether hard routing can be said as a `Forest`: leaves are constant, or linear in the row."""
        return len(self.layers) == 1 or not self.sees_rows

    def to_forest(self, **description: Any) -> Forest:
        """Return the tree under hard routing as a `Forest` of oblique splits, one leaf for each place a row can end.

        A predictor that sees rows must be linear: it gives linear leaves. `description` has further fields of `Forest`.
        """
        if not self.can_lower:
            problem = "is not linear and sees rows, so that leaves are no constants"
            reject("predictor", "mlp", problem, "use predictor='linear', or sees_rows=False")
        nodes, ends = self._forest_nodes()
        ends_at = np.array(ends, np.int64)
        values = self.predict_from(self.hard_traversals[ends_at], np.zeros((len(ends), self.n_features)))
        inner = nodes["kind"] != 0
        n_inner = int(inner.sum())
        lengths = np.where(inner, self.n_features, 0)
        coef = None
        if self.sees_rows:
            slopes = self.layers[0][0][self.n_nodes :]
            coef = np.broadcast_to(slopes, (len(ends), *slopes.shape))
        columns = nodes["split"][inner]
        threshold = np.zeros(len(inner))
        threshold[inner] = self._thresholds()[columns]
        return Forest(
            tree_start=np.array([0, len(inner)]),
            kind=nodes["kind"],
            left=nodes["left"],
            right=nodes["right"],
            feature=np.full(len(inner), -1),
            threshold=threshold,
            missing_left=np.zeros(len(inner), bool),
            leaf_values=values,
            n_features=self.n_features,
            weight_start=np.concatenate([[0], np.cumsum(lengths)]) if n_inner else None,
            weight_feature=np.tile(np.arange(self.n_features), n_inner) if n_inner else None,
            weight_value=self.split_weight.T[columns].ravel() if n_inner else None,
            leaf_coef=coef,
            **description,
        )

    def ends(self, x: Float[np.ndarray, "rows features"]) -> Int[np.ndarray, " rows"]:
        """Return the node, as a column of z, at which each row ends under hard routing; the same as the forest's."""
        _, ends = self._forest_nodes()
        skeleton = self._skeleton()
        leaf_rank = np.cumsum(skeleton.kind == 0) - 1
        leaves = skeleton.apply(x)[:, 0]
        return np.array(ends, np.int64)[leaf_rank[leaves]]

    def _skeleton(self) -> Forest:
        """Return the forest's splits, with leaves that say nothing."""
        plain = FrozenLatentTree(
            self.split_weight, self.split_bias, self.elu, self.parent, self.split_of, self.sign, self.node_numbers,
            self.pruning, ((np.zeros((self.n_nodes, 1)), np.zeros(1)),), False,
        )  # fmt: skip
        return plain.to_forest()

    def _forest_nodes(self) -> tuple[dict[str, np.ndarray], list[int]]:
        """Return the forest's nodes, root first, and for each of its leaves the node at which a row there ends."""
        children: dict[int, dict[int, int]] = {}
        for node in range(1, self.n_nodes):
            if self.pruning[node] > 0:
                children.setdefault(int(self.parent[node]), {})[int(self.sign[node])] = node
        kind: list[int] = []
        left: list[int] = []
        right: list[int] = []
        split: list[int] = []
        ends: list[int] = []

        def add(node: int, is_leaf: bool) -> int:
            at = len(kind)
            below = {} if is_leaf else children.get(node, {})
            kind.append(3 if below else 0)
            left.append(-1)
            right.append(-1)
            split.append(int(self.split_of[next(iter(below.values()))]) if below else -1)
            if not below:
                ends.append(node)
            else:
                # Where one child is pruned, a row that is sent there ends at this node.
                left[at] = add(below.get(-1, node), -1 not in below)
                right[at] = add(below.get(1, node), 1 not in below)
            return at

        add(0, False)
        return {
            "kind": np.array(kind), "left": np.array(left), "right": np.array(right), "split": np.array(split)
        }, ends  # fmt: skip

    def _thresholds(self) -> Float[np.ndarray, " splits"]:
        """Return what the linear part of each split is compared with: s < 0 is `w x < threshold`."""
        wanted = -self.split_bias
        if not self.elu:
            return wanted
        # ELU(u) < t is u < t for t >= 0, u < log(1 + t) above -1, and never at or below -1.
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(wanted >= 0, wanted, np.where(wanted > -1, np.log1p(np.maximum(wanted, -1)), -np.inf))

    # ---------------------------------------------------------------- files

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to one safetensors file, which `load` reads."""
        import safetensors.numpy

        document = {
            "format": _FORMAT, "version": _VERSION, "elu": self.elu, "sees_rows": self.sees_rows,
            "layers": len(self.layers),
        }  # fmt: skip
        safetensors.numpy.save_file(self._arrays(), os.fspath(path), {"hardwood": json.dumps(document)})

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> FrozenLatentTree:
        """Read what `save` wrote; a file that is damaged or of another kind raises `ForestFileError`."""
        from safetensors import SafetensorError, safe_open

        shown = os.fspath(path)
        if not os.path.isfile(shown):
            raise FileNotFoundError(shown)
        try:
            with safe_open(shown, framework="numpy") as file:
                document = json.loads((file.metadata() or {}).get("hardwood", "{}"))
                arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            if document.get("format") != _FORMAT:
                raise ForestFileError(f"{shown!r} cannot be loaded: it holds no latent tree; pass another file")
            if document["version"] > _VERSION:
                raise ForestFileError(f"{shown!r} cannot be loaded: it is from a newer hardwood; upgrade")
            layers = tuple((arrays[f"layer{i}.weight"], arrays[f"layer{i}.bias"]) for i in range(document["layers"]))
            named = {name: arrays[name] for name in _ARRAYS}
            made = cls(**named, elu=bool(document["elu"]), layers=layers, sees_rows=bool(document["sees_rows"]))
            made._check()
        except (SafetensorError, KeyError, TypeError, ValueError) as error:
            if isinstance(error, ForestFileError):
                raise
            raise ForestFileError(f"{shown!r} cannot be loaded: {error!r}; save the model again") from None
        return made

    def _arrays(self) -> dict[str, np.ndarray]:
        of_layers = {
            f"layer{number}.{name}": np.ascontiguousarray(array)
            for number, layer in enumerate(self.layers)
            for name, array in zip(("weight", "bias"), layer, strict=True)
        }
        return {**{name: np.ascontiguousarray(getattr(self, name)) for name in _ARRAYS}, **of_layers}

    def _check(self) -> None:
        """Refuse arrays that do not fit one another."""
        n_splits, n_nodes = len(self.split_bias), len(self.parent)
        width = n_nodes + self.n_features * self.sees_rows
        fits: Bool[np.ndarray, "..."] | bool = (
            self.split_weight.shape[1] == n_splits
            and all(len(each) == n_nodes for each in (self.split_of, self.sign, self.node_numbers, self.pruning))
            and bool((self.parent < np.arange(n_nodes)).all() and (self.parent[1:] >= 0).all())
            and bool(((self.split_of >= 0) & (self.split_of < max(1, n_splits))).all())
            and all(np.isfinite(array).all() for array in self._arrays().values())
        )
        for weight, bias in self.layers:
            fits = fits and weight.shape == (width, len(bias))
            width = len(bias)
        if not fits:
            raise ValueError("its arrays do not fit one another")


_ARRAYS = ("split_weight", "split_bias", "parent", "split_of", "sign", "node_numbers", "pruning")


def _affine(
    x: Float[np.ndarray, "rows into"], weight: Float[np.ndarray, "into out"], bias: Float[np.ndarray, " out"],
    curved: bool,
) -> Float[np.ndarray, "rows out"]:  # fmt: skip
    from hardwood.nn import _latent_kernels as kernels

    out = np.empty((len(x), len(bias)))
    given = np.ascontiguousarray(x, np.float64)
    run_chunks(
        lambda a, b: kernels.affine(a, b, given, weight, bias, curved, out), len(x), torch.get_num_threads(), 1024
    )  # fmt: skip
    return out
