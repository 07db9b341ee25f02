"""The page of all results: means and deviations over seeds, beside the paper's figures."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

PAPER: dict[str, dict[tuple[str, str], str]] = {
    "error": {
        ("mushroom", "latent"): "0.0005", ("fico_heloc", "latent"): "0.2884", ("tictactoe", "latent"): "0.2669",
        ("mushroom", "cart"): "0.0003", ("fico_heloc", "cart"): "0.3111", ("tictactoe", "cart"): "0.1576",
        ("higgs_subset", "latent"): "0.2201 (of all rows)", ("higgs_subset", "cart"): "0.3430 (of all rows)",
    },
    "purity": {
        ("glass", "latent"): "0.468", ("glass", "latent-paper"): "0.468", ("glass", "hkmeans"): "0.508",
        ("glass", "birch"): "0.429",
        ("covtype_subset", "latent"): "0.459 (of all rows)", ("covtype_subset", "hkmeans"): "0.440 (of all rows)",
        ("covtype_subset", "birch"): "0.440 (of all rows)",
    },
}  # fmt: skip


def table(frame: Any, columns: dict[str, str], paper: dict[tuple[str, str], str] | None = None) -> list[str]:
    """Return a Markdown table: a line for each set and method, a mean and a deviation for each column."""
    last = ["paper"] if paper else []
    head = ["set", "method", *columns.values(), "seeds", *last]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for (name, method), group in frame.groupby(["set", "method"], sort=False):
        cells = [str(name), str(method), *(_cell(group[column]) for column in columns), str(len(group))]
        lines.append("| " + " | ".join([*cells, *([paper.get((name, method), "")] if paper else [])]) + " |")
    return [*lines, ""]


def _cell(values: Any) -> str:
    import pandas as pd

    numbers = pd.to_numeric(values, errors="coerce").dropna()
    if len(numbers) == 0:
        return ""
    mean, spread = numbers.mean(), numbers.std()
    digits = 0 if bool((numbers % 1 == 0).all()) else 1 if abs(mean) >= 2 else 4
    return f"{mean:.{digits}f}" + (f" ± {spread:.{digits}f}" if spread > 0 else "")


TABLES = """## Test error

`python -m benchmarks.latent tables`: the paper's protocol (see the top of `benchmarks/latent/tables.py`), 4 splits,
hyper-parameters by the loss on validation rows.
"""
ROUTING = """## Relaxed and hard routing

The same settings: the test error of relaxed routing, and of hard routing (`routing="hard"`) as it comes out, after
fine-tuning of the predictor, and of the whole tree by straight-through gradients; and the share of training rows to
which relaxed and hard routing give another class.
"""
CLUSTERS = """## Dendrogram purity

`python -m benchmarks.latent clusters`: the protocol is at the top of `benchmarks/latent/clusters.py`. Classes are used
for scoring alone. Our trees have at most 64 leaves; agglomerative clustering, and k-means on Glass, go down to single
rows. The Covertype subset has as many rows of each class, so that chance gives 1/7 there, but about 0.38 on the full
set that the paper's figures are of.
"""
GLASS = """## Lambda on Glass

`python -m benchmarks.latent curve`: depth 6 (127 nodes), batches of 8, 40 epochs.
[Active nodes while training](latent_glass_active.svg) (Figure 7); routes at depth 4 for lambda
[1](latent_glass_1.svg), [10](latent_glass_10.svg) and [100](latent_glass_100.svg) (Figure 6), and by class at
depth 5 (Figure 8: [classes](latent_glass_classes.svg)).
"""
GATES = """## Learned pruning of GradTree and GRANDE

`python -m benchmarks.latent gates`: see the top of `benchmarks/latent/gates.py`. Means over sets and seeds, and on how
many of them gates did better or worse. Gates have five fits to choose from, the others one. GradTree's lines were
measured before it came to compare its tree with the greedy one: of both the trained tree is judged.

What gates save in leaves costs about as many answers as it mends, and five times the training: neither estimator has
them. Pruning after training stays.
"""


def _read(results: Path, name: str) -> Any:
    import pandas as pd

    path = results / f"latent_{name}.csv"
    return pd.read_csv(path) if path.is_file() else None


def _sections(results: Path) -> Iterable[list[str]]:
    order = ["latent", "latent-mlp", "cart", "boosting", "xgboost"]
    frame = _read(results, "tables")
    if frame is not None:
        frame["rank"] = frame["method"].map(order.index)
        frame = frame.sort_values(["set", "rank"], kind="stable")
        columns = {"error": "error", "nodes": "nodes", "trials": "trials"}
        yield [TABLES, *table(frame, columns, PAPER["error"])]
        columns = {
            "error": "relaxed",
            "hard_none": "hard",
            "hard_predictor": "predictor tuned",
            "hard_tree": "tree tuned",
        }
        columns |= {f"apart_{tuned}": f"apart: {tuned}" for tuned in ("none", "predictor", "tree")}
        yield [ROUTING, *table(frame[frame["method"] == "latent"], columns)]
    frame = _read(results, "clusters")
    if frame is not None:
        columns = {"purity": "all rows", "purity_test": "held-out fifth", "nodes": "nodes"}
        yield [CLUSTERS, *table(frame, columns, PAPER["purity"])]
    frame = _read(results, "glass")
    if frame is not None:
        frame["last"] = [float(each.split()[-1]) for each in frame["active_by_epoch"]]
        columns = {"nodes": "nodes left", "last": "share active", "leaves": "leaves reached", "purity": "purity"}
        yield [GLASS, *table(frame, columns)]
    frame = _read(results, "gates")
    if frame is not None:
        yield [GATES, *_gates(frame)]


def _gates(frame: Any) -> list[str]:
    head = ["", "macro F1", "gates", "better/worse", "log-loss", "gates", "better/worse", "leaves", "gates"]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for name in ("gradtree", "grande"):
        if name not in set(frame["method"]):
            continue
        both = [frame[frame["method"] == method] for method in (name, f"{name}+gates")]
        both = [each.set_index(["set", "seed"]).sort_index() for each in both]
        common = both[0].index.intersection(both[1].index)
        without, gated = (each.loc[common] for each in both)
        cells = [name]
        for column, sign in (("f1", 1), ("log_loss", -1)):
            gain = sign * (gated[column] - without[column])
            cells += [f"{without[column].mean():.4f}", f"{gated[column].mean():.4f}"]
            cells.append(f"{(gain > 0).sum()}/{(gain < 0).sum()}")
        cells += [f"{without['leaves'].mean():.0f}", f"{gated['leaves'].mean():.0f}"]
        lines.append("| " + " | ".join(cells) + " |")
    return [*lines, ""]


def run(results: Path) -> None:
    """Write `latent.md`."""
    lines = ["# Latent trees", "", "Made by `python -m benchmarks.latent summary` from the CSV files beside it.",
             "Speed is in [latent_speed.md](latent_speed.md).", ""]  # fmt: skip
    for section in _sections(results):
        lines += section
    text = "\n".join(lines)
    (results / "latent.md").write_text(text, encoding="utf-8")
    print(text)
