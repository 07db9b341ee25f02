"""Differentiable trees as `torch.nn.Module`s."""

from hardwood.nn._backbones import TransformerEncoder as TransformerEncoder
from hardwood.nn._backbones import image_backbone as image_backbone
from hardwood.nn._branch import EncoderBranch as EncoderBranch
from hardwood.nn._branch import Part as Part
from hardwood.nn._hard_trees import HardTrees as HardTrees
from hardwood.nn._latent_frozen import FrozenLatentTree as FrozenLatentTree
from hardwood.nn._latent_model import LatentModel as LatentModel
from hardwood.nn._latent_tree import LatentTree as LatentTree
from hardwood.nn._multimodal import ModalBatch as ModalBatch
from hardwood.nn._multimodal import MultimodalTrees as MultimodalTrees
from hardwood.nn._oblique_trees import ObliqueTrees as ObliqueTrees
from hardwood.nn._running_norm import RunningNorm as RunningNorm
from hardwood.nn._small_encoders import BagEncoder as BagEncoder
from hardwood.nn._small_encoders import ConvEncoder as ConvEncoder
from hardwood.nn._soft_tree import SoftTree as SoftTree
