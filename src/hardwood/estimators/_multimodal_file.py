"""A whole multimodal model in one file: safetensors with one JSON document, checked by a digest, never pickle."""

from __future__ import annotations

import json
import os
from dataclasses import fields, replace
from typing import Any, NoReturn

import numpy as np
import torch
from torch import nn

from hardwood.data._encoder_state import encoder_from_state, encoder_state
from hardwood.errors import ForestFileError, reject
from hardwood.estimators._modalities import Branch, ImageBranch, TextBranch, name_of
from hardwood.estimators._multimodal_forest import lowered
from hardwood.estimators._target import Target
from hardwood.nn import BagEncoder, ConvEncoder, EncoderBranch, HardTrees, MultimodalTrees
from hardwood.train import CheckpointError, CustomLoss
from hardwood.train._checkpoint import check_path, load_checkpoint, save_checkpoint
from hardwood.train._tensors import part, prefixed

_KIND, _VERSION = "multimodal", 1
_BRANCHES = {"image": ImageBranch, "text": TextBranch}
# Of a branch: what a file cannot hold, and the caller passes again.
_NOT_STORED = ("encoder", "tokenizer")


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted model."""
    check_path("path", path)
    network: MultimodalTrees = model.network_
    if network.table is not None and not isinstance(network.table, HardTrees):
        problem = "was made by a function, which a file cannot hold"
        reject("table_model", model.table_model, problem, "keep its state_dict yourself, or use table_model='trees'")
    tensors = prefixed("network", dict(network.state_dict()))
    described = None
    if model.encoder_ is not None:
        described, arrays = encoder_state(model.encoder_)
        tensors |= prefixed("encoder", {n: torch.from_numpy(np.ascontiguousarray(a)) for n, a in arrays.items()})
    tensors |= prefixed("background", {n: torch.from_numpy(np.ascontiguousarray(a)) for n, a in _background(model)})
    document = {
        "kind": _KIND,
        "version": _VERSION,
        "class": type(model).__name__,
        "parameters": {name: value for name, value in model.get_params(deep=False).items() if _is_plain(value)},
        "branches": [
            _branch(branch, network.branches[name_of(branch)]) for branch in model.branches_
        ],
        "table_columns": list(model.table_columns_),
        "encoder": described,
        "target": _target(model.target_),
        "network": _network(network),
        "n_iter": model.n_iter_,
        "best_loss": model.best_loss_,
    }  # fmt: skip
    save_checkpoint(path, tensors, document)


def load(
    cls: Any, path: str | os.PathLike[str], encoders: dict[str, nn.Module], tokenizers: dict[str, Any], folder: Any
) -> Any:
    """Read a model."""
    try:
        tensors, document = load_checkpoint(path)
    except CheckpointError as error:
        _refuse(path, str(error).partition(": ")[2].partition(";")[0])
    if document.get("kind") != _KIND:
        _refuse(path, "it holds no multimodal model", "use the load function of what it is")
    if document["version"] != _VERSION:
        _refuse(path, f"it has version {document['version']!r}, and this hardwood reads {_VERSION}", "update hardwood")
    if document["class"] != cls.__name__:
        _refuse(path, f"it holds a {document['class']}", f"use {document['class']}.load")
    try:
        return _restored(cls, tensors, document, encoders, tokenizers, folder)
    except (KeyError, TypeError, IndexError, AttributeError, RuntimeError) as error:
        _refuse(path, f"its content does not fit together ({error!r})")


def _restored(
    cls: Any,
    tensors: dict[str, Any],
    document: dict[str, Any],
    encoders: dict[str, nn.Module],
    tokenizers: dict[str, Any],
    folder: Any,
) -> Any:
    branches, modules = [], {}
    for stored in document["branches"]:
        branch, module = _restored_branch(stored, encoders, tokenizers, folder)
        branches.append(branch)
        modules[name_of(branch)] = module
    known = cls().get_params(deep=False)
    model = cls(**{name: value for name, value in document["parameters"].items() if name in known})
    model.branches = branches
    model.branches_, model.table_columns_ = tuple(branches), tuple(document["table_columns"])
    described = document["encoder"]
    arrays = {name: tensor.numpy() for name, tensor in part(tensors, "encoder").items()}
    model.encoder_ = None if described is None else encoder_from_state(described, arrays)
    model.target_ = _restored_target(document["target"])
    shape = document["network"]
    trees = None if shape["trees"] is None else HardTrees(**shape["trees"])
    network = MultimodalTrees(trees, modules, shape["n_table"], shape["n_outputs"], fusion=shape["fusion"])
    network.load_state_dict(part(tensors, "network"))
    model.network_ = network.eval()
    model.forest_ = lowered(network, model.encoder_, model.target_)
    # JSON's names of arrays cannot begin with a space in all readers, so the file's have none.
    model.background_ = {
        name.removeprefix("branch.") if name.startswith("branch.") else f" {name}": tensor.numpy()
        for name, tensor in part(tensors, "background").items()
    }
    model.history_, model.n_iter_, model.best_loss_ = None, document["n_iter"], document["best_loss"]
    model.__dict__.update(model._described())
    return model


def _background(model: Any) -> list[tuple[str, Any]]:
    return [
        (name[1:] if name.startswith(" ") else f"branch.{name}", array) for name, array in model.background_.items()
    ]


def _is_plain(value: Any) -> bool:
    """Tell whether JSON gives a value back as it was."""
    try:
        return bool(json.loads(json.dumps(value)) == value)
    except (TypeError, ValueError):
        return False


def _branch(branch: Branch, module: EncoderBranch) -> dict[str, Any]:
    options = {f.name: getattr(branch, f.name) for f in fields(branch) if f.name not in _NOT_STORED}
    options = {n: list(v) if isinstance(v, tuple) else os.fspath(v) if isinstance(v, os.PathLike) else v
               for n, v in options.items()}  # fmt: skip
    own = module.encoder
    built_in: dict[str, Any] | None = None
    if type(own) is ConvEncoder:
        built_in = {"kind": "conv", "width": own.width, "channels": own.channels, "stages": list(own.stages)}
    elif type(own) is BagEncoder:
        built_in = {"kind": "bag", "n_buckets": own.n_buckets, "width": own.width}
    return {
        "kind": "image" if isinstance(branch, ImageBranch) else "text",
        "options": options,
        "has_tokenizer": getattr(branch, "tokenizer", None) is not None,
        "encoder": built_in,
        "encoder_name": type(own).__name__,
        "encoder_width": module.cell_width if isinstance(module.projection, nn.Identity) else _in(module.projection),
        "width": None if isinstance(module.projection, nn.Identity) else module.cell_width,
        "normalization": "none" if isinstance(module.norm, nn.Identity) else "running",
    }


def _in(projection: nn.Module) -> int:
    assert isinstance(projection, nn.Linear)
    return projection.in_features


def _restored_branch(
    stored: dict[str, Any], encoders: dict[str, nn.Module], tokenizers: dict[str, Any], folder: Any
) -> tuple[Branch, EncoderBranch]:
    # JSON has no tuples.
    options = {n: tuple(v) if isinstance(v, list) else v for n, v in stored["options"].items()}
    if stored["kind"] == "image" and folder is not None:
        options["folder"] = folder
    branch: Branch = _BRANCHES[stored["kind"]](**options)
    name = name_of(branch)
    built_in = stored["encoder"]
    if built_in is None:
        if name not in encoders:
            problem = f"has no module for {name!r}, whose encoder was a {stored['encoder_name']}"
            reject("encoders", sorted(encoders), problem, f"pass encoders={{{name!r}: module}} of the same kind")
        encoder = encoders[name]
        branch = replace(branch, encoder=encoder)
    elif built_in["kind"] == "conv":
        encoder = ConvEncoder(built_in["width"], built_in["channels"], built_in["stages"])
    else:
        encoder = BagEncoder(built_in["n_buckets"], built_in["width"])
    if stored["has_tokenizer"]:
        if name not in tokenizers:
            reject("tokenizers", sorted(tokenizers), f"has none for {name!r}", f"pass tokenizers={{{name!r}: ...}}")
        assert isinstance(branch, TextBranch)
        branch = replace(branch, tokenizer=tokenizers[name])
    pixels = {"pixel_mean": branch.pixel_mean, "pixel_scale": branch.pixel_scale} if isinstance(
        branch, ImageBranch) else {}  # fmt: skip
    n_views = 1 if isinstance(branch.columns, str) else len(branch.columns)
    module = EncoderBranch(
        encoder,
        stored["encoder_width"],
        n_views=n_views,
        views=branch.views,
        width=stored["width"],
        tuning=branch.tuning,
        normalization=stored["normalization"],
        **pixels,
    )
    return branch, module


def _network(network: MultimodalTrees) -> dict[str, Any]:
    trees = network.table
    described = None
    if isinstance(trees, HardTrees):
        described = {
            "n_features": trees.n_features, "n_outputs": trees.n_outputs, "n_trees": trees.n_trees,
            "depth": trees.depth, "combine": trees.combine, "split": trees.split,
        }  # fmt: skip
    return {
        "trees": described, "n_table": network.n_table, "n_outputs": network.n_outputs, "fusion": network.fusion,
    }  # fmt: skip


def _target(target: Target) -> dict[str, Any]:
    classes = target.classes
    stored: dict[str, Any] | None = None
    if classes is not None:
        stored = {"values": classes.tolist(), "type": classes.dtype.str}
        if not _is_plain(stored["values"]):
            reject("classes_", classes, "are of a type that JSON cannot hold", "use texts or numbers as labels")
    return {
        "classes": stored,
        "n_outputs": target.n_outputs,
        "link": target.link,
        "shift": np.asarray(target.shift).tolist(),
        "scale": np.asarray(target.scale).tolist(),
    }


def _restored_target(stored: dict[str, Any]) -> Target:
    classes = stored["classes"]
    labels = None
    if classes is not None:
        kind = classes["type"]
        labels = np.array(classes["values"], object if kind == "|O" else np.dtype(kind))
    shift, scale = (
        np.array(stored[name]) if isinstance(stored[name], list) else stored[name] for name in ("shift", "scale")
    )
    # What is predicted needs the link alone; the loss itself belongs to training.
    loss = CustomLoss(_no_loss, outputs=stored["n_outputs"], output_link=stored["link"])
    return Target(np.zeros(0), loss, stored["n_outputs"], labels, shift=shift, scale=scale)


def _no_loss(prediction: Any, target: Any, weight: Any) -> NoReturn:
    reject("loss", "of a loaded model", "is not stored", "fit anew to train")


def _refuse(path: str | os.PathLike[str], problem: str, remedy: str = "save the model again") -> NoReturn:
    raise ForestFileError(f"{os.fspath(path)!r} cannot be loaded: {problem}; {remedy}") from None
