"""Other libraries' models become encoders; here stand-ins of the same interface, and transformers where installed."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from hardwood.errors import InvalidArgumentError
from hardwood.nn import BagEncoder, ConvEncoder, TransformerEncoder, image_backbone
from hardwood.nn._backbones import embedding_width, last_layer


class Classifier(nn.Module):
    """Has its parts where torchvision's models have theirs."""

    def __init__(self, name: str, head: nn.Module) -> None:
        super().__init__()
        self.features = ConvEncoder(6, stages=(4,))
        self.name = name
        setattr(self, name, head)

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = getattr(self, self.name)(self.features(x))
        return scores


class TimmLike(Classifier):
    """Drops its classifier when it is asked to, as timm's models do."""

    def __init__(self) -> None:
        super().__init__("top", nn.Linear(6, 10))

    def reset_classifier(self, n_classes: int) -> None:
        assert n_classes == 0
        self.top = nn.Identity()


@pytest.mark.parametrize(
    "model",
    [
        Classifier("fc", nn.Linear(6, 10)),  # as in ResNet
        Classifier("classifier", nn.Sequential(nn.LayerNorm(6), nn.Flatten(1), nn.Linear(6, 10))),  # as in ConvNeXt
        Classifier("heads", nn.Sequential(nn.Linear(6, 10))),  # as in vision transformers
        TimmLike(),
        ConvEncoder(6, stages=(4,)),
    ],
    ids=["fc", "classifier", "heads", "reset_classifier", "none"],
)
def test_a_classifier_loses_its_last_linear_layer(model: nn.Module):
    images = torch.zeros(2, 3, 8, 8)
    assert embedding_width(image_backbone(model), images) == 6
    if isinstance(model, Classifier) and model.name == "classifier":
        assert isinstance(model.classifier[0], nn.LayerNorm)


def test_the_last_layer_is_the_last_that_has_parameters():
    encoder = ConvEncoder(6, stages=(4,))
    assert last_layer(encoder) is encoder.last
    with pytest.raises(InvalidArgumentError, match="frozen"):
        last_layer(nn.Flatten())


def test_an_encoder_has_to_give_one_vector_for_each_cell():
    with pytest.raises(InvalidArgumentError, match="embedding"):
        embedding_width(nn.Identity(), torch.zeros(2, 3, 8, 8))
    encoder = BagEncoder(8, 4).train()
    assert embedding_width(encoder, torch.ones(1, 2, dtype=torch.int64)) == 4
    assert encoder.words.training


def test_tokens_beyond_a_text_do_not_count():
    class Hidden(nn.Module):
        def forward(self, input_ids: Tensor, attention_mask: Tensor) -> object:
            class Answer:
                last_hidden_state = input_ids[..., None].float() * torch.ones(3)

            return Answer()

    tokens = {"input_ids": torch.tensor([[2, 4, 9], [6, 0, 0]]), "attention_mask": torch.tensor([[1, 1, 0], [1, 0, 0]])}
    torch.testing.assert_close(TransformerEncoder(Hidden())(tokens), torch.tensor([[3.0] * 3, [6.0] * 3]))
    with pytest.raises(InvalidArgumentError, match="last_hidden_state"):
        TransformerEncoder(nn.Module.__new__(_Plain))(tokens)


class _Plain(nn.Module):
    def __new__(cls) -> _Plain:
        return super().__new__(cls)

    def __call__(self, **tokens: Tensor) -> Tensor:
        return tokens["input_ids"]


def test_a_small_transformer_is_an_encoder():
    transformers = pytest.importorskip("transformers")
    shape = {"vocab_size": 30, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = transformers.BertConfig(**shape, intermediate_size=8, max_position_embeddings=16)
    tokens = {"input_ids": torch.tensor([[2, 4, 9]]), "attention_mask": torch.ones(1, 3, dtype=torch.int64)}
    assert embedding_width(TransformerEncoder(transformers.BertModel(config)), tokens) == 8


def test_a_small_timm_model_is_an_encoder():
    timm = pytest.importorskip("timm")
    model = timm.create_model("resnet10t", pretrained=False)
    assert embedding_width(image_backbone(model), torch.zeros(2, 3, 32, 32)) == model.num_features


def test_a_small_torchvision_model_is_an_encoder():
    torchvision = pytest.importorskip("torchvision")
    assert embedding_width(image_backbone(torchvision.models.resnet18()), torch.zeros(2, 3, 32, 32)) == 512
