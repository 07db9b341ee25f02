"""`LatentTree`: a binary tree as a layer, its pruning learned along with its splits."""

from __future__ import annotations

import copy
import math
from typing import Literal

import torch
from torch import Tensor, nn

from hardwood._typing import Bool, Float, Int
from hardwood.errors import reject
from hardwood.ops._pruning import Traversal, path_minima, prune_tree

SplitName = Literal["linear", "elu"]
MOST_DEPTH = 12
# A node whose mean activity over the latest batches is no more than this is pruned.
_FLOOR = 0.01
# The weight of the latest batch in the pruning that is kept.
_MOMENTUM = 0.1


class LatentTree(nn.Module):
    """A tree whose traversals z are the output, for any predictor on top; at every node a row goes left where s < 0.

    In train mode the traversals and the pruning of a batch solve the paper's Equation 3, and gradients pass through the
    solution. In eval mode the pruning learned so far is kept (a running mean over batches), so that what is said of a
    row does not depend on the rows beside it. It can stand anywhere in a network.

    >>> layer = LatentTree(n_features=4, depth=3)
    >>> layer(torch.randn(5, 4)).shape
    torch.Size([5, 15])

    Args:
        n_features: columns of the input.
        depth: levels of splits, 1 to 12; a complete tree has `2**(depth + 1) - 1` nodes.
        split: "linear", "elu" (a linear function, then ELU), or a module from `(rows, n_features)` to
            `(rows, 2**depth - 1)`, one column for each inner node, breadth-first. A bias of each split is added to it.
        penalty: lambda, above 0: how much an active node costs, against a sum over the rows of a batch. A plain
            attribute, which may change while training.
        generator: source of the random first weights; torch's own by default.

    With the attribute `hard` set, each row goes one way, and passes the nodes on it by what they are active; the
    pruning stays as it is, and gradients are those of the relaxed solution (straight-through).

    The buffer `pruning` holds the a that is kept; `node_numbers` says which node of the complete tree, breadth-first
    from 0, each column of z belongs to.
    """

    parent: Tensor
    split_of: Tensor
    sign: Tensor
    node_numbers: Tensor
    pruning: Tensor
    batches_seen: Tensor
    split_columns: Tensor | None

    def __init__(
        self,
        n_features: int,
        depth: int = 4,
        *,
        split: SplitName | nn.Module = "linear",
        penalty: float = 1.0,
        generator: torch.Generator | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        if n_features < 1:
            reject("n_features", n_features, "must be at least 1", "pass n_features=1 or more")
        if not 1 <= depth <= MOST_DEPTH:
            reject("depth", depth, f"must be 1 to {MOST_DEPTH}", "a complete tree doubles with every level; try 4")
        if not 0 < penalty < math.inf:
            reject("penalty", penalty, "must be a finite number above 0", "use 1.0, or 0.001 to prune next to nothing")
        if not isinstance(split, nn.Module) and split not in ("linear", "elu"):
            reject("split", split, "is not known", "choose 'linear' or 'elu', or pass a torch.nn.Module")
        self.n_features, self.depth, self.penalty = n_features, depth, penalty
        self.hard = False
        self.split_name: str = split if isinstance(split, str) else "module"
        n_splits, n_nodes = 2**depth - 1, 2 ** (depth + 1) - 1
        if isinstance(split, nn.Module):
            self.split_function = split
        else:
            linear = seeded_linear(n_features, n_splits, False, generator, device, dtype)
            self.split_function = linear if split == "linear" else nn.Sequential(linear, nn.ELU())
        options = {"device": device, "dtype": dtype}
        self.split_bias = nn.Parameter(torch.zeros(n_splits, **options))  # type: ignore[arg-type]
        numbers = torch.arange(n_nodes, device=device)
        above = torch.where(numbers > 0, (numbers - 1).div(2, rounding_mode="floor"), -1)
        self.register_buffer("parent", above)
        self.register_buffer("split_of", above.clamp(min=0))
        self.register_buffer("sign", torch.where(numbers % 2 == 1, -1.0, 1.0))
        self.register_buffer("node_numbers", numbers)
        self.register_buffer("pruning", torch.ones(n_nodes, **options))  # type: ignore[arg-type]
        self.register_buffer("batches_seen", torch.zeros((), dtype=torch.int64, device=device))
        self.register_buffer("split_columns", None)

    @property
    def n_nodes(self) -> int:
        """The columns of z."""
        return len(self.parent)

    @property
    def active(self) -> Bool[Tensor, " nodes"]:
        """Which nodes are not pruned."""
        return self.pruning > _FLOOR

    def forward(self, x: Float[Tensor, "rows features"]) -> Float[Tensor, "rows nodes"]:
        """Return z, how much of each row passes each node."""
        return self.traverse(x).z

    def traverse(self, x: Float[Tensor, "rows features"]) -> Traversal:
        """Return the traversals z and the pruning a: solved for this batch in train mode, kept in eval mode."""
        splits = self.splits(x)
        q = self._rewards(splits)
        limits = self.limits().to(q.dtype)
        if not self.training:
            soft = torch.minimum((q + 0.5).clamp(min=0), limits)
            return Traversal(self._hard(splits) * limits if self.hard else soft, limits)
        solution = prune_tree(q, self.penalty, self.parent)
        if self.hard:
            way = self._hard(splits) * limits
            return Traversal(solution.z + (way - solution.z).detach(), limits)
        with torch.no_grad():
            self.batches_seen += 1
            # Reading the number would stop a GPU.
            share = self.batches_seen.to(self.pruning.dtype).reciprocal().clamp(min=_MOMENTUM)
            self.pruning.lerp_(solution.a.detach().to(self.pruning.dtype), share)
        return solution

    def limits(self) -> Float[Tensor, " nodes"]:
        """Return the kept a, which is 0 for every pruned node."""
        return torch.where(self.active, self.pruning, torch.zeros_like(self.pruning))

    def splits(self, x: Float[Tensor, "rows features"]) -> Float[Tensor, "rows splits"]:
        """Return s, what each split says of each row; below 0 is left."""
        return self._without_bias(x) + self.split_bias

    def rewards(self, x: Float[Tensor, "rows features"]) -> Float[Tensor, "rows nodes"]:
        """Return q of Equation 1."""
        return self._rewards(self.splits(x))

    def _rewards(self, splits: Tensor) -> Tensor:
        return path_minima(splits, self.parent, self.split_of, self.sign)

    @torch.no_grad()
    def _hard(self, splits: Tensor) -> Tensor:
        """Return 1 for the nodes on each row's way, else 0."""
        sides = torch.where(splits < 0, -1.0, 1.0).to(splits.dtype)
        return (self._rewards(sides) > 0).to(splits.dtype)

    def _without_bias(self, x: Tensor) -> Tensor:
        values: Tensor = self.split_function(x)
        if self.split_columns is not None:
            values = values.index_select(1, self.split_columns)
        if tuple(values.shape) != (len(x), len(self.split_bias)):
            problem = f"returned shape {tuple(values.shape)} for {len(x)} rows"
            reject("split", type(self.split_function).__name__, problem, f"return (rows, {len(self.split_bias)})")
        return values

    @torch.no_grad()
    def spread(self, x: Float[Tensor, "rows features"], along: Literal["random", "principal"] = "random") -> LatentTree:
        """Set first splits so that these rows spread over the leaves.

        With "random", directions stay as they were drawn, and each bias halves the rows that reach the split: all
        leaves get as many. The paper takes the mean of the rows at a node; the median is what makes halves equal. With
        "principal", each split looks along the direction in which the rows that reach it vary most, and its bias is at
        their mean: rows part where they lie apart. That is for splits that are linear, with ELU or without.
        """
        if along == "principal" and self._linear is None:
            remedy = "use split='linear' or 'elu', or along='random'"
            reject("along", along, "needs splits whose directions can be set", remedy)
        values = self._without_bias(x)
        reached = {0: torch.ones(len(x), dtype=torch.bool, device=values.device)}
        for node in range(self.n_nodes):
            children = (self.parent == node).nonzero().flatten().tolist()
            rows = reached.pop(node, None)
            if not children or rows is None:
                continue
            split = int(self.split_of[children[0]])
            if along == "principal" and int(rows.sum()) > 1:
                self._turn_to(x[rows], split)
                values = self._without_bias(x)
            here = values[rows, split].double()
            if len(here) > 0:
                self.split_bias[split] = -(here.mean() if along == "principal" else here.quantile(0.5))
            goes_right = values[:, split] + self.split_bias[split] >= 0
            for child in children:
                reached[child] = rows & (goes_right if self.sign[child] > 0 else ~goes_right)
        return self

    def _turn_to(self, rows: Tensor, split: int) -> None:
        """Turn a split to the direction in which rows vary most, with a deviation of 1 along it."""
        assert self._linear is not None
        centred = rows.double() - rows.double().mean(0)
        variances, directions = torch.linalg.eigh(centred.T @ centred / len(rows))
        if float(variances[-1]) < 1e-12:
            return
        direction = directions[:, -1]
        # Which of the two opposite directions comes out is the library's choice.
        direction = direction * direction[direction.abs().argmax()].sign()
        self._linear.weight[split] = (direction / variances[-1].sqrt()).to(self._linear.weight.dtype)

    @torch.no_grad()
    def pruned(self) -> LatentTree:
        """Return a copy without its pruned nodes: what is left is stored and evaluated, and says the same.

        Columns of z are then those of the nodes that are left; a linear layer on top keeps its columns `active`. The
        root stays in any case.
        """
        keep = self.active.clone()
        keep[0] = True
        nodes = keep.nonzero().flatten()
        used = torch.unique(self.split_of[nodes[1:]])
        place = torch.full_like(keep, -1, dtype=torch.int64)
        place[nodes] = torch.arange(len(nodes), device=place.device)
        above = self.parent[nodes]
        small = copy.deepcopy(self)
        small.parent = torch.where(above >= 0, place[above.clamp(min=0)], -1)
        small.split_of = torch.searchsorted(used, self.split_of[nodes]).clamp(max=max(0, len(used) - 1))
        small.sign, small.node_numbers = self.sign[nodes], self.node_numbers[nodes]
        small.pruning = self.pruning[nodes]
        small.split_bias = nn.Parameter(self.split_bias[used].clone())
        linear = small._linear
        if linear is None:
            small.split_columns = used if self.split_columns is None else self.split_columns[used]
        else:
            linear.weight = nn.Parameter(linear.weight[used].clone())
            linear.out_features = len(used)
        return small

    @property
    def _linear(self) -> nn.Linear | None:
        """The linear part of a split function of our own, None for the user's module."""
        if self.split_name == "module":
            return None
        inner = self.split_function if self.split_name == "linear" else self.split_function[0]  # type: ignore[index]
        assert isinstance(inner, nn.Linear)
        return inner

    def extra_repr(self) -> str:
        """Return the layer's settings, for `print`."""
        return f"n_features={self.n_features}, depth={self.depth}, nodes={self.n_nodes}, penalty={self.penalty}"


@torch.no_grad()
def seeded_linear(
    n_in: int,
    n_out: int,
    bias: bool,
    generator: torch.Generator | None,
    device: torch.device | str | None = None,
    dtype: torch.dtype | None = None,
) -> nn.Linear:
    """Return torch's linear layer with its usual first weights, drawn from a generator of the caller's."""
    linear = nn.Linear(n_in, n_out, bias=bias, device="meta", dtype=dtype).to_empty(
        device=device or torch.get_default_device()
    )
    limit = 1 / math.sqrt(n_in) if n_in else 0.0
    for parameter in linear.parameters():
        drawn = torch.rand(parameter.shape, generator=generator, dtype=torch.float64)
        parameter.copy_((drawn * 2 - 1) * limit)
    return linear


def hard_paths(parent: Int[Tensor, " nodes"]) -> Bool[Tensor, "nodes nodes"]:
    """Return for each node which nodes stand on the way to it, itself included."""
    on_way = torch.eye(len(parent), dtype=torch.bool)
    for node, above in enumerate(parent.tolist()):
        if above >= 0:
            on_way[node] |= on_way[above]
    return on_way
