"""The command line: run, render, timing."""

from __future__ import annotations

import argparse
import platform
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.tables import timing
from benchmarks.tables.campaign import plan, run_cells
from benchmarks.tables.methods import all_methods, find_methods
from benchmarks.tables.render import Page, render
from benchmarks.tables.scores import METRICS
from benchmarks.tables.sets import DATA, SUITES, choose, find_suites, read_index
from benchmarks.tables.store import Store

from hardwood.errors import HardwoodError, reject

RESULTS = Path(__file__).resolve().parents[1] / "results"


def main(arguments: Sequence[str] | None = None) -> None:
    given = sys.argv[1:] if arguments is None else list(arguments)
    options = _parser().parse_args(given)
    try:
        options.action(options, given)
    except HardwoodError as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        sys.exit("stopped; the same command goes on from here")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tables", description="The papers' tables.")
    actions = parser.add_subparsers(required=True, metavar="run, render or timing")

    run = actions.add_parser("run", help="run methods on sets; finished cells are skipped")
    _add_sets(run)
    run.add_argument("--methods", nargs="+", required=True, metavar="NAME", help=", ".join(all_methods()))
    run.add_argument("--seeds", type=int, default=5, help="how many splits: seeds 0, 1, ... (5)")
    run.add_argument("--depth", type=int, default=8, help="depth limit of the methods that have one (8)")
    run.add_argument("--jobs", type=int, default=1, help="processes; 0 runs in this one (1)")
    run.add_argument("--threads", type=int, default=1, help="threads of each process (1)")
    run.add_argument("--out", type=Path, default=RESULTS / "tables.csv", help="benchmarks/results/tables.csv")
    run.add_argument("--retry", action="store_true", help="run failed cells again")
    run.set_defaults(action=_run)

    page = actions.add_parser("render", help="make a Markdown page of the results")
    _add_sets(page)
    page.add_argument("--methods", nargs="+", default=[], metavar="NAME", help="default: all that have results")
    page.add_argument("--metric", default=None, help=f"{', '.join(METRICS)}; default: macro_f1, or r2")
    page.add_argument(
        "--against", default=None, metavar="METHOD", help="show the difference of each method to this one"
    )
    page.add_argument(
        "--parameters", nargs="*", choices=["default", "tuned"], default=["default", "tuned"],
        help="which of the papers' figures to show; none, one or both",
    )  # fmt: skip
    page.add_argument("--name", default=None, help="of the page; default: the suite's")
    page.add_argument("--out", type=Path, default=RESULTS / "tables.csv", help="the results to read")
    page.set_defaults(action=_render)

    times = actions.add_parser("timing", help="time fitting on one set, all cores, methods in turns")
    times.add_argument("set", metavar="SET", help="for example adult")
    times.add_argument("--data", type=Path, default=DATA, help="the folder of INDEX.csv")
    times.add_argument("--methods", nargs="+", default=list(timing.METHODS), metavar="NAME")
    times.add_argument("--turns", type=int, default=3)
    times.add_argument("--depth", type=int, default=8)
    times.set_defaults(action=_timing)
    return parser


def _add_sets(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--suite", nargs="+", default=[], metavar="NAME", help=", ".join(SUITES))
    parser.add_argument("--sets", nargs="+", default=[], metavar="NAME", help="sets by name, beside those of a suite")
    parser.add_argument("--data", type=Path, default=DATA, help="the folder of INDEX.csv (../shared/data)")


def _run(options: argparse.Namespace, given: list[str]) -> None:
    entries = choose(read_index(options.data), options.suite, options.sets)
    cells = plan(entries, find_methods(options.methods), options.seeds, options.depth)
    outcome = run_cells(
        cells, options.data, Store(options.out), command=_shown(given), jobs=options.jobs, threads=options.threads,
        retry=options.retry,
    )  # fmt: skip
    print(f"{outcome.finished} finished, {outcome.failed} failed, {outcome.skipped} were there already")


def _render(options: argparse.Namespace, given: list[str]) -> None:
    entries = choose(read_index(options.data), options.suite, options.sets)
    regression = {entry.task == "regression" for entry in entries}
    if len(regression) == 2:
        reject("sets", options.sets, "mixes regression with classification", "render them one after the other")
    metric = options.metric or ("r2" if True in regression else "macro_f1")
    suites = find_suites(options.suite)
    titles = [suite.title for suite in suites]
    if options.sets:
        titles.append(f"{len(options.sets)} set{'s' * (len(options.sets) > 1)} by name")
    # For sets by name alone, as for all of them.
    papers = dict.fromkeys(paper for suite in suites or SUITES.values() for paper in suite.papers)
    page = Page(
        " and ".join(titles), entries, metric, options.methods, options.against, list(papers), options.parameters
    )
    text = render(page, Store(options.out).records())
    target = options.out.parent / f"{options.name or '-'.join(options.suite) or 'sets'}.md"
    target.write_text(text, encoding="utf-8")
    print(target.name)


def _timing(options: argparse.Namespace, given: list[str]) -> None:
    from hardwood._numba import available_threads

    (entry,) = choose(read_index(options.data), names=[options.set])
    methods, threads = find_methods(options.methods), available_threads()
    seconds = timing.time_fits(entry, methods, options.data, turns=options.turns, threads=threads, depth=options.depth)
    print(_shown(given))
    print(f"{platform.machine()}, {threads} threads, Python {platform.python_version()};", end=" ")
    print("; ".join(method.versions() for method in methods))
    print(timing.timing_table(seconds))


def _shown(given: Sequence[str]) -> str:
    """Return the command as it stands with the results: a path is cut to its name, since it means nothing elsewhere."""
    words = [Path(word).name if Path(word).is_absolute() else word for word in given]
    return shlex.join(["python", "-m", "benchmarks.tables", *words])
