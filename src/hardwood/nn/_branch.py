"""`EncoderBranch`: one encoder of a network of several inputs, from cells to normalised embeddings of rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from hardwood._typing import Bool, Float
from hardwood.errors import reject
from hardwood.nn._backbones import last_layers
from hardwood.nn._running_norm import RunningNorm

Tuning = Literal["full", "last", "frozen"]
Views = Literal["concat", "mean"]
Normalization = Literal["running", "none"]
TUNINGS: tuple[Tuning, ...] = ("full", "last", "frozen")
VIEWS: tuple[Views, ...] = ("concat", "mean")
NORMALIZATIONS: tuple[Normalization, ...] = ("running", "none")


@dataclass(frozen=True)
class Part:
    """What one branch sees of some rows: the cells that are there, row by row, and which ones these are."""

    values: Tensor | dict[str, Tensor]  # the first axis of each: cells that are there; images, words, or tokens
    present: Bool[Tensor, "rows views"]
    encoded: bool = False  # whether the values are what the encoder makes of the cells

    @property
    def n_cells(self) -> int:
        """The cells that are there."""
        return len(next(iter(self.values.values())) if isinstance(self.values, dict) else self.values)

    def to(self, device: torch.device) -> Part:
        """Return the part on a device."""
        return self._each(lambda tensor: tensor.to(device, non_blocking=tensor.is_pinned()))

    def pin_memory(self) -> Part:
        """Return the part in memory from which a GPU copies while it works."""
        return self._each(Tensor.pin_memory)

    def _each(self, change: Callable[[Tensor], Tensor]) -> Part:
        values = self.values
        changed = {n: change(t) for n, t in values.items()} if isinstance(values, dict) else change(values)
        return Part(changed, change(self.present), self.encoded)


class EncoderBranch(nn.Module):
    """An encoder, a projection to fewer numbers, and their running normalisation; a missing cell's numbers are NaN.

    Args:
        encoder: gives `(cells, encoder_width)`.
        encoder_width: numbers that the encoder makes of a cell.
        n_views: cells of each row that it sees, such as four photographs of one house.
        views: "concat" keeps the numbers of each cell apart, "mean" averages over the cells that are there.
        width: numbers of a cell after the projection; None leaves the encoder's own.
        tuning: what training moves: the "full" encoder, its "last" layer with a matrix of parameters (and
            normalisations after it), or nothing of it ("frozen"). The projection is always trained.
        normalization: "running" (`RunningNorm`) or "none".
        pixel_mean, pixel_scale: images of bytes become `(bytes / 255 - pixel_mean) / pixel_scale`, for each channel.
    """

    _pixel_mean: Tensor
    _pixel_scale: Tensor

    def __init__(
        self,
        encoder: nn.Module,
        encoder_width: int,
        *,
        n_views: int = 1,
        views: Views = "concat",
        width: int | None = None,
        tuning: Tuning = "full",
        normalization: Normalization = "running",
        pixel_mean: tuple[float, ...] = (0.5,),
        pixel_scale: tuple[float, ...] = (0.25,),
    ) -> None:
        super().__init__()
        for name, value, allowed in (
            ("views", views, VIEWS), ("tuning", tuning, TUNINGS), ("normalization", normalization, NORMALIZATIONS),
        ):  # fmt: skip
            if value not in allowed:
                reject(name, value, "is not known", "choose one of " + ", ".join(map(repr, allowed)))
        self.encoder, self.tuning, self.views = encoder, tuning, views
        self.cell_width = encoder_width if width is None else width
        self.projection: nn.Module = nn.Identity() if width is None else nn.Linear(encoder_width, width)
        self.width = self.cell_width * (n_views if views == "concat" else 1)
        self.norm: nn.Module = RunningNorm(self.width) if normalization == "running" else nn.Identity()
        pixels = (torch.tensor(each)[:, None, None] for each in (pixel_mean, pixel_scale))
        for name, each in zip(("_pixel_mean", "_pixel_scale"), pixels, strict=True):
            self.register_buffer(name, each, persistent=False)
        # In a tuple, so that they are not children of this module a second time.
        self._last: tuple[nn.Module, ...] = tuple(last_layers(encoder)) if tuning == "last" else ()
        if tuning != "full":
            encoder.requires_grad_(False)
        for layer in self._last:
            layer.requires_grad_(True)
        self.train()

    def train(self, mode: bool = True) -> EncoderBranch:
        """Set the mode; what is not trained stays in eval mode, so that its own statistics stay."""
        super().train(mode)
        if self.tuning != "full":
            self.encoder.eval()
            for layer in self._last:
                layer.train(mode)
        return self

    def embed(self, part: Part) -> Float[Tensor, "rows width"]:
        """Return the rows' embeddings before normalisation."""
        present = part.present
        shape = (*present.shape, self.cell_width)
        cells = present.new_full(shape, torch.nan, dtype=self._dtype)
        if part.n_cells > 0:
            encoded = part.values if part.encoded else self.encode(part.values)
            assert isinstance(encoded, Tensor)
            # An encoder that runs in half precision gives numbers of that kind.
            known: Tensor = self.projection(encoded.to(self._dtype))
            # Where none is missing nothing has to be looked up, for which a step would wait for the GPU.
            cells = known.reshape(shape) if part.n_cells == present.numel() else cells.index_put((present,), known)
        if self.views == "concat":
            return cells.flatten(1)
        total = torch.where(present[..., None], cells, 0.0).sum(1)
        count = present.sum(1, keepdim=True)
        return torch.where(count > 0, total / count.clamp(min=1), torch.nan)

    def encode(self, values: Tensor | dict[str, Tensor]) -> Float[Tensor, "cells numbers"]:
        """Return what the encoder makes of cells, before the projection."""
        with torch.set_grad_enabled(torch.is_grad_enabled() and self.tuning != "frozen"):
            encoded: Tensor = self.encoder(self._pixels(values))
        return encoded

    def forward(self, part: Part) -> Float[Tensor, "rows width"]:
        """Return the rows' normalised embeddings."""
        normalised: Tensor = self.norm(self.embed(part))
        return normalised

    def _pixels(self, values: Any) -> Any:
        if isinstance(values, Tensor) and values.dtype == torch.uint8:
            return (values.to(self._dtype) / 255 - self._pixel_mean) / self._pixel_scale
        return values

    @property
    def _dtype(self) -> torch.dtype:
        return torch.float32
