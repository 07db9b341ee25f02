"""Where training runs, and on how many threads; the process has its own setting back afterwards."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch

from hardwood._numba import available_threads
from hardwood.errors import reject
from hardwood.estimators._parameters import is_whole

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
        reject("device", device, "has no kernels for these trees", "pass 'auto', 'cpu' or 'cuda'")
    if chosen.type == "cuda" and not torch.cuda.is_available():
        reject("device", device, "torch sees no GPU", "pass 'cpu', or install a torch build with CUDA")
    return chosen


def count_threads(n_jobs: int | None, work: int) -> int:
    """Return how many threads to use, as joblib counts jobs; None chooses by the size of a step."""
    if n_jobs is None:
        return _usual_threads() if work >= _WORTH_THREADS else 1
    if not is_whole(n_jobs) or n_jobs == 0:
        reject("n_jobs", n_jobs, "is no number of threads", "pass None, a number from 1 up, or -1 for all cores")
    return int(n_jobs) if n_jobs > 0 else max(1, available_threads() + 1 + int(n_jobs))


@dataclass
class _Borrowed:
    """torch's number of threads is the process's: who comes first notes it, and everybody puts that back."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    users: int = 0
    original: int = 1


_borrowed = _Borrowed()


def _usual_threads() -> int:
    """Return torch's number of threads as the user has it, whatever other fits have set it to for now."""
    with _borrowed.lock:
        return _borrowed.original if _borrowed.users else torch.get_num_threads()


@contextmanager
def threads(number: int) -> Iterator[None]:
    """Let torch and the kernels use so many threads for as long as the block runs; blocks may run side by side."""
    with _borrowed.lock:
        if _borrowed.users == 0:
            _borrowed.original = torch.get_num_threads()
        _borrowed.users += 1
    torch.set_num_threads(number)
    try:
        yield
    finally:
        with _borrowed.lock:
            _borrowed.users -= 1
            torch.set_num_threads(_borrowed.original)
