"""An exported query gives, in DuckDB, SQLite and PostgreSQL, every row the leaf and prediction of the forest."""

from __future__ import annotations

import math
import random
import sqlite3
import struct
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hardwood.errors import InvalidArgumentError
from hardwood.export import to_sql
from hardwood.export._sql_dialects import DIALECTS
from hardwood.forest import LEAF, THRESHOLD, Forest
from helpers.exports import assert_close, edge_rows, extreme_forest, finite, many_forests, rebuilt
from helpers.forests import complete_forest, random_forest, small_fields
from helpers.names import EVIL_NAMES, names
from helpers.runtimes import Database, PostgreSQL, in_words, postgresql_table, without_unknown_codes

duckdb = pytest.importorskip("duckdb")
METHODS = ("apply", "outputs", "predict", "predict_proba")
DATABASES = ("duckdb", "sqlite")


@pytest.fixture(scope="module", params=DATABASES)
def database(request: pytest.FixtureRequest) -> Iterator[Database]:
    """One of the databases in this process."""
    opened = Database(request.param)
    yield opened
    opened.connection.close()


def plain_types(forest: Forest) -> Forest:
    """Let all columns that are no categories be numbers: random rows hold no dates and no booleans."""
    kinds = ["category" if column in forest.categories else "float" for column in range(forest.n_features)]
    return rebuilt(forest, feature_types=kinds)


def wanted(forest: Forest, method: str, X: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        return np.asarray(getattr(forest, method)(X)).reshape(len(X), -1)


def compare(forest: Forest, X: np.ndarray, database: Database, rng: np.random.Generator) -> None:
    """Compare everything; outputs before the link agree to the last bit."""
    X = without_unknown_codes(forest, X)
    database.load(forest, in_words(forest, X, rng))
    for method in METHODS:
        if method == "predict_proba" and forest.classes is None:
            continue
        expected = wanted(forest, method, X)
        if method == "predict" and forest.classes is not None:
            labels = [row[0] for row in database(method)]
            with np.errstate(all="ignore"):
                unknown = np.isnan(forest.outputs(X)).any(axis=1) & (database.dialect == "sqlite")
            kept = [
                (label, each)
                for label, each, out in zip(labels, expected[:, 0].tolist(), unknown, strict=True)
                if not out
            ]
            assert [label for label, _ in kept] == [each for _, each in kept]
        elif method in ("apply", "outputs"):
            np.testing.assert_array_equal(database.numbers(method), expected)
        else:
            assert_close(database.numbers(method), expected, 1e-14)


def test_forests_of_every_kind_agree(database: Database) -> None:
    for rng, forest in many_forests(range(35)):
        forest = plain_types(forest)
        compare(forest, edge_rows(rng, forest, 20), database, rng)


def test_thresholds_of_every_magnitude_route_alike(database: Database) -> None:
    rng = np.random.default_rng(0)
    forest = extreme_forest(rng, 3, 5)
    compare(forest, edge_rows(rng, forest, 200), database, rng)


def test_trees_by_the_hundred(database: Database) -> None:
    rng = np.random.default_rng(0)
    for combine in ("sum", "mean", "softmax"):
        forest = random_forest(rng, n_trees=160, max_splits=2, combine=combine, n_features=4, task="regression")
        forest = plain_types(forest)
        compare(forest, edge_rows(rng, forest, 20), database, rng)


def test_a_chain_of_hundreds_of_splits(database: Database) -> None:
    nodes = 2 * 400 + 1
    split = (np.arange(nodes) % 2 == 0) & (np.arange(nodes) < nodes - 1)
    forest = Forest(
        tree_start=[0, nodes],
        kind=np.where(split, THRESHOLD, LEAF),
        left=np.where(split, np.arange(nodes) + 1, -1),
        right=np.where(split, np.arange(nodes) + 2, -1),
        feature=np.where(split, 0, -1),
        threshold=np.where(split, np.arange(nodes) / 2.0, 0.0),
        missing_left=split,
        leaf_values=np.arange(401.0)[:, None],
        n_features=1,
    )
    X = np.array([[-1.0], [0.0], [199.5], [399.0], [1e9], [np.nan]])
    compare(forest, X, database, np.random.default_rng(0))


def test_classes_by_the_hundred(database: Database) -> None:
    rng = np.random.default_rng(0)
    forest = complete_forest(rng, 2, 2, 3, 150, link="softmax", classes=[f"class {k}" for k in range(150)])
    compare(forest, rng.normal(size=(20, 3)), database, rng)


def test_postgresql_agrees(server: PostgreSQL) -> None:
    pairs = [(rng, plain_types(forest)) for rng, forest in many_forests(range(14))]
    rng = np.random.default_rng(0)
    pairs += [(rng, extreme_forest(rng, 2, 4)), (rng, random_forest(rng, n_trees=120, max_splits=2, combine="softmax"))]
    script, expected = [], []
    for number, (rng, forest) in enumerate(pairs):
        forest = plain_types(forest)
        X = without_unknown_codes(forest, edge_rows(rng, forest, 12))
        if forest.weight_feature is not None or forest.leaf_coef is not None:
            X = finite(X, 1e100)  # an overflow is an error there
            X[np.abs(X) < 1e-100] = 0.0  # and so is an underflow
        script.append(postgresql_table(f"data{number}", forest, in_words(forest, X, rng)))
        for method in METHODS:
            if method == "predict_proba" and forest.classes is None:
                continue
            columns = [f"c{column}" for column in range(forest.n_features)]
            query = to_sql(forest, "postgresql", table=f"data{number}", columns=columns, keep=["id"], method=method)
            script.append(f"SELECT * FROM ({query}) AS result ORDER BY id;")
            expected.append((method, forest, wanted(forest, method, X)))
    rows = iter(server("\n".join(script)))
    for method, forest, numbers in expected:
        found = [next(rows)[1:] for _ in range(len(numbers))]
        if method == "predict" and forest.classes is not None:
            kind: Any = forest.classes.dtype.type
            assert [kind(row[0]) for row in found] == numbers[:, 0].tolist()
        elif method in ("apply", "outputs"):
            np.testing.assert_array_equal(np.array(found, float), numbers)
        else:
            assert_close(np.array(found, float), numbers, 1e-14)
    assert next(rows, None) is None


# ---------------------------------------------------------------- numbers


def any_doubles(count: int) -> list[float]:
    chance = random.Random(0)
    drawn = [struct.unpack("d", struct.pack("Q", chance.getrandbits(64)))[0] for _ in range(count)]
    plain = [chance.gauss(0, 10) for _ in range(count)] + [round(chance.gauss(0, 10), 3) for _ in range(count)]
    ends = [5e-324, 2.2250738585072014e-308, 1.7976931348623157e308, 0.1, 2.0**53, 2.0**53 - 1, 2.0**62, 1e22, 1e23]
    ends += [0.0, -0.0, math.inf, -math.inf]
    return [number for number in drawn if not math.isnan(number)] + plain + ends


def test_numbers_are_read_as_the_doubles_they_are(database: Database) -> None:
    numbers = any_doubles(400)
    number = DIALECTS[database.dialect].number
    for first in range(0, len(numbers), 200):
        some = numbers[first : first + 200]
        query = f"SELECT {', '.join(map(number, some))}"
        assert list(database.connection.execute(query).fetchone()) == some


def test_numbers_in_postgresql_are_read_as_the_doubles_they_are(server: PostgreSQL) -> None:
    numbers = any_doubles(300)
    number = DIALECTS["postgresql"].number
    rows = server("".join(f"SELECT {number(each)};" for each in numbers))
    assert [float(row[0]) for row in rows] == numbers


def test_nan_in_a_table_is_missing(database: Database, server: PostgreSQL) -> None:
    """DuckDB and PostgreSQL have NaN, as the largest number; SQLite stores it as NULL."""
    forest = Forest(**small_fields())
    X = np.array([[np.nan, 0, 1], [1, 0, np.nan], [np.nan, 1, np.nan]])
    database.load(forest, in_words(forest, X, np.random.default_rng(0)))
    assert np.array_equal(database.numbers("apply"), forest.apply(X))
    rows = [["NaN", "red", 1], [1, "red", "NaN"], ["NaN", "green", "NaN"]]
    query = to_sql(forest, "postgresql", table="with_nan", columns=["c0", "c1", "c2"], keep=["id"], method="apply")
    fill = f"DROP TABLE IF EXISTS with_nan; {postgresql_table('with_nan', forest, rows)}"
    found = server(f"{fill} SELECT * FROM ({query}) AS result ORDER BY id;")
    assert [[int(cell) for cell in row[1:]] for row in found] == forest.apply(X).tolist()


def test_columns_of_other_types_are_compared_as_doubles(database: Database) -> None:
    forest = plain_types(Forest(**small_fields()))
    connection = database.connection
    connection.execute("DROP TABLE IF EXISTS data")
    connection.execute("CREATE TABLE data (id INTEGER, c0 FLOAT, c1 TEXT, c2 DECIMAL(9, 4))")
    connection.execute("INSERT INTO data VALUES (0, 0.5, 'red', 1.5), (1, 0.25, 'blue', 2), (2, 3, 'green', 9.25)")
    X = np.array([[0.5, 0, 1.5], [0.25, 2, 2], [3, 1, 9.25]])
    assert np.array_equal(database.numbers("apply", forest), forest.apply(X))


def test_words_compare_letter_by_letter_whatever_the_collation(database: Database) -> None:
    forest = Forest(**small_fields())
    connection = database.connection
    connection.execute("DROP TABLE IF EXISTS data")
    connection.execute("CREATE TABLE data (id INTEGER, c0 DOUBLE, c1 VARCHAR COLLATE NOCASE, c2 DOUBLE)")
    connection.execute("INSERT INTO data VALUES (0, 1, 'RED', 0), (1, 1, 'red', 0), (2, 1, 'Green', 0)")
    X = np.array([[1, np.nan, 0], [1, 0, 0], [1, np.nan, 0]])
    assert np.array_equal(database.numbers("apply", forest), forest.apply(X))


def test_text_in_a_column_of_numbers_is_missing_in_sqlite() -> None:
    database = Database("sqlite")
    forest = complete_forest(np.random.default_rng(0), 3, 3, 1)
    database.connection.execute("CREATE TABLE data (id INTEGER, c0)")
    database.connection.executemany("INSERT INTO data VALUES (?, ?)", [(0, "1e9"), (1, b"2"), (2, None), (3, 2)])
    X = np.array([[np.nan], [np.nan], [np.nan], [2.0]])
    assert np.array_equal(database.numbers("apply", forest), forest.apply(X))


def test_dates_and_booleans(server: PostgreSQL) -> None:
    """A date is seconds since 1970, as in a data frame."""
    import pandas as pd

    days = pd.to_datetime(["2020-01-01 00:00:00.0", "2021-03-04 05:06:07.25", None, "2030-12-31 23:59:59.5"])
    flags = [True, False, None, True]
    cut = pd.Timestamp("2021-03-04 05:06:07.25").timestamp()
    forest = Forest(
        tree_start=[0, 5], kind=[1, 0, 1, 0, 0], left=[1, -1, 3, -1, -1], right=[2, -1, 4, -1, -1],
        feature=[0, -1, 1, -1, -1], threshold=[cut, 0, 0.5, 0, 0], missing_left=[False, False, True, False, False],
        leaf_values=[[1.0], [2.0], [3.0]], n_features=2,
        feature_names=("day", "flag"), feature_types=("datetime", "bool"),
    )  # fmt: skip
    leaves = forest.apply(pd.DataFrame({"day": days, "flag": flags}))[:, 0].tolist()
    values = ", ".join(
        f"({k}, {'NULL' if pd.isna(day) else repr(str(day))}, {'NULL' if flag is None else flag})"
        for k, (day, flag) in enumerate(zip(days, flags, strict=True))
    )
    fill = f"CREATE TABLE dated (id integer, day timestamp, flag boolean); INSERT INTO dated VALUES {values};"
    connection = duckdb.connect()
    connection.execute(fill)
    query = to_sql(forest, "duckdb", table="dated", keep=["id"], method="apply")
    assert [row[1] for row in sorted(connection.execute(query).fetchall())] == leaves
    query = to_sql(forest, "postgresql", table="dated", keep=["id"], method="apply")
    rows = server(f"{fill} SELECT * FROM ({query}) AS result ORDER BY id;")
    assert [int(row[1]) for row in rows] == leaves
    lite = sqlite3.connect(":memory:")
    lite.execute("CREATE TABLE dated (id, day, flag)")
    seconds = [None if pd.isna(day) else day.timestamp() for day in days]
    lite.executemany("INSERT INTO dated VALUES (?, ?, ?)", zip(range(4), seconds, flags, strict=True))
    query = to_sql(forest, "sqlite", table="dated", keep=["id"], method="apply")
    assert [row[1] for row in sorted(lite.execute(query).fetchall())] == leaves


# ---------------------------------------------------------------- names

WRITABLE = tuple(name for name in EVIL_NAMES if "\0" not in name and "\ud800" not in name)


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def test_names_arrive_as_they_are(database: Database) -> None:
    """Tables, columns, words and labels may have any name."""
    count, connection = len(WRITABLE), database.connection
    rng = np.random.default_rng(0)
    forest = complete_forest(
        rng, 1, 6, count + 1, count, feature_names=(*WRITABLE, "word"), classes=WRITABLE, link="softmax"
    )
    kind = forest.kind.copy()
    split = np.flatnonzero(kind == THRESHOLD)[::2]
    kind[split] = 2
    feature = forest.feature.copy()
    feature[split] = count
    codes = [[] if k not in split else sorted(rng.choice(count, 5, replace=False)) for k in range(len(kind))]
    forest = rebuilt(
        forest, kind=kind, feature=feature, threshold=np.where(kind == THRESHOLD, forest.threshold, 0.0),
        categories={count: WRITABLE}, category_start=np.cumsum([0, *map(len, codes)]),
        category_codes=np.array([code for each in codes for code in each], np.int32),
    )  # fmt: skip
    table = "the\n\"table'; --"
    columns = ", ".join(
        f"{quoted(name)} {'TEXT' if name == 'word' else 'DOUBLE'}" for name in forest.feature_names or ()
    )
    connection.execute(f"DROP TABLE IF EXISTS {quoted(table)}")
    connection.execute(f"CREATE TABLE {quoted(table)} ({columns})")
    X = rng.normal(size=(60, count + 1))
    X[:, -1] = rng.integers(0, count, 60)
    X[:, 0] = np.arange(60) - 30  # tells the rows apart
    rows = [[*row[:-1], WRITABLE[int(row[-1])]] for row in X.tolist()]
    connection.executemany(f"INSERT INTO {quoted(table)} VALUES ({', '.join('?' * (count + 1))})", rows)
    for method in ("apply", "predict"):
        query = to_sql(forest, database.dialect, table=table, keep=[WRITABLE[0], WRITABLE[1]], method=method)
        found = sorted(connection.execute(query).fetchall())
        assert [row[2] for row in found] == wanted(forest, method, X)[:, 0].tolist()
    assert connection.execute(f"SELECT count(*) FROM {quoted(table)}").fetchone() == (60,)


def test_names_arrive_in_postgresql_as_they_are(server: PostgreSQL) -> None:
    short = [name for name in WRITABLE if len(name.encode()) <= 63]
    dialect = DIALECTS["postgresql"]
    # One row for each word; the answer comes back in hexadecimal, since psql would show some letters as something else.
    lines = [f"SELECT encode(convert_to({dialect.word(name, 'word')}, 'UTF8'), 'hex');" for name in WRITABLE]
    for conforming in ("on", "off"):
        found = server(
            f"SET standard_conforming_strings = {conforming}; SET escape_string_warning = off;" + "\n".join(lines)
        )
        assert [bytes.fromhex(row[0]).decode() for row in found] == list(WRITABLE)
    columns = ", ".join(f"{dialect.identifier(name, 'columns')} integer" for name in short)
    server(f"CREATE TABLE evil ({columns});")
    forest = complete_forest(np.random.default_rng(0), 1, 4, len(short), len(short), feature_names=short, classes=short)
    assert server(to_sql(forest, "postgresql", table=["public", "evil"], keep=short)) == []


@settings(max_examples=40)
@given(st.lists(names(), min_size=1, max_size=6))
def test_random_words_arrive_as_they_are(words: list[str]) -> None:
    writable = [
        word for word in words if "\0" not in word and not any("\ud800" <= letter <= "\udfff" for letter in word)
    ]
    for name, connect in (("sqlite", sqlite3.connect), ("duckdb", duckdb.connect)):
        dialect, connection = DIALECTS[name], connect(":memory:")
        for word in writable:
            assert connection.execute(f"SELECT {dialect.word(word, 'word')}").fetchone() == (word,)
            if word:
                alias = dialect.identifier(word, "columns")
                assert connection.execute(f"SELECT * FROM (SELECT 7 AS {alias}) AS t").description[0][0] == word
        connection.close()
    for word in set(words) - set(writable):
        with pytest.raises(InvalidArgumentError, match=r"NUL character|surrogate pair"):
            DIALECTS["duckdb"].word(word, "word")


# ---------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"dialect": "mysql"}, "dialect='mysql': is no dialect; use one of 'duckdb', 'sqlite', 'postgresql'"),
        ({"method": "fit"}, "method='fit': is no method"),
        ({"method": "predict_proba"}, "needs a forest with classes"),
        ({"columns": None}, "columns=None: is needed"),
        ({"columns": ["a"]}, "does not name the forest's 2 columns"),
        ({"columns": ["a", ""]}, "columns='': is no name"),
        ({"columns": ["a", "b\0"]}, "has a NUL character"),
        ({"columns": ["a", "\ud800"]}, "half of a surrogate pair"),
        ({"table": ""}, "table='': is no name"),
        ({"table": []}, r"table=\[\]: is no name of a table"),
        ({"keep": "id"}, "keep='id': is a string"),
        ({"columns": ["a", "b" * 64], "dialect": "postgresql"}, "longer than the 63 bytes"),
    ],
)
def test_bad_arguments_are_refused(arguments: dict[str, Any], message: str) -> None:
    forest = complete_forest(np.random.default_rng(0), 1, 1, 2)
    with pytest.raises(InvalidArgumentError, match=message):
        to_sql(forest, **{"columns": ["a", "b"], **arguments})


def test_what_sql_cannot_hold_is_refused_with_the_reason() -> None:
    rng = np.random.default_rng(0)
    weighed = random_forest(rng, n_trees=3, combine="softmax", n_features=1, kinds=[THRESHOLD])
    huge = rebuilt(weighed, leaf_weights=np.full(weighed.n_leaves, 400.0))
    with pytest.raises(InvalidArgumentError, match="leaf weights beyond 300"):
        to_sql(huge, columns=["a"])
    fields = small_fields()
    with pytest.raises(InvalidArgumentError, match="text and numbers"):
        to_sql(Forest(**{**fields, "categories": {1: ("red", 1, 2)}}))
    with pytest.raises(InvalidArgumentError, match=r"beyond 2\*\*53"):
        to_sql(Forest(**{**fields, "categories": {1: (2**53 + 1, 1, 2)}}))
    many = complete_forest(rng, 1700, 0, 1)
    with pytest.raises(InvalidArgumentError, match="1700 columns, and PostgreSQL allows 1600"):
        to_sql(many, "postgresql", columns=["a"], method="apply")
