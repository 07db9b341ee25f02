"""The page: our results on some sets beside the papers' figures, in Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from benchmarks.tables.cell import Record, test_fraction
from benchmarks.tables.markdown import NOTHING, bold, number, plus_minus, signed, table
from benchmarks.tables.methods import all_methods
from benchmarks.tables.papers import FIGURES, Figure, Parameters, Source, figures_of
from benchmarks.tables.scores import METRICS
from benchmarks.tables.sets import Entry
from benchmarks.tables.summary import Grid, label_records, make_grid, spread

from hardwood.errors import reject


@dataclass(frozen=True)
class Page:
    """What a page shows. Without `methods` it shows all that the results have on these sets."""

    title: str
    entries: Sequence[Entry]
    metric: str
    methods: Sequence[str] = ()
    against: str | None = None
    papers: Sequence[str] = ()  # whose figures are shown, the preferred one first
    parameters: Sequence[Parameters] = ("default", "tuned")


@dataclass(frozen=True)
class _Facts:
    """A page's results, looked up once."""

    page: Page
    grid: Grid
    records: list[Record]  # of the page's sets and methods
    printed: dict[Source, dict[str, Figure]]
    failed: dict[tuple[str, str], int]


def render(page: Page, records: Sequence[Record]) -> str:
    """Return the page as Markdown."""
    facts = _gather(page, records)
    sections = [f"# {METRICS[page.metric].title} on {page.title}", _protocol(facts), _main_table(facts)]
    sections += _footnotes(facts)
    if page.against is not None:
        sections += _differences(facts, page.against)
    sections += _beside_papers(facts)
    sections += _cost(facts)
    sections += _origin(facts)
    return "\n\n".join(sections) + "\n"


def _gather(page: Page, records: Sequence[Record]) -> _Facts:
    sets = [entry.name for entry in page.entries]
    labelled = [record for record in label_records(records) if record["set"] in sets]
    present = list(dict.fromkeys(record["label"] for record in labelled))
    order = {name: place for place, name in enumerate(all_methods())}
    by_name = {record["label"]: record["method"] for record in labelled}
    present.sort(key=lambda label: (order.get(by_name[label], len(order)), label))
    wanted = page.methods or present
    chosen = [label for label in present if label in wanted or by_name[label] in wanted]
    absent = [name for name in wanted if name not in chosen and name not in {by_name[label] for label in chosen}]
    if absent or not chosen:
        problem = "has no results on these sets"
        reject("methods", absent or list(wanted), problem, "run it first: python -m benchmarks.tables run")
    if page.against is not None and page.against not in chosen:
        reject("against", page.against, "is not on the page", f"choose from {', '.join(chosen)}")
    kept = [record for record in labelled if record["label"] in chosen]
    failed: dict[tuple[str, str], int] = {}
    for record in kept:
        if record["status"] != "ok":
            key = record["set"], record["label"]
            failed[key] = failed.get(key, 0) + 1
    grid = make_grid(kept, sets, chosen, page.metric)
    return _Facts(page, grid, kept, _printed(page, sets), failed)


def _printed(page: Page, sets: Sequence[str]) -> dict[Source, dict[str, Figure]]:
    """Return the figures of those methods of the papers that stand for one of ours, in the page's metric."""
    if page.metric not in FIGURES:
        return {}
    names = dict.fromkeys(method.paper_name for method in all_methods().values() if method.paper_name)
    sources = [Source(name, parameters) for name in names for parameters in page.parameters]
    found = {source: figures_of(source, sets, page.papers, page.metric) for source in sources}
    return {source: figures for source, figures in found.items() if figures}


def _protocol(facts: _Facts) -> str:
    seeds = {seed for scores in facts.grid.scores.values() for seed in scores}
    shares = sorted({test_fraction(entry) for entry in facts.page.entries})
    parts = " or ".join(f"{1 - share:.0%} for training and {share:.0%} for the score" for share in shares)
    text = (
        f"Mean and standard deviation over {_count(len(seeds), 'seed')}. A seed splits the rows of a set into {parts}, "
        "classes in proportion, the same for every method. Methods run at their defaults."
    )
    limits = {record["depth_limit"] for record in facts.records} - {""}
    if limits:
        limited = dict.fromkeys(record["label"] for record in facts.records if record["depth_limit"])
        text += f" Depth limit of {', '.join(limited)}: {', '.join(sorted(limits, key=int))}."
    if facts.printed:
        source = "thesis" if facts.page.metric == "macro_f1" else "paper"
        text += f" Columns marked “paper” are the {source}'s figures, on its own splits and preprocessing."
    return text


def _main_table(facts: _Facts) -> str:
    grid, printed = facts.grid, facts.printed
    papers = [f"paper: {source.method}, {source.parameters}" for source in printed]
    rows = []
    for entry in facts.page.entries:
        ours = [_cell(facts, entry.name, method) for method in grid.methods]
        theirs = [_figure(figures.get(entry.name)) for figures in printed.values()]
        rows.append([f"{entry.name}{' †' if entry.deviates else ''}", *ours, *theirs])
    common = grid.common_sets
    if common:
        means = [grid.overall(method, common) for method in grid.methods]
        their_means = [[figures[name].mean for name in common if name in figures] for figures in printed.values()]
        shown = [f"{np.mean(each):.3f} ({_count(len(each), 'set')})" if each else NOTHING for each in their_means]
        ours = [NOTHING if each is None else number(each.mean) for each in means]
        rows.append([bold(f"mean of {_count(len(common), 'set')}"), *ours, *shown])
        wins = grid.wins(common)
        rows.append([bold("best on"), *(str(wins[method]) for method in grid.methods), *[""] * len(printed)])
    return table(["set", *grid.methods, *papers], rows)


def _cell(facts: _Facts, name: str, method: str) -> str:
    cell, failed = facts.grid.cell(name, method), facts.failed.get((name, method), 0)
    if cell is None:
        return "failed" if failed else NOTHING
    text = bold(plus_minus(number(cell.mean), cell.std), method in facts.grid.best(name))
    most = max(len(scores) for scores in facts.grid.scores.values())
    return text if cell.n == most else f"{text} ({_count(cell.n, 'seed')})"


def _figure(figure: Figure | None) -> str:
    return NOTHING if figure is None else plus_minus(number(figure.mean), figure.std)


def _footnotes(facts: _Facts) -> list[str]:
    notes = []
    common = facts.grid.common_sets
    left_out = [name for name in facts.grid.sets if name not in common]
    text = f"Bold: the best mean of a row{', papers apart' if facts.printed else ''}."
    if left_out and common:
        text += f" The last two rows leave out sets that not all methods have run with the same seeds: {len(left_out)}."
    notes.append(text)
    if any(entry.deviates for entry in facts.page.entries):
        notes.append("† The set is known to differ from the papers' table in rows, columns or labels.")
    if facts.printed:
        tables = {figure.table for figures in facts.printed.values() for figure in figures.values()}
        work = "GET's paper" if facts.page.metric == "r2" else "S. Marton's thesis"
        numbers = ", ".join(sorted(tables, key=_table_order))
        notes.append(f"Papers' figures: {work}, table{'' if len(tables) == 1 else 's'} {numbers}.")
    return notes


def _table_order(name: str) -> tuple[bool, str, int]:
    """Order tables as the thesis does, chapters, then appendices, each by number; a paper's have a number only."""
    chapter, _, place = name.rpartition(".")
    return not chapter.isdigit(), chapter, int(place)


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _differences(facts: _Facts, opponent: str) -> list[str]:
    grid = facts.grid
    pairs = {method: grid.against(method, opponent) for method in grid.methods if method != opponent}
    rows, details = [], {name: [name] for name in grid.sets}
    heads = ["set"]
    for method, paired in pairs.items():
        if paired is None:
            continue
        overall = paired.overall
        counts = [str(each) for each in (overall.n, paired.better, paired.equal, paired.worse)]
        rows.append([method, signed(overall.mean), number(overall.error), *counts])
        heads.append(method)
        for name in grid.sets:
            each = paired.by_set.get(name)
            details[name].append(NOTHING if each is None else plus_minus(signed(each.mean), each.error))
    if not rows:
        return []
    explained = (
        f"Each method minus {opponent} on the same rows; positive is better for the method. The standard error of the "
        "whole is over sets, that of a set over seeds; seeds share rows, which makes the latter too small."
    )
    total = table(["method", "difference", "standard error", "sets", "better", "equal", "worse"], rows)
    return [f"## Difference to {opponent}", explained, total, table(heads, list(details.values()))]


def _beside_papers(facts: _Facts) -> list[str]:
    rows = []
    methods = {record["label"]: all_methods().get(record["method"]) for record in facts.records}
    for label in facts.grid.methods:
        method = methods[label]
        for source, figures in facts.printed.items():
            if method is None or method.paper_name != source.method:
                continue
            ours = {name: facts.grid.cell(name, label) for name in figures}
            pairs = [(cell.mean, figures[name].mean) for name, cell in ours.items() if cell is not None]
            if pairs:
                gap = spread([our - their for our, their in pairs])
                means = [number(float(np.mean(column))) for column in zip(*pairs, strict=True)]
                cells = [f"{source.method}, {source.parameters}", str(gap.n), *means]
                rows.append([label, *cells, signed(gap.mean), number(gap.error)])
    if not rows:
        return []
    heads = ["method", "paper's", "sets", "mean here", "mean there", "difference", "standard error"]
    text = "Means over the sets that both have. The papers split and prepared the sets in their own way."
    return ["## Beside the papers' figures", text, table(heads, rows)]


def _cost(facts: _Facts) -> list[str]:
    rows = []
    for method in facts.grid.methods:
        runs = [record for record in facts.records if record["label"] == method and record["status"] == "ok"]
        if not runs:
            continue
        seconds = {name: [float(run[name]) for run in runs] for name in ("fit_seconds", "predict_seconds")}
        sizes = [[float(run[name]) for run in runs if run[name]] for name in ("leaves", "depth")]
        means = [number(float(np.mean(values)), 1) if values else NOTHING for values in sizes]
        fit, predict = seconds["fit_seconds"], seconds["predict_seconds"]
        times = [number(float(np.median(fit))), number(max(fit)), number(float(np.median(predict)))]
        rows.append([method, str(len(runs)), *times, *means])
    heads = ["method", "runs", "fit, median s", "fit, longest s", "predict, median s", "mean leaves", "mean depth"]
    threads = sorted({record["threads"] for record in facts.records}, key=int)
    text = f"Encoding is part of fitting and predicting. Threads per run: {', '.join(threads)}."
    return ["## Time and size", text, table(heads, rows)]


def _origin(facts: _Facts) -> list[str]:
    commands = dict.fromkeys(record["command"] for record in facts.records if record["command"])
    versions = sorted({part for record in facts.records for part in record["versions"].split("; ") if part})
    lines = ["## Origin", "```sh\n" + "\n".join(commands) + "\n```", f"Versions: {', '.join(versions)}."]
    errors = [
        f"- {record['label']} on {record['set']}, seed {record['seed']}: `{record['error'].replace('`', chr(39))}`"
        for record in facts.records
        if record["status"] != "ok"
    ]
    return [*lines, "## Failed", "\n".join(errors)] if errors else lines
