"""Triton kernels of latent trees: minima along paths, the pruning solver, and their gradients.

How a level is solved. `_pruning_kernels` says what f_t and v_t are. Seen from a node t, all that lies below a child k
counts as max(0, f_k(v)), which is a sum of hinges again: those of k and of everything below, each cut off at v_k. So
with p_s the least v of the nodes from s up to the child, every reward below counts as min(c_is, p_s), every cost lambda
as a hinge at p_s, and

    f_t(v) = -lambda v + sum_s lambda max(0, p_s - v) + sum_is max(0, min(c_is, p_s) - v).

This is convex and falling, so that Newton's steps from v = 0 rise to its zero and reach it after finitely many: each is
the zero of the hinges that lie above the last v, and there are fewer of them every time, so that it ends. Rewards c
that are not above 0 are never among them, which is most: a row passes few nodes. Nodes of a level have no common
rewards: one program solves each. When the root is done, p is the solution. Nothing is sorted, nothing waits for the
GPU, and every sum has a fixed order.
"""

from __future__ import annotations

import triton.language as tl

from hardwood.ops._cuda_tiles import jit


@jit
def pack(cells, starts, keys, n_rows, ROWS: tl.constexpr):
    """Copy what is above 0 of one place's c = q + 1/2, in order, to where the place's keys stand."""
    place = tl.program_id(0).to(tl.int64)
    into = tl.load(starts + place)
    for first in range(0, n_rows, ROWS):
        row = first + tl.arange(0, ROWS)
        reward = tl.load(cells + place * n_rows + row, mask=row < n_rows, other=-1.0).to(tl.float64) + 0.5
        alive = reward > 0
        behind = tl.cumsum(alive.to(tl.int32), 0)
        tl.store(keys + into + behind - 1, reward, mask=alive)
        into += tl.sum(alive.to(tl.int32))


@jit
def solve_level(keys, starts, limits, tops, places, sizes, penalty_at, KEYS: tl.constexpr, NODES: tl.constexpr):
    """Solve f_t = 0 for one node t, and lower all that is above its value below it: keys, and limits.

    `keys` holds min(c, p) of each place in turn, from `starts`; `limits` holds p, infinite where nothing is solved yet.
    """
    penalty = tl.load(penalty_at)
    place = tl.load(places + tl.program_id(0))
    size = tl.load(sizes + place)
    first, last = tl.load(starts + place), tl.load(starts + place + size)
    value = tl.full((), 0.0, tl.float64)
    taken = tl.full((), -1, tl.int64)
    going = taken < 0
    while going:
        total = tl.zeros((KEYS,), tl.float64)
        count = tl.zeros((KEYS,), tl.int64)
        for start in range(first, last, KEYS):
            at = start + tl.arange(0, KEYS)
            key = tl.load(keys + at, mask=at < last, other=0.0)
            above = key > value
            total += tl.where(above, key, 0.0)
            count += above.to(tl.int64)
        of_costs = tl.zeros((NODES,), tl.float64)
        n_costs = tl.zeros((NODES,), tl.int64)
        for start in range(1, size, NODES):
            inside = start + tl.arange(0, NODES)
            limit = tl.load(limits + place + inside, mask=inside < size, other=0.0)
            of_costs += tl.where(limit > value, limit, 0.0)
            n_costs += (limit > value).to(tl.int64)
        n_rewards, n_above = tl.sum(count), tl.sum(n_costs)
        weight = penalty * (1 + n_above).to(tl.float64) + n_rewards.to(tl.float64)
        found = (penalty * tl.sum(of_costs) + tl.sum(total)) / weight
        going = n_above + n_rewards != taken
        taken = n_above + n_rewards
        value = tl.maximum(value, found)
    if place == 0:
        value = tl.minimum(value, 1.0)
    for start in range(0, size, NODES):
        inside = start + tl.arange(0, NODES)
        limit = tl.load(limits + place + inside, mask=inside < size, other=0.0)
        lower = (value < limit) & (inside < size)
        tl.store(limits + place + inside, tl.zeros((NODES,), tl.float64) + value, mask=lower)
        tl.store(tops + place + inside, tl.zeros((NODES,), tl.int64) + place, mask=lower)
    if place > 0:
        for start in range(first, last, KEYS):
            at = start + tl.arange(0, KEYS)
            key = tl.load(keys + at, mask=at < last, other=0.0)
            tl.store(keys + at, tl.zeros((KEYS,), tl.float64) + value, mask=key > value)


@jit
def sum_groups(numbers, tops, sizes, sums, NODES: tl.constexpr):
    """Add up the numbers of each group; a group is named by the place at its top."""
    place = tl.program_id(0)
    size = tl.load(sizes + place)
    total = tl.zeros((NODES,), tl.float64)
    for start in range(0, size, NODES):
        inside = start + tl.arange(0, NODES)
        top = tl.load(tops + place + inside, mask=inside < size, other=-1)
        total += tl.where(top == place, tl.load(numbers + place + inside, mask=inside < size, other=0.0), 0.0)
    tl.store(sums + place, tl.sum(total))


@jit
def minima(splits, parent, split, sign, q, winner, n_cells, n_nodes, n_splits, depth, CELLS: tl.constexpr):
    """Fill the rewards q, and for each the node on its way whose split is least; of equal ones the upper."""
    cell = tl.program_id(0).to(tl.int64) * CELLS + tl.arange(0, CELLS)
    row, node = cell // n_nodes, cell % n_nodes
    here, best = node, node
    least = tl.full((CELLS,), float("inf"), q.dtype.element_ty)
    for _ in range(depth):
        going = (here > 0) & (cell < n_cells)
        column = tl.load(split + here, mask=going, other=0)
        side = tl.load(sign + here, mask=going, other=0.0)
        value = side * tl.load(splits + row * n_splits + column, mask=going, other=0.0)
        # NaN is less than nothing, and has to come through.
        lower = going & ((value <= least) | (value != value))
        least = tl.where(lower, value, least)
        best = tl.where(lower, here, best)
        here = tl.load(parent + here, mask=going, other=0)
    tl.store(q + cell, tl.where(node == 0, 1.0, least), mask=cell < n_cells)
    tl.store(winner + cell, best.to(tl.int32), mask=cell < n_cells)


@jit
def pull_on_places(slopes, winner, order, sizes, into, n_rows, ROWS: tl.constexpr, NODES: tl.constexpr):
    """Add up for one place the gradients of the rewards below whose least split is the one that leads to it.

    `slopes`, `winner` and `into` are (places, rows).
    """
    place = tl.program_id(0).to(tl.int64)
    node = tl.load(order + place)
    size = tl.load(sizes + place)
    row = (tl.program_id(1) * ROWS + tl.arange(0, ROWS)).to(tl.int64)
    total = tl.zeros((ROWS,), into.dtype.element_ty)
    for start in range(0, size, NODES):
        inside = start + tl.arange(0, NODES)
        cell = (place + inside)[:, None] * n_rows + row[None, :]
        there = (inside < size)[:, None] & (row < n_rows)[None, :]
        wins = tl.load(winner + cell, mask=there, other=-1) == node
        total += tl.sum(tl.where(wins, tl.load(slopes + cell, mask=there, other=0.0), 0.0), 0)
    tl.store(into + place * n_rows + row, total, mask=row < n_rows)
