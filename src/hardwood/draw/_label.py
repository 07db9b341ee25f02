"""Names from data, made safe to show: nothing in them can break a line, turn the text around, or be executed."""

from __future__ import annotations

import unicodedata
from xml.sax.saxutils import escape

# What a rule itself is written with: a name that holds one of these is put in quotes.
_OPERATORS = frozenset('<>=,:{}*"\\')
_FIRST_STRONG_ISOLATE, _POP_ISOLATE = "\u2068", "\u2069"
_QUOTE = str.maketrans({'"': '\\"', "\\": "\\\\"})


def visible(name: str) -> str:
    """Return a name on one line, with each character that is not shown (or turns the text) as its escape.

    >>> visible("two\\nlines"), visible("\\u202eevil")
    ('two\\\\nlines', '\\\\u202eevil')
    """
    return "".join(_escaped(letter) if unicodedata.category(letter)[0] in "CZ" else letter for letter in name)


def _escaped(letter: str) -> str:
    # A zero-width joiner holds emoji and letters of some scripts together; a plain space is a space.
    if letter in " \u200d\u200c":
        return letter
    return letter.encode("unicode_escape", "surrogatepass").decode("ascii")


def label(name: object, limit: int | None = None) -> str:
    """Return a name as it stands in a rule: visible, in quotes where it could be misread, at most `limit` characters.

    A name with right-to-left letters is isolated, so that the rule around it keeps its order.

    >>> label("Fare"), label("a < b"), label(""), label("abcdefgh", 5)
    ('Fare', '"a < b"', '""', 'abcd…')
    """
    text = str(name)
    if not text or text != text.strip() or not _OPERATORS.isdisjoint(text):
        text = f'"{text.translate(_QUOTE)}"'
    text = visible(text)
    if limit is not None and len(text) > limit:
        text = text[: limit - 1] + "…"
    if any(unicodedata.bidirectional(letter) in ("R", "AL", "AN") for letter in text):
        text = f"{_FIRST_STRONG_ISOLATE}{text}{_POP_ISOLATE}"
    return text


def xml(text: str) -> str:
    """Return text as XML or HTML content, or as the value of an attribute in double quotes.

    >>> xml('<script>"&')
    '&lt;script&gt;&quot;&amp;'
    """
    return escape(text, {'"': "&quot;"})


def width(text: str, size: float = 13.0) -> float:
    """Estimate how wide a text is in pixels in DejaVu Sans; few common sans-serif faces are wider."""
    return size * sum(_em(letter) for letter in text)


_NARROW, _HALF, _WIDE = (
    frozenset("ijlIJ|'\u00b7.,:;! "),
    frozenset('ftr-()[]/\\"*'),
    frozenset("mwMW@%…—<>=≤≥+~^#&QOGD∅"),
)


def _em(letter: str) -> float:
    if unicodedata.combining(letter) or unicodedata.category(letter) == "Cf":
        return 0.0
    if unicodedata.east_asian_width(letter) in "WF":
        return 1.0
    if letter in _NARROW:
        return 0.31
    if letter in _HALF:
        return 0.41
    if letter in _WIDE:
        return 0.97 if letter in "mMW@%…—" else 0.81
    return 0.70 if letter.isupper() else 0.625
