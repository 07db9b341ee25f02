"""Processes that run cells: one each at a time, with few threads, and free to crash."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
from multiprocessing.connection import Connection
from pathlib import Path

from benchmarks.tables.cell import Cell, Record, beginning, failure, run_cell

# Numeric libraries read these when they are loaded.
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


class Worker:
    """A process that runs one cell after another. If it dies, its cell has failed, and a new one replaces it."""

    def __init__(self, folder: Path, threads: int) -> None:
        self._folder = folder
        self._threads = threads
        self._cell: Cell | None = None
        self._start()

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, self._folder, self._threads), daemon=True)
        before = {name: os.environ.get(name) for name in _THREAD_VARIABLES}
        os.environ.update(dict.fromkeys(_THREAD_VARIABLES, str(self._threads)))
        try:
            self._process.start()
        finally:
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value
        # With our copy closed, the end of the process is the end of the pipe.
        theirs.close()

    def begin(self, cell: Cell) -> None:
        """Start a cell; `connection` becomes readable when it has ended."""
        self._cell = cell
        # A process that has died meanwhile shows when the result is read.
        with contextlib.suppress(ConnectionError):
            self.connection.send(cell)

    def result(self) -> Record:
        """Return the record of the cell that has ended."""
        assert self._cell is not None, "no cell was begun"
        cell, self._cell = self._cell, None
        try:
            return self.connection.recv()
        except (EOFError, ConnectionError):
            self._process.join()
            code = self._process.exitcode
            self.connection.close()
            self._start()
            return beginning(cell, self._threads) | failure(f"the process ended with code {code}")

    def stop(self) -> None:
        """End the process, whatever it is doing."""
        self._process.terminate()
        self._process.join()
        self.connection.close()


def _serve(connection: Connection, folder: Path, threads: int) -> None:
    """Run the cells that come through the pipe until it is closed, as it is when the parent ends."""
    # An interrupt at the keyboard goes to every process; the parent ends this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(EOFError, ConnectionError):
        while True:
            connection.send(run_cell(connection.recv(), folder, threads))
