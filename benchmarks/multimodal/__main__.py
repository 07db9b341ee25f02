"""Measure and write down, one line a set, method and seed; what is written down already is not measured again.

python -m benchmarks.multimodal --sets digits --seeds 5
python -m benchmarks.multimodal --render
"""

from __future__ import annotations

import argparse
import csv
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.multimodal.methods import METHODS, fitted
from benchmarks.multimodal.sets import SETS, Set

RESULTS = Path(__file__).resolve().parents[1] / "results"
CLASSES, NUMBERS = ("balanced_accuracy", "f1", "roc_auc", "accuracy"), ("mape", "r2_log", "rmse_log")
# Thesis, Table 5.14: PAD-UFES-20 with a pre-trained ConvNeXt, its last layer tuned. That set was not at hand.
PAPER = [
    "## The thesis on PAD-UFES-20 (Table 5.14), for the order of methods", "",
    "| | balanced_accuracy | f1 | roc_auc |", "|---|---|---|---|",
    "| table: MLP | 0.622 | 0.636 | 0.921 |", "| table: ResNet | 0.528 | 0.526 | 0.889 |",
    "| table: GRANDE | 0.675 | 0.690 | 0.943 |", "| other branch | 0.518 | 0.534 | 0.870 |",
    "| both: MLP | 0.689 | 0.703 | 0.940 |", "| both: ResNet | 0.676 | 0.693 | 0.933 |",
    "| both: GRANDE | 0.735 | 0.747 | 0.956 |", "",
]  # fmt: skip
FIELDS = ("set", "method", "seed", *CLASSES, *NUMBERS, "epochs", "seconds")


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
        "accuracy": metrics.accuracy_score(y, said),
    }


def measure(name: str, data: Set, method: str, seed: int) -> dict[str, Any]:
    from sklearn.model_selection import train_test_split

    rows = np.arange(len(data.y))
    labels = None if data.regression else data.y
    training, test = train_test_split(rows, test_size=0.3, random_state=seed, stratify=labels)
    began = time.perf_counter()
    model, X = fitted(method, data, training, seed)
    seconds = time.perf_counter() - began
    found = {key: round(float(value), 5) for key, value in scores(model, data, X, test).items()}
    return {"set": name, "method": method, "seed": seed, **found, "epochs": model.n_iter_, "seconds": round(seconds, 1)}


def read(path: Path) -> list[dict[str, str]]:
    if not path.is_file():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def render(lines: list[dict[str, str]]) -> str:
    """Return the means and the deviations over seeds as tables of Markdown."""
    text = ["# Trees inside networks", ""]
    for name in SETS:
        of_set = [line for line in lines if line["set"] == name]
        if not of_set:
            continue
        measures = [each for each in (*CLASSES, *NUMBERS) if of_set[0][each]]
        text += [f"## {name}: {(SETS[name].__doc__ or '').strip()}", ""]
        text += [f"| | {' | '.join(measures)} | seeds | seconds |", "|---" * (len(measures) + 3) + "|"]
        for method in METHODS:
            own = [line for line in of_set if line["method"] == method]
            if own:
                cells = [spread([float(line[each]) for line in own]) for each in measures]
                seconds = np.mean([float(line["seconds"]) for line in own])
                text.append(f"| {method} | {' | '.join(cells)} | {len(own)} | {seconds:.0f} |")
        text.append("")
    text += PAPER
    text.append("Means over seeds, +- their deviation; 30% of the rows are for the test. Written by `python -m "
                "benchmarks.multimodal --render`.")  # fmt: skip
    return "\n".join(text) + "\n"


def spread(values: list[float]) -> str:
    # One seed has no spread.
    return f"{np.mean(values):.3f}" + (f" +- {np.std(values):.3f}" if len(values) > 1 else "")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="*", choices=list(SETS), default=list(SETS))
    parser.add_argument("--methods", nargs="*", default=None, help="names, or the beginnings of names")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin nothing new after this time")
    parser.add_argument("--render", action="store_true", help="only write the tables anew")
    given = parser.parse_args()
    path, began = RESULTS / "multimodal.csv", time.monotonic()
    wanted = [m for m in METHODS if given.methods is None or any(m.startswith(each) for each in given.methods)]
    with tempfile.TemporaryDirectory() as folder:
        sets = {} if given.render else {name: SETS[name](Path(folder)) for name in given.sets}
        for seed in range(given.seeds):
            for name, data in sets.items():
                for method in wanted:
                    done = {(line["set"], line["method"], line["seed"]) for line in read(path)}
                    if (name, method, str(seed)) in done or time.monotonic() - began > given.seconds:
                        continue
                    if method.startswith("moving") and name == "houses":
                        continue  # too few rows to tell one way from another
                    line = measure(name, data, method, seed)
                    with path.open("a", newline="") as file:
                        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
                        if not done:
                            writer.writeheader()
                        writer.writerow(line)
                    print({key: value for key, value in line.items() if value != ""}, flush=True)
    (RESULTS / "multimodal.md").write_text(render(read(path)))


if __name__ == "__main__":
    main()
