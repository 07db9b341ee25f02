"""Differentiable trees as `torch.nn.Module`s."""

from hardwood.nn._hard_trees import HardTrees as HardTrees
from hardwood.nn._latent_frozen import FrozenLatentTree as FrozenLatentTree
from hardwood.nn._latent_model import LatentModel as LatentModel
from hardwood.nn._latent_tree import LatentTree as LatentTree
from hardwood.nn._oblique_trees import ObliqueTrees as ObliqueTrees
