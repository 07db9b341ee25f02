"""`MultimodalTrees`: trees for the table and encoders for everything else, fused and trained as one network."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from hardwood._typing import Bool, Float
from hardwood.errors import reject
from hardwood.nn._branch import EncoderBranch, Part
from hardwood.nn._hard_trees import HardTrees

Fusion = Literal["concat", "gated", "trees"]
Phase = Literal["all", "encoders", "trees", "warm_up"]
FUSIONS: tuple[Fusion, ...] = ("concat", "gated", "trees")
PHASES: tuple[Phase, ...] = ("all", "encoders", "trees", "warm_up")
TABLE = "table"  # the name of the table's own part


@dataclass(frozen=True)
class ModalBatch:
    """Some rows as a network of several inputs sees them."""

    table: Float[Tensor, "rows encoded"]  # without columns if there is no table
    parts: Mapping[str, Part]

    def __len__(self) -> int:
        return len(self.table)

    def to(self, device: torch.device) -> ModalBatch:
        """Return the rows on a device."""
        table = self.table.to(device, non_blocking=self.table.is_pinned())
        return ModalBatch(table, {name: part.to(device) for name, part in self.parts.items()})

    def pin_memory(self) -> ModalBatch:
        """Return the rows in memory from which a GPU copies while it works."""
        return ModalBatch(self.table.pin_memory(), {name: part.pin_memory() for name, part in self.parts.items()})


class MultimodalTrees(nn.Module):
    """Trees on a table beside encoders, in the thesis' intermediate fusion, end to end.

    "concat" puts a linear layer on what the trees and the encoders give, side by side. A linear map of leaf values is
    again leaf values, so the trees answer in the outputs' own units, and the output is a plain sum: of the trees, of a
    linear map of each embedding, and of a bias. "gated" multiplies each summand by a gate between 0 and 2 that looks at
    all inputs, which begins at 1. "trees" lets the trees split on the table's columns and all embeddings; a missing
    embedding is a missing cell.

    Embeddings move while trees learn to split them. Against that the branches normalise by running statistics, and
    training may take turns: `phase` is "all"; "encoders" or "trees" (only these move, and linear layers); or "warm_up":
    in train mode the output is then a linear map of embeddings alone. With `encoder_every` the encoders move in every
    so manieth step only, and their pass is cheaper in the others.

    Args:
        table: `HardTrees`, or any other module, on the encoded table; on the fused vector for "trees". None if there is
            no table, but for "trees".
        branches: the encoders, by name.
        n_table: columns of the encoded table.
        n_outputs: columns of the output.
        fusion: "concat", "gated" or "trees".
        encoder_every: steps of training for one of the encoders.
        rows_at_once: rows that are loaded together when the network is called on rows that are still to be loaded.
    """

    steps: Tensor

    def __init__(
        self,
        table: nn.Module | None,
        branches: Mapping[str, EncoderBranch],
        n_table: int,
        n_outputs: int,
        *,
        fusion: Fusion = "concat",
        encoder_every: int = 1,
        rows_at_once: int = 256,
    ) -> None:
        super().__init__()
        if fusion not in FUSIONS:
            reject("fusion", fusion, "is not known", "choose one of " + ", ".join(map(repr, FUSIONS)))
        if encoder_every < 1 or rows_at_once < 1:
            problem = "must be at least 1"
            reject("encoder_every, rows_at_once", (encoder_every, rows_at_once), problem, "pass 1 or more")
        if table is None and (fusion == "trees" or not branches):
            reject("table", None, f"cannot be left out with {len(branches)} branches and fusion={fusion!r}",
                   "pass HardTrees(...)")  # fmt: skip
        if TABLE in branches:
            reject("branches", TABLE, "is the name of the table's part", "give the branch another name")
        widths = {name: branch.width for name, branch in branches.items()}
        n_fused = n_table + sum(widths.values())
        wanted = n_fused if fusion == "trees" else n_table
        if isinstance(table, HardTrees) and table.n_features != wanted:
            reject("table.n_features", table.n_features, f"but the trees see {wanted} columns", "make them so wide")
        self.fusion, self.n_table, self.n_outputs = fusion, n_table, n_outputs
        self.encoder_every, self.rows_at_once = encoder_every, rows_at_once
        self.phase: Phase = "all"
        self.table = table
        # Lists, because a column may be called "a.b" or "items", which no name of a module can be.
        self.names = tuple(branches)
        self.encoders = nn.ModuleList(branches.values())
        self.heads = nn.ModuleList(nn.Linear(width, n_outputs, bias=False) for width in widths.values())
        self.bias = nn.Parameter(torch.zeros(n_outputs))
        self.gate = nn.Linear(n_fused, len(self.parts)) if fusion == "gated" else None
        if self.gate is not None:
            nn.init.zeros_(self.gate.weight)
            nn.init.zeros_(self.gate.bias)
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))

    @property
    def branches(self) -> dict[str, EncoderBranch]:
        """The encoders by name."""
        return dict(zip(self.names, self.encoders, strict=True))  # type: ignore[arg-type]

    @property
    def parts(self) -> tuple[str, ...]:
        """The names of the summands: the table's, and those of the branches."""
        return (*((TABLE,) if self.table is not None else ()), *self.names)

    @property
    def n_trees(self) -> int:
        """The trees, from which dropout draws."""
        return self.table.n_trees if isinstance(self.table, HardTrees) else 1

    def forward(self, rows: Any, tree_mask: Bool[Tensor, "rows_or_1 trees"] | None = None) -> Float[Tensor, "..."]:
        """Return the outputs of a `ModalBatch`, or of rows that are loaded part by part."""
        if not isinstance(rows, ModalBatch):
            return torch.cat([self(part, tree_mask) for part in self.loaded(rows)])
        moves = self._encoders_move()
        embedded = self.embeddings(rows, moves)
        if self.training and self.phase == "warm_up":
            return sum((self._linear(name, each) for name, each in embedded.items()), self.bias.expand(len(rows), -1))
        fixed = self.training and self.phase == "encoders"
        if self.fusion == "trees":
            return self._trees(self.fused(rows, embedded), tree_mask, fixed) + self.bias
        return self._summands(rows, embedded, tree_mask, fixed).sum(1) + self.bias

    def loaded(self, rows: Any) -> Any:
        """Load rows part by part, and give each part on the network's device."""
        for start in range(0, len(rows), self.rows_at_once):
            yield rows.take(slice(start, start + self.rows_at_once)).load().to(self.bias.device)

    def embeddings(self, rows: ModalBatch, moves: bool = True) -> dict[str, Float[Tensor, "rows width"]]:
        """Return the normalised embeddings of each branch; with gradients only if the encoders move."""
        with torch.set_grad_enabled(torch.is_grad_enabled() and moves):
            return {name: branch(rows.parts[name]) for name, branch in self.branches.items()}

    def fused(self, rows: ModalBatch, embedded: Mapping[str, Tensor]) -> Float[Tensor, "rows fused"]:
        """Return the table's columns and all embeddings side by side."""
        return torch.cat([rows.table, *embedded.values()], 1)

    def summands(self, rows: ModalBatch) -> Float[Tensor, "rows parts outputs"]:
        """Return what each part adds to the outputs, beside the bias; for "concat" and "gated"."""
        if self.fusion == "trees":
            reject("fusion", self.fusion, "has no summands", "ask the forest on the fused vector instead")
        return self._summands(rows, self.embeddings(rows), None, False)

    def _summands(self, rows: ModalBatch, embedded: Mapping[str, Tensor], mask: Tensor | None, fixed: bool) -> Tensor:
        summands = [] if self.table is None else [self._trees(rows.table, mask, fixed)]
        summands += [self._linear(name, each) for name, each in embedded.items()]
        stacked = torch.stack(summands, 1)
        if self.gate is None:
            return stacked
        return stacked * self.gates(rows, embedded)[..., None]

    def gates(self, rows: ModalBatch, embedded: Mapping[str, Tensor]) -> Float[Tensor, "rows parts"]:
        """Return the factor of each part, between 0 and 2, for "gated"."""
        assert self.gate is not None
        gates: Tensor = 2 * torch.sigmoid(self.gate(self.fused(rows, embedded).nan_to_num(0.0)))
        return gates

    def _linear(self, name: str, embedded: Tensor) -> Tensor:
        # Nothing known adds nothing.
        linear: Tensor = self.heads[self.names.index(name)](embedded.nan_to_num(0.0))
        return linear

    def _trees(self, x: Tensor, mask: Tensor | None, fixed: bool) -> Tensor:
        assert self.table is not None
        options = {} if mask is None or not isinstance(self.table, HardTrees) else {"tree_mask": mask}
        if fixed:
            held = {name: parameter.detach() for name, parameter in self.table.named_parameters()}
            answer: Tensor = torch.func.functional_call(self.table, held, (x,), options)
        else:
            answer = self.table(x, **options)
        return answer

    def _encoders_move(self) -> bool:
        """Tell whether this step trains the encoders, and count it if some do not."""
        if not self.training:
            return True
        if self.encoder_every == 1:  # to read a count would wait for the GPU
            return self.phase != "trees"
        self.steps += 1
        if self.phase in ("encoders", "warm_up"):
            return True
        return self.phase == "all" and int(self.steps) % self.encoder_every == 0
