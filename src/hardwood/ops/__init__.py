"""The mathematics that must be fast, each with a readable reference."""

from hardwood.ops._contract import MAX_DEPTH as MAX_DEPTH
from hardwood.ops._dendrogram import dendrogram_purity as dendrogram_purity
from hardwood.ops._dendrogram import parents_of_linkage as parents_of_linkage
from hardwood.ops._entmax import entmax15 as entmax15
from hardwood.ops._hard_trees import TreeOutputs as TreeOutputs
from hardwood.ops._hard_trees import hard_trees as hard_trees
from hardwood.ops._oblique import dense_oblique_loss as dense_oblique_loss
from hardwood.ops._oblique import relaxed_oblique_loss as relaxed_oblique_loss
from hardwood.ops._pruning import Traversal as Traversal
from hardwood.ops._pruning import path_minima as path_minima
from hardwood.ops._pruning import prune_tree as prune_tree
from hardwood.ops._reference import dense_hard_trees as dense_hard_trees
from hardwood.ops._split import entmoid as entmoid
from hardwood.ops._split import softsign as softsign
