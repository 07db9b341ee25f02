"""Exported source text, run: C by gcc through ctypes, SQL by the databases, Python by the interpreter."""

from __future__ import annotations

import contextlib
import csv
import ctypes
import os
import shutil
import sqlite3
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from hardwood.export import to_sql
from hardwood.forest import Forest

STRICT = ("-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic")
_C_TYPES = {"double": np.float64, "float": np.float32, "int32": np.int32, "int16": np.int16}


def compile_c(folder: Path, text: str, *flags: str, strict: bool = True, compiler: str = "gcc") -> ctypes.CDLL:
    """Compile C source text into a library and load it."""
    number = len(os.listdir(folder))
    source, library = folder / f"forest_{number}.c", folder / f"forest_{number}.so"
    source.write_text(text, encoding="ascii")
    warnings = STRICT if strict else ()
    command = [compiler, *warnings, "-shared", "-fPIC", *(flags or ("-O1",)), "-o", str(library), str(source), "-lm"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stderr[:2000]}\n{text[:2000]}"
    return ctypes.CDLL(str(library))


# A loop over `leaf`, to append to an export: a call from Python for each row and tree takes long.
C_APPLY = """
void forest_apply(const TYPE *x, size_t rows, int32_t *out) {
    size_t r;
    int tree;
    for (r = 0; r < rows; r++) {
        for (tree = 0; tree < FOREST_TREES; tree++) {
            *out++ = forest_leaf(x + r * FOREST_FEATURES, tree);
        }
    }
}
"""


class CForest:
    """An exported forest, called as the `Forest` is."""

    def __init__(self, library: ctypes.CDLL, forest: Forest, dtype: str = "double", prefix: str = "forest") -> None:
        self.library, self.forest, self.prefix = library, forest, prefix
        self.cell: Any = _C_TYPES[dtype]
        self.out: Any = np.int32 if dtype.startswith("int") else self.cell

    def __call__(self, name: str) -> Any:
        function = getattr(self.library, f"{self.prefix}_{name}")
        function.restype = ctypes.c_int32 if name in ("leaf", "class") else None
        return function

    def apply(self, X: np.ndarray) -> np.ndarray:
        rows, out = self._rows(X), np.full((len(X), self.forest.n_trees), 77, np.int32)
        function, trees = self("leaf"), range(self.forest.n_trees)
        if hasattr(self.library, f"{self.prefix}_apply"):
            self("apply")(self._at(rows), ctypes.c_size_t(len(rows)), self._at(out))
            return out
        return np.array([[function(self._at(row), tree) for tree in trees] for row in rows])

    def outputs(self, X: np.ndarray) -> np.ndarray:
        return self._fill("outputs", X, self.forest.n_outputs)

    def predict(self, X: np.ndarray) -> np.ndarray:
        return self._fill("predict", X, self._predictions())

    def predict_rows(self, X: np.ndarray) -> np.ndarray:
        rows, out = self._rows(X), np.full((len(X), self._predictions()), 77, self.out)
        self("predict_rows")(self._at(rows), ctypes.c_size_t(len(rows)), self._at(out))
        return out

    def classes(self, X: np.ndarray) -> np.ndarray:
        function = self("class")
        return np.array([function(self._at(row)) for row in self._rows(X)])

    def names(self, of: str, count: int) -> list[str]:
        table = (ctypes.c_char_p * count).in_dll(self.library, f"{self.prefix}_{of}_names")
        return [entry.decode("utf-8") for entry in table]

    def _predictions(self) -> int:
        return self.forest.n_outputs if self.forest.classes is None else len(self.forest.classes)

    def _fill(self, name: str, X: np.ndarray, width: int) -> np.ndarray:
        function, rows, out = self(name), self._rows(X), np.full((len(X), width), 77, self.out)
        for row, into in zip(rows, out, strict=True):
            function(self._at(row), self._at(into))
        return out

    def _rows(self, X: np.ndarray) -> np.ndarray:
        assert np.can_cast(X.dtype, self.cell, "same_kind")
        return np.ascontiguousarray(X, self.cell)

    @staticmethod
    def _at(array: np.ndarray) -> ctypes.c_void_p:
        return ctypes.c_void_p(array.ctypes.data)


# ---------------------------------------------------------------- rows as tables have them


def without_unknown_codes(forest: Forest, X: np.ndarray) -> np.ndarray:
    """Make what is no code of a category missing: words, unlike codes, cannot be 1.5."""
    X = X.copy()
    for column, words in forest.categories.items():
        X[~np.isin(X[:, column], np.arange(len(words))), column] = np.nan
    return X


def in_words(forest: Forest, X: np.ndarray, rng: np.random.Generator) -> list[list[Any]]:
    """Return rows with words for codes; a missing word is None or, at random, one that the vocabulary lacks."""
    rows = [list(row) for row in X.tolist()]
    for column, words in forest.categories.items():
        unknown = {"VARCHAR": "no such word", "BOOLEAN": None, "DOUBLE": -77.5}[sql_type(forest, column)]
        for row in rows:
            missing = None if rng.random() < 0.5 else unknown
            row[column] = missing if row[column] != row[column] else words[int(row[column])]
    return rows


def sql_type(forest: Forest, column: int) -> str:
    """Return the type of a column in a database."""
    words = forest.categories.get(column)
    if words is None:
        return "DOUBLE"
    return "VARCHAR" if isinstance(words[0], str) else "BOOLEAN" if isinstance(words[0], bool) else "DOUBLE"


class PythonForest:
    """An exported module, called as the `Forest` is."""

    def __init__(self, text: str) -> None:
        self.names: dict[str, Any] = {}
        exec(compile(text, "forest.py", "exec"), self.names)

    def __call__(self, function: str, rows: list[list[Any]]) -> np.ndarray:
        return np.array([self.names[function](row) for row in rows])


class Database:
    """A table `data` in DuckDB or SQLite, whose columns are `id` and `c0`, `c1`, ..."""

    def __init__(self, dialect: str) -> None:
        self.dialect = dialect
        if dialect == "sqlite":
            self.connection: Any = sqlite3.connect(":memory:")
        else:
            import duckdb

            self.connection = duckdb.connect()
            self.connection.execute("SET threads = 1")

    def load(self, forest: Forest, rows: list[list[Any]]) -> None:
        """Put rows in the table."""
        self.forest = forest
        columns = ", ".join(f"c{column} {sql_type(forest, column)}" for column in range(forest.n_features))
        self.connection.execute("DROP TABLE IF EXISTS data")
        self.connection.execute(f"CREATE TABLE data (id INTEGER, {columns})")
        places = ", ".join("?" * (forest.n_features + 1))
        numbered = [[number, *row] for number, row in enumerate(rows)]
        if self.dialect == "duckdb":
            self._load_duckdb(numbered)
        else:
            self.connection.executemany(f"INSERT INTO data VALUES ({places})", numbered)

    def _load_duckdb(self, rows: list[list[Any]]) -> None:
        """Load by column: row by row, DuckDB takes a millisecond each."""
        import pyarrow as pa

        kinds = {"DOUBLE": pa.float64(), "VARCHAR": pa.string(), "BOOLEAN": pa.bool_()}
        columns = list(zip(*rows, strict=True))
        arrays = [pa.array(columns[0], pa.int64())] if columns else []
        for column, cells in enumerate(columns[1:]):
            arrays.append(pa.array(cells, kinds[sql_type(self.forest, column)], from_pandas=False))
        self.connection.register("loaded", pa.table(arrays, names=[f"n{at}" for at in range(len(arrays))]))
        self.connection.execute("INSERT INTO data SELECT * FROM loaded")
        self.connection.unregister("loaded")

    def __call__(self, method: Any, forest: Forest | None = None) -> list[tuple[Any, ...]]:
        """Run the exported query of a method; return its columns without the key, ordered by it."""
        forest = self.forest if forest is None else forest
        columns = [f"c{column}" for column in range(forest.n_features)]
        query = to_sql(forest, self.dialect, columns=columns, keep=["id"], method=method)  # type: ignore[arg-type]
        rows = sorted(self.connection.execute(query).fetchall())
        return [row[1:] for row in rows]

    def numbers(self, method: Any, forest: Forest | None = None) -> np.ndarray:
        """Return the same as numbers, NULL as NaN."""
        return np.array([[np.nan if cell is None else cell for cell in row] for row in self(method, forest)], float)


class PostgreSQL:
    """A server of its own, in a folder of its own, reached through a socket in that folder."""

    def __init__(self, folder: Path, programs: Path, user: str | None) -> None:
        self.folder, self.programs, self.user = folder, programs, user
        data = str(folder / "data")
        self._run("initdb", "-D", data, "-U", "hardwood", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
        options = f"-c listen_addresses= -c unix_socket_directories={folder} -c fsync=off"
        self._run("pg_ctl", "-D", data, "-w", "-o", options, "-l", str(folder / "log"), "start")

    def _run(self, program: str, *arguments: str, text: str | None = None) -> str:
        command = [str(self.programs / program), *arguments]
        done = subprocess.run(
            command, input=text, capture_output=True, text=True, check=False, user=self.user, cwd=self.folder
        )
        assert done.returncode == 0, done.stderr[:2000]
        return done.stdout

    def __call__(self, script: str) -> list[list[str]]:
        """Run a script; return the rows of what it selects, as text, NULL being `None`."""
        flags = ("-h", str(self.folder), "-U", "hardwood", "-d", "postgres", "-v", "ON_ERROR_STOP=1")
        out = self._run("psql", *flags, "-q", "-X", "--csv", "-t", "-P", "null=None", text=script)
        return list(csv.reader(out.splitlines()))

    def stop(self) -> None:
        self._run("pg_ctl", "-D", str(self.folder / "data"), "-w", "-m", "immediate", "stop")


def postgresql_table(name: str, forest: Forest, rows: list[list[Any]]) -> str:
    """Return statements that make and fill a table, whose columns are `id` and `c0`, `c1`, ..."""
    kinds = {"DOUBLE": "double precision", "VARCHAR": "text", "BOOLEAN": "boolean"}
    columns = ", ".join(f"c{column} {kinds[sql_type(forest, column)]}" for column in range(forest.n_features))

    def cell(value: Any) -> str:
        return "" if value is None else '"' + str(value).replace('"', '""') + '"'

    lines = "".join(f"{number},{','.join(map(cell, row))}\n" for number, row in enumerate(rows))
    return f"CREATE TABLE {name} (id integer, {columns});\nCOPY {name} FROM STDIN (FORMAT csv);\n{lines}\\.\n"


@contextlib.contextmanager
def postgresql() -> Iterator[PostgreSQL | None]:
    """Start a server, or give None where PostgreSQL is not installed."""
    found = shutil.which("initdb")
    homes = [Path(found).resolve().parent] if found else sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    homes = [home for home in homes if (home / "pg_ctl").exists() and (home / "psql").exists()]
    if not homes:
        yield None
        return
    user = None
    folder = Path(tempfile.mkdtemp(prefix="pg"))  # a socket's path must be short
    try:
        if os.geteuid() == 0:  # the server refuses to run as root
            user = "nobody"
            shutil.chown(folder, user)
        server = PostgreSQL(folder, homes[-1], user)
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
