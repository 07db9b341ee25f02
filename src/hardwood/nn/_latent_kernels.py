"""Compiled loops of a frozen latent tree. A row's numbers are added up in one order, alone or in a batch."""

from __future__ import annotations

import math

from hardwood._numba import exact_kernel


@exact_kernel
def affine(start, stop, x, weight, bias, curved, out):
    """Fill `out` with x @ weight + bias of some rows, column by column of x; `curved` applies ELU to it."""
    for row in range(start, stop):
        line = out[row]
        line[:] = bias
        for column in range(x.shape[1]):
            cell = x[row, column]
            if cell != 0:
                line += cell * weight[column]
        if curved:
            for place in range(len(line)):
                if line[place] < 0:
                    line[place] = math.expm1(line[place])


@exact_kernel
def traversals(start, stop, splits, parent, split, sign, limits, out):
    """Fill `out` with z of some rows: the least signed split on the way plus 1/2, between 0 and a."""
    for row in range(start, stop):
        q = out[row]
        q[0] = 1.0
        for node in range(1, len(q)):
            value = sign[node] * splits[row, split[node]]
            q[node] = min(q[parent[node]], value) if parent[node] > 0 else value
        for node in range(len(q)):
            q[node] = min(max(q[node] + 0.5, 0.0), limits[node])
