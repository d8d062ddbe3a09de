import contextlib
import json
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from outlast.results import Result, SinkUnavailable, SinkUrlError, open_sink
from outlast.results.sqlite import SQLiteSink


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "results.db"


def test_the_default_table_can_be_read_with_sql(path: Path) -> None:
    with contextlib.closing(open_sink(f"sqlite:///{path}")) as sink:
        sink.store([Result("a", '{"n":1}')], token=7, version="v1")

    with contextlib.closing(sqlite3.connect(path)) as reader:
        rows = reader.execute("SELECT key, result, version, token FROM results").fetchall()
        columns = reader.execute("PRAGMA table_info(results)").fetchall()

    assert rows == [("a", '{"n":1}', "v1", 7)]
    assert [column[1] for column in columns if column[5]] == ["key"]


def test_what_a_lease_stores_again_stays_as_it_was(path: Path) -> None:
    with contextlib.closing(open_sink(f"sqlite:///{path}")) as sink:
        sink.store([Result("a", "1")], token=7, version="v1")

        sink.store([Result("a", "2")], token=7, version="v1")

        assert list(sink.results()) == [Result("a", "1")]


OLD_TABLE = """
CREATE TABLE "results" (
    key TEXT PRIMARY KEY NOT NULL,
    result TEXT NOT NULL,
    version TEXT NOT NULL,
    token INTEGER NOT NULL,
    stored_at TEXT NOT NULL
);
INSERT INTO results VALUES
    ('a', '"old"', 'v1', 4000000000000000, '2026-01-01T00:00:00+00:00'),
    ('b', '"old"', 'v1', 4000000000000000, '2026-01-01T00:00:00+00:00');
"""


def test_a_table_of_an_older_version_is_brought_up_to_date(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as older:
        older.executescript(OLD_TABLE)

    for _ in range(2):
        with contextlib.closing(open_sink(f"sqlite:///{path}")) as sink:
            assert sink.done(["a", "b"], version="v1") >= {"b"}
            # Its tokens were made by a clock, and count for nothing against those of a counter.
            assert sink.store([Result("a", "1")], token=1, version="v2", queue="one") == set()
            assert list(sink.results()) == [Result("a", "1"), Result("b", '"old"')]
            assert (sink.count(version="v1"), sink.count(version="v2")) == (1, 1)


def test_processes_that_open_an_old_table_at_once_bring_it_up_to_date_once(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as older:
        older.executescript(OLD_TABLE)
    start = threading.Barrier(6)

    def store(number: int) -> None:
        start.wait()
        with contextlib.closing(open_sink(f"sqlite:///{path}")) as sink:
            sink.store([Result(f"new-{number}", "1")], token=1, version="v2", queue="one")

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(store, range(6)))

    with contextlib.closing(open_sink(f"sqlite:///{path}")) as sink:
        assert (sink.count(), sink.count(version="v2")) == (8, 6)


def test_two_tables_of_a_file_are_two_sinks(path: Path) -> None:
    first = open_sink(f"sqlite:///{path}#first")
    second = open_sink(f"sqlite:///{path}#second")

    first.store([Result("a", "1")], token=1, version="v1")

    assert first.count() == 1
    assert second.count() == 0
    first.close()
    second.close()


@pytest.mark.parametrize("table", ['a"b', "a b", "1a", "sqlite_x", "outlast_items", "x" * 64, "ä"])
def test_a_name_that_cannot_be_a_table_is_refused(path: Path, table: str) -> None:
    with pytest.raises(SinkUrlError, match="Invalid table name"):
        open_sink(f"sqlite:///{path}#{table}")

    assert not path.exists()


def test_a_table_of_another_kind_is_refused_and_left_alone(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as mine:
        mine.execute("CREATE TABLE results (name TEXT)")
        mine.execute("INSERT INTO results VALUES ('precious')")
        mine.commit()

    with pytest.raises(SinkUrlError, match="'results' exists, but it is not a table of results"):
        open_sink(f"sqlite:///{path}")

    with contextlib.closing(sqlite3.connect(path)) as mine:
        assert mine.execute("SELECT * FROM results").fetchall() == [("precious",)]


def test_a_table_whose_key_is_not_its_primary_key_is_refused(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as mine:
        mine.execute("CREATE TABLE results (key, result, version, token, stored_at)")

    with pytest.raises(SinkUrlError, match="it is not a table of results"):
        open_sink(f"sqlite:///{path}")


def test_an_address_without_a_file_is_refused() -> None:
    with pytest.raises(SinkUrlError, match="does not name a file"):
        open_sink("sqlite:///:memory:")


def test_a_file_that_is_no_database_is_refused(path: Path) -> None:
    path.write_bytes(b"these are my notes, not a database" * 100)

    with pytest.raises(SinkUnavailable, match=r"Could not open .*: file is not a database"):
        open_sink(f"sqlite:///{path}")


def test_a_closed_sink_says_so(path: Path) -> None:
    sink = open_sink(f"sqlite:///{path}")
    sink.close()

    with pytest.raises(SinkUnavailable, match="is closed"):
        sink.count()


def test_results_are_read_page_by_page(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("outlast.results.sqlite._PAGE_ROWS", 3)
    with contextlib.closing(SQLiteSink(f"sqlite:///{path}")) as sink:
        stored = [Result(f"{number}", json.dumps(number)) for number in range(9)]
        sink.store(stored, token=1, version="v1")

        assert list(sink.results()) == stored


def test_thousands_of_keys_are_asked_for_at_once(path: Path) -> None:
    keys = [f"{number}" for number in range(50_000)]
    with contextlib.closing(open_sink(f"sqlite:///{path}")) as sink:
        sink.store([Result(key, "1") for key in keys[::2]], token=1, version="v1")

        assert sink.done(keys, version="v1") == set(keys[::2])
