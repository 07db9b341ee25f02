"""Compiled loops of the latent tree's routing on the CPU: minima along paths, the pruning solver, and their gradients.

How `node_values` solves Equation 4 exactly, sorting each node's rewards once
-----------------------------------------------------------------------------
With c = q + 1/2, minus the derivative of node t's own cost at v is  -lambda v + sum_i max(0, c_it - v).  Let f_t(v) be
the same for t together with those of its descendants that are worth their cost at v:

    f_t(v) = -lambda v + sum_i max(0, c_it - v) + sum over children k of max(0, f_k(v)).

It falls, and is zero at one place v_t. A node is worth keeping at level v when v < v_s for itself and every node above
it, so the solution is  a_t = min(1, min of v_s over t and the nodes above it).  The nodes that share a value are the
groups of the paper's Algorithm 1.

As a sum of hinges  w max(0, b - v)  the function is found from above: take hinges from the largest b down for as long
as b lies above the zero of those taken (Proposition 2's smallest k). A hinge that is taken lies above v_t, where a
parent sees max(0, f_t) = 0, so all of them become one hinge at v_t and are never looked at again. Every reward is taken
at most once. Hinges wait in a heap of the nodes' sorted lists, and a parent's heap is its children's, melded.
With the sorting, that is O(n|T| log(n|T|)).
"""

from __future__ import annotations

import numpy as np

from hardwood._numba import exact_kernel, inlined, kernel


@inlined
def _meld(one, other, key, left, right):
    """Join two skew heaps, the largest key on top; -1 is an empty heap."""
    if one < 0:
        return other
    if other < 0:
        return one
    if key[one] < key[other]:
        one, other = other, one
    top, place = one, one
    rest = right[one]
    right[one] = left[one]
    while rest >= 0:
        if key[rest] < key[other]:
            rest, other = other, rest
        left[place] = rest
        place = rest
        rest = right[place]
        right[place] = left[place]
    left[place] = other
    return top


@exact_kernel
def node_values(sorted_rewards, parent, penalty):
    """Return v_t of every node. `sorted_rewards` is (nodes, rows) of q, rising; a parent stands before its children."""
    n_nodes, n_rows = sorted_rewards.shape
    # Lists 0..nodes-1 are the nodes' own rewards, the others the hinges that stand for what lies below a child.
    key = np.zeros(2 * n_nodes)
    size = np.zeros(2 * n_nodes)
    left = np.full(2 * n_nodes, -1)
    right = np.full(2 * n_nodes, -1)
    left_over = np.full(n_nodes, n_rows - 1)
    heap = np.full(n_nodes, -1)
    values = np.zeros(n_nodes)
    for node in range(n_nodes - 1, -1, -1):
        rewards = sorted_rewards[node]
        top = heap[node]
        if n_rows > 0:
            key[node] = np.float64(rewards[n_rows - 1]) + 0.5
            if key[node] > 0:
                top = _meld(top, node, key, left, right)
        total, slope = 0.0, penalty
        # A hinge at b is taken where b > total / slope.
        while top >= 0 and key[top] * slope > total:
            other = _meld(left[top], right[top], key, left, right)
            left[top], right[top] = -1, -1
            if top >= n_nodes:
                total += size[top] * key[top]
                slope += size[top]
                top = other
                continue
            next_best = key[other] if other >= 0 else 0.0
            at, best = left_over[top], key[top]
            while best * slope > total and best >= next_best:
                total += best
                slope += 1.0
                at -= 1
                if at < 0:
                    break
                best = np.float64(sorted_rewards[top, at]) + 0.5
            left_over[top], key[top] = at, best
            top = _meld(other, top, key, left, right) if at >= 0 and best > 0 else other
        value = total / slope
        values[node] = value
        if node > 0 and value > 0:
            hinge = n_nodes + node
            key[hinge], size[hinge] = value, slope
            top = _meld(top, hinge, key, left, right)
            heap[parent[node]] = _meld(heap[parent[node]], top, key, left, right)
    return values


@exact_kernel
def pruning_of(values, parent):
    """Return a, and the group of each node: the number of the node at the group's top."""
    n_nodes = len(values)
    pruning = np.empty(n_nodes)
    group = np.empty(n_nodes, np.int64)
    pruning[0], group[0] = min(1.0, values[0]), 0
    for node in range(1, n_nodes):
        above = parent[node]
        joins = values[node] > pruning[above]
        pruning[node] = pruning[above] if joins else values[node]
        group[node] = group[above] if joins else node
    return pruning, group


@kernel
def traversals(q, pruning, z, support):
    """Fill z = Proj[0, a](q + 1/2), and count for each node the rows with q + 1/2 > a."""
    n_rows, n_nodes = q.shape
    for row in range(n_rows):
        for node in range(n_nodes):
            reward = np.float64(q[row, node]) + 0.5
            above = reward > pruning[node]
            support[node] += above
            z[row, node] = pruning[node] if above else max(0.0, reward)


@kernel
def pull_on_pruning(q, pruning, grad_z, into):
    """Add to each node the gradient of the traversals that are as large as its pruning allows."""
    n_rows, n_nodes = q.shape
    for row in range(n_rows):
        for node in range(n_nodes):
            if np.float64(q[row, node]) + 0.5 > pruning[node]:
                into[node] += grad_z[row, node]


@kernel
def pull_on_rewards(q, pruning, share, grad_z, grad_q):
    """Fill the gradient of q: a group's share for its support, and z's own between 0 and a."""
    n_rows, n_nodes = q.shape
    for row in range(n_rows):
        for node in range(n_nodes):
            reward = np.float64(q[row, node]) + 0.5
            own = grad_z[row, node] if reward > 0 else 0.0
            grad_q[row, node] = share[node] if reward > pruning[node] else own


@exact_kernel
def path_minima(splits, parent, split, sign, q):
    """Fill q: the root's is 1, another node's the least of the signed splits on the way to it."""
    n_rows, n_nodes = q.shape
    for row in range(n_rows):
        q[row, 0] = 1.0
        for node in range(1, n_nodes):
            value = sign[node] * splits[row, split[node]]
            above = parent[node]
            q[row, node] = min(q[row, above], value) if above > 0 else value


@exact_kernel
def pull_on_splits(parent, split, sign, q, grad_q, grad_splits, carried):
    """Fill the gradient of the splits: each node's goes to the split that attains its minimum."""
    n_rows, n_nodes = q.shape
    for row in range(n_rows):
        for node in range(n_nodes):
            carried[node] = grad_q[row, node]
        for node in range(n_nodes - 1, 0, -1):
            above = parent[node]
            if above > 0 and q[row, above] == q[row, node]:
                carried[above] += carried[node]
            else:
                grad_splits[row, split[node]] += sign[node] * carried[node]
