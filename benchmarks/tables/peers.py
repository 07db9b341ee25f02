"""The peers: scikit-learn's trees and three boosting libraries, each at its own defaults but for seed and threads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from benchmarks.tables.encoders import Categories, Encoder, Numbers, Words, category_columns
from benchmarks.tables.methods import Method, Model, Setting, Size
from benchmarks.tables.sets import Task


@dataclass
class Peer:
    """A peer behind its encoder. `settle` may tell the estimator what only the encoded table shows."""

    estimator: Any
    encoder: Encoder
    size_of: Callable[[Any], Size]
    settle: Callable[[Any, Any], None] | None = None

    def fit(self, X: Any, y: np.ndarray) -> Peer:
        encoded = self.encoder.fit_transform(X, y)
        if self.settle is not None:
            self.settle(self.estimator, X)
        self.estimator.fit(encoded, y)
        return self

    def predict(self, X: Any) -> np.ndarray:
        # CatBoost gives a column for several classes.
        return np.asarray(self.estimator.predict(self.encoder.transform(X))).reshape(len(X))

    def predict_proba(self, X: Any) -> np.ndarray:
        return np.asarray(self.estimator.predict_proba(self.encoder.transform(X)))

    def size(self) -> Size:
        return self.size_of(self.estimator)


def _one_tree(limited: bool, **options: Any) -> Callable[[Setting], Model]:
    def make(setting: Setting) -> Model:
        from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

        kind = DecisionTreeRegressor if setting.task == "regression" else DecisionTreeClassifier
        depth = setting.depth if limited else None
        tree = kind(max_depth=depth, random_state=setting.seed, **options)
        return Peer(tree, Numbers(setting.task, setting.seed), _tree_size)

    return make


def _validated_tree(setting: Setting) -> Model:
    """Make a greedy tree whose depth, from 1 to 12, is chosen on a third of the training rows, as in GET's paper."""
    from sklearn.model_selection import GridSearchCV, ShuffleSplit
    from sklearn.tree import DecisionTreeRegressor

    once = ShuffleSplit(1, test_size=1 / 3, random_state=setting.seed)
    tree = DecisionTreeRegressor(random_state=setting.seed)
    search = GridSearchCV(tree, {"max_depth": list(range(1, 13))}, cv=once, scoring="r2")
    return Peer(search, Numbers(setting.task, setting.seed), lambda fitted: _tree_size(fitted.best_estimator_))


def _random_forest(setting: Setting) -> Model:
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

    kind = RandomForestRegressor if setting.task == "regression" else RandomForestClassifier
    forest = kind(random_state=setting.seed, n_jobs=setting.threads)
    return Peer(forest, Numbers(setting.task, setting.seed), _forest_size)


def _histogram_boosting(setting: Setting) -> Model:
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    regression = setting.task == "regression"
    kind = HistGradientBoostingRegressor if regression else HistGradientBoostingClassifier
    # It takes as many categories as bins.
    return Peer(kind(random_state=setting.seed), Categories(setting.task, setting.seed, most=255), _histogram_size)


def _xgboost(setting: Setting) -> Model:
    import xgboost

    kind = xgboost.XGBRegressor if setting.task == "regression" else xgboost.XGBClassifier
    model = kind(random_state=setting.seed, n_jobs=setting.threads, enable_categorical=True)
    return Peer(model, Categories(setting.task, setting.seed), _xgboost_size)


def _lightgbm(setting: Setting) -> Model:
    import lightgbm

    kind = lightgbm.LGBMRegressor if setting.task == "regression" else lightgbm.LGBMClassifier
    model = kind(random_state=setting.seed, n_jobs=setting.threads, verbosity=-1)
    return Peer(model, Categories(setting.task, setting.seed), _lightgbm_size)


def _catboost(setting: Setting) -> Model:
    import catboost

    kind = catboost.CatBoostRegressor if setting.task == "regression" else catboost.CatBoostClassifier
    quiet = {"verbose": False, "allow_writing_files": False}
    model = kind(random_seed=setting.seed, thread_count=setting.threads, **quiet)

    def settle(estimator: Any, X: Any) -> None:
        estimator.set_params(cat_features=category_columns(X))

    return Peer(model, Words(), _catboost_size, settle)


def _tree_size(tree: Any) -> Size:
    return Size(int(tree.get_n_leaves()), int(tree.get_depth()))


def _forest_size(forest: Any) -> Size:
    sizes = [_tree_size(tree) for tree in forest.estimators_]
    return Size(sum(size.leaves for size in sizes), max(size.depth for size in sizes))


def _histogram_size(model: Any) -> Size:
    trees = [tree for turn in model._predictors for tree in turn]
    return Size(sum(tree.get_n_leaf_nodes() for tree in trees), max(tree.get_max_depth() for tree in trees))


def _xgboost_size(model: Any) -> Size:
    # The text dump has a line per node, indented by its depth.
    lines = [line for tree in model.get_booster().get_dump() for line in tree.splitlines()]
    depth = max(len(line) - len(line.lstrip("\t")) for line in lines)
    return Size(sum("leaf=" in line for line in lines), depth)


def _lightgbm_size(model: Any) -> Size:
    def depth(node: dict[str, Any]) -> int:
        children = [node[side] for side in ("left_child", "right_child") if side in node]
        return 1 + max(map(depth, children)) if children else 0

    trees = model.booster_.dump_model()["tree_info"]
    return Size(sum(tree["num_leaves"] for tree in trees), max(depth(tree["tree_structure"]) for tree in trees))


def _catboost_size(model: Any) -> Size:
    # Its trees have the same split at all nodes of a level.
    leaves = model.get_tree_leaf_counts()
    return Size(int(leaves.sum()), int(np.log2(leaves.max())))


_SKLEARN = ("sklearn",)
_CLASSES: tuple[Task, ...] = ("binary", "multiclass")

METHODS = (
    Method("cart", _one_tree(limited=True), _SKLEARN, uses_depth=True, paper_name="CART"),
    Method("cart-unlimited", _one_tree(limited=False), _SKLEARN, paper_name="CART"),
    Method(
        "cart-balanced", _one_tree(limited=True, class_weight="balanced"), _SKLEARN, _CLASSES, uses_depth=True,
        paper_name="CART",
    ),
    Method("cart-validated", _validated_tree, _SKLEARN, ("regression",), paper_name="CART"),
    Method("random_forest", _random_forest, _SKLEARN, paper_name="RandomForest"),
    Method("hist_gradient_boosting", _histogram_boosting, _SKLEARN),
    Method("xgboost", _xgboost, ("xgboost",), paper_name="XGB"),
    Method("catboost", _catboost, ("catboost",), paper_name="CatBoost"),
    Method("lightgbm", _lightgbm, ("lightgbm",)),
)  # fmt: skip
