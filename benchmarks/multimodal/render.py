"""The page of results: means and deviations over seeds, and how often GRANDE is ahead of what stands in its place."""

from __future__ import annotations

from typing import Any

import numpy as np
from benchmarks.multimodal import made
from benchmarks.multimodal.methods import METHODS, MOVING
from benchmarks.multimodal.sets import SETS

CLASSES, NUMBERS = ("balanced_accuracy", "f1", "roc_auc", "log_loss"), ("mape", "r2_log", "rmse_log")
SMALLER_IS_BETTER = ("log_loss", "mape", "rmse_log")
# Thesis, Table 5.14: PAD-UFES-20 with a pre-trained ConvNeXt, its last layer tuned. That set was not at hand.
PAPER = [
    "## The thesis on PAD-UFES-20 (Table 5.14), for the order of methods", "",
    "| | balanced_accuracy | f1 | roc_auc |", "|---|---|---|---|",
    "| table: MLP | 0.622 | 0.636 | 0.921 |", "| table: ResNet | 0.528 | 0.526 | 0.889 |",
    "| table: GRANDE | 0.675 | 0.690 | 0.943 |", "| other branch | 0.518 | 0.534 | 0.870 |",
    "| both: MLP | 0.689 | 0.703 | 0.940 |", "| both: ResNet | 0.676 | 0.693 | 0.933 |",
    "| both: GRANDE | 0.735 | 0.747 | 0.956 |", "",
]  # fmt: skip
RIVALS = (("table: GRANDE", "table: MLP"), ("table: GRANDE", "table: ResNet"), ("both: GRANDE", "both: MLP"),
          ("both: GRANDE", "both: ResNet"), ("both: GRANDE", "table: GRANDE"))  # fmt: skip
Line = dict[str, str]


def render(lines: list[Line], choices: list[Line]) -> str:
    """Return the page, in Markdown."""
    text = ["# Trees inside networks", ""]
    for name in SETS:
        of_set = [line for line in lines if line["set"] == name]
        if of_set:
            text += [f"## {name}: {(SETS[name].__doc__ or '').strip()}", ""]
            if name == "digits":
                text += [(made.__doc__ or "").partition("\n\n")[2].strip(), ""]
            text += [*means(of_set, METHODS), "", *differences(of_set), ""]
    if choices:
        text += ["## Trees that split embeddings while these move", "", CHOICE, ""]
        for name in SETS:
            of_set = [line for line in choices if line["set"] == name]
            if of_set:
                text += [f"`{name}`:", "", *means(of_set, MOVING), ""]
        text += [*over_sets(choices), ""]
    text += [*PAPER, HOW]
    return "\n".join(text) + "\n"


def measures_of(lines: list[Line]) -> list[str]:
    return [each for each in (*CLASSES, *NUMBERS) if lines[0][each]]


def means(lines: list[Line], methods: Any) -> list[str]:
    """Return a table with a line for each method."""
    measures = measures_of(lines)
    text = [f"| | {' | '.join(measures)} | seeds | seconds |", "|---" * (len(measures) + 3) + "|"]
    for method in methods:
        own = [line for line in lines if line["method"] == method]
        if own:
            cells = [spread([float(line[each]) for line in own]) for each in measures]
            seconds = np.mean([float(line["seconds"]) for line in own])
            text.append(f"| {method} | {' | '.join(cells)} | {len(own)} | {seconds:.0f} |")
    return text


def differences(lines: list[Line]) -> list[str]:
    """Return a table of differences seed by seed: each seed has its own rows, which both methods share."""
    measures = measures_of(lines)
    text = [
        f"| first less second, ahead in so many seeds | {' | '.join(measures)} |",
        "|---" * (len(measures) + 1) + "|",
    ]
    for one, other in RIVALS:
        by_seed = [{line["seed"]: line for line in lines if line["method"] == method} for method in (one, other)]
        seeds = [seed for seed in by_seed[0] if seed in by_seed[1]]
        if not seeds:
            continue
        cells = []
        for each in measures:
            gaps = np.array([float(by_seed[0][seed][each]) - float(by_seed[1][seed][each]) for seed in seeds])
            ahead = int(((gaps < 0) if each in SMALLER_IS_BETTER else (gaps > 0)).sum())
            cells.append(f"{gaps.mean():+.3f} ({ahead} of {len(seeds)})")
        text.append(f"| {one} - {other} | {' | '.join(cells)} |")
    return text


def over_sets(lines: list[Line]) -> list[str]:
    """Return the mean balanced accuracy over sets and seeds, of the ways that were measured on all of them."""
    wanted = {(line["set"], line["seed"]) for line in lines}
    text = ["Over all of these, by balanced accuracy:", "", "| | balanced_accuracy | log_loss |", "|---|---|---|"]
    found = []
    for method in MOVING:
        own = [line for line in lines if line["method"] == method]
        if {(line["set"], line["seed"]) for line in own} == wanted:
            score, loss = (np.mean([float(line[each]) for line in own]) for each in ("balanced_accuracy", "log_loss"))
            found.append((-score, f"| {method} | {score:.3f} | {loss:.3f} |"))
    return text + [line for _, line in sorted(found)]


def spread(values: list[float]) -> str:
    # One seed has no spread.
    return f"{np.mean(values):.3f}" + (f" +- {np.std(values):.3f}" if len(values) > 1 else "")


CHOICE = (
    "Draws of made sets that no other table shows, so that the defaults were chosen on none of the rows that methods "
    'are compared on. "joint" is plain training of everything at once: random trees, no normalisation, no warm-up. '
    '"norm" is running normalisation; in the warm-up, of so many passes, encoders learn under a linear layer; "greedy '
    'trees" start after it at a random forest on the embeddings. "concat" and "gated" are networks whose trees see '
    "the table alone."
)
HOW = (
    "Means over seeds, +- their deviation. A seed draws the rows, their split and the start of training. Made sets: "
    "1,600 rows to learn from, a fifth of them for validation, and 2,400 for the test; houses: 30% for the test. Each "
    "method is fitted at two learning rates of its table branch, and the fit with the lower validation loss is taken. "
    "Written by `python -m benchmarks.multimodal` and `python -m benchmarks.multimodal --choose`."
)
