"""Time a step of training of an image network whose table goes to trees, against the same network with an MLP there.

python -m benchmarks.multimodal.speed --device cpu
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import torch
from benchmarks.multimodal.models import mlp
from torch import nn

from hardwood.nn import ConvEncoder, EncoderBranch, HardTrees, ModalBatch, MultimodalTrees, Part


def stepper(table: nn.Module, rows: ModalBatch, answer: torch.Tensor, n_classes: int) -> Callable[[], None]:
    """Return a function that takes one step."""
    branch = EncoderBranch(ConvEncoder(32), 32)
    network = MultimodalTrees(table, {"image": branch}, rows.table.shape[1], n_classes).to(answer.device)
    optimizer = torch.optim.Adam(network.parameters(), 1e-3)

    def step() -> None:
        loss = nn.functional.cross_entropy(network(rows), answer)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if answer.device.type == "cuda":
            torch.cuda.synchronize()

    return step


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in {"rows": 64, "size": 32, "features": 30, "classes": 6, "trees": 128, "steps": 20}.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    given = parser.parse_args()
    draw = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (given.rows, 3, given.size, given.size), generator=draw, dtype=torch.uint8)
    part = Part(images, torch.ones(given.rows, 1, dtype=torch.bool))
    rows = ModalBatch(torch.randn(given.rows, given.features, generator=draw), {"image": part}).to(
        torch.device(given.device)
    )
    answer = torch.randint(0, given.classes, (given.rows,), generator=draw).to(given.device)
    trees = HardTrees(given.features, given.classes, given.trees, 5, split="softsign", generator=draw)
    steps = {
        "MLP": stepper(mlp(given.features, given.classes), rows, answer, given.classes),
        "GRANDE": stepper(trees, rows, answer, given.classes),
    }
    times: dict[str, list[float]] = {name: [] for name in steps}
    for number in range(given.steps + 3):
        for name, step in steps.items():
            began = time.perf_counter()
            step()
            if number >= 3:  # the first ones compile
                times[name].append(time.perf_counter() - began)
    middle = {name: statistics.median(each) for name, each in times.items()}
    for name, seconds in middle.items():
        print(f"{name:8}{seconds * 1e3:9.2f} ms a step of {given.rows} rows, {given.size} x {given.size} pixels")
    print(f"GRANDE takes {middle['GRANDE'] / middle['MLP']:.2f} times as long ({given.device})")


if __name__ == "__main__":
    main()
