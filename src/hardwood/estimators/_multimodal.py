"""`MultimodalEstimator`: from a frame with images, texts and a table to one trained network, and its trees."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted
from torch import nn

from hardwood._typing import Float, Int, Shaped
from hardwood.data import TableEncoder, split_rows
from hardwood.errors import reject
from hardwood.estimators._device import choose_device, count_threads, threads
from hardwood.estimators._fitted import all_or_nothing
from hardwood.estimators._modal_source import ModalSource, Reader, cells_of, frame_of, table_of
from hardwood.estimators._modalities import Branch, augmentations_of, columns_of, name_of, recognise
from hardwood.estimators._multimodal_forest import lowered
from hardwood.estimators._multimodal_network import new_network, plant
from hardwood.estimators._multimodal_turns import Turns, init_of, warm_up_of
from hardwood.estimators._parameters import check_parameters, is_whole
from hardwood.estimators._rows import Rows, checked, class_weights, draw_seed, new_encoder, that_count
from hardwood.estimators._target import Target
from hardwood.forest import Forest
from hardwood.forest._combine import apply_link
from hardwood.nn import MultimodalTrees
from hardwood.nn._branch import NORMALIZATIONS
from hardwood.nn._multimodal import FUSIONS
from hardwood.train import LazyRows, TrainingResult, TrainingSettings, fit_source

if TYPE_CHECKING:
    from hardwood.estimators._multimodal_explain import MultimodalExplanation
else:
    MultimodalExplanation = Any

_BACKGROUND_ROWS = 256
_WORK_OF_ENCODERS = 10_000_000  # what a step with encoders counts for at least: two threads, and a GPU, pay
# Learning rates of split logits, thresholds, leaf values and leaf weights, in GRANDE's proportions to `tree_rate`.
_PROPORTIONS = {"greedy": (1.0, 1.0, 1.0, 0.5), "random": (1.0, 5.0, 5.0, 0.1)}
_RATE_NAMES = ("split_logits_rate", "thresholds_rate", "leaf_values_rate", "leaf_weights_rate")


class MultimodalEstimator(BaseEstimator):  # type: ignore[misc]
    """What the classifier and the regressor share; the classifier explains the parameters."""

    branches: Any
    fusion: Any
    n_estimators: int
    max_depth: int
    loss: Any
    init: Any
    table_model: Any
    max_iter: int
    batch_size: int | str
    tree_rate: float
    encoder_rate: float
    head_rate: float
    dropout: float
    normalization: Any
    encoder_warmup: int | str
    encoder_every: int
    alternate: int
    early_stopping: bool
    validation_fraction: float
    n_iter_no_change: int
    class_weight: Any = None
    numeric: Any
    categorical_features: Any
    one_hot_max_size: int
    device: Any
    n_jobs: int | None
    random_state: Any
    checkpoint: Any
    resume_from: Any
    callbacks: Any
    verbose: int

    # What `fit` leaves behind.
    network_: MultimodalTrees
    branches_: tuple[Branch, ...]
    table_columns_: tuple[str, ...]
    encoder_: TableEncoder | None
    forest_: Forest | None
    history_: Any
    n_iter_: int
    best_loss_: float | None
    target_: Target
    background_: dict[str, Shaped[np.ndarray, "..."]]

    # ---------------------------------------------------------------- fitting

    def _fit(
        self,
        X: Any,
        y: Shaped[np.ndarray, "..."],
        make_target: Callable[[Shaped[np.ndarray, "..."], Float[np.ndarray, " rows"]], Target],
        sample_weight: Any,
    ) -> None:
        with all_or_nothing(self):
            self._check_parameters()
            frame_of(X)  # says what is wrong with X
            weight = checked(X, y, sample_weight)
            seed = draw_seed(self.random_state)
            X, y, weight, numbers = that_count(X, y, weight)
            frame = frame_of(X)
            target = make_target(y, weight)
            rows = Rows(None, target, class_weights(target, self.class_weight, weight))
            self.branches_, self.table_columns_ = recognise(frame, self.branches)
            self.target_ = target.take(np.arange(0))
            names = [name_of(branch) for branch in self.branches_]
            if len(set(names)) != len(names):
                reject("branches", names, "have one name twice", "name each column in one branch")
            self._learn(frame, rows, numbers, seed)

    def _learn(self, frame: Any, rows: Rows, numbers: Int[np.ndarray, " rows"], seed: int) -> None:
        training, validation = np.arange(len(rows)), None
        if self.early_stopping:
            training, held_out = split_rows(len(rows), self.validation_fraction, seed, rows.labels)
            validation = held_out if len(held_out) else None
        table = self._encode(frame, rows, training, validation, seed)
        source = self._source(frame, table, numbers, seed, True)
        batch = self._batch_size(len(training))
        work = _WORK_OF_ENCODERS if self.branches_ else batch * self.n_estimators * self.max_depth * table.shape[1]
        device = choose_device(self.device, work)
        with threads(count_threads(self.n_jobs, work)), _random_numbers(seed, device):
            network = new_network(self, source, rows, training, seed)
            network = network.to(device)
            for branch in self.branches_:
                if branch.tuning == "frozen" and not augmentations_of(branch):
                    encoder = network.branches[name_of(branch)].eval()
                    source.encode(name_of(branch), encoder, network.rows_at_once)
            network.train()
            settings = self._settings(network, batch, seed, validation is not None)
            result = self._train(network, source, rows, training, validation, settings, device, seed)
            network.cpu().eval()
            self.network_, self.history_ = network, result.history
            self.n_iter_, self.best_loss_ = result.epochs, result.best_loss
            self.forest_ = lowered(network, self.encoder_, self.target_)
            few = training[:: max(1, len(training) // _BACKGROUND_ROWS)][:_BACKGROUND_ROWS]
            self.background_ = self._see(LazyRows(source, torch.from_numpy(few)))
            if self.encoder_ is not None:
                chosen = frame.select(list(self.table_columns_))[few]
                self.background_[" raw"] = self.encoder_.to_raw(chosen.to_native())

    def _train(
        self,
        network: MultimodalTrees,
        source: ModalSource,
        rows: Rows,
        training: Int[np.ndarray, " training"],
        validation: Int[np.ndarray, " validation"] | None,
        settings: TrainingSettings,
        device: torch.device,
        seed: int,
    ) -> TrainingResult:
        weight = torch.from_numpy(rows.weight).float().to(device)
        values = rows.target.tensor(device)
        mine = torch.from_numpy(training)
        held_out = None
        if validation is not None:
            theirs = torch.from_numpy(validation)
            held_out = LazyRows(source, theirs), values[theirs.to(device)], weight[theirs.to(device)]
        lazy = LazyRows(source, mine)

        def start_greedily() -> None:
            x = np.concatenate([part.numpy() for part in self._fused(network, lazy)])
            plant(network, x, Rows(None, rows.target.take(training), rows.weight[training]), seed, self.n_jobs)

        warm_up = warm_up_of(self)
        greedy = network.fusion == "trees" and init_of(self) == "greedy" and warm_up > 0
        turns = Turns(network, warm_up, self.alternate, start_greedily if greedy else None)
        return fit_source(
            network,
            lazy,
            values[mine.to(device)],
            loss=rows.target.loss,
            settings=settings,
            validation=held_out,
            sample_weight=weight[mine.to(device)],
            callbacks=[turns, *(self.callbacks or ())],
            verbose=self.verbose,
            checkpoint=self.checkpoint,
            resume_from=self.resume_from,
        )

    def _encode(
        self,
        frame: Any,
        rows: Rows,
        training: Int[np.ndarray, " training"],
        validation: Int[np.ndarray, " validation"] | None,
        seed: int,
    ) -> Float[np.ndarray, "rows encoded"]:
        """Learn how to encode the table on training rows, and return all rows encoded."""
        self.encoder_ = None
        if not self.table_columns_:
            return np.zeros((len(frame), 0), np.float32)
        of_table = Rows(frame.select(list(self.table_columns_)).to_native(), rows.target, rows.weight)
        self.encoder_ = new_encoder(self, rows.target, seed)
        made = of_table.take(training).encoded(self.encoder_)
        table = np.empty((len(frame), made.shape[1]), np.float32)
        table[training] = made
        if validation is not None:
            table[validation] = self.encoder_.transform(of_table.take(validation).X)
        return table

    def _source(
        self, frame: Any, table: Float[np.ndarray, "rows encoded"], numbers: Int[np.ndarray, " rows"], seed: int,
        check: bool,
    ) -> ModalSource:  # fmt: skip
        readers = {name_of(branch): Reader(branch, seed) for branch in self.branches_}
        cells = {name_of(branch): cells_of(frame, branch) for branch in self.branches_}
        if check:
            for name, reader in readers.items():
                reader.check(cells[name], numbers)
        return ModalSource(table, readers, cells, numbers)

    def _settings(self, network: MultimodalTrees, batch: int, seed: int, validated: bool) -> TrainingSettings:
        proportions = zip(_RATE_NAMES, _PROPORTIONS[init_of(self)], strict=True)
        rates: dict[str, Any] = {name: self.tree_rate * each for name, each in proportions}
        parts = tuple(
            (f"encoders.{place}.encoder", self.encoder_rate if branch.rate is None else branch.rate)
            for place, branch in enumerate(self.branches_)
            if any(parameter.requires_grad for parameter in network.branches[name_of(branch)].encoder.parameters())
        )
        return TrainingSettings(
            max_epochs=self.max_iter,
            batch_size=batch,
            learning_rate=self.head_rate,
            part_rates=parts,
            **rates,
            missing_logits_rate=self.tree_rate,
            betas=(0.9, 0.95),
            tree_dropout=self.dropout if network.n_trees > 1 else 0.0,
            patience=self.n_iter_no_change + warm_up_of(self) if validated else None,
            random_state=seed,
        )

    # ---------------------------------------------------------------- reading

    def _rows_of(self, X: Any) -> LazyRows:
        """Return the rows of a frame, to be loaded."""
        check_is_fitted(self, "network_")
        frame = frame_of(X)
        wanted = [*self.table_columns_, *(column for branch in self.branches_ for column in columns_of(branch))]
        missing = [column for column in wanted if column not in frame.columns]
        if missing:
            reject("X", list(frame.columns), f"lacks the column(s) {missing}", "pass all columns that training had")
        table = np.zeros((len(frame), 0), np.float32)
        if self.encoder_ is not None:
            table = self.encoder_.transform(frame.select(list(self.table_columns_)).to_native())
        return LazyRows(self._source(frame, table, np.arange(len(frame)), 0, True))

    def _outputs(self, X: Any) -> Float[np.ndarray, "rows outputs"]:
        """Return the outputs before the link, in the target's units."""
        rows = self._rows_of(X)
        with self._at_work(), torch.no_grad():
            made = self.network_(rows).double().numpy() if len(rows) else np.zeros((0, self.target_.n_outputs))
        return made * self.target_.scale + self.target_.shift

    def _answers(self, X: Any) -> Float[np.ndarray, "rows outputs"]:
        return np.asarray(apply_link(self.target_.link, self._outputs(X)))

    def embed(self, X: Any) -> dict[str, Float[np.ndarray, "rows width"]]:
        """Return the embeddings of each branch before normalisation; NaN where a cell is missing."""
        seen = self._see(self._rows_of(X))
        return {name_of(branch): seen[name_of(branch)] for branch in self.branches_}

    def forest_rows(self, X: Any) -> Float[np.ndarray, "rows columns"]:
        """Return the rows as `forest_` takes them: the table's raw columns, and the embeddings if it splits on them."""
        rows = self._rows_of(X)
        raw = [] if self.encoder_ is None else [self.encoder_.to_raw(table_of(X, self.table_columns_))]
        if self.fusion == "trees":
            seen = self._see(rows)
            raw += [seen[name_of(branch)].astype(np.float64) for branch in self.branches_]
        return np.concatenate(raw, axis=1) if raw else np.zeros((len(rows), 0))

    def explain(self, X: Any, n_trees: int | None = 3) -> list[MultimodalExplanation]:
        """Explain the prediction of each row: which share came from the table's trees, and from each encoder."""
        from hardwood.estimators._multimodal_explain import explain

        return explain(self, X, n_trees)

    def _see(self, rows: LazyRows) -> dict[str, Shaped[np.ndarray, "..."]]:
        """Return what parts see and say of some rows: embeddings, the encoded table, and summands where there are."""
        found: dict[str, list[np.ndarray]] = {}
        network = self.network_
        with self._at_work(), torch.no_grad():
            for batch in network.loaded(rows):
                made = {name: branch.embed(batch.parts[name]) for name, branch in network.branches.items()}
                made[" table"] = batch.table
                if network.fusion != "trees":
                    made[" summands"] = network.summands(batch)
                for name, tensor in made.items():
                    found.setdefault(name, []).append(tensor.numpy())
        return {name: np.concatenate(each) for name, each in found.items()}

    def _fused(self, network: MultimodalTrees, rows: LazyRows) -> Iterator[torch.Tensor]:
        """Give what the trees see of some rows, part by part."""
        training = network.training
        network.eval()
        try:
            with torch.no_grad():
                for batch in network.loaded(rows):
                    yield network.fused(batch, network.embeddings(batch)).cpu()
        finally:
            network.train(training)

    @contextmanager
    def _at_work(self) -> Iterator[None]:
        self.network_.eval()
        with threads(count_threads(self.n_jobs, _WORK_OF_ENCODERS)):
            yield

    # ---------------------------------------------------------------- files and parameters

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the whole model to one file, without pickle; `load` of the class reads it."""
        from hardwood.estimators._multimodal_file import save

        check_is_fitted(self, "network_")
        save(self, path)

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], encoders: dict[str, nn.Module] | None = None,
        tokenizers: dict[str, Any] | None = None, folder: str | os.PathLike[str] | None = None,
    ) -> Any:  # fmt: skip
        """Read a model that `save` wrote; nothing that the file holds is executed.

        Args:
            path: the file.
            encoders: for each branch whose encoder is not a built-in one, a module of the same kind: its parameters
                are taken from the file.
            tokenizers: for each text branch with a tokenizer, that tokenizer.
            folder: where relative paths of images begin now; as before by default.
        """
        from hardwood.estimators._multimodal_file import load

        return load(cls, path, encoders or {}, tokenizers or {}, folder)

    @abstractmethod
    def _described(self) -> dict[str, Any]:
        """Return the fitted attributes that follow from the target."""

    def _batch_size(self, n_rows: int) -> int:
        """Return the rows of a step; "auto" grows with the table, to a point."""
        if self.batch_size != "auto":
            return int(self.batch_size)
        return int(min(128, max(16, 2 ** int(np.log2(max(1, n_rows / 16))))))

    def _check_parameters(self) -> None:
        given = self.get_params(deep=False)
        check_parameters({**given, "schedule": "constant"})
        for name, allowed in (
            ("fusion", FUSIONS), ("normalization", NORMALIZATIONS), ("init", ("auto", "greedy", "random")),
        ):  # fmt: skip
            if given[name] not in allowed:
                reject(name, given[name], "is not known", "choose one of " + ", ".join(map(repr, allowed)))
        for name, least in (("encoder_warmup", 0), ("alternate", 0), ("encoder_every", 1)):
            if name == "encoder_warmup" and given[name] == "auto":
                continue
            if not is_whole(given[name]) or given[name] < least:
                reject(name, given[name], f"must be an integer of at least {least}", f"pass {name}={least} or more")
        for name in ("tree_rate", "encoder_rate", "head_rate"):
            if not isinstance(given[name], (int, float)) or not 0 <= given[name] < np.inf:
                reject(name, given[name], "must be a finite number of at least 0", f"try {name}=0.001")
        if self.table_model != "trees" and not callable(self.table_model):
            remedy = "pass 'trees', or a function (n_features, n_outputs) -> torch.nn.Module"
            reject("table_model", self.table_model, "is not known", remedy)
        if not isinstance(self.encoder_warmup, str) and self.encoder_warmup >= self.max_iter:
            reject("encoder_warmup", self.encoder_warmup, f"leaves none of the {self.max_iter} epochs of max_iter",
                   "pass a smaller one")  # fmt: skip


@contextmanager
def _random_numbers(seed: int, device: torch.device) -> Iterator[None]:
    """Let torch's own generators, from which layers draw, begin at a seed; afterwards they go on as if nothing was."""
    devices = [torch.cuda.current_device() if device.index is None else device.index] if device.type == "cuda" else []
    with torch.random.fork_rng(devices):
        torch.default_generator.manual_seed(seed)
        if devices:
            torch.cuda.manual_seed(seed)
        yield
