"""The benchmark's sets: an index, a gzipped CSV a set, and the suites that name some of them."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from hardwood.errors import reject

Task = Literal["binary", "multiclass", "regression"]
TASKS: tuple[Task, ...] = ("binary", "multiclass", "regression")

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
REMEDY = "pass --data FOLDER, a folder with INDEX.csv and one NAME.csv.gz a set"


class Entry(NamedTuple):
    """One line of the index."""

    name: str
    task: Task
    rows: int
    categorical: tuple[str, ...]
    papers: tuple[str, ...]
    note: str

    @property
    def deviates(self) -> bool:
        """Whether the set is known to differ from the table of a paper that uses it."""
        return "DEVIATION" in self.note or "SUBSET" in self.note


class Table(NamedTuple):
    """A set in memory: a pandas frame, and class numbers or real targets."""

    X: Any
    y: np.ndarray
    classes: np.ndarray | None


@dataclass(frozen=True)
class Suite:
    """The sets of some tasks that some papers use, and whose figures stand beside ours."""

    title: str
    tasks: tuple[Task, ...]
    papers: tuple[str, ...]  # where two papers have a figure for the same set, the first is shown

    def has(self, entry: Entry) -> bool:
        """Return whether a set belongs to the suite."""
        return entry.task in self.tasks and any(paper in entry.papers for paper in self.papers)


SUITES: dict[str, Suite] = {
    "gradtree-binary": Suite("the binary sets of GradTree's paper", ("binary",), ("gradtree",)),
    "gradtree-multiclass": Suite("the multi-class sets of GradTree's paper", ("multiclass",), ("gradtree",)),
    "grande-binary": Suite("the sets of GRANDE's paper", ("binary",), ("grande",)),
    "binary": Suite("the binary sets of GradTree's and GRANDE's papers", ("binary",), ("grande", "gradtree")),
    "multiclass": Suite("the multi-class sets of GradTree's paper", ("multiclass",), ("gradtree",)),
    "get-regression": Suite("the regression sets of GET's paper", ("regression",), ("get",)),
}


def read_index(folder: Path) -> dict[str, Entry]:
    """Read INDEX.csv of a folder: the sets by name, in its order."""
    path = folder / "INDEX.csv"
    if not path.is_file():
        reject("data", str(folder), "has no INDEX.csv", REMEDY)
    with path.open(newline="", encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    wanted = {"name", "task", "rows", "categorical_columns", "paper", "note"}
    if not lines or not wanted <= set(lines[0]):
        reject("data", str(path), f"is no index: it needs lines with the columns {sorted(wanted)}", REMEDY)
    return {line["name"]: _entry(line) for line in lines}


def _entry(line: Mapping[str, str]) -> Entry:
    task = next((task for task in TASKS if task == line["task"]), None)
    if task is None:
        reject("task", line["task"], f"is no task, in the index at {line['name']}", f"write one of {', '.join(TASKS)}")
    categorical, papers = (tuple(filter(None, line[name].split(";"))) for name in ("categorical_columns", "paper"))
    return Entry(line["name"], task, int(line["rows"]), categorical, papers, line["note"])


def find_suites(names: Sequence[str]) -> list[Suite]:
    """Return suites by name, each once."""
    for name in names:
        if name not in SUITES:
            reject("suite", name, "is not known", f"choose from {', '.join(SUITES)}")
    return [SUITES[name] for name in dict.fromkeys(names)]


def choose(index: Mapping[str, Entry], suites: Sequence[str] = (), names: Sequence[str] = ()) -> list[Entry]:
    """Return the sets of some suites followed by those that are named, each once."""
    chosen: list[str] = []
    for suite, suite_name in zip(find_suites(suites), dict.fromkeys(suites), strict=True):
        members = [entry.name for entry in index.values() if suite.has(entry)]
        if not members:
            reject("suite", suite_name, "has no set in this index", REMEDY)
        chosen += members
    for name in names:
        if name not in index:
            reject("sets", name, "is not in the index", f"choose from {', '.join(index)}")
    if not chosen and not names:
        reject("sets", list(names), "names no set", "pass --suite NAME or --sets NAME ...")
    return [index[name] for name in dict.fromkeys([*chosen, *names])]


# The cells of one set follow one another, so one set in memory is enough.
@lru_cache(maxsize=1)
def load(folder: Path, entry: Entry) -> Table:
    """Read a set. An empty cell is missing; the index's categorical columns are categories, even if of numbers.

    Callers share what is returned: nobody may write to it.
    """
    import pandas as pd

    path = folder / f"{entry.name}.csv.gz"
    if not path.is_file():
        reject("data", str(path), "is missing", REMEDY)
    texts = dict.fromkeys(entry.categorical, str)
    frame = pd.read_csv(path, dtype=texts, keep_default_na=False, na_values=[""], low_memory=False)
    absent = [name for name in ("target", *entry.categorical) if name not in frame.columns]
    if absent:
        reject("data", str(path), f"lacks the column(s) {absent}", "make the file and the index agree")
    if len(frame) != entry.rows:
        reject("data", str(path), f"has {len(frame)} rows, not {entry.rows}", "make the file and the index agree")
    target = frame.pop("target")
    if target.isna().any():
        reject("data", str(path), "has rows without a target", "drop these rows")
    for name in frame.columns:
        if name in texts:
            frame[name] = frame[name].astype("category")
        elif frame[name].dtype.kind not in "if":
            remedy = "name it in the index's categorical_columns"
            reject("data", str(path), f"holds text in column {name!r}, which is no category", remedy)
    if entry.task == "regression":
        return Table(frame, target.to_numpy(np.float64), None)
    classes, y = np.unique(target.to_numpy(), return_inverse=True)
    return Table(frame, y.astype(np.int64), classes)
