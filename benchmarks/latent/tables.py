"""Test errors in the paper's protocol, beside CART and boosting.

Stratified 60/20/20, categories as ordinal numbers, z-scores, linear splits and a linear predictor ("latent"), or what
the paper takes for larger sets: a predictor with hidden layers, and splits with or without ELU ("latent-mlp").
Hyper-parameters are chosen by the loss on the validation rows: here `--trials` random draws, in the paper 100 of
Optuna. CART and boosting have the same validation rows. The test rows are looked at once, for the model that is chosen.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.latent.sets import compute, load

Options = dict[str, Any]


def draw_options(rng: np.random.Generator, mlp: bool) -> Options:
    """Draw hyper-parameters of a latent tree as the paper does, and a learning rate."""
    drawn = {
        "max_depth": int(rng.integers(2, 7)),
        "penalty": float(10 ** rng.uniform(-3, 3)),
        "learning_rate": float(10 ** rng.uniform(-2.5, -1.5)),
    }
    if mlp:
        drawn |= {
            "predictor": "mlp",
            "n_hidden": int(rng.integers(2, 6)),
            "dropout": float(rng.uniform(0, 0.5)),
            "split_function": str(rng.choice(["linear", "elu"])),
        }
    return drawn


def new_latent(name: str, seed: int, **options: Any) -> Any:
    """Return a latent tree that is not trained yet."""
    from hardwood import LatentTreeClassifier

    return LatentTreeClassifier(
        batch_size=64 if name == "tictactoe" else 512, numeric="standard", categorical_features=None,
        validation_fraction=0.25, max_iter=100, n_iter_no_change=10, plateau_patience=3, random_state=seed, n_jobs=1,
        **options,
    )  # fmt: skip


def choose_latent(name: str, x: np.ndarray, y: np.ndarray, seed: int, trials: int, mlp: bool) -> tuple[Any, Options]:
    """Return the best of some latent trees by the loss on their held-out rows, the same for all, and its options."""
    rng = np.random.default_rng([seed, 7])
    best, chosen = None, {}
    for _ in range(trials):
        options = draw_options(rng, mlp)
        model = new_latent(name, seed, **options).fit(x, y)
        if best is None or model.best_loss_ < best.best_loss_:
            best, chosen = model, options
    return best, chosen


def fit_cart(x: np.ndarray, y: np.ndarray, seed: int) -> Any:
    """Return the tree with the lowest error on a quarter of the rows, over depths and pruning strengths."""
    from sklearn.model_selection import train_test_split
    from sklearn.tree import DecisionTreeClassifier

    train, valid, y_train, y_valid = train_test_split(x, y, test_size=0.25, random_state=seed, stratify=y)
    best, least = None, math.inf
    for depth in (2, 3, 4, 5, 6, 8, 10, 12, 16, 20):
        for alpha in (0.0, 1e-4, 1e-3, 1e-2):
            tree = DecisionTreeClassifier(max_depth=depth, ccp_alpha=alpha, random_state=seed).fit(train, y_train)
            error = 1 - tree.score(valid, y_valid)
            if error < least:
                best, least = tree, error
    return best


def fit_boosting(x: np.ndarray, y: np.ndarray, seed: int) -> Any:
    """Return scikit-learn's histogram boosting at its defaults, stopped early on a quarter of the rows."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    return HistGradientBoostingClassifier(
        max_iter=500, early_stopping=True, validation_fraction=0.25, n_iter_no_change=20, random_state=seed
    ).fit(x, y)


def fit_xgboost(x: np.ndarray, y: np.ndarray, seed: int) -> Any:
    """Return XGBoost at its defaults, stopped early on a quarter of the rows."""
    import xgboost
    from sklearn.model_selection import train_test_split

    train, valid, y_train, y_valid = train_test_split(x, y, test_size=0.25, random_state=seed, stratify=y)
    model = xgboost.XGBClassifier(
        n_estimators=500, learning_rate=0.1, early_stopping_rounds=20, random_state=seed, n_jobs=1
    )  # fmt: skip
    return model.fit(train, y_train, eval_set=[(valid, y_valid)], verbose=False)


PEERS = {"cart": fit_cart, "boosting": fit_boosting, "xgboost": fit_xgboost}


def line(name: str, method: str, seed: int, trials: int) -> dict[str, Any]:
    """Return one line of the table; for latent trees with the errors of hard routing too."""
    from sklearn.model_selection import train_test_split

    frame, y = load(name)
    x = frame.to_numpy(np.float64)
    rest, test, y_rest, y_test = train_test_split(x, y, test_size=0.2, random_state=seed, stratify=y)
    begin = time.perf_counter()
    found: dict[str, Any] = {"set": name, "method": method, "seed": seed}
    columns = ["error", "seconds", "trials", "depth", "penalty", "rate", "nodes"]
    of_hard = [f"{what}_{tuned}" for what in ("hard", "apart") for tuned in ("none", "predictor", "tree")]
    found |= dict.fromkeys([*columns, *of_hard], "")

    def error_of(model: Any) -> float:
        return round(float((model.predict(test) != y_test).mean()), 5)

    if method in PEERS:
        found["error"] = error_of(PEERS[method](rest, y_rest, seed))
    else:
        mlp = method == "latent-mlp"
        model, options = choose_latent(name, rest, y_rest, seed, trials, mlp)
        found |= {
            "error": error_of(model), "trials": trials, "depth": model.max_depth, "penalty": f"{model.penalty:.3g}",
            "rate": f"{model.learning_rate:.3g}", "nodes": model.tree_.n_nodes,
        }  # fmt: skip
        if not mlp:
            for tuned in ("none", "predictor", "tree"):
                hard = new_latent(name, seed, routing="hard", fine_tune=tuned, **options).fit(rest, y_rest)
                found |= {f"hard_{tuned}": error_of(hard), f"apart_{tuned}": round(hard.gap_.difference, 4)}
    found["seconds"] = round(time.perf_counter() - begin, 1)
    return found


def run(
    sets: Sequence[str], methods: Sequence[str], trials: int, seeds: Sequence[int], workers: int, results: Path
) -> None:  # fmt: skip
    """Measure test errors, set by set, seed by seed, method by method."""
    keys = [(name, method, seed) for name in sets for seed in seeds for method in methods]
    compute(results / "latent_tables.csv", keys, line, workers, trials)
