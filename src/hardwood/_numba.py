"""How hardwood compiles and runs CPU kernels.

Kernels are compiled without numba's own threading layer: its default aborts the process when two Python threads call
parallel kernels at once. Instead a kernel releases the GIL and works on items `start:stop`; `run_chunks` hands ranges
to a thread pool. Any number of Python threads may call it at once.
"""

from __future__ import annotations

import hashlib
import inspect
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numba

# Sums may be reordered for speed (SIMD), but NaN and infinities keep their IEEE meaning: NaN is a missing value here.
_REORDER = {"reassoc", "contract", "nsz"}


def _fingerprint() -> str:
    """Hash every source file that has to do with kernels.

    numba's cache on disk looks at the kernel's own file only. A change in a helper that lies in another file, as after
    an upgrade, would go on running the old code.
    """
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        source = path.read_bytes()
        if b"_numba" in source:
            digest.update(source)
    return digest.hexdigest()[:12]


_SOURCES = _fingerprint()


def _compile(function: Callable[..., Any], **options: Any) -> Any:
    function = inspect.unwrap(function)
    function.__qualname__ = f"{function.__qualname__}_{_SOURCES}"  # numba names its cache files by this
    try:
        return numba.njit(function, cache=True, error_model="numpy", **options)
    except RuntimeError:  # no folder to cache in can be written
        return numba.njit(function, error_model="numpy", **options)


def kernel(function: Callable[..., Any]) -> Any:
    """Compile a function that releases the GIL; the compiled code is cached on disk."""
    return _compile(function, nogil=True, fastmath=_REORDER)


def exact_kernel(function: Callable[..., Any]) -> Any:
    """Compile like `kernel`, but keep every sum in the order in which it is written."""
    return _compile(function, nogil=True)


def inlined(function: Callable[..., Any]) -> Any:
    """Compile a helper that kernels call; LLVM inlines it."""
    return _compile(function, fastmath=_REORDER)


def finite_inlined(function: Callable[..., Any]) -> Any:
    """Compile a helper that is only called on numbers that are not NaN: maxima then turn into SIMD code too."""
    return _compile(function, fastmath=_REORDER | {"nnan"})


_pool: ThreadPoolExecutor | None = None
_pool_lock = threading.Lock()


def _forget_pool() -> None:
    """In a forked child the parent's worker threads do not exist: start a fresh pool there."""
    global _pool, _pool_lock
    _pool, _pool_lock = None, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_pool)


def available_threads() -> int:
    """Return the number of CPU threads this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0)) or 1
    return os.cpu_count() or 1


def _get_pool() -> ThreadPoolExecutor:
    global _pool
    with _pool_lock:
        if _pool is None:
            _pool = ThreadPoolExecutor(max(1, available_threads()), thread_name_prefix="hardwood")
        return _pool


def run_chunks(work: Callable[[int, int], None], n_items: int, n_threads: int, smallest: int = 1) -> None:
    """Call `work(start, stop)` on consecutive ranges that together cover `range(n_items)`.

    The ranges depend only on the arguments, so a result is the same in every run with the same `n_threads`.
    `smallest` is the fewest items worth a thread of their own. The calling thread works too.
    """
    n_chunks = max(1, min(n_threads, n_items // max(1, smallest)))
    if n_chunks == 1:
        work(0, n_items)
        return
    edges = [n_items * i // n_chunks for i in range(n_chunks + 1)]
    pool = _get_pool()
    others = [pool.submit(work, edges[i], edges[i + 1]) for i in range(1, n_chunks)]
    try:
        work(edges[0], edges[1])
    finally:
        for other in others:
            other.result()
