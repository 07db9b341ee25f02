"""`LatentTreeClustering`: a hierarchy of clusters from a latent tree that regresses some columns from the rest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from hardwood._typing import Float, Int
from hardwood.data import Columns, TableEncoder, split_rows
from hardwood.data._columns import read
from hardwood.errors import reject
from hardwood.estimators._fitted import all_or_nothing
from hardwood.estimators._kinds import constructor, keep_parameters
from hardwood.estimators._latent_training import Cells, Lesson, learn
from hardwood.estimators._parameters import check_parameters, is_whole
from hardwood.estimators._rows import checked, draw_seed
from hardwood.nn import FrozenLatentTree
from hardwood.nn._latent_tree import MOST_DEPTH
from hardwood.ops import dendrogram_purity
from hardwood.train import make_loss


class LatentTreeClustering(ClusterMixin, BaseEstimator):  # type: ignore[misc]
    """Clusters of clusters, found by self-supervision: a tree that helps to predict some columns from the others.

    A latent tree learns to regress `target_features` from the remaining columns, its pruning along with its splits.
    Every node that is left is a cluster of the rows that are sent through it: coarse near the root, fine at the leaves.

    >>> X = np.concatenate([np.random.default_rng(0).normal(at, 0.1, (40, 3)) for at in (-1, 1)])
    >>> model = LatentTreeClustering(max_depth=2, random_state=0).fit(X)
    >>> len(set(model.labels_at(1)))
    2

    Args:
        max_depth: levels of splits, at most 12.
        penalty: lambda of the paper, above 0: more of it prunes more.
        target_features: the columns to regress, by name or position; "auto" takes the `n_targets` columns of which the
            others explain most: those with the largest multiple correlation.
        n_targets: how many columns "auto" takes; always fewer than there are.
        init: "principal" starts each split along the direction in which its rows vary most, at their mean; "random" at
            directions drawn at random, at the median, as the paper nearly does.
        sees_rows: whether the linear predictor reads the other columns beside the tree, which then only has to say what
            is not linear. By default it reads the tree alone.
        split_rate: the learning rate of splits, as a share of `learning_rate`. Splits that move slowly, from principal
            directions, reconstruct better and keep rows of a kind together; 1 treats all parameters alike.
        predictor, split_function, n_hidden, hidden_size, dropout, max_iter, batch_size, learning_rate, optimizer,
            weight_decay, schedule, plateau_patience, plateau_factor, early_stopping, validation_fraction,
            n_iter_no_change, max_seconds, device, n_jobs, random_state, checkpoint, resume_from, callbacks, verbose:
            as in `LatentTreeClassifier`.
        numeric, categorical_features: how columns are encoded, targets among them; categories are one-hot.

    Attributes:
        labels_: the cluster of each row at the finest level, numbered from the left.
        tree_: the trained tree without its pruned nodes, a `nn.FrozenLatentTree`.
        nodes_: the node at which each row ends, breadth-first numbers of the complete tree.
        target_features_: positions of the columns that were regressed.
        active_nodes_: the share of nodes that are not pruned, evaluation by evaluation.
        best_loss_: the lowest mean squared error on held-out rows, of standardised targets.
    """

    labels_: Int[np.ndarray, " rows"]
    nodes_: Int[np.ndarray, " rows"]
    tree_: FrozenLatentTree
    columns_: Columns
    _cells: Cells
    _inputs: Int[np.ndarray, " inputs"]

    @constructor
    def __init__(
        self,
        max_depth: int = 4,
        *,
        penalty: float = 1.0,
        target_features: Any = "auto",
        n_targets: int = 2,
        init: str = "principal",
        sees_rows: bool = False,
        predictor: str = "linear",
        split_function: str = "linear",
        n_hidden: int = 2,
        hidden_size: int = 64,
        dropout: float = 0.0,
        max_iter: int = 200,
        batch_size: int | Literal["auto"] = "auto",
        learning_rate: float = 0.01,
        split_rate: float = 0.03,
        optimizer: str = "qhadam",
        weight_decay: float = 0.0,
        schedule: str = "plateau",
        plateau_patience: int = 10,
        plateau_factor: float = 0.3,
        early_stopping: bool = True,
        validation_fraction: float = 0.2,
        n_iter_no_change: int = 30,
        max_seconds: float | None = None,
        numeric: str = "standard",
        categorical_features: Any = "from_dtype",
        device: Any = "auto",
        n_jobs: int | None = None,
        random_state: Any = None,
        checkpoint: Any = None,
        resume_from: Any = None,
        callbacks: Any = None,
        verbose: int = 0,
    ) -> None:
        keep_parameters(self, locals())

    def fit(self, X: Any, y: Any = None) -> LatentTreeClustering:
        """Learn the hierarchy of a table's rows; `y` is ignored."""
        with all_or_nothing(self):
            parameters = self.get_params(deep=False)
            check_parameters({**parameters, "loss": "squared_error"})
            if self.max_depth > MOST_DEPTH:
                reject("max_depth", self.max_depth, f"must be at most {MOST_DEPTH}", "try max_depth=4")
            if self.init not in ("principal", "random"):
                reject("init", self.init, "is not known", "choose 'principal' or 'random'")
            if np.iscomplexobj(X):
                reject("X", "an array", "Complex data not supported", "pass real numbers")
            weight = checked(X, np.zeros(len(read(X))), None)
            validate_data(self, X, reset=True, skip_check_array=True)
            seed = draw_seed(self.random_state)
            self._learn(X, weight, seed, {**parameters, "routing": "relaxed", "fine_tune": "none"})
        return self

    def _learn(self, X: Any, weight: Float[np.ndarray, " rows"], seed: int, parameters: dict[str, Any]) -> None:
        encoder = TableEncoder(
            numeric=self.numeric, categorical_features=self.categorical_features, one_hot_max_size=2**31, seed=seed
        )
        encoded = encoder.fit_transform(X, sample_weight=weight)
        cells = Cells(encoder, encoded)
        filled = cells.fill(encoded)
        widths = np.array(encoder.cells_per_column)
        if len(widths) < 2:
            problem = "1 feature(s) cannot be regressed from others"
            reject("X", f"a table of {len(widths)} column(s)", problem, "pass a table of at least 2 columns")
        owner = np.concatenate([np.repeat(np.arange(len(widths)), widths), self._owners_of_holes(cells, widths)])
        targets = self._targets(encoder.columns, filled[:, : widths.sum()], owner[: widths.sum()], weight)
        is_target = np.isin(owner, targets)
        wanted = filled[:, : widths.sum()][:, is_target[: widths.sum()]]
        deviation = wanted.std(axis=0)
        wanted = (wanted - wanted.mean(axis=0)) / np.where(deviation > 1e-9, deviation, 1.0)
        inputs = np.flatnonzero(~is_target)
        whole = Lesson(filled[:, inputs], torch.from_numpy(wanted.astype(np.float32)), weight)
        training, held_out = whole, None
        if self.early_stopping:
            some, others = split_rows(len(weight), self.validation_fraction, seed, None)
            if len(others) > 0 and (weight[others] > 0).any() and (weight[some] > 0).any():
                training, held_out = (
                    Lesson(whole.x[rows], whole.target[torch.from_numpy(rows)], weight[rows]) for rows in (some, others)
                )
        learned = learn(
            parameters, make_loss("squared_error"), wanted.shape[1], training, held_out, seed, self.callbacks or ()
        )  # fmt: skip
        self.tree_, self._cells, self._inputs = learned.frozen, cells, inputs
        self.columns_, self.target_features_ = encoder.columns, targets
        self.history_, self.n_iter_ = learned.result.history, learned.result.epochs
        self.best_loss_, self.active_nodes_ = learned.result.best_loss, learned.active
        self.nodes_ = self.tree_.node_numbers[self.tree_.ends(whole.x)]
        self.labels_ = self._numbered(self.nodes_)

    @staticmethod
    def _owners_of_holes(cells: Cells, widths: Int[np.ndarray, " columns"]) -> Int[np.ndarray, " holes"]:
        return np.repeat(np.arange(len(widths)), widths)[cells.with_holes]

    def _targets(
        self,
        columns: Columns,
        encoded: Float[np.ndarray, "rows cells"],
        owner: Int[np.ndarray, " cells"],
        weight: Float[np.ndarray, " rows"],
    ) -> Int[np.ndarray, " targets"]:
        """Return the positions of the columns to regress."""
        given = self.target_features
        remedy = "pass 'auto', or a list of names or positions of some, not all, columns"
        if isinstance(given, str) and given == "auto":
            if not is_whole(self.n_targets) or self.n_targets < 1:
                reject("n_targets", self.n_targets, "must be an integer of at least 1", "pass n_targets=2")
            explained = _multiple_correlations(encoded, weight)
            by_column = np.array([explained[owner == column].mean() for column in range(len(columns))])
            most = min(int(self.n_targets), len(columns) - 1)
            return np.sort(np.argsort(-by_column, kind="stable")[:most])
        if isinstance(given, str) or not isinstance(given, (Sequence, np.ndarray)) or len(given) == 0:
            reject("target_features", given, "names no columns", remedy)
        chosen = []
        for each in given:
            if isinstance(each, str):
                if each not in columns.labels:
                    reject("target_features", each, "is no column of X", remedy)
                chosen.append(columns.labels.index(each))
            elif is_whole(each) and 0 <= each < len(columns):
                chosen.append(int(each))
            else:
                reject("target_features", each, f"is no column of X, which has {len(columns)}", remedy)
        targets = np.unique(chosen)
        if len(targets) == len(columns):
            reject("target_features", given, "leaves no column to regress from", remedy)
        return targets

    # ---------------------------------------------------------------- reading

    def predict(self, X: Any) -> Int[np.ndarray, " rows"]:
        """Return the cluster of each row at the finest level, as in `labels_`; -1 where no row of `fit` was."""
        leaves = self._leaves(X)
        place = {int(node): number for number, node in enumerate(self._in_order(np.unique(self.nodes_)))}
        return np.array([place.get(int(node), -1) for node in leaves], np.int64)

    def labels_at(self, depth: int, X: Any = None) -> Int[np.ndarray, " rows"]:
        """Return the cluster of each row after `depth` splits, of the rows of `fit` or of others.

        Clusters are named by their node, breadth-first in the complete tree: 0 is the root, and node t has the children
        2 t + 1 and 2 t + 2. A row that ended before has the node where it did.
        """
        check_is_fitted(self, "tree_")
        if not is_whole(depth) or depth < 0:
            reject("depth", depth, "must be an integer of at least 0", "pass depth=1 for two clusters")
        nodes = self.nodes_ if X is None else self._leaves(X)
        return _cut(nodes, int(depth))

    def linkage_matrix(self) -> Float[np.ndarray, "merges 4"]:
        """Return the hierarchy of the rows of `fit` as SciPy's linkage matrix, as `scipy.cluster.hierarchy` reads it.

        Rows of the same leaf are joined at height 0, two children of a node at its height above the deepest level.
        """
        check_is_fitted(self, "tree_")
        deepest = int(np.floor(np.log2(self.nodes_.max() + 1)))
        groups: dict[int, list[tuple[int, int]]] = {}  # node -> clusters to join there, with their sizes
        for row, node in enumerate(self.nodes_.tolist()):
            groups.setdefault(node, []).append((row, 1))
        merges: list[tuple[int, int, float, int]] = []

        def join(clusters: list[tuple[int, int]], height: float) -> tuple[int, int]:
            # Pairs of pairs: no path is longer than it has to be.
            while len(clusters) > 1:
                joined = []
                for (one, size), (other, more) in zip(clusters[::2], clusters[1::2], strict=False):
                    merges.append((min(one, other), max(one, other), height, size + more))
                    joined.append((len(self.nodes_) + len(merges) - 1, size + more))
                clusters = joined + clusters[2 * len(joined) :]
            return clusters[0]

        waiting = {node: join(rows, 0.0) for node, rows in sorted(groups.items())}
        for depth in range(deepest - 1, -1, -1):
            for node in range(2**depth - 1, 2 ** (depth + 1) - 1):
                parts = [waiting.pop(each) for each in (node, 2 * node + 1, 2 * node + 2) if each in waiting]
                if parts:
                    waiting[node] = join(parts, float(deepest - depth))
        return np.array(merges, np.float64).reshape(-1, 4)

    def dendrogram_purity(self, y: Any, X: Any = None, *, n_pairs: int | None = None, random_state: int = 0) -> float:
        """Return how pure the least common clusters of rows of the same class are; see `ops.dendrogram_purity`."""
        check_is_fitted(self, "tree_")
        nodes = self.nodes_ if X is None else self._leaves(X)
        numbers = np.arange(int(nodes.max()) + 1)
        parent = np.where(numbers > 0, (numbers - 1) // 2, -1)
        return dendrogram_purity(parent, nodes, y, n_pairs=n_pairs, random_state=random_state)

    def traversals(self, X: Any) -> Float[np.ndarray, "rows nodes"]:
        """Return z: how much of each row passes each node that is left; `tree_.node_numbers` numbers them."""
        x = self._read(X)
        return self.tree_.traversals(x)

    def _leaves(self, X: Any) -> Int[np.ndarray, " rows"]:
        x = self._read(X)
        return self.tree_.node_numbers[self.tree_.ends(x)]

    def _read(self, X: Any) -> Float[np.ndarray, "rows inputs"]:
        check_is_fitted(self, "tree_")
        read(X)
        validate_data(self, X, reset=False, skip_check_array=True)
        return np.ascontiguousarray(self._cells.encode(X)[:, self._inputs])

    def _numbered(self, nodes: Int[np.ndarray, " rows"]) -> Int[np.ndarray, " rows"]:
        order = self._in_order(np.unique(nodes))
        place = np.empty(int(order.max()) + 1, np.int64)
        place[order] = np.arange(len(order))
        return place[nodes]

    @staticmethod
    def _in_order(nodes: Int[np.ndarray, " nodes"]) -> Int[np.ndarray, " nodes"]:
        """Return nodes from left to right."""
        depth = np.floor(np.log2(nodes + 1))
        return nodes[np.argsort((nodes + 1.5) / 2**depth, kind="stable")]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        return tags


def _cut(nodes: Int[np.ndarray, " rows"], depth: int) -> Int[np.ndarray, " rows"]:
    """Return the nodes' ancestors at a depth; a node above it stays."""
    cut = nodes.copy()
    while (deeper := cut >= 2 ** (depth + 1) - 1).any():
        cut = np.where(deeper, (cut - 1) // 2, cut)
    return cut


def _multiple_correlations(
    encoded: Float[np.ndarray, "rows cells"], weight: Float[np.ndarray, " rows"]
) -> Float[np.ndarray, " cells"]:
    """Return for each column which share of its variance a linear function of the others explains; 0 if constant."""
    share = weight / weight.sum()
    centred = encoded - share @ encoded
    deviation = np.sqrt(share @ centred**2)
    moving = deviation > 1e-9
    scaled = centred[:, moving] / deviation[moving]
    correlation = (scaled * share[:, None]).T @ scaled
    # A small ridge, for columns that repeat one another.
    inverse = np.linalg.inv(correlation + 1e-6 * np.eye(len(correlation)))
    explained = np.zeros(encoded.shape[1])
    explained[moving] = 1 - 1 / np.maximum(np.diag(inverse), 1.0)
    return explained
