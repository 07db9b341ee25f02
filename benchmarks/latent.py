"""Latent trees: the pruning solver against a generic convex layer, training against an MLP, and the paper's tables.

    python benchmarks/latent.py solver                   # forward and backward beside cvxpylayers, depth 3
    python benchmarks/latent.py growth                   # how the solver's time grows with rows and with depth
    python benchmarks/latent.py epoch                    # a training epoch beside an MLP of as many parameters
    python benchmarks/latent.py tables --sets tictactoe  # test errors beside CART and XGBoost, 4 seeds; goes on
    python benchmarks/latent.py clusters --sets glass    # dendrogram purity beside three usual methods; goes on
    python benchmarks/latent.py curve                    # active nodes while training, and what lambda does, on Glass

The paper's protocol for tables: stratified 60/20/20, categories as numbers, z-scores, linear splits and a linear
predictor, hyper-parameters by the loss on the validation rows (here `--trials` random draws, in the paper 100 of
Optuna); every method is tuned on the same rows, and test rows are looked at once. For clusters they are chosen by the
reconstruction error on held-out rows, never by the classes. Results are appended to benchmarks/results/latent_*.csv; a
line that is there is not computed again.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import math
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from hardwood.nn import LatentModel
from hardwood.ops import dendrogram_purity, parents_of_linkage, prune_tree

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
RESULTS = Path(__file__).resolve().parent / "results"
PAPER_ERRORS = {"mushroom": 0.0005, "fico_heloc": 0.2884, "tictactoe": 0.2669, "higgs_subset": 0.2201}
PAPER_CART = {"mushroom": 0.0003, "fico_heloc": 0.3111, "tictactoe": 0.1576, "higgs_subset": 0.3430}
PAPER_PURITY = {"glass": 0.468, "covtype_subset": 0.459}
TARGETS = {
    "glass": ["RI", "Na"],
    "covtype_subset": ["Horizontal_Distance_To_Hydrology", "Vertical_Distance_To_Hydrology"],
}
SEEDS = (0, 1, 2, 3)
VARIANTS: dict[str, dict[str, Any]] = {
    "latent": {},
    "latent-hard": {"routing": "hard"},
    "latent-z": {"sees_rows": False},
    "latent-mlp": {"predictor": "mlp", "dropout": 0.1},
}


# ---------------------------------------------------------------- speed


def seconds_of(step: Callable[[], object], at_least: float = 0.2, most: int = 200) -> float:
    """Return the median time of a step."""
    step()
    times: list[float] = []
    while sum(times) < at_least and len(times) < most:
        begin = time.perf_counter()
        step()
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def rewards(rows: int, depth: int, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    """Rewards of rows that went through random splits."""
    generator = torch.Generator().manual_seed(rows + depth)
    model = LatentModel(8, 1, depth, generator=generator)
    x = torch.randn(rows, 8, generator=generator)
    model.tree.spread(x)
    return model.tree.rewards(x).detach().to(dtype)


def generic_layer(rows: int, nodes: int, penalty: float) -> Any:
    """Equation 3 as a differentiable convex layer."""
    import cvxpy
    from cvxpylayers.torch import CvxpyLayer

    q, a, z = cvxpy.Parameter((rows, nodes)), cvxpy.Variable(nodes), cvxpy.Variable((rows, nodes))
    above = (np.arange(1, nodes) - 1) // 2
    limits = [a[1:] <= a[above], z <= np.ones((rows, 1)) @ cvxpy.reshape(a, (1, nodes), "C"), z >= 0, a >= 0, a <= 1]
    cost = penalty / 2 * cvxpy.sum_squares(a) + cvxpy.sum_squares(z - q - 0.5) / 2
    return CvxpyLayer(cvxpy.Problem(cvxpy.Minimize(cost), limits), parameters=[q], variables=[z, a])


def solver(sizes: list[int], depth: int = 3, penalty: float = 1.0) -> None:
    """Print the ratio to cvxpylayers for each number of rows."""
    print(f"forward and backward, depth {depth}, lambda {penalty:g}, float64")
    print(f"{'rows':>6}  {'hardwood ms':>12}  {'cvxpylayers ms':>15}  {'ratio':>8}  {'apart':>8}")
    for rows in sizes:
        q = rewards(rows, depth).requires_grad_()
        weights = torch.randn(q.shape, dtype=q.dtype, generator=torch.Generator().manual_seed(0))
        generic = generic_layer(rows, q.shape[1], penalty)

        def ours(q: torch.Tensor = q, weights: torch.Tensor = weights) -> Any:
            z, a = prune_tree(q, penalty)
            return a, torch.autograd.grad((z * weights).sum() + a.sum(), q)

        def theirs(q: torch.Tensor = q, weights: torch.Tensor = weights, generic: Any = generic) -> Any:
            z, a = generic(q)
            return a, torch.autograd.grad((z * weights).sum() + a.sum(), q)

        begin = time.perf_counter()
        apart = float((theirs()[0] - ours()[0]).abs().max().detach())
        first = time.perf_counter() - begin
        slow = first if first > 5 else seconds_of(theirs, 0.5, 5)
        fast = seconds_of(ours)
        print(f"{rows:>6}  {fast * 1e3:>12.4f}  {slow * 1e3:>15.1f}  {slow / fast:>8.0f}  {apart:>8.1e}", flush=True)


def growth() -> None:
    """Print how the time of forward and backward grows with rows, and with depth."""

    def measure(rows: int, depth: int) -> float:
        q = rewards(rows, depth, torch.float32).requires_grad_()

        def step() -> None:
            z, a = prune_tree(q, rows / 100)
            torch.autograd.grad(z.sum() + a.sum(), q)

        return seconds_of(step, 0.1, 20)

    for title, sizes in (
        ("rows, at depth 3", [(rows, 3) for rows in (100, 1_000, 10_000, 100_000)]),
        ("depth, at 512 rows", [(512, depth) for depth in (3, 6, 9, 12)]),
    ):
        print(f"growth with {title}: milliseconds, and nanoseconds for each of n|T| log2(n|T|)")
        for rows, depth in sizes:
            taken, size = measure(rows, depth), rows * (2 ** (depth + 1) - 1)
            print(f"  n={rows:<7} depth={depth:<3} {taken * 1e3:9.3f} ms  {taken * 1e9 / size / math.log2(size):6.3f}")


def epoch(rows: int = 8192, features: int = 28, depth: int = 6, batch: int = 512) -> None:
    """Print a training epoch of a latent tree beside that of an MLP of as many parameters."""
    from hardwood.train import TrainingSettings, fit

    generator = torch.Generator().manual_seed(0)
    x = torch.randn(rows, features, generator=generator)
    y = (x[:, 0] * x[:, 1] > 0).long()
    for predictor in ("linear", "mlp"):
        model = LatentModel(features, 1, depth, predictor=predictor, generator=generator)  # type: ignore[arg-type]
        model.tree.spread(x)
        count = sum(p.numel() for p in model.parameters())
        # Two hidden layers: width^2 + (features + 3) width + 1 = count.
        width = round((-(features + 3) + math.sqrt((features + 3) ** 2 + 4 * (count - 1))) / 2)
        mlp = nn.Sequential(
            nn.Linear(features, width), nn.ELU(), nn.Linear(width, width), nn.ELU(), nn.Linear(width, 1)
        )
        times: dict[str, list[float]] = {"tree": [], "mlp": []}
        for _ in range(5):
            for name, each in (("tree", model), ("mlp", mlp)):
                settings = TrainingSettings(max_epochs=3, batch_size=batch, optimizer="qhadam", learning_rate=1e-3)
                times[name].append(fit(each, x, y, loss="cross_entropy", settings=settings).seconds / 3)
        ours, theirs = (statistics.median(times[name][1:]) for name in ("tree", "mlp"))
        size = sum(p.numel() for p in mlp.parameters())
        print(
            f"{predictor} predictor, depth {depth}, {rows} rows, batch {batch}: {ours * 1e3:.1f} ms "
            f"({count} parameters); MLP {theirs * 1e3:.1f} ms ({size} parameters); ratio {ours / theirs:.2f}",
            flush=True,
        )


# ---------------------------------------------------------------- tables


def load(name: str) -> tuple[Any, np.ndarray]:
    """Read a set: a frame, its categories as ordinal numbers, and class numbers."""
    import pandas as pd

    with (DATA / "INDEX.csv").open(newline="", encoding="utf-8") as file:
        entry = {line["name"]: line for line in csv.DictReader(file)}[name]
    words = [column for column in entry["categorical_columns"].split(";") if column]
    with gzip.open(DATA / f"{name}.csv.gz", "rt") as file:
        frame = pd.read_csv(file, dtype=dict.fromkeys(words, str))
    y = np.unique(frame.pop("target").to_numpy(), return_inverse=True)[1]
    for column in words:
        # A blank is one more category.
        frame[column] = np.unique(frame[column].fillna("").to_numpy(str), return_inverse=True)[1].astype(float)
    return frame, y


def stored(path: Path) -> set[tuple[str, ...]]:
    """Return the keys of the lines that are there: set, method, seed."""
    if not path.is_file():
        return set()
    with path.open(newline="", encoding="utf-8") as file:
        return {(line["set"], line["method"], line["seed"]) for line in csv.DictReader(file)}


def store(path: Path, line: dict[str, Any]) -> None:
    """Append a line."""
    path.parent.mkdir(exist_ok=True)
    new = not path.is_file()
    with path.open("a", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(line))
        if new:
            writer.writeheader()
        writer.writerow(line)
    print(line, flush=True)


def draw_options(rng: np.random.Generator) -> dict[str, Any]:
    """Draw hyper-parameters of a latent tree as the paper does, and a learning rate."""
    return {
        "max_depth": int(rng.integers(2, 7)),
        "penalty": float(10 ** rng.uniform(-3, 3)),
        "learning_rate": float(10 ** rng.uniform(-2.5, -1.5)),
    }


def fit_latent(name: str, x: np.ndarray, y: np.ndarray, seed: int, trials: int, **fixed: Any) -> Any:
    """Return the best of some latent trees by the loss on their held-out rows, which are the same for all."""
    from hardwood import LatentTreeClassifier

    rng = np.random.default_rng([seed, 7])
    best = None
    for _ in range(trials):
        options = {**draw_options(rng), **fixed}
        model = LatentTreeClassifier(
            batch_size=64 if name == "tictactoe" else 512, numeric="standard", categorical_features=None,
            validation_fraction=0.25, max_iter=100, n_iter_no_change=10, plateau_patience=3, random_state=seed,
            **options,
        ).fit(x, y)  # fmt: skip
        if best is None or model.best_loss_ < best.best_loss_:
            best = model
    return best


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


def fit_xgboost(x: np.ndarray, y: np.ndarray, seed: int) -> Any:
    """Return XGBoost at its defaults, stopped early on a quarter of the rows."""
    import xgboost
    from sklearn.model_selection import train_test_split

    train, valid, y_train, y_valid = train_test_split(x, y, test_size=0.25, random_state=seed, stratify=y)
    model = xgboost.XGBClassifier(
        n_estimators=500, learning_rate=0.1, early_stopping_rounds=20, random_state=seed, n_jobs=1
    )  # fmt: skip
    return model.fit(train, y_train, eval_set=[(valid, y_valid)], verbose=False)


def tables(sets: list[str], methods: list[str], trials: int, seeds: tuple[int, ...]) -> None:
    """Measure test errors, set by set, method by method, seed by seed."""
    from sklearn.model_selection import train_test_split

    path = RESULTS / "latent_tables.csv"
    done = stored(path)
    for name in sets:
        frame, y = load(name)
        x = frame.to_numpy(np.float64)
        for seed in seeds:
            rest, test, y_rest, y_test = train_test_split(x, y, test_size=0.2, random_state=seed, stratify=y)
            for method in methods:
                if (name, method, str(seed)) in done:
                    continue
                begin = time.perf_counter()
                latent = method.startswith("latent")
                if latent:
                    model = fit_latent(name, rest, y_rest, seed, trials, **VARIANTS[method])
                else:
                    model = (fit_cart if method == "cart" else fit_xgboost)(rest, y_rest, seed)
                store(path, {
                    "set": name, "method": method, "seed": seed,
                    "error": round(float((model.predict(test) != y_test).mean()), 5),
                    "seconds": round(time.perf_counter() - begin, 1), "trials": trials if latent else "",
                    "depth": model.max_depth if latent else "",
                    "penalty": f"{model.penalty:.3g}" if latent else "",
                    "nodes": model.tree_.n_nodes if latent else "",
                    "gap": round(model.gap_.difference, 4) if latent else "",
                })  # fmt: skip


# ---------------------------------------------------------------- clusters


def fit_clusters(name: str, frame: Any, seed: int, trials: int, **fixed: Any) -> Any:
    """Return the best of some hierarchies by the reconstruction error on held-out rows."""
    from hardwood import LatentTreeClustering

    rng = np.random.default_rng([seed, 11])
    best = None
    for _ in range(trials):
        model = LatentTreeClustering(
            target_features=TARGETS[name], batch_size=8 if name == "glass" else 512, max_iter=100, random_state=seed,
            validation_fraction=0.25, n_iter_no_change=10, plateau_patience=3, **{**draw_options(rng), **fixed},
        ).fit(frame)  # fmt: skip
        if best is None or model.best_loss_ < best.best_loss_:
            best = model
    return best


def hierarchical_kmeans(x: np.ndarray, seed: int, smallest: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Split every cluster in two by k-means until clusters are as small as that; return parents and rows' nodes."""
    from sklearn.cluster import KMeans

    parent, node_of, waiting = [-1], np.zeros(len(x), np.int64), [(0, np.arange(len(x)))]
    while waiting:
        node, rows = waiting.pop(0)
        node_of[rows] = node
        if len(rows) <= smallest or len(np.unique(x[rows], axis=0)) < 2:
            continue
        halves = KMeans(2, n_init=1, random_state=seed).fit(x[rows]).labels_
        for half in (0, 1):
            parent.append(node)
            waiting.append((len(parent) - 1, rows[halves == half]))
    return np.array(parent), node_of


def peer_tree(method: str, x: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the hierarchy of a usual method, on rows in an order drawn by the seed: parents, and each row's node."""
    from scipy.cluster.hierarchy import linkage
    from sklearn.cluster import Birch

    order = np.random.default_rng(seed).permutation(len(x))
    node_of = np.empty(len(x), np.int64)
    if method == "hkmeans":
        parent, node_of[order] = hierarchical_kmeans(x[order], seed, smallest=1 if len(x) < 1000 else 50)
        return parent, node_of
    if method.startswith("agglomerative"):
        node_of[order] = 2 * (len(x) - 1) - np.arange(len(x))
        return parents_of_linkage(linkage(x[order], method.partition("-")[2])), node_of
    # BIRCH's own subclusters, joined by Ward's method as scikit-learn does in its last step.
    birch = Birch(threshold=0.5, n_clusters=None).fit(x[order])
    centres = birch.subcluster_centers_
    node_of[order] = 2 * (len(centres) - 1) - birch.labels_
    return parents_of_linkage(linkage(centres, "ward")), node_of


def clusters(sets: list[str], methods: list[str], trials: int, seeds: tuple[int, ...]) -> None:
    """Measure dendrogram purity, of all rows and of a fifth that latent trees did not learn from."""
    path = RESULTS / "latent_clusters.csv"
    done = stored(path)
    for name in sets:
        frame, y = load(name)
        x = frame.to_numpy(np.float64)
        deviation = x.std(axis=0)
        x = (x - x.mean(axis=0)) / np.where(deviation > 0, deviation, 1)
        for seed in seeds:
            rows = np.random.default_rng([seed, 3]).permutation(len(x))
            test, rest = rows[: len(x) // 5], rows[len(x) // 5 :]
            for method in methods:
                if (name, method, str(seed)) in done:
                    continue
                begin, extra = time.perf_counter(), {"depth": "", "penalty": "", "nodes": "", "loss": ""}
                if method.startswith("latent"):
                    start = "random" if method == "latent-random" else "principal"
                    model = fit_clusters(name, frame.iloc[rest], seed, trials, init=start, learning_rate=0.001)
                    purity = model.dendrogram_purity(y, frame)
                    held_out = model.dendrogram_purity(y[test], frame.iloc[test])
                    extra = {
                        "depth": model.max_depth, "penalty": f"{model.penalty:.3g}", "nodes": model.tree_.n_nodes,
                        "loss": round(model.best_loss_, 4),
                    }  # fmt: skip
                else:
                    # All pairs of distances of more rows take too much memory.
                    most = 5000 if method.startswith("agglomerative") else len(x)
                    pick = rows[:most]
                    parent, node_of = peer_tree(method, x[pick], seed)
                    purity = dendrogram_purity(parent, node_of, y[pick])
                    held_out = dendrogram_purity(parent, node_of[: len(test)], y[pick][: len(test)])
                line = {"set": name, "method": method, "seed": seed, "purity": round(purity, 4)}
                line["purity_test"] = round(held_out, 4)
                store(path, {**line, "seconds": round(time.perf_counter() - begin, 1), **extra})


def curve(depth: int = 6) -> None:
    """Figure 7's curve at lambda 10, and sizes, purity and pictures for lambda in 1, 10 and 100, on Glass."""
    from hardwood import LatentTreeClustering, draw

    frame, y = load("glass")
    path = RESULTS / "latent_glass.csv"
    done = stored(path)
    for penalty in (1.0, 10.0, 100.0):
        for seed in SEEDS:
            if ("glass", f"lambda={penalty:g}", str(seed)) in done:
                continue
            model = LatentTreeClustering(
                max_depth=depth, penalty=penalty, target_features=TARGETS["glass"], batch_size=8, learning_rate=0.003,
                max_iter=40, early_stopping=False, schedule="constant", random_state=seed,
            ).fit(frame)  # fmt: skip
            used = len(np.unique(np.concatenate([model.labels_at(level) for level in range(depth + 1)])))
            shares = model.active_nodes_
            store(path, {
                "set": "glass", "method": f"lambda={penalty:g}", "seed": seed,
                "purity": round(model.dendrogram_purity(y), 4), "nodes": model.tree_.n_nodes, "reached": used,
                "active_by_epoch": " ".join(f"{share:.2f}" for share in shares),
            })  # fmt: skip
            if seed == 0:
                z = model.traversals(frame)
                svg = draw.routes(
                    model.tree_.node_numbers, z, model.tree_.pruning, max_depth=4, title=f"Glass, lambda {penalty:g}"
                )
                (RESULTS / f"latent_glass_{penalty:g}.svg").write_text(svg, encoding="utf-8")


def summary() -> None:
    """Write latent.md: means and deviations over seeds, beside the paper's figures."""
    import pandas as pd

    lines = ["# Latent trees", "", "Made by `python benchmarks/latent.py summary` from the CSV files beside it.", ""]
    for file, value, paper, title in (
        ("latent_tables.csv", "error", PAPER_ERRORS, "Test error (mean, deviation over seeds)"),
        ("latent_clusters.csv", "purity", PAPER_PURITY, "Dendrogram purity of all rows"),
        ("latent_clusters.csv", "purity_test", PAPER_PURITY, "Dendrogram purity of the held-out fifth of the rows"),
        ("latent_glass.csv", "purity", {}, "Glass at depth 6: purity by lambda"),
    ):
        if not (RESULTS / file).is_file():
            continue
        frame = pd.read_csv(RESULTS / file)
        lines += [f"## {title}", "", f"| set | method | {value} | seeds | nodes | paper |", "|---|---|---|---|---|---|"]
        for (name, method), group in frame.groupby(["set", "method"], sort=False):
            nodes = pd.to_numeric(group["nodes"], errors="coerce").mean()
            theirs = paper.get(name, "") if str(method).startswith("latent") else ""
            if method == "cart":
                theirs = PAPER_CART.get(name, "")
            shown = "" if math.isnan(nodes) else f"{nodes:.0f}"
            found = f"{group[value].mean():.4f}"
            if len(group) > 1:
                found += f" ± {group[value].std():.4f}"
            lines.append(f"| {name} | {method} | {found} | {len(group)} | {shown} | {theirs} |")
        lines.append("")
    (RESULTS / "latent.md").write_text("\n".join(lines), encoding="utf-8")
    print("\n".join(lines))


def main() -> None:
    """Run one of the benchmarks."""
    parser = argparse.ArgumentParser(description="Latent trees.")
    parser.add_argument("what", choices=["solver", "growth", "epoch", "tables", "clusters", "curve", "summary"])
    parser.add_argument("--sets", nargs="+", default=None)
    parser.add_argument("--methods", nargs="+", default=None)
    parser.add_argument("--rows", nargs="+", type=int, default=[8, 16, 32, 64, 128, 256, 512])
    parser.add_argument("--trials", type=int, default=6)
    parser.add_argument("--seeds", nargs="+", type=int, default=list(SEEDS))
    given = parser.parse_args()
    if given.what == "solver":
        solver(given.rows)
    elif given.what == "tables":
        sets = given.sets or ["tictactoe", "mushroom", "fico_heloc", "higgs_subset", "covtype_subset"]
        tables(sets, given.methods or ["latent", "cart", "xgboost"], given.trials, tuple(given.seeds))
    elif given.what == "clusters":
        usual = ["latent", "latent-random", "birch", "hkmeans", "agglomerative-average", "agglomerative-ward"]
        clusters(given.sets or ["glass", "covtype_subset"], given.methods or usual, given.trials, tuple(given.seeds))
    else:
        {"growth": growth, "epoch": epoch, "curve": curve, "summary": summary}[given.what]()


if __name__ == "__main__":
    main()
