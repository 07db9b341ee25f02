"""Measure and write down, one line a set, method and seed; what is written down already is not measured again.

python -m benchmarks.multimodal                  # the comparison of methods, seeds 0 to 4
python -m benchmarks.multimodal --choose         # the ways to meet moving embeddings, on draws that no table shows
python -m benchmarks.multimodal --render         # only the page

Several processes may share the work: give each a file of its own (--out) and all the same folder of claims (--claims).
"""

from __future__ import annotations

import argparse
import csv
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.multimodal.methods import METHODS, MOVING, TABLE, fitted
from benchmarks.multimodal.render import CLASSES, NUMBERS, render
from benchmarks.multimodal.sets import SETS, Set

RESULTS = Path(__file__).resolve().parents[1] / "results"
FIELDS = ("set", "method", "seed", *CLASSES, *NUMBERS, "validation_loss", "epochs", "seconds", "device")
TABLES_ALONE = ("independent",)  # a set that is there for what its table says
# The sets of --choose are drawn with other seeds than any of the comparison.
FIRST_CHOOSING, CHOOSING_SETS = 100, ("digits", "words")


def scores(model: Any, data: Set, X: Any, rows: np.ndarray) -> dict[str, float]:
    from sklearn import metrics

    y = data.y[rows]
    if data.regression:
        said = model.predict(X.iloc[rows])
        return {
            "mape": metrics.mean_absolute_percentage_error(np.exp(y), np.exp(said)),
            "r2_log": metrics.r2_score(y, said),
            "rmse_log": float(np.sqrt(metrics.mean_squared_error(y, said))),
        }
    shares = model.predict_proba(X.iloc[rows])
    said = model.classes_[shares.argmax(axis=1)]
    return {
        "balanced_accuracy": metrics.balanced_accuracy_score(y, said),
        "f1": metrics.f1_score(y, said, average="macro"),
        "roc_auc": metrics.roc_auc_score(y, shares, multi_class="ovr"),
        "log_loss": metrics.log_loss(y, shares, labels=model.classes_),
    }


def measure(name: str, data: Set, method: str, seed: int) -> dict[str, Any]:
    import torch

    began = time.perf_counter()
    model, X = fitted(method, data, seed)
    seconds = time.perf_counter() - began
    found = {key: round(float(value), 5) for key, value in scores(model, data, X, data.test).items()}
    device = "cuda" if torch.cuda.is_available() else "cpu"
    return {
        "set": name, "method": method, "seed": seed, **found, "validation_loss": round(model.best_loss_, 5),
        "epochs": model.n_iter_, "seconds": round(seconds, 1), "device": device,
    }  # fmt: skip


def read(*paths: Path) -> list[dict[str, str]]:
    """Return the lines of some files, the first of each set, method and seed."""
    found: dict[tuple[str, str, str], dict[str, str]] = {}
    for path in paths:
        if path.is_file():
            with path.open(newline="") as file:
                for line in csv.DictReader(file):
                    found.setdefault((line["set"], line["method"], line["seed"]), line)
    return list(found.values())


def write(path: Path, lines: list[dict[str, Any]]) -> None:
    """Append lines to a file."""
    is_new = not path.is_file()
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        if is_new:
            writer.writeheader()
        writer.writerows(lines)


def claimed(folder: Path | None, job: tuple[Any, ...]) -> bool:
    """Tell whether another process has this job; if none has, it is this one's from now on."""
    if folder is None:
        return False
    folder.mkdir(parents=True, exist_ok=True)
    name = "_".join(str(each) for each in job).replace("/", "-")
    try:
        os.close(os.open(folder / name, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return True
    return False


def gather(table: Path, given: list[Path]) -> None:
    """Put the lines of other files into a table, sorted."""
    lines = read(table, *given)
    order = [*METHODS, *MOVING]
    lines.sort(key=lambda line: (list(SETS).index(line["set"]), int(line["seed"]), order.index(line["method"])))
    table.unlink(missing_ok=True)
    write(table, lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--choose", action="store_true")
    parser.add_argument("--sets", nargs="*", choices=list(SETS))
    parser.add_argument("--methods", nargs="*", default=None, help="names, or the beginnings of names")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin nothing new after this time")
    parser.add_argument("--out", type=Path, help="a file other than that of the results")
    parser.add_argument("--claims", type=Path, help="a folder in which processes say what they work on")
    parser.add_argument("--gather", nargs="*", type=Path, default=[], help="files of --out to put into the results")
    parser.add_argument("--render", action="store_true", help="only write the page anew")
    given = parser.parse_args()
    began = time.monotonic()
    tables = {choosing: RESULTS / f"multimodal{'_choice' if choosing else ''}.csv" for choosing in (False, True)}
    table = tables[given.choose]
    if given.gather:
        gather(table, given.gather)
    elif not given.render:
        known = MOVING if given.choose else METHODS
        wanted = [m for m in known if given.methods is None or any(m.startswith(each) for each in given.methods)]
        names = given.sets or (CHOOSING_SETS if given.choose else list(SETS))
        with tempfile.TemporaryDirectory() as folder:
            for seed in range(given.seeds):
                for name in names:
                    work(name, wanted, seed + FIRST_CHOOSING * given.choose, Path(folder), table, given, began)
    if given.out is None:
        (RESULTS / "multimodal.md").write_text(render(read(tables[False]), read(tables[True])))


def work(
    name: str, methods: list[str], seed: int, folder: Path, table: Path, given: argparse.Namespace, began: float
) -> None:
    """Measure what is not yet measured of one set and seed."""
    out, data = given.out or table, None
    for method in methods:
        if name in TABLES_ALONE and method not in TABLE:
            continue
        done = {(line["set"], line["method"], line["seed"]) for line in read(table, out)}
        late = time.monotonic() - began > given.seconds
        if (name, method, str(seed)) in done or late or claimed(given.claims, (name, method, seed)):
            continue
        data = data or SETS[name](folder, seed)
        line = measure(name, data, method, seed)
        write(out, [line])
        print(line, flush=True)


if __name__ == "__main__":
    main()
