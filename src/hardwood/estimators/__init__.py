"""The scikit-learn faces of the models: from a table to a `Forest` on its columns."""

from hardwood.estimators._get import GetClassifier as GetClassifier
from hardwood.estimators._get import GetRegressor as GetRegressor
from hardwood.estimators._gradtree import GradTreeClassifier as GradTreeClassifier
from hardwood.estimators._gradtree import GradTreeRegressor as GradTreeRegressor
from hardwood.estimators._grande import GrandeClassifier as GrandeClassifier
from hardwood.estimators._grande import GrandeRegressor as GrandeRegressor
from hardwood.estimators._latent import LatentTreeClassifier as LatentTreeClassifier
from hardwood.estimators._latent import LatentTreeRegressor as LatentTreeRegressor
from hardwood.estimators._latent_clustering import LatentTreeClustering as LatentTreeClustering
from hardwood.estimators._modalities import ImageBranch as ImageBranch
from hardwood.estimators._modalities import TextBranch as TextBranch
from hardwood.estimators._multimodal_explain import MultimodalExplanation as MultimodalExplanation
from hardwood.estimators._multimodal_kinds import MultimodalClassifier as MultimodalClassifier
from hardwood.estimators._multimodal_kinds import MultimodalRegressor as MultimodalRegressor

__all__ = [
    "GetClassifier",
    "GetRegressor",
    "GradTreeClassifier",
    "GradTreeRegressor",
    "GrandeClassifier",
    "GrandeRegressor",
    "ImageBranch",
    "LatentTreeClassifier",
    "LatentTreeClustering",
    "LatentTreeRegressor",
    "MultimodalClassifier",
    "MultimodalExplanation",
    "MultimodalRegressor",
    "TextBranch",
]
