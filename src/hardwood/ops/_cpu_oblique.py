"""Relaxed oblique trees on the CPU: loss and gradient of one row along the paths that matter, and whole epochs of Adam.

A problem is one tree with its own rows: a start of Algorithm 1, or a subtree that is polished. Problems share nothing,
so threads take different ones. A row visits a node only if its path weighs at least `skip`; `hardwood.ops._oblique`
says what that costs. Nothing of size rows x nodes is stored: a problem needs its parameters four times (themselves,
gradient, two moments) and, for the row at hand, what it visits.
"""

from __future__ import annotations

import math

import numpy as np

from hardwood._numba import exact_kernel, inlined, kernel

SIGMOID, SOFTMIN = 0, 1
SQUARED, CROSS_ENTROPY, BINARY_CROSS_ENTROPY = 0, 1, 2

# Beyond this float32's exp underflows.
_FAR = np.float32(80.0)


@inlined
def descend(x, weights, thresholds, scale, relaxation, skip, depth, node, path, share, child, margin):
    """Visit the nodes of one row top-down; return how many inner nodes and how many leaves were visited.

    `node` holds heap numbers of inner nodes, then (from the back) leaves: `path` their weights. `child[i]` are the
    places of the children of the i-th visited inner node, -1 where a child was skipped.
    """
    n_inner = (1 << depth) - 1
    n_features = x.shape[0]
    node[0], path[0] = 0, np.float32(1.0)
    n_visited = 1
    i = 0
    while i < n_visited:
        here = node[i]
        if here < n_inner:
            total = np.float32(0.0)
            for f in range(n_features):
                total += weights[here, f] * x[f]
            m = scale * (thresholds[here] - total)
            margin[i] = m
            small = math.exp(-min(abs(m), _FAR))
            if relaxation == SIGMOID:
                near = np.float32(1.0) / (np.float32(1.0) + small)
                far = small * near
            else:
                near, far = np.float32(1.0), small
            left = near if m > 0 else far
            right = far if m > 0 else near
            share[i] = left
            for side in range(2):
                weight = path[i] * (left if side == 0 else right)
                if weight >= skip:
                    node[n_visited] = 2 * here + 1 + side
                    path[n_visited] = weight
                    child[i, side] = n_visited
                    n_visited += 1
                else:
                    child[i, side] = -1
        i += 1
    return n_visited


@inlined
def row_gradient(
    x, y, row_weight, weights, thresholds, leaf_values, leaf_coef, leaf_scores, leaf_base, scale, relaxation, loss_kind,
    skip, depth, grad_weights, grad_thresholds, grad_values, grad_coef, leaf_mass,
    node, path, share, child, margin, below, mass,
):  # fmt: skip
    """Add the gradient of one row's loss, and return the loss.

    A cross-entropy is `leaf_base[leaf] - y @ leaf_scores[leaf]`, and its gradient for logits `mass * share - sum(y)`:
    here `leaf_mass` and the second term are summed up, and whoever ends the batch puts them together.
    """
    n_inner = (1 << depth) - 1
    n_features, n_outputs = x.shape[0], leaf_values.shape[1]
    linear = leaf_coef.shape[0] > 0
    n_visited = descend(x, weights, thresholds, scale, relaxation, skip, depth, node, path, share, child, margin)

    total_mass = np.float32(0.0)
    loss = np.float32(0.0)
    for i in range(n_visited):
        if node[i] < n_inner:
            continue
        leaf = node[i] - n_inner
        value = np.float32(0.0)
        if loss_kind == SQUARED:
            for o in range(n_outputs):
                answer = leaf_values[leaf, o]
                if linear:
                    for f in range(n_features):
                        answer += leaf_coef[leaf, o, f] * x[f]
                value += (y[o] - answer) * (y[o] - answer)
        else:
            value = leaf_base[leaf]
            for o in range(n_outputs):
                value -= y[o] * leaf_scores[leaf, o]
        mass[i] = path[i]
        below[i] = path[i] * value
        total_mass += mass[i]
        loss += below[i]
    # Softmin weights sum to 1 over what was visited; the sigmoid's do so by themselves over all leaves.
    norm = np.float32(1.0) / total_mass if relaxation == SOFTMIN else np.float32(1.0)
    loss *= norm

    for i in range(n_visited - 1, -1, -1):
        here = node[i]
        if here >= n_inner:
            leaf = here - n_inner
            pull = np.float32(2.0) * norm * path[i] * row_weight
            if loss_kind == SQUARED:
                for o in range(n_outputs):
                    answer = leaf_values[leaf, o]
                    if linear:
                        for f in range(n_features):
                            answer += leaf_coef[leaf, o, f] * x[f]
                    g = pull * (answer - y[o])
                    grad_values[leaf, o] += g
                    if linear:
                        for f in range(n_features):
                            grad_coef[leaf, o, f] += g * x[f]
            else:
                leaf_mass[leaf] += np.float32(0.5) * pull
                for o in range(n_outputs):
                    grad_values[leaf, o] -= np.float32(0.5) * pull * y[o]
            continue
        left, right = child[i, 0], child[i, 1]
        below_left = below[left] if left >= 0 else np.float32(0.0)
        below_right = below[right] if right >= 0 else np.float32(0.0)
        below[i] = below_left + below_right
        if relaxation == SIGMOID:
            g = (np.float32(1.0) - share[i]) * below_left - share[i] * below_right
        else:
            mass_left = mass[left] if left >= 0 else np.float32(0.0)
            mass_right = mass[right] if right >= 0 else np.float32(0.0)
            mass[i] = mass_left + mass_right
            far_right = margin[i] > 0
            g = loss * mass_right - below_right if far_right else below_left - loss * mass_left
            g *= norm
        g *= scale * row_weight
        if g != 0:
            grad_thresholds[here] += g
            for f in range(n_features):
                grad_weights[here, f] -= g * x[f]
    return loss


@inlined
def leaf_tables(leaf_values, loss_kind, leaf_scores, leaf_base):
    """Fill what a cross-entropy needs of each leaf: log-shares of classes, or of independent labels."""
    n_leaves, n_outputs = leaf_values.shape
    for leaf in range(n_leaves):
        if loss_kind == BINARY_CROSS_ENTROPY:
            leaf_base[leaf] = np.float32(0.0)
            for o in range(n_outputs):
                z = leaf_values[leaf, o]
                leaf_scores[leaf, o] = z
                leaf_base[leaf] += max(z, np.float32(0.0)) + math.log1p(math.exp(-abs(z)))
        else:
            top = leaf_values[leaf, 0]
            for o in range(1, n_outputs):
                top = max(top, leaf_values[leaf, o])
            total = np.float32(0.0)
            for o in range(n_outputs):
                total += math.exp(leaf_values[leaf, o] - top)
            log_total = top + math.log(total)
            leaf_base[leaf] = np.float32(0.0)
            for o in range(n_outputs):
                leaf_scores[leaf, o] = leaf_values[leaf, o] - log_total


@inlined
def add_shares(leaf_values, loss_kind, leaf_scores, leaf_mass, grad_values):
    """Finish the gradient of logits."""
    n_leaves, n_outputs = leaf_values.shape
    for leaf in range(n_leaves):
        if leaf_mass[leaf] != 0:
            for o in range(n_outputs):
                if loss_kind == BINARY_CROSS_ENTROPY:
                    part = np.float32(1.0) / (np.float32(1.0) + math.exp(-leaf_values[leaf, o]))
                else:
                    part = math.exp(leaf_scores[leaf, o])
                grad_values[leaf, o] += leaf_mass[leaf] * part
            leaf_mass[leaf] = np.float32(0.0)


@inlined
def adam(values, grad, first, second, rate, correction_1, correction_2, penalty, keep_zeros):
    """Move some parameters by one step of Adam, with L1 in the gradient, and clear the gradient."""
    for k in range(values.shape[0]):
        g = grad[k]
        if keep_zeros and values[k] == 0:
            g = np.float32(0.0)
        if penalty > 0:
            g += penalty * np.float32(np.sign(values[k]))
        grad[k] = np.float32(0.0)
        first[k] = np.float32(0.9) * first[k] + np.float32(0.1) * g
        second[k] = np.float32(0.999) * second[k] + np.float32(0.001) * g * g
        values[k] -= rate * (first[k] * correction_1) / (math.sqrt(second[k] * correction_2) + np.float32(1e-8))


@kernel
def row_losses(
    start, stop, x, y, row_weight, weights, thresholds, leaf_values, leaf_coef, scale, relaxation, loss_kind, skip,
    depth, losses, grad_weights, grad_thresholds, grad_values, grad_coef,
):  # fmt: skip
    """Fill the losses of all rows in trees `start:stop`, and add up gradients of their sum weighted by `row_weight`."""
    n_leaves = 1 << depth
    places = 2 * n_leaves
    leaf_scores = np.zeros((n_leaves, y.shape[1]), np.float32)
    leaf_base, leaf_mass = np.zeros(n_leaves, np.float32), np.zeros(n_leaves, np.float32)
    node, child = np.zeros(places, np.int64), np.zeros((places, 2), np.int64)
    path, share, margin, below, mass = (
        np.zeros(places, np.float32), np.zeros(places, np.float32), np.zeros(places, np.float32),
        np.zeros(places, np.float32), np.zeros(places, np.float32),
    )  # fmt: skip
    for k in range(start, stop):
        if loss_kind != SQUARED:
            leaf_tables(leaf_values[k], loss_kind, leaf_scores, leaf_base)
        for i in range(x.shape[0]):
            losses[i, k] = row_gradient(
                x[i], y[i], row_weight[i, k], weights[k], thresholds[k], leaf_values[k], leaf_coef[k], leaf_scores,
                leaf_base, np.float32(scale), relaxation, loss_kind, np.float32(skip), depth, grad_weights[k],
                grad_thresholds[k], grad_values[k], grad_coef[k], leaf_mass,
                node, path, share, child, margin, below, mass,
            )  # fmt: skip
        if loss_kind != SQUARED:
            add_shares(leaf_values[k], loss_kind, leaf_scores, leaf_mass, grad_values[k])


@inlined
def next_random(state):
    """Step a problem's own xorshift generator."""
    state ^= state << np.uint64(13)
    state ^= state >> np.uint64(7)
    state ^= state << np.uint64(17)
    return state


@kernel
def train_epochs(
    start, stop, x, y, row_weight, rows, row_start, weights, thresholds, leaf_values, leaf_coef,
    first_w, second_w, first_t, second_t, first_v, second_v, first_c, second_c,
    order, random_state, steps, scale, rate, relaxation, loss_kind, skip, penalty, keep_zeros, depth,
    batch_size, epochs, cycle, losses,
):  # fmt: skip
    """Train problems `start:stop` for some epochs, each on its own rows, with its own scale factor and moments.

    The rate falls along a cosine from `rate` to 0 within each `cycle` of a problem's steps. `losses` gets the mean
    relaxed loss of each problem's last epoch. A step takes `batch_size` rows in an order drawn anew in each epoch.
    """
    zero = np.float32(0.0)
    n_inner = (1 << depth) - 1
    n_leaves = n_inner + 1
    n_features, n_outputs = x.shape[1], y.shape[1]
    linear = leaf_coef.shape[1] > 0
    grad_weights = np.zeros((n_inner, n_features), np.float32)
    grad_thresholds = np.zeros(n_inner, np.float32)
    grad_values = np.zeros((n_leaves, n_outputs), np.float32)
    grad_coef = np.zeros((leaf_coef.shape[1], n_outputs, n_features), np.float32)
    leaf_scores = np.zeros((n_leaves, n_outputs), np.float32)
    leaf_base = np.zeros(n_leaves, np.float32)
    leaf_mass = np.zeros(n_leaves, np.float32)
    places = 2 * n_leaves
    node = np.zeros(places, np.int64)
    child = np.zeros((places, 2), np.int64)
    path, share, margin, below, mass = (
        np.zeros(places, np.float32), np.zeros(places, np.float32), np.zeros(places, np.float32),
        np.zeros(places, np.float32), np.zeros(places, np.float32),
    )  # fmt: skip
    for k in range(start, stop):
        first, last = row_start[k], row_start[k + 1]
        n_rows = last - first
        if n_rows == 0:
            continue
        size = min(batch_size, n_rows)
        n_batches = (n_rows + size - 1) // size
        for _ in range(epochs[k]):
            if n_batches > 1:
                for i in range(n_rows - 1, 0, -1):
                    random_state[k] = next_random(random_state[k])
                    j = np.int64((random_state[k] >> np.uint64(11)) % np.uint64(i + 1))
                    order[first + i], order[first + j] = order[first + j], order[first + i]
            total = 0.0
            for batch in range(n_batches):
                if loss_kind != SQUARED:
                    leaf_tables(leaf_values[k], loss_kind, leaf_scores, leaf_base)
                # Batches differ by at most one row.
                begin, end = n_rows * batch // n_batches, n_rows * (batch + 1) // n_batches
                for i in range(begin, end):
                    row = rows[order[first + i]]
                    w = row_weight[row]
                    value = row_gradient(
                        x[row], y[row], w / np.float32(end - begin), weights[k], thresholds[k], leaf_values[k],
                        leaf_coef[k], leaf_scores, leaf_base, scale[k], relaxation, loss_kind, skip, depth,
                        grad_weights, grad_thresholds, grad_values, grad_coef, leaf_mass,
                        node, path, share, child, margin, below, mass,
                    )  # fmt: skip
                    total += w * value
                if loss_kind != SQUARED:
                    add_shares(leaf_values[k], loss_kind, leaf_scores, leaf_mass, grad_values)
                progress = np.float64(steps[k] % cycle[k]) / cycle[k]
                steps[k] += 1
                now = np.float32(0.5 * rate[k] * (1.0 + math.cos(math.pi * progress)))
                c1 = np.float32(1.0 / (1.0 - 0.9 ** steps[k]))
                c2 = np.float32(1.0 / (1.0 - 0.999 ** steps[k]))
                for j in range(n_inner):
                    adam(
                        weights[k, j], grad_weights[j], first_w[k, j], second_w[k, j], now, c1, c2, penalty, keep_zeros
                    )
                adam(thresholds[k], grad_thresholds, first_t[k], second_t[k], now, c1, c2, zero, False)
                for j in range(n_leaves):
                    adam(leaf_values[k, j], grad_values[j], first_v[k, j], second_v[k, j], now, c1, c2, zero, False)
                    if linear:
                        for o in range(n_outputs):
                            own = leaf_coef[k, j, o], grad_coef[j, o], first_c[k, j, o], second_c[k, j, o]
                            adam(own[0], own[1], own[2], own[3], now, c1, c2, zero, False)
            losses[k] = total / n_rows


@exact_kernel
def own_leaves(start, stop, x, rows, row_start, weights, thresholds, depth, leaves):
    """Send the own rows of problems `start:stop` down their trees, as `hard_leaves` does."""
    n_inner = (1 << depth) - 1
    for k in range(start, stop):
        for i in range(row_start[k], row_start[k + 1]):
            here = 0
            while here < n_inner:
                total = 0.0
                for f in range(x.shape[1]):
                    w = np.float64(weights[k, here, f])
                    if w != 0.0:
                        total += w * np.float64(x[rows[i], f])
                here = 2 * here + (1 if total < np.float64(thresholds[k, here]) else 2)
            leaves[i] = here - n_inner


@exact_kernel
def hard_leaves(start, stop, x, weights, thresholds, depth, leaves):
    """Send rows `start:stop` down each tree as a `Forest` does: float64 sums in column order, ties to the right."""
    n_inner = (1 << depth) - 1
    for i in range(start, stop):
        for k in range(weights.shape[0]):
            here = 0
            while here < n_inner:
                total = 0.0
                for f in range(x.shape[1]):
                    w = np.float64(weights[k, here, f])
                    if w != 0.0:
                        total += w * np.float64(x[i, f])
                here = 2 * here + (1 if total < np.float64(thresholds[k, here]) else 2)
            leaves[i, k] = here - n_inner
