"""`RunningNorm`: embeddings brought to mean 0 and deviation 1 by statistics that grow slowly, row by row."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from hardwood._typing import Float
from hardwood.errors import reject


class RunningNorm(nn.Module):
    """Subtracts a running mean and divides by a running deviation, in training as in use.

    A threshold on its output is a threshold on its input: `(x - mean) * scale >= t` is `x >= t / scale + mean`. When an
    encoder drifts or stretches its embedding, that threshold moves along, and trees behind it need not chase it. A
    batch's own statistics are never used, so no row depends on its neighbours. NaN counts nowhere and stays NaN.

    >>> norm = RunningNorm(2)
    >>> _ = norm(torch.tensor([[1.0, 5.0], [3.0, 5.0]]))
    >>> norm.mean
    tensor([2., 5.])

    Args:
        n_features: columns.
        momentum: the weight of the newest batch; the first ones weigh more, so that the start is a plain mean.
        epsilon: is added to variances.
    """

    mean: Tensor
    variance: Tensor
    scale: Tensor
    seen: Tensor

    def __init__(self, n_features: int, momentum: float = 0.05, epsilon: float = 1e-3) -> None:
        super().__init__()
        if not 0 < momentum <= 1:
            reject("momentum", momentum, "must be above 0 and at most 1", "try momentum=0.05")
        if not epsilon > 0:
            reject("epsilon", epsilon, "must be above 0", "try epsilon=1e-3")
        self.momentum, self.epsilon = momentum, epsilon
        self.register_buffer("mean", torch.zeros(n_features))
        self.register_buffer("variance", torch.ones(n_features))
        # Kept, so that whoever lowers a threshold multiplies by the very same number.
        self.register_buffer("scale", torch.ones(n_features))
        self.register_buffer("seen", torch.zeros(n_features))

    def forward(self, x: Float[Tensor, "rows features"]) -> Float[Tensor, "rows features"]:
        """Return the normalised rows; in train mode the statistics first take these rows in."""
        if self.training:
            self._observe(x.detach())
        return (x - self.mean) * self.scale

    @torch.no_grad()
    def _observe(self, x: Tensor) -> None:
        there = ~x.isnan()
        count = there.sum(0)
        known = torch.where(there, x, 0.0)
        batch_mean = known.sum(0) / count.clamp(min=1)
        gap = torch.where(there, x - batch_mean, 0.0)
        batch_variance = gap.square().sum(0) / count.clamp(min=1)
        self.seen += (count > 0).to(self.seen.dtype)
        share = torch.where(count > 0, (1 / self.seen.clamp(min=1)).clamp(min=self.momentum), 0.0)
        step = batch_mean - self.mean
        # The variance of a mixture: of its parts, and between them.
        self.variance += share * (batch_variance - self.variance + (1 - share) * step.square())
        self.mean += share * step
        self.scale.copy_((self.variance + self.epsilon).rsqrt())

    def extra_repr(self) -> str:
        """Return the settings, for `print`."""
        return f"{len(self.mean)}, momentum={self.momentum}, epsilon={self.epsilon}"
