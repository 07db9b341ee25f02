"""A tree as a picture: one SVG, drawn without any other program."""

from __future__ import annotations

from typing import Any

from hardwood.draw._colour import DARK_STYLE, PAINT
from hardwood.draw._label import width, xml
from hardwood.draw._picture import MOST_DEPTH, MOST_NODES, Wanted, picture
from hardwood.draw._scene import Box, Branch, Line, Node, Scene
from hardwood.forest import Forest

_BOLD = 1.12  # how much wider bold letters are


def svg(
    forest: Forest,
    tree: int = 0,
    *,
    max_depth: int | None = MOST_DEPTH,
    max_nodes: int | None = MOST_NODES,
    X: Any = None,
    y: Any = None,
    row: Any = None,
    title: str | None = None,
) -> str:
    """Draw one tree as an SVG picture with the root on the left; the upper branch is the left child.

    Each split shows its column, each branch its condition; a branch marked ∅ also takes missing values. Leaves wear
    the colour of their class, with a bar of the class shares, or a shade for their value. The mouse over a node shows
    the exact rule in full names. The colours follow the reader's light or dark theme.

    Given rows `X`, branches are as thick as the share of them that takes them. With their true answers `y`, every node
    shows which classes its rows have, as a bar, or how their values spread, as a histogram. The way of one `row` (its
    cells, or a data frame of one row) is drawn dark, with what the row has at each split.

    Branches are folded below `max_depth` splits, and in trees of more than `max_nodes` nodes where the fewest rows go
    (without rows, where the tree is deepest); a folded branch says how many leaves it has, and the way of `row` is
    never folded. None draws all.

    The result is a complete SVG document without scripts, fonts or links. Names are shown as text, whatever is in them.
    """
    return _document(picture(forest, Wanted(tree, max_depth, max_nodes, X, y, row, title), estimate))


def picture_in_page(forest: Forest, tree: int, X: Any, y: Any = None) -> str:
    """Draw one tree for a page: a wide one shrinks with the page as far as it stays legible."""
    return _document(picture(forest, Wanted(tree, X=X, y=y), estimate), shrinks=True)


def estimate(text: str, size: float, bold: bool) -> float:
    """Estimate how wide a text is: nobody knows the reader's fonts."""
    return width(text, size) * (_BOLD if bold else 1.0)


def _document(scene: Scene, shrinks: bool = False) -> str:
    wide, high = f"{scene.wide:.0f}", f"{scene.high:.0f}"
    style = f' style="min-width:{0.7 * scene.wide:.0f}px;max-width:{wide}px"' if shrinks else ""
    body = "\n".join(_drawn(part) for part in scene.parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide}" height="{high}" viewBox="0 0 {wide} {high}" '
        f'role="img" aria-label="{xml(scene.spoken)}"{style} '
        'font-family="system-ui, -apple-system, Segoe UI, Roboto, Helvetica, Arial, sans-serif">\n'
        f"<style>{DARK_STYLE}</style>\n"
        f'<rect width="{wide}" height="{high}" rx="12" {PAINT["ground"]}/>\n'
        f"{body}\n</svg>\n"
    )


def _drawn(part: Box | Branch | Line | Node) -> str:
    match part:
        case Box():
            return _box(part)
        case Branch():
            return _branch(part)
        case Line():
            return _line(part)
        case Node():
            return f"<g><title>{xml(part.remark)}</title>{''.join(_drawn(each) for each in part.parts)}</g>"


def _box(box: Box) -> str:
    place = f'x="{box.x:.2f}" y="{box.y:.1f}" width="{box.wide:.2f}" height="{box.high:.4g}"'
    round_by = f' rx="{box.radius:g}"' if box.radius else ""
    opacity = f' fill-opacity="{box.opacity:g}"' if box.opacity != 1 else ""
    dashes = ' stroke-dasharray="4 3"' if box.dashed else ""
    paint = PAINT.get(box.paint, f'fill="{box.paint}"{opacity}')
    if box.outline is not None:
        stroke = f'stroke="{box.outline}"'
        paint += f' {PAINT.get(box.outline, stroke)} stroke-width="{box.thick:g}"'
    return f"<rect {place}{round_by} {paint}{dashes}/>"


def _branch(branch: Branch) -> str:
    end, middle = branch.bend + branch.bent, branch.bend + branch.bent / 2
    curve = f"C{middle:.1f} {branch.y0:.1f} {middle:.1f} {branch.y1:.1f} {end:.1f} {branch.y1:.1f}"
    line = f"M{branch.x0:.1f} {branch.y0:.1f}H{branch.bend:.1f}{curve}H{branch.x1:.1f}"
    return f'<path d="{line}" fill="none" stroke-width="{branch.thick:.1f}" {PAINT[branch.paint]}/>'


def _line(line: Line) -> str:
    weight = ' font-weight="bold"' if line.bold else ""
    anchor = ' text-anchor="end"' if line.anchor == "end" else ""
    tail = f"<tspan {PAINT['muted']}>{xml(line.tail)}</tspan>" if line.tail else ""
    place = f'x="{line.x:.1f}" y="{line.y:.1f}" font-size="{line.size:g}"'
    return f"<text {place}{weight}{anchor} {PAINT[line.paint]}>{xml(line.text)}{tail}</text>"
