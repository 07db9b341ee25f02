"""How three databases write names, numbers and words, and what a missing value is in each."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from hardwood.errors import reject

_LARGEST_STEP = 62  # 2**62 is an integer of 64 bits


@dataclass(frozen=True)
class Dialect:
    """One database's SQL."""

    name: str
    title: str
    double: str  # the type of numbers
    greatest: str  # the function of several arguments
    most_arguments: int
    most_columns: int
    # DuckDB makes a join of every IN with more constants, which takes minutes for a tree.
    most_words: int

    # ------------------------------------------------------------ names and words

    def identifier(self, name: object, argument: str) -> str:
        """Return a quoted name of a table or column."""
        if not isinstance(name, str) or not name:
            reject(argument, name, "is no name of a table or column", "pass a string that is not empty")
        self._check_text(name, argument)
        if self.name == "postgresql" and len(name.encode()) > 63:
            remedy = "rename it, or pass the name that the table has"
            reject(argument, name, "is longer than the 63 bytes that PostgreSQL reads of a name", remedy)
        doubled = name.replace('"', '""')
        return f'"{doubled}"'

    def word(self, text: str, argument: str) -> str:
        """Return a string constant."""
        self._check_text(text, argument)
        quoted = text.replace("'", "''")
        if self.name == "postgresql" and "\\" in text:
            # An E-string means the same whatever the server's standard_conforming_strings.
            doubled = quoted.replace("\\", "\\\\")
            return f"E'{doubled}'"
        return f"'{quoted}'"

    def _check_text(self, text: str, argument: str) -> None:
        if "\0" in text:
            reject(argument, text, "has a NUL character, which SQL text cannot hold", "rename it")
        if any("\ud800" <= letter <= "\udfff" for letter in text):
            reject(argument, text, "has half of a surrogate pair, which is no Unicode", "rename it")

    def label(self, value: object) -> str:
        """Return a class label as a constant of its own type."""
        if isinstance(value, str):
            return self.word(value, "classes")
        if isinstance(value, bool):
            return str(int(value)) if self.name == "sqlite" else str(value).upper()
        return str(value) if isinstance(value, int) else self.number(float(str(value)))

    # ------------------------------------------------------------ numbers

    def number(self, value: float) -> str:
        """Return a number as an expression that is exactly this double."""
        if self.name == "sqlite":
            return _sqlite_number(value)
        if self.name == "postgresql":
            text = repr(value) if math.isfinite(value) else "Infinity" if value > 0 else "-Infinity"
            return f"{self.double} '{text}'"
        if math.isinf(value):
            return f"CAST('{value}' AS {self.double})"
        text = repr(value)  # with an exponent DuckDB reads a double, without one a decimal
        return text if "e" in text else f"{text}e0"

    def cell(self, column: str, kind: str) -> str:
        """Return a column as a double, NULL where it is missing."""
        if self.name == "sqlite":
            # SQLite stores NaN as NULL; text in a column of numbers would be cast to 0.
            return f"CASE WHEN typeof({column}) IN ('integer', 'real') THEN CAST({column} AS REAL) END"
        if kind == "datetime":
            column = f"EXTRACT(EPOCH FROM {column})" if self.name == "postgresql" else f"epoch({column})"
        elif kind == "bool":
            column = f"CAST({column} AS INTEGER)"
        # NaN equals NaN in both databases, and is larger than all other numbers.
        nan = f"{self.double} 'NaN'" if self.name == "postgresql" else f"CAST('nan' AS {self.double})"
        return f"NULLIF(CAST({column} AS {self.double}), {nan})"

    def text_cell(self, column: str) -> str:
        """Return a column as text that compares letter by letter, whatever the collation of the column."""
        if self.name == "sqlite":
            return f"CASE WHEN typeof({column}) = 'text' THEN {column} END COLLATE BINARY"
        if self.name == "postgresql":
            return f'CAST({column} AS text) COLLATE "C"'
        return f'CAST({column} AS VARCHAR) COLLATE "binary"'

    # ------------------------------------------------------------ functions

    def exp(self, power: str) -> str:
        """Return the exponential of a column; PostgreSQL raises errors where it leaves the range of doubles."""
        if self.name != "postgresql":
            return f"exp({power})"
        # A NaN, larger than infinity there, goes through.
        low, high, most = (self.number(each) for each in (-745.0, math.log(sys.float_info.max), math.inf))
        past = f"WHEN {power} > {high} AND {power} <= {most} THEN {most}"
        return f"CASE WHEN {power} < {low} THEN {self.number(0.0)} {past} ELSE exp({power}) END"

    def largest(self, terms: Sequence[str]) -> str:
        """Return the largest of some columns."""
        terms = list(terms)
        while len(terms) > 1:
            groups = [terms[at : at + self.most_arguments] for at in range(0, len(terms), self.most_arguments)]
            terms = [f"{self.greatest}({', '.join(group)})" if len(group) > 1 else group[0] for group in groups]
        return terms[0]


DIALECTS = {
    "duckdb": Dialect("duckdb", "DuckDB", "DOUBLE", "GREATEST", 1000, 4000, 4),
    "sqlite": Dialect("sqlite", "SQLite", "REAL", "max", 100, 2000, 1000),
    "postgresql": Dialect("postgresql", "PostgreSQL", "double precision", "GREATEST", 50, 1600, 1000),
}


def _sqlite_number(value: float) -> str:
    """Return a double for SQLite, which rounds some decimals to a neighbour: exactly, if need be as a quotient.

    Integers below 2**53, powers of two, and products and quotients with powers of two are exact.
    """
    if math.isinf(value):
        return "9e999" if value > 0 else "-9e999"
    decimal = Decimal(repr(value))
    sign, digits, exponent = decimal.as_tuple()
    assert isinstance(exponent, int)
    if Fraction(decimal) == Fraction(value) and len(digits) <= 15 and -15 <= exponent <= 0:
        text = f"{decimal:f}"
        return text if "." in text else f"{text}.0"
    numerator, denominator = abs(value).as_integer_ratio()
    power = denominator.bit_length() - 1
    operator = " / "
    if power == 0:
        power = (numerator & -numerator).bit_length() - 1
        numerator >>= power
        operator = " * "
    steps = [_LARGEST_STEP] * (power // _LARGEST_STEP) + [power % _LARGEST_STEP]
    factors = "".join(f"{operator}{1 << step}" for step in steps if step)
    return f"({'-' if sign else ''}{numerator}.0{factors})"
