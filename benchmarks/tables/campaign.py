"""Many cells: which are still to be run, and running them with progress shown."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import wait
from pathlib import Path

from benchmarks.tables.cell import Cell, Record, run_cell
from benchmarks.tables.methods import Method
from benchmarks.tables.sets import Entry
from benchmarks.tables.store import Store
from benchmarks.tables.workers import Worker
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from hardwood.errors import reject


@dataclass(frozen=True)
class Outcome:
    """How many cells were run, and what stood in the store before."""

    finished: int
    failed: int
    skipped: int


def plan(entries: Sequence[Entry], methods: Sequence[Method], seeds: int, depth: int) -> list[Cell]:
    """Return the cells of all methods that can do a set's task: method by method, set by set, seed by seed."""
    if seeds < 1:
        reject("seeds", seeds, "must be at least 1", "pass --seeds 5")
    if depth < 1:
        reject("depth", depth, "must be at least 1", "pass --depth 8")
    return [
        Cell(entry, method.name, seed, depth if method.uses_depth else None)
        for method in methods
        for entry in entries
        if entry.task in method.tasks
        for seed in range(seeds)
    ]


def run_cells(
    cells: Sequence[Cell], folder: Path, store: Store, *, command: str, jobs: int = 1, threads: int = 1,
    retry: bool = False,
) -> Outcome:  # fmt: skip
    """Run the cells that the store does not have, and with `retry` those that failed, too.

    `jobs` processes run a cell each at a time; 0 runs them in this process, one after another. Each result is in the
    store before the next cell of its process begins, so a run that is stopped goes on where it was.
    """
    if jobs < 0:
        reject("jobs", jobs, "must be at least 0", "pass --jobs 1")
    if threads < 1:
        reject("threads", threads, "must be at least 1", "pass --threads 1")
    done = store.statuses()
    waiting = [cell for cell in cells if cell.key not in done or (retry and done[cell.key] == "failed")]
    results = _in_turn(waiting, folder, threads) if jobs == 0 else _side_by_side(waiting, folder, threads, jobs)
    finished = failed = 0
    with _progress() as progress:
        task = progress.add_task("starting", total=len(cells), completed=len(cells) - len(waiting))
        for record in results:
            store.append(record | {"command": command})
            name = f"{record['method']} on {record['set']}, seed {record['seed']}"
            if record["status"] == "ok":
                finished += 1
            else:
                failed += 1
                progress.console.print(
                    f"failed: {name}: {record['error']}", markup=False, highlight=False, soft_wrap=True
                )
            progress.update(task, advance=1, description=name)
    return Outcome(finished, failed, len(cells) - len(waiting))


def _progress() -> Progress:
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}", markup=False))
    return Progress(*columns, console=Console(file=sys.stderr))


def _in_turn(cells: Sequence[Cell], folder: Path, threads: int) -> Iterator[Record]:
    for cell in cells:
        yield run_cell(cell, folder, threads)


def _side_by_side(cells: Sequence[Cell], folder: Path, threads: int, jobs: int) -> Iterator[Record]:
    queue = iter(cells)
    workers = [Worker(folder, threads) for _ in range(min(jobs, len(cells)))]
    try:
        busy = []
        for worker, cell in zip(workers, queue, strict=False):
            worker.begin(cell)
            busy.append(worker)
        while busy:
            ready = wait([worker.connection for worker in busy])
            for worker in [worker for worker in busy if worker.connection in ready]:
                yield worker.result()
                following = next(queue, None)
                if following is None:
                    busy.remove(worker)
                else:
                    worker.begin(following)
    finally:
        for worker in workers:
            worker.stop()
