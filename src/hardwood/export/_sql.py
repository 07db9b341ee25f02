"""A forest as one SQL query over a table."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from hardwood.errors import reject
from hardwood.export import _support
from hardwood.export._source import column_notes, comment, outcome_notes
from hardwood.export._sql_dialects import DIALECTS, Dialect
from hardwood.export._sql_trees import case, number_columns, word_columns
from hardwood.forest import Forest
from hardwood.forest._combine import summands

# So many trees are added up in one expression: SQLite refuses expressions that are nested 1,000 deep.
_TREES_TOGETHER = 50


def to_sql(
    forest: Forest,
    dialect: str = "duckdb",
    *,
    table: Any = "data",
    columns: Any = None,
    keep: Any = (),
    method: str = "predict",
) -> str:
    """Return a query that gives, for each row of a table, what the forest's method of that name gives.

    `table` is a name, or a schema and a name; `columns` are the table's columns in the order of the forest's, by
    default its `feature_names`; `keep` are columns to carry along, such as a key: rows of a table have no order. The
    result has the columns of `keep` and then `prediction` (with several outputs `prediction_0`, ...), `probability_0`,
    ... in the order of `classes`, `output_0`, ..., or `leaf_0`, ... for each tree.

    Every number is a double, and is written so that the database reads exactly that double; the table's numbers are
    cast to doubles. Outputs are those of the forest to the last bit. NULL is missing, and so is NaN: DuckDB and
    PostgreSQL have it, as a number larger than all others (the query makes it NULL), SQLite stores it as NULL.
    Categories are compared as words (text, numbers or booleans, as in the forest's vocabulary), letter by letter; an
    unknown word is missing. A column of the type "datetime" is a date or timestamp in DuckDB and PostgreSQL, and a
    number of seconds since 1970 in SQLite; "bool" is a boolean, in SQLite 0 or 1. In SQLite text in a column of numbers
    is missing.

    The query needs PostgreSQL 12, SQLite 3.35, and its `exp` where probabilities or a link need one. PostgreSQL raises
    an error where an arithmetic operation overflows, which only oblique splits and linear leaves can do. Leaf weights
    beyond 300 are refused.
    """
    _support.check(forest, "sql")
    if dialect not in DIALECTS:
        reject("dialect", dialect, "is no dialect", f"use one of {', '.join(map(repr, DIALECTS))}")
    if forest._large_weights:
        remedy = "subtract a number from all leaf weights, which changes nothing, or export to 'c' or 'python'"
        reject("forest", forest, "has leaf weights beyond 300, whose exponentials SQL cannot add up", remedy)
    return _Query(forest, DIALECTS[dialect], table, columns, keep).text(method)


class _Query:
    """The parts of one query: `inputs`, then sums over trees, some trees at a time, then what is selected."""

    def __init__(self, forest: Forest, dialect: Dialect, table: Any, columns: Any, keep: Any) -> None:
        self.forest, self.dialect = forest, dialect
        self.table = _table(dialect, table)
        self.columns = _columns(forest, dialect, columns)
        if isinstance(keep, str):
            reject("keep", keep, "is a string", "pass a list of column names")
        self.keep = [dialect.identifier(name, "keep") for name in keep]
        self.linear = _support.has_linear_leaves(forest)
        self.by_word, self.by_number = word_columns(forest), number_columns(forest, self.linear)
        self.vocabularies = {
            column: _words(dialect, column, words)
            for column, words in forest.categories.items()
            if column in self.by_word or column in self.by_number
        }
        self.kept = [f"k{k}" for k in range(len(self.keep))]
        self.cells = [f"w{column}" for column in self.by_word] + [f"x{column}" for column in self.by_number]
        self.tables: list[str] = []
        self.last = ""

    def text(self, method: str) -> str:
        """Return the query for one of the forest's methods."""
        if method not in ("predict", "predict_proba", "outputs", "apply"):
            reject("method", method, "is no method", "use 'predict', 'predict_proba', 'outputs' or 'apply'")
        if method == "predict_proba" and self.forest.classes is None:
            reject("method", method, "needs a forest with classes", "use 'predict': it predicts numbers")
        self._inputs()
        if method == "apply":
            selected = self._leaves()
        else:
            outputs = self._outputs()
            selected = outputs if method == "outputs" else self._predictions(outputs, method)
        if len(selected) + len(self.keep) > self.dialect.most_columns:
            problem = f"would give {len(selected)} columns, and {self.dialect.title} allows {self.dialect.most_columns}"
            reject("forest", self.forest, problem, "select some of its trees, or use another method")
        kept = [f"{short} AS {name}" for short, name in zip(self.kept, self.keep, strict=True)]
        lines = kept + [f"{value} AS {name}" for name, value in selected.items()]
        with_tables = ",\n".join(self.tables)
        return f"{self._about()}WITH {with_tables}\nSELECT\n    " + ",\n    ".join(lines) + f"\nFROM {self.last}\n"

    def _about(self) -> str:
        lines = [f"{comment(repr(self.forest))}, written by hardwood for {self.dialect.title}"]
        for title, notes in (("columns x", column_notes(self.forest)), ("outcomes", outcome_notes(self.forest))):
            lines += [f"{title}:", *(f"    {note}" for note in notes)] if notes else []
        return "".join(f"-- {line}\n" for line in lines)

    # ------------------------------------------------------------ tables, each from the one before

    def _add(self, name: str, selected: Sequence[str], source: str | None = None) -> None:
        # Materialized, so that no expression is put into another one, and grows beyond what the database allows.
        body = ",\n        ".join(selected or ["1 AS one"])
        source = source or self.last
        self.tables.append(f"{name} AS MATERIALIZED (\n    SELECT\n        {body}\n    FROM {source}\n)")
        self.last = name

    def _inputs(self) -> None:
        selected = [f"source.{name} AS {short}" for short, name in zip(self.kept, self.keep, strict=True)]
        selected += [f"{self._cell(column)} AS w{column}" for column in self.by_word]
        for column in self.by_number:
            cell = self._cell(column)
            if column in self.vocabularies:
                words = self.vocabularies[column]
                codes = "".join(f" WHEN {word} THEN {self.dialect.number(code)}" for code, word in enumerate(words))
                cell = f"CASE {cell}{codes} END" if words else "NULL"
            selected.append(f"{cell} AS x{column}")
        self._add("inputs", selected, f"{self.table} AS source")

    def _cell(self, column: int) -> str:
        """Return a column of the table as a double, or as text for words that are text."""
        cell, words = f"source.{self.columns[column]}", self.forest.categories.get(column)
        if words is None:
            types = self.forest.feature_types
            return self.dialect.cell(cell, "float" if types is None else types[column])
        if all(isinstance(word, str) for word in words):
            return self.dialect.text_cell(cell)
        return self.dialect.cell(cell, "bool" if any(isinstance(word, bool) for word in words) else "float")

    def _leaves(self) -> dict[str, str]:
        """Return the leaf number of each tree as an expression."""
        return {
            f"leaf_{tree}": self._case(tree, lambda node, first=int(start): str(node - first))
            for tree, start in enumerate(self.forest.tree_start[:-1])
        }

    def _case(self, tree: int, says: Any) -> str:
        return case(self.forest, tree, self.dialect, self.vocabularies, says, " " * 8)

    def _outputs(self) -> dict[str, str]:
        """Add tables with the sums over trees, and return the outputs, before the link."""
        forest, number = self.forest, self.dialect.number
        values, coef = summands(forest)
        width = values.shape[1]
        start: list[str] = [""] * width
        if forest.combine == "sum" and forest.base is not None:
            start = [f"{number(each)} + " for each in forest.base.tolist()]
        for first in range(0, forest.n_trees, _TREES_TOGETHER):
            trees = range(first, min(first + _TREES_TOGETHER, forest.n_trees))
            sums = []
            for k in range(width):
                terms = (self._case(tree, lambda node, k=k: self._says(values, coef, node, k)) for tree in trees)
                sums.append(f"{start[k]}{' + '.join(terms)} AS s{k}")
            self._add(f"sums_{first // _TREES_TOGETHER}", [*self.kept, *self.cells, *sums])
            start = [f"s{k} + " for k in range(width)]
        finished = []
        for k in range(forest.n_outputs):
            total = f"s{k}"
            if forest.combine == "mean":
                total = f"s{k} / {number(float(forest.n_trees))}"
            elif forest.combine == "softmax":
                total = f"s{k} / s{width - 1}"
            if forest.combine != "sum" and forest.base is not None:
                total = f"{total} + {number(float(forest.base[k]))}"
            finished.append(f"{total} AS o{k}")
        self._add("outputs", [*self.kept, *finished])
        return {f"output_{k}": f"o{k}" for k in range(forest.n_outputs)}

    def _says(self, values: np.ndarray, coef: np.ndarray | None, node: int, k: int) -> str:
        """Write what a leaf adds: its constant and, for linear leaves, its terms in the order of the columns."""
        leaf, number = int(self.forest._leaf_index[node]), self.dialect.number
        constant = number(float(values[leaf, k]))
        if coef is None:
            return constant
        terms = [
            f"{number(float(coef[leaf, column, k]))} * COALESCE(x{column}, {number(0.0)})"
            for column in np.flatnonzero(coef[leaf, :, k]).tolist()
        ]
        return f"({' + '.join([constant, *terms])})" if terms else constant

    # ------------------------------------------------------------ predictions

    def _predictions(self, outputs: dict[str, str], method: str) -> dict[str, str]:
        forest, dialect = self.forest, self.dialect
        each = list(outputs.values())
        if method == "predict" and forest.classes is not None:
            return {"prediction": self._label(each)}
        name = "probability" if method == "predict_proba" else "prediction"
        zero, one = dialect.number(0.0), dialect.number(1.0)
        if forest.link == "softmax":
            self._add("tops", [*self.kept, *each, f"{dialect.largest(each)} AS top"])
            self._add("distances", [*self.kept, *(f"o{k} - top AS o{k}" for k in range(len(each)))])
            self._add("raised", [*self.kept, *(f"{dialect.exp(f'o{k}')} AS e{k}" for k in range(len(each)))])
            raised = [f"e{k}" for k in range(len(each))]
            self._add("wholes", [*self.kept, *raised, f"{_balanced(raised)} AS whole"])
            each = [f"e{k} / whole" for k in range(len(each))]
        elif forest.link == "sigmoid":
            self._add("distances", [*self.kept, *each, *(f"-abs(o{k}) AS d{k}" for k in range(len(each)))])
            small = [f"{dialect.exp(f'd{k}')} AS e{k}" for k in range(len(each))]
            self._add("raised", [*self.kept, *each, *small])
            each = [f"CASE WHEN o{k} >= {zero} THEN {one} ELSE e{k} END / ({one} + e{k})" for k in range(len(each))]
            if forest.classes is not None:
                each = [f"{one} - {each[0]}", each[0]]
        elif forest.link == "exp":
            each = [dialect.exp(value) for value in each]
        if len(each) == 1 and name == "prediction":
            return {name: each[0]}
        return {f"{name}_{k}": value for k, value in enumerate(each)}

    def _label(self, outputs: list[str]) -> str:
        """Write the most probable class, the first on a tie."""
        assert self.forest.classes is not None
        labels = [self.dialect.label(label) for label in self.forest.classes.tolist()]
        if self.forest.link == "sigmoid":
            positive = f"{outputs[0]} > {self.dialect.number(0.0)}"
            if self.linear:  # infinite cells can make it NaN, which is larger than infinity in two databases
                positive += f" AND {outputs[0]} <= {self.dialect.number(math.inf)}"
            return f"CASE WHEN {positive} THEN {labels[1]} ELSE {labels[0]} END"
        self._add("tops", [*self.kept, *outputs, f"{self.dialect.largest(outputs)} AS top"])
        tests = "".join(f" WHEN {value} = top THEN {label}" for value, label in zip(outputs, labels, strict=True))
        return f"CASE{tests} END"


def _balanced(terms: list[str]) -> str:
    """Add up terms in pairs, so that the expression is not deep."""
    while len(terms) > 1:
        terms = [" + ".join(terms[at : at + 2]) for at in range(0, len(terms), 2)]
        terms = [f"({term})" if " + " in term else term for term in terms]
    return terms[0]


# ---------------------------------------------------------------- arguments


def _table(dialect: Dialect, table: Any) -> str:
    parts = [table] if isinstance(table, str) else table
    if not isinstance(parts, Sequence) or not parts:
        reject("table", table, "is no name of a table", "pass a string, or a schema and a name")
    return ".".join(dialect.identifier(part, "table") for part in parts)


def _columns(forest: Forest, dialect: Dialect, columns: Any) -> list[str]:
    if columns is None:
        if forest.feature_names is None:
            reject("columns", None, "is needed: the forest has no feature_names", "pass the table's column names")
        columns = forest.feature_names
    if isinstance(columns, str) or not isinstance(columns, Sequence) or len(columns) != forest.n_features:
        problem = f"does not name the forest's {forest.n_features} columns"
        reject("columns", columns, problem, "pass one name of the table's columns for each, in their order")
    return [dialect.identifier(name, "columns") for name in columns]


def _words(dialect: Dialect, column: int, words: Sequence[Any]) -> list[str]:
    """Return the words of a column as constants, all of them text or all of them numbers."""
    argument = f"categories[{column}]"
    text = [isinstance(word, str) for word in words]
    if all(text):
        return [dialect.word(word, argument) for word in words]
    if any(text):
        reject(argument, words, "has text and numbers, which no column of a table has", "make all of them text")
    for word in words:
        if isinstance(word, int) and not -(2**53) <= word <= 2**53:
            reject(argument, word, "is an integer beyond 2**53, which a double may round", "make the words text")
    return [dialect.number(float(word)) for word in words]
