"""Time training of an image network whose table goes to trees, against the same network with an MLP there.

python -m benchmarks.multimodal.speed --device cuda --write

A step is that of the training loop: one batch, its gradient, and Adam's step, with a rate for each part. The networks
take turns, a block of steps each; the GPU is waited for at the end of a block, as a training does now and then.
"""

from __future__ import annotations

import argparse
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch
from benchmarks.multimodal.models import mlp

from hardwood.nn import ConvEncoder, EncoderBranch, HardTrees, ModalBatch, MultimodalTrees, Part
from hardwood.train import TrainingSettings, make_loss
from hardwood.train._data import Table, Terms
from hardwood.train._feed import Batch
from hardwood.train._step import Stepper

RESULTS = Path(__file__).resolve().parents[1] / "results"
# Rows of a step, pixels of a side, the encoder's stages: what a frame gets by default, a larger frame with the same
# encoder, and one of the size of a ConvNeXt-T (28 million parameters) at its usual size of image.
SIZES = {
    "built-in, 64 pixels, 64 rows": (64, 64, (16, 32, 64)),
    "built-in, 64 pixels, 128 rows": (128, 64, (16, 32, 64)),
    "built-in, 224 pixels, 128 rows": (128, 224, (16, 32, 64)),
    "large, 224 pixels, 64 rows": (64, 224, (96, 192, 384, 768, 1024)),
}


def stepper(
    trees: bool, sizes: tuple[int, int, tuple[int, ...]], features: int, classes: int, n_trees: int, device: str
) -> Callable[[], None]:
    """Return a function that takes one step."""
    (n_rows, size, stages), draw = sizes, torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (n_rows, 3, size, size), generator=draw, dtype=torch.uint8)
    part = Part(images, torch.ones(n_rows, 1, dtype=torch.bool))
    rows = ModalBatch(torch.randn(n_rows, features, generator=draw), {"image": part}).to(torch.device(device))
    answer = torch.randint(0, classes, (n_rows,), generator=draw).to(device)
    table = (
        HardTrees(features, classes, n_trees, 5, split="softsign", generator=draw) if trees else mlp(features, classes)
    )
    branch = EncoderBranch(ConvEncoder(32, stages=stages), 32)
    network = MultimodalTrees(table, {"image": branch}, features, classes).to(device)
    settings = TrainingSettings(
        learning_rate=0.005, split_logits_rate=0.01, thresholds_rate=0.01, leaf_values_rate=0.01,
        leaf_weights_rate=0.005, missing_logits_rate=0.01, part_rates=(("encoders.0.encoder", 0.002),),
        betas=(0.9, 0.95), tree_dropout=0.2 if trees else 0.0,
    )  # fmt: skip
    loss = make_loss("cross_entropy")
    batch = Batch(Table(rows, loss.prepare(answer, classes, torch.float32), None))
    one, terms = Stepper(network, loss, settings, torch.Generator().manual_seed(1)), Terms(None, None, None)

    def step() -> None:
        one.differentiate(batch, terms, lambda: False)
        one.optimizer.step()

    return step


def block(step: Callable[[], None], n_steps: int, device: str) -> float:
    """Return the seconds of a step."""
    began = time.perf_counter()
    for _ in range(n_steps):
        step()
    if device.startswith("cuda"):
        torch.cuda.synchronize()
    return (time.perf_counter() - began) / n_steps


def profile(step: Callable[[], None], device: str) -> str:
    """Return what takes the processor's time in a step."""
    from torch.profiler import ProfilerActivity, profile

    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if device.startswith("cuda") else [])]
    with profile(activities=activities) as found:
        block(step, 20, device)
    return str(found.key_averages().table(sort_by="self_cpu_time_total", row_limit=40, max_name_column_width=50))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in {"features": 30, "classes": 6, "trees": 128, "steps": 20, "blocks": 9}.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--sizes", nargs="*", default=list(SIZES), choices=list(SIZES))
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--write", action="store_true", help="write the table to results/multimodal_speed.md")
    parser.add_argument("--profile", action="store_true", help="show what takes the time of a step")
    given = parser.parse_args()
    cuda = given.device.startswith("cuda")
    name = torch.cuda.get_device_name(given.device) if cuda else f"{torch.get_num_threads()} thread(s)"
    about = (
        f"Milliseconds of a step, median of {given.blocks} blocks of {given.steps}, on {name}, torch "
        f"{torch.__version__}, Python {platform.python_version()}: {given.trees} trees of depth 5 on {given.features} "
        f"columns, {given.classes} classes."
    )
    text = ["# Speed of training with trees inside a network", "", about, ""]
    text += ["| encoder, images | MLP | GRANDE | GRANDE / MLP | rows a second with GRANDE |", "|---|---|---|---|---|"]
    for title in given.sizes:
        size = (given.features, given.classes, given.trees, given.device)
        steps = {"MLP": stepper(False, SIZES[title], *size), "GRANDE": stepper(True, SIZES[title], *size)}
        times: dict[str, list[float]] = {each: [] for each in steps}
        for number in range(given.blocks + 1):
            for each, step in steps.items():
                seconds = block(step, given.steps, given.device)
                if number > 0:  # the first one compiles
                    times[each].append(seconds)
        one, other = statistics.median(times["MLP"]), statistics.median(times["GRANDE"])
        text.append(
            f"| {title} | {one * 1e3:.2f} | {other * 1e3:.2f} | {other / one:.2f} | {SIZES[title][0] / other:,.0f} |"
        )
        print(text[-1], flush=True)
        if given.profile:
            print(*(f"{each}\n{profile(step, given.device)}" for each, step in steps.items()), sep="\n", flush=True)
    text += ["", f"`python -m benchmarks.multimodal.speed --device {given.device} --write`"]
    print("\n".join(text))
    if given.write:
        (RESULTS / "multimodal_speed.md").write_text("\n".join(text) + "\n")


if __name__ == "__main__":
    main()
