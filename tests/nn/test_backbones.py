"""Other libraries' models become encoders; here stand-ins of the same interface, and transformers where installed."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from hardwood.errors import InvalidArgumentError
from hardwood.nn import BagEncoder, ConvEncoder, EncoderBranch, Part, TransformerEncoder, image_backbone
from hardwood.nn._backbones import embedding_width, last_layers


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


def test_the_last_layer_is_the_last_that_has_a_matrix_and_what_normalises_after_it():
    encoder = ConvEncoder(6, stages=(4,))
    assert last_layers(encoder) == [encoder.last]
    model = Classifier("classifier", nn.Sequential(nn.LayerNorm(6), nn.Flatten(1), nn.Linear(6, 10)))
    without_head = image_backbone(model)
    assert last_layers(without_head) == [model.features.last, model.classifier[0]]
    with pytest.raises(InvalidArgumentError, match="frozen"):
        last_layers(nn.LayerNorm(4))


def moved_by_a_step(encoder: nn.Module, values: object) -> set[str]:
    """Return which parameters of an encoder a step with tuning='last' moves."""
    branch = EncoderBranch(encoder, embedding_width(encoder, values), tuning="last", normalization="none")
    before = {name: parameter.detach().clone() for name, parameter in encoder.named_parameters()}
    trained = [parameter for parameter in branch.parameters() if parameter.requires_grad]
    optimizer = torch.optim.SGD(trained, 0.1)
    present = torch.ones(1, 1, dtype=torch.bool)
    made = branch.embed(Part(values, present))  # type: ignore[arg-type]
    (made * torch.linspace(-1, 1, made.shape[1])).sum().backward()
    optimizer.step()
    assert all(parameter.grad is not None for parameter in trained)
    return {name for name, parameter in encoder.named_parameters() if not parameter.equal(before[name])}


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
    encoder = TransformerEncoder(transformers.BertModel(config))
    assert embedding_width(encoder, tokens) == 8
    # Its pooler comes last, and is not what the embedding is made of.
    last = "model.encoder.layer.0.output."
    moved = moved_by_a_step(encoder, tokens)
    assert f"{last}dense.weight" in moved
    assert all(name.startswith(last) for name in moved)


def test_a_small_timm_model_is_an_encoder():
    timm = pytest.importorskip("timm")
    encoder = image_backbone(timm.create_model("convnext_atto", pretrained=False))
    assert embedding_width(encoder, torch.zeros(2, 3, 32, 32)) == encoder.num_features
    moved = moved_by_a_step(encoder, torch.rand(1, 3, 32, 32))
    assert "stages.3.blocks.1.mlp.fc2.weight" in moved
    assert all(name.startswith(("stages.3.blocks.1.", "head.")) for name in moved)


def test_a_small_torchvision_model_is_an_encoder():
    torchvision = pytest.importorskip("torchvision")
    assert embedding_width(image_backbone(torchvision.models.resnet18()), torch.zeros(2, 3, 32, 32)) == 512
    encoder = image_backbone(torchvision.models.convnext_tiny())
    assert embedding_width(encoder, torch.zeros(2, 3, 32, 32)) == 768
    moved = moved_by_a_step(encoder, torch.rand(1, 3, 32, 32))
    assert "features.7.2.block.5.weight" in moved
    assert all(name.startswith(("features.7.2.block.5", "classifier.0")) for name in moved)
