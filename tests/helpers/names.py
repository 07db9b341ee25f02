"""Names that try to break out of the text that they are written in."""

from __future__ import annotations

from hypothesis import strategies as st

EVIL_NAMES = (
    "plain",
    '"; DROP TABLE data; --',
    "'; DROP TABLE data; --",
    "*/ int main(){",
    "/* open",
    '"""',
    "'''",
    "two\nlines\r\nand\u2028more\x85",
    "NUL\0 inside",
    "\u202egnirts\u2066 \u05d0\u05d1",
    "trigraph ??/ and ??' and ??)",
    "back\\slash\\",
    "\\",
    "line // # -- comment",
    "{braces} {0} %s %d $p $PREFIX",
    "größe in 日本語 🌲",
    "half of a pair \ud800",
    "',); import os; os.abort(); (",
    " \t ",
    "x" * 70,
)


def names() -> st.SearchStrategy[str]:
    """Draw any text, and text made of the pieces that languages give a meaning to."""
    pieces = st.sampled_from(
        [
            '"',
            "'",
            "\\",
            "*/",
            "/*",
            "*",
            "/",
            "??",
            "?",
            "/",
            "\n",
            "\r",
            "\0",
            "--",
            "#",
            "{",
            "}",
            "$p",
            "$",
            "a",
            "0",
            "é",
        ]
    )
    return st.text(st.characters(), max_size=20) | st.lists(pieces, max_size=8).map("".join)
