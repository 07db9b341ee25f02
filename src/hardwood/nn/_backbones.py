"""Other libraries' models as encoders: what they are without their last, classifying layer."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from hardwood._typing import Float
from hardwood.errors import reject

# The attributes under which torchvision's and timm's models keep the layer that classifies.
_HEADS = ("fc", "classifier", "heads", "head")
# What transformers models make of their first token; the last hidden states do not pass through it.
_POOLER = "pooler"


def image_backbone(model: nn.Module) -> nn.Module:
    """Turn a torchvision or timm model into an encoder, in place: it then gives features instead of class scores.

    A timm model is asked to drop its classifier (`reset_classifier(0)`); of others the attribute `fc`, `classifier`,
    `heads` or `head` loses its last linear layer. A model without any of these is an encoder already.
    """
    if hasattr(model, "reset_classifier"):
        drop: Any = model.reset_classifier
        drop(0)
        return model
    for name in _HEADS:
        head = getattr(model, name, None)
        if isinstance(head, nn.Linear):
            setattr(model, name, nn.Identity())
            return model
        if isinstance(head, nn.Sequential):
            linear = [place for place, (_, layer) in enumerate(head.named_children()) if isinstance(layer, nn.Linear)]
            if linear:
                # ConvNeXt's classifier also flattens and normalises: that stays.
                setattr(model, name, head[: linear[-1]])
                return model
    return model


class TransformerEncoder(nn.Module):
    """A Hugging Face text model as an encoder: the mean of its last hidden states over a text's own tokens.

    Args:
        model: such as `transformers.AutoModel.from_pretrained(...)`: called on what its tokenizer gives, it answers
            with `last_hidden_state`.
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: dict[str, Tensor]) -> Float[Tensor, "texts embedding"]:
        """Return the embedding of each text."""
        answer: Any = self.model(**tokens)
        hidden = getattr(answer, "last_hidden_state", None)
        if not isinstance(hidden, Tensor):
            problem = "answers without last_hidden_state"
            reject("model", type(self.model).__name__, problem, "pass a transformers model without a task's head")
        counts = tokens["attention_mask"][..., None].to(hidden.dtype)
        return (hidden * counts).sum(1) / counts.sum(1).clamp(min=1)


def last_layers(encoder: nn.Module) -> list[nn.Module]:
    """Return the last module of an encoder that has a matrix of its own, and the normalisations after it."""
    modules = [module for name, module in encoder.named_modules() if _POOLER not in name.split(".")]
    own = [list(module.parameters(recurse=False)) for module in modules]
    mixing = [place for place, found in enumerate(own) if any(parameter.ndim > 1 for parameter in found)]
    if not mixing:
        reject("encoder", type(encoder).__name__, "has no layer with a matrix of parameters", "use tuning='frozen'")
    return [module for place, module in enumerate(modules) if place >= mixing[-1] and own[place]]


def embedding_width(encoder: nn.Module, values: Any) -> int:
    """Return how many numbers an encoder makes of each of some images or texts, by trying it."""
    training = [module for module in encoder.modules() if module.training]
    encoder.eval()
    try:
        with torch.no_grad():
            made = encoder(values)
    finally:
        for module in training:
            module.training = True
    if not isinstance(made, Tensor) or made.ndim != 2 or not made.is_floating_point():
        shown = tuple(made.shape) if isinstance(made, Tensor) else type(made).__name__
        reject("encoder", shown, "is no embedding", "return a float tensor of shape (inputs, numbers)")
    return int(made.shape[1])
