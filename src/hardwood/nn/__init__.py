"""Differentiable trees as `torch.nn.Module`s."""

from hardwood.nn._hard_trees import HardTrees as HardTrees
from hardwood.nn._soft_tree import SoftTree as SoftTree
