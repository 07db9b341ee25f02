"""Where training runs, and on how many threads; the process has its own setting back afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from hardwood._numba import available_threads
from hardwood.errors import reject

# Numbers that one step touches (rows x trees x depth x features). Launching a step's kernels from Python takes a GPU
# 1.5 ms whatever the size; two cores do this much in that time. A second thread pays from the second number on.
_WORTH_A_GPU = 6_000_000
_WORTH_THREADS = 1_000_000


def choose_device(device: str | torch.device, work: int) -> torch.device:
    """Return the device that the user names; "auto" is a GPU if there is one and a step is large enough for it."""
    if isinstance(device, str) and device == "auto":
        return torch.device("cuda" if work >= _WORTH_A_GPU and torch.cuda.is_available() else "cpu")
    try:
        chosen = torch.device(device)
    except (RuntimeError, TypeError):
        reject("device", device, "is no device", "pass 'auto', 'cpu', 'cuda' or 'cuda:1'")
    if chosen.type not in ("cpu", "cuda"):
        reject("device", device, "has no kernels for hard trees", "pass 'auto', 'cpu' or 'cuda'")
    if chosen.type == "cuda" and not torch.cuda.is_available():
        reject("device", device, "torch sees no GPU", "pass 'cpu', or install a torch build with CUDA")
    return chosen


def count_threads(n_jobs: int | None, work: int) -> int:
    """Return how many threads to use, as joblib counts jobs; None chooses by the size of a step."""
    if n_jobs is None:
        return torch.get_num_threads() if work >= _WORTH_THREADS else 1
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, int) or n_jobs == 0:
        reject("n_jobs", n_jobs, "is no number of threads", "pass None, a number from 1 up, or -1 for all cores")
    return n_jobs if n_jobs > 0 else max(1, available_threads() + 1 + n_jobs)


@contextmanager
def threads(number: int) -> Iterator[None]:
    """Let torch and the kernels use so many threads for as long as the block runs."""
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)
