"""Figures 6, 7 and 8 on Glass: active nodes while training, and what lambda does to sizes, purity and routes.

Depth 6, lambda in 1, 10 and 100, refractive index and sodium regressed from the rest in batches of 8 (which lambda
stands against), 40 epochs, no early stopping: the curve is to be seen to its end. In all pictures the tree of seed 0.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.latent.clusters import TARGETS
from benchmarks.latent.sets import compute, load

PENALTIES = (1.0, 10.0, 100.0)
# In the order of the classes' numbers.
GLASS = ("build wind float", "build wind non-float", "containers", "headlamps", "tableware", "vehic wind float")
DEPTH, EPOCHS = 6, 40
COLOURS = ("#2f6f4f", "#b5651d", "#3b5b92")


def learn(penalty: float, seed: int, depth: int = DEPTH) -> Any:
    """Return the hierarchy of Glass at one lambda."""
    from hardwood import LatentTreeClustering

    return LatentTreeClustering(
        max_depth=depth, penalty=penalty, target_features=TARGETS["glass"], batch_size=8, learning_rate=0.003,
        split_rate=1.0, max_iter=EPOCHS, early_stopping=False, schedule="constant", random_state=seed, n_jobs=1,
    ).fit(load("glass")[0])  # fmt: skip


def line(name: str, method: str, seed: int) -> dict[str, Any]:
    """Return one line: sizes, purity, and the share of active nodes after each epoch."""
    _, y = load(name)
    model = learn(float(method.partition("=")[2]), seed)
    leaves = np.unique(model.nodes_)
    return {
        "set": name, "method": method, "seed": seed, "purity": round(model.dendrogram_purity(y), 4),
        "nodes": model.tree_.n_nodes, "leaves": len(leaves), "activity": round(float(model.tree_.pruning.sum()), 2),
        "active_by_epoch": " ".join(f"{share:.3f}" for share in model.active_nodes_),
    }  # fmt: skip


def curves(by_penalty: dict[float, np.ndarray]) -> str:
    """Return Figure 7 as SVG: the mean share of active nodes after each epoch, and its range over seeds."""
    wide, high, left, low = 460.0, 240.0, 46.0, 34.0
    longest = max(each.shape[1] for each in by_penalty.values())

    def at(epoch: int, share: float) -> str:
        across = left + (wide - left - 12) * epoch / max(1, longest - 1)
        return f"{across:.1f},{12 + (high - low - 12) * (1 - share):.1f}"

    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide:g} {high:g}" font-family="sans-serif" '
            'font-size="11" role="img" aria-label="Share of active nodes after each epoch">'
        ),
        f'<rect width="{wide:g}" height="{high:g}" fill="#fff"/>',
    ]
    for tenth in range(0, 11, 2):
        share = tenth / 10
        (x, y), end = at(0, share).split(","), at(longest - 1, share).split(",")[0]
        parts.append(f'<path d="M{x},{y}H{end}" stroke="#ddd"/>')
        parts.append(f'<text x="{left - 6:g}" y="{y}" text-anchor="end" dominant-baseline="middle">{share:.0%}</text>')
    for number, (penalty, shares) in enumerate(by_penalty.items()):
        colour, epochs = COLOURS[number], range(shares.shape[1])
        edge = [at(e, shares[:, e].max()) for e in epochs] + [at(e, shares[:, e].min()) for e in reversed(epochs)]
        parts.append(f'<polygon points="{" ".join(edge)}" fill="{colour}" opacity="0.18"/>')
        middle = " ".join(at(epoch, shares[:, epoch].mean()) for epoch in epochs)
        parts.append(f'<polyline points="{middle}" fill="none" stroke="{colour}" stroke-width="1.6"/>')
        x, y = at(longest - 1, float(shares[:, -1].mean())).split(",")
        parts.append(f'<text x="{x}" y="{float(y) - 7:.1f}" fill="{colour}" text-anchor="end">λ = {penalty:g}</text>')
    middle_x = (left + wide) / 2
    parts.append(f'<text x="{middle_x:g}" y="{high - 8:g}" text-anchor="middle">epoch (1 to {longest})</text></svg>')
    return "\n".join(parts) + "\n"


def run(seeds: Sequence[int], workers: int, results: Path) -> None:
    """Measure each lambda and seed, then draw."""
    from hardwood import draw

    path = results / "latent_glass.csv"
    compute(path, [("glass", f"lambda={each:g}", seed) for each in PENALTIES for seed in seeds], line, workers)
    with path.open(newline="", encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    shares = {
        penalty: np.array([
            [float(share) for share in each["active_by_epoch"].split()]
            for each in lines if each["method"] == f"lambda={penalty:g}"
        ])
        for penalty in PENALTIES
    }  # fmt: skip
    (results / "latent_glass_active.svg").write_text(curves(shares), encoding="utf-8")
    frame, y = load("glass")
    for penalty in PENALTIES:
        model = learn(penalty, 0, depth=4)
        z = model.traversals(frame)
        svg = draw.routes(
            model.tree_.node_numbers, z, model.tree_.pruning, max_depth=4, title=f"Glass, depth 4, lambda {penalty:g}"
        )
        (results / f"latent_glass_{penalty:g}.svg").write_text(svg, encoding="utf-8")
    model, names = learn(1.0, 0, depth=5), np.array(GLASS)[y]
    svg = draw.routes(
        model.tree_.node_numbers, model.traversals(frame), model.tree_.pruning, names, max_depth=3,
        title="Glass by class, depth 5, lambda 1",
    )  # fmt: skip
    (results / "latent_glass_classes.svg").write_text(svg, encoding="utf-8")
