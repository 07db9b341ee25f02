"""The pieces of a page: cards, tables, bars and small charts as HTML that needs nothing from outside."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hardwood._typing import Float, Int
from hardwood.draw._colour import class_colour
from hardwood.draw._label import visible, xml
from hardwood.draw._number import number, percent

_STYLE = """
:root { color-scheme: light dark; --ground: #f4f6f8; --card: #ffffff; --line: #d9dfe6; --ink: #1c2430;
  --muted: #5f6b7a; --accent: #3b82c4; }
@media (prefers-color-scheme: dark) { :root { --ground: #0c1015; --card: #12171e; --line: #2b3542; --ink: #e8edf3;
  --muted: #9aa7b5; --accent: #5b9fdc; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--ground); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, Helvetica, Arial, sans-serif; }
main { max-width: 1360px; margin: 0 auto; padding: 28px 20px 60px; }
h1 { font-size: 26px; margin: 0; overflow-wrap: anywhere; }
h2 { font-size: 18px; margin: 32px 0 10px; }
p { margin: 6px 0; } .muted { color: var(--muted); }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(140px, 1fr)); gap: 12px; margin-top: 18px; }
.card, .picture, details, table { background: var(--card); border: 1px solid var(--line);
  border-radius: 10px; }
.card { padding: 12px 14px; } .card b { display: block; font-size: 24px; font-weight: 650; }
.card span { color: var(--muted); font-size: 13px; }
.scroll { overflow: auto; } .scroll > svg { display: block; width: 100%; height: auto; margin: 0 auto; }
details { padding: 10px 14px; margin-top: 12px; } summary { cursor: pointer; font-weight: 600; }
pre { overflow: auto; font: 13px/1.55 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; margin: 10px 0 2px; }
table { border-collapse: separate; border-spacing: 0; padding: 6px; }
th, td { padding: 5px 12px; text-align: right; font-variant-numeric: tabular-nums; }
th { font-weight: 600; } th[scope=row], th:first-child { text-align: left; max-width: 360px; overflow-wrap: anywhere; }
td.hit { border-radius: 6px; } .bar { display: block; height: 10px; border-radius: 5px; background: var(--accent);
  min-width: 2px; } td.wide { width: 260px; }
"""


def page(title: str, body: str) -> str:
    """Wrap a body in a complete page. Its policy lets no script run and nothing be fetched, whatever a name holds."""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{shown(title)}</title>\n<style>{_STYLE}</style>\n</head>\n"
        f"<body>\n<main>\n{body}\n</main>\n</body>\n</html>\n"
    )


def shown(text: object) -> str:
    """Return any text as HTML that shows it."""
    return xml(visible(str(text)))


def section(heading: str, body: str) -> str:
    """Return a part of the page under a heading."""
    return f"<section>\n<h2>{shown(heading)}</h2>\n{body}\n</section>"


def cards(entries: Sequence[tuple[str, str]]) -> str:
    """Return a row of large numbers with what they are."""
    inside = "\n".join(
        f'<div class="card"><b>{shown(value)}</b><span>{shown(name)}</span></div>' for value, name in entries
    )
    return f'<div class="cards">\n{inside}\n</div>'


def bars(heads: Sequence[str], entries: Sequence[tuple[str, Sequence[str], float]]) -> str:
    """Return a table with a bar in each row: (name, cells, share of the longest bar)."""
    head = "".join(f'<th scope="col">{shown(each)}</th>' for each in heads)
    rows = [
        f'<tr><th scope="row">{shown(name)}</th>{"".join(f"<td>{shown(cell)}</td>" for cell in cells)}'
        f'<td class="wide"><span class="bar" style="width:{100 * share:.1f}%"></span></td></tr>'
        for name, cells, share in entries
    ]
    return f"<table><thead><tr>{head}<td></td></tr></thead><tbody>\n{''.join(rows)}\n</tbody></table>"


def confusion_table(names: Sequence[str], confusion: Int[np.ndarray, "classes classes"]) -> str:
    """Return the confusion matrix: a row for each true class, shaded by its share of that class."""
    head = "".join(f'<th scope="col">{shown(name)}</th>' for name in names)
    rows = []
    for i, name in enumerate(names):
        total = max(int(confusion[i].sum()), 1)
        cells = []
        for j, count in enumerate(confusion[i].tolist()):
            shade = f"background:{class_colour(j)}{round(160 * count / total):02x}"
            cells.append(f'<td class="hit" style="{shade}">{count:,}</td>')
        rows.append(
            f'<tr><th scope="row">{shown(name)}</th>{"".join(cells)}<td>{percent(confusion[i, i] / total)}</td></tr>'
        )
    corner = '<th scope="col" class="muted">true \\ predicted</th>'
    body = "\n".join(rows)
    return f'<table><thead><tr>{corner}{head}<th scope="col">found</th></tr></thead><tbody>\n{body}\n</tbody></table>'


def histogram(values: Float[np.ndarray, " values"], what: str) -> str:
    """Return a small histogram as SVG."""
    counts, edges = np.histogram(values, bins=min(30, max(5, round(len(values) ** 0.5))))
    wide, high = 420, 130
    step = wide / len(counts)
    tallest = max(int(counts.max()), 1)
    blocks = []
    for k, count in enumerate(counts.tolist()):
        tall = high * count / tallest
        place = f'x="{k * step + 0.5:.1f}" y="{high - tall:.1f}" width="{step - 1:.1f}" height="{tall:.1f}"'
        tip = f"{number(edges[k], 4)} to {number(edges[k + 1], 4)}: {count:,}"
        blocks.append(f'<rect {place} fill="{class_colour(0)}"><title>{tip}</title></rect>')
    style = f'y="{high + 16}" font-size="12" fill="currentColor"'
    ends = f'<text x="0" {style}>{number(edges[0], 4)}</text>'
    ends += f'<text x="{wide}" {style} text-anchor="end">{number(edges[-1], 4)}</text>'
    return (
        f'<svg width="{wide}" height="{high + 20}" viewBox="0 0 {wide} {high + 20}" role="img" '
        f'aria-label="{shown(what)}">{"".join(blocks)}{ends}</svg>'
    )
