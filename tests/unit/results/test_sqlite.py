import contextlib
import json
import sqlite3
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


def test_what_a_lease_stores_again_replaces_what_it_stored(path: Path) -> None:
    with contextlib.closing(open_sink(f"sqlite:///{path}")) as sink:
        sink.store([Result("a", "1")], token=7, version="v1")

        sink.store([Result("a", "2")], token=7, version="v1")

        assert list(sink.results()) == [Result("a", "2")]


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
    with pytest.raises(SinkUrlError, match="cannot be the name of a table"):
        open_sink(f"sqlite:///{path}#{table}")

    assert not path.exists()


def test_a_table_of_another_kind_is_refused_and_left_alone(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as mine:
        mine.execute("CREATE TABLE results (name TEXT)")
        mine.execute("INSERT INTO results VALUES ('precious')")
        mine.commit()

    with pytest.raises(SinkUrlError, match="'results' is there, but it is not one for results"):
        open_sink(f"sqlite:///{path}")

    with contextlib.closing(sqlite3.connect(path)) as mine:
        assert mine.execute("SELECT * FROM results").fetchall() == [("precious",)]


def test_a_table_whose_key_is_not_its_primary_key_is_refused(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as mine:
        mine.execute("CREATE TABLE results (key, result, version, token, stored_at)")

    with pytest.raises(SinkUrlError, match="it is not one for results"):
        open_sink(f"sqlite:///{path}")


def test_an_address_without_a_file_is_refused() -> None:
    with pytest.raises(SinkUrlError, match="does not name a file"):
        open_sink("sqlite:///:memory:")


def test_a_file_that_is_no_database_is_refused(path: Path) -> None:
    path.write_bytes(b"these are my notes, not a database" * 100)

    with pytest.raises(SinkUnavailable, match="could not be opened: file is not a database"):
        open_sink(f"sqlite:///{path}")


def test_a_closed_sink_says_so(path: Path) -> None:
    sink = open_sink(f"sqlite:///{path}")
    sink.close()

    with pytest.raises(SinkUnavailable, match="was closed"):
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
