"""Hard routing, forward and backward, against the papers' dense formula in the same run.

    python benchmarks/routing.py            # the sizes in the README, memory, how time grows; CPU, and CUDA if there
    python benchmarks/routing.py --quick    # a few small sizes, under a minute

One step is what a training step needs: the output of the weighted ensemble (entmax-1.5, sigmoid, softmax over leaf
weights, one output) and the gradient of its sum for all parameters. The opponent is `hardwood.ops.dense_hard_trees`,
which evaluates every leaf of every tree for every row as the published implementations do; on CUDA also under
`torch.compile`. Steps of the two take turns, and the ratio is that of the medians: these machines are noisy.

What has to happen at least, for R rows, T trees, depth d, F features: read and write the parameters and two gradients
of T x 2^d x F numbers, R x T x (2 d + d^2 / 2) cell look-ups, and R x T x d x F multiply-adds for the split logits.
"""

from __future__ import annotations

import argparse
import math
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch

from hardwood.ops import dense_hard_trees, hard_trees


class Size(NamedTuple):
    """One size of the problem."""

    rows: int
    trees: int
    features: int
    depth: int


SIZES = {
    "cpu": [Size(256, 1024, 30, 5), Size(256, 64, 20, 8), Size(256, 256, 1000, 5)],
    "cuda": [Size(256, 1024, 30, 5), Size(256, 1024, 30, 8), Size(4096, 512, 30, 6)],
}
QUICK = {"cpu": [Size(256, 256, 20, 5), Size(256, 16, 20, 8)], "cuda": [Size(256, 1024, 30, 5)]}
# One size is varied at a time around this one.
MIDDLE = Size(256, 128, 32, 5)
VARIED = {"rows": (64, 256, 1024, 4096), "trees": (32, 128, 512), "features": (8, 32, 128, 512), "depth": (3, 5, 7, 9)}


def make_parameters(size: Size, device: str) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """Draw rows and parameters as at the start of training: logits near each other, so that entmax drops few."""
    generator = torch.Generator().manual_seed(0)
    nodes = 2**size.depth - 1

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator).to(device)

    parameters = {
        "split_logits": normal(size.trees, nodes, size.features) * 0.05,
        "thresholds": normal(size.trees, nodes, size.features),
        "leaf_values": normal(size.trees, nodes + 1, 1),
        "leaf_weights": normal(size.trees, nodes + 1) * 0.05,
    }
    return normal(size.rows, size.features), {name: p.requires_grad_() for name, p in parameters.items()}


def make_step(size: Size, device: str, backend: str, compiled: bool = False) -> Callable[[], None]:
    """Return a function that runs one forward and backward pass."""
    x, parameters = make_parameters(size, device)

    def loss() -> torch.Tensor:
        if backend == "reference":
            return dense_hard_trees(x, **parameters, all_finite=True).output.sum()
        return hard_trees(x, **parameters).output.sum()

    evaluate = torch.compile(loss) if compiled else loss

    def step() -> None:
        for parameter in parameters.values():
            parameter.grad = None
        evaluate().backward()

    return step


def in_graph(step: Callable[[], None]) -> Callable[[], None]:
    """Return a replay of the step as a CUDA graph: the time of the GPU alone, without Python in between."""
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def seconds(step: Callable[[], None], device: str, at_least: float) -> float:
    """Return the time of one step, from as many steps in a row as fill `at_least` seconds."""

    def run(times: int) -> float:
        if device == "cuda":
            torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(times):
            step()
        if device == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter() - start

    times = max(1, math.ceil(at_least / max(run(1), 1e-7)))
    return run(times) / times


def take_turns(steps: dict[str, Callable[[], None]], device: str, rounds: int, at_least: float) -> dict[str, float]:
    """Return each step's median time over rounds in which all of them run."""
    for step in steps.values():
        step()
        step()
    times: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(rounds):
        for name, step in steps.items():
            time.sleep(0.1)  # OpenMP's threads spin for a while after work: let the opponent's go to sleep
            times[name].append(seconds(step, device, at_least))
    return {name: statistics.median(found) for name, found in times.items()}


def peak_memory(step: Callable[[], None], device: str) -> float | None:
    """Return the most memory, in MiB, that one step adds to what was there before; None where it cannot be read."""
    if device == "cuda":
        step()
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        step()
        torch.cuda.synchronize()
        return (torch.cuda.max_memory_allocated() - before) / 2**20
    try:
        with open("/proc/self/clear_refs", "w") as reset:
            reset.write("5")  # the peak starts again from here
        before = _status("VmRSS")
        step()
        return (_status("VmHWM") - before) / 2**10
    except OSError:
        return None


def _status(field: str) -> int:
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith(field + ":"))


def peak_memory_alone(size: Size, backend: str, device: str) -> float | None:
    """Measure in a process of its own: memory that another step left behind would hide part of the peak."""
    if device == "cuda":  # where torch itself counts
        return _peak_memory_of(size, backend, device)
    import multiprocessing

    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_peak_memory_of, (size, backend, device))


def _peak_memory_of(size: Size, backend: str, device: str) -> float | None:
    make_step(Size(8, 2, 3, 2), device, backend)()  # compiled code and buffers that are not the step's own
    x, parameters = make_parameters(size, device)
    gradients = [torch.zeros_like(p) for p in parameters.values()]

    def step() -> None:
        output = hard_trees(x, **parameters, backend=backend).output.sum()  # type: ignore[arg-type]
        for into, gradient in zip(gradients, torch.autograd.grad(output, list(parameters.values())), strict=True):
            into.copy_(gradient)

    return peak_memory(step, device)


def compare(sizes: Sequence[Size], device: str, rounds: int, at_least: float, with_memory: bool) -> None:
    """Print one line for each size."""
    columns = ["rows", "trees", "feat.", "depth", "hardwood ms"]
    columns += ["in graph ms", "dense ms", "compiled ms"] if device == "cuda" else ["dense ms"]
    print(f"\n{device}: forward and backward")
    print("  ".join(f"{name:>11}" for name in [*columns, "ratio", "MiB", "dense MiB"]))
    for size in sizes:
        steps = {"ours": make_step(size, device, "auto"), "dense": make_step(size, device, "reference")}
        if device == "cuda":
            steps["graph"] = in_graph(make_step(size, device, "auto"))
            steps["compiled"] = make_step(size, device, "reference", compiled=True)
        found = take_turns(steps, device, rounds, at_least)
        cells = [*map(str, size), f"{found['ours'] * 1e3:.3f}"]
        if device == "cuda":
            ratios = f"{found['dense'] / found['graph']:.0f}/{found['compiled'] / found['graph']:.0f}"
            cells += [f"{found[name] * 1e3:.3f}" for name in ("graph", "dense", "compiled")] + [ratios]
        else:
            cells += [f"{found['dense'] * 1e3:.1f}", f"{found['dense'] / found['ours']:.0f}"]
        steps.clear()
        if with_memory:
            for backend in ("auto", "reference"):
                mib = peak_memory_alone(size, backend, device)
                cells.append("?" if mib is None else f"{mib:.0f}")
        print("  ".join(f"{cell:>11}" for cell in cells), flush=True)


def show_growth(device: str, rounds: int, at_least: float) -> None:
    """Print how the time of a step grows in each size, the others fixed."""
    print(f"\n{device}: growth around {', '.join(f'{n} {v}' for n, v in MIDDLE._asdict().items())}")
    for name, values in VARIED.items():
        times = []
        for value in values:
            step = make_step(MIDDLE._replace(**{name: value}), device, "auto")
            times.append(take_turns({"ours": step}, device, rounds, at_least)["ours"])
        # The last two points, where fixed costs weigh least.
        if name == "depth":
            growth = f"x{(times[-1] / times[-2]) ** (1 / (values[-1] - values[-2])):.2f} a level"
        else:
            growth = f"{name}^{math.log(times[-1] / times[-2]) / math.log(values[-1] / values[-2]):.2f}"
        listed = ", ".join(f"{value}: {found * 1e3:.2f} ms" for value, found in zip(values, times, strict=True))
        print(f"  {name:>9}  {growth:<14} {listed}", flush=True)


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description="Hard routing against the dense formula.")
    parser.add_argument("--quick", action="store_true", help="a few small sizes, without memory and growth")
    parser.add_argument("--device", choices=["cpu", "cuda"], help="only this device")
    arguments = parser.parse_args()
    devices = [arguments.device] if arguments.device else ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
    print(f"python {platform.python_version()}, torch {torch.__version__}, {os.cpu_count()} cores,", end=" ")
    print(torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU", flush=True)
    print("command: python " + " ".join(sys.argv))
    for device in devices:
        sizes = QUICK[device] if arguments.quick else SIZES[device]
        compare(sizes, device, 3 if arguments.quick else 5, 0.2, with_memory=not arguments.quick)
        if not arguments.quick:
            show_growth(device, 3, 0.1)


if __name__ == "__main__":
    main()
